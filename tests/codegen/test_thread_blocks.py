"""Matrix products by blocks of threads: what they compute, what they read, and that GPUs' tools take them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import products
import pytest
from products import Product, wanted
from test_nvptx import SM80, SMALL, assemble

import axla
from axla.codegen import llvm
from axla.codegen.function import LlvmModule
from axla.codegen.kernel import emit_kernel
from axla.core import dtypes as D
from axla.kernels.blocks import BlockCut, _cuts, plan_blocks
from axla.kernels.dot import DotPlan, GemmSpec
from axla.program.kernels import Kernel
from axla.target.machine import Target
from axla.target.nvptx import nvptx_target
from axla.target.spirv import spirv_target
from opencl_device import needs_opencl
from ptx.machine import Kernels
from ptx.memory import Memory
from ptx.traffic import Traffic

SM75 = nvptx_target("sm_75")


def ptx_of(kernel: Kernel, target: Target) -> str:
    module = LlvmModule(target.index_type)
    emit_kernel(module, kernel, target)
    return llvm.emit_assembly(module.text(), target)


def ran(
    product: Product, lhs: np.ndarray, rhs: np.ndarray, target: Target = SMALL, count: Traffic | None = None
) -> np.ndarray:
    """The product on the machine that executes PTX."""
    spec = product.spec
    memory = Memory(4 << 20, 8 << 20)
    kernels = Kernels(ptx_of(product.kernel, target), memory)
    out = np.full((spec.batch, spec.m, spec.n), 77).astype(spec.result.numpy)
    extra = [out if n + 2 == product.in_place else array for n, array in enumerate(product.extra)]
    arrays = [lhs, rhs, *extra]
    places = [memory.allocate(array.nbytes) or 0 for array in arrays]
    for place, array in zip(places, arrays, strict=True):
        memory.view(place, array.nbytes)[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    last = memory.allocate(out.nbytes) or 0
    if product.in_place is not None:
        last = places[product.in_place]
        memory.view(last, out.nbytes)[:] = product.extra[product.in_place - 2].reshape(-1).view(np.uint8)
    memory.traffic = count
    for phase in product.kernel.plan.phases:
        kernels.launch(phase.symbol, phase.count, phase.threads, [*places, last, last])
    out.reshape(-1).view(np.uint8)[:] = memory.view(last, out.nbytes)
    return out


def made(spec: GemmSpec, target: Target = SMALL, cut: BlockCut | None = None) -> Product:
    """A product with its kernel, cut otherwise if that is said."""
    product = Product(spec)
    kernel = product.make("kernel", target)
    assert isinstance(kernel.plan, DotPlan) and isinstance(kernel.plan.cut, BlockCut)
    if cut is not None:
        phase = replace(kernel.plan.phases[0], count=cut.units, threads=cut.threads)
        product.kernel = replace(kernel, plan=replace(kernel.plan, cut=cut, phases=(phase,)))
    return product


def check(product: Product, target: Target = SMALL) -> None:
    """Right to the bound on the rounding of sums; integers exactly."""
    lhs, rhs = product.arrays()
    found = ran(product, lhs, rhs, target)
    exact, bound = wanted(product, lhs, rhs)
    wrong = np.abs(found.astype(exact.dtype) - exact) - bound
    if product.spec.dtype.is_integer:
        wrong = (found != exact) * 1.0
    assert np.max(wrong) <= 0, f"{product.spec} by {product.plan}: off by {np.max(wrong)}"


SIZES = [
    (1, 1, 100, 540), (1, 100, 1, 140), (1, 1, 1, 500), (1, 63, 65, 17), (3, 17, 9, 33), (2, 16, 24, 48),
    (40, 3, 3, 2), (1, 2, 3, 1),
]  # fmt: skip


@pytest.mark.parametrize("sides", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sizes_and_layouts(size, sides):
    check(made(GemmSpec(D.F32, D.F32, *size, *sides)))


@pytest.mark.parametrize("sides", [(False, True), (True, False)])
@pytest.mark.parametrize(
    "dtype", [D.F64, D.F16, D.BF16, D.F8E5M2, D.S8, D.U16, D.S32, D.U64, D.C64, D.C128], ids=str
)
def test_types(dtype, sides):
    check(made(GemmSpec(dtype, dtype, 2, 19, 12, 23, *sides), SM75), SM75)


@pytest.mark.parametrize("types", [(D.S8, D.S32), (D.BF16, D.F32), (D.F16, D.F64)], ids=str)
def test_results_of_wider_types(types):
    check(made(GemmSpec(*types, 1, 19, 12, 23), SM75), SM75)


TILES = {(c.tile, c.groups): c for c in _cuts(GemmSpec(D.F32, D.F32, 1, 37, 20, 530), "threads", 64)}
WIDE = {(c.down, c.across): c for c in _cuts(GemmSpec(D.F32, D.F32, 1, 37, 20, 530), "threads", 64)}


@pytest.mark.parametrize(
    "cut", [*TILES.values(), *WIDE.values()], ids=lambda c: f"{c.tile} {c.down} {c.groups}"
)
def test_all_tiles(cut):
    """All tiles of registers and all numbers of groups, whichever the plan would choose."""
    check(made(GemmSpec(D.F32, D.F32, 1, 37, 20, 530), SMALL, cut))


# -- tensor cores -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [D.F16, D.BF16], ids=str)
@pytest.mark.parametrize("sides", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("size", [(1, 16, 16, 16), (2, 40, 24, 56), (1, 33, 31, 47)], ids=str)
def test_tensor_cores(size, sides, dtype):
    product = made(GemmSpec(dtype, D.F32, *size, *sides))
    assert product.plan.method == "warps"
    check(product)


WARPS = {c.tile: c for c in _cuts(GemmSpec(D.BF16, D.BF16, 1, 70, 72, 70), "warps", 128)}
SPREAD = {c.down: c for c in _cuts(GemmSpec(D.BF16, D.BF16, 1, 70, 72, 70), "warps", 128)}


@pytest.mark.parametrize("cut", [*WARPS.values(), *SPREAD.values()], ids=lambda c: f"{c.tile} {c.down}")
def test_all_tiles_of_warps(cut):
    check(made(GemmSpec(D.BF16, D.BF16, 1, 70, 72, 70), SMALL, cut))


def test_which_products_use_tensor_cores():
    """Halves with sums in f32, of whole squares, where the architecture has the instruction."""

    def method(dtype, target, m=64, result=None):
        return plan_blocks(GemmSpec(dtype, result or dtype, 1, m, 64, 64), target).method

    assert {method(dtype, SM80) for dtype in (D.F16, D.BF16)} == {"warps"}
    assert {method(dtype, SM80) for dtype in (D.F32, D.F64, D.S8, D.C64)} == {"threads"}
    assert method(D.BF16, SM80, m=15) == method(D.F16, SM80, result=D.F64) == "threads"
    assert {method(D.F16, target) for target in (SM75, spirv_target())} == {"threads"}
    text = ptx_of(made(GemmSpec(D.BF16, D.BF16, 1, 64, 64, 64), SM80).kernel, SM80)
    assert "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in text and "ldmatrix" in text
    text = ptx_of(made(GemmSpec(D.F32, D.F32, 1, 64, 64, 64), SM80).kernel, SM80)
    assert "mma." not in text and "fma.rn.f32" in text


# -- what stands beside ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [D.F32, D.BF16], ids=str)
def test_work_on_the_result(dtype):
    """A bias, and an operand whose place the result takes."""
    spec = GemmSpec(dtype, dtype, 2, 33, 20, 18)
    shape, bias = (f"{dtype.name}[{dims}]" for dims in ("2,33,20", "20"))
    rng = np.random.default_rng(5)
    extra = tuple(products.random_array(rng, dims, dtype) for dims in ((20,), (2, 33, 20)))
    epilogue = f"""b = {bias} parameter(2)
      c = {shape} parameter(3)
      w = {shape} broadcast(b), dimensions={{2}}
      s = {shape} add(d, w)
      t = {shape} tanh(s)
      ROOT r = {shape} multiply(t, c)"""
    product = Product(spec, epilogue, extra, in_place=3)
    product.make("kernel", SMALL)
    lhs, rhs = product.arrays()
    found = ran(product, lhs, rhs).astype(np.float64)
    dot = (lhs.astype(np.float64) @ rhs.astype(np.float64)).astype(dtype.numpy).astype(np.float64)
    exact = np.tanh(dot + extra[0].astype(np.float64)) * extra[1].astype(np.float64)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 if dtype is D.F32 else 0.1)


@pytest.mark.parametrize("dtype", [D.F32, D.F16], ids=str)
def test_what_is_not_finite_stays_in_its_row(dtype):
    """Nothing is multiplied with what stands beyond an edge."""
    product = made(GemmSpec(dtype, dtype, 1, 18, 21, 19))
    lhs, rhs = product.arrays()
    lhs[0, 17, 18], rhs[0, 18, 20], rhs[0, 0, 3] = np.inf, np.nan, -np.inf
    found = ran(product, lhs, rhs)
    with np.errstate(invalid="ignore"):
        exact = lhs.astype(np.float32) @ rhs.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(exact))
    assert np.isfinite(found[0, :17, 4:20]).all()


@pytest.mark.parametrize("dtype", [D.F32, D.F16], ids=str)
def test_each_element_is_read_once_per_tile(dtype):
    spec = GemmSpec(dtype, dtype, 1, 128, 256, 64)
    product = made(spec, SMALL, _large(spec))
    count = Traffic(4 << 20)
    ran(product, *product.arrays(), SMALL, count)
    cut, size = product.plan, dtype.itemsize
    assert spec.m % cut.rows == spec.n % cut.columns == 0 and min(cut.rows, cut.columns) >= 32
    reads = spec.m * spec.k * (spec.n // cut.columns) + spec.k * spec.n * (spec.m // cut.rows)
    assert count.asked == size * (reads + spec.m * spec.n)
    assert count.sectors * 32 == count.asked  # no sector is moved in vain


def _large(spec: GemmSpec) -> BlockCut:
    method = plan_blocks(spec, SMALL).method
    return next(c for c in _cuts(spec, method, 64) if min(c.rows, c.columns) >= 32 and c.groups == 1)


def test_plans_of_large_products():
    """Large tiles where there are blocks enough, small ones else; groups of threads share long sums."""
    tall = plan_blocks(GemmSpec(D.F32, D.F32, 1, 4096, 4096, 4096), SM80)
    assert (tall.rows, tall.columns, tall.threads, tall.groups) == (128, 128, 256, 1)
    small = plan_blocks(GemmSpec(D.F32, D.F32, 1, 256, 256, 256), SM80)
    assert small.units >= 64
    vector = plan_blocks(GemmSpec(D.F32, D.F32, 1, 1, 4096, 4096), SM80)
    assert vector.groups > 1 and vector.units >= 100
    for dtype in (D.F32, D.F64, D.C128, D.BF16, D.S8):
        for target in (SM80, SMALL, spirv_target(), spirv_target(2)):
            cut = plan_blocks(GemmSpec(dtype, dtype, 1, 2048, 2048, 2048), target)
            assert cut.local_bytes <= target.local_bytes and cut.threads <= target.threads


def test_products_without_any_k_are_loops():
    product = Product(GemmSpec(D.F32, D.F32, 1, 4, 4, 0))
    assert not isinstance(product.make("kernel", SMALL).plan, DotPlan)


# -- tools of GPUs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cpu", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_assembles(cpu, tmp_path):
    target = nvptx_target(cpu)
    module = LlvmModule(target.index_type)
    for number, (dtype, size) in enumerate([(D.F32, 4096), (D.BF16, 4096), (D.F16, 70), (D.C64, 30)]):
        turned = number == 2
        product = Product(GemmSpec(dtype, dtype, 1, size, size, size, turned, turned))
        emit_kernel(module, product.make(f"kernel{number}", target), target)
    text = llvm.emit_assembly(module.text(), target)
    assert ".extern" not in text and ".local" not in text
    assert assemble(text, target, tmp_path).startswith(b"\x7fELF")


def dot(m: int, k: int, n: int, kind: str) -> str:
    return f"""HloModule m
