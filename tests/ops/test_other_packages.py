"""Ops of installed packages: when they are loaded, what is refused, and where they go.

docs/test_adding_an_op.py runs a package as a user writes it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import axla
from axla import proto
from axla.codegen.host import host_target
from axla.core import cache
from axla.core.dtypes import F32, F64
from axla.core.plugins import installed
from axla.cpu import programs
from axla.cpu.programs import program_key
from axla.hlo.family import Elementwise
from axla.ir.graph import Op
from axla.ir.op import OPS, declared, op
from axla.ir.structure import Parameter
from axla.passes import driver
from axla.passes.pipelines import PASSES
from axla.stablehlo import export_text
from axla.tools.main import main

SOURCE = '''
import enum
import numpy as np
from axla.builder import ops
from axla.core.shape import Shape, TupleShape
from axla.hlo.family import FLOAT, Elementwise
from axla.ir.op import Op, attr, op


class Side(enum.StrEnum):
    BELOW = "BELOW"
    ABOVE = "ABOVE"


@op("cut", operands="operand limit")
class Cut(Elementwise):
    """Nothing beyond a limit."""
    side: Side = attr(required=True)
    steps: tuple[int, ...] = ()
    soft: bool = False
    times: int = 1
    rate: float = 0.5
    note: str = ""
    commutative = associative = True

    def evaluate(self, operand, limit):
        return (np.minimum if self.side == "ABOVE" else np.maximum)(operand, limit)

    def element(self, e, inst, index):
        a, b = (e(x, index) for x in inst.operands)
        return e.values.binary("minimum" if self.side == "ABOVE" else "maximum", a, b)


@op("both-ends", operands="operand")
class BothEnds(Op):
    """The first and the last element."""

    def infer(self, operand):
        return TupleShape([operand.with_dims(()), operand.with_dims(())])

    def evaluate(self, operand):
        return operand[0], operand[-1]

    def expand(self, operand):
        return operand[0], operand[-1]


@op("range-of", operands="operand")
class RangeOf(Op):
    """The last element without the first one."""

    def infer(self, operand):
        return operand.with_dims(())

    def evaluate(self, operand):
        return operand[-1] - operand[0]

    def expand(self, operand):
        ends = operand.builder.add(BothEnds(), [operand])
        return ends[1] - ends[0]


@op("bare", operands="operand")
class Bare(Elementwise):
    """Only the interpreter knows it."""
    def evaluate(self, operand):
        return operand


@op("circle", operands="operand")
class Circle(Op):
    """What expands to itself."""

    def infer(self, operand):
        return operand

    def expand(self, operand):
        return operand.builder.add(self, [operand])


@op("liar", operands="operand")
class Liar(Op):
    """What expands to something else than it infers."""

    def infer(self, operand):
        return operand

    def expand(self, operand):
        return operand, operand
'''
BROKEN = """
from axla.hlo.family import Elementwise
from axla.ir.op import op

@op("half", operands="operand")
class Half(Elementwise):
    pass

raise OSError("no such file")
"""
ENTRIES = """[axla.ops]
cut = ops_of_a_test:Cut
both-ends = ops_of_a_test:BothEnds
range-of = ops_of_a_test:RangeOf
bare = ops_of_a_test:Bare
circle = ops_of_a_test:Circle
liar = ops_of_a_test:Liar
half = broken_ops_of_a_test:Half
exits = leaving_op_of_a_test:Exits
missing = ops_of_a_test:Missing
misnamed = ops_of_a_test:Cut
odd = builtins:dict
add = broken_ops_of_a_test:Half
"""


@pytest.fixture(autouse=True)
def site(tmp_path, monkeypatch) -> Path:
    """The folder of an installed package; what it declares is forgotten afterwards."""
    before = dict(OPS)
    (tmp_path / "ops_of_a_test.py").write_text(SOURCE)
    (tmp_path / "leaving_op_of_a_test.py").write_text("raise SystemExit(3)")
    (tmp_path / "broken_ops_of_a_test.py").write_text(BROKEN)
    facts = tmp_path / "ops_of_a_test-2.5.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: ops-of-a-test\nVersion: 2.5\n")
    (facts / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    OPS.clear()
    OPS.update(before)
    sys.modules.pop("ops_of_a_test", None)
    cache.package.cache_clear()


def of_one(instruction: str, shape: str = "f32[4]") -> str:
    return f"HloModule m\nENTRY e {{ x = {shape} parameter(0)\n  ROOT r = {shape} {instruction} }}"


def run_python(code: str) -> str:
    """Runs Python with the package on its path; returns its output."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_is_loaded_before_its_name_is_met():
    code = (
        "import sys, axla; from axla.ir.op import OPS\n"
        f"axla.check({of_one('add(x, x)')!r})\n"
        "print('ops_of_a_test' in sys.modules, 'broken_ops_of_a_test' in sys.modules, 'cut' in OPS)\n"
        f"axla.check({of_one('cut(x, x), side=ABOVE')!r})\n"
        "print('ops_of_a_test' in sys.modules, 'broken_ops_of_a_test' in sys.modules)\n"
    )
    assert run_python(code) == "False False False\nTrue False\n"


