"""Kernels for NVIDIA GPUs: their PTX, assembled; and their results, on a GPU or where PTX is executed."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import cuda_driver
import numpy as np
import pytest
from test_operations import BINARY, UNARY

import axla
from axla.codegen import llvm
from axla.codegen.function import LlvmModule
from axla.codegen.kernel import emit_kernel
from axla.codegen.nvptx import ThreadBlock
from axla.codegen.value import Values, forbidden_intrinsics
from axla.core import dtypes as D
from axla.core.errors import UnsupportedError
from axla.kernels.plan import Plan
from axla.program.kernels import Kernel, output_shapes, plan_kernel
from axla.target.machine import Target, aligned
from axla.target.nvptx import nvptx_target
from ptx.machine import Kernels
from ptx.memory import Memory

SM90, SM80 = nvptx_target(), nvptx_target("sm_80")
SMALL = replace(SM90, threads=64)
"""Two warps: as few as there can be where warps meet."""

COMBINERS = """
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
largest { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
"""


def single(op: str, kind: str, size: int, opcode: str, start: str) -> str:
    return f"""HloModule m
c {{ a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] {opcode}(a, b) }}
ENTRY e {{ p = {kind}[3,{size}] parameter(0)
  z = {kind}[] constant({start})
  ROOT {op} = {kind}[3] reduce(p, z), dimensions={{1}}, to_apply=c }}"""


def elementwise(dims: str) -> str:
    return f"""HloModule m
ENTRY e {{ p = f32[{dims}] parameter(0)
  q = f32[{dims.split(",")[-1]}] parameter(1)
  b = f32[{dims}] broadcast(q), dimensions={{{dims.count(",")}}}
  x = f32[{dims}] exponential(p)
  t = f32[{dims}] tanh(b)
  l = f32[{dims}] log(x)
  m = f32[{dims}] multiply(t, l)
  s = f32[{dims}] sqrt(x)
  ROOT d = f32[{dims}] divide(m, s) }}"""


def softmax(rows: int, size: int) -> str:
    full, row = f"f32[{rows},{size}]", f"f32[{rows}]"
    return f"""HloModule m
{COMBINERS}
ENTRY e {{ p = {full} parameter(0)
  z = f32[] constant(0)
  n = f32[] constant(-inf)
  m = {row} reduce(p, n), dimensions={{1}}, to_apply=largest
  mb = {full} broadcast(m), dimensions={{0}}
  s = {full} subtract(p, mb)
  x = {full} exponential(s)
  t = {row} reduce(x, z), dimensions={{1}}, to_apply=sum
  tb = {full} broadcast(t), dimensions={{0}}
  d = {full} divide(x, tb)
  ROOT both = ({full}, {row}) tuple(d, t) }}"""


def total(size: int) -> str:
    return f"""HloModule m
{COMBINERS}
ENTRY e {{ p = f32[{size}] parameter(0)
  z = f32[] constant(1)
  x = f32[{size}] exponential(p)
  s = f32[] reduce(x, z), dimensions={{0}}, to_apply=sum
  ROOT r = f32[] negate(s) }}"""


def largest_and_where(size: int) -> str:
    return f"""HloModule m
pick {{ a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  more = pred[] compare(a, b), direction=GT
  same = pred[] compare(a, b), direction=EQ
  first = pred[] compare(i, j), direction=LT
  tie = pred[] and(same, first)
  left = pred[] or(more, tie)
  v = f32[] select(left, a, b)
  k = s32[] select(left, i, j)
  ROOT r = (f32[], s32[]) tuple(v, k) }}
