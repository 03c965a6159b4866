"""Slices with strides, their gradients, and assignments to slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.core.dataclass import dataclass
from axla.core.errors import UnsupportedError
from axla.tensorflow.ops.arrays import broadcast_to, full, shape_operand, sizes
from axla.tensorflow.ops.common import of_dims, of_rank
from axla.tensorflow.ops.indexing import take
from axla.tensorflow.ops.variables import assign, read
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall
from axla.tensorflow.values import Variable

_MASKS = "begin_mask=int?0 end_mask=int?0 ellipsis_mask=int?0 new_axis_mask=int?0 shrink_axis_mask=int?0"
RECORDS = f"""
Slice: input:T begin:Index size:Index -> output:T
StridedSlice: input:T begin:Index end:Index strides:Index {_MASKS} -> output:T
StridedSliceGrad: shape:Index begin:Index end:Index strides:Index dy:T {_MASKS} -> output:T
TensorStridedSliceUpdate: input:T begin:Index end:Index strides:Index value:T {_MASKS} -> output:T
ResourceStridedSliceAssign: ref:resource begin:Index end:Index strides:Index value:T {_MASKS} ->
"""

Number = Any
"""A number: an int, or an s64 scalar of the program."""


@dataclass(slots=True)
class DimensionSlice:
    """A slice of a dimension: `count` elements from `start` on, at the distance `stride`; `bound` is an upper
    limit of the count.
    """

    start: Number
    count: Number
    bound: int
    stride: int = 1


def numbers(call: OpCall, value: XlaOp, what: str) -> list[Number]:
    """The elements of a vector, which messages name `what`, as ints if they are constant, else as s64
    scalars.
    """
    of_rank(call, value, 1, what)
    known = call.scope.known(value)
    if known is not None:
        return [int(number) for number in known]
    inst = value.instruction
    if inst.opcode == "concatenate":
        pieces = [XlaOp(call.builder, operand) for operand in inst.operands]
        return [number for piece in pieces for number in numbers(call, piece, what)]
    return [ops.ConvertElementType(value[at], np.int64) for at in range(value.dims[0])]


def wide_sizes(value: XlaOp) -> list[Number]:
    """The sizes of an array, with dynamic sizes as s64 scalars."""
    return [n if isinstance(n, int) else ops.ConvertElementType(n, np.int64) for n in sizes(value)]


def _clamped(number: Number, low: Number, high: Number) -> Number:
    """The number clamped to a range."""
    if all(isinstance(each, int) for each in (number, low, high)):
        return max(min(number, high), low)
    return ops.Max(ops.Min(number, high), low)


def _from_end(number: Number, size: Number) -> Number:
    """Converts an index to one that counts from the beginning; a negative one counts from the end."""
    if isinstance(number, int):
        return number + size if number < 0 else number
    return ops.Select(number < 0, number + size, number)


# The selected elements.


def _mask(call: OpCall, name: str, at: int) -> bool:
    return bool(call[name] >> at & 1)


def _entries(call: OpCall, count: int, rank: int) -> list[tuple[int | None, bool]]:
    """For each dimension of the operand, and each new dimension: the index of its element in begin, end and
    strides (None if an ellipsis covers the dimension), and whether it is new.
    """
    marks = [at for at in range(count) if _mask(call, "ellipsis_mask", at)]
    if len(marks) > 1:
        call.fail("ellipsis_mask has more than one bit")
    added = [at for at in range(count) if _mask(call, "new_axis_mask", at) and at not in marks]
    covered = rank - (count - len(added) - len(marks))
    if covered < 0:
        call.fail(f"it has {count - len(added) - len(marks)} indices for {rank} dimensions")
    found: list[tuple[int | None, bool]] = []
    for at in range(count):
        found += [(None, False)] * covered if at in marks else [(at, at in added)]
    return found if marks else found + [(None, False)] * covered


def parts(
    call: OpCall, dims: Sequence[Number], bounds: Sequence[int], begin: XlaOp, end: XlaOp, strides: XlaOp
) -> tuple[list[DimensionSlice], list[int | None]]:
    """The slice of each dimension of an array, and for each dimension of the result the number of the array's
    dimension, None for a new one. `dims` are the array's sizes, `bounds` their upper limits.
    """
    steps = call.integers(strides, "strides")
    if not begin.dims == end.dims == strides.dims:
        call.fail(f"begin, end, strides have different sizes {begin.dims}, {end.dims}, {strides.dims}")
    entries = _entries(call, len(steps), len(dims))
    ranges = list(zip(numbers(call, begin, "begin"), numbers(call, end, "end"), steps, strict=True))
    found: list[DimensionSlice] = []
    kept: list[int | None] = []
    for at, is_new in entries:
        d = len(found)
        if is_new:
            kept.append(None)
            continue
        if at is not None and _mask(call, "shrink_axis_mask", at):
            found.append(_one(call, ranges[at], dims[d], d))
            continue
        kept.append(d)
        whole = DimensionSlice(0, dims[d], bounds[d])
        found.append(whole if at is None else _range(call, at, ranges[at], whole))
    return found, kept


def _one(call: OpCall, given: tuple[Number, Number, int], size: Number, d: int) -> DimensionSlice:
    start, _, stride = given
    place = _from_end(start, size)
    if stride <= 0:
        call.fail(f"dimension {d} is removed, its stride is {stride}, wanted a positive one")
    if isinstance(place, int) and isinstance(size, int) and not 0 <= place < size:
        call.fail(f"index {start} is outside of dimension {d}, which has {size} elements")
    return DimensionSlice(place, 1, 1)


def _range(call: OpCall, at: int, given: tuple[Number, Number, int], whole: DimensionSlice) -> DimensionSlice:
    (start, stop, stride), size = given, whole.count
    if not stride:
        call.fail("strides has an element that is 0")
    low, high = (0, size) if stride > 0 else (-1, size - 1)
    first, last = (low, high) if stride > 0 else (high, low)
    no_start, no_stop = _mask(call, "begin_mask", at), _mask(call, "end_mask", at)
    begin = first if no_start else _clamped(_from_end(start, size), low, high)
    end = last if no_stop else _clamped(_from_end(stop, size), low, high)
    span = end - begin + stride - (1 if stride > 0 else -1)
    if isinstance(span, int):
        count = max(span // stride, 0)
        return DimensionSlice(begin, count, count, stride)
    most = whole.bound - begin if stride > 0 and isinstance(begin, int) else whole.bound
    return DimensionSlice(begin, ops.Max(span / stride, 0), max(-(-most // abs(stride)), 0), stride)


# Slices.


def sliced(call: OpCall, value: XlaOp, found: Sequence[DimensionSlice]) -> XlaOp:
    """The elements of an array in a slice of each dimension."""
    low, high, steps, reversed_ = [], [], [], []
    for d, part in enumerate(found):
        if not (isinstance(part.start, int) and isinstance(part.count, int)):
            low, high, steps = [*low, 0], [*high, value.dims[d]], [*steps, 1]
            continue
        first, step = _low(part), abs(part.stride)
        low.append(first)
        high.append(first + (part.count - 1) * step + 1 if part.count else first)
        steps.append(step)
        if part.stride < 0:
            reversed_.append(d)
    value = ops.Slice(value, low, high, steps)
    value = ops.Rev(value, reversed_) if reversed_ else value
    for d, part in enumerate(found):
        if not (isinstance(part.start, int) and isinstance(part.count, int)):
            value = _dynamic(call, value, d, part)
    return value


def _dynamic(call: OpCall, value: XlaOp, d: int, part: DimensionSlice) -> XlaOp:
    """A slice along a dimension with a start or size computed at run time."""
    if isinstance(part.start, int) and part.start == 0 and part.bound == value.dims[d] and part.stride == 1:
        if value.shape.dynamic[d]:
            return value
    elif isinstance(part.count, int) and part.stride == 1:
        return ops.DynamicSliceInDim(value, part.start, part.count, d)
    else:
        places = ops.Iota(call.builder, np.int64, part.bound) * part.stride + part.start
        value = take(value, places, d)
    return ops.SetDimensionSize(value, ops.ConvertElementType(part.count, np.int32), d)


@lowering("StridedSlice")
def _strided_slice(call: OpCall, value: XlaOp, begin: XlaOp, end: XlaOp, strides: XlaOp) -> XlaOp:
    found, kept = parts(call, wide_sizes(value), value.dims, begin, end, strides)
    whole = sliced(call, value, found)
    return whole if kept == list(range(len(value.dims))) else ops.Reshape(whole, _shown(whole.dims, kept))


@lowering("Slice")
def _slice(call: OpCall, value: XlaOp, begin: XlaOp, size: XlaOp) -> XlaOp:
    rank, whole = len(value.dims), wide_sizes(value)
    of_dims(call, begin, [rank], "begin")
    of_dims(call, size, [rank], "size")
    pairs = zip(numbers(call, begin, "begin"), numbers(call, size, "size"), strict=True)
    found = [_from(call, *pair, whole[d], value.dims[d]) for d, pair in enumerate(pairs)]
    return sliced(call, value, found)


def _from(call: OpCall, start: Number, count: Number, size: Number, bound: int) -> DimensionSlice:
    """A slice of `count` elements from `start` on, -1 for all remaining ones. The dimension has `size`
    elements, at most `bound`.
    """
    rest = size - start
    if isinstance(count, int):
        number = rest if count == -1 else count
    else:
        number = ops.Select(count < 0, count * 0 + rest, count)
    if isinstance(start, int) and not 0 <= start <= bound:
        call.fail(f"begin is {start}, outside of a dimension of {bound} elements")
    if isinstance(number, int) and (number < 0 or isinstance(rest, int) and number > rest):
        call.fail(f"{number} elements from {start} on do not fit a dimension of {bound}")
    most = bound - start if isinstance(start, int) else bound
    return DimensionSlice(start, number, number if isinstance(number, int) else most)


# Gradients and changes.


def _placed(call: OpCall, dims: Sequence[int], found: Sequence[DimensionSlice], value: XlaOp) -> XlaOp:
    """Zeros of the sizes `dims`, with the elements of an array in the given slices."""
    value = ops.Rev(value, [d for d, part in enumerate(found) if part.stride < 0])
    edges = []
    for part, size in zip(found, dims, strict=True):
        step, first = abs(part.stride), _low(part)
        if not isinstance(first, int):
            edges.append((0, 0, 0))
            continue
        last = first + (part.count - 1) * step
        edges.append((first, size - 1 - last, step - 1) if part.count else (0, size, 0))
    wide = ops.Pad(value, ops.Zero(call.builder, value.dtype), edges)
    if wide.dims == tuple(dims):
        return wide
    return ops.DynamicUpdateSlice(full(call, dims, value.dtype), wide, _starts(call, found, True))


def _low(part: DimensionSlice) -> Number:
    """The lowest index of a dimension's slice."""
    if not isinstance(part.count, int):
        raise UnsupportedError("the size of the slice depends on arguments of the program")
    if part.stride > 0 or not part.count:
        return part.start if part.count else 0
    return part.start + (part.count - 1) * part.stride


