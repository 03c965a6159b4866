"""A program from its text is the program from the module: the same text, code and bits."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from conformance_lib.corpora import corpus
from conformance_lib.programs import Exec

import axla
from axla.aot.objects import compile_object, object_of, stand_alone
from axla.backends.binding import with_constants
from axla.backends.native import NativeExecutable
from axla.codegen.host import host_target, one_lane_target
from axla.core.errors import UnsupportedError, VerifyError
from axla.cpu.compiler import compile_text, llvm_modules
from axla.custom.registry import register_custom_call
from axla.ir.clone import clone_module
from axla.ir.graph import Module
from axla.kernels.product import BYTES, HALVES
from axla.lowering.donation import row_major_boundary
from axla.lowering.loading import load_program
from axla.lowering.pipeline import compile_program, constants_segment
from axla.program.text import parse_program, print_program, program_digest
from axla.target.machine import Target, with_features
from axla.target.names import target as find_target
from work import calls

OPEN, MODELS = corpus("hlo-open"), corpus("models-open")
pytestmark = pytest.mark.skipif(OPEN is None or MODELS is None, reason="the corpora are not at hand")
SAMPLE = sorted((OPEN / "exec").glob("*.hlo"))[3::60] if OPEN else []
WHOLE = sorted(MODELS.glob("*/module.hlo.txt")) if MODELS else []


def text_of(module: Module, target: Target | None = None) -> tuple[str, bytes]:
    """A module as the text of its program, and the bytes of its constants."""
    work = clone_module(module)
    row_major_boundary(work)
    constants: dict = {}
    program = compile_program(work, target or host_target(), constants)
    return print_program(program), constants_segment(constants)


def loaded(text: str, segment: bytes, target=None) -> NativeExecutable:
    compiled = compile_text(text, segment, target)
    return NativeExecutable(compiled.images, compiled.interface, compiled.constants)


def bits(executable, inputs) -> list[bytes]:
    return [np.asarray(result).tobytes() for result in executable.execute(list(inputs))]


def constants_in(computation) -> list[np.ndarray]:
    called = computation.module.computations
    return [i.op.literal.array for c in called for i in c.instructions if i.opcode == "constant"]


def test_texts_of_the_corpora_are_fixed_points_and_the_same_code():
    target, count = host_target(), 0
    for path in (*SAMPLE, *WHOLE[1:]):
        module = axla.parse(path.read_text())
        constants: dict = {}
        try:
            program = compile_program(module, target, constants)
        except UnsupportedError:
            continue
        text = print_program(program)
        again = load_program(text, constants_segment(constants), target)
        assert print_program(again) == text, path
        if path in SAMPLE:
            assert llvm_modules(again, target) == llvm_modules(program, target), path
        assert program_digest(again) == program_digest(program), path
        assert not [c for k in program.kernels for c in constants_in(k.computation) if c.nbytes > 256], path
        count += 1
    assert count >= 20


@pytest.mark.parametrize("number", range(0, 30, 3))
def test_a_loaded_program_gives_the_same_bits(number):
    cases = Exec()
    name = list(cases.cases())[7 + 43 * number]
    module = axla.parse(cases.text(name))
    inputs = cases.data(name, "cpu")[0]()
    text, segment = text_of(module)
    for backend, target in (("cpu", None), ("one-lane", one_lane_target())):
        wanted = axla.compile(module, backend=backend, replicas="first")
        assert bits(loaded(text, segment, target), inputs) == bits(wanted, inputs), backend


@pytest.mark.parametrize("name", ["PRODUCT", "CONVOLUTION"])
@pytest.mark.parametrize(
    ("dtype", "result", "word"), [("f32", "f32", 1), ("s8", "s32", 4), ("bf16", "f32", 2)]
)
def test_panels_of_one_target_are_read_on_another(name, dtype, result, word):
    """Weights that were stored in panels for the tiles of one machine, and words for its instructions, by
    others.
    """
    rng = np.random.default_rng(5)
    text = globals()[name].replace(" T[", f" {dtype}[").replace("RESULT", result)
    module = axla.parse(text)
    x, weights = (
        rng.integers(-9, 9, p.shape.dims).astype(p.shape.dtype.numpy) for p in module.entry.parameters
    )
    wanted = np.asarray(axla.compile(module, backend="interpreter")(x, weights))
    wide = replace(find_target("x86-64-v4"), intrinsics=frozenset({BYTES, HALVES}), flushes=True)
    text, segment = text_of(with_constants(module, {"w": weights}), wide)
    shape = ",".join(map(str, weights.shape))
    assert f"{dtype}[{shape}] parameter" not in text
    assert word == 1 or re.search(rf" {dtype}\[[0-9,]+,{word}\]\S* parameter", text)
    for target in (None, one_lane_target(), with_features(host_target(), ("-avx512f",))):
        found = loaded(text, segment, target).execute([x])[0]
        np.testing.assert_array_equal(np.asarray(found), wanted)


PRODUCT = """
ENTRY e {
  x = T[64,512] parameter(0)
  w = T[512,192] parameter(1)
  ROOT d = RESULT[64,192] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
CONVOLUTION = """
ENTRY e {
  x = T[2,7,7,32] parameter(0)
  w = T[3,3,32,128] parameter(1)
  ROOT c = RESULT[2,7,7,128] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
}
"""


@pytest.mark.parametrize("machine", ["x86-64", "cortex-m4f"])
def test_objects_of_texts_are_those_of_modules_byte_for_byte(machine):
    target, count = find_target(machine), 0
    for path in SAMPLE[:8]:
        module = axla.parse(path.read_text())
        work = clone_module(module)
        try:
            wanted = compile_object(module, target)
        except UnsupportedError:
            continue
        stand_alone(work)
        constants: dict = {}
        program = compile_program(work, target, constants)
        segment = constants_segment(constants)
        again = load_program(print_program(program), segment, target)
        assert object_of({"program": again}, segment, target).image == wanted.image, path
        count += 1
    assert count >= 4


SUM = """
ENTRY e {
  x = f32[1000] parameter(0)
  y = f32[1000] parameter(1)
  s = f32[1000] sine(x)
  ROOT z = f32[1000] add(s, y)
}
"""


def changed(*changes: str) -> tuple[str, bytes]:
    text, segment = text_of(axla.parse(SUM))
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text, (old, text)
        text = text.replace(old, new)
    return text, segment


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("grain=1 ", "grain=2 "), "its plan differs from the one for x86-64"),
        (("lanes=", "lanes=1"), "its plan differs"),
        (('kind="loop', 'kind="copy'), "its plan differs"),
        ((" sine(", " cosine("), "the name is not the hash of its computation"),
        (("in_place=()", "in_place=((0, 0), (0, 1))"), "share other memory than in its kernel"),
        (("number=0 size=4000 writable=false", "number=0 size=4000"), "parameter0"),
    ],
)  # fmt: skip
def test_what_the_planner_would_not_do_is_refused(changes, message):
    with pytest.raises(VerifyError, match=message):
        load_program(*changed(*changes), host_target())