def test_names_that_are_declared_are_not_looked_up(monkeypatch):
    """Nor are halves of asynchronous calls under the name of what they call: a text may have thousands."""
    lookups = []
    monkeypatch.setattr("axla.core.plugins.installed", lambda group: lookups.append(group) or {})
    halves = "s = ((f32[4]), f32[4], u32[]) negate-start(x)\n  d = f32[4] negate-done(s)\n"
    text = of_one("negate(d)").replace("ROOT", halves + "  ROOT")
    axla.parse(proto.to_proto(axla.parse(text)))
    assert not lookups


def test_a_package_that_fails_names_itself_and_breaks_no_other():
    wanted = r"op 'half' of the package ops-of-a-test 2.5 cannot be loaded: OSError\('no such file'\)"
    for _ in range(2):
        with pytest.raises(axla.UnsupportedError, match=wanted):
            axla.parse(of_one("half(x)"))
        assert "half" not in OPS
    with pytest.raises(axla.UnsupportedError, match=r"op 'exits' of .* cannot be loaded: SystemExit\(3\)"):
        declared("exits")
    with pytest.raises(axla.UnsupportedError, match=r"op 'missing' of the package ops-of-a-test 2.5 cannot"):
        declared("missing")
    axla.check(of_one("cut(x, x), side=BELOW")).raise_if_different()


def test_they_are_listed_with_their_package(capsys):
    assert main(["ops"]) == 0
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    found = {name: (package, about) for name, package, *about in filter(None, lines)}
    assert found["cut"][0] == found["bare"][0] == "ops_of_a_test" and found["add"][0] == "axla"
    assert found["half"][0] == "-" and "OSError" in found["half"][1][0]
    with pytest.raises(axla.ParseError, match="'bar' is not an opcode; did you mean bare?"):
        axla.parse(of_one("bar(x)"))


@pytest.mark.parametrize("name", ["odd", "misnamed"])
def test_an_entry_point_gives_the_op_of_its_name(name):
    with pytest.raises(
        axla.UnsupportedError, match=rf"op '{name}' of the package .* must be the class that @op declared"
    ):
        declared(name)


def test_of_two_packages_with_one_name_the_first_is_taken(site, tmp_path_factory, monkeypatch):
    other = tmp_path_factory.mktemp("other") / "other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[axla.ops]\ncut = elsewhere:Cut\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(other.parent)])
    with pytest.warns(RuntimeWarning, match="ops_of_a_test:Cut is used, elsewhere:Cut is not"):
        assert declared("cut").__module__ == "ops_of_a_test"


def test_a_package_that_is_installed_later_is_found(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("later")
    monkeypatch.syspath_prepend(str(folder))
    assert "one" not in installed("axla.later")
    info = folder / "late-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: late\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[axla.later]\none = late:One\n")
    assert "one" in installed("axla.later")


def test_names_that_are_not_installed_load_nothing(site):
    (site / "lurking.py").write_text("raise SystemExit('loaded')")
    for name in ("lurking", "lurking:Op", "ops_of_a_test:Cut", "ops_of_a_test", "os", ""):
        assert declared(name) is None
        with pytest.raises(axla.AxlaError):
            axla.parse(of_one(f"{name}(x)"))
    assert "lurking" not in sys.modules


def test_names_of_hlo_cannot_be_taken():
    assert declared("add") is axla.parse(of_one("add(x, x)")).entry.root.op.__class__
    assert declared("add").__module__ == "axla.hlo.elementwise"


ALL = 'cut(x, x), side=BELOW, steps={3,1}, soft=true, times=-2, rate=0.25, note="a \\"b\\""'


