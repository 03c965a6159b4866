"""`axla reduce`: programs that fail become small, and keep failing."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import axla
from axla.ir.clone import clone_module
from axla.tools import main as command
from axla.tools import shrink
from axla.tools.reduce import Reducer, fails_like, instruction_count, reduce
from axla.tools.trial import Question, Trials
from axla.tools.trial_options import run_line

PROGRAM = """HloModule long
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
doubled {
  v = f32[8,16] parameter(0)
  ROOT w = f32[8,16] add(v, v)
}
body {
  s = (s32[], f32[8,16], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,16] get-tuple-element(s), index=1
  u = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[8,16] cosine(x)
  z = f32[8,16] add(y, x)
  ROOT t = (s32[], f32[8,16], f32[4]) tuple(next, z, u)
}
condition {
  s = (s32[], f32[8,16], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(6)
  ROOT r = pred[] compare(i, n), direction=LT
}
ENTRY main {
  p = f32[8,16] parameter(0)
  q = f32[4] parameter(1)
  zero = s32[] constant(0)
  c = f32[8,16] call(p), to_apply=doubled
  init = (s32[], f32[8,16], f32[4]) tuple(zero, c, q)
  loop = (s32[], f32[8,16], f32[4]) while(init), condition=condition, body=body
  x = f32[8,16] get-tuple-element(loop), index=1
  flat = f32[128] reshape(x)
  s = f32[128] sine(flat)
  e = f32[128] exponential(s)
  z = f32[] constant(0)
  total = f32[] reduce(e, z), dimensions={0}, to_apply=sum
  neg = f32[128] negate(e)
  ROOT out = (f32[], f32[128], f32[4]) tuple(total, neg, q)
}
"""


def has(*opcodes):
    def holds(module):
        found = {inst.opcode for c in module.computations for inst in c.instructions}
        return found.issuperset(opcodes)

    return holds


def test_what_the_predicate_does_not_need_goes():
    module = axla.parse(PROGRAM)
    before = module.to_string()
    small = reduce(module, has("sine"))
    assert instruction_count(small) == 2
    assert {inst.opcode for inst in small.entry.instructions} == {"parameter", "sine"}
    assert small.entry.root.shape.dims in ((1,), ())
    assert module.to_string() == before
    assert axla.parse(small.to_string()).to_string() == small.to_string()


def test_a_loop_keeps_what_it_needs():
    small = reduce(axla.parse(PROGRAM), has("while", "cosine"))
    [loop] = [i for c in small.computations for i in c.instructions if i.opcode == "while"]
    elements = loop.shape.elements if loop.shape.is_tuple else (loop.shape,)
    assert len(elements) <= 2, "what the loop carried unchanged is gone"
    assert instruction_count(small) < instruction_count(axla.parse(PROGRAM)) / 2
    assert "call" not in {i.opcode for c in small.computations for i in c.instructions}


def test_trips_become_fewer():
    def long_enough(module):
        found = [i for c in module.computations for i in c.instructions if i.opcode == "constant"]
        limits = [int(i.op.literal.item()) for i in found if i.shape.dtype.name == "s32"]
        return has("while")(module) and max(limits, default=0) >= 3

    small = reduce(axla.parse(PROGRAM), long_enough)
    assert "constant(3)" in small.to_string() and "constant(6)" not in small.to_string()


def test_sizes_shrink_through_reshapes():
    def large_enough(module):
        flat = [i for i in module.entry.instructions if i.opcode == "reshape"]
        return bool(flat) and flat[0].operands[0].shape.rank == 2 and flat[0].shape.size >= 6

    small = reduce(axla.parse(PROGRAM), large_enough)
    [flat] = [i for i in small.entry.instructions if i.opcode == "reshape"]
    assert 6 <= flat.shape.size <= 16


def test_every_candidate_is_valid():
    seen, tries = [], []

    def predicate(module):
        from axla.ir.verify import verify

        verify(module)
        axla.parse(module.to_string(print_large_constants=True))
        if has("cosine", "reduce")(module):
            seen.append(shrink.size_of(module))
        tries.append(module)
        return has("cosine", "reduce")(module)

    small = reduce(axla.parse(PROGRAM), predicate)
    assert len(seen) > 5 and shrink.size_of(small) == min(seen)
    assert len(tries) < 20 * instruction_count(axla.parse(PROGRAM))


def test_it_ends_with_the_best_so_far():
    calls = []

    def interrupted(module):
        calls.append(module)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return has("sine")(module)

    reducer = Reducer(axla.parse(PROGRAM), interrupted)
    best = reducer.run()
    assert reducer.ended == "interrupted" and len(calls) == 8
    assert has("sine")(best) and instruction_count(best) < instruction_count(axla.parse(PROGRAM))
    late = Reducer(axla.parse(PROGRAM), has("sine"), seconds=0.0)
    assert late.run() is late.best and late.ended == "out of time"


DEAD = """HloModule dead
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  n = f32[4] negate(x)
  dead = f32[4] sine(n)
  ROOT t = (s32[], f32[4]) tuple(next, x)
}
condition {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(6)
  ROOT r = pred[] compare(i, n), direction=LT
}
ENTRY main {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  a = f32[4] add(p, q)
  dead = f32[4] cosine(a)
  more = f32[4] multiply(dead, q)
  zero = s32[] constant(0)
  init = (s32[], f32[4]) tuple(zero, a)
  w = (s32[], f32[4]) while(init), condition=condition, body=body
  v = f32[4] get-tuple-element(w), index=1
  ROOT m = f32[4] maximum(v, a)
}
"""


@pytest.mark.parametrize("opcode", ("cosine", "sine"))
def test_dead_code_stays_if_the_failure_depends_on_it(opcode):
    """In the entry and in a loop. The other dead code goes, and so does what is not dead."""

    def fails(module):
        return any(i.opcode == opcode for c in module.computations for i in c.instructions)

    small = reduce(axla.parse(DEAD), fails)
    opcodes = [i.opcode for c in small.computations for i in c.instructions]
    assert opcode in opcodes
    assert not {"cosine", "sine", "multiply", "maximum", "add"} - {opcode} & set(opcodes)
    assert len(opcodes) == (3 if opcode == "cosine" else 6), small.to_string()


CALLS = """HloModule calls
f { x = f32[4] parameter(0)
  ROOT t = f32[4] tan(x) }
