"""Rules of algsimp for arithmetic. Floats do not obey the laws of real numbers: a rule says why NaN and
signed zeros come out the same, or that it does not apply to floats.
"""

from __future__ import annotations

from math import frexp

import numpy as np

import axla.hlo as hlo
from axla.core.dtypes import F32, F64
from axla.ir.attributes import Direction
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.ir.typed import shape_of
from axla.passes.rewrite import Rewritten, fast_math, rule
from axla.passes.simplify.match import (
    dtype_of,
    full,
    has_negatives,
    is_all,
    is_all_ones,
    is_constant,
    is_exact,
    is_float,
    limits,
    same_shape,
    uniform,
)  # fmt: skip
from axla.passes.simplify.ranges import is_never_negative

SHIFTS = (hlo.ShiftLeft, hlo.ShiftRightArithmetic, hlo.ShiftRightLogical)


def _commutes(op: type[Op]) -> bool:
    return op.commutative and len(op.operand_names) == 2


@rule(family=_commutes)
def constant_to_the_right(root: Instruction, lhs: Instruction, rhs: Instruction) -> Rewritten:
    """op(c, x) => op(x, c)"""
    return root.op(rhs, lhs) if is_constant(lhs) and not is_constant(rhs) else None


@rule(hlo.Add)
def add_zero(root: Instruction, x: Instruction, zero: Instruction) -> Rewritten:
    """x + 0 => x"""
    if not same_shape(x, root):
        return None
    if is_exact(x):
        return x if is_all(zero, 0) else None
    # -0.0 + 0.0 is 0.0, so only -0.0 adds nothing.
    neutral = is_float(x) and is_all(zero, -0.0)
    return x if neutral or (fast_math() and is_all(zero, 0)) else None


@rule(hlo.Add, where=has_negatives)
def add_negation(root: Instruction, x: Instruction, y: Instruction) -> Rewritten:
    """x + -y => x - y"""
    return hlo.Subtract()(x, y.operands[0]) if type(y.op) is hlo.Negate else None


@rule(hlo.Subtract)
def subtract_zero(root: Instruction, x: Instruction, zero: Instruction) -> Rewritten:
    """x - 0 => x"""
    return x if is_all(zero, 0) and same_shape(x, root) and not dtype_of(x).is_complex else None


@rule(hlo.Subtract)
def subtract_self(root: Instruction, x: Instruction, y: Instruction) -> Rewritten:
    """x - x => 0 (integers: for a float, inf - inf is NaN)"""
    return full(root, 0) if x is y and (is_exact(x) or fast_math()) else None


@rule(hlo.Subtract, where=has_negatives)
def subtract_negation(root: Instruction, x: Instruction, y: Instruction) -> Rewritten:
    """x - -y => x + y"""
    return hlo.Add()(x, y.operands[0]) if type(y.op) is hlo.Negate else None


def _wraps(root: Instruction) -> bool:
    """Whether an instruction computes integers, or floats that may be treated as real numbers."""
    dtype = dtype_of(root)
    return dtype.is_integer or dtype.is_inexact and fast_math()


@rule(hlo.Subtract, where=_wraps)
def subtract_constant(root: Instruction, x: Instruction, c: Instruction) -> Rewritten:
    """x - c => x + -c, for constants c (integers only: floats gain nothing)"""
    value = uniform(c) if dtype_of(root).is_integer and not is_constant(x) else None
    if value is None:
        return None
    bits = dtype_of(root).bits
    inverse = -int(value) & ((1 << bits) - 1)
    if dtype_of(root).is_signed and inverse >> (bits - 1):
        inverse -= 1 << bits
    return hlo.Add()(x, full(root, inverse))


@rule(hlo.Add, where=_wraps)
def add_of_difference(root: Instruction, a: Instruction, b: Instruction) -> Rewritten:
    """(y - x) + x => y, x + (y - x) => y (integers)"""
    for difference, x in ((a, b), (b, a)):
        if type(difference.op) is hlo.Subtract and difference.operands[1] is x:
            return difference.operands[0] if same_shape(difference.operands[0], root) else None
    return None


@rule(hlo.Subtract, of=hlo.Add, where=_wraps)
def subtract_from_sum(root: Instruction, total: Instruction, x: Instruction) -> Rewritten:
    """(x + y) - x => y, (x + y) - y => x (integers)"""
    if x not in total.operands:
        return None
    a, b = total.operands
    left = b if x is a else a
    return left if same_shape(left, root) else None