def test_attributes_of_all_kinds_go_through_text_proto_and_stablehlo():
    module = axla.parse(of_one(ALL))
    op = module.entry.root.op
    assert (op.side, op.steps, op.soft, op.times, op.rate, op.note) == (
        "BELOW",
        (3, 1),
        True,
        -2,
        0.25,
        'a "b"',
    )
    assert axla.parse(module.to_string()).entry.root.op == op
    assert axla.parse(proto.to_proto(module)).to_string() == module.to_string()
    again = axla.parse(export_text(module))
    assert again.entry.root.op == op
    axla.check(again).raise_if_different()


STABLEHLO = """func.func @main(%x: tensor<4xf32>) -> tensor<TYPE> {
  %0 = stablehlo.custom_call @axla.op.NAME(%x, %x) {api_version = 4 : i32, backend_config = {CONFIG}}
    : (tensor<4xf32>, tensor<4xf32>) -> tensor<TYPE>
  return %0 : tensor<TYPE>
}"""


@pytest.mark.parametrize(
    ("name", "config", "type", "message"),
    [
        ("nothing", "", "4xf32", "axla.op.nothing: no loaded module or installed package declares this op"),
        ("half", "", "4xf32", "op 'half' of the package ops-of-a-test 2.5 cannot be loaded"),
        ("cut", "", "4xf32", "cut takes 2 operands and attributes side, steps, .*; found 2 and none"),
        ("cut", 'side = "ABOVE", size = 1', "4xf32", "found 2 and side, size"),
        ("cut", 'side = "ABOVE" , times = 1.0', "4xf32", "the attribute times must be an integer"),
        ("cut", "side = 3", "4xf32", "the attribute side must be a string"),
        ("cut", 'side = "LEFT"', "4xf32", "expected one of BELOW, ABOVE, found 'LEFT'"),
        ("cut", 'side = "ABOVE, x"', "4xf32", "expected the end of the attribute side"),
        ("cut", 'side = "ABOVE"', "5xf32", r"the result is f32\[5\].*, but cut infers f32\[4\]"),
        ("bare", "", "4xf32", "bare takes 1 operands and attributes none; found 2 and none"),
    ],
)
def test_calls_of_stablehlo_are_checked(name, config, type, message):
    text = STABLEHLO.replace("NAME", name).replace("CONFIG", config).replace("TYPE", type)
    with pytest.raises(axla.AxlaError, match=message):
        axla.parse(text)


def test_a_call_of_stablehlo_is_the_op():
    text = STABLEHLO.replace("NAME", "cut").replace("CONFIG", 'side = "ABOVE"').replace("TYPE", "4xf32")
    module = axla.parse(text)
    assert [inst.opcode for inst in module.entry.instructions] == ["parameter", "cut"]


def test_an_elementwise_op_is_fused_and_runs_in_loops_branches_and_registers():
    text = """
HloModule m
body { t = (f32[1000], s32[]) parameter(0)
  x = f32[1000] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  one = s32[] constant(1)
  m = s32[] add(n, one)
  c = s32[] cut(m, n), side=BELOW
  half = f32[] constant(0.5)
  halves = f32[1000] broadcast(half), dimensions={}
  y = f32[1000] multiply(x, halves)
  z = f32[1000] cut(y, halves), side=ABOVE
  ROOT r = (f32[1000], s32[]) tuple(z, c) }
condition { t = (f32[1000], s32[]) parameter(0)
  n = s32[] get-tuple-element(t), index=1
  four = s32[] constant(4)
  ROOT r = pred[] compare(n, four), direction=LT }
ENTRY e { x = f32[1000] parameter(0)
  zero = s32[] constant(0)
  t = (f32[1000], s32[]) tuple(x, zero)
  ROOT w = (f32[1000], s32[]) while(t), condition=condition, body=body }"""
    axla.check(text).raise_if_different()
    axla.check(text, "one-lane").raise_if_different()
    program = axla.compile(axla.parse(of_one("cut(negate(x), x), side=ABOVE", "f32[3000]")))
    assert len([line for line in program.as_text("program").splitlines() if line.startswith("kernel ")]) <= 1


