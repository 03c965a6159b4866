"""The pass driver: order, fixpoints, options, and what each of its switches does."""

import json
import random
import re

import pytest

from axla.core import dtypes as D
from axla.core import flags, trace
from axla.core.errors import InternalError, InvalidArgument, UnsupportedError
from axla.core.shape import Shape
from axla.hlo import Negate
from axla.ir import verify as ir_verify
from axla.ir.graph import Computation, Extra, Instruction
from axla.ir.op import OPS
from axla.passes import driver, pipelines
from axla.passes.steps import Pass, fixpoint, option_types, parse_passes
from axla.target.machine import cpu_target
from axla.text.parser import parse_hlo

TEXT = """HloModule f
ENTRY e {
  x = f32[4] parameter(0)
  one = f32[] constant(1)
  ones = f32[4] broadcast(one), dimensions={}
  a = f32[4] multiply(ones, x)
  b = f32[4] negate(a)
  c = f32[4] negate(b)
  d = f32[4] add(c, x)
  e = f32[4] multiply(ones, d)
  ROOT r = f32[4] add(e, e)
}
"""


@pytest.fixture
def module():
    return parse_hlo(TEXT)


def simplify(module, **changes):
    with flags.override(**changes):
        driver.run(module, pipelines.SIMPLIFY, name="simplify")


def test_passes_that_ask_for_a_target_are_given_it(module):
    asked = []
    step = Pass("ask", lambda module, target, depth=1: asked.append((target, depth)))
    driver.run(module, [step, step(depth=2)], cpu_target())
    assert asked == [(cpu_target(), 1), (cpu_target(), 2)]
    with pytest.raises(InvalidArgument, match="'fusion' needs a target, but driver.run got none"):
        driver.run(module, [pipelines.fusion])
    assert "target" not in option_types(pipelines.fusion)


def test_passes_with_a_default_target_run_without_one(module):
    asked = []

    def ask(module, target=None):
        asked.append(target)

    driver.run(module, [Pass("ask", ask)])
    driver.run(module, [Pass("ask", ask)], cpu_target())
    assert asked == [None, cpu_target()]


def test_passes_run_in_order(module):
    seen = []
    steps = [Pass(name, lambda m, name=name: seen.append(name)) for name in "abc"]
    driver.run(module, steps)
    assert seen == ["a", "b", "c"]


def test_options_reach_the_pass(module):
    seen = []
    step = Pass("p", lambda m, *, depth=1, name="": seen.append((depth, name)))
    driver.run(module, [step, step(depth=2), step(depth=2)(name="x")])
    assert seen == [(1, ""), (2, ""), (2, "x")]


def add_negation(module):
    entry = module.entry
    if len(entry.instructions) < 14:
        entry.set_root(entry.add(Negate(), (entry.root,)))


def test_fixpoint_runs_until_nothing_changes_and_not_once_more(module):
    runs = []
    driver.run(module, [fixpoint("g", Pass("grow", lambda m: (runs.append(1), add_negation(m))[0]))])
    assert len(module.entry.instructions) == 14
    assert len(runs) == 14 - 9 + 1  # the last one changes nothing


def test_fixpoint_does_not_repeat_a_pass_that_left_this_very_module_alone(module):
    runs = []
    driver.run(
        module, [fixpoint("g", Pass("once", add_negation), Pass("quiet", lambda m: runs.append(m.version)))]
    )
    assert len(runs) == len(set(runs))


def test_endless_fixpoint_is_reported(module):
    def change(m):
        m.entry.set_root(m.entry.root)

    with pytest.warns(UserWarning, match="still changes module 'f' after 25 rounds"):
        driver.run(module, [fixpoint("g", Pass("restless", change))])


def test_failure_names_pass_place_and_module(module):
    def fail(m):
        raise KeyError("oops")

    steps = [Pass("a", lambda m: None), fixpoint("g", Pass("b", lambda m: None), Pass("c", fail))]
    wanted = r"pass 'c' \(3 of 3, pipeline cpu\) failed on module 'f': KeyError: 'oops'"
    with pytest.raises(InternalError, match=wanted):
        driver.run(module, steps, cpu_target(), name="cpu")