@rule(hlo.Subtract, where=_wraps)
def subtract_difference(root: Instruction, x: Instruction, difference: Instruction) -> Rewritten:
    """x - (x - y) => y, x - (x + y) => -y (integers)"""
    if type(difference.op) is hlo.Subtract and difference.operands[0] is x:
        return difference.operands[1] if same_shape(difference.operands[1], root) else None
    if type(difference.op) is not hlo.Add or x not in difference.operands:
        return None
    a, b = difference.operands
    left = b if x is a else a
    return hlo.Negate()(left) if same_shape(left, root) else None


@rule(hlo.Add, of=hlo.Multiply, where=_wraps)
def add_products(root: Instruction, a: Instruction, b: Instruction) -> Rewritten:
    """x * z + y * z => (x + y) * z, if the products have no other users (integers)"""
    if type(b.op) is not hlo.Multiply or a is b or len(a.users) != 1 or len(b.users) != 1:
        return None
    for place, z in enumerate(a.operands):
        if z in b.operands:
            x, y = a.operands[1 - place], b.operands[1 if b.operands[0] is z else 0]
            return hlo.Multiply()(hlo.Add()(x, y), z) if same_shape(x, root) and same_shape(y, root) else None
    return None


@rule(hlo.Multiply, hlo.Divide, of=hlo.Negate, where=has_negatives)
def product_of_negations(root: Instruction, a: Instruction, b: Instruction) -> Rewritten:
    """-x * -y => x * y, -x / -y => x / y (for integers only the product)"""
    if type(b.op) is not hlo.Negate or dtype_of(root).is_complex:
        return None
    return root.op(a.operands[0], b.operands[0]) if is_float(root) or type(root.op) is hlo.Multiply else None


@rule(hlo.Multiply, of=hlo.Abs)
def square_of_absolute(root: Instruction, a: Instruction, b: Instruction) -> Rewritten:
    """|x| * |x| => x * x"""
    (x,) = a.operands
    return hlo.Multiply()(x, x) if a is b and same_shape(x, root) else None


@rule(hlo.Multiply)
def multiply_one(root: Instruction, x: Instruction, one: Instruction) -> Rewritten:
    """x * 1 => x"""
    return x if is_all(one, 1) and same_shape(x, root) and not dtype_of(x).is_complex else None


@rule(hlo.Multiply)
def multiply_zero(root: Instruction, x: Instruction, zero: Instruction) -> Rewritten:
    """x * 0 => 0 (integers: for floats, NaN, infinities and the sign of zero matter)"""
    return full(root, 0) if is_all(zero, 0) and (is_exact(x) or fast_math()) else None


@rule(hlo.Multiply)
def multiply_minus_one(root: Instruction, x: Instruction, minus_one: Instruction) -> Rewritten:
    """x * -1 => -x"""
    dtype = dtype_of(root)
    if not (dtype.is_float or dtype.is_signed) or not same_shape(x, root):
        return None
    return hlo.Negate()(x) if is_all(minus_one, -1) else None


@rule(hlo.Divide)
def divide_one(root: Instruction, x: Instruction, one: Instruction) -> Rewritten:
    """x / 1 => x"""
    return x if is_all(one, 1) and same_shape(x, root) and not dtype_of(x).is_complex else None


@rule(hlo.Divide)
def divide_power_of_two(root: Instruction, x: Instruction, divisor: Instruction) -> Rewritten:
    """x / 2^k => x * 2^-k (floats: both round the same real number)"""
    value = uniform(divisor) if is_float(root) and same_shape(divisor, root) else None
    if value is None or not np.isfinite(value) or frexp(float(value))[0] not in (0.5, -0.5):
        return None
    with np.errstate(over="ignore"):
        inverse = np.asarray(1.0 / float(value)).astype(value.dtype)
    if float(inverse) * float(value) != 1.0 or inverse == value:
        return None  # 2^-k is too small or too large for the type, or the divisor is 1, see divide_one
    return hlo.Multiply()(x, full(root, inverse))


