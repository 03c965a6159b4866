"""Collectives between several devices, and operations that describe the sharding of arrays."""

from __future__ import annotations

from math import prod

import numpy as np

import axla.ops as ops
from axla.builder import records
from axla.builder.iteration import combiner
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import S32
from axla.core.errors import UnsupportedError
from axla.tensorflow.ops.xla import message, shape_of
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall
from axla.tensorflow.values import Resource

RECORDS = """
XlaReplicaId: -> id:i32
XlaAllReduce: input:T group_assignment:i32 reduce_op=string{Min,Max,Mul,Add,Mean}
    mode=string{CrossReplica,CrossReplicaAndPartition} -> output:T
XlaReduceScatter: input:T group_assignment:i32 scatter_dimension:i32 reduce_op=string{Min,Max,Mul,Add,Mean} ->
    output:T
CollectiveAssignGroupV2: group_assignment:i32 device_index:i32 base_key:i32 -> group_size:i32 group_key:i32
CollectiveReduceV2: input:T group_size:i32 group_key:i32 instance_key:i32
    ordering_token:Nordering_token*resource merge_op=string{Min,Max,Mul,Add} final_op=string{Id,Div}
    Nordering_token=int>=0?0 -> data:T
XlaSend: tensor:T tensor_name=string ->
XlaRecv: tensor_name=string shape=shape -> tensor:dtype
XlaSpmdFullToShardShape: input:T manual_sharding=string -> output:T
XlaSpmdShardToFullShape: input:T manual_sharding=string full_shape=shape -> output:T
"""


@lowering("XlaReplicaId")
def _replica(call: OpCall) -> XlaOp:
    return ops.ConvertElementType(ops.ReplicaId(call.builder), S32)


def _groups(call: OpCall, assignment: XlaOp) -> np.ndarray:
    """The groups of replicas: a matrix with the numbers of a group's replicas in each row."""
    found = call.constant(assignment, "group_assignment")
    if found.ndim != 2 or not found.size:
        call.fail(f"group_assignment has shape {list(found.shape)}, wanted rows of replicas")
    return found


def _combine(call: OpCall, value: XlaOp) -> object:
    return combiner({"Mean": "Add"}.get(call["reduce_op"], call["reduce_op"]), value.dtype)


@lowering("XlaAllReduce")
def _all_reduce(call: OpCall, value: XlaOp, assignment: XlaOp) -> XlaOp:
    groups = _groups(call, assignment)
    channel = records.ChannelHandle(1) if call["mode"] == "CrossReplicaAndPartition" else None
    found = ops.AllReduce(value, _combine(call, value), groups.tolist(), channel)
    return found / groups.shape[1] if call["reduce_op"] == "Mean" else found


@lowering("XlaReduceScatter")
def _reduce_scatter(call: OpCall, value: XlaOp, assignment: XlaOp, dimension: XlaOp) -> XlaOp:
    groups, place = _groups(call, assignment), call.integer(dimension, "scatter_dimension")
    place = call.axis(place, len(value.dims), "scatter_dimension")
    found = ops.ReduceScatter(value, _combine(call, value), place, groups.shape[1], groups.tolist())
    return found / groups.shape[1] if call["reduce_op"] == "Mean" else found


@lowering("CollectiveAssignGroupV2")
def _assign_group(call: OpCall, assignment: XlaOp, device: XlaOp, base: XlaOp) -> list[np.ndarray]:
    groups, number = _groups(call, assignment), call.integer(device, "device_index")
    rows = np.argwhere((groups == number).any(1))
    if not len(rows):
        call.fail(f"device {number} is in no group of {groups.tolist()}")
    key = call.integer(base, "base_key") + int(rows[0, 0])
    return [np.array(groups.shape[1], np.int32), np.array(key, np.int32)]


@lowering("CollectiveReduceV2")
def _collective_reduce(
    call: OpCall, value: XlaOp, size: XlaOp, key: XlaOp, instance: XlaOp, tokens: list[Resource]
) -> XlaOp:
    """Combines the arrays of all replicas, which must form a single group."""
    found = ops.AllReduce(value, combiner(call["merge_op"], value.dtype))
    if call["final_op"] == "Id":
        return found
    return found / ops.ConvertElementType(size, value.dtype)


# Transfers between programs: those with the same tensor name use the same channel.


@lowering("XlaSend")
def _send(call: OpCall, value: XlaOp) -> None:
    ops.Send(value, _channel(call))


@lowering("XlaRecv")
def _receive(call: OpCall) -> XlaOp:
    return ops.Recv(call.builder, shape_of(call, call["dtype"], call["shape"]), _channel(call))


def _channel(call: OpCall) -> records.ChannelHandle:
    importer = call.scope.importer
    importer.resource(Channel, call["tensor_name"])
    names = [name for kind, name in importer.resources if kind == Channel.__name__]
    return records.ChannelHandle(1 + names.index(call["tensor_name"]), 1)


class Channel(Resource):
    """A channel that all transfers with the same tensor name use."""


# Shardings: a program runs on one device, so every array must be whole there.


@lowering("XlaSpmdFullToShardShape", "XlaSpmdShardToFullShape")
def _shard(call: OpCall, value: XlaOp) -> XlaOp:
    found = message(call, "manual_sharding", "OpSharding")
    tiles = found.get("tile_assignment_dimensions", ())
    if prod(tiles) != 1:
        raise UnsupportedError(f"manual_sharding has {list(tiles)} tiles, but programs run on one device")
    return value
