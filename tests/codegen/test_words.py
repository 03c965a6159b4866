"""Products by instructions on words of short numbers: bytes by VNNI, bf16 where denormals may go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from products import Compiled, Product, check, module_of, wanted

import axla
from axla.codegen import llvm
from axla.codegen.function import LlvmModule
from axla.codegen.host import host_target
from axla.codegen.kernel import emit_kernel
from axla.core import flags
from axla.core.dtypes import BF16, F16, F32, F64, S8, S16, S32, S64, U8, U32
from axla.kernels.dot import GemmSpec
from axla.kernels.product import BYTES, HALVES
from axla.program.kernels import plan_kernel
from axla.target.names import target

FLUSHING = replace(host_target(), flushes=True)
WORDS = {"bytes": BYTES, "halves": HALVES}
has = {
    name: pytest.mark.skipif(word not in host_target().intrinsics, reason=f"this CPU has no {word}")
    for name, word in WORDS.items()
}

# Batch, m, n, k, which operands are transposed: tiles and their edges, several blocks of k, few columns, few
# rows, vectors both ways, sums of k that are not whole words.
SIZES = [
    (1, 20, 20, 16, False, False), (2, 9, 33, 64, True, False), (1, 64, 17, 2400, False, True),
    (1, 5, 5, 4, True, True), (1, 1, 40, 64, False, False), (1, 1, 40, 64, False, True),
    (1, 40, 1, 64, True, False), (3, 1, 1, 100, False, False), (1, 40, 3, 8, False, False),
    (1, 30, 2, 8, True, True), (1, 27, 100, 44, False, False), (1, 13, 2, 400, False, False),
    (1, 6, 7, 12, False, True), (1, 150, 200, 4096, True, False), (1, 33, 31, 29, False, False),
    (1, 40, 70, 65, False, True), (2, 31, 40, 47, True, True), (1, 64, 64, 5001, False, False),
    (1, 100, 33, 130, True, False), (2, 17, 3, 6, True, True),
    (1, 100, 1, 1032, False, False), (1, 257, 70, 1032, False, True),
]  # fmt: skip
BYTES_SPECS = [
    GemmSpec(dtype, result, *sizes) for sizes in SIZES for dtype, result in ((S8, S32), (U8, U32), (U8, S32))
]
HALVES_SPECS = [GemmSpec(BF16, result, *sizes) for sizes in SIZES for result in (BF16, F32)]


def assembly(spec, features, **facts):
    machine = replace(target("x86-64-v4", features=features), **facts)
    return llvm.emit_assembly(module_of([Product(spec)], machine).text(), machine)


@pytest.mark.parametrize(("n", "words"), [(200, "vpdpbusd"), (1, "vpdpwssd")])
def test_products_of_bytes_take_words_where_the_machine_has_them(n, words):
    spec = GemmSpec(S8, S32, 1, 20, n, 64)
    assert f"\t{words}\t" in assembly(spec, ["+avx512vnni"])
    assert "vpdp" not in assembly(spec, [])
    assert "vpdp" not in assembly(replace(spec, result=S8), ["+avx512vnni"])
    assert "vpdp" not in assembly(spec, ["+avx512vnni", "-avx512f"])


@pytest.mark.parametrize("result", [F16, F32, S16, S64, F64])
def test_products_take_words_only_for_sums_of_their_kind(result):
    """Sums of bytes are integers of 32 bits, and those of bf16 floats."""
    features, sizes = ["+avx512vnni", "+avx512bf16"], (1, 20, 20, 64)
    assert "vpdp" not in assembly(GemmSpec(S8, result, *sizes), features)
    if result not in (F16, F32):
        assert "vdpbf16ps" not in assembly(GemmSpec(BF16, result, *sizes), features, flushes=True)


def test_products_of_bf16_take_words_where_denormals_may_go():
    spec = GemmSpec(BF16, F32, 1, 20, 20, 16)
    assert "\tvdpbf16ps\t" in assembly(spec, ["+avx512bf16"], flushes=True)
    assert "vdpbf16ps" not in assembly(spec, ["+avx512bf16"])
    assert "vdpbf16ps" not in assembly(spec, [], flushes=True)
    assert not host_target().flushes
    with flags.override(flush_denormals=True):
        assert host_target().flushes


def emitted(text, features, **facts):
    """The assembly of a kernel."""
    machine = replace(target("x86-64-v4", features=features), **facts)
    module = LlvmModule(machine.index_type)
    emit_kernel(module, plan_kernel("kernel", axla.parse(text).entry, (), machine), machine)
    module.publish("kernel")
    return llvm.emit_assembly(module.text(), machine)


def test_conversions_to_bytes_round_and_saturate_by_instructions():
    text = (
        "ENTRY e { a = f32[512] parameter(0) b = f32[512] round-nearest-even(a) ROOT r = s8[512] convert(b) }"
    )
    found = emitted(text, [])
    assert "\tvcvtps2dq\t" in found and "\tvpmovsdb\t" in found
    assert "vrndscale" not in found and "vpminsd" not in found and "vmaxps" not in found


SHORT = """ENTRY e { a = bf16[65536] parameter(0) b = bf16[65536] parameter(1) c = f32[65536] parameter(2)
  sum = bf16[65536] add(a, b)
  z = bf16[] constant(0)
  zero = bf16[65536] broadcast(z), dimensions={}
  positive = bf16[65536] maximum(sum, zero)
  converted = bf16[65536] convert(c)
  both = bf16[65536] minimum(converted, sum)
  ROOT t = (bf16[65536], bf16[65536], bf16[65536], bf16[65536]) tuple(sum, positive, converted, both) }"""


def test_bf16_is_rounded_by_an_instruction_where_denormals_may_go():
    text = SHORT.replace("65536", "512")
    assert "\tvcvtneps2bf16\t" in emitted(text, ["+avx512bf16"], flushes=True)
    assert "vcvtneps2bf16" not in emitted(text, ["+avx512bf16"])
    assert "vcvtneps2bf16" not in emitted(text, [], flushes=True)


@has["halves"]
def test_bf16_rounded_by_an_instruction_has_the_same_bits():
    """All but denormals, and what they round to: they may be zeros of their sign. NaN stays NaN."""
    rng = np.random.default_rng(5)
    a = np.arange(65536, dtype=np.uint16).view(BF16.numpy)
    b = np.where(rng.random(65536) < 0.5, a[::-1], rng.permutation(a)).astype(BF16.numpy)
    c = rng.integers(0, 1 << 32, 65536, np.uint32).view(np.float32)
    c[:4096] = (np.arange(4096, dtype=np.uint32) << 20 | 0x8000).view(np.float32)  # ties
    exact = axla.compile(axla.parse(SHORT))(a, b, c)
    found = axla.compile(axla.parse(SHORT), flags={"xla_cpu_ftz": True})(a, b, c)
    for got, want in zip(found, exact, strict=True):
        got, want = (np.asarray(v).astype(np.float32) for v in (got, want))
        least = np.finfo(np.float32).tiny
        gone = (np.abs(want) <= least) & (got == 0) & (np.signbit(got) == np.signbit(want))
        same = (got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)
        assert (same | gone).all(), (got[~(same | gone)][:5], want[~(same | gone)][:5])


@has["halves"]
@pytest.mark.parametrize("back", ["bf16", "f32"])
def test_bf16_rounded_by_an_instruction_has_its_integer_part(back):
    text = f"""ENTRY e {{ x = f32[512] parameter(0)
      b = bf16[512] convert(x)
      w = {back}[512] convert(b)
      ROOT r = s8[512] convert(w) }}"""
    x = np.arange(-64, 64, 0.25, np.float32)
    found = axla.compile(axla.parse(text), flags={"xla_cpu_ftz": True, "xla_allow_excess_precision": False})
    np.testing.assert_array_equal(np.asarray(found(x)), np.trunc(x).astype(np.int8))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_halves_are_computed_as_halves_where_the_machine_does_that(name):
    text = f"ENTRY e {{ a = f16[64] parameter(0) ROOT r = f16[64] {name}(a, a) }}"
    own = emitted(text, ["+avx512fp16"])
    assert f"\tv{name[:3]}ph\t" in own and "vcvt" not in own
    assert "\tvcvtph2ps\t" in emitted(text, [])


@has["bytes"]
def test_the_highest_level_allowed_counts():
    for isa, wanted_names in (("AVX512", set()), ("AVX512_VNNI", {BYTES})):
        with flags.override(cpu_max_isa=isa):
            assert {BYTES, HALVES} & host_target().intrinsics == wanted_names


@has["bytes"]
def test_products_of_bytes_are_exact():
    compiled = Compiled([Product(spec) for spec in BYTES_SPECS], host_target())
    for product in compiled.products:
        check(compiled, product)


@has["bytes"]
def test_extremes_of_bytes_are_exact():
    """Every product the largest there is, of either sign: nothing saturates."""
    compiled = Compiled([Product(spec) for spec in BYTES_SPECS], host_target())
    for product in compiled.products:
        info = np.iinfo(product.spec.dtype.numpy)
        for left in (info.min, info.max):
            for right in (info.min, info.max):
                lhs, rhs = product.arrays()
                lhs[...], rhs[...] = left, right
                exact, _ = wanted(product, lhs, rhs)
                np.testing.assert_array_equal(compiled.run(product, lhs, rhs), exact, str(product.spec))


@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
def test_bytes_that_are_never_negative(backend):
    """A convolution, products of matrices and of a row whose first operand is known to have no sign."""
    rng = np.random.default_rng(3)
    text = """most { a = s8[] parameter(0) b = s8[] parameter(1) ROOT m = s8[] maximum(a, b) }
    ENTRY e { x = f32[1,14,14,64] parameter(0)
      k = s8[3,3,64,64] parameter(1)
      w = s8[64,96] parameter(2)
      v = s8[12544,64] parameter(3)
      z = f32[] constant(0)
      zero = f32[1,14,14,64] broadcast(z), dimensions={}
      p = f32[1,14,14,64] maximum(x, zero)
      n = f32[1,14,14,64] round-nearest-even(p)
      s = s8[1,14,14,64] convert(n)
      i = s8[] constant(-128)
      h = s8[1,7,7,64] reduce-window(s, i), to_apply=most,
        window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}
      c = s32[1,14,14,64] convolution(s, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
      r = s8[49,64] reshape(h)
      d = s32[49,96] dot(r, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      f = s8[1,12544] reshape(s)
      g = s32[1,64] dot(f, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT t = (s32[1,14,14,64], s32[49,96], s32[1,64]) tuple(c, d, g) }"""
    module = axla.parse(text)
    x = np.where(rng.random((1, 14, 14, 64)) < 0.5, 200, rng.uniform(-150, 150, (1, 14, 14, 64)))
    sizes = (3, 3, 64, 64), (64, 96), (12544, 64)
    weights = [np.where(rng.random(size) < 0.3, -128, rng.integers(-128, 128, size)) for size in sizes]
    weights = [w.astype(np.int8) for w in weights]
    wanted = axla.compile(module, backend="interpreter")(x.astype(np.float32), *weights)
    found = axla.compile(module, constant=enumerate(weights, 1), backend=backend)(x.astype(np.float32))
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


@has["halves"]
def test_products_of_bf16_by_words():
    compiled = Compiled([Product(spec) for spec in HALVES_SPECS], FLUSHING)
    assert any(p.spec.by_words(FLUSHING).word == 2 for p in compiled.products)
    for product in compiled.products:
        check(compiled, product)


@has["halves"]
def test_special_numbers_of_bf16_by_words():
    """NaN and infinities come out as from any sum; denormals are kept or taken for zero."""
    compiled = Compiled([Product(spec) for spec in HALVES_SPECS], FLUSHING)
    for product in compiled.products:
        lhs, rhs = product.arrays()
        for number, value in enumerate((np.nan, np.inf, -np.inf, 1e-39)):
            lhs.reshape(-1)[number :: max(5, lhs.size // 3)] = value
        with np.errstate(invalid="ignore"):
            exact, _ = wanted(product, lhs, rhs)
        found = compiled.run(product, lhs, rhs).astype(np.float64)
        for test in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(test(found), test(exact), str(product.spec))
        lhs[...] = rhs[...] = 2.0**-130
        assert not compiled.run(product, lhs, rhs).any()
        rhs[...] = 2.0**100
        k = product.spec.k
        for value in np.unique(compiled.run(product, lhs, rhs).astype(np.float64)):
            assert value == 0 or np.isclose(value, k * 2.0**-30, rtol=0.01)