@pytest.mark.parametrize("loaded_first", [False, True])
def test_rules_of_families_are_for_it_whenever_it_is_loaded(loaded_first):
    """Constants go to the right and are combined, if the attributes are the same; broadcasts stay outside."""
    text = """HloModule m
ENTRY e { x = s32[] parameter(0)
  one = s32[] constant(1)
  two = s32[] constant(2)
  a = s32[] cut(one, x), side=ABOVE
  b = s32[] cut(a, two), side=SIDE
  y = s32[8] broadcast(b), dimensions={}
  z = s32[8] broadcast(x), dimensions={}
  ROOT r = s32[8] cut(y, z), side=ABOVE }"""
    code = (
        "import axla\nfrom axla.ir.op import declared\n"
        f"if {loaded_first}: declared('cut')\n"
        "from axla.passes import driver\nfrom axla.passes.pipelines import PASSES, PIPELINES\n"
        "for side in ('ABOVE', 'BELOW'):\n"
        f"    module = axla.parse({text!r}.replace('SIDE', side))\n"
        "    driver.run(module, PIPELINES['simplify'])\n"
        "    print([inst.opcode for inst in module.entry.instructions if inst.opcode != 'constant'])\n"
        f"    axla.check({text!r}.replace('SIDE', side)).raise_if_different()\n"
    )
    assert run_python(code) == (
        "['parameter', 'cut', 'cut', 'broadcast']\n['parameter', 'cut', 'cut', 'cut', 'broadcast']\n"
    )


def test_it_runs_asynchronously_too():
    text = """HloModule m
ENTRY e { x = f32[4] parameter(0)
  s = ((f32[4], f32[4]), f32[4], u32[]) cut-start(x, x), side=ABOVE
  ROOT d = f32[4] cut-done(s) }"""
    module = axla.parse(text)
    assert axla.parse(module.to_string()).to_string() == module.to_string()
    axla.check(module).raise_if_different()


def test_expansions_may_need_expansions():
    text = of_one("range-of(x)", "f32[]").replace("x = f32[]", "x = f32[7]")
    axla.check(text).raise_if_different()
    axla.check(of_one("both-ends(x)", "(f32[], f32[])").replace("x = (f32[], f32[])", "x = f32[7]"))
    module = axla.parse(text)
    driver.run(module, (PASSES["op-expander"],))
    assert not {"range-of", "both-ends"} & {inst.opcode for inst in module.entry.instructions}
    exported = export_text(axla.parse(text))
    assert "stablehlo.slice" in exported and "custom_call" not in exported


@pytest.mark.parametrize(
    ("opcode", "message"),
    [
        (
            "bare",
            r"bare\(%x\): the cpu backend does not compile bare: the op has none of the methods element",
        ),
        ("circle", "circle: the results of expand contain such ops after 8 rounds"),
        ("liar", r"liar\(%x\): expand returned results of other shapes: f32\[4\], f32\[4\]\n"),
    ],
)
def test_what_cannot_be_compiled_says_why(opcode, message):
    module = axla.parse(of_one(f"{opcode}(x)"))
    with pytest.raises(axla.UnsupportedError, match=message):
        axla.compile(module)
    if opcode == "bare":
        axla.compile(module, backend="interpreter")(np.zeros(4, np.float32))


class Wrong(Elementwise):
    """An op of which one method does something wrong."""

    def evaluate(self, operand):
        return operand

    def element(self, e, inst, index):
        return e(inst.operands[0], index)