def test_a_kernel_may_not_overwrite_what_it_reads_later():
    text = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
    ENTRY e { x = f32[64] parameter(0)  n = f32[64] negate(x)  ROOT s = f32[64] sine(n) }"""
    text, segment = text_of(axla.parse(text))
    assert "in_place=((0, 0))" in text
    turned = re.sub(r" negate\((\S+)\)", r" reverse(\1), dimensions={0}", text)
    assert turned != text
    with pytest.raises(VerifyError, match="does not allow in_place="):
        load_program(turned, segment, host_target())


def test_registers_hold_small_arrays_only():
    text, segment = text_of(axla.parse("ENTRY e { x = f32[] parameter(0)  ROOT y = f32[] exponential(x) }"))
    wide = (
        text.replace("exponential(%x)", "exponential(%x)").replace("f32[]", "f32[64]").replace(":4]", ":256]")
    )
    wide = wide.replace("bytes=4", "bytes=256").replace("size=4", "size=256")
    with pytest.raises(VerifyError, match="cannot be computed in registers"):
        load_program(wide, segment, host_target())


def test_work_is_in_proportion_to_the_steps():
    def work(count: int) -> int:
        dot = "dot(x{0}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        lines = [f"  x{n + 1} = f32[8,8] {dot.format(n)}" for n in range(count)]
        entry = ["ENTRY e {", "  x0 = f32[8,8] parameter(0)", "  w = f32[8,8] parameter(1)", *lines, "}"]
        text, segment = text_of(axla.parse("\n".join(entry)))
        assert text.count("    kernel name=x") == count
        return calls(lambda: parse_program(text, segment))

    work(10)
    small, large = work(150), work(1500)
    assert large < 11 * small, f"{small} and {large} calls"


CALL = """
ENTRY e {
  x = f32[64] parameter(0)
  y = f32[64] custom-call(x), custom_call_target="loading_test_doubled", api_version=API_VERSION_TYPED_FFI
  ROOT z = f32[64] negate(y)
}
"""


def test_custom_calls_are_served_by_whom_the_text_says():
    register_custom_call("loading_test_doubled", lambda x: 2 * x)
    module = axla.parse(CALL)
    text, segment = text_of(module)
    x = np.arange(64, dtype=np.float32)
    assert bits(loaded(text, segment), [x]) == bits(axla.compile(module), [x])
    table = next(line for line in text.splitlines() if line.lstrip().startswith("table-function name"))
    for old, new, message in (
        ("api=python", "api=axla", "function 0 must have the calling convention python"),
        ("function=0", "function=1", "function 1 must have the calling convention python"),
        ("function=0", "function=-1", "the callee is not the one of"),
        (
            "function name=loading_test_doubled api",
            "function name=another api",
            "the callee is not the one of",
        ),
        (table, f"{table}\n{table}", "that no step calls"),
        ("        %x f32[64] in", "        %x s32[64] in", r"f32\[64\].* in memory is wanted"),
    ):
        assert old in text, (old, text)
        with pytest.raises(VerifyError, match=message):
            load_program(text.replace(old, new, 1), segment, host_target())


def test_a_call_takes_the_place_of_arrays_of_its_size_only():
    register_custom_call("loading_test_longer", lambda x: np.zeros(1024, np.float32))
    call = 'ENTRY e { x = f32[4] parameter(0)  ROOT y = f32[1024] custom-call(x), custom_call_target="%s" }'
    text, segment = text_of(axla.parse(call % "loading_test_longer"))
    aliased = text.replace(", where=", ", aliases=((0, 0)), where=")
    assert aliased != text
    with pytest.raises(VerifyError, match="must be arrays of the same size"):
        load_program(aliased, segment, host_target())


def test_code_is_bounded_by_the_text():
    """Values that are read at ever more places, and computations that call each other twice, are refused."""
    target = host_target()
    text = "ENTRY e { x = f32[64] parameter(0)  y = f32[64] sine(x)  ROOT z = f32[64] add(y, x) }"
    text, segment = text_of(axla.parse(text))
    root = next(line for line in text.splitlines() if "ROOT" in line)
    name = root.split("%")[1].split(" ")[0]
    lines, last = [root.replace("ROOT ", "")], name
    for n in range(40):
        lines.append(f"          %r{n} = f32[64]{{0}} reverse(%{last}), dimensions={{0}}")
        lines.append(f"          {'ROOT ' * (n == 39)}%a{n} = f32[64]{{0}} add(%{last}, %r{n})")
        last = f"a{n}"
    with pytest.raises(UnsupportedError, match="more than 10000 places"):
        load_program(text.replace(root, "\n".join(lines)), segment, target)

    text = """
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[64,512] parameter(0)  z = f32[] constant(0)
      ROOT r = f32[64] reduce(x, z), dimensions={1}, to_apply=add }"""
    text, segment = text_of(axla.parse(text))
    called = re.search(r"to_apply=%(\S+)", text)[1]
    head = next(line for line in text.splitlines() if f"%{called} (" in line)
    made = text.split(head)[0]
    blank, last = head[: len(head) - len(head.lstrip())], called
    more = []
    for n in range(40):
        applied = f"dimensions={{}}, to_apply=%{last}"
        lines = [
            f"%f{n} (p: f32[], q: f32[]) -> f32[] {{",
            "  %p = f32[] parameter(0)", "  %q = f32[] parameter(1)",
            f"  %m = f32[] map(%p, %q), {applied}", f"  ROOT %o = f32[] map(%m, %q), {applied}", "}",
        ]  # fmt: skip
        more += [blank + line for line in lines]
        last = f"f{n}"
    body = text[len(made) :]
    end = body.index(f"{blank}}}\n") + len(blank) + 2
    text = (
        made
        + body[:end]
        + "\n".join(more)
        + "\n"
        + body[end:].replace(f"to_apply=%{called}", f"to_apply=%{last}", 1)
    )
    with pytest.raises(VerifyError, match="over 4000 instructions"):
        load_program(text, segment, target)


def test_a_loop_within_a_branch_in_registers_runs_long():
    """Lowering and reading ask the same question: the program's own text is not refused."""
    text = """c { p = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0
      n = s32[] constant(100000)  ROOT r = pred[] compare(i, n), direction=LT }
    b { p = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0
      x = f32[] get-tuple-element(p), index=1  one = s32[] constant(1)
      j = s32[] add(i, one)  y = f32[] sine(x)  ROOT r = (s32[], f32[]) tuple(j, y) }
    t { x = f32[] parameter(0)  z = s32[] constant(0)  s = (s32[], f32[]) tuple(z, x)
      w = (s32[], f32[]) while(s), condition=c, body=b  ROOT r = f32[] get-tuple-element(w), index=1 }
    f { x = f32[] parameter(0)  ROOT r = f32[] negate(x) }
    ENTRY e { q = pred[] parameter(0)  x = f32[] parameter(1)
      ROOT r = f32[] conditional(q, x, x), true_computation=t, false_computation=f }"""
    program = compile_program(axla.parse(text), host_target())
    assert program.interface.long_running
    again = load_program(print_program(program), b"", host_target())
    assert print_program(again) == print_program(program)
