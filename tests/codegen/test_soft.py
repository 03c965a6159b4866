"""Operations that small machines have no instruction for: bits equal to those of this machine's."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from elementwise import Case, Compiled

from axla.codegen.host import host_target
from axla.core import dtypes as D
from axla.target.machine import MathKnobs

SOFT = replace(
    host_target(), name="soft", max_lanes=1, has_fma=False, has_rounding=False, has_half_conversion=False,
    has_masked=False, has_fast_gather=False, math=MathKnobs(), has_double=False, has_division=False,
    has_wide_division=False,
)  # fmt: skip
RNG = np.random.default_rng(5)
COUNT = 20_000

_SPECIAL = np.array(
    [0, 1, 2, 1023, 1 << 51, (1 << 52) - 1, 1 << 52, (1 << 52) + 1, 0x3FE, 0x3FF << 52, (0x3FF << 52) + 1,
     (0x7FE << 52) | ((1 << 52) - 1), 0x7FE << 52, 0x7FF << 52, (0x7FF << 52) + 1, 0x7FF8 << 48],
    np.uint64,
)  # fmt: skip


def doubles() -> tuple[np.ndarray, np.ndarray]:
    """Pairs of f64: all special ones, any bits, neighbours in size (cancellation), few set bits (ties)."""
    special = np.concatenate([_SPECIAL, _SPECIAL | np.uint64(1 << 63)])
    pairs = [np.array(np.meshgrid(special, special)).reshape(2, -1)]
    any_bits = RNG.integers(0, 1 << 64, (2, COUNT), np.uint64)
    pairs.append(any_bits)
    mantissa = np.uint64((1 << 52) - 1)
    near = RNG.integers(1023 - 60, 1023 + 60, (2, COUNT)).astype(np.uint64) << np.uint64(52)
    sign = any_bits & np.uint64(1 << 63)
    pairs.append((any_bits & mantissa) | near | sign)
    coarse = RNG.integers(0, 8, (2, COUNT)).astype(np.uint64) << RNG.integers(0, 52, (2, COUNT)).astype(
        np.uint64
    )
    pairs.append((coarse & mantissa) | near | sign)
    low = RNG.integers(0, 1 << 54, (2, COUNT), np.uint64)
    pairs.append(low | sign)  # denormals, and what they meet
    whole = np.concatenate(pairs, axis=1).view(np.float64)
    return whole[0], whole[1]


def integers(dtype: D.DType) -> tuple[np.ndarray, np.ndarray]:
    bits = RNG.integers(0, 1 << 64, (2, COUNT), np.uint64) >> RNG.integers(0, 64, (2, COUNT)).astype(
        np.uint64
    )
    edges = [0, 1, 2, 3, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 31) - 1, 1 << 31, (1 << 53) + 1]
    grid = np.array(np.meshgrid(*[np.array(edges, np.uint64)] * 2)).reshape(2, -1)
    whole = np.concatenate([grid, bits, -bits.view(np.int64).view(np.uint64)], axis=1).astype(dtype.numpy)
    return whole[0].copy(), whole[1].copy()


def assert_same_bits(found: np.ndarray, wanted: np.ndarray, *of: np.ndarray) -> None:
    """Equal bits; one NaN is as good as another."""
    kind = f"u{found.dtype.itemsize}"
    same = found.view(kind) == wanted.view(kind)
    if found.dtype.kind == "f":
        same |= np.isnan(found) & np.isnan(wanted)
    bad = np.flatnonzero(~same)[:5]
    assert not bad.size, [(*(a[k] for a in of), found[k], wanted[k]) for k in bad]


@pytest.fixture(scope="module")
def arithmetic() -> Compiled:
    cases = [
        Case(opcode, (D.F64, D.F64), D.F64, 1, lambda v, a, b, opcode=opcode: v.binary(opcode, a, b))
        for opcode in ("add", "subtract", "multiply", "divide")
    ]
    for dtype in (D.S64, D.U64, D.S32, D.U32, D.S8, D.U16):
        cases += [
            Case(f"{opcode}.{dtype}", (dtype, dtype), dtype, 1,
                 lambda v, a, b, opcode=opcode: v.binary(opcode, a, b))
            for opcode in ("divide", "remainder")
        ]  # fmt: skip
    return Compiled(cases, SOFT)


@pytest.mark.parametrize("opcode", ["add", "subtract", "multiply", "divide"])
def test_f64_arithmetic_is_rounded_once(arithmetic, opcode):
    a, b = doubles()
    with np.errstate(all="ignore"):
        wanted = getattr(np, opcode)(a, b)
    assert_same_bits(arithmetic.run(opcode, [a, b]), wanted, a, b)


@pytest.mark.parametrize("dtype", [D.S64, D.U64, D.S32, D.U32, D.S8, D.U16], ids=str)
def test_integers_divide_towards_zero(arithmetic, dtype):
    a, b = integers(dtype)
    exact = b != 0
    if dtype.is_signed:
        exact &= ~((a == np.iinfo(a.dtype).min) & (b == -1))
    with np.errstate(all="ignore"):
        safe = np.where(exact, b, 1).astype(b.dtype)
        # NumPy's quotient is rounded down, its fmod has the sign of the dividend.
        rest = np.fmod(a, safe)
        quotient = ((a - rest) // safe).astype(a.dtype)
    found = arithmetic.run(f"divide.{dtype}", [a, b])
    assert_same_bits(found[exact], quotient[exact], a[exact], b[exact])
    found = arithmetic.run(f"remainder.{dtype}", [a, b])
    assert_same_bits(found[exact], rest[exact], a[exact], b[exact])
    assert (found[b == 0] == a[b == 0]).all()


_CONVERSIONS = [
    (D.S64, D.F32), (D.U64, D.F32), (D.S64, D.F64), (D.U64, D.F64), (D.S32, D.F64), (D.U32, D.F64),
    (D.F64, D.F32),
    (D.F32, D.F64), (D.F64, D.S64), (D.F64, D.U64), (D.F64, D.S32), (D.F32, D.S64), (D.F32, D.U64),
    (D.U8, D.F64),
]  # fmt: skip


def test_conversions_are_those_of_the_machine():
    """Against the same conversions compiled for this machine, which other tests compare with NumPy."""
    cases = [
        Case(f"{a}.{b}", (a,), b, 1, lambda v, x, b=b: v.convert(x, b)) for a, b in _CONVERSIONS
    ]  # fmt: skip
    soft, hard = Compiled(cases, SOFT), Compiled(cases, replace(host_target(), max_lanes=1))
    for source, target in _CONVERSIONS:
        if source is D.F64:
            x = np.concatenate([*doubles(), RNG.normal(0, 2.0**60, COUNT), RNG.normal(0, 2.0**31, COUNT)])
        elif source is D.F32:
            x = RNG.integers(0, 1 << 32, COUNT, np.uint64).astype(np.uint32).view(np.float32)
            x = np.concatenate([x, RNG.normal(0, 2.0**60, COUNT).astype(np.float32), [0.0, -0.0, 1e-45]])
            x = x.astype(np.float32)
        else:
            x = integers(source)[0]
        name = f"{source}.{target}"
        assert_same_bits(soft.run(name, [x]), hard.run(name, [x]), x)


def test_f64_comparisons():
    cases = [
        Case(name, (D.F64, D.F64), D.PRED, 1, body)
        for name, body in {
            "lt": lambda v, a, b: v.compare("LT", a, b),
            "le": lambda v, a, b: v.wrap(D.PRED, ((v.m.reg(a.ssa) <= v.m.reg(b.ssa)).ssa,)),
            "gt": lambda v, a, b: v.wrap(D.PRED, ((v.m.reg(a.ssa) > v.m.reg(b.ssa)).ssa,)),
            "ge": lambda v, a, b: v.wrap(D.PRED, ((v.m.reg(a.ssa) >= v.m.reg(b.ssa)).ssa,)),
            "eq": lambda v, a, b: v.wrap(D.PRED, (v.m.reg(a.ssa).eq(v.m.reg(b.ssa)).ssa,)),
            "ne": lambda v, a, b: v.compare("NE", a, b),
        }.items()
    ]
    compiled = Compiled(cases, SOFT)
    a, b = doubles()
    wanted = {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}
    for name, table in wanted.items():
        assert (compiled.run(name, [a, b]).astype(bool) == table).all(), name


def test_square_roots_are_rounded_once():
    compiled = Compiled([Case("sqrt", (D.F64,), D.F64, 1, lambda v, x: v.unary("sqrt", x))], SOFT)
    x = np.concatenate([*doubles(), np.arange(1.0, 2000.0) ** 2])
    with np.errstate(all="ignore"):
        assert_same_bits(compiled.run("sqrt", [x]), np.sqrt(x), x)


def test_extremes_order_zeros_and_pass_nan_on():
    cases = [
        Case(f"{name}.{dtype}", (dtype, dtype), dtype, 1, lambda v, a, b, name=name: v.binary(name, a, b))
        for name in ("maximum", "minimum")
        for dtype in (D.F32, D.F64)
    ]
    soft, hard = Compiled(cases, SOFT), Compiled(cases, replace(host_target(), max_lanes=1))
    a, b = doubles()
    with np.errstate(all="ignore"):
        operands = {D.F64: [a, b], D.F32: [a.astype(np.float32), b.astype(np.float32)]}
    for case in cases:
        pair = operands[case.result]
        assert_same_bits(soft.run(case.name, pair), hard.run(case.name, pair), *pair)


def test_functions_of_f32_need_no_f64_instructions():
    """sin and cos of large numbers, remainder and power work in f64 inside: the same bits in software."""
    cases = [
        Case(
            name,
            (D.F32,) * n,
            D.F32,
            1,
            lambda v, *x, name=name, n=n: (v.unary if n == 1 else v.binary)(name, *x),
        )
        for name, n in {"sine": 1, "cosine": 1, "remainder": 2, "power": 2}.items()
    ]
    alike = replace(SOFT, has_double=True, has_division=True, has_wide_division=True)
    soft, hard = Compiled(cases, SOFT), Compiled(cases, alike)
    x = (RNG.normal(0, 1, 4000) * 10.0 ** RNG.integers(-8, 30, 4000)).astype(np.float32)
    y = RNG.normal(0, 3, 4000).astype(np.float32)
    for name in ("sine", "cosine"):
        assert_same_bits(soft.run(name, [x]), hard.run(name, [x]), x)
    for name in ("remainder", "power"):
        assert_same_bits(soft.run(name, [abs(x), y]), hard.run(name, [abs(x), y]), x, y)