WRONG = {
    "shape": (dict(evaluate=lambda self, x: x[:1]), r"r = f32\[4\] .*: evaluate returned float32\[1\]"),
    "two": (dict(evaluate=lambda self, x: (x, x)), r"evaluate returned float32\[4\], float32\[4\]"),
    "key": (dict(evaluate=lambda self, x: {}["a"]), r"wrong-key\(%x\) failed: KeyError: 'a'"),
    "infer": (dict(infer=lambda self, x: None), r"infer of wrong-infer returned None, not a shape"),
    "value": (dict(element=lambda self, e, inst, index: 1 / 0), r"its element: ZeroDivisionError"),
    "none": (dict(element=lambda self, e, inst, index: None), r"its element is None, wanted f32"),
    "type": (
        dict(element=lambda self, e, inst, index: e.values.constant(F64, 1)), "its element is f64, wanted f32"
    ),
    "place": (
        dict(element=None, source=lambda self, index, operand: ()), r"its element: ValueError"
    ),
    "other": (dict(element=None, expand=lambda self, x: None), r"wrong-other\(%x\): expand: TypeError"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_what_a_method_does_wrong_is_said_under_the_name_of_the_op(kind):
    body, message = WRONG[kind]
    methods = {name: method for name, method in {**vars(Wrong), **body}.items() if method is not None}
    op(f"wrong-{kind}", operands="operand")(type("Other", (Elementwise,), methods))
    with pytest.raises(axla.AxlaError, match=message):
        axla.check(of_one(f"wrong-{kind}(x)"))


def test_an_op_without_evaluate_says_so():
    op("unknown-value", operands="operand")(type("Other", (Elementwise,), {}))
    with pytest.raises(axla.UnsupportedError, match="the interpreter cannot run unknown-value"):
        axla.check(of_one("unknown-value(x)"), "interpreter")


def annotated(**types):
    return type("Other", (Op,), {"__annotations__": types, "infer": lambda self, x: x})


@pytest.mark.parametrize(
    ("cls", "opcode", "operands", "message"),
    [
        (annotated(), "add", "x", "op add: the module axla.hlo.elementwise has already"),
        (annotated(), "New Op", "x", "op New Op: an opcode must be lower-case letters"),
        (annotated(), "new-op", "a? b", "op new-op: operands must be different names, .* found 'a[?] b'"),
        (annotated(), "new-op", "*a b", "op new-op: operands must be different names"),
        (annotated(), "new-op", "a a", "op new-op: operands must be different names"),
        (annotated(v=dict), "new-op", "x", "attributes of type <class 'dict'> have no text form"),
        (annotated(opcode=int), "new-op", "x", "op new-op: an attribute cannot be called opcode"),
        (type("Other", (Op,), {}), "new-op", "x", "op new-op: the class has no method infer"),
        (dict, "new-op", "x", "op new-op: <class 'dict'> is not a subclass of axla.ir.op.Op"),
    ],
)
def test_declarations_that_would_not_work(cls, opcode, operands, message):
    with pytest.raises(axla.InvalidArgument, match=message):
        op(opcode, operands=operands)(cls)
    assert "new-op" not in OPS


def test_attributes_that_every_instruction_has_are_not_an_ops_own():
    op("new-op", operands="operand")(annotated(sharding=int))
    with pytest.raises(
        axla.InvalidArgument, match="op new-op: sharding is an attribute of every instruction"
    ):
        axla.parse(of_one("new-op(x), sharding=1"))


def test_attributes_that_are_called_as_fields_of_protos_are_the_ops_own():
    op("new-op", operands="operand")(annotated(name=str, epsilon=float, delta=int, window=bool))
    module = axla.parse(of_one('new-op(x), name="n", epsilon=0.1, delta=7, window=true'))
    again = axla.parse(proto.to_proto(module))
    assert again.to_string() == module.to_string() and again.entry.root.name == "r"


def test_numbers_are_written_with_all_their_digits(monkeypatch):
    """The key of a cached program is of the text: what differs must have another one."""
    monkeypatch.setattr(programs, "_options", lambda flags: "some")  # AXLA_VERIFY is set in tests
    keys = set()
    for rate in ("0.1", "0.1000000001", "0.10000000149011612", "1e-30", "inf", "-0"):
        module = axla.parse(of_one(f"cut(x, x), side=ABOVE, rate={rate}"))
        assert f"rate={rate}" in module.to_string()
        for again in (module.to_string(), proto.to_proto(module), export_text(module)):
            assert axla.parse(again).entry.root.op == module.entry.root.op
        keys.add(program_key(module, host_target()))
    assert len(keys) == 6 and None not in keys


def test_code_of_a_package_that_changed_is_not_taken_from_the_cache(site, monkeypatch):
    module = axla.parse(of_one("cut(x, x), side=ABOVE"))
    monkeypatch.setattr(programs, "_options", lambda flags: "some")  # AXLA_VERIFY is set in tests
    first = program_key(module, host_target())
    assert first and first == program_key(module, host_target())
    (site / "ops_of_a_test.py").write_text(SOURCE + "\n# changed\n")
    cache.package.cache_clear()  # as in a new process
    assert program_key(module, host_target()) not in (None, first)
    sys.modules["ops_of_a_test"].__file__ = None  # as in a notebook
    cache.package.cache_clear()
    assert program_key(module, host_target()) is None


def test_jax_calls_it():
    jax = pytest.importorskip("jax")
    import axla.jax

    def program(x):
        call = jax.ffi.ffi_call("axla.op.cut", jax.ShapeDtypeStruct(x.shape, x.dtype))
        return 2 * call(x, x + 1, side="ABOVE", rate=np.float32(3))

    module = axla.jax.to_module(program, np.ones(4, np.float32))
    assert "cut" in {inst.opcode for inst in module.entry.instructions}
    axla.check(module).raise_if_different()


def test_an_op_of_a_script_needs_no_package():
    @op("of-a-script", operands="operand")
    class OfAScript(Op):
        """Declared where it is used."""

        def infer(self, operand):
            return operand

    module = axla.parse(of_one("of-a-script(x)"))
    assert module.entry.root.op == OfAScript() and isinstance(module.entry.parameters[0].op, Parameter)
    assert module.entry.root.shape.dtype is F32
