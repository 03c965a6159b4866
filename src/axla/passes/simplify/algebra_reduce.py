"""Rules of algsimp for reduce. Elements may be combined in any order, and an initial value that is the
identity of the combiner has no influence.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import TypeGuard

from axla.core.dtypes import F32, F64
from axla.core.literal import Literal
from axla.hlo import Add, And, Broadcast, Concatenate, Map, Maximum, Minimum, Multiply, Or, Reduce, Transpose
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.ir.typed import shape_of
from axla.passes.rewrite import Rewritten, rule
from axla.passes.simplify.algebra_movement import reshaped
from axla.passes.simplify.match import combiner, constant, dtype_of, full, is_all, neutral, spread

FREE = "order: that of a reduction is free"


def is_identity(value: Instruction, op: type[Op] | None) -> bool:
    """Whether combining `value` with any x by `op` returns x."""
    found = neutral(op, dtype_of(value))
    return found is not None and (is_all(value, found) or found == 0 and is_all(value, -0.0))


def is_single(root: Instruction) -> TypeGuard[Instruction[Reduce]]:
    """Whether an instruction is a reduce of one array with a result of the array's element type."""
    if not isinstance(root.op, Reduce) or len(root.operands) != 2 or root.shape.is_tuple:
        return False
    x, start = root.operands
    return dtype_of(x) is dtype_of(start) is dtype_of(root)


def without(dims: Sequence[int], dropped: Sequence[int]) -> tuple[int, ...]:
    """The elements of `dims` whose positions are not in `dropped`."""
    return tuple(size for d, size in enumerate(dims) if d not in dropped)


def renumbered(dimensions: Sequence[int], dropped: Sequence[int]) -> tuple[int, ...]:
    """The given dimension numbers after the dimensions `dropped` have been removed."""
    return tuple(d - sum(other < d for other in dropped) for d in dimensions if d not in dropped)


@rule(Reduce, where=is_single)
def reduce_nothing(root: Instruction, x: Instruction, start: Instruction) -> Rewritten:
    """reduce(x, v) => broadcast(v), for x without elements"""
    return None if shape_of(x).size else spread(root, start)


@rule(Reduce, where=is_single)
def reduce_one_element_each(root: Instruction[Reduce], x: Instruction, start: Instruction) -> Rewritten:
    """reduce(x, v) => reshape(x), over dimensions of size 1 (combined with v if that is not the identity)"""
    shape, op = shape_of(root), root.op
    if not shape.size or shape_of(x).size != shape.size:
        return None
    flat = reshaped(x, shape.dims)
    if is_identity(start, combiner(op.to_apply)):
        return flat
    return Map(tuple(range(shape.rank)), op.to_apply)(spread(root, start), flat)


@rule(Reduce, where=is_single)
def reduce_drops_unit_dims(root: Instruction[Reduce], x: Instruction, start: Instruction) -> Rewritten:
    """reduce(x) => reduce(reshape(x)), without reduced dimensions of size 1"""
    op = root.op
    units = [d for d in op.dimensions if shape_of(x).dims[d] == 1]
    if not shape_of(x).size or not units or len(units) == len(op.dimensions):
        return None
    dropped = reshaped(x, without(shape_of(x).dims, units))
    return Reduce(renumbered(op.dimensions, units), op.to_apply)(dropped, start)


@rule(Reduce, of=Reduce, where=is_single, allows=FREE)
def reduce_reduce(root: Instruction[Reduce], inner: Instruction, start: Instruction) -> Rewritten:
    """reduce(reduce(x, identity, a), v, b) => reduce(x, v, a and b), if both have the same combiner

    a and b are the reduced dimensions.
    """
    if not is_single(inner) or len(inner.users) != 1:
        return None
    (x, first), op = inner.operands, inner.op
    by = combiner(op.to_apply)
    if by is None or not by.associative or not is_identity(first, by):
        return None
    if by is not combiner(root.op.to_apply):
        return None
    kept = [d for d in range(shape_of(x).rank) if d not in op.dimensions]
    dimensions = sorted((*op.dimensions, *(kept[d] for d in root.op.dimensions)))
    return Reduce(tuple(dimensions), op.to_apply)(x, start)


@rule(Reduce, of=Transpose, where=is_single)
def reduce_of_transpose(
    root: Instruction[Reduce], inner: Instruction[Transpose], start: Instruction
) -> Rewritten:
    """reduce(transpose(x)) => reduce(x), if the dimensions that are not reduced keep their order"""
    op, permutation = root.op, inner.op.dimensions
    kept = [permutation[d] for d in range(len(permutation)) if d not in op.dimensions]
    if kept != sorted(kept):
        return None
    return Reduce(tuple(sorted(permutation[d] for d in op.dimensions)), op.to_apply)(inner.operands[0], start)


