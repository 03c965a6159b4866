"""Rules of algsimp that follow from the known range of values of an operand."""

from __future__ import annotations

import math

import numpy as np

import axla.hlo as hlo
from axla.ir.attributes import Direction
from axla.ir.graph import Instruction
from axla.ir.typed import shape_of
from axla.passes.rewrite import Rewritten, rule
from axla.passes.simplify.match import dtype_of, full, is_all, limits, same_shape, uniform
from axla.passes.simplify.ranges import Range, is_never_negative, range_of


def _outcome(direction: Direction, a: Range, b: Range) -> bool | None:
    """The result of comparing numbers from two ranges, if it is the same for all of them; else None."""
    if direction in (Direction.GT, Direction.GE):
        direction, a, b = direction.mirrored, b, a
    if direction is Direction.LT:
        return True if a[1] < b[0] else False if a[0] >= b[1] else None
    if direction is Direction.LE:
        return True if a[1] <= b[0] else False if a[0] > b[1] else None
    if a[1] < b[0] or b[1] < a[0]:
        return direction is Direction.NE
    return direction is Direction.EQ if a[0] == a[1] == b[0] == b[1] else None


@rule(hlo.Compare)
def compare_of_ranges(root: Instruction[hlo.Compare], x: Instruction, y: Instruction) -> Rewritten:
    """x < y => true or false, if the ranges of the integers x and y decide it"""
    a, b = range_of(x), range_of(y)
    outcome = None if a is None or b is None else _outcome(root.op.direction, a, b)
    return None if outcome is None else full(root, outcome)


@rule(hlo.Compare)
def compare_never_negative(root: Instruction[hlo.Compare], x: Instruction, zero: Instruction) -> Rewritten:
    """|x| < 0 => false (floats, NaN included)"""
    below = root.op.direction is Direction.LT and not root.op.is_total_order
    return full(root, False) if below and is_all(zero, 0) and is_never_negative(x) else None


@rule(hlo.Abs)
def absolute_never_negative(root: Instruction, x: Instruction) -> Rewritten:
    """|x| => x, for x that are never negative nor -0.0: x * x, e^x, |x|, unsigned numbers"""
    return x if same_shape(x, root) and is_never_negative(x) else None


@rule(hlo.Clamp)
def clamp_of_range(root: Instruction, low: Instruction, x: Instruction, high: Instruction) -> Rewritten:
    """clamp(a, x, b) => x, if the integers x are known to be between a and b"""
    a, found, b = range_of(low), range_of(x), range_of(high)
    if a is None or found is None or b is None or not same_shape(x, root):
        return None
    return x if a[1] <= found[0] and found[1] <= b[0] else None


@rule(hlo.Maximum, hlo.Minimum)
def extremum_of_ranges(root: Instruction, x: Instruction, y: Instruction) -> Rewritten:
    """max(x, y) => x, min(x, y) => y, if the integers x are known to be at least y"""
    a, b = range_of(x), range_of(y)
    if a is None or b is None:
        return None
    larger = x if a[0] >= b[1] else y if b[0] >= a[1] else None
    if larger is None:
        return None
    return larger if type(root.op) is hlo.Maximum else y if larger is x else x


def _is_below(x: Instruction, divisor: Instruction) -> bool:
    a, b = range_of(x), range_of(divisor)
    return a is not None and b is not None and a[0] >= 0 and a[1] < b[0]


@rule(hlo.Remainder)
def remainder_of_smaller(root: Instruction, x: Instruction, divisor: Instruction) -> Rewritten:
    """x % c => x, if the integers x are known to be between 0 and c - 1"""
    return x if _is_below(x, divisor) else None


@rule(hlo.Divide)
def divide_smaller(root: Instruction, x: Instruction, divisor: Instruction) -> Rewritten:
    """x / c => 0, if the integers x are known to be between 0 and c - 1"""
    return full(root, 0) if _is_below(x, divisor) else None


@rule(hlo.And, of=hlo.Compare)
def floor_never_negative(
    root: Instruction, test: Instruction[hlo.Compare], inexact: Instruction
) -> Rewritten:
    """sign(x) != 1 and x % c != 0 => false, if x >= 0 is known: JAX writes x // c with this test"""
    sign, one = test.operands
    if not isinstance(inexact.op, hlo.Compare) or type(sign.op) is not hlo.Sign or not is_all(one, 1):
        return None
    rest, zero = inexact.operands
    unequal = test.op.direction is inexact.op.direction is Direction.NE
    if not unequal or type(rest.op) not in (hlo.Remainder, hlo.And) or not is_all(zero, 0):
        return None
    (x,) = sign.operands
    found = range_of(x)
    return full(root, False) if rest.operands[0] is x and found is not None and found[0] >= 0 else None


@rule(hlo.Compare, of=hlo.Convert)
def compare_converted_pred(root: Instruction[hlo.Compare], x: Instruction, c: Instruction) -> Rewritten:
    """convert(p) != 0 => p, and the like (any constant and comparison): p, not p, true or false"""
    (p,), value = x.operands, uniform(c)
    if value is None or not dtype_of(p).is_pred or not _is_plain(root, x):
        return None
    numbers = [np.asarray(n).astype(value.dtype) for n in (1, 0)]
    return _chosen(root, p, [_decides(root.op.direction, n, value) for n in numbers])