ENTRY main { p = f32[4] parameter(0)
  n = f32[4] negate(p)
  dead = f32[4] cosine(n)
  c = f32[4] call(n), to_apply=f
  w = f32[4] abs(n), control-predecessors={c}
  ROOT t = (f32[4], f32[4], f32[4]) tuple(n, c, w) }
"""


def test_calls_are_inlined_and_results_dropped_beside_dead_code():
    def fails(module):
        live = [module.entry, *(c for i in module.entry.instructions for c in i.op.computations())]
        return {"cosine", "tan"} <= {i.opcode for c in live for i in c.instructions}

    small = reduce(axla.parse(CALLS), fails)
    opcodes = [i.opcode for c in small.computations for i in c.instructions]
    assert sorted(opcodes) == ["cosine", "parameter", "tan"], small.to_string()


def test_what_does_not_fail_is_refused():
    with pytest.raises(axla.InvalidArgument, match="module long does not fail as it is"):
        reduce(axla.parse(PROGRAM), has("tan"))


def test_dropped_instructions_leave_no_control_edges():
    text = """HloModule m
ENTRY e {
  p = f32[2] parameter(0)
  a = f32[2] sine(p)
  ROOT b = f32[2] cosine(p), control-predecessors={a}
}"""
    module = axla.parse(text)
    small = reduce(module, has("cosine"))
    assert "control" not in small.to_string() and instruction_count(small) == 2


def test_aliases_stay_with_results_and_parameters_that_are_needed():
    text = """HloModule m, input_output_alias={ {1}: (2, {}, must-alias), {2}: (1, {}, may-alias) }
ENTRY e {
  p = f32[2] parameter(0)
  q = f32[2] parameter(1)
  r = f32[2] parameter(2)
  a = f32[2] sine(p)
  b = f32[2] cosine(r)
  c = f32[2] tan(q)
  ROOT t = (f32[2], f32[2], f32[2]) tuple(a, b, c)
}"""

    def must(module):
        return has("cosine")(module) and any(alias.must for alias in module.config.aliases)

    small = reduce(axla.parse(text), must)
    assert instruction_count(small) == 2 and small.entry.root.opcode == "cosine"
    assert [(a.output, a.parameter, a.must) for a in small.config.aliases] == [((), 0, True)]


def test_carries_are_dropped_one_by_one():
    module = axla.parse(PROGRAM)
    made = list(shrink.carries(module))
    assert made
    for candidate in made:
        axla.parse(candidate.to_string(print_large_constants=True))


def test_resized_modules_keep_slices_inside():
    text = """HloModule m
ENTRY e {
  p = f32[20] parameter(0)
  s = f32[8] slice(p), slice={[10:18]}
  ROOT r = f32[4] slice(s), slice={[0:8:2]}
}"""
    made = shrink.resized(axla.parse(text), {20: 4, 8: 3, 4: 2})
    assert made is not None
    assert "slice={[1:4]}" in made.to_string() and "slice={[0:3:2]}" in made.to_string()
    assert shrink.resized(axla.parse(PROGRAM), {8: 3}) is None, "the reshape does not fit"


WRONG = """
from axla.hlo.elementwise import Add
from axla.hlo.transcendental import Sine
from axla.passes.rewrite import rule