@rule(Reduce, of=Broadcast, where=is_single)
def reduce_of_broadcast(
    root: Instruction[Reduce], x: Instruction[Broadcast], start: Instruction
) -> Rewritten:
    """reduce(broadcast(x)) => reduce(x), by maximum, minimum, and, or, along dimensions that repeat x"""
    op, places = root.op, x.op.dimensions
    repeated = [d for d in op.dimensions if d not in places]
    if combiner(op.to_apply) not in (Maximum, Minimum, And, Or) or not shape_of(x).size or not repeated:
        return None
    smaller = shape_of(x).with_dims(without(shape_of(x).dims, repeated))
    inner = Broadcast(smaller, renumbered(places, repeated))(x.operands[0])
    return Reduce(renumbered(op.dimensions, repeated), op.to_apply)(inner, start)


@rule(Reduce, of=Concatenate, where=is_single, allows=FREE)
def reduce_of_concatenate(
    root: Instruction[Reduce], inner: Instruction[Concatenate], start: Instruction
) -> Rewritten:
    """reduce(concatenate(x, y), v, op) => op(reduce(x, v), reduce(y, identity))

    The reduce is along the concatenated dimension.
    """
    op, by, dtype = root.op, combiner(root.op.to_apply), dtype_of(root)
    first = neutral(by, dtype)
    known = by is not None and by.associative and first is not None and len(inner.users) == 1
    if not known or inner.op.dimension not in op.dimensions or len(inner.operands) > 8:
        return None
    if any(dtype_of(x) is not dtype or not shape_of(x).size for x in inner.operands):
        return None
    nothing = constant(
        root.computation, Literal.scalar(dtype, -0.0 if by is Add and dtype.is_float else first)
    )
    parts = [op(x, start if n == 0 else nothing) for n, x in enumerate(inner.operands)]
    return functools.reduce(op.to_apply.root.op, parts)


@rule(Reduce, of=Broadcast, where=is_single)
def reduce_keeps_broadcast(
    root: Instruction[Reduce], x: Instruction[Broadcast], start: Instruction
) -> Rewritten:
    """reduce(broadcast(x)) => broadcast(reduce(x)), for dimensions that repeat x and are not reduced"""
    op, places = root.op, x.op.dimensions
    kept = [d for d in range(shape_of(x).rank) if d not in op.dimensions]
    repeated = [d for d in kept if d not in places and shape_of(x).dims[d] != 1]
    if not repeated or not shape_of(x).size or not op.dimensions:
        return None
    smaller = shape_of(x).with_dims(without(shape_of(x).dims, repeated))
    inner = Broadcast(smaller, renumbered(places, repeated))(x.operands[0])
    small = Reduce(renumbered(op.dimensions, repeated), op.to_apply)(inner, start)
    return Broadcast(shape_of(root), tuple(i for i, d in enumerate(kept) if d not in repeated))(small)


@rule(Reduce, of=Broadcast, where=is_single, allows=FREE)
def reduce_add_of_broadcast(
    root: Instruction[Reduce], x: Instruction[Broadcast], start: Instruction
) -> Rewritten:
    """reduce(broadcast(x), v, add) => v + n * reduce(x), for reduced dimensions that repeat x n times

    For floats n is written as a sum of powers of two: each product is then what a tree of additions returns.
    """
    op, places, dtype = root.op, x.op.dimensions, dtype_of(root)
    repeated = [d for d in op.dimensions if d not in places]
    count = prod(shape_of(x).dims[d] for d in repeated)
    if combiner(op.to_apply) is not Add or not repeated or not shape_of(x).size or dtype.is_pred:
        return None
    fits = dtype in (F32, F64) or dtype.is_integer and count < 1 << (dtype.bits - 1)
    if not fits or count >= 1 << 64:
        return None
    smaller = shape_of(x).with_dims(without(shape_of(x).dims, repeated))
    one = Broadcast(smaller, renumbered(places, repeated))(x.operands[0])
    left = renumbered(op.dimensions, repeated)
    if left:
        zero = constant(root.computation, Literal.scalar(dtype, -0.0 if dtype.is_float else 0))
        one = Reduce(left, op.to_apply)(one, zero)
    powers = [1 << k for k in range(count.bit_length()) if count >> k & 1] if dtype.is_float else [count]
    total = spread(root, start)
    for n in powers:
        total = Add()(total, Multiply()(one, full(root, n)))
    return total
