"""Rules of algsimp for comparisons, choices and conversions."""

from __future__ import annotations

from dataclasses import replace

import axla.hlo as hlo
from axla.core.dtypes import BF16, F16, F32, F64, DType
from axla.ir.attributes import Direction
from axla.ir.graph import Instruction
from axla.ir.typed import shape_of
from axla.passes.rewrite import Rewritten, rule
from axla.passes.simplify.match import (
    dtype_of,
    full,
    is_all,
    is_all_ones,
    is_constant,
    is_exact,
    same_shape,
)  # fmt: skip

NEGATED = {
    Direction.EQ: Direction.NE, Direction.NE: Direction.EQ, Direction.LT: Direction.GE,
    Direction.GE: Direction.LT,
    Direction.GT: Direction.LE, Direction.LE: Direction.GT,
}  # fmt: skip
REFLEXIVE = (Direction.EQ, Direction.GE, Direction.LE)


@rule(hlo.Compare)
def compare_constant_to_the_right(
    root: Instruction[hlo.Compare], lhs: Instruction, rhs: Instruction
) -> Rewritten:
    """c < x => x > c"""
    if not is_constant(lhs) or is_constant(rhs):
        return None
    op = root.op
    return replace(op, direction=op.direction.mirrored)(rhs, lhs)


@rule(hlo.Compare)
def compare_self(root: Instruction[hlo.Compare], lhs: Instruction, rhs: Instruction) -> Rewritten:
    """x <= x => true, x < x => false (floats: in total order only, since NaN is not equal to itself)"""
    op = root.op
    if lhs is not rhs or not (is_exact(lhs) or op.is_total_order):
        return None
    return full(root, op.direction in REFLEXIVE)


@rule(hlo.Compare)
def compare_pred(root: Instruction[hlo.Compare], p: Instruction, truth: Instruction) -> Rewritten:
    """p == true => p, p != true => not p, p == false => not p, p != false => p"""
    op = root.op
    if not dtype_of(p).is_pred or op.direction not in (Direction.EQ, Direction.NE):
        return None
    is_true = is_all_ones(truth)
    if not is_true and not is_all(truth, 0):
        return None
    return p if is_true is (op.direction is Direction.EQ) else hlo.Not()(p)


@rule(hlo.Compare, of=hlo.Compare)
def compare_signs(root: Instruction[hlo.Compare], left: Instruction, right: Instruction) -> Rewritten:
    """(x < 0) != (y < 0) => (x xor y) < 0, (x < 0) == (y < 0) => (x xor y) >= 0 (signed integers)"""
    tests = left, right
    if any(type(t.op) is not hlo.Compare or t.op.direction is not Direction.LT for t in tests):
        return None
    if root.op.direction not in (Direction.EQ, Direction.NE) or any(len(t.users) > 1 for t in tests):
        return None
    (x, zero), (y, other) = left.operands, right.operands
    if x.shape is not y.shape or not dtype_of(x).is_signed or not dtype_of(x).is_integer:
        return None
    if not is_all(zero, 0) or not is_all(other, 0):
        return None
    direction = Direction.LT if root.op.direction is Direction.NE else Direction.GE
    return replace(left.op, direction=direction)(hlo.Xor()(x, y), zero)


@rule(hlo.Not, of=hlo.Compare)
def not_compare(root: Instruction, test: Instruction[hlo.Compare]) -> Rewritten:
    """not (x < y) => x >= y (floats: only == and !=, or in total order, since with NaN both are false)"""
    op = test.op
    exact = is_exact(test.operands[0]) or op.is_total_order or op.direction in (Direction.EQ, Direction.NE)
    return replace(op, direction=NEGATED[op.direction])(*test.operands) if exact else None


@rule(hlo.Select)
def select_true(root: Instruction, test: Instruction, a: Instruction, _: Instruction) -> Rewritten:
    """select(true, a, b) => a"""
    return a if is_all_ones(test) and same_shape(a, root) else None


@rule(hlo.Select)
def select_false(root: Instruction, test: Instruction, _: Instruction, b: Instruction) -> Rewritten:
    """select(false, a, b) => b"""
    return b if is_all(test, 0) and same_shape(b, root) else None


@rule(hlo.Select)
def select_same(root: Instruction, _: Instruction, a: Instruction, b: Instruction) -> Rewritten:
    """select(p, x, x) => x"""
    return a if a is b else None


@rule(hlo.Select, of=hlo.Not)
def select_not(root: Instruction, test: Instruction, a: Instruction, b: Instruction) -> Rewritten:
    """select(not p, a, b) => select(p, b, a)"""
    return hlo.Select()(test.operands[0], b, a)


