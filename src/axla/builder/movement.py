"""Builder functions that move, select and create elements without arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

import axla.hlo as hlo
from axla.builder.broadcasting import broadcast_to, check_places
from axla.builder.coerce import array, builder_in, number, operands, several
from axla.builder.records import padding_config
from axla.builder.values import booleans, dimension, element_type, integer, integers, items
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dtypes import S32, DType
from axla.core.errors import InvalidArgument
from axla.core.shape import AnyShape, Shape
from axla.hlo.family import show
from axla.ir.attributes import SliceDims
from axla.ir.op import reject


def Parameter(
    builder: XlaBuilder, parameter_number: int, shape: AnyShape, name: str = "",
    replicated_at_leaf_buffers: Sequence[bool] = (),
) -> XlaOp:  # fmt: skip
    """Parameter number `parameter_number` of the computation that is built."""
    booleans(replicated_at_leaf_buffers, "Parameter: replicated_at_leaf_buffers")
    return builder_in("Parameter", builder).parameter(parameter_number, shape, name)


def Constant(builder: XlaBuilder, literal: object) -> XlaOp:
    """Makes a constant of a literal, or of any value that NumPy converts to an array."""
    return builder_in("Constant", builder).constant(literal)


ConstantLiteral = Constant


def Broadcast(operand: object, sizes: Sequence[int]) -> XlaOp:
    """Adds dimensions of the given sizes in front, and repeats the operand along them."""
    value, shape = array("Broadcast", operand)
    new = integers(sizes, "Broadcast: sizes")
    result = Shape(shape.dtype, (*new, *shape.dims), (*(False,) * len(new), *shape.dynamic))
    return value.builder.add(hlo.Broadcast(result, tuple(range(len(new), result.rank))), (value,))


def BroadcastInDim(operand: object, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> XlaOp:
    """Broadcasts the operand to the sizes `shape`: its dimension k becomes dimension
    `broadcast_dimensions[k]` of the result, and dimensions of size 1 are repeated.
    """
    value, source = array("BroadcastInDim", operand)
    dims = integers(shape, "BroadcastInDim: shape")
    places = integers(broadcast_dimensions, "BroadcastInDim: broadcast_dimensions")
    with value.builder.checking("broadcast-in-dim", (value,)):
        _check_in_dim(source, dims, places)
    dynamic = [False] * len(dims)
    for k, place in enumerate(places):
        dynamic[place] = source.dynamic[k]
    if source.dims == dims and places == tuple(range(len(dims))):
        return value.builder.add(hlo.Broadcast(Shape(source.dtype, dims, dynamic), places), (value,))
    return broadcast_to(value, tuple(zip(dims, dynamic, strict=True)), places)


def _check_in_dim(source: Shape, dims: tuple[int, ...], places: tuple[int, ...]) -> None:
    check_places("broadcast_in_dim", places, source, str(list(dims)), len(dims))
    for k, place in enumerate(places):
        if source.dims[k] not in (1, dims[place]):
            other = f"dimension {place} of {list(dims)} has {dims[place]}"
            sizes = f"dimension {k} has size {source.dims[k]}, {other}"
            reject("broadcast_in_dim_size", f"{sizes}: wanted the same size, or 1")


def Reshape(
    operand: object, dimensions: Sequence[int] | None = None, new_sizes: Sequence[int] | None = None
) -> XlaOp:
    """Gives an array other sizes; the elements stay in row-major order. Called as Reshape(operand,
    new_sizes), or as Reshape(operand, dimensions, new_sizes), which first transposes the operand to the order
    `dimensions`.
    """
    value, shape = array("Reshape", operand)
    if dimensions is not None and new_sizes is not None:
        value, shape = array("Reshape", Transpose(value, dimensions))
    dims = integers(dimensions if new_sizes is None else new_sizes, "Reshape: new_sizes")
    return value.builder.add(hlo.Reshape(Shape(shape.dtype, dims, _kept_dynamic(shape, dims))), (value,))


def _kept_dynamic(shape: Shape, dims: tuple[int, ...]) -> tuple[bool, ...]:
    """For each dimension of a reshape's result, whether it is dynamic. A dynamic dimension of `shape` must
    appear unchanged in `dims`; ShapeError if not.
    """
    if not shape.is_dynamic:
        return ()
    marks = [False] * len(dims)
    for d, dynamic in enumerate(shape.dynamic):
        before = prod(shape.dims[:d])
        found = [e for e in range(len(dims)) if dims[e] == shape.dims[d] and prod(dims[:e]) == before]
        if dynamic and not found:
            message = f"reshape: dynamic dimension {d} of {shape} may not be split or merged in {list(dims)}"
            reject("reshape_dynamic", message)
        if dynamic:
            marks[found[-1]] = True
    return tuple(marks)


def Collapse(operand: object, dimensions: Sequence[int]) -> XlaOp:
    """Merges the dimensions `dimensions`, which must be consecutive, into one."""
    value, shape = array("Collapse", operand)
    merged = integers(dimensions, "Collapse: dimensions")
    if any(q != p + 1 for p, q in zip(merged, merged[1:], strict=False)) or any(
        not 0 <= d < shape.rank for d in merged
    ):
        value.builder.fail(
            "collapse", (value,),
            f"collapse: dimensions={list(merged)} are not consecutive dimensions of "
            f"{show(shape)}  [collapse_c1]",
        )  # fmt: skip
    if len(merged) <= 1:
        return value
    size = prod(shape.dims[merged[0] : merged[-1] + 1])
    return Reshape(value, (*shape.dims[: merged[0]], size, *shape.dims[merged[-1] + 1 :]))


def Transpose(operand: object, permutation: Sequence[int]) -> XlaOp:
    """Permutes the dimensions: dimension k of the result is dimension `permutation[k]` of the operand."""
    value, _ = array("Transpose", operand)
    return value.builder.add(hlo.Transpose(integers(permutation, "Transpose: permutation")), (value,))


def Rev(operand: object, dimensions: Sequence[int]) -> XlaOp:
    """Reverses the order of elements along `dimensions`."""
    value, _ = array("Rev", operand)
    return value.builder.add(hlo.Reverse(integers(dimensions, "Rev: dimensions")), (value,))


def Slice(
    operand: object,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> XlaOp:
    """In each dimension, takes the elements from the start index up to, but not including, the limit index,
    with a stride.
    """
    value, _ = array("Slice", operand)
    starts = integers(start_indices, "Slice: start_indices")
    limits = integers(limit_indices, "Slice: limit_indices")
    steps = (1,) * len(starts) if strides is None else integers(strides, "Slice: strides")
    return value.builder.add(hlo.Slice(SliceDims(starts, limits, steps)), (value,))


def SliceInDim(operand: object, start_index: int, limit_index: int, stride: int, dimno: int) -> XlaOp:
    """The elements from `start_index` up to, but not including, `limit_index` along dimension `dimno`, with a
    stride; other dimensions stay whole.
    """
    value, shape = array("SliceInDim", operand)
    dim = dimension(shape, dimno, "SliceInDim: dimno")
    starts, limits, steps = [0] * shape.rank, list(shape.dims), [1] * shape.rank
    starts[dim], limits[dim], steps[dim] = start_index, limit_index, stride
    return Slice(value, starts, limits, steps)


def DynamicSlice(operand: object, start_indices: Any, slice_sizes: Sequence[int]) -> XlaOp:
    """Takes a slice of `slice_sizes` at `start_indices`, which the program computes. Start indices are
    clamped so that the slice lies inside the operand.
    """
    value, _ = array("DynamicSlice", operand)
    starts = _start_indices("DynamicSlice", value, start_indices)
    return value.builder.add(
        hlo.DynamicSlice(integers(slice_sizes, "DynamicSlice: slice_sizes")), (value, *starts)
    )


def DynamicSliceInDim(operand: object, start: object, size: int, dimno: int) -> XlaOp:
    """A DynamicSlice of `size` elements from `start` on along dimension `dimno`; other dimensions stay
    whole.
    """
    value, shape = array("DynamicSliceInDim", operand)
    dim = dimension(shape, dimno, "DynamicSliceInDim: dimno")
    sizes = list(shape.dims)
    sizes[dim] = size
    return DynamicSlice(value, [start if d == dim else 0 for d in range(shape.rank)], sizes)


def DynamicUpdateSlice(operand: object, update: object, start_indices: Any) -> XlaOp:
    """Returns `operand` with the slice at `start_indices` replaced by `update`."""
    value, window = operands("DynamicUpdateSlice", operand, update)
    starts = _start_indices("DynamicUpdateSlice", value, start_indices)
    return value.builder.add(hlo.DynamicUpdateSlice(), (value, window, *starts))


def _start_indices(what: str, operand: XlaOp, indices: Any) -> list[XlaOp]:
    """Converts start indices to scalar ops. A vector is split into its elements; Python ints get the type of
    the other indices, or s32 if all are ints. `what` is the function's name in messages.
    """
    builder = operand.builder
    if isinstance(indices, XlaOp):
        shape = indices.shape
        if not isinstance(shape, Shape) or shape.rank != 1:
            message = f"{what}: start indices must be scalars or one vector  [start_indices]"
            builder.fail(what, (operand, indices), message)
        return [Reshape(Slice(indices, [k], [k + 1]), ()) for k in range(shape.dims[0])]
    found = items(indices, f"{what}: start_indices")
    types = [i.shape.dtype for i in found if isinstance(i, XlaOp) and isinstance(i.shape, Shape)]
    like = types[0] if types else S32
    return [
        i if isinstance(i, XlaOp) else number(what, builder, integer(i, f"{what}: start index"), like)
        for i in found
    ]


def Pad(operand: object, padding_value: object, padding_config_: Any) -> XlaOp:
    """Puts `padding_value` around the operand and between its elements. Negative edge padding removes
    elements.
    """
    value, fill = operands("Pad", operand, padding_value)
    return value.builder.add(hlo.Pad(padding_config(padding_config_)), (value, fill))


def PadInDim(operand: object, padding_value: object, dimno: int, pad_lo: int, pad_hi: int) -> XlaOp:
    """Pads dimension `dimno` with `padding_value`: `pad_lo` elements before and `pad_hi` elements after the
    operand's elements.
    """
    value, shape = array("PadInDim", operand)
    dim = dimension(shape, dimno, "PadInDim: dimno")
    edges = [(pad_lo, pad_hi, 0) if d == dim else (0, 0, 0) for d in range(shape.rank)]
    return Pad(value, padding_value, edges)


def ConcatInDim(builder: XlaBuilder, operands: Sequence[object], dimension: int) -> XlaOp:
    """Concatenates the operands along the dimension."""
    values = several("ConcatInDim", builder, operands)
    return builder.add(hlo.Concatenate((integer(dimension, "ConcatInDim: dimension"),)), values)


def Iota(builder: XlaBuilder, *arguments: Any, **named: Any) -> XlaOp:
    """Counts along a dimension. Called as Iota(builder, shape, iota_dimension), the result has `shape`, and
    every element is its index along `iota_dimension`. Called as Iota(builder, type, size), the result is the
    vector 0, 1, 2... size - 1.
    """
    given = [*arguments, *(named[k] for k in ("shape", "type", "iota_dimension", "size") if k in named)]
    if len(given) != 2 or len(arguments) + len(named) != 2:
        message = f"Iota: found {len(given)} arguments, wanted (shape, iota_dimension) or (type, size)"
        raise InvalidArgument(message)
    builder_in("Iota", builder)
    first, second = given[0], integer(given[1], "Iota: iota_dimension or size")
    if isinstance(first, Shape):
        return builder.add(hlo.Iota(first, second))
    return builder.add(hlo.Iota(Shape(element_type(first, "Iota: type"), (second,)), 0))


def ZerosLike(operand: object) -> XlaOp:
    """Zeros with the element type and the sizes of the operand."""
    value, shape = array("ZerosLike", operand)
    return Broadcast(Zero(value.builder, shape.dtype), shape.dims)


def Zero(builder: XlaBuilder, dtype: Any) -> XlaOp:
    """The scalar constant 0 of a dtype."""
    return builder_in("Zero", builder).constant(np.zeros((), element_type(dtype).numpy))


def One(builder: XlaBuilder, dtype: Any) -> XlaOp:
    """The scalar constant 1 of a dtype."""
    return builder_in("One", builder).constant(np.ones((), element_type(dtype).numpy))


def Index(operand: object, index: Any) -> XlaOp:
    """Indexes an array as NumPy's basic indexing does, by ints, slices, `...` and None. An index may also be
    a scalar XlaOp, which is clamped to the valid range.
    """
    value, shape = array("Index", operand)
    entries = _expanded(index if isinstance(index, tuple) else (index,), shape)
    starts: list[int] = []
    limits: list[int] = []
    steps: list[int] = []
    reversed_: list[int] = []  # dimensions with a negative step
    dims: list[int] = []  # sizes of the result
    dynamic: dict[int, XlaOp] = {}
    for entry in entries:
        if entry is None:
            dims.append(1)
            continue
        dim = len(starts)
        size = shape.dims[dim]
        if isinstance(entry, slice):
            start, limit, step, count = _range(entry, size)
            dims.append(count)
            if step < 0:
                reversed_.append(dim)
            step = abs(step)
        elif isinstance(entry, XlaOp):
            dynamic[dim] = entry
            start, limit, step = 0, size, 1
        else:
            start = _place(entry, size, dim, shape)
            limit, step = start + 1, 1
        starts.append(start)
        limits.append(limit)
        steps.append(step)
    return _indexed(value, (starts, limits, steps), reversed_, dynamic, dims)


def _expanded(entries: tuple, shape: Shape) -> list[Any]:
    """Replaces `...` in index entries with as many whole slices as dimensions lack an entry. Without `...`,
    appends these slices at the end.
    """
    given = sum(1 for e in entries if e is not None and e is not Ellipsis)
    dots = sum(1 for e in entries if e is Ellipsis)
    if given > shape.rank or dots > 1:
        raise InvalidArgument(f"index {entries!r}: too many entries for {show(shape)}")
    rest = [slice(None)] * (shape.rank - given)
    found: list[Any] = []
    for entry in entries:
        found.extend(rest) if entry is Ellipsis else found.append(entry)
    return found if dots else [*found, *rest]


def _range(entry: slice, size: int) -> tuple[int, int, int, int]:
    """Returns (start, limit, step, number of elements) of the slice `entry` of a dimension of `size`
    elements. start is the lowest index, also if the step is negative.
    """
    try:
        elements = range(*entry.indices(size))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"index {entry}: {error}") from None
    if not elements:
        return 0, 0, 1, 0
    if elements.step < 0:
        return elements[-1], elements[0] + 1, elements.step, len(elements)
    return elements.start, elements.stop, elements.step, len(elements)


def _place(entry: Any, size: int, dim: int, shape: Shape) -> int:
    place = integer(entry, "index (wanted an int, slice, None, ... or scalar XlaOp; for arrays use Gather)")
    if not -size <= place < size:
        raise InvalidArgument(f"index {place} is outside dimension {dim} of {show(shape)}")
    return place + size if place < 0 else place


def _indexed(
    value: XlaOp, ranges: Any, reversed_: list[int], dynamic: dict[int, XlaOp], dims: list[int]
) -> XlaOp:
    shape = value.shape
    if ranges != ([0] * shape.rank, list(shape.dims), [1] * shape.rank):
        value = Slice(value, *ranges)
    if reversed_:
        value = Rev(value, reversed_)
    if dynamic:
        value = _dynamic_index(value, dynamic)
    return value if array("Index", value)[1].dims == tuple(dims) else Reshape(value, dims)


def _dynamic_index(value: XlaOp, dynamic: dict[int, XlaOp]) -> XlaOp:
    shape = array("Index", value)[1]
    kinds = {i.shape.dtype if isinstance(i.shape, Shape) else None for i in dynamic.values()}
    like: DType = next(iter(kinds)) or S32 if len(kinds) == 1 else S32
    zero = Zero(value.builder, like)
    starts = []
    for d in range(shape.rank):
        index = dynamic.get(d, zero)
        same = isinstance(index.shape, Shape) and index.shape.dtype is like
        starts.append(index if same else value.builder.add(hlo.Convert(Shape(like)), (index,)))
    return DynamicSlice(value, starts, [1 if d in dynamic else size for d, size in enumerate(shape.dims)])