@rule(Sine)
def wrong_on_purpose(root, x):
    '''sin(x) => x + x'''
    return Add()(x, x)
"""
ABORTS = """
import os
from axla.passes.simplify import cse as home
from axla.passes import pipelines
from dataclasses import replace

def aborts(module):
    if any(i.opcode == "cosine" for c in module.computations for i in c.instructions):
        os.abort()

object.__setattr__(pipelines.cse, "home", aborts)
"""


def test_a_wrong_rule_leaves_a_test(tmp_path, capsys):
    program, load, out = tmp_path / "f.hlo", tmp_path / "wrong.py", tmp_path / "small.hlo"
    program.write_text(PROGRAM)
    load.write_text(WRONG)
    assert command.main(["reduce", str(program), "--load", str(load), "-o", str(out)]) == 0
    text = out.read_text()
    first, second, *_ = text.splitlines()
    assert first.startswith("// RUN: axla check %s --input-kinds=ordinary,special --load=")
    assert second.startswith("// differs: output 0")
    assert text.count(" = ") == 2 and "sine(" in text
    assert "17 instructions before" not in capsys.readouterr().out


SHORT = """HloModule short

ENTRY main {
  x = f32[4] parameter(0)
  n = f32[4] negate(x)
  c = f32[4] cosine(n)
  ROOT a = f32[4] add(c, x)
}
"""


def test_a_crash_is_reduced_in_a_child(tmp_path, capfd):
    program, load, out = tmp_path / "f.hlo", tmp_path / "aborts.py", tmp_path / "small.hlo"
    program.write_text(SHORT)  # every candidate that fails ends a process
    load.write_text(ABORTS)
    given = ["reduce", str(program), "--crash", "--load", str(load), "-o", str(out)]
    assert command.main(given) == 0
    text = out.read_text()
    assert "cosine(" in text and text.count(" = ") == 2
    assert "// crash: SIGABRT, compile" in text and "aborts" in text


def test_a_script_decides(tmp_path, capsys):
    program, script = tmp_path / "f.hlo", tmp_path / "check.py"
    program.write_text(PROGRAM)
    script.write_text("import sys\nsys.exit('exponential(' not in open(sys.argv[1]).read())\n")
    assert command.main(["reduce", str(program), "--script", f"{sys.executable} {script}"]) == 0
    out = capsys.readouterr().out
    assert out.count(" = ") == 2 and "exponential(" in out
    assert out.startswith(f"// RUN: {sys.executable} {script} %s\n")


@pytest.mark.parametrize("script, message", [("'", "No closing quotation"), ("", "wanted a command")])
def test_a_script_that_is_no_command(tmp_path, capsys, script, message):
    program = tmp_path / "f.hlo"
    program.write_text(PROGRAM)
    assert command.main(["reduce", str(program), "--script", script]) == 1
    assert message in capsys.readouterr().err


def test_the_command_of_a_test_names_its_reference():
    options = command.parser("reduce").parse_args(["reduce", "f.hlo", "--reference", "one-lane"])
    assert run_line(options).startswith("axla run %s --reference=one-lane ")


def test_children_load_nothing_from_where_they_are(tmp_path, monkeypatch):
    for name in ("pickle", "llvmlite", "struct"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path)
    with Trials(60.0) as trials:
        assert trials.ask(PROGRAM, Question()).kind == "agrees"


def test_what_agrees_is_not_reduced(tmp_path, capsys):
    program = tmp_path / "f.hlo"
    program.write_text(PROGRAM)
    assert command.main(["reduce", str(program)]) == 1
    assert "long does not fail as it is: agrees" in capsys.readouterr().err


def test_a_hang_is_an_outcome():
    with Trials(2.0) as trials:
        loop = PROGRAM.replace("direction=LT", "direction=GE").replace("constant(6)", "constant(0)")
        outcome = trials.ask(loop, Question(reference=None, deadline=600.0))
    assert outcome.kind == "hang" and outcome.failed


def test_given_inputs_are_cut():
    module = axla.parse("HloModule m\nENTRY e { p = f32[4] parameter(0)\n ROOT r = f32[4] log(p) }")
    given = (("p", np.array([-1, 1, 1, 1], np.float32)), ("q", np.zeros(3, np.float32)))
    with Trials(60.0) as trials:
        question = Question(inputs=given, kinds=("ordinary",))
        assert trials.ask(module, question).kind == "agrees"
        predicate = fails_like(trials, question, trials.ask(module, question))
        assert predicate(clone_module(module))