@rule(hlo.Select)
def select_truth(root: Instruction, test: Instruction, a: Instruction, b: Instruction) -> Rewritten:
    """select(p, true, false) => p, select(p, false, true) => not p"""
    if not same_shape(test, root):
        return None
    if is_all_ones(a) and is_all(b, 0):
        return test
    return hlo.Not()(test) if is_all(a, 0) and is_all_ones(b) else None


@rule(hlo.Select)
def select_select(root: Instruction, test: Instruction, a: Instruction, b: Instruction) -> Rewritten:
    """select(p, select(p, a, b), c) => select(p, a, c), select(p, a, select(p, b, c)) => select(p, a, c)"""
    if type(a.op) is hlo.Select and a.operands[0] is test:
        return hlo.Select()(test, a.operands[1], b)
    if type(b.op) is hlo.Select and b.operands[0] is test:
        return hlo.Select()(test, a, b.operands[2])
    return None


@rule(hlo.And, hlo.Or)
def absorb(root: Instruction, *operands: Instruction) -> Rewritten:
    """x & (x | y) => x, x | (x & y) => x"""
    dual = hlo.Or if type(root.op) is hlo.And else hlo.And
    for x, other in (operands, operands[::-1]):
        if type(other.op) is dual and x in other.operands:
            return x
    return None


@rule(hlo.Convert)
def convert_same_type(root: Instruction, x: Instruction) -> Rewritten:
    """convert(x) => x, to its own type"""
    return x if same_shape(x, root) else None


WIDER_FLOATS = {F16: (F32, F64), BF16: (F32, F64), F32: (F64,)}


def is_lossless(source: DType, target: DType) -> bool:
    """Whether `target` can represent every value of `source`, so that converting to `target` first does not
    change a further conversion.
    """
    if source.is_pred:
        return target.is_integer or target in (F16, BF16, F32, F64)
    if source.is_float:
        return target in WIDER_FLOATS.get(source, ())
    if source.is_integer and target.is_integer:
        fits = (
            source.bits <= target.bits if source.is_signed is target.is_signed else source.bits < target.bits
        )
        return fits and (target.is_signed or source.is_unsigned)
    return False


@rule(hlo.Convert, of=hlo.Convert)
def convert_convert(root: Instruction, inner: Instruction) -> Rewritten:
    """convert(convert(x)) => convert(x), if the inner conversion loses nothing"""
    (x,) = inner.operands
    source, target = dtype_of(x), dtype_of(root)
    # Converting integers to integers wraps, converting floats saturates: so integer => float => integer
    # stays.
    if not is_lossless(source, dtype_of(inner)) or target.is_pred or target.bits < 8:
        return None
    return hlo.Convert(shape_of(root))(x)


@rule(hlo.Convert, of=hlo.Broadcast)
def convert_of_broadcast(root: Instruction, spread: Instruction[hlo.Broadcast]) -> Rewritten:
    """convert(broadcast(x)) => broadcast(convert(x))"""
    (x,) = spread.operands
    if shape_of(spread).size <= shape_of(x).size:
        return None
    converted = hlo.Convert(shape_of(x).with_dtype(dtype_of(root)))(x)
    return hlo.Broadcast(shape_of(root), spread.op.dimensions)(converted)


@rule(hlo.BitcastConvert)
def bitcast_convert_same_type(root: Instruction, x: Instruction) -> Rewritten:
    """bitcast-convert(x) => x, to its own type"""
    return x if same_shape(x, root) else None


@rule(hlo.BitcastConvert, of=hlo.BitcastConvert)
def bitcast_convert_twice(root: Instruction, inner: Instruction) -> Rewritten:
    """bitcast-convert(bitcast-convert(x)) => bitcast-convert(x), if all types have the same width"""
    (x,) = inner.operands
    widths = {dtype_of(i).bits for i in (x, inner, root)}
    is_pred = any(dtype_of(i).is_pred for i in (x, inner, root))
    return hlo.BitcastConvert(shape_of(root))(x) if len(widths) == 1 and not is_pred else None


@rule(hlo.ReducePrecision)
def reduce_precision_to_own(root: Instruction[hlo.ReducePrecision], x: Instruction) -> Rewritten:
    """reduce-precision(x) => x, if the type of x already has this precision"""
    op, dtype = root.op, dtype_of(root)
    own = {F16: (5, 10), BF16: (8, 7), F32: (8, 23), F64: (11, 52)}.get(dtype)
    return x if own is not None and (op.exponent_bits, op.mantissa_bits) == own else None


@rule(hlo.ReducePrecision)
def reduce_precision_twice(root: Instruction, inner: Instruction) -> Rewritten:
    """reduce-precision(reduce-precision(x)) => reduce-precision(x), to the same precision"""
    return inner if inner.op == root.op else None
