"""Rules of algsimp for dynamic-update-slice (updates that are read, selected or added to), and for gather and
scatter with indices at equal distances.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.core.dtypes import S64
from axla.core.literal import Literal
from axla.core.shape import Shape
from axla.hlo import (
    Add,
    Broadcast,
    Clamp,
    Convert,
    DynamicSlice,
    DynamicUpdateSlice,
    Gather,
    Iota,
    Pad,
    Reverse,
    Scatter,
    Select,
    Slice,
    Transpose,
)
from axla.ir.attributes import PaddingConfig, SliceDims
from axla.ir.graph import Instruction
from axla.ir.structure import Parameter
from axla.ir.typed import shape_of
from axla.passes.rewrite import Rewritten, fast_math, rule
from axla.passes.simplify.algebra_movement import reshaped
from axla.passes.simplify.algebra_slices import constant_starts, ranges_of
from axla.passes.simplify.match import combiner, constant, dtype_of, full, is_all, limits, same_shape, spread
from axla.passes.simplify.ranges import adds_nothing, progression


def _is_update(inst: Instruction) -> bool:
    """Whether an instruction is a dynamic-update-slice with one user."""
    return isinstance(inst.op, DynamicUpdateSlice) and len(inst.users) == 1


def _at(x: Instruction, update: Instruction) -> Instruction:
    """The part of `x` at the position where an update writes."""
    return DynamicSlice(shape_of(update.operands[1]).dims)(x, *update.operands[2:])


@rule(Select)
def select_update(root: Instruction, p: Instruction, a: Instruction, b: Instruction) -> Rewritten:
    """select(p, dynamic-update-slice(x, u, i), x) => dynamic-update-slice(x, select(p[i], u, x[i]), i)"""
    for update, x in ((a, b), (b, a)):
        if not _is_update(update) or update.operands[0] is not x:
            continue
        chooser = _at(p, update) if shape_of(p).rank else p
        old, new = _at(x, update), update.operands[1]
        chosen = Select()(chooser, new, old) if update is a else Select()(chooser, old, new)
        return DynamicUpdateSlice()(x, chosen, *update.operands[2:])
    return None


@rule(Add)
def add_update(root: Instruction, a: Instruction, b: Instruction) -> Rewritten:
    """x + dynamic-update-slice(0, u, i) => dynamic-update-slice(x, x[i] + u, i)

    For floats the 0 must be -0.0, or no element of x may be -0.0, since -0.0 + 0.0 is 0.0.
    """
    for update, x in ((a, b), (b, a)):
        if not _is_update(update) or not same_shape(x, root) or not same_shape(update, root):
            continue
        zero = update.operands[0]
        if adds_nothing(zero, x) or fast_math() and is_all(zero, 0):
            both = Add()(_at(x, update), update.operands[1])
            return DynamicUpdateSlice()(x, both, *update.operands[2:])
    return None


@rule(DynamicSlice, of=DynamicUpdateSlice)
def dynamic_slice_of_update(root: Instruction, update: Instruction, *indices: Instruction) -> Rewritten:
    """dynamic-slice(dynamic-update-slice(x, u, i), i) => u, if the sizes are equal"""
    u = update.operands[1]
    return u if same_shape(u, root) and update.operands[2:] == indices else None


@rule(DynamicSlice, of=Broadcast)
def dynamic_slice_of_broadcast(
    root: Instruction, inner: Instruction[Broadcast], *indices: Instruction
) -> Rewritten:
    """dynamic-slice(broadcast(x), i) => broadcast(dynamic-slice(x, i))"""
    (x,), op, dims = inner.operands, inner.op, shape_of(root).dims
    if len(indices) != len(dims):
        return None  # indices given as one vector
    if any(dims[d] != op.shape.dims[d] for d in op.dimensions):
        x = DynamicSlice(tuple(dims[d] for d in op.dimensions))(x, *[indices[d] for d in op.dimensions])
    return Broadcast(shape_of(root), op.dimensions)(x)


@rule(DynamicSlice, of=Iota)
def dynamic_slice_of_iota(root: Instruction, inner: Instruction[Iota], *indices: Instruction) -> Rewritten:
    """dynamic-slice(iota(), i) => clamp(0, i, n - 1), for a slice of one element"""
    at, dims = inner.op.iota_dimension, shape_of(inner).dims
    if len(indices) != len(dims):
        return None  # indices given as one vector
    index, dtype = indices[at], dtype_of(root)
    last = dims[at] - 1
    if shape_of(root).dims[at] != 1 or last > limits(dtype_of(index))[1]:
        return None
    if not dtype.is_integer or last > limits(dtype)[1]:
        return None
    inside = Clamp()(full(index, 0), index, full(index, last))
    return spread(root, Convert(Shape(dtype))(inside))


@rule(DynamicUpdateSlice, of=DynamicUpdateSlice)
def update_of_update(
    root: Instruction, inner: Instruction, u: Instruction, *indices: Instruction
) -> Rewritten:
    """dynamic-update-slice(dynamic-update-slice(x, v, i), u, i) => dynamic-update-slice(x, u, i)"""
    alike = same_shape(inner.operands[1], u) and inner.operands[2:] == indices
    return DynamicUpdateSlice()(inner.operands[0], u, *indices) if alike else None


@rule(DynamicUpdateSlice, of=Broadcast)
def update_of_broadcast(
    root: Instruction, x: Instruction, u: Instruction, *indices: Instruction
) -> Rewritten:
    """dynamic-update-slice(broadcast(s), u, constants) => pad(u, s), for scalar s

    Only if u is at least half of the result, and has at most two dimensions: other pads take longer than
    writing twice.
    """
    (s,), starts = x.operands, constant_starts(indices)
    if starts is None or shape_of(s).rank or dtype_of(u) is not dtype_of(x):
        return None
    if shape_of(x).rank > 2 or 2 * shape_of(u).size < shape_of(x).size:
        return None
    places = zip(starts, shape_of(x).dims, shape_of(u).dims, strict=True)
    low = tuple(max(0, min(start, dim - n)) for start, dim, n in places)
    high = tuple(dim - n - k for dim, n, k in zip(shape_of(x).dims, shape_of(u).dims, low, strict=True))
    return Pad(PaddingConfig(low, high))(u, s)


@rule(DynamicUpdateSlice)
def update_with_own(root: Instruction, x: Instruction, u: Instruction, *indices: Instruction) -> Rewritten:
    """dynamic-update-slice(x, dynamic-slice(x, i), i) => x"""
    own = type(u.op) is DynamicSlice and u.operands[0] is x and u.operands[1:] == indices
    return x if own else None


@rule(Slice, of=DynamicUpdateSlice)
def slice_of_update(root: Instruction, update: Instruction, *_: Instruction) -> Rewritten:
    """slice(dynamic-update-slice(x, u, constants)) => slice(u) or slice(x), if it needs only one of them"""
    x, u, *indices = update.operands
    starts = constant_starts(indices)
    if starts is None or not shape_of(root).size:
        return None
    sizes, dims, ranges = shape_of(u).dims, shape_of(x).dims, ranges_of(root)
    starts = [max(0, min(s, dim - n)) for s, dim, n in zip(starts, dims, sizes, strict=True)]
    ends = [s + n for s, n in zip(starts, sizes, strict=True)]
    taken = list(zip(ranges.starts, ranges.limits, starts, ends, strict=True))
    if all(start <= first and last <= end for first, last, start, end in taken):
        inner = SliceDims(
            tuple(n - s for n, s in zip(ranges.starts, starts, strict=True)),
            tuple(n - s for n, s in zip(ranges.limits, starts, strict=True)),
            ranges.strides,
        )
        return Slice(inner)(u)
    if any(last <= start or end <= first for first, last, start, end in taken):
        return Slice(ranges)(x)
    return None


# Gather and scatter with indices at equal distances


def _order(
    numbers: Sequence[int], dropped: Sequence[int], dims: Sequence[int], rank: int, line: tuple[int, int]
) -> tuple[int, ...]:
    """The dimensions of an operand of rank `rank`, in the order in which they occur in an array: the result
    of a gather, or the updates of a scatter.

    `dims` are the sizes of the array, `numbers` its window dimensions. `dropped` are the operand dimensions
    without a window dimension. `line` is (operand dimension along which the index vectors select, number of
    index vectors).
    """
    at, count = line
    place = next(d for d, n in enumerate(dims) if d not in numbers and (n == count or count == 1))
    window = [d for d in range(rank) if d not in dropped]
    before = sum(number < place and d != at for number, d in zip(numbers, window, strict=True))
    others = [d for d in range(rank) if d != at]
    return (*others[:before], at, *others[before:])


def _is_line(places: tuple[tuple[int, ...], ...], indices: Instruction, vector_dim: int) -> bool:
    """Whether index vectors select along a single dimension of the operand, without batching dimensions, and
    lie along a single dimension of `indices`: all its other dimensions but `vector_dim` have size 1.
    `places`: see `hlo.indexing.Places`.
    """
    dims = shape_of(indices).dims
    long = [d for d, n in enumerate(dims) if n != 1 and d != vector_dim]
    return len(places[0]) == 1 and not places[1] and len(long) == 1


@rule(Gather)
def gather_progression(root: Instruction[Gather], x: Instruction, indices: Instruction) -> Rewritten:
    """gather(x, iota) => slice(x), if the indices have a constant distance and are in bounds"""
    op, dims = root.op, shape_of(x).dims
    found = progression(indices) if _is_line(op.places, indices, op.index_vector_dim) else None
    if found is None:
        return None
    start, step, count = found
    (at,) = op.start_index_map
    others = [d for d in range(len(dims)) if d != at]
    whole = op.slice_sizes[at] == 1 and all(op.slice_sizes[d] == dims[d] for d in others)
    first, last = sorted((start, start + step * (count - 1)))
    if not step or not whole or first < 0 or last >= dims[at] or not shape_of(root).size:
        return None
    starts, limits, strides = [0] * len(dims), list(dims), [1] * len(dims)
    starts[at], limits[at], strides[at] = first, last + 1, abs(step)
    part = Slice(SliceDims(tuple(starts), tuple(limits), tuple(strides)))(x)
    if step < 0:
        part = Reverse((at,))(part)
    order = _order(op.offset_dims, op.collapsed_slice_dims, shape_of(root).dims, len(dims), (at, count))
    if order != tuple(range(len(dims))):
        part = Transpose(order)(part)
    return reshaped(part, shape_of(root).dims)


@rule(Scatter, where=lambda root: len(root.operands) == 3)
def scatter_progression(
    root: Instruction[Scatter], x: Instruction, indices: Instruction, u: Instruction
) -> Rewritten:
    """scatter(x, iota, u) => dynamic-update-slice(x, u), if the indices increase by 1 and are in bounds"""
    op, dims = root.op, shape_of(x).dims
    body = op.to_apply
    overwrites = isinstance(body.root.op, Parameter) and body.root.op.parameter_number == 1
    known = overwrites or combiner(body) is not None
    found = progression(indices) if known and _is_line(op.places, indices, op.index_vector_dim) else None
    if found is None or any(dtype_of(i) is not dtype_of(x) for i in (u, *body.parameters)):
        return None  # combining in another type would round differently
    start, step, count = found
    (at,) = op.scatter_dims_to_operand_dims
    sizes = op.window_sizes(len(dims), shape_of(u).dims)
    whole = sizes == tuple(1 if d == at else n for d, n in enumerate(dims))
    if step != 1 or start < 0 or start + count > dims[at] or not whole:
        return None
    order = _order(op.update_window_dims, op.inserted_window_dims, shape_of(u).dims, len(dims), (at, count))
    part = reshaped(u, [count if d == at else dims[d] for d in order])
    if order != tuple(range(len(dims))):
        part = Transpose(tuple(order.index(d) for d in range(len(dims))))(part)
    starts = [start if d == at else 0 for d in range(len(dims))]
    if not overwrites:
        limits = tuple(s + n for s, n in zip(starts, shape_of(part).dims, strict=True))
        part = body.root.op(Slice(SliceDims(tuple(starts), limits))(x), part)
    numbers = [constant(root.computation, Literal.scalar(S64, n)) for n in starts]
    return DynamicUpdateSlice()(x, part, *numbers)
