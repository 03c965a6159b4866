"""Conversions between all element types, and the formats of the small floats, against ml_dtypes."""

from __future__ import annotations

import itertools
from functools import cache

import elementwise
import ml_dtypes
import numpy as np
import pytest

import axla
from axla.codegen import small_float
from axla.codegen.host import host_target, one_lane_target
from axla.core import dtypes as D
from axla.target.machine import cpu_target

SMALL = [kind for kind in D.ALL if kind.is_float and kind.bits < 32]
INTEGERS = [kind for kind in D.ALL if kind.is_integer]
TARGETS = {"host": host_target, "one-lane": one_lane_target, "x86-64": lambda: cpu_target("x86-64")}


def every_bit_pattern(kind: D.DType) -> np.ndarray:
    """All values of a type of at most 16 bits."""
    if kind.itemsize == 2:
        return np.arange(65536, dtype=np.uint16).view(kind.numpy)
    return np.arange(1 << kind.bits, dtype=np.uint8).view(kind.numpy)


@cache
def hard_floats(kind: np.dtype) -> np.ndarray:
    """Special values, numbers near those of the small formats and halfway between them, random bits."""
    rng = np.random.default_rng(7)
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1e-45,
        -1e-45,
        1e38,
        -3e38,
        448.0,
        464.0,
        465.0,
        57344.0,
        61440.0,
    ]
    near = []
    for small in SMALL:
        with np.errstate(invalid="ignore"):
            values = np.sort(every_bit_pattern(small).astype(np.float64))
        values = values[np.isfinite(values)][:: max(1, values.size // 512)]
        halfway = (values[1:] + values[:-1]) / 2
        near += [values, halfway, np.nextafter(halfway, np.inf), np.nextafter(halfway, -np.inf)]
    bits = rng.integers(0, 2**63, 4000, dtype=np.uint64)
    raw = bits.view(np.float64) if kind == np.float64 else bits.astype(np.uint32).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.concatenate([np.array(special), *near]).astype(kind)
    return np.concatenate([values, raw])


def odd_singles(x: np.ndarray) -> np.ndarray:
    """f64 as f32 that round to small floats as x does.

    ml_dtypes itself goes through the nearest f32: twice rounded. What is 0 there stays 0.
    """
    near = x.astype(np.float32)
    away = abs(near.astype(np.float64)) > abs(x)
    bits = near.view(np.uint32) - away
    return np.where((near != x) & ~np.isnan(x) & (near != 0), bits | 1, near.view(np.uint32)).view(np.float32)


def same(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Equal, zeros with their signs, any NaN for any NaN."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        a, b = got.astype(np.float64), want.astype(np.float64)
    return (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))


@pytest.fixture(scope="module", params=TARGETS)
def compiled(request):
    """All conversions among floats, from floats to integers and back, one module per target."""
    target = TARGETS[request.param]()
    floats = [*SMALL, D.F32, D.F64]
    pairs = [
        *itertools.product(floats, floats),
        *itertools.product([D.F32, D.F64, D.BF16], [D.PRED, *INTEGERS]),
    ]
    pairs += [*itertools.product([D.S4, D.U2, D.S8, D.U16, D.S32, D.U32, D.S64, D.U64], [*floats, *INTEGERS])]
    cases = [
        elementwise.Case(
            f"{a}_{b}",
            (a,),
            b,
            min(target.lanes(a), target.lanes(b)),
            lambda values, x, b=b: values.convert(x, b),
        )
        for a, b in pairs
    ]
    return elementwise.Compiled(cases, target)


@pytest.mark.parametrize("wide", [D.F32, D.F64], ids=str)
@pytest.mark.parametrize("small", SMALL, ids=str)
def test_rounding_to_a_small_float(compiled, small, wide):
    x = hard_floats(wide.numpy)
    with np.errstate(over="ignore", invalid="ignore"):
        want = (odd_singles(x) if wide is D.F64 else x).astype(small.numpy)
    got = compiled.run(f"{wide}_{small}", [x])
    wrong = ~same(got, want)
    assert not wrong.any(), [(x[k], got[k], want[k]) for k in np.flatnonzero(wrong)[:5]]


def test_doubles_below_all_singles_have_no_power_of_two(compiled):
    x = np.array([1e-46, 2.0**-150, 1e-300, 5e-324, 2.0**-149, 2.0**-127])
    got = compiled.run("f64_f8e8m0fnu", [x]).view(np.uint8)
    assert (
        got.tolist() == [255, 255, 255, 255, 0, 0] == x.astype(ml_dtypes.float8_e8m0fnu).view("u1").tolist()
    )


@pytest.mark.parametrize("small", SMALL, ids=str)
def test_every_small_float_survives(compiled, small):
    x = every_bit_pattern(small)
    wide = compiled.run(f"{small}_f32", [x])
    assert same(wide, x.astype(np.float32)).all()
    back = compiled.run(f"f32_{small}", [wide])
    assert same(back, x).all()


@pytest.mark.parametrize("source", SMALL, ids=str)
def test_between_small_floats(compiled, source):
    x = every_bit_pattern(source)
    for target in SMALL:
        if D.F8E8M0FNU in (source, target):
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            want = x.astype(np.float32).astype(target.numpy)
        got = compiled.run(f"{source}_{target}", [x])
        wrong = np.flatnonzero(~same(got, want))
        assert not wrong.size, (target, [(x[k], got[k], want[k]) for k in wrong[:5]])


@pytest.mark.parametrize("source", [D.F32, D.F64, D.BF16], ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_float_to_integer_saturates(compiled, source, target):
    with np.errstate(over="ignore", invalid="ignore"):
        x = np.array(
            [
                0.0,
                -0.0,
                0.99,
                -0.99,
                1.5,
                -1.5,
                np.nan,
                np.inf,
                -np.inf,
                *(s * 2.0**k for k in range(70) for s in (1, -1)),
            ]
            + [s * (2.0**k - 0.5) for k in range(1, 40) for s in (1, -1)],
        ).astype(source.numpy)
    low = -(2 ** (target.bits - 1)) if target.is_signed else 0
    high = (2 ** (target.bits - 1) if target.is_signed else 2**target.bits) - 1
    want = [
        0 if v != v else high if v >= high else low if v <= low else int(v)
        for v in x.astype(np.float64).tolist()
    ]
    got = compiled.run(f"{source}_{target}", [x])
    assert [int(v) for v in got] == want


@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
@pytest.mark.parametrize("target", [kind for kind in INTEGERS if kind.bits >= 8], ids=str)
def test_float_to_the_nearest_integer(target, backend):
    """Rounded to even, then saturated; NaN gives 0."""
    x = np.concatenate([hard_floats(np.dtype(np.float32)), np.arange(-400, 400, 0.125, np.float32)])
    text = f"""ENTRY e {{ x = f32[{x.size}] parameter(0)
      r = f32[{x.size}] round-nearest-even(x)
      ROOT c = {target}[{x.size}] convert(r) }}"""
    limits = np.iinfo(target.numpy)
    with np.errstate(invalid="ignore"):
        rounded = np.round(x.astype(np.float64))
    want = [0 if v != v else int(min(max(v, limits.min), limits.max)) for v in rounded.tolist()]
    assert np.asarray(axla.compile(axla.parse(text), backend=backend)(x)).tolist() == want


@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
def test_bf16_rounded_to_the_nearest_integer_is_whole(backend):
    """Also where only its maximum with another number is stored."""
    x = np.arange(-8, 8, 0.125, np.float32).astype(ml_dtypes.bfloat16)
    text = """ENTRY e { x = bf16[128] parameter(0)
      y = bf16[128] parameter(1)
      r = bf16[128] round-nearest-even(x)
      ROOT m = bf16[128] maximum(r, y) }"""
    got = np.asarray(axla.compile(axla.parse(text), backend=backend)(x, x[::-1] * 0))
    np.testing.assert_array_equal(got.astype(np.float32), np.maximum(np.round(x.astype(np.float32)), 0))


@pytest.mark.parametrize("source", [D.S4, D.U2, D.S8, D.U16, D.S32, D.U32, D.S64, D.U64], ids=str)
def test_from_integers(compiled, source):
    rng = np.random.default_rng(3)
    low = -(2 ** (source.bits - 1)) if source.is_signed else 0
    high = low + 2**source.bits - 1
    numbers = [
        low,
        low + 1,
        high,
        high - 1,
        0,
        *(
            int(v)
            for v in rng.integers(low, high, 50, dtype=np.dtype(f"{'i' if source.is_signed else 'u'}8"))
        ),
    ]
    x = np.array(numbers, np.int64 if source.is_signed else np.uint64).astype(source.numpy)
    for target in INTEGERS:
        mask = (1 << target.bits) - 1
        wrapped = [v & mask for v in numbers]
        if target.is_signed:
            wrapped = [v - ((v >> (target.bits - 1)) << target.bits) for v in wrapped]
        assert [int(v) for v in compiled.run(f"{source}_{target}", [x])] == wrapped, target
    exact = np.array(numbers, object)
    for target in (D.F32, D.F64):
        got = compiled.run(f"{source}_{target}", [x])
        assert got.tolist() == exact.astype(target.numpy).tolist(), target
    for target in (D.F16, D.BF16):
        with np.errstate(over="ignore"):
            want = exact.astype(np.float32).astype(target.numpy)
        assert same(compiled.run(f"{source}_{target}", [x]), want).all(), target


def test_formats_are_those_of_ml_dtypes():
    for small in SMALL:
        form = small_float.FORMATS[small.name]
        info = ml_dtypes.finfo(small.numpy)
        if form.kind == small_float.SCALE:
            continue
        assert form.largest == float(info.max), small
        assert form.least_normal == float(info.smallest_normal), small
        assert form.fraction == info.nmant, small


def test_stores_that_only_move_data_keep_all_bits():
    """A copy must not quieten a NaN or lose its payload."""
    target = host_target()
    kinds = [small for small in SMALL if small.bits in (8, 16)]
    cases = [
        elementwise.Case(f"copy_{kind}", (kind,), kind, target.lanes(kind), lambda values, x: x)
        for kind in kinds
    ]
    compiled = elementwise.Compiled(cases, target)
    for kind in kinds:
        x = every_bit_pattern(kind)
        raw = np.uint16 if kind.itemsize == 2 else np.uint8
        assert (compiled.run(f"copy_{kind}", [x]).view(raw) == x.view(raw)).all(), kind


@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
@pytest.mark.parametrize("kind", SMALL, ids=lambda kind: kind.name)
def test_reduced_precision_is_that_of_the_interpreter(kind, backend):
    """For all values: NaN without a fraction, what is too small or large, denormals."""
    x = every_bit_pattern(kind)
    pairs = [(1, 0), (2, 1), (3, 0), (4, 3), (5, 2), (5, 5), (8, 0), (8, 4), (8, 10)]
    lines = [
        f"r{n} = {kind}[{x.size}] reduce-precision(x), exponent_bits={e}, mantissa_bits={m}"
        for n, (e, m) in enumerate(pairs)
    ]
    names, shapes = (
        ", ".join([text.format(n) for n in range(len(pairs))]) for text in ("r{}", f"{kind}[{x.size}]")
    )
    module = axla.parse("\n".join(
        [f"ENTRY e {{ x = {kind}[{x.size}] parameter(0)", *lines, f"ROOT t = ({shapes}) tuple({names}) }}"]
    ))  # fmt: skip
    found, wanted = (axla.compile(module, backend=one)(x) for one in (backend, "interpreter"))
    for pair, a, b in zip(pairs, found, wanted, strict=True):
        a, b = (np.asarray(v).astype(np.float32) for v in (a, b))
        np.testing.assert_array_equal(a, b, str(pair))
        np.testing.assert_array_equal(np.signbit(a) | np.isnan(a), np.signbit(b) | np.isnan(b), str(pair))
