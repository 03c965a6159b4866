"""Rules of algsimp for slice, pad, concatenate, dynamic-slice and dynamic-update-slice."""

from __future__ import annotations

from collections.abc import Sequence

from axla.hlo import (
    Broadcast,
    Concatenate,
    DynamicSlice,
    DynamicUpdateSlice,
    Pad,
    Reduce,
    Reshape,
    Slice,
)
from axla.ir.attributes import PaddingConfig, SliceDims
from axla.ir.graph import Instruction
from axla.ir.typed import op_of, shape_of
from axla.passes.rewrite import Rewritten, rule
from axla.passes.simplify.algebra_movement import kept_dims, reshaped
from axla.passes.simplify.match import same_shape, spread, values_of


def ranges_of(inst: Instruction) -> SliceDims:
    """The ranges [start:limit:stride] of a slice instruction."""
    return op_of(inst, Slice).slice


@rule(Slice)
def slice_identity(root: Instruction, x: Instruction) -> Rewritten:
    """slice(x) => x, if it takes all elements"""
    return x if same_shape(x, root) else None


def _has_elements(root: Instruction) -> bool:
    return shape_of(root).size > 0


@rule(Slice, of=Slice, where=_has_elements)
def slice_slice(root: Instruction, inner: Instruction) -> Rewritten:
    """slice(slice(x)) => slice(x)"""
    a, b = ranges_of(inner), ranges_of(root)
    starts = [s + t * n for s, n, t in zip(a.starts, a.strides, b.starts, strict=True)]
    strides = [n * m for n, m in zip(a.strides, b.strides, strict=True)]
    # One past the last element that is taken.
    limits = [s + (n - 1) * step + 1 for s, n, step in zip(starts, shape_of(root).dims, strides, strict=True)]
    return Slice(SliceDims(tuple(starts), tuple(limits), tuple(strides)))(inner.operands[0])


def _at(ranges: SliceDims, dimensions: Sequence[int]) -> SliceDims:
    """The starts, limits and strides of the given dimensions only."""
    lists = (ranges.starts, ranges.limits, ranges.strides)
    return SliceDims(*(tuple(values[d] for d in dimensions) for values in lists))


@rule(Slice, of=Broadcast)
def slice_of_broadcast(root: Instruction, inner: Instruction[Broadcast]) -> Rewritten:
    """slice(broadcast(x)) => broadcast(slice(x))"""
    (x,), op = inner.operands, inner.op
    if any(shape_of(root).dims[d] != op.shape.dims[d] for d in op.dimensions):
        x = Slice(_at(ranges_of(root), op.dimensions))(x)
    return Broadcast(shape_of(root), op.dimensions)(x)


@rule(Slice, of=Concatenate, where=_has_elements)
def slice_of_concatenate(root: Instruction, inner: Instruction[Concatenate]) -> Rewritten:
    """slice(concatenate(x, y, ...)) => slice(concatenate(y)), of the operands that it takes elements from"""
    at, ranges = inner.op.dimension, ranges_of(root)
    start, limit = ranges.starts[at], ranges.limits[at]
    needed: list[Instruction] = []
    begin = before = 0
    for x in inner.operands:
        end = begin + shape_of(x).dims[at]
        if start < end and begin < limit:
            needed.append(x)
        elif not needed:
            before = end
        begin = end
    if len(needed) == len(inner.operands) or not all(same_type(x, root) for x in needed):
        return None
    if len(needed) > 1 and len(inner.users) != 1:
        return None
    starts = (*ranges.starts[:at], start - before, *ranges.starts[at + 1 :])
    limits = (*ranges.limits[:at], limit - before, *ranges.limits[at + 1 :])
    whole = inner.op(*needed) if len(needed) > 1 else needed[0]
    return Slice(SliceDims(starts, limits, ranges.strides))(whole)


def same_type(x: Instruction, root: Instruction) -> bool:
    """Whether the arrays `x` and `root` have the same element type."""
    return shape_of(x).dtype is shape_of(root).dtype


@rule(Slice, of=Pad, where=_has_elements)
def slice_of_pad(root: Instruction, inner: Instruction[Pad]) -> Rewritten:
    """slice(pad(x)) => slice(x), if it takes no element of the padding"""
    op, ranges, x = inner.op, ranges_of(root), inner.operands[0]
    if any(op.padding.interior):
        return None
    starts = tuple(s - low for s, low in zip(ranges.starts, op.padding.low, strict=True))
    limits = tuple(s - low for s, low in zip(ranges.limits, op.padding.low, strict=True))
    if min(starts) < 0 or any(n > size for n, size in zip(limits, shape_of(x).dims, strict=True)):
        return None
    return Slice(SliceDims(starts, limits, ranges.strides))(x) if same_type(x, root) else None


