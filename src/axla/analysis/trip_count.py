"""Trip counts of loops that count by constant steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import axla.hlo as hlo
from axla.core.shape import Shape
from axla.ir.attributes import Direction
from axla.ir.graph import Instruction
from axla.ir.typed import op_of, shape_of

MANY = 1 << 20
"""The largest trip count for which values are computed trip by trip."""


def trip_count(loop: Instruction) -> int | None:
    """The number of trips of a while that counts by a constant step from one constant to another; None if it
    is not such a loop.
    """
    op = op_of(loop, hlo.While)
    starts = [None if inst is None else _constant(inst) for inst in _elements(loop.operands[0])]
    return _trips_of(_plain(op.condition.root), starts, _elements(op.body.root))


def values_in_trips(inst: Instruction, loop: Instruction, trips: int) -> np.ndarray | None:
    """The values that the integer `inst` in the body of `loop` has in the first `trips` trips. None if they
    do not follow from constants and from carried elements with constant steps, or if there are more than MANY
    trips.
    """
    if trips > MANY:
        return None
    starts = [None if start is None else _constant(start) for start in _elements(loop.operands[0])]
    ends = _elements(op_of(loop, hlo.While).body.root)
    found: dict[Instruction, np.ndarray] = {}
    stack = [inst]
    while stack:
        top = stack[-1]
        missing = [o for o in top.operands if o not in found]
        at, value = _carry(top), _constant(top)
        if top in found:
            stack.pop()
        elif value is not None:
            found[top] = np.full(trips, value)
        elif at is not None:
            start, step = starts[at], _step(ends, at)
            if start is None or step is None or not _is_index(top):
                return None
            if not _holds(shape_of(top), start + step * (trips - 1)):
                return None  # the counter wraps around
            found[top] = start + step * np.arange(trips)
        elif not top.op.elementwise or not isinstance(top.shape, Shape) or top.shape.rank:
            return None
        elif missing:
            stack += missing
        else:
            values = (found[o].astype(shape_of(o).dtype.numpy) for o in top.operands)
            found[top] = np.asarray(top.op.evaluate(*values))  # type: ignore[attr-defined]
    return found[inst]


def most_trips(
    test: Instruction, starts: Sequence[int | None], ends: Sequence[Instruction | None]
) -> tuple[int | None, bool]:
    """An upper bound of the number of trips of a loop, and whether the bound is exact; (None, False) if no
    bound is known. `test` is the root of the condition. `starts` are the initial values of the carried
    elements and `ends` their new values in the body; None for those that are not known.
    """
    wanted, found = [test], []
    while wanted:
        inst = wanted.pop()
        if isinstance(inst.op, hlo.And):
            wanted += inst.operands
        else:
            found.append(_trips_of(_plain(inst), starts, ends))
    known = [trips for trips in found if trips is not None]
    return (min(known), len(known) == len(found)) if known else (None, False)


def sum_behind(first: Instruction, last: Instruction) -> int | None:
    """The constant c with `last` = `first` + c, if additions and subtractions of constants lead from one to
    the other; else None.
    """
    found = 0
    while last is not first:
        if not isinstance(last.op, hlo.Add | hlo.Subtract):
            return None
        sign = 1 if isinstance(last.op, hlo.Add) else -1
        left, right = last.operands
        amount = _constant(right)
        if amount is None and sign > 0:
            left, amount = right, _constant(left)
        if amount is None:
            return None
        found += sign * amount
        last = left
    return found


def _trips_of(
    root: Instruction, starts: Sequence[int | None], ends: Sequence[Instruction | None]
) -> int | None:
    if not isinstance(root.op, hlo.Compare) or len(root.operands) != 2:
        return None
    direction = root.op.direction
    counter, bound = (_plain(o) for o in root.operands)
    limit = _known(bound, starts, ends)
    if limit is None:
        counter, bound, direction = bound, counter, direction.mirrored
        limit = _known(bound, starts, ends)
    at = _carry(counter)
    if limit is None or at is None or not _is_index(counter):
        return None
    start, step = starts[at], _step(ends, at)
    if start is None or step is None:
        return None
    shape = shape_of(counter)
    return _trips(start, step, limit, direction, shape.dtype.bits, shape.dtype.is_signed)


def _plain(inst: Instruction) -> Instruction:
    """The value before all copies and reshapes of one element that end at `inst`."""
    while inst.op.keeps_order:
        source, shape = inst.operands[0].shape, inst.shape
        if not isinstance(source, Shape) or not isinstance(shape, Shape):
            break
        if source.dtype is not shape.dtype or source.size != 1:
            break
        inst = inst.operands[0]
    return inst


def _is_index(inst: Instruction) -> bool:
    shape = inst.shape
    return isinstance(shape, Shape) and shape.size == 1 and shape.dtype.is_integer


def _carry(inst: Instruction) -> int | None:
    """The number of the loop's element that `inst` reads, or -1 if the loop carries a single array; None if
    the instruction does not read a carried element.
    """
    if isinstance(inst.op, hlo.Parameter) and isinstance(inst.shape, Shape):
        return -1
    if isinstance(inst.op, hlo.GetTupleElement) and isinstance(inst.operands[0].op, hlo.Parameter):
        return inst.op.index
    return None


def _constant(inst: Instruction) -> int | None:
    inst = _plain(inst)
    if isinstance(inst.op, hlo.Convert) and _is_index(inst) and _is_index(inst.operands[0]):
        value = _constant(inst.operands[0])
        return value if value is not None and _holds(shape_of(inst), value) else None
    if not isinstance(inst.op, hlo.Constant) or not _is_index(inst):
        return None
    return int(inst.op.literal.array.reshape(())[()])


def _holds(shape: Shape, value: int) -> bool:
    """Whether the integer type of a shape can represent a number."""
    low = -(1 << shape.dtype.bits - 1) if shape.dtype.is_signed else 0
    return low <= value < low + (1 << shape.dtype.bits)


def _elements(inst: Instruction) -> Sequence[Instruction | None]:
    """The elements of a loop's operand or of its body's root; None for elements that are not known."""
    if isinstance(inst.shape, Shape):
        return [inst]
    return inst.operands if isinstance(inst.op, hlo.Tuple) else [None] * len(inst.shape.elements)


def _known(inst: Instruction, starts: Sequence[int | None], ends: Sequence[Instruction | None]) -> int | None:
    """The value of a constant, or of a carried element that starts as a constant and never changes; else
    None.
    """
    value = _constant(inst)
    at = _carry(inst)
    if value is not None or at is None or not _is_index(inst):
        return value
    return starts[at] if _step(ends, at) == 0 else None


def _step(ends: Sequence[Instruction | None], at: int) -> int | None:
    last = ends[at]
    if last is None:
        return None
    last = _plain(last)
    if _carry(last) == at:
        return 0
    if not isinstance(last.op, hlo.Add | hlo.Subtract):
        return None
    left, right = (_plain(o) for o in last.operands)
    if _carry(left) == at:
        step = _constant(right)
    elif isinstance(last.op, hlo.Add) and _carry(right) == at:
        step = _constant(left)
    else:
        return None
    if step is None:
        return None
    return -step if isinstance(last.op, hlo.Subtract) else step


def _trips(start: int, step: int, limit: int, direction: Direction, bits: int, signed: bool) -> int | None:
    """The number of trips of a loop over i = start, start + step, ... while `i direction limit` holds. None
    if the loop does not end or i would wrap around in an integer of `bits` bits.
    """
    if direction is Direction.EQ:
        return 0 if start != limit else (1 if step else None)
    if direction is Direction.NE:
        if start == limit:
            return 0
        return (
            (limit - start) // step
            if step and (limit - start) % step == 0 and (limit - start) // step > 0
            else None
        )
    if direction in (Direction.LE, Direction.GE):
        limit += 1 if direction is Direction.LE else -1
    distance = limit - start
    if direction in (Direction.GT, Direction.GE):
        distance, step = -distance, -step
    if distance <= 0:
        return 0
    if step <= 0:
        return None
    trips = -(-distance // step)
    last = start + trips * (step if direction in (Direction.LT, Direction.LE) else -step)
    low = -(1 << bits - 1) if signed else 0
    return trips if low <= last < low + (1 << bits) else None