def test_refusals_stay_what_they_are(module):
    def refuse(m):
        raise UnsupportedError("no such op here")

    with pytest.raises(UnsupportedError, match="no such op here") as raised:
        driver.run(module, [Pass("p", refuse)])
    assert "pass 'p' (1 of 1" in raised.value.__notes__[0]


def test_verify_finds_the_pass_that_breaks_the_module(module):
    def corrupt(m):
        m.entry.root.users[m.entry.root] = None

    with flags.override(verify=False):
        driver.run(module, [Pass("bad", corrupt)])
    with flags.override(verify=True), pytest.raises(InternalError, match="pass 'bad'"):
        driver.run(parse_hlo(TEXT), [Pass("bad", corrupt)])


def replaced_field(name, value):
    """A pass that sets a field of the root past the mutators, so that no version tells."""
    return Pass("bad", lambda m: setattr(m.entry.root, name, value(m)))


BROKEN = {
    "op": lambda m: OPS["tuple"](),
    "operands": lambda m: m.entry.root.operands * 2,
    "shape": lambda m: Shape(D.F64, (7,)),
    "users": lambda m: {m.entry.root: None},
    "computation": lambda m: None,
    "name": lambda m: m.entry.parameters[0].name,
    "extra": lambda m: Extra(control_predecessors=(m.entry.root,)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_verify_finds_what_is_changed_without_a_mutator(module, name):
    steps = [Pass("good", lambda m: None), replaced_field(name, BROKEN[name]), Pass("next", lambda m: None)]
    with flags.override(verify=True), pytest.raises(InternalError, match="pass 'bad'"):
        driver.run(module, steps)


def test_a_module_that_stays_as_it_is_is_verified_once(module, monkeypatch):
    seen = []
    monkeypatch.setattr(ir_verify, "verify", lambda module, inferred: seen.append(module))
    again, renamed = Pass("again", lambda m: None), Pass("renamed", lambda m: m.set_config(replica_count=1))
    with flags.override(verify=True):
        driver.run(module, [again, again, renamed, again])
    assert seen == [module, module]


def test_shapes_are_inferred_again_where_something_changed(module, monkeypatch):
    seen, rename = [], Pass("rename", lambda m: m.set_config(replica_count=1))
    monkeypatch.setattr(ir_verify, "verify_shape", lambda inst: seen.append(inst.name))

    def negate(m):
        root = m.entry.root
        m.entry.set_root(m.entry.add(OPS["negate"](), [root], name="last"))

    with flags.override(verify=True):
        driver.run(module, [rename])
        first = list(seen)
        seen.clear()
        driver.run(module, [rename, Pass("negate", negate), rename])
    assert first == seen[: len(first)] and "last" in seen
    called = [i.name for i in module.entry.instructions if i.op.computations()]
    assert sorted(seen[len(first) :]) == sorted(["last", *called])


def test_the_state_that_is_verified_has_all_fields(module):
    """Names the fields of the state that the verifier does not read."""
    state = ir_verify.state(module)
    for inst in module.entry.instructions:
        for name in {*Instruction.__slots__} - {"id", "users", "__weakref__"}:
            assert any(found is getattr(inst, name) for found in state), name
    unread = {"module", "id", "version", "cached_order", "cached_order_version", "facts", "__weakref__"}
    unread |= {"instructions", "parameters", "has_control_edges"}  # these one by one, by their instructions
    for name in {*Computation.__slots__} - unread:
        assert any(found is getattr(module.entry, name) for found in state), name


def test_disabled_pass_is_skipped(module):
    simplify(module, disable_hlo_passes=("algsimp",))
    assert "negate" in module.to_string()


def test_disabled_rule_is_skipped(module):
    simplify(module, disable_hlo_passes=("negate_negate",))
    text = module.to_string()
    assert "negate" in text and "broadcast" not in text


def test_required_pass_refuses(module):
    with (
        flags.override(disable_hlo_passes=("flatten-call-graph",)),
        pytest.raises(InvalidArgument, match="buffers"),
    ):
        driver.run(module, pipelines.LOWER)


def test_enable_only(module):
    simplify(module, enable_hlo_passes_only=("dce",))
    assert module.to_string() == parse_hlo(TEXT).to_string()


def test_fuel_stops_and_names_the_last_firing(capsys):
    sizes = []
    for fuel in range(6):
        module = parse_hlo(TEXT)
        simplify(module, fuel=fuel)
        sizes.append(len(module.entry.instructions))
        err = capsys.readouterr().err
        assert re.search(r"fuel: (ran out|\d left); last: (no rule fired|\w+ at %)", err), err
    assert sizes == sorted(sizes, reverse=True) and sizes[0] == 9 and sizes[-1] < 5


def test_fast_math_allows_more():
    text = "ENTRY e { x = f32[] parameter(0) z = f32[] constant(0) ROOT r = f32[] add(x, z) }"
    exact, fast = parse_hlo(text), parse_hlo(text)
    simplify(exact)
    simplify(fast, fast_math=True)
    assert "add" in exact.to_string() and "add" not in fast.to_string()


def test_timings(module, capsys):
    simplify(module, timings=True)
    err = capsys.readouterr().err
    assert re.search(r"\d ms +\d+ runs +9 -> \d+ +algsimp", err)
    assert "1 firings of negate_negate" in err


def test_trace_has_a_span_per_pass(module, tmp_path):
    with trace.recording() as events:
        simplify(module)
    names = [e["name"] for e in events]
    assert "algsimp" in names and "pipeline simplify" in names
    algsimp = next(e for e in events if e["name"] == "algsimp")
    assert algsimp["args"]["changed"] and algsimp["dur"] > 0


def test_trace_file(module, tmp_path, monkeypatch):
    file = tmp_path / "trace.json"
    monkeypatch.setattr(trace, "_registered", True)  # do not write again at exit
    with flags.override(trace=str(file)), trace.span("outer", step=3):
        pass
    trace.write(str(file))
    event = json.loads(file.read_text())["traceEvents"][-1]
    assert (event["name"], event["ph"], event["args"]) == ("outer", "X", {"step": 3})


# Dumps


def names_in(folder):
    return sorted(re.sub(r"module_\d{4}", "module_N", p.name) for p in folder.iterdir())


def test_dump_before_and_after(module, tmp_path):
    with flags.override(dump_to=str(tmp_path)):
        driver.run_cpu(module, cpu_target())
    assert names_in(tmp_path) == [
        "module_N.f.before_optimizations.txt",
        "module_N.f.cpu_after_optimizations.txt",
    ]
    before = next(tmp_path.glob("*before_opt*")).read_text()
    assert parse_hlo(before).to_string() == parse_hlo(TEXT).to_string()


def test_dump_of_passes_that_changed_something(module, tmp_path):
    simplify(module, dump_to=str(tmp_path), dump_hlo_pass_re="algsimp")
    found = names_in(tmp_path)
    assert any(
        re.fullmatch(r"module_N\.f\.0003\.simplification\.after_algsimp\.before_constant-folding\.txt", n)
        for n in found
    )
    assert not any("after_dce" in n for n in found)


def test_dump_numbers_differ_by_module(tmp_path):
    with flags.override(dump_to=str(tmp_path)):
        for _ in range(2):
            driver.run_cpu(parse_hlo(TEXT), cpu_target())
    assert len(list(tmp_path.glob("*before_optimizations.txt"))) == 2


def test_dump_as_dot(module, tmp_path):
    with flags.override(dump_to=str(tmp_path), dump_hlo_as_dot=True):
        driver.run_cpu(module, cpu_target())
    assert names_in(tmp_path) == [
        "module_N.f.before_optimizations.dot",
        "module_N.f.cpu_after_optimizations.dot",
    ]
    with flags.override(dump_to=str(tmp_path), dump_hlo_as_dot=True, dump_hlo_as_text=True):
        driver.run_cpu(parse_hlo(TEXT), cpu_target())
    assert "module_N.f.before_optimizations.txt" in names_in(tmp_path)


def test_dump_as_proto(module, tmp_path):
    from axla.proto import read

    wanted = module.to_string()
    with flags.override(dump_to=str(tmp_path), dump_hlo_as_proto=True):
        driver.run_cpu(module, cpu_target())
    assert names_in(tmp_path) == [
        "module_N.f.before_optimizations.hlo.pb",
        "module_N.f.cpu_after_optimizations.hlo.pb",
    ]
    [before] = tmp_path.glob("*before_optimizations.hlo.pb")
    assert read(before.read_bytes()).to_string() == wanted


def test_dump_of_some_modules(module, tmp_path):
    with flags.override(dump_to=str(tmp_path), dump_hlo_module_re="^g"):
        driver.run_cpu(module, cpu_target())
    assert names_in(tmp_path) == []


def test_dump_to_standard_output(module, capsys):
    with flags.override(dump_to="-"):
        driver.run_cpu(module, cpu_target())
    assert "before_optimizations.txt\nHloModule f" in capsys.readouterr().out


def test_dump_of_the_module_before_a_failing_pass(module, tmp_path):
    def fail(m):
        add_negation(m)
        raise ValueError("half done")

    with (
        flags.override(dump_to=str(tmp_path)),
        pytest.raises(InternalError, match=r"\(before it: (.*failed\.txt)\)") as e,
    ):
        driver.run(module, [Pass("p", fail)])
    path = re.search(r"before it: (.*?)\)", str(e.value))[1]
    with open(path) as file:
        assert parse_hlo(file.read()).to_string() == parse_hlo(TEXT).to_string()


def test_dump_where_nothing_can_be_written(module, tmp_path):
    (tmp_path / "file").write_text("")
    with flags.override(dump_to=str(tmp_path / "file")), pytest.raises(InvalidArgument, match="cannot write"):
        driver.run_cpu(module, cpu_target())


def test_dump_of_a_module_with_a_path_for_a_name(tmp_path):
    module = parse_hlo(TEXT.replace("HloModule f", "HloModule f"))
    module.name = "../../" + "a" * 500
    with flags.override(dump_to=str(tmp_path)):
        driver.run_cpu(module, cpu_target())
    assert len(list(tmp_path.iterdir())) == 2


# Shuffling


def test_shuffle_permutes_within_dependence(module):
    entry = module.entry
    orders = set()
    for seed in range(8):
        driver.shuffle(module, random.Random(seed))
        done = set()
        for inst in entry.instructions:
            assert done.issuperset(inst.operands)
            done.add(inst)
        orders.add(tuple(i.name for i in entry.instructions))
    assert len(orders) > 1


def test_shuffled_passes_give_as_small_a_module():
    plain, shuffled = parse_hlo(TEXT), parse_hlo(TEXT)
    simplify(plain)
    simplify(shuffled, shuffle=3)
    assert len(plain.entry.instructions) == len(shuffled.entry.instructions)


# The command line


def parse(text):
    return parse_passes(text, pipelines.PASSES, pipelines.PIPELINES)


def test_parse_passes():
    assert parse("dce, algsimp{is_layout_sensitive=true},cse") == (
        pipelines.dce, pipelines.algsimp(is_layout_sensitive=True), pipelines.cse,
    )  # fmt: skip
    assert str(parse("algsimp{is_layout_sensitive}")[0]) == "algsimp{is_layout_sensitive=true}"


def test_parse_pipelines_and_groups():
    assert parse("simplify") == pipelines.SIMPLIFY
    assert parse("simplification,dce") == (*pipelines.SIMPLIFY, pipelines.dce)
    assert parse("") == ()


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("algsim", "there is no pass 'algsim'; did you mean algsimp?"),
        ("zzz", "there is no pass 'zzz'; known: algsimp"),
        (
            "algsimp{is_layout=true}",
            "pass algsimp has no option 'is_layout'; did you mean is_layout_sensitive?",
        ),
        ("dce{x=1}", "pass dce has no option 'x'; it has: none"),
        ("algsimp{is_layout_sensitive=2}", "wanted true or false"),
        ("dce;cse", "bad text 'dce;cse'"),
        ("cpu{x=1}", "cpu is a pipeline and takes no options"),
    ],
)
def test_parse_errors(text, wanted):
    with pytest.raises(InvalidArgument, match=re.escape(wanted)):
        parse(text)