@rule(Pad)
def pad_nothing(root: Instruction[Pad], x: Instruction, _: Instruction) -> Rewritten:
    """pad(x) => x, if all padding is 0"""
    edges = root.op.padding
    return x if not any((*edges.low, *edges.high, *edges.interior)) and same_shape(x, root) else None


@rule(Pad)
def pad_negative(root: Instruction[Pad], x: Instruction, _: Instruction) -> Rewritten:
    """pad(x) => slice(x), if no padding is positive"""
    low, high = root.op.padding.low, root.op.padding.high
    if any(root.op.padding.interior) or max((*low, *high), default=1) > 0 or not any((*low, *high)):
        return None
    limits = tuple(n + edge for n, edge in zip(shape_of(x).dims, high, strict=True))
    if any(-edge > limit for edge, limit in zip(low, limits, strict=True)) or not same_type(x, root):
        return None
    return Slice(SliceDims(tuple(-edge for edge in low), limits))(x)


@rule(Pad)
def pad_of_nothing(root: Instruction, x: Instruction, value: Instruction) -> Rewritten:
    """pad(x, v) => broadcast(v), for x without elements"""
    return spread(root, value) if not shape_of(x).size and same_type(value, root) else None


@rule(Pad, of=Pad)
def pad_pad(root: Instruction[Pad], inner: Instruction[Pad], value: Instruction) -> Rewritten:
    """pad(pad(x, v), v) => pad(x, v), if no padding is negative and the outer one has no interior padding"""
    a, b = inner.op.padding, root.op.padding
    negative = min((*a.low, *a.high, *b.low, *b.high), default=0) < 0
    if inner.operands[1] is not value or any(b.interior) or negative:
        return None
    low = tuple(m + n for m, n in zip(a.low, b.low, strict=True))
    high = tuple(m + n for m, n in zip(a.high, b.high, strict=True))
    return Pad(PaddingConfig(low, high, a.interior))(inner.operands[0], value)


@rule(Concatenate)
def concatenate_one(root: Instruction, *operands: Instruction) -> Rewritten:
    """concatenate(x) => x"""
    return operands[0] if len(operands) == 1 else None


@rule(Concatenate)
def concatenate_empty(root: Instruction, *operands: Instruction) -> Rewritten:
    """concatenate(x, y) => concatenate(x), for y without elements"""
    filled = [x for x in operands if shape_of(x).size]
    if len(filled) == len(operands) or not filled or not any(same_type(x, root) for x in filled):
        return None
    return root.op(*filled)


@rule(Concatenate)
def concatenate_nested(root: Instruction, *operands: Instruction) -> Rewritten:
    """concatenate(concatenate(x, y), z) => concatenate(x, y, z), along the same dimension"""

    def opens(x: Instruction) -> bool:
        return x.op == root.op and len(x.users) == 1 and same_type(x, root)

    if not any(opens(x) for x in operands):
        return None
    whole: list[Instruction] = []
    for x in operands:
        whole.extend(x.operands if opens(x) else (x,))
    return root.op(*whole)


@rule(Concatenate)
def concatenate_adjacent_slices(
    root: Instruction[Concatenate], first: Instruction, *rest: Instruction
) -> Rewritten:
    """concatenate(x[a:b], x[b:c]) => x[a:c]"""
    at = root.op.dimension
    operands: list[Instruction] = [first]
    joined: dict[int, SliceDims] = {}  # index in operands -> the range to take instead
    for x in rest:
        last = operands[-1]
        before = joined.get(len(operands) - 1) or (ranges_of(last) if type(last.op) is Slice else None)
        if before is not None and type(x.op) is Slice and x.operands[0] is last.operands[0]:
            after = ranges_of(x)
            if adjacent(before, after, at):
                limits = (*before.limits[:at], after.limits[at], *before.limits[at + 1 :])
                joined[len(operands) - 1] = SliceDims(before.starts, limits, before.strides)
                continue
        operands.append(x)
    if not joined:
        return None
    for place, ranges in joined.items():
        operands[place] = Slice(ranges)(operands[place].operands[0])
    return operands[0] if len(operands) == 1 else root.op(*operands)


def adjacent(before: SliceDims, after: SliceDims, at: int) -> bool:
    """Whether the range `after` begins where `before` ends along dimension `at`, and both are equal along all
    other dimensions.
    """

    others = [d for d in range(before.rank) if d != at]
    touching = before.limits[at] == after.starts[at] and before.strides[at] == after.strides[at] == 1
    return touching and _at(before, others) == _at(after, others)


