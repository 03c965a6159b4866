"""Operations on lists of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.core.errors import UnsupportedError
from axla.core.shape import Shape
from axla.tensorflow.lists import ListType, TensorList, empty, shown
from axla.tensorflow.ops import indexing
from axla.tensorflow.ops.common import of_rank
from axla.tensorflow.records import lowering
from axla.tensorflow.regions import MOST_EMBEDDED
from axla.tensorflow.scope import OpCall
from axla.tensorflow.types import DTYPES

RECORDS = """
EmptyTensorList: element_shape:shape_type max_num_elements:i32 element_dtype=type shape_type=i32_i64 ->
    handle:variant
TensorListReserve: element_shape:shape_type num_elements:i32 element_dtype=type shape_type=i32_i64 ->
    handle:variant
TensorListPushBack: input_handle:variant tensor:element_dtype -> output_handle:variant
TensorListPushBackBatch: input_handles:variant tensor:element_dtype -> output_handles:variant ; none there are
    no arrays of lists
TensorListPopBack: input_handle:variant element_shape:i32 -> output_handle:variant tensor:element_dtype
TensorListLength: input_handle:variant -> length:i32
TensorListResize: input_handle:variant size:i32 -> output_handle:variant
TensorListConcatLists: input_a:variant input_b:variant element_dtype=type -> output:variant
TensorListSplit: tensor:element_dtype element_shape:shape_type lengths:i64 shape_type=i32_i64 ->
    output_handle:variant
TensorListConcat: input_handle:variant element_shape=shape? -> tensor:element_dtype lengths:i64
TensorListConcatV2: input_handle:variant element_shape:shape_type leading_dims:i64 shape_type=i32_i64 ->
    tensor:element_dtype lengths:i64
TensorListStack: input_handle:variant element_shape:i32 num_elements=int?-1 -> tensor:element_dtype
TensorListGather: input_handle:variant indices:i32 element_shape:i32 -> values:element_dtype
TensorListScatter: tensor:element_dtype indices:i32 element_shape:shape_type shape_type=i32_i64 ->
    output_handle:variant
TensorListScatterV2: tensor:element_dtype indices:i32 element_shape:shape_type num_elements:i32
    shape_type=i32_i64 -> output_handle:variant
TensorListScatterIntoExistingList: input_handle:variant tensor:element_dtype indices:i32 ->
    output_handle:variant
TensorListFromTensor: tensor:element_dtype element_shape:shape_type shape_type=i32_i64 ->
    output_handle:variant
TensorListSetItem: input_handle:variant index:i32 item:element_dtype resize_if_index_out_of_bounds=bool?false
    -> output_handle:variant
TensorListGetItem: input_handle:variant index:i32 element_shape:Tshape Tshape=i32_i64?DT_INT32 ->
    item:element_dtype