def _power_of_two(x: Instruction, divisor: Instruction) -> int | None:
    """The exponent k if `divisor` is 2^k and the integers `x` are never negative; else None."""
    value = uniform(divisor) if dtype_of(x).is_integer else None
    if value is None or int(value) <= 0 or int(value).bit_count() != 1:
        return None
    return int(value).bit_length() - 1 if dtype_of(x).is_unsigned or is_never_negative(x) else None


@rule(hlo.Divide)
def divide_unsigned_power_of_two(root: Instruction, x: Instruction, divisor: Instruction) -> Rewritten:
    """x / 2^k => x >> k (integers that are never negative)"""
    k = _power_of_two(x, divisor)
    return None if k is None else hlo.ShiftRightLogical()(x, full(root, k))


@rule(hlo.Remainder)
def remainder_unsigned_power_of_two(root: Instruction, x: Instruction, divisor: Instruction) -> Rewritten:
    """x % 2^k => x & (2^k - 1) (integers that are never negative)"""
    k = _power_of_two(x, divisor)
    return None if k is None else hlo.And()(x, full(root, (1 << k) - 1))


@rule(hlo.Remainder, of=hlo.Remainder)
def remainder_twice(root: Instruction, inner: Instruction, divisor: Instruction) -> Rewritten:
    """(x % y) % y => x % y"""
    return inner if inner.operands[1] is divisor and same_shape(inner, root) else None


@rule(hlo.Negate, of=hlo.Negate, where=has_negatives)
def negate_negate(root: Instruction, inner: Instruction) -> Rewritten:
    """-(-x) => x"""
    return inner.operands[0]


@rule(hlo.Not, of=hlo.Not)
def not_not(root: Instruction, inner: Instruction) -> Rewritten:
    """not not x => x"""
    return inner.operands[0]


@rule(hlo.Abs, where=has_negatives)
def absolute_of_sign(root: Instruction, inner: Instruction) -> Rewritten:
    """|-x| => |x| and ||x|| => |x|"""
    if type(inner.op) is hlo.Abs and same_shape(inner, root):
        return inner
    return hlo.Abs()(inner.operands[0]) if type(inner.op) is hlo.Negate else None


@rule(hlo.And, hlo.Or, hlo.Maximum, hlo.Minimum)
def idempotent(root: Instruction, x: Instruction, y: Instruction) -> Rewritten:
    """op(x, x) => x for and, or, maximum, minimum"""
    return x if x is y else None


@rule(hlo.And, hlo.Or, hlo.Maximum, hlo.Minimum)
def idempotent_nested(root: Instruction, a: Instruction, b: Instruction) -> Rewritten:
    """op(op(x, y), y) => op(x, y) for and, or, maximum, minimum"""
    for inner, x in ((a, b), (b, a)):
        if type(inner.op) is type(root.op) and x in inner.operands and same_shape(inner, root):
            return inner
    return None


@rule(hlo.And)
def and_all_ones(root: Instruction, x: Instruction, ones: Instruction) -> Rewritten:
    """x & ~0 => x"""
    return x if is_all_ones(ones) else None


@rule(hlo.And)
def and_zero(root: Instruction, _: Instruction, zero: Instruction) -> Rewritten:
    """x & 0 => 0"""
    return full(root, 0) if is_all(zero, 0) else None


@rule(hlo.Or)
def or_zero(root: Instruction, x: Instruction, zero: Instruction) -> Rewritten:
    """x | 0 => x"""
    return x if is_all(zero, 0) else None


@rule(hlo.Or)
def or_all_ones(root: Instruction, _: Instruction, ones: Instruction, *__: Instruction) -> Rewritten:
    """x | ~0 => ~0"""
    return ones if is_all_ones(ones) else None


@rule(hlo.Xor)
def xor_zero(root: Instruction, x: Instruction, zero: Instruction) -> Rewritten:
    """x ^ 0 => x"""
    return x if is_all(zero, 0) else None


@rule(hlo.Xor)
def xor_self(root: Instruction, x: Instruction, y: Instruction) -> Rewritten:
    """x ^ x => 0"""
    return full(root, 0) if x is y else None


@rule(hlo.Xor)
def xor_all_ones(root: Instruction, x: Instruction, ones: Instruction) -> Rewritten:
    """x ^ ~0 => not x"""
    return hlo.Not()(x) if is_all_ones(ones) else None