def constant_starts(indices: Sequence[Instruction]) -> list[int] | None:
    """The start indices if all are constants (scalars, or one vector); else None."""
    starts: list[int] = []
    for index in indices:
        values = values_of(index)
        if values is None:
            return None
        starts.extend(int(i) for i in values.reshape(-1))
    return starts


@rule(DynamicSlice)
def dynamic_slice_full(root: Instruction, x: Instruction, *_: Instruction) -> Rewritten:
    """dynamic-slice(x) => x, if it takes all of x, since its start is clamped to 0"""
    return x if same_shape(x, root) else None


@rule(DynamicSlice)
def dynamic_slice_constant(root: Instruction, x: Instruction, *indices: Instruction) -> Rewritten:
    """dynamic-slice(x, constants) => slice(x)"""
    starts = constant_starts(indices)
    if starts is None:
        return None
    sizes = shape_of(root).dims
    dims = zip(starts, shape_of(x).dims, sizes, strict=True)
    starts = [max(0, min(start, dim - size)) for start, dim, size in dims]
    limits = tuple(s + n for s, n in zip(starts, sizes, strict=True))
    return Slice(SliceDims(tuple(starts), limits))(x)


@rule(DynamicUpdateSlice)
def dynamic_update_slice_full(
    root: Instruction, x: Instruction, u: Instruction, *_: Instruction
) -> Rewritten:
    """dynamic-update-slice(x, u) => u, if u is as large as x"""
    return u if same_shape(u, root) else None


@rule(DynamicUpdateSlice)
def dynamic_update_slice_of_nothing(
    root: Instruction, x: Instruction, u: Instruction, *_: Instruction
) -> Rewritten:
    """dynamic-update-slice(x, u) => x, if u has no elements"""
    return x if not shape_of(u).size and same_shape(x, root) else None


@rule(Slice, of=Reshape, where=_has_elements)
def slice_of_unit_reshape(root: Instruction, inner: Instruction) -> Rewritten:
    """slice(reshape(x)) => reshape(slice(x)), if the reshape only adds dimensions of size 1"""
    (x,) = inner.operands
    kept = kept_dims(shape_of(x).dims, shape_of(inner).dims)
    return None if kept is None else reshaped(Slice(_at(ranges_of(root), kept))(x), shape_of(root).dims)


@rule(Slice, of=Pad, where=_has_elements)
def slice_of_padding(root: Instruction, inner: Instruction[Pad]) -> Rewritten:
    """slice(pad(x, v)) => broadcast(v), if it takes no element of x"""
    (x, value), ranges = inner.operands, ranges_of(root)
    low, interior = inner.op.padding.low, inner.op.padding.interior
    for d, n in enumerate(shape_of(x).dims):
        end = low[d] + n + max(0, n - 1) * interior[d]
        if ranges.limits[d] <= low[d] or ranges.starts[d] >= end:
            return spread(root, value) if same_type(value, root) else None
    return None


@rule(Slice, of=Reduce, where=_has_elements)
def slice_of_reduce(root: Instruction, inner: Instruction[Reduce]) -> Rewritten:
    """slice(reduce(x)) => reduce(slice(x)): fewer elements to combine"""
    if inner.shape.is_tuple or len(inner.users) != 1 or len(inner.operands) != 2:
        return None
    (x, start), ranges, op = inner.operands, ranges_of(root), inner.op
    dims = shape_of(x).dims
    kept = iter(range(shape_of(root).rank))
    places = [None if d in op.dimensions else next(kept) for d in range(len(dims))]
    part = SliceDims(
        tuple(0 if p is None else ranges.starts[p] for p in places),
        tuple(dims[d] if p is None else ranges.limits[p] for d, p in enumerate(places)),
        tuple(1 if p is None else ranges.strides[p] for p in places),
    )
    return op(Slice(part)(x), start)


@rule(Concatenate)
def concatenate_repeated(root: Instruction[Concatenate], x: Instruction, *rest: Instruction) -> Rewritten:
    """concatenate(x, x, ...) => reshape(broadcast(x))"""
    if not rest or any(other is not x for other in rest) or not shape_of(root).size:
        return None
    at, dims = root.op.dimension, shape_of(x).dims
    wide = shape_of(x).with_dims((*dims[:at], len(rest) + 1, *dims[at:])).logical
    places = (*range(at), *range(at + 1, len(dims) + 1))
    return Reshape(shape_of(root).logical)(Broadcast(wide, places)(x))
