"""Tensor arrays and stacks of TensorFlow 1: resources whose contents are a list."""

from __future__ import annotations

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.core.dataclass import dataclass
from axla.tensorflow.lists import ListType, TensorList, empty
from axla.tensorflow.ops import lists
from axla.tensorflow.ops.common import of_dims
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall
from axla.tensorflow.values import Resource

RECORDS = """
TensorArrayV3: size:i32 dtype=type element_shape=shape? dynamic_size=bool?false clear_after_read=bool?true
    identical_element_shapes=bool?false tensor_array_name=string? -> handle:resource flow:f32
TensorArrayGradV3: handle:resource flow_in:f32 source=string -> grad_handle:resource flow_out:f32
TensorArrayWriteV3: handle:resource index:i32 value:T flow_in:f32 -> flow_out:f32
TensorArrayReadV3: handle:resource index:i32 flow_in:f32 -> value:dtype
TensorArrayGatherV3: handle:resource indices:i32 flow_in:f32 element_shape=shape? -> value:dtype
TensorArrayScatterV3: handle:resource indices:i32 value:T flow_in:f32 -> flow_out:f32
TensorArrayConcatV3: handle:resource flow_in:f32 element_shape_except0=shape? -> value:dtype lengths:i64
TensorArraySplitV3: handle:resource value:T lengths:i64 flow_in:f32 -> flow_out:f32
TensorArraySizeV3: handle:resource flow_in:f32 -> size:i32
StackV2: max_size:i32 elem_type=type stack_name=string? -> handle:resource
StackPushV2: handle:resource elem:T swap_memory=bool?false -> output:T
StackPopV2: handle:resource -> elem:elem_type
"""


_FLOW = np.float32(0)
"""The value of a flow edge. Flow edges are numbers that only make nodes run in order."""


@dataclass(slots=True, eq=False)
class StackOrArray(Resource):
    """A stack or a tensor array. `dtype` is the name of the type of its elements; if `grows`, writing
    enlarges it.
    """

    dtype: str = ""
    grows: bool = False


def _contents(call: OpCall, handle: Resource, attribute: str, indices: XlaOp | None = None) -> TensorList:
    """The list of a handle, whose elements must have the attribute's type. If the handle grows, the list is
    enlarged to contain all indices.
    """
    if not isinstance(handle, StackOrArray):
        call.fail(f"'{handle.name}' is neither a stack nor a tensor array")
    if handle.dtype != call[attribute]:
        call.fail(f"'{handle.name}' has elements of {handle.dtype}, found {call[attribute]}")
    found = call.scope.read(handle)
    assert isinstance(found, TensorList)
    return lists.grown(call, found, indices) if handle.grows and indices is not None else found


# Tensor arrays.


@lowering("TensorArrayV3")
def _array(call: OpCall, size: XlaOp) -> list[object]:
    count = call.integer(size, "the size of an array of tensors")
    element = lists.element_of(call, "dtype", call["element_shape"])
    made = StackOrArray(call.node.name, dtype=call["dtype"], grows=call["dynamic_size"])
    call.scope.state[made] = lists.reserved(call, count, element).sealed()
    return [made, _FLOW]


@lowering("TensorArrayGradV3")
def _gradient(call: OpCall, handle: StackOrArray, flow: XlaOp) -> list[object]:
    made = handle.gradients.get(call["source"])
    if made is None:
        name = f"{handle.name}/{call['source']}"
        made = handle.gradients[call["source"]] = StackOrArray(name, origin=handle, dtype=handle.dtype)
    if not call.scope.has(made):
        call.scope.state[made] = empty(call.builder, call.scope.read(handle).type)
    return [made, flow]


@lowering("TensorArrayWriteV3")
def _write(call: OpCall, handle: StackOrArray, index: XlaOp, value: XlaOp, flow: XlaOp) -> XlaOp:
    contents = _contents(call, handle, "T", index)
    if handle.origin is not None and contents.type.element is not None:
        before = lists.item_at(call, contents, index)
        assert isinstance(before, XlaOp)
        of_dims(call, value, before.dims, "value")
        value = _sum(before, value)
    call.scope.state[handle] = lists.written(call, contents, index, value)
    return flow


def _sum(one: XlaOp, other: XlaOp) -> XlaOp:
    return ops.Or(one, other) if one.dtype.is_pred else ops.Add(one, other)


@lowering("TensorArrayReadV3")
def _read(call: OpCall, handle: StackOrArray, index: XlaOp, flow: XlaOp) -> XlaOp | TensorList:
    return lists.item_at(call, _contents(call, handle, "dtype"), index)


@lowering("TensorArrayGatherV3")
def _gather(call: OpCall, handle: StackOrArray, indices: XlaOp, flow: XlaOp) -> XlaOp:
    element = lists.element_of(call, "dtype", call["element_shape"])
    return lists.gathered(call, _contents(call, handle, "dtype"), indices, element)


@lowering("TensorArrayScatterV3")
def _scatter(call: OpCall, handle: StackOrArray, indices: XlaOp, value: XlaOp, flow: XlaOp) -> XlaOp:
    contents = _contents(call, handle, "T", indices)
    call.scope.state[handle] = lists.scattered(call, contents, indices, value, adds=handle.origin is not None)
    return flow


@lowering("TensorArrayConcatV3")
def _concat(call: OpCall, handle: StackOrArray, flow: XlaOp) -> list[object]:
    return lists.concatenated(call, lists.stacked(call, _contents(call, handle, "dtype"), None))


@lowering("TensorArraySplitV3")
def _split(call: OpCall, handle: StackOrArray, value: XlaOp, lengths: XlaOp, flow: XlaOp) -> XlaOp:
    contents = _contents(call, handle, "T")
    pieces = lists.split(call, value, None, lengths)
    if handle.grows and pieces.type.capacity > contents.type.capacity:
        contents = lists.with_length(call, contents, pieces.type.capacity)
    if pieces.type.capacity != contents.type.capacity:
        call.fail(f"{pieces.type.capacity} slices do not fit a tensor array of {contents.type.capacity}")
    places = call.scope.constant(np.arange(pieces.type.capacity, dtype=np.int32))
    (parts,) = pieces.arrays
    call.scope.state[handle] = lists.scattered(call, contents, places, parts, adds=handle.origin is not None)
    return flow


@lowering("TensorArraySizeV3")
def _size(call: OpCall, handle: StackOrArray, flow: XlaOp) -> np.ndarray:
    return np.asarray(call.scope.read(handle).type.capacity, np.int32)


# Stacks.


@lowering("StackV2")
def _stack(call: OpCall, most: XlaOp) -> StackOrArray:
    made = StackOrArray(call.node.name, dtype=call["elem_type"])
    capacity = call.integer(most, "the number of elements that a stack can have")
    call.scope.state[made] = empty(call.builder, ListType(max(capacity, 0), None, 0, capacity >= 0))
    return made


@lowering("StackPushV2")
def _push(call: OpCall, handle: StackOrArray, value: XlaOp) -> XlaOp:
    call.scope.state[handle] = lists.pushed(call, _contents(call, handle, "T"), value)
    return value


@lowering("StackPopV2")
def _pop(call: OpCall, handle: StackOrArray) -> object:
    call.scope.state[handle], value = lists.popped(call, _contents(call, handle, "elem_type"))
    return value