ENTRY e {{ p = {kind}[3,{m},{k}] parameter(0)
  q = {kind}[3,{n},{k}] parameter(1)
  d = {kind}[3,{m},{n}] dot(p, q), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
    rhs_contracting_dims={{2}}
  ROOT r = {kind}[3,{m},{n}] tanh(d) }}"""


@pytest.mark.parametrize("kind", ["f32", "f16"])
@pytest.mark.parametrize("size", [(40, 33, 70), (100, 64, 100), (1, 200, 50)], ids=str)
@needs_opencl[0]
@needs_opencl[1]
def test_on_a_device_with_work_groups(size, kind, monkeypatch):
    """Local memory and barriers of OpenCL, on a CPU's runtime."""
    backend = axla.backends.get("opencl")
    monkeypatch.setattr(backend.driver(0), "target", spirv_target(64))
    m, k, n = size
    dtype = np.dtype(np.float16 if kind == "f16" else np.float32)
    rng = np.random.default_rng(1)
    p, q = (rng.normal(size=(3, rows, k)).astype(dtype) for rows in (m, n))
    text = dot(m, k, n, kind)
    executable = axla.compile(axla.parse(text), backend="opencl")
    assert not executable.host_steps
    (found,) = executable.execute([p, q])
    exact = np.tanh(p.astype(np.float64) @ q.swapaxes(1, 2).astype(np.float64))
    np.testing.assert_allclose(np.asarray(found), exact, rtol=0, atol=1e-5 if kind == "f32" else 2e-2)