@rule(*SHIFTS)
def shift_by_zero(root: Instruction, x: Instruction, distance: Instruction) -> Rewritten:
    """x << 0 => x, x >> 0 => x"""
    return x if is_all(distance, 0) else None


@rule(hlo.Power)
def power_zero(root: Instruction, _: Instruction, zero: Instruction, *__: Instruction) -> Rewritten:
    """pow(x, 0) => 1 (NaN to the 0 is 1 as well)"""
    if dtype_of(root).is_complex:
        return None
    return full(root, 1) if is_all(zero, 0) or (is_float(root) and is_all(zero, -0.0)) else None


@rule(hlo.Power)
def power_one(root: Instruction, x: Instruction, one: Instruction) -> Rewritten:
    """pow(x, 1) => x"""
    return x if is_all(one, 1) and same_shape(x, root) and not dtype_of(x).is_complex else None


@rule(hlo.Power, allows="rounding: x * x is exact where pow is an ulp off")
def power_two(root: Instruction, x: Instruction, two: Instruction) -> Rewritten:
    """pow(x, 2) => x * x"""
    squares = is_all(two, 2) and same_shape(x, root) and not dtype_of(x).is_complex
    return hlo.Multiply()(x, x) if squares else None


@rule(hlo.Power, allows="rounding: up to two units in the last place, as XLA")
def power_three(root: Instruction, x: Instruction, c: Instruction) -> Rewritten:
    """pow(x, 3) => x * (x * x), pow(x, 4) => (x * x) * (x * x) (not of floats narrower than f32)"""
    power = next((n for n in (3, 4) if is_all(c, n)), None)
    fits = dtype_of(root).is_integer or dtype_of(root) in (F32, F64)
    if power is None or not fits or not same_shape(x, root):
        return None
    square = hlo.Multiply()(x, x)
    return hlo.Multiply()(x if power == 3 else square, square)


@rule(hlo.Power, allows="rounding: 1 / x is rounded right where pow is an ulp off")
def power_minus_one(root: Instruction, x: Instruction, c: Instruction) -> Rewritten:
    """pow(x, -1) => 1 / x (floats)"""
    inverts = is_float(root) and is_all(c, -1) and same_shape(x, root)
    return hlo.Divide()(full(root, 1), x) if inverts else None


HALVES = {0.5: np.inf, 1.5: np.inf, 2.5: np.inf, -0.5: 0.0, -1.5: 0.0}
"""Exponent -> power of -infinity with this exponent, for which sqrt would return NaN."""


@rule(hlo.Power, allows="rounding: up to two units in the last place, as XLA")
def power_half(root: Instruction, x: Instruction, c: Instruction) -> Rewritten:
    """pow(x, 1/2) => sqrt(x + 0), but infinity for -infinity; 3/2, 5/2, -1/2 and -3/2 likewise (f32, f64)"""
    exponent = next((n for n in HALVES if is_all(c, n)), None)
    if exponent is None or dtype_of(root) not in (F32, F64) or not same_shape(x, root):
        return None
    # sqrt(-0.0) is -0.0, but pow(-0.0, 0.5) is 0.0; adding 0 makes the base 0.0
    base = x if is_never_negative(x) else hlo.Add()(x, full(root, 0))
    power = hlo.Sqrt()(base)
    if exponent < 0:  # two divisions, as the product base * sqrt(base) may overflow
        one = full(root, 1)
        power = hlo.Divide()(one if exponent == -0.5 else hlo.Divide()(one, base), power)
    elif exponent > 0.5:
        power = hlo.Multiply()(base if exponent == 1.5 else hlo.Multiply()(base, base), power)
    if base is x:
        return power
    lowest = hlo.Compare(Direction.EQ)(x, full(root, -np.inf))
    return hlo.Select()(lowest, full(root, HALVES[exponent]), power)


@rule(hlo.Maximum, hlo.Minimum)
def extremum_of_limit(root: Instruction, x: Instruction, bound: Instruction) -> Rewritten:
    """max(x, lowest) => x, min(x, highest) => x"""
    if not same_shape(x, root):
        return None
    low, high = limits(dtype_of(x))
    return x if is_all(bound, low if type(root.op) is hlo.Maximum else high) else None


def _associates(op: type[Op]) -> bool:
    return _commutes(op) and op.associative


