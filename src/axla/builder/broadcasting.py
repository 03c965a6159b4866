"""Implicit broadcasting: gives operands of different sizes equal sizes before an elementwise op.

Scalars are broadcast to every shape. Arrays of different rank need `broadcast_dimensions`, which has, for
each dimension of the operand with the lower rank, its dimension in the other operand; then dimensions of size
1 are repeated. Nothing else is implicit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from axla.builder.values import integers
from axla.builder.xla_builder import XlaOp
from axla.core.errors import ShapeError
from axla.core.shape import Shape, array
from axla.hlo import Broadcast, Reshape
from axla.hlo.family import are_increasing, show
from axla.ir.op import reject

DynamicSizes = tuple[tuple[int, bool], ...]  # per dimension: size, whether it is dynamic


def common_dims(lhs: Shape, rhs: Shape, broadcast_dimensions: Sequence[int] | None = None) -> tuple[int, ...]:
    """The sizes of the result of an elementwise op on `lhs` and `rhs`. Raises ShapeError if the shapes cannot
    be broadcast to common sizes.
    """
    return tuple(size for size, _ in _common(lhs, rhs, _expansion(lhs, rhs, broadcast_dimensions)))


def broadcast_pair(
    what: str, lhs: XlaOp, rhs: XlaOp, broadcast_dimensions: Sequence[int] | None
) -> tuple[XlaOp, XlaOp]:
    """Returns (lhs, rhs), both broadcast to the sizes of the result of the op `what`."""
    a, b = lhs.shape, rhs.shape
    if broadcast_dimensions is not None:
        broadcast_dimensions = integers(broadcast_dimensions, f"{what}: broadcast_dimensions")
    if not isinstance(a, Shape) or not isinstance(b, Shape):
        return lhs, rhs  # the op itself rejects tuples and tokens
    if a.dims == b.dims and not broadcast_dimensions:
        return lhs, rhs
    try:
        expansion = _expansion(a, b, broadcast_dimensions)
        sizes = _common(a, b, expansion)
    except ShapeError as error:
        lhs.builder.fail(what, (lhs, rhs), error.message)
    left = broadcast_to(lhs, sizes, expansion if a.rank <= b.rank else range(a.rank))
    right = broadcast_to(rhs, sizes, expansion if b.rank <= a.rank else range(b.rank))
    return left, right


def scalars_to(sizes_of: XlaOp, operand: XlaOp) -> XlaOp:
    """Broadcasts `operand` to the sizes of `sizes_of` if it is a scalar; else returns it unchanged."""
    shape, wanted = operand.shape, sizes_of.shape
    if not isinstance(shape, Shape) or not isinstance(wanted, Shape) or shape.dims or not wanted.dims:
        return operand
    return broadcast_to(operand, tuple(zip(wanted.dims, wanted.dynamic, strict=True)), ())


def full(like: XlaOp, value: float) -> XlaOp:
    """An array filled with `value`, with the element type and sizes of `like`."""
    return scalars_to(like, like.builder.constant(np.asarray(value, like.dtype.numpy)))


def _expansion(a: Shape, b: Shape, broadcast_dimensions: Sequence[int] | None) -> tuple[int, ...]:
    """For each dimension of the operand with the lower rank, the dimension of the result that it becomes."""
    low, high = (a, b) if a.rank <= b.rank else (b, a)
    found = tuple(broadcast_dimensions or ())
    said = f"broadcast_dimensions={list(found)}"
    if low.rank == high.rank:
        if found and found != tuple(range(low.rank)):
            own = list(range(low.rank))
            message = f"{said}: wanted none for operands of the same rank {low.rank} (or {own})"
            reject("broadcast_same_rank", message)
        return tuple(range(low.rank))
    if low.rank == 0:
        if found:
            reject("broadcast_scalar", f"{said}: wanted none for a scalar")
        return ()
    if not found:
        which = f"which dimensions of {show(high)} those of {show(low)} are"
        message = f"ranks {a.rank} and {b.rank} differ: broadcast_dimensions must say {which}"
        reject("broadcast_needed", message)
    check_places("broadcast", found, low, show(high), high.rank)
    for number, dim in enumerate(found):
        small, large = low.dims[number], high.dims[dim]
        if small != large and small != 1 and large != 1:
            one = f"dimension {number} of {show(low)} has size {small}"
            other = f"dimension {dim} of {show(high)} has size {large}"
            reject("broadcast_size", f"{said}: {one}, {other}")
    return found


def check_places(label: str, places: Sequence[int], source: Shape, target: str, rank: int) -> None:
    """Rejects `places`, the dimensions of an array of rank `rank` to which the dimensions of `source` are
    broadcast, unless they are in ascending order, one for each dimension of `source`. `target` describes the
    array in messages; labels of the broken rules begin with `label`.
    """
    what = f"broadcast_dimensions={list(places)}"
    if len(places) != source.rank:
        found = f"found {len(places)} entries, wanted one per dimension of {show(source)}"
        reject(f"{label}_count", f"{what}: {found}")
    if any(not 0 <= d < rank for d in places):
        reject(f"{label}_range", f"{what}: wanted dimensions of {target}, 0 to {rank - 1}")
    if not are_increasing(places, rank):
        reject(f"{label}_order", f"{what} must be strictly increasing")


def _common(a: Shape, b: Shape, expansion: Sequence[int]) -> DynamicSizes:
    """The sizes of the result of an op on `a` and `b`: in each dimension the size that is not 1. `expansion`
    has, for each dimension of the operand with the lower rank, its dimension in the other operand.
    """
    low, high = (a, b) if a.rank <= b.rank else (b, a)
    sizes = list(zip(high.dims, high.dynamic, strict=True))
    for number, dim in enumerate(expansion):
        size, dynamic = low.dims[number], low.dynamic[number]
        other, other_dynamic = sizes[dim]
        if size == other:
            sizes[dim] = (size, dynamic or other_dynamic)
        elif other == 1 and not other_dynamic:
            sizes[dim] = (size, dynamic)
        elif size != 1 or dynamic:
            why = f"dimension {dim} has sizes {size} and {other}; they must be equal, or one of them 1"
            reject("broadcast_compatible", f"{show(a)} and {show(b)} cannot be combined: {why}")
    return tuple(sizes)


def broadcast_to(operand: XlaOp, sizes: DynamicSizes, dimensions: Sequence[int]) -> XlaOp:
    """Broadcasts an operand to `sizes`: its dimension k becomes dimension `dimensions[k]` of the result, and
    dimensions of size 1 are repeated.
    """
    shape = array(operand.shape)
    dims = tuple(size for size, _ in sizes)
    if shape.dims == dims:
        return operand
    # HLO's broadcast repeats along new dimensions only: a dimension of size 1 that grows is dropped first.
    kept = [k for k, d in enumerate(dimensions) if shape.dims[k] == dims[d]]
    if len(kept) != shape.rank:
        flat = shape.with_dims([shape.dims[k] for k in kept], [shape.dynamic[k] for k in kept])
        operand = operand.builder.add(Reshape(flat), (operand,))
    result = Shape(shape.dtype, dims, tuple(mark for _, mark in sizes))
    return operand.builder.add(Broadcast(result, tuple(dimensions[k] for k in kept)), (operand,))