def _starts(call: OpCall, found: Sequence[DimensionSlice], is_placed: bool = False) -> list[XlaOp]:
    """The lowest index of each slice. With `is_placed`, constant indices become 0: `_placed` has padded their
    dimensions.
    """
    lows = [_low(part) for part in found]
    lows = [0 if is_placed and isinstance(low, int) else low for low in lows]
    return [call.scope.constant(np.array(low)) if isinstance(low, int) else low for low in lows]


@lowering("StridedSliceGrad")
def _gradient(call: OpCall, shape: XlaOp, begin: XlaOp, end: XlaOp, strides: XlaOp, dy: XlaOp) -> XlaOp:
    dims = shape_operand(call, shape)
    found, kept = parts(call, dims, dims, begin, end, strides)
    counts = _counts(found)
    of_dims(call, dy, _shown(counts, kept), "dy")
    return _placed(call, dims, found, ops.Reshape(dy, counts))


def _counts(found: Sequence[DimensionSlice]) -> list[int]:
    for part in found:
        _low(part)
    return [part.count for part in found]


def _shown(counts: Sequence[int], kept: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(1 if d is None else counts[d] for d in kept)


@lowering("TensorStridedSliceUpdate")
def _update(call: OpCall, target: XlaOp, begin: XlaOp, end: XlaOp, strides: XlaOp, value: XlaOp) -> XlaOp:
    found, kept = parts(call, target.dims, target.dims, begin, end, strides)
    counts = _counts(found)
    if 0 in counts:
        return target
    whole = ops.Reshape(broadcast_to(call, value, _shown(counts, kept)), counts)
    if all(abs(part.stride) == 1 for part in found):
        reversed_ = ops.Rev(whole, [d for d, part in enumerate(found) if part.stride < 0])
        return ops.DynamicUpdateSlice(target, reversed_, _starts(call, found)) if counts else whole
    changed = _placed(call, target.dims, found, full(call, counts, ops.Eq(whole, whole).dtype, 1))
    return ops.Select(changed, _placed(call, target.dims, found, whole), target)


@lowering("ResourceStridedSliceAssign")
def _assign_slice(
    call: OpCall, variable: Variable, begin: XlaOp, end: XlaOp, strides: XlaOp, value: XlaOp
) -> None:
    assign(call, variable, _update(call, read(call, variable), begin, end, strides, value))