@rule(family=_associates)
def associate_constants(root: Instruction, inner: Instruction, b: Instruction) -> Rewritten:
    """op(op(x, a), b) => op(x, op(a, b)), for constants a and b (floats: only maximum and minimum)"""
    if inner.op != root.op or not is_constant(b) or not is_constant(inner.operands[1]):
        return None
    x, a = inner.operands
    exact = is_exact(root) or isinstance(root.op, (hlo.Maximum, hlo.Minimum))
    if is_constant(x) or not (exact or fast_math()):
        return None
    both = root.op(a, b)
    return root.op(x, both)


@rule(hlo.Add, of=hlo.Subtract, where=_wraps)
def add_to_difference(root: Instruction, inner: Instruction, b: Instruction) -> Rewritten:
    """(a - x) + b => (a + b) - x, for integer constants a and b"""
    a, x = inner.operands
    if not is_constant(a) or not is_constant(b) or not same_shape(x, root):
        return None
    both = hlo.Add()(a, b)
    return hlo.Subtract()(both, x)


ROUNDING = (hlo.Ceil, hlo.Floor, hlo.RoundNearestAfz, hlo.RoundNearestEven)


@rule(*ROUNDING)
def round_rounded(root: Instruction, inner: Instruction) -> Rewritten:
    """floor(ceil(x)) => ceil(x), and so on: a whole number rounds to itself"""
    return inner if isinstance(inner.op, ROUNDING) else None


@rule(hlo.Clamp)
def clamp_within_limits(root: Instruction, low: Instruction, x: Instruction, high: Instruction) -> Rewritten:
    """clamp(lowest, x, highest) => x"""
    if not same_shape(x, root):
        return None
    lowest, highest = limits(dtype_of(x))
    return x if is_all(low, lowest) and is_all(high, highest) else None


@rule(hlo.Clamp)
def clamp_clamped(root: Instruction, low: Instruction, inner: Instruction, high: Instruction) -> Rewritten:
    """clamp(a, clamp(a, x, b), b) => clamp(a, x, b)"""
    if type(inner.op) is not hlo.Clamp or not same_shape(inner, root):
        return None
    # Equal bounds are one instruction after cse.
    return inner if inner.operands[0] is low and inner.operands[2] is high else None


@rule(hlo.Real)
def real_of_complex(root: Instruction, z: Instruction) -> Rewritten:
    """real(complex(a, b)) => a, real(x) => x for real x"""
    if type(z.op) is hlo.Complex:
        return z.operands[0]
    return z if same_shape(z, root) else None


@rule(hlo.Imag, of=hlo.Complex)
def imaginary_of_complex(root: Instruction, z: Instruction) -> Rewritten:
    """imag(complex(a, b)) => b"""
    return z.operands[1]


@rule(hlo.Imag)
def imaginary_of_real(root: Instruction, x: Instruction) -> Rewritten:
    """imag(x) => 0 for real x"""
    return None if dtype_of(x).is_complex else full(root, 0)


@rule(hlo.Complex)
def complex_of_parts(root: Instruction, a: Instruction, b: Instruction) -> Rewritten:
    """complex(real(z), imag(z)) => z"""
    if type(a.op) is not hlo.Real or type(b.op) is not hlo.Imag or a.operands[0] is not b.operands[0]:
        return None
    return a.operands[0] if same_shape(a.operands[0], root) else None


def _follows_operands(op: type[Op]) -> bool:
    return op.elementwise and not op.holds_shape and not op.side_effect


@rule(family=_follows_operands)
def elementwise_of_broadcasts(root: Instruction, *operands: Instruction) -> Rewritten:
    """op(broadcast(a), broadcast(b), ...) => broadcast(op(a, b, ...)): fewer elements to compute"""
    first = operands[0] if operands else root
    op = first.op
    if type(op) is not hlo.Broadcast or shape_of(first).size <= shape_of(first.operands[0]).size:
        return None
    dims = shape_of(first.operands[0]).dims
    for operand in operands:
        other = operand.op
        if type(other) is not hlo.Broadcast or other.dimensions != op.dimensions:
            return None
        if shape_of(operand.operands[0]).dims != dims or other.shape.dims != op.shape.dims:
            return None
    return hlo.Broadcast(shape_of(root), op.dimensions)(root.op(*[o.operands[0] for o in operands]))
