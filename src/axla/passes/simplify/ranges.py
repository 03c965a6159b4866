"""Finds facts about the elements of an array: integer bounds, constant differences between successive
elements, and floats that do not occur.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import axla.hlo as hlo
from axla.core.shape import Shape
from axla.ir.attributes import Window
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.ir.structure import Constant, GetTupleElement, Parameter, Tuple
from axla.ir.typed import op_of
from axla.passes.rewrite import current_session
from axla.passes.simplify.match import combiner, dtype_of, is_all, limits, uniform, values_of

Range = tuple[int, int]
"""The smallest and the largest integer that an element may be."""

DEPTH = 5
"""The most ops that are followed from a value to its operands."""

LONGEST = 1 << 16
"""The most elements of a constant whose values are examined."""

MOVES = (
    hlo.Broadcast,
    hlo.Reshape,
    hlo.Transpose,
    hlo.Slice,
    hlo.Reverse,
    hlo.Copy,
    hlo.DynamicSlice,
    hlo.Gather,
)
"""Ops whose result has only elements of their first operand."""


def range_of(inst: Instruction, depth: int = DEPTH) -> Range | None:
    """The smallest and the largest possible value of an array's elements. The bounds of the type if nothing
    else is known; None if the elements are not integers.
    """
    shape = inst.shape
    if not isinstance(shape, Shape) or not shape.dtype.is_integer:
        return None
    low, high = limits(shape.dtype)
    found = _found(inst, shape, depth) if depth else None
    if found is None or found[0] < low or found[1] > high:
        return low, high  # nothing is known, or the value may have wrapped
    return found


def _found(inst: Instruction, shape: Shape, depth: int) -> Range | None:
    op = inst.op
    if isinstance(op, Constant):
        values = values_of(inst)
        if values is None or not 0 < values.size <= LONGEST:
            return None
        wide = values if shape.dtype.bits >= 8 else values.astype(np.int64)
        return int(wide.min()), int(wide.max())
    if isinstance(op, hlo.Iota):
        return 0, max(0, shape.dims[op.iota_dimension] - 1)
    if isinstance(op, MOVES):
        return range_of(inst.operands[0], depth - 1)
    if isinstance(op, hlo.Convert) and dtype_of(inst.operands[0]).is_pred:
        return 0, 1
    if isinstance(op, hlo.ReduceWindow) and combiner(op.to_apply) is hlo.Maximum:
        found, start = (range_of(o, depth - 1) for o in inst.operands)
        return _largest(found, start) if found and start and _meets_elements(op.window) else None
    combine = RANGES.get(type(op))
    if combine is None:
        return None
    operands = inst.operands[1:] if isinstance(op, hlo.Select) else inst.operands
    ranges = [range_of(o, depth - 1) for o in operands]
    return None if None in ranges else combine(*ranges)


def _meets_elements(window: Window) -> bool:
    """Whether every position of a window covers at least one element."""
    edges = zip(window.size, window.low, window.high, strict=True)
    dense = {*window.base_dilation, *window.window_dilation} <= {1}
    return dense and all(max(low, high) < size for size, low, high in edges)


def _product(a: Range, b: Range) -> Range:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _remainder(a: Range, b: Range) -> Range | None:
    if b[0] <= 0:
        return None
    return -min(b[1] - 1, max(0, -a[0])), min(b[1] - 1, max(0, a[1]))


def _largest(a: Range, b: Range) -> Range:
    return max(a[0], b[0]), max(a[1], b[1])


def _smallest(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), min(a[1], b[1])


def _quotient(a: Range, b: Range) -> Range | None:
    return (a[0] // b[1], a[1] // b[0]) if a[0] >= 0 and b[0] > 0 else None


def _shifted(a: Range, b: Range) -> Range | None:
    return (a[0] >> b[0], a[1] >> b[0]) if a[0] >= 0 and 0 <= b[0] == b[1] < 64 else None


def _masked(a: Range, b: Range) -> Range | None:
    highs = [high for low, high in (a, b) if low >= 0]
    return (0, min(highs)) if highs else None


RANGES: dict[type[Op], Callable[..., Range | None]] = {
    hlo.Add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    hlo.Subtract: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    hlo.Negate: lambda a: (-a[1], -a[0]),
    hlo.Multiply: _product,
    hlo.Maximum: _largest,
    hlo.Minimum: _smallest,
    hlo.Clamp: lambda low, x, high: _smallest(_largest(low, x), high),
    hlo.Remainder: _remainder,
    hlo.Divide: _quotient,
    hlo.And: _masked,
    hlo.ShiftRightLogical: _shifted,
    hlo.ShiftRightArithmetic: _shifted,
    hlo.Abs: lambda a: (max(0, a[0], -a[1]), max(-a[0], a[1])),
    hlo.Sign: lambda a: ((a[0] > 0) - (a[0] < 0), (a[1] > 0) - (a[1] < 0)),
    hlo.Convert: lambda a: a,
    hlo.Select: lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
}
"""Op class -> function from the ranges of the operands to the range of the result, as if numbers never
overflowed.
"""


def is_never_negative(inst: Instruction, depth: int = DEPTH) -> bool:
    """Whether no element is negative. A float is negative if it has the sign bit, -0.0 included; NaN does not
    count.
    """
    found = range_of(inst)
    if found is not None:
        return found[0] >= 0
    op, operands = inst.op, inst.operands
    if isinstance(op, Constant):
        value = uniform(inst)
        return value is not None and dtype_of(inst).is_float and not np.signbit(float(value))
    if not depth or not isinstance(inst.shape, Shape) or not inst.shape.dtype.is_float:
        return False
    if isinstance(op, hlo.Abs | hlo.Exponential | hlo.Logistic):
        return True
    if isinstance(op, hlo.Convert):
        source = dtype_of(operands[0])
        return source.is_pred or source.is_unsigned or is_never_negative(operands[0], depth - 1)
    if isinstance(op, hlo.Multiply) and operands[0] is operands[1]:
        return True
    if isinstance(op, MOVES):
        return is_never_negative(operands[0], depth - 1)
    alike = isinstance(op, hlo.Add | hlo.Multiply | hlo.Divide | hlo.Maximum | hlo.Minimum)
    return alike and all(is_never_negative(o, depth - 1) for o in operands)


Progression = tuple[int, int, int]
"""Numbers with a constant difference: the first number, the difference, the count."""


def progression(inst: Instruction, depth: int = DEPTH) -> Progression | None:
    """The integers of an array, in row-major order, if they have a constant difference; else None."""
    shape = inst.shape
    if not depth or not isinstance(shape, Shape) or not shape.dtype.is_integer or not shape.size:
        return None
    found = _progression(inst, shape, depth)
    if found is None:
        return None
    start, step, count = found
    low, high = limits(shape.dtype)
    first, last = sorted((start, start + step * (count - 1)))
    return found if low <= first and last <= high else None  # None if the numbers wrap


def _progression(inst: Instruction, shape: Shape, depth: int) -> Progression | None:
    op = inst.op
    values = values_of(inst)
    if values is not None:
        return _of_values(values)
    if isinstance(op, hlo.Iota):
        count = shape.dims[op.iota_dimension]
        return (0, 1, count) if count == shape.size else None
    if isinstance(op, hlo.Reshape | hlo.Convert | hlo.Copy):
        return progression(inst.operands[0], depth - 1)
    if isinstance(op, hlo.Add | hlo.Subtract | hlo.Multiply):
        found, by = progression(inst.operands[0], depth - 1), uniform(inst.operands[1])
        if found is None or by is None:
            return None
        start, step, count = found
        n = int(by)
        if isinstance(op, hlo.Multiply):
            return start * n, step * n, count
        return (start + n if isinstance(op, hlo.Add) else start - n), step, count
    return None


def _of_values(values: np.ndarray) -> Progression | None:
    flat = values.reshape(-1)
    if flat.size > LONGEST:
        return None
    flat = flat.astype(np.int64)
    step = int(flat[1]) - int(flat[0]) if flat.size > 1 else 1
    return (int(flat[0]), step, flat.size) if (np.diff(flat) == step).all() else None


def lacks_negative_zero(inst: Instruction, assumed: frozenset[Instruction] = frozenset()) -> bool:
    """Whether no element is -0.0, so that adding 0.0 changes no element.

    A value that a loop carries is proved by induction: its initial value has no -0.0, and neither has its
    value after a trip, assuming that it had none before. `assumed` has the instructions assumed to have none.
    """
    if inst in assumed:
        return True
    op, operands = inst.op, inst.operands
    if len(assumed) > 2 * DEPTH:
        return False
    assumed |= {inst}
    if isinstance(op, hlo.Add):
        return any(lacks_negative_zero(o, assumed) for o in operands)  # -0.0 is only the sum of two -0.0
    if isinstance(op, MOVES):
        return lacks_negative_zero(operands[0], assumed)
    if isinstance(op, hlo.DynamicUpdateSlice):
        return all(lacks_negative_zero(o, assumed) for o in operands[:2])
    if isinstance(op, GetTupleElement):
        carry = _carry(inst)
        return carry is not None and all(lacks_negative_zero(o, assumed) for o in carry)
    value = uniform(inst)
    return is_never_negative(inst) or value is not None and not is_all(inst, -0.0)


def _carry(inst: Instruction) -> tuple[Instruction, Instruction] | None:
    """For an element of a loop body's parameter, its initial value and its value after a trip; None if `inst`
    is not such an element.
    """
    index, (source,) = op_of(inst, GetTupleElement).index, inst.operands
    body = inst.computation
    if not isinstance(source.op, Parameter) or inst.computation.module.entry is body:
        return None
    loops = current_session().callers_of(body)
    if len(loops) != 1 or not isinstance(loops[0].op, hlo.While) or loops[0].op.body is not body:
        return None
    start, end = loops[0].operands[0], body.root
    if not isinstance(start.op, Tuple) or not isinstance(end.op, Tuple):
        return None
    return start.operands[index], end.operands[index]


def adds_nothing(zero: Instruction, to: Instruction) -> bool:
    """Whether adding `zero`, which must be constant, to `to` changes no bit."""
    if dtype_of(to).is_float:
        return is_all(zero, -0.0) or is_all(zero, 0) and lacks_negative_zero(to)
    return dtype_of(to).is_integer and is_all(zero, 0)
