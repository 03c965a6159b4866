"""argmax and argmin as two plain reductions, which use vector lanes and threads.

JAX writes them as a reduce of (value, index) pairs that prefers NaN, then the larger (smaller) value, then
the lower index. Its index is the lowest one whose value equals the extreme value, or is NaN if the extreme
value is NaN. If the value of the pair is read too, the original reduce still computes it: of -0 and 0, its
combiner keeps the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import S32
from axla.core.shape import Shape
from axla.hlo import And, Compare, GetTupleElement, Iota, Or, Parameter, Reduce, Select, Tuple
from axla.ir.attributes import Direction
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.typed import op_of, shape_of
from axla.passes.expand.expander import expand, written
from axla.passes.matrix import combiner, number
from axla.passes.simplify.match import limits, uniform


def argmax_rewriter(module: Module) -> None:
    """Writes argmax and argmin, if only the index is read, as a reduction of values and one of indices."""
    expand(module, "argmax-rewriter", {Reduce: _rewrite})


def _rewrite(inst: Instruction) -> Instruction | None:
    op = op_of(inst, Reduce)
    if len(inst.operands) != 4 or inst is inst.computation.root or _reads_value(inst):
        return None
    found = _direction(op.to_apply)
    if found is None:
        return None
    start = uniform(inst.operands[2])
    if start is None or start != start or not shape_of(inst.operands[1]).dtype.is_integer:
        return None  # an initial NaN would be chosen, with its index
    better = "Max" if found is Direction.GT else "Min"
    return written(inst, _reductions, op.dimensions, better, _short_iota(*inst.operands[1::2]))


def _short_iota(indices: Instruction, first: Instruction) -> int | None:
    """The dimension along which the 64-bit `indices` are an iota, if they and the initial index `first` fit
    in 32 bits; else None.
    """
    shape, start = shape_of(indices), uniform(first)
    if not isinstance(indices.op, Iota) or shape.dtype.bits <= S32.bits or start is None:
        return None
    most, dimension = limits(S32)[1], indices.op.iota_dimension
    return dimension if shape.dims[dimension] <= most and start <= most else None


def _reductions(
    _: Instruction, dimensions: Sequence[int], better: str, short_iota: int | None,
    values: XlaOp, indices: XlaOp, first_value: XlaOp, first_index: XlaOp,
) -> Sequence[XlaOp]:  # fmt: skip
    extreme = ops.Reduce(values, first_value, combiner(better, values.dtype), dimensions)
    kept = [d for d in range(len(values.dims)) if d not in dimensions]
    hit = _hit(values, ops.BroadcastInDim(extreme, values.dims, kept))
    places = indices
    if short_iota is not None:  # 32-bit indices: twice as many lanes
        places = ops.Iota(values.builder, Shape(S32, tuple(values.dims)), short_iota)
    none = number(places, limits(places.dtype)[1])
    lowest = ops.Reduce(ops.Select(hit, places, none), none, combiner("Min", places.dtype), dimensions)
    # The initial pair is compared like any other. If no element matches, the initial pair does.
    start = ops.Select(_hit(first_value, extreme), first_index, number(indices, limits(indices.dtype)[1]))
    return [extreme, ops.Min(start, ops.ConvertElementType(lowest, indices.dtype))]


def _hit(values: XlaOp, extreme: XlaOp) -> XlaOp:
    """Whether each value equals the extreme value; if that is NaN, whether the value is NaN."""
    equal = values == extreme
    return equal | (values != values) if values.dtype.is_float else equal


def _reads_value(inst: Instruction) -> bool:
    for user in inst.users:
        if not isinstance(user.op, GetTupleElement):
            return True
        if user.op.index == 0 and (user.users or user is inst.computation.root):
            return True
    return False


def _direction(combiner: Computation) -> Direction | None:
    """GT if a combiner is that of argmax, LT if it is that of argmin, else None."""
    root = combiner.root
    if not isinstance(root.op, Tuple) or len(root.operands) != 2:
        return None
    value, index = root.operands
    if not isinstance(value.op, Select) or not isinstance(index.op, Select):
        return None
    if _numbers(value.operands[1:]) != [0, 2] or _numbers(index.operands[1:]) != [1, 3]:
        return None
    better, better_or_lower = value.operands[0], index.operands[0]
    direction = _better(better)
    if direction is None or not isinstance(better_or_lower.op, Or) or better not in better_or_lower.operands:
        return None
    ties = [o for o in better_or_lower.operands if o is not better]
    if len(ties) != 1 or not isinstance(ties[0].op, And):
        return None
    found = {_compared(o) for o in ties[0].operands}
    return direction if found == {(Direction.EQ, 0, 2), (Direction.LT, 1, 3)} else None


def _better(inst: Instruction) -> Direction | None:
    """The direction of a comparison `a > b or a is NaN` (integers: `a > b`), where a and b are parameters 0
    and 2; None for other instructions.
    """
    parts = inst.operands if isinstance(inst.op, Or) else (inst,)
    found = {_compared(part) for part in parts}
    is_float = shape_of(inst.computation.parameters[0]).dtype.is_float
    for direction in (Direction.GT, Direction.LT):
        wanted = {(direction, 0, 2), (Direction.NE, 0, 0)}
        if found == wanted or (not is_float and found == {(direction, 0, 2)}):
            return direction
    return None


def _compared(inst: Instruction) -> tuple[Direction, int, int] | None:
    """A comparison of two parameters as (direction, parameter number, parameter number); None for other
    instructions.
    """
    if not isinstance(inst.op, Compare) or inst.op.type is not None:
        return None
    numbers = _numbers(inst.operands)
    return (inst.op.direction, numbers[0], numbers[1]) if -1 not in numbers else None


def _numbers(operands: tuple[Instruction, ...]) -> list[int]:
    return [o.op.parameter_number if isinstance(o.op, Parameter) else -1 for o in operands]