@rule(hlo.Compare, of=hlo.Select)
def compare_selected(root: Instruction[hlo.Compare], x: Instruction, c: Instruction) -> Rewritten:
    """select(p, 1, 0) != 0 => p, and the like (any constants and comparison): p, not p, true or false"""
    p, value = x.operands[0], uniform(c)
    a, b = uniform(x.operands[1]), uniform(x.operands[2])
    if value is None or a is None or b is None or not _is_plain(root, x):
        return None
    return _chosen(root, p, [_decides(root.op.direction, n, value) for n in (a, b)])


def _is_plain(root: Instruction[hlo.Compare], x: Instruction) -> bool:
    """Whether the compared numbers are neither complex nor floats in total order."""
    return not dtype_of(x).is_complex and not (dtype_of(x).is_float and root.op.is_total_order)


def _decides(direction: Direction, a: np.ndarray, b: np.ndarray) -> bool:
    return bool(hlo.Compare(direction).evaluate(a, b))


def _chosen(root: Instruction, p: Instruction, outcomes: list[bool]) -> Rewritten:
    """`outcomes[0]` where `p` is true, and `outcomes[1]` where it is false."""
    if outcomes[0] is outcomes[1]:
        return full(root, outcomes[0])
    if shape_of(p).dims != shape_of(root).dims:
        p = hlo.Broadcast(shape_of(root), ())(p)
    return p if outcomes[0] else hlo.Not()(p)


@rule(hlo.Multiply)
def multiply_converted_pred(root: Instruction, x: Instruction, y: Instruction) -> Rewritten:
    """x * convert(p) => select(p, x, 0) (integers: for floats, NaN * 0 is NaN)"""
    if not dtype_of(root).is_integer:
        return None
    for a, b in ((x, y), (y, x)):
        if type(b.op) is hlo.Convert and dtype_of(b.operands[0]).is_pred:
            return hlo.Select()(b.operands[0], a, full(root, 0))
    return None


@rule(hlo.Convert)
def convert_of_clamped(root: Instruction, inner: Instruction) -> Rewritten:
    """convert(clamp(a, x, b)) => convert(x), if all numbers of the integer type are between a and b

    x are floats. max(x, a) and min(x, b) are handled in the same way.
    """
    if not dtype_of(root).is_integer or not dtype_of(inner).is_float:
        return None
    least, most = limits(dtype_of(root))
    if type(inner.op) is hlo.Clamp:
        low, x, high = inner.operands
        bounds = _bound(low) <= least and _bound(high) >= most
    elif isinstance(inner.op, hlo.Maximum | hlo.Minimum):
        x, bound = inner.operands
        bounds = _bound(bound) <= least if type(inner.op) is hlo.Maximum else _bound(bound) >= most
    else:
        return None
    # NaN becomes 0 in either case
    return hlo.Convert(shape_of(root))(x) if bounds and same_shape(x, inner) else None


def _bound(inst: Instruction) -> float:
    """The common value of all elements; NaN if it is not known."""
    value = uniform(inst)
    return math.nan if value is None else float(value)


@rule(hlo.Convert)
def convert_of_positive(root: Instruction, inner: Instruction) -> Rewritten:
    """convert(max(x, 0) * c) => max(convert(x * c), 0), for c > 0 (floats to signed integers)"""
    if not dtype_of(root).is_signed or not dtype_of(inner).is_float:
        return None
    steps: list[Instruction] = []
    while len(inner.users) == 1 and (type(inner.op) is hlo.RoundNearestEven or _is_scaled(inner)):
        steps.append(inner)
        inner = inner.operands[0]
    if type(inner.op) is not hlo.Maximum or len(inner.users) != 1 or not is_all(inner.operands[1], 0):
        return None
    x = inner.operands[0]
    for step in reversed(steps):
        x = step.op(x, *step.operands[1:])
    return hlo.Maximum()(hlo.Convert(shape_of(root))(x), full(root, 0))


def _is_scaled(inst: Instruction) -> bool:
    """Whether an instruction is a product with a constant above 0."""
    return type(inst.op) is hlo.Multiply and _bound(inst.operands[1]) > 0


NARROWED = (hlo.Add, hlo.Subtract, hlo.Multiply, hlo.And, hlo.Or, hlo.Xor)


@rule(hlo.Convert)
def convert_of_widened(root: Instruction, inner: Instruction) -> Rewritten:
    """convert(convert(x) + convert(y)) => x + y, in the type of x and y (integers, wider ones in between)"""
    if not isinstance(inner.op, NARROWED) or not dtype_of(inner).is_integer or len(inner.users) != 1:
        return None
    narrow, wide = shape_of(root), dtype_of(inner)
    sources: list[Instruction] = []
    for operand in inner.operands:
        if type(operand.op) is not hlo.Convert:
            return None
        sources.extend(operand.operands)
    if (
        not narrow.dtype.is_integer
        or narrow.dtype.bits > wide.bits
        or not all(same_shape(s, root) for s in sources)
    ):
        return None
    return inner.op(*sources)
