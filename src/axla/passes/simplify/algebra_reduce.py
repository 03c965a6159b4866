"""Rules of algsimp for reduce. The order of combination is free, and an initial value that is the identity is
no element.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.hlo import Add, And, Broadcast, Map, Maximum, Minimum, Multiply, Or, Reduce, Transpose, Xor
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.ir.typed import shape_of
from axla.passes.rewrite import Rewritten, rule
from axla.passes.simplify.algebra_movement import reshaped
from axla.passes.simplify.match import combiner, dtype_of, is_all, is_all_ones, limits


def is_identity(value: Instruction, op: type[Op] | None) -> bool:
    """Whether combining `value` with x by `op` gives x."""
    if op in (Add, Or, Xor):
        return is_all(value, 0) or is_all(value, -0.0)
    if op is Multiply:
        return is_all(value, 1)
    if op is And:
        return is_all_ones(value)
    if op in (Maximum, Minimum):
        return is_all(value, limits(dtype_of(value))[op is Minimum])
    return False


def single(root: Instruction) -> tuple[Instruction, Instruction, Reduce] | None:
    """Array, initial value and op of a reduction of one array in its own type."""
    if not isinstance(root.op, Reduce) or len(root.operands) != 2 or root.shape.is_tuple:
        return None
    x, start = root.operands
    dtype = dtype_of(root)
    if dtype_of(x) is not dtype or dtype_of(start) is not dtype:
        return None
    return x, start, root.op


def without(dims: Sequence[int], dropped: Sequence[int]) -> tuple[int, ...]:
    """The elements of `dims` at places that are not dropped."""
    return tuple(size for d, size in enumerate(dims) if d not in dropped)


def renumbered(dimensions: Sequence[int], dropped: Sequence[int]) -> tuple[int, ...]:
    """Numbers of dimensions after others were dropped."""
    return tuple(d - sum(other < d for other in dropped) for d in dimensions if d not in dropped)


@rule(Reduce)
def reduce_nothing(root: Instruction, *_: Instruction) -> Rewritten:
    """reduce(x, v) => broadcast(v), for x without elements"""
    found = single(root)
    if found is None or shape_of(found[0]).size:
        return None
    return Broadcast(shape_of(root), ())(found[1]) if shape_of(root).rank else found[1]


@rule(Reduce)
def reduce_one_element_each(root: Instruction, *_: Instruction) -> Rewritten:
    """reduce(x, v) => reshape(x), over dimensions of size 1 (with v combined, when it is not the identity)"""
    found = single(root)
    if found is None or not shape_of(root).size or shape_of(found[0]).size != shape_of(root).size:
        return None
    x, start, op = found
    flat = reshaped(x, shape_of(root).dims)
    if is_identity(start, combiner(op.to_apply)):
        return flat
    first = Broadcast(shape_of(root), ())(start) if shape_of(root).rank else start
    return Map(tuple(range(shape_of(root).rank)), op.to_apply)(first, flat)


@rule(Reduce)
def reduce_drops_unit_dims(root: Instruction, *_: Instruction) -> Rewritten:
    """reduce(x) => reduce(reshape(x)), without those reduced dimensions that have size 1"""
    found = single(root)
    if found is None or not shape_of(found[0]).size:
        return None
    x, start, op = found
    units = [d for d in op.dimensions if shape_of(x).dims[d] == 1]
    if not units or len(units) == len(op.dimensions):
        return None
    dropped = reshaped(x, without(shape_of(x).dims, units))
    return Reduce(renumbered(op.dimensions, units), op.to_apply)(dropped, start)


@rule(Reduce)
def reduce_reduce(root: Instruction, *_: Instruction) -> Rewritten:
    """reduce(reduce(x, identity, a), v, b) => reduce(x, v, a and b), by one op"""
    outer = single(root)
    inner = single(outer[0]) if outer is not None and len(outer[0].users) == 1 else None
    if outer is None or inner is None:
        return None
    x, neutral, inner_op = inner
    by = combiner(inner_op.to_apply)
    if by is None or not by.associative or not is_identity(neutral, by):
        return None
    if by is not combiner(outer[2].to_apply):
        return None
    kept = [d for d in range(shape_of(x).rank) if d not in inner_op.dimensions]
    dimensions = sorted((*inner_op.dimensions, *(kept[d] for d in outer[2].dimensions)))
    return Reduce(tuple(dimensions), inner_op.to_apply)(x, outer[1])


@rule(Reduce)
def reduce_of_transpose(root: Instruction, *_: Instruction) -> Rewritten:
    """reduce(transpose(x)) => reduce(x), when the dimensions that stay keep their order"""
    found = single(root)
    if found is None or not isinstance(found[0].op, Transpose):
        return None
    x, start, op = found
    permutation = found[0].op.dimensions
    kept = [permutation[d] for d in range(len(permutation)) if d not in op.dimensions]
    if kept != sorted(kept):
        return None
    return Reduce(tuple(sorted(permutation[d] for d in op.dimensions)), op.to_apply)(x.operands[0], start)


@rule(Reduce)
def reduce_of_broadcast(root: Instruction, *_: Instruction) -> Rewritten:
    """reduce(broadcast(x)) => reduce(x), by maximum, minimum, and, or, along dimensions that repeat x"""
    found = single(root)
    if found is None or not isinstance(found[0].op, Broadcast) or not shape_of(found[0]).size:
        return None
    x, start, op = found
    spread = found[0].op
    if combiner(op.to_apply) not in (Maximum, Minimum, And, Or):
        return None
    repeated = [d for d in op.dimensions if d not in spread.dimensions]
    if not repeated:
        return None
    smaller = shape_of(x).with_dims(without(shape_of(x).dims, repeated))
    inner = Broadcast(smaller, renumbered(spread.dimensions, repeated))(x.operands[0])
    return Reduce(renumbered(op.dimensions, repeated), op.to_apply)(inner, start)