ENTRY e {{ p = f32[3,{size}] parameter(0)
  i = s32[3,{size}] iota(), iota_dimension=1
  n = f32[] constant(-inf)
  z = s32[] constant(0)
  ROOT r = (f32[3], s32[3]) reduce(p, i, n, z), dimensions={{1}}, to_apply=pick }}"""


DOT = """HloModule m
ENTRY e { p = f32[7,33] parameter(0)
  q = f32[33,5] parameter(1)
  ROOT d = f32[7,5] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""

COLUMNS = f"""HloModule m
{COMBINERS}
ENTRY e {{ p = f32[70,19] parameter(0)
  z = f32[] constant(1)
  ROOT r = f32[19] reduce(p, z), dimensions={{0}}, to_apply=sum }}"""

TRANSPOSE = """HloModule m
ENTRY e { p = f32[37,41] parameter(0)
  n = f32[37,41] negate(p)
  ROOT t = f32[41,37] transpose(n), dimensions={1,0} }"""

CONCATENATE = """HloModule m
ENTRY e { p = f32[3,70] parameter(0)
  q = f32[3,90] parameter(1)
  ROOT c = f32[3,160] concatenate(p, q), dimensions={1} }"""

PROGRAMS = {
    "loop": elementwise("5,37,29"),
    "loop of few elements": elementwise("3,3"),
    "loop of many steps": elementwise("3,1500"),
    "softmax of long rows": softmax(3, 777),
    "softmax of rows of the team's size": softmax(2, 64),
    "softmax of a warp's rows": softmax(2, 41),
    "softmax of short rows": softmax(3, 11),
    "everything in pieces": total(20_011),
    "argmax": largest_and_where(130),
    "argmax of short rows": largest_and_where(13),
    "sum of c64": single("r", "c64", 150, "add", "(0,0)"),
    "sum of bf16": single("r", "bf16", 150, "add", "0"),
    "sum of f64": single("r", "f64", 150, "add", "1"),
    "product of s64": single("r", "s64", 150, "multiply", "1"),
    "maximum of s8": single("r", "s8", 99, "maximum", "-128"),
    "and of pred": single("r", "pred", 99, "and", "true"),
    "in order": single("r", "f32", 99, "subtract", "1"),
    "dot": DOT,
    "columns": COLUMNS,
    "transpose": TRANSPOSE,
    "concatenate": CONCATENATE,
}


@dataclass(frozen=True)
class Emitted:
    kernel: Kernel
    text: str

    @property
    def plan(self) -> Plan:
        return self.kernel.plan


def kernel_of(program: str, target: Target) -> Emitted:
    """The entry computation as one kernel."""
    kernel = plan_kernel("kernel", axla.parse(program).entry, (), target)
    module = LlvmModule(target.index_type)
    emit_kernel(module, kernel, target)
    assert forbidden_intrinsics(list(module.declared), target) == []
    return Emitted(kernel, module.text())


def ptxas() -> str:
    """The assembler of the package nvidia-cuda-nvcc, or of the PATH."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [str(path) for folder in folders for path in Path(folder).glob("*/bin/ptxas")]
    found += filter(None, [shutil.which("ptxas")])
    if not found:
        pytest.skip("no ptxas (package nvidia-cuda-nvcc)")
    return found[0]


def assemble(ptx: str, target: Target, folder: Path, level: int = 3) -> bytes:
    (folder / "kernel.ptx").write_text(ptx)
    command = [ptxas(), f"-arch={target.cpu}", f"-O{level}", "kernel.ptx", "-o", "kernel.cubin"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return (folder / "kernel.cubin").read_bytes()


# -- what the text is ----------------------------------------------------------------------------------------


def test_a_target_of_the_protocol():
    assert isinstance(SM90, Target)
    assert {SM90.lanes(kind) for kind in D.ALL} == {1}
    assert (SM90.name, SM80.name) == ("sm_90", "sm_80")


@pytest.mark.parametrize("target", [SM90, SM80], ids=["sm_90", "sm_80"])
def test_programs_assemble(target, tmp_path):
    """Every program is PTX that calls nobody and that ptxas takes."""
    texts = []
    for number, program in enumerate(PROGRAMS.values()):
        kernel = kernel_of(program, target)
        ptx = llvm.emit_assembly(re.sub(r"@kernel\b", f"@kernel{number}", kernel.text), target)
        assert ".extern" not in ptx
        assert ptx.count(".visible .entry") == len({phase.symbol for phase in kernel.plan.phases})
        texts.append(ptx)
    if target is SM80:  # one architecture assembles all of them, the other the longest
        texts = [max(texts, key=len)]
    for ptx in texts:
        assert assemble(ptx, target, tmp_path).startswith(b"\x7fELF")


def test_a_loop_is_a_thread_per_element():
    kernel = kernel_of(elementwise("1000000"), SM90)
    (phase,) = kernel.plan.phases
    assert phase.threads == 256
    assert phase.count == -(-1_000_000 // 1024)  # each thread has four elements at most
    ptx = llvm.emit_assembly(kernel.text, SM90)
    assert ".reqntid 256" in ptx
    assert "ld.global.nc.v4.b32" in ptx  # inputs that nobody writes, 16 bytes per thread
    assert "st.global.v4.b32" in ptx
    assert not re.search(r"\bshfl|\bbar\.|\.shared", ptx)
    # Rounded once each: exact remainders in the mathematics must not become fused.
    assert "fma.rn.f32" in ptx and "mul.rn.f32" in ptx and "div.rn.f32" in ptx and "sqrt.rn.f32" in ptx
    assert not re.search(r"\b(mul|add|sub)\.f32|\.approx|\.ftz", ptx)


def test_a_row_is_a_block():
    kernel = kernel_of(softmax(100, 1000), SM90)
    (phase,) = kernel.plan.phases
    assert (phase.count, phase.threads) == (100, 128)  # of 250 vectors
    ptx = llvm.emit_assembly(kernel.text, SM90)
    assert len(re.findall(r"shfl\.sync\.down\.b32", ptx)) == 2 * 5  # two reductions, halves of 32
    assert len(re.findall(r"\bbar\.sync", ptx)) == 2
    assert len(re.findall(r"^\s*\.shared \.align 4 \.b8 \w+\[16\]", ptx, re.M)) == 2  # a word of each warp
    assert "st.shared" in ptx and "ld.shared" in ptx


def test_short_rows_are_a_part_of_a_warp():
    kernel = kernel_of(softmax(100, 11), SM90)
    (phase,) = kernel.plan.phases
    assert (phase.count, phase.threads) == (4, 256)  # 32 rows of 8 threads each
    ptx = llvm.emit_assembly(kernel.text, SM90)
    assert ".shared" not in ptx and "bar.sync" not in ptx
    assert re.search(r"shfl\.sync\.idx\.b32\s+\S+ \S+ 0, 6175, %r\d+;", ptx)  # within 8: (32 - 8) << 8 | 31


def test_everything_is_reduced_in_pieces():
    kernel = kernel_of(total(10_000_000), SM90)
    parts, rest = kernel.plan.phases
    assert (parts.count, parts.threads) == (977, 256)
    assert (rest.count, rest.threads) == (1, 256)
    assert kernel.plan.scratch_bytes == aligned(977 * 4)


def test_arrays_beyond_32_bit_indices_are_refused():
    with pytest.raises(UnsupportedError, match="32 bits"):
        kernel_of(elementwise("50000,50000"), SM90)


def test_every_operation_assembles(tmp_path):
    """Every operation and conversion, on every type: no calls of libraries, and PTX that ptxas takes."""
    module = LlvmModule(SM90.index_type)
    for kind in (D.F32, D.F64, D.F16, D.BF16, D.F8E5M2, D.C64, D.PRED, D.S4, D.S8, D.U16, D.S32, D.U64):
        share = ThreadBlock(module, f"all_{kind}", [True, True, False], 1)
        values, f = Values(share.f, SM90), share.f
        x, y = (values.load(kind, share.argument(slot), 1) for slot in (0, 1))
        results = [values.convert(x, other) for other in D.ALL]
        for opcode in (*UNARY, *BINARY):
            with contextlib.suppress(UnsupportedError):
                results.append(values.binary(opcode, x, y) if opcode in BINARY else values.unary(opcode, x))
        for number, result in enumerate(results):
            values.store(result, f.gep("[16 x i8]", share.argument(2), f.index(number)))
        assert len(results) > 40
        share.finish()
    assert forbidden_intrinsics(list(module.declared), SM90) == []
    ptx = llvm.emit_assembly(module.text(), SM90)
    assert ".extern" not in ptx
    assemble(ptx, SM90, tmp_path, level=0)


def test_the_programs_are_of_many_kinds():
    kinds = {kernel_of(program, SMALL).kernel.kind.split()[0] for program in PROGRAMS.values()}
    assert kinds >= {"loop", "row", "column", "transpose", "concatenate", "dot"}


# -- what it computes ----------------------------------------------------------------------------------------


def arguments(emitted: Emitted) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    found = []
    for parameter in emitted.kernel.computation.parameters:
        dtype, dims = parameter.shape.dtype, parameter.shape.dims
        if dtype.is_complex:
            array = rng.normal(size=dims) + 1j * rng.normal(size=dims)
        elif dtype.is_pred:
            array = np.arange(np.prod(dims)).reshape(dims) != 120  # one row of three has a false
        else:
            array = rng.normal(size=dims) * (1 if dtype.is_float else 40)
        found.append(np.ascontiguousarray(array.astype(dtype.numpy)))
    return found


def check(name: str, target: Target, run) -> None:
    """Runs a program's kernel and compares it with the interpreter."""
    program = PROGRAMS[name]
    kernel = kernel_of(program, target)
    inputs = arguments(kernel)
    shapes = output_shapes(kernel.kernel.computation)
    outputs = [np.full(shape.dims, 99, shape.dtype.numpy) for shape in shapes]
    run(kernel, inputs, outputs)
    wanted = axla.compile(axla.parse(program), backend="interpreter").execute(inputs)
    for got, want, shape in zip(outputs, wanted, shapes, strict=True):
        dtype = shape.dtype
        if not dtype.is_inexact:
            np.testing.assert_array_equal(got, np.asarray(want))
            continue
        # The order of a sum is another: a few units in the last place of its largest partial sums.
        eps = float(dtype.real.finfo.eps)
        wide = np.complex128 if dtype.is_complex else np.float64
        np.testing.assert_allclose(
            got.astype(wide), np.asarray(want).astype(wide), rtol=8 * eps, atol=40 * eps
        )


def executed(emitted: Emitted, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    """Launches the phases of a plan on the machine that executes PTX; `outputs` are written."""
    memory = Memory(1 << 20, 1 << 20)
    kernels = Kernels(llvm.emit_assembly(emitted.text, SMALL), memory)
    arrays = [*inputs, *outputs, np.zeros(max(emitted.plan.scratch_bytes, 1), np.uint8)]
    places = [memory.allocate(array.nbytes) or 0 for array in arrays]
    for place, array in zip(places, inputs, strict=False):
        memory.view(place, array.nbytes)[:] = array.reshape(-1).view(np.uint8)
    for phase in emitted.plan.phases:
        kernels.launch(phase.symbol, phase.count, phase.threads, places)
    for place, array in zip(places[len(inputs) :], outputs, strict=False):
        array.reshape(-1).view(np.uint8)[:] = memory.view(place, array.nbytes)


@pytest.mark.parametrize("name", PROGRAMS)
def test_executed(name):
    check(name, SMALL, executed)


@pytest.mark.gpu
@pytest.mark.skipif(cuda_driver.why_not() is not None, reason=str(cuda_driver.why_not()))
@pytest.mark.parametrize("target", [SM80, replace(SM80, threads=64)], ids=["256 threads", "64 threads"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gpu(name, target):
    def run(kernel, inputs, outputs):
        cuda_driver.run(llvm.emit_assembly(kernel.text, target), kernel.plan, inputs, outputs)

    check(name, target, run)