TensorListElementShape: input_handle:variant shape_type=i32_i64 -> element_shape:shape_type
"""


# Creating lists.


def element_of(call: OpCall, attribute: str, dims: Sequence[int] | None) -> Shape | None:
    """The shape of elements with the type in an attribute and the sizes `dims`; None if a size is unknown, or
    if the elements are lists.
    """
    dtype = DTYPES.get(call[attribute])
    return None if dtype is None or dims is None or -1 in dims else Shape(dtype, dims)


def _element(call: OpCall, dims: XlaOp | None) -> Shape | None:
    """The shape of the elements of a list. The operand `dims` has their sizes, -1 for an unknown size or
    rank. Returns None if a size is unknown, or if the elements are lists.
    """
    found = None if dims is None else call.scope.known(dims)
    if found is None or (not found.ndim and found < 0):
        return None
    if not found.ndim:
        call.fail("element_shape is neither a vector nor -1")
    return element_of(call, "element_dtype", [int(size) for size in found])


@lowering("EmptyTensorList")
def _empty(call: OpCall, shape: XlaOp, most: XlaOp) -> TensorList:
    capacity = call.integer(most, "the number of elements that a list can have")
    return empty(call.builder, ListType(max(capacity, 0), _element(call, shape), 0, capacity >= 0))


@lowering("TensorListReserve")
def _reserve(call: OpCall, shape: XlaOp, count: XlaOp) -> TensorList:
    return reserved(call, call.integer(count, "the number of elements of a list"), _element(call, shape))


def reserved(call: OpCall, count: int, element: Shape | None) -> TensorList:
    """A list of `count` zeros of the shape `element`; None if the shape is not known yet."""
    if count < 0:
        call.fail(f"a list cannot have {count} elements")
    return empty(call.builder, ListType(count, element, count, False))


@lowering("TensorListFromTensor")
def list_of(call: OpCall, tensor: XlaOp, shape: XlaOp | None = None) -> TensorList:
    """A list of the slices of an array along its first dimension. The operand `shape`, the shape of the
    slices, is not needed.
    """
    if not tensor.dims:
        call.fail("a scalar cannot be split into the elements of a list")
    count, *dims = tensor.dims
    return TensorList(ListType(count, Shape(tensor.dtype, dims), count, False), [tensor])


@lowering("TensorListSplit")
def split(call: OpCall, tensor: XlaOp, shape: XlaOp | None, lengths: XlaOp) -> TensorList:
    """A list of consecutive slices of an array. `lengths` has the length of each slice along the first
    dimension; all must be equal.
    """
    sizes = call.integers(lengths, "the lengths")
    if not tensor.dims or sum(sizes) != tensor.dims[0] or any(size < 0 for size in sizes):
        call.fail(f"lengths {list(sizes)} do not fit an array of shape {list(tensor.dims)}")
    if len(set(sizes)) > 1:
        raise UnsupportedError(f"elements of a list have lengths {list(sizes)}: they must be equal")
    return list_of(call, ops.Reshape(tensor, (len(sizes), *sizes[:1], *tensor.dims[1:])))


@lowering("TensorListScatter")
def _scatter(call: OpCall, tensor: XlaOp, indices: XlaOp, shape: XlaOp) -> TensorList:
    count = max(call.integers(indices, "the indices of a list"), default=-1) + 1
    return scattered(call, reserved(call, count, _element(call, shape)), indices, tensor)


@lowering("TensorListScatterV2")
def _scatter_v2(call: OpCall, tensor: XlaOp, indices: XlaOp, shape: XlaOp, count: XlaOp) -> TensorList:
    size = call.integer(count, "the number of elements of a list")
    if size < 0:
        return _scatter(call, tensor, indices, shape)
    return scattered(call, reserved(call, size, _element(call, shape)), indices, tensor)


@lowering("TensorListScatterIntoExistingList")
def _scatter_into(call: OpCall, value: TensorList, tensor: XlaOp, indices: XlaOp) -> TensorList:
    return scattered(call, grown(call, value, indices), indices, tensor)


def grown(call: OpCall, value: TensorList, indices: XlaOp) -> TensorList:
    """A list enlarged to include all indices, if the indices and the length of the list are known."""
    known, length = call.scope.known(indices), value.type.length
    if known is None or not known.size or length is None:
        return value
    return with_length(call, value, max(length, int(known.max()) + 1))


def scattered(
    call: OpCall, value: TensorList, indices: XlaOp, tensor: XlaOp, *, adds: bool = False
) -> TensorList:
    """A list in which the elements at `indices` are replaced by the slices of `tensor`; with `adds`, the
    slices are added to these elements.
    """
    if len(indices.dims) != 1 or tensor.dims[:1] != indices.dims:
        call.fail(f"indices of shape {list(indices.dims)} do not fit an array of {list(tensor.dims)}")
    value = _with_element(call, value, Shape(tensor.dtype, tensor.dims[1:]))
    (buffer,) = value.buffers()
    rows = ops.Reshape(indices, (*indices.dims, 1))
    found = indexing.scattered(buffer, rows, tensor, "Add" if adds else "Update")
    return TensorList(replace(value.type, same=None), [found, *value.arrays[1:]])


def _with_element(call: OpCall, value: TensorList, element: Shape) -> TensorList:
    """A list with the shape of its elements set; VerifyError if it had another shape."""
    found = value.type.element
    if found is not None and found != element:
        call.fail(f"the elements of the list are {shown(found)}, found {shown(element)}")
    return value.fitted(call.builder, replace(value.type, element=element))


# Single elements.


@lowering("TensorListPushBack")
def pushed(call: OpCall, value: TensorList, item: XlaOp | TensorList) -> TensorList:
    """A list with `item` as one more element at the end."""
    length, builder = value.type.length, call.builder
    if length == value.type.capacity or (length is None and not value.type.sealed):
        if value.type.sealed:
            if length or call.scope.outer is None:
                call.fail(f"the list is full, it has {length} elements")
            return _never_written(call, value, item)
        value = value.with_capacity(builder, value.type.capacity + 1)
    last = value.length(builder) if length is None else length
    found = value.with_at(builder, last, _checked(call, value, item)).all_same(_same(call, value, item))
    return found.of_length(last + 1)


def _same(call: OpCall, value: TensorList, item: XlaOp | TensorList) -> bytes | None:
    """The bytes that all elements of a list have after `item` was pushed; None if they may differ or are
    unknown.
    """
    if not isinstance(item, XlaOp) or item.shape.size > MOST_EMBEDDED:
        return None
    known = call.scope.known(item)
    found = None if known is None else known.tobytes()
    return found if value.type.length == 0 or value.type.same == found else None


def _checked(call: OpCall, value: TensorList, item: XlaOp | TensorList) -> XlaOp | TensorList:
    element = value.type.element
    if not isinstance(item, XlaOp | TensorList):
        raise UnsupportedError("the elements of a list are arrays or lists, found something else")
    if isinstance(element, Shape) and (not isinstance(item, XlaOp) or item.shape.logical != element):
        found = Shape(item.dtype, item.dims) if isinstance(item, XlaOp) else item.type
        raise UnsupportedError(f"the elements of the list are {shown(element)}, found {shown(found)}")
    return item


@lowering("TensorListPopBack")
def popped(call: OpCall, value: TensorList, shape: XlaOp | None = None) -> list[object]:
    """A list without its last element, and this element. The operand `shape` has the sizes of an element, for
    a list whose elements have no known shape.
    """
    length, builder = value.type.length, call.builder
    if length == 0:
        _check_runs(call, "the list is empty")
    value = _filled(call, value, _element(call, shape))
    if length == 0:
        return [value, value.with_capacity(builder, 1).at(builder, 0)]
    if length is not None:
        return [value.of_length(length - 1), value.at(builder, length - 1)]
    last = value.length(builder) - 1
    return [value.of_length(last), value.at(builder, last)]


def _filled(call: OpCall, value: TensorList, element: Shape | None) -> TensorList:
    """A list with a known element shape, so that it can be read. Elements never written are zeros."""
    if value.type.element is not None:
        return value
    if element is None:
        raise UnsupportedError("the list has no elements yet, and their shape is not known")
    return value.fitted(call.builder, replace(value.type, element=element))


@lowering("TensorListSetItem")
def _set_item(call: OpCall, value: TensorList, index: XlaOp, item: XlaOp | TensorList) -> TensorList:
    if call["resize_if_index_out_of_bounds"]:
        value = grown(call, value, index)
        if not value.type.capacity and call.scope.known(index) is None:
            raise UnsupportedError("the list cannot grow to hold an index that is not constant")
    return written(call, value, index, item)


def written(call: OpCall, value: TensorList, index: XlaOp, item: XlaOp | TensorList) -> TensorList:
    """The list `value` with `item` as the element at an index."""
    place = _place(call, value, index)
    if not value.type.capacity:
        return _never_written(call, value, item)
    return value.with_at(call.builder, place, _checked(call, value, item))


def _never_written(call: OpCall, value: TensorList, item: XlaOp | TensorList) -> TensorList:
    """Gives a list of capacity 0 the element shape of `item`; a run never writes to it."""
    found = value.with_capacity(call.builder, 1).with_at(call.builder, 0, _checked(call, value, item))
    return found.fitted(call.builder, replace(found.type, capacity=0))


def _check_runs(call: OpCall, message: str) -> None:
    """Raises VerifyError for a node that would fail whenever it runs. Inside loops and branches it does
    nothing, as they may never run the node.
    """
    if call.scope.outer is None:
        call.fail(message)


def _place(call: OpCall, value: TensorList, index: XlaOp) -> int | XlaOp:
    of_rank(call, index, 0, "index")
    known = call.scope.known(index)
    length = value.type.capacity if value.type.length is None else value.type.length
    if not value.type.capacity or (known is not None and not 0 <= int(known) < length):
        _check_runs(call, f"index {'not known' if known is None else known}, the list has size {length}")
    return index if known is None else int(known)


@lowering("TensorListGetItem")
def item_at(call: OpCall, value: TensorList, index: XlaOp, shape: XlaOp | None = None) -> XlaOp | TensorList:
    """The element at an index. The operand `shape` has the sizes of an element, for a list whose elements
    have no known shape.
    """
    place = _place(call, value, index)
    filled = _filled(call, value, _element(call, shape))
    return filled.with_capacity(call.builder, 1).at(call.builder, place)


# Whole lists.


@lowering("TensorListLength")
def _length(call: OpCall, value: TensorList) -> XlaOp | np.ndarray:
    known = value.type.length
    return value.length(call.builder) if known is None else np.asarray(known, np.int32)


@lowering("TensorListResize")
def _resize(call: OpCall, value: TensorList, size: XlaOp) -> TensorList:
    return with_length(call, value, call.integer(size, "the size of a list"))


def with_length(call: OpCall, value: TensorList, count: int) -> TensorList:
    """A list cut or padded with zeros to a known number of elements."""
    length = value.type.length
    if count < 0:
        call.fail(f"a list cannot have {count} elements")
    if length is None:
        raise UnsupportedError("the number of elements of the resized list is not known")
    if count == length:
        return value
    cut = value.fitted(call.builder, replace(value.type, capacity=min(length, count)))
    found = cut.with_capacity(call.builder, max(count, value.type.capacity)).of_length(count)
    return found.all_same(value.type.same if count < length else None)


@lowering("TensorListConcatLists")
def _concat_lists(call: OpCall, one: TensorList, other: TensorList) -> TensorList:
    if one.type.length is None or other.type.length is None:
        raise UnsupportedError("the numbers of elements of the lists are not known")
    common = one.type.joined(other.type).element
    size = one.type.length + other.type.length
    pieces = [
        value.fitted(call.builder, ListType(length, common, length, False)).arrays
        for value, length in ((one, one.type.length), (other, other.type.length))
    ]
    arrays = [ops.ConcatInDim(call.builder, pair, 0) for pair in zip(*pieces, strict=True)]
    return TensorList(ListType(size, common, size, False), arrays)


def stacked(call: OpCall, value: TensorList, element: Shape | None) -> XlaOp:
    """The elements of a list as one array; `element` is the shape of one if the list does not know it. If the
    length is not known and the list is sealed, the array has the whole capacity of the list.
    """
    value = _filled(call, value, element)
    if not isinstance(value.type.element, Shape):
        call.fail("the elements of the list are lists, wanted arrays")
    length = value.type.length
    if length is None and not value.type.sealed:
        raise UnsupportedError("the number of elements of the list is not known")
    (buffer,) = value.buffers()
    return buffer if length is None else ops.SliceInDim(buffer, 0, length, 1, 0)


@lowering("TensorListStack")
def _stack(call: OpCall, value: TensorList, shape: XlaOp) -> XlaOp:
    found = stacked(call, value, _element(call, shape))
    if call["num_elements"] not in (-1, found.dims[0]):
        call.fail(f"num_elements is {call['num_elements']}, the list has {found.dims[0]} elements")
    return found


@lowering("TensorListGather")
def _gather(call: OpCall, value: TensorList, indices: XlaOp, shape: XlaOp) -> XlaOp:
    return gathered(call, value, indices, _element(call, shape))


def gathered(call: OpCall, value: TensorList, indices: XlaOp, element: Shape | None) -> XlaOp:
    """The elements of a list at `indices` as one array; `element` is the shape of one if the list does not
    know it.
    """
    of_rank(call, indices, 1, "indices")
    return indexing.take(stacked(call, value, element), indices, 0)


@lowering("TensorListConcatV2")
def _concat_v2(call: OpCall, value: TensorList, shape: XlaOp, leading: XlaOp) -> list[object]:
    return concatenated(call, stacked(call, value, _element(call, shape)))


@lowering("TensorListConcat")
def _concat(call: OpCall, value: TensorList) -> list[object]:
    element = element_of(call, "element_dtype", call["element_shape"])
    return concatenated(call, stacked(call, value, element))


def concatenated(call: OpCall, value: XlaOp) -> list[object]:
    """Concatenates the elements of a list, which are the slices of `value` along its first dimension; also
    returns the sizes of these elements in the result.
    """
    if len(value.dims) < 2:
        call.fail("the elements are scalars, wanted arrays")
    count, size, *rest = value.dims
    return [ops.Reshape(value, (count * size, *rest)), np.broadcast_to(np.int64(size), count)]


@lowering("TensorListElementShape")
def _element_shape(call: OpCall, value: TensorList) -> np.ndarray:
    element, dtype = value.type.element, call.dtype("shape_type").numpy
    return np.array(element.dims if isinstance(element, Shape) else -1, dtype)
