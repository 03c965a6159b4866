"""Rules of algsimp for arithmetic. Floats are not numbers here: each rule says why NaN and signed zeros come
out the same.
"""

from __future__ import annotations

from math import frexp

import numpy as np

import axla.hlo as hlo
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
    """x - x => 0 (not floats: inf - inf is NaN)"""
    return full(root, 0) if x is y and (is_exact(x) or fast_math()) else None


@rule(hlo.Subtract, where=has_negatives)
def subtract_negation(root: Instruction, x: Instruction, y: Instruction) -> Rewritten:
    """x - -y => x + y"""
    return hlo.Add()(x, y.operands[0]) if type(y.op) is hlo.Negate else None


@rule(hlo.Multiply)
def multiply_one(root: Instruction, x: Instruction, one: Instruction) -> Rewritten:
    """x * 1 => x"""
    return x if is_all(one, 1) and same_shape(x, root) and not dtype_of(x).is_complex else None


@rule(hlo.Multiply)
def multiply_zero(root: Instruction, x: Instruction, zero: Instruction) -> Rewritten:
    """x * 0 => 0 (not floats: NaN, infinities and the sign of zero)"""
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
        return None  # 2^-k is too small or too large for the type; 1 is divide_one's
    return hlo.Multiply()(x, full(root, inverse))


@rule(hlo.Divide)
def divide_unsigned_power_of_two(root: Instruction, x: Instruction, divisor: Instruction) -> Rewritten:
    """x / 2^k => x >> k (unsigned)"""
    value = uniform(divisor) if dtype_of(root).is_unsigned else None
    if value is None or int(value).bit_count() != 1:
        return None
    return hlo.ShiftRightLogical()(x, full(root, int(value).bit_length() - 1))


@rule(hlo.Remainder)
def remainder_unsigned_power_of_two(root: Instruction, x: Instruction, divisor: Instruction) -> Rewritten:
    """x % 2^k => x & (2^k - 1) (unsigned)"""
    value = uniform(divisor) if dtype_of(root).is_unsigned else None
    if value is None or int(value).bit_count() != 1:
        return None
    return hlo.And()(x, full(root, int(value) - 1))


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
    """op(op(x, a), b) => op(x, op(a, b)) for constants (floats: only maximum and minimum: no rounding)"""
    if inner.op != root.op or not is_constant(b) or not is_constant(inner.operands[1]):
        return None
    x, a = inner.operands
    if is_constant(x) or not (is_exact(root) or isinstance(root.op, (hlo.Maximum, hlo.Minimum))):
        return None
    both = root.op(a, b)
    return root.op(x, both)


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
