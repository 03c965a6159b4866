"""Matrix products of every kind against NumPy, and how their kernels are made."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import sys

import numpy as np
import pytest
from products import Compiled, Product, check, module_of

from axla.codegen import llvm
from axla.codegen.emit.transpose_registers import transpose_block
from axla.codegen.function import LlvmFunction, LlvmModule
from axla.codegen.host import host_target, one_lane_target
from axla.codegen.native.image import Image
from axla.codegen.object_files import symbols
from axla.codegen.types import vector
from axla.codegen.value import forbidden_intrinsics
from axla.core.dtypes import (
    BF16,
    C64,
    C128,
    F16,
    F32,
    F64,
    S8,
    S16,
    S32,
    S64,
    U8,
    U16,
    U32,
    U64,
    DType,
)  # fmt: skip
from axla.kernels.dot import GemmSpec, plan_product
from axla.target.machine import AARCH64, X86_LEVELS

HOST = host_target()
TARGETS = {"host": HOST, "one-lane": one_lane_target()}
if HOST.name.startswith("x86-64"):
    TARGETS |= {
        name: level
        for name, level in X86_LEVELS.items()
        if name in ("x86-64", "x86-64-v3") and name <= HOST.name
    }

SIZES = (1, 2, 3, 7, 8, 15, 16, 17, 33, 100, 129)
LAYOUTS = tuple(itertools.product((False, True), repeat=2))
TYPES = [
    (F32, F32), (F64, F64), (F16, F16), (F16, F32), (BF16, BF16), (BF16, F32), (C64, C64), (C128, C128),
    (S8, S8), (S8, S32), (U8, U8), (U8, U32), (S16, S16), (U16, U16),
    (S32, S32), (U32, U32), (S64, S64), (U64, U64),
]  # fmt: skip


def product(
    dtype: DType,
    result: DType,
    dims: tuple[int, int, int],
    layout: tuple[bool, bool] = (False, False),
    batch: int = 1,
) -> Product:
    return Product(GemmSpec(dtype, result, batch, *dims, *layout))


def edge_products(dtype: DType, result: DType, shifts: int) -> list[Product]:
    """Each size at each of the three places, in other company each time, in all layouts in turn."""
    found = []
    layouts = itertools.cycle(LAYOUTS)
    for shift in range(shifts):
        for number, m in enumerate(SIZES):
            n, k = SIZES[(number + shift) % len(SIZES)], SIZES[(number + 2 * shift + 3) % len(SIZES)]
            found.append(product(dtype, result, (m, n, k), next(layouts), 1 + 2 * (number % 5 == 0)))
    return found


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
@pytest.mark.parametrize(("dtype", "result"), TYPES, ids=lambda dtype: dtype.name)
def test_sizes_and_types(dtype, result, target):
    shifts = 6 if dtype is F32 and target is HOST else 1
    products = edge_products(dtype, result, shifts)
    compiled = Compiled(products if target in (HOST, TARGETS["one-lane"]) else products[::2], target)
    for one in compiled.products:
        check(compiled, one)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
@pytest.mark.parametrize(("dtype", "result"), [(F32, F32), (BF16, BF16), (C64, C64), (S8, S32)], ids=str)
def test_blocks_of_k(dtype, result, target):
    """Sizes that are packed and blocked, with and without edges."""
    dims = ((150, 200, 300), (257, 66, 520))
    compiled = Compiled(
        [product(dtype, result, d, layout) for d, layout in zip(dims, LAYOUTS[1:3], strict=True)], target
    )
    for one in compiled.products:
        check(compiled, one)


@pytest.mark.skipif(sys.platform == "win32", reason="pages are protected by mprotect")
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
@pytest.mark.parametrize("dtype", [F32, F64, S32], ids=str)
def test_rows_shorter_than_a_tile_are_read_as_they_lie(dtype, target):
    """And nothing is read outside of the matrix, which ends or begins where memory cannot be read."""
    sizes = itertools.product((3, 5, 6, 7, 9, 10, 11, 13, 15, 17, 20, 25, 31), (7, 8, 9, 11, 34))
    compiled = Compiled([product(dtype, dtype, (20, n, k)) for n, k in sizes], target)
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 5 * page)
    where = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for closed in (0, 4 * page):
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(where + closed), page, 0) == 0
    for one in compiled.products:
        check(compiled, one)
        lhs, rhs = one.arrays()
        wanted = compiled.run(one, lhs, rhs)
        for start in (page, 4 * page - rhs.nbytes):
            placed = np.frombuffer(memory, rhs.dtype, rhs.size, start)
            placed[...] = rhs.ravel()
            assert compiled.run(one, lhs, placed).tobytes() == wanted.tobytes(), one.spec
    plans = [(one.spec, one.plan) for one in compiled.products]
    as_they_lie = [s for s, p in plans if p.method == "tile" and not p.pack_rhs and s.n < p.tile.columns]
    assert len(as_they_lie) >= 12 or target.lanes(dtype) < 4


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_methods_in_all_layouts(layout):
    dims = (
        (1, 700, 300),
        (700, 1, 300),
        (1, 1, 999),
        (3000, 6, 5),
        (4, 300, 600),
        (256, 256, 256),
        (600, 40, 2),
    )
    compiled = Compiled(
        [product(F32, F32, d, layout) for d in dims] + [product(F32, F32, (8, 8, 8), layout, 500)], HOST
    )
    for one in compiled.products:
        check(compiled, one)
    assert {one.plan.method for one in compiled.products} >= {"tile", "rows" if layout[1] else "columns"}


def test_no_k_gives_zeros():
    compiled = Compiled([product(F32, F32, (5, 37, 0), batch=2), product(C64, C64, (1, 3, 0))], HOST)
    for one in compiled.products:
        assert not compiled.run(one, *one.arrays()).any()


def counting(spec: GemmSpec) -> str:
    """out += relu(sum + bias[col]) + 1000 * batch: right only if every place is stored to once."""
    shape = f"f32[{spec.batch},{spec.m},{spec.n}]"
    return f"""bias = f32[{spec.n}] parameter(2)
      before = {shape} parameter(3)
      columns = {shape} broadcast(bias), dimensions={{2}}
      added = {shape} add(d, columns)
      zero = f32[] constant(0)
      zeros = {shape} broadcast(zero), dimensions={{}}
      relu = {shape} maximum(added, zeros)
      number = {shape} iota(), iota_dimension=0
      thousand = f32[] constant(1000)
      thousands = {shape} broadcast(thousand), dimensions={{}}
      marks = {shape} multiply(number, thousands)
      marked = {shape} add(relu, marks)
      ROOT total = {shape} add(marked, before)"""


@pytest.mark.parametrize("dims", [
    (64, 64, 64), (100, 70, 50), (33, 129, 600), (300, 520, 300), (1, 700, 90), (700, 1, 90),
    (1, 90, 700), (90, 1, 700),
    (8, 8, 8), (50, 7, 3), (5, 9, 0), (1, 1, 40), (300, 17, 1),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("layout", [(False, False), (True, True)], ids=str)
def test_epilogue_sees_every_element_once(dims, layout):
    spec = GemmSpec(F32, F32, 2, *dims, *layout)
    bias = np.arange(spec.n, dtype=np.float32) / 8
    before = np.arange(2 * spec.m * spec.n, dtype=np.float32).reshape(2, spec.m, spec.n) % 16
    compiled = Compiled([Product(spec, counting(spec), (bias, before), in_place=3)], HOST)
    (one,) = compiled.products
    lhs, rhs = one.arrays()
    found = compiled.run(one, lhs, rhs, out=before.copy())
    a = lhs.swapaxes(1, 2) if layout[0] else lhs
    b = rhs.swapaxes(1, 2) if layout[1] else rhs
    sums = a.astype(np.float64) @ b.astype(np.float64)
    exact = np.maximum(sums + bias, 0) + np.array([0, 1000]).reshape(2, 1, 1) + before
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-3)
    count = one.plan.calls
    again = compiled.run(one, lhs, rhs, range(1, count), out=before.copy())
    assert np.array_equal(found, again)


def test_nothing_invented_from_infinities():
    """Lanes that are computed and dropped, or cleared, must not spill NaN into others."""
    specs = [
        GemmSpec(F32, F32, 1, m, n, 37, rhs_transposed=t)
        for m, n in ((1, 21), (9, 21))
        for t in (False, True)
    ]
    compiled = Compiled([Product(spec) for spec in specs], HOST)
    for one in compiled.products:
        lhs, rhs = (np.ones_like(array) for array in one.arrays())
        rhs[0, 0, 0] = np.inf
        found = compiled.run(one, lhs, rhs)
        assert np.isinf(found[0, :, 0]).all() and (found[0, :, 1:] == 37).all()


def test_no_library_calls():
    specs = [
        GemmSpec(dtype, result, 2, *dims, *layout)
        for dtype, result in ((F32, F32), (F16, F16), (BF16, BF16), (S8, S32), (S64, S64), (C64, C64))
        for dims, layout in (
            ((33, 129, 65), (False, True)),
            ((200, 200, 300), (True, False)),
            ((1, 70, 9), (False, False)),
        )
    ]
    for target in (X86_LEVELS["x86-64"], X86_LEVELS["x86-64-v3"], X86_LEVELS["x86-64-v4"], AARCH64):
        module = module_of([Product(spec) for spec in specs], target)
        assert forbidden_intrinsics(list(module.declared), target) == []
        image = llvm.emit_object(module.text(), target)
        assert not symbols(image).needed, target.name


@pytest.mark.parametrize(
    "dims", [(512, 512, 512), (513, 511, 769), (128, 768, 3072), (1, 4096, 999), (130, 3, 7)], ids=str
)
def test_code_stays_small(dims):
    """One micro-kernel whatever the edges and blocks: at most three functions and a few KB."""
    one = product(F32, F32, dims)
    text = module_of([one], HOST).text()
    assert text.count("define ") <= 3
    assert len(llvm.emit_object(text, HOST)) < 6000


def test_units_cut_large_products_for_threads():
    for dims in (
        (512, 512, 512),
        (1024, 1024, 1024),
        (128, 768, 3072),
        (8192, 64, 64),
        (1, 4096, 1024),
        (4096, 1, 1024),
    ):
        for found in (plan_product(product(F32, F32, dims).spec, target) for target in TARGETS.values()):
            assert found.calls >= 8, found
    tiny = plan_product(product(F32, F32, (16, 16, 16)).spec, HOST)
    assert tiny.calls == 1
    batch = plan_product(product(F32, F32, (8, 8, 8), batch=100_000).spec, HOST)
    assert 8 <= batch.calls <= 256


@pytest.mark.parametrize("k", [1024, 2048, 1040])
def test_rows_that_fall_on_the_same_sets_of_a_cache_are_few(k):
    """Rows of 4,096 bytes and multiples: a set of L1 has room for eight lines."""
    for target in TARGETS.values():
        for m in (49, 196, 784):
            cut = plan_product(product(F32, F32, (m, 256, k)).spec, target)
            assert k == 1040 or cut.tile.rows <= 6 or cut.pack_lhs


def test_equal_specs_make_equal_code():
    one, two = (module_of([product(F32, F32, (77, 99, 300))], HOST).text() for _ in range(2))
    assert one == two


@pytest.mark.parametrize(("element", "lanes"), [
    ("float", 16), ("float", 8), ("float", 4), ("float", 2), ("double", 8), ("i8", 32), ("i16", 8),
    ("i64", 2), ("float", 1),
])  # fmt: skip
def test_transpose_block(element, lanes):
    module = LlvmModule()
    f = LlvmFunction(module, "turn", "void", [("ptr", "source"), ("ptr", "target")])
    kind = vector(element, lanes)
    rows = [f.load(kind, f.gep(element, f.params["source"], f.index(r * lanes)), 1) for r in range(lanes)]
    for r, row in enumerate(transpose_block(f, rows)):
        f.store(row, f.gep(element, f.params["target"], f.index(r * lanes)), 1)
    f.ret()
    dtype = {"float": np.float32, "double": np.float64}.get(element) or np.dtype(f"i{int(element[1:]) // 8}")
    source = np.arange(lanes * lanes).astype(dtype).reshape(lanes, lanes)
    target = np.zeros_like(source)
    run(module, "turn", source, target)
    assert np.array_equal(target, source.T)


def run(module: LlvmModule, name: str, *arrays: np.ndarray) -> None:
    """Compiles a module for this machine and calls a function of it with the addresses of arrays."""
    image = llvm.emit_object(module.text(), HOST)
    library = Image([("test", image)], [name])
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(library.addresses[name])
    function(*[array.ctypes.data for array in arrays])


@pytest.mark.parametrize("rows", [3136, 100])
def test_what_follows_a_large_product_comes_to_the_cache_before(rows):
    """The result, and an array that is added; small ones are near anyway."""
    level = X86_LEVELS["x86-64-v3"]
    extra = np.zeros((1, rows, 256), np.float32)
    added = f"e = f32[1,{rows},256] parameter(2) ROOT r = f32[1,{rows},256] add(%d, e)"
    one = Product(GemmSpec(F32, F32, 1, rows, 256, 64), added, (extra,))
    found = llvm.emit_assembly(module_of([one], level).text(), level).count("\tprefetch")
    lines = -(-one.plan.tile.columns * 4 // 64)
    assert found == (2 * lines if rows == 3136 else 0)
