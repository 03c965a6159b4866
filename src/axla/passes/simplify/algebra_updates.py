"""Rules of algsimp for arrays of which a part is written, and for parts whose places are known: updates that
are read, chosen or added to, gather and scatter at equal distances.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.core.dtypes import PRED, S64
from axla.core.literal import Literal
from axla.hlo import (
    Add,
    Broadcast,
    DynamicSlice,
    DynamicUpdateSlice,
    Gather,
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
from axla.passes.simplify.match import combiner, constant, dtype_of, is_all, same_shape
from axla.passes.simplify.ranges import adds_nothing, progression


def _is_update(inst: Instruction) -> bool:
    """Whether an instruction writes a part, and is read once."""
    return isinstance(inst.op, DynamicUpdateSlice) and len(inst.users) == 1


def _at(x: Instruction, update: Instruction) -> Instruction:
    """The part of `x` that lies where an update writes."""
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

    Of floats the 0 must be -0.0, or no element of x: -0.0 + 0.0 is 0.0.
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
    """dynamic-slice(dynamic-update-slice(x, u, i), i) => u, of the same size"""
    u = update.operands[1]
    return u if same_shape(u, root) and update.operands[2:] == indices else None


@rule(DynamicSlice, of=Broadcast)
def dynamic_slice_of_broadcast(
    root: Instruction, inner: Instruction[Broadcast], *indices: Instruction
) -> Rewritten:
    """dynamic-slice(broadcast(x), i) => broadcast(dynamic-slice(x, i))"""
    (x,), op, dims = inner.operands, inner.op, shape_of(root).dims
    if len(indices) != len(dims):
        return None  # one vector of indices
    if any(dims[d] != op.shape.dims[d] for d in op.dimensions):
        x = DynamicSlice(tuple(dims[d] for d in op.dimensions))(x, *[indices[d] for d in op.dimensions])
    return Broadcast(shape_of(root), op.dimensions)(x)


@rule(DynamicUpdateSlice, of=DynamicUpdateSlice)
def update_of_update(
    root: Instruction, inner: Instruction, u: Instruction, *indices: Instruction
) -> Rewritten:
    """dynamic-update-slice(dynamic-update-slice(x, v, i), u, i) => dynamic-update-slice(x, u, i)"""
    alike = same_shape(inner.operands[1], u) and inner.operands[2:] == indices
    return DynamicUpdateSlice()(inner.operands[0], u, *indices) if alike else None


@rule(DynamicUpdateSlice)
def update_with_own(root: Instruction, x: Instruction, u: Instruction, *indices: Instruction) -> Rewritten:
    """dynamic-update-slice(x, dynamic-slice(x, i), i) => x"""
    own = type(u.op) is DynamicSlice and u.operands[0] is x and u.operands[1:] == indices
    return x if own else None


@rule(Slice, of=DynamicUpdateSlice)
def slice_of_update(root: Instruction, update: Instruction, *_: Instruction) -> Rewritten:
    """slice(dynamic-update-slice(x, u, constants)) => slice(u) or slice(x), when it lies in one of them"""
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


# Gather and scatter at equal distances


def _batch_place(numbers: Sequence[int], dims: Sequence[int], count: int) -> int:
    """The dimension of index vectors, those of windows being `numbers`, that has all `count` of them."""
    outer = [d for d in range(len(dims)) if d not in numbers]
    return next((d for d in outer if dims[d] == count), outer[0] if outer else 0)


def _is_line(places: tuple[tuple[int, ...], ...], indices: Instruction, vector_dim: int) -> bool:
    """Whether indices are numbers of one dimension, and run along one dimension."""
    dims = shape_of(indices).dims
    long = [d for d, n in enumerate(dims) if n != 1 and d != vector_dim]
    return len(places[0]) == 1 and not places[1] and len(long) == 1


@rule(Gather)
def gather_progression(root: Instruction[Gather], x: Instruction, indices: Instruction) -> Rewritten:
    """gather(x, iota) => slice(x), for all indices at equal distance, and inside"""
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
    # The window's dimensions that stand before those of the index vectors.
    place = _batch_place(op.offset_dims, shape_of(root).dims, count)
    window = [d for d in range(len(dims)) if d not in op.collapsed_slice_dims]
    before = sum(number < place and d != at for number, d in zip(op.offset_dims, window, strict=True))
    order = (*others[:before], at, *others[before:])
    if order != tuple(range(len(dims))):
        part = Transpose(order)(part)
    return reshaped(part, shape_of(root).dims)


@rule(Scatter, where=lambda root: len(root.operands) == 3)
def scatter_progression(
    root: Instruction[Scatter], x: Instruction, indices: Instruction, u: Instruction
) -> Rewritten:
    """scatter(x, iota, u) => dynamic-update-slice(x, u), for indices at equal distance, and inside

    At a distance above 1 it is select(mask, pad(u), x).
    """
    op, dims = root.op, shape_of(x).dims
    body = op.to_apply
    overwrites = isinstance(body.root.op, Parameter) and body.root.op.parameter_number == 1
    known = overwrites or combiner(body) is not None
    found = progression(indices) if known and _is_line(op.places, indices, op.index_vector_dim) else None
    if found is None or dtype_of(x) is not dtype_of(u):
        return None
    start, step, count = found
    (at,) = op.scatter_dims_to_operand_dims
    others = [d for d in range(len(dims)) if d != at]
    sizes = op.window_sizes(len(dims), shape_of(u).dims)
    last = start + step * (count - 1)
    if (
        step < 1
        or start < 0
        or last >= dims[at]
        or sizes != tuple(1 if d == at else dims[d] for d in range(len(dims)))
    ):
        return None
    place = _batch_place(op.update_window_dims, shape_of(u).dims, count)
    window = [d for d in range(len(dims)) if d not in op.inserted_window_dims]
    before = sum(number < place and d != at for number, d in zip(op.update_window_dims, window, strict=True))
    order = (*others[:before], at, *others[before:])
    part = reshaped(u, [count if d == at else dims[d] for d in order])
    if order != tuple(range(len(dims))):
        part = Transpose(tuple(order.index(d) for d in range(len(dims))))(part)
    return _written(x, part, at, (start, step, last + 1), None if overwrites else body.root)


def _written(
    x: Instruction, part: Instruction, at: int, places: tuple[int, int, int], combine: Instruction | None
) -> Instruction:
    """`x` with `part` at start:limit:step of dimension `at`, combined with what is there."""
    start, step, limit = places
    computation, dims = x.computation, shape_of(x).dims
    starts, limits, strides = [0] * len(dims), list(dims), [1] * len(dims)
    starts[at], limits[at], strides[at] = start, limit, step
    if combine is not None:
        part = combine.op(Slice(SliceDims(tuple(starts), tuple(limits), tuple(strides)))(x), part)
    if step == 1:
        numbers = [constant(computation, Literal.scalar(S64, n)) for n in starts]
        return DynamicUpdateSlice()(x, part, *numbers)
    high = [0] * len(dims)
    high[at] = dims[at] - limit
    config = PaddingConfig(tuple(starts), tuple(high), tuple(n - 1 for n in strides))
    yes, no = (constant(computation, Literal.scalar(PRED, value)) for value in (True, False))
    mask = Pad(config)(Broadcast(shape_of(part).with_dtype(PRED).logical, ())(yes), no)
    zero = constant(computation, Literal.scalar(dtype_of(x), 0))
    return Select()(mask, Pad(config)(part, zero), x)
