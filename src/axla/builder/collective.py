"""Builder functions for collectives: ops in which several replicas or partitions take part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import axla.hlo as hlo
from axla.builder.calls import GetTupleElement, Tuple
from axla.builder.coerce import builder_in, operands
from axla.builder.elementwise import Add, Or
from axla.builder.movement import Reshape, Transpose
from axla.builder.records import ChannelHandle, ReplicaGroup
from axla.builder.values import boolean, integer, integers, items, tuples
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.errors import InvalidArgument, UnsupportedError
from axla.core.shape import Shape, TupleShape
from axla.hlo.family import joined, show
from axla.ir.attributes import SourceTargetPairs
from axla.ir.devices import ReplicaGroups
from axla.ir.op import reject


def _groups(groups: Sequence[Any] | None) -> ReplicaGroups:
    """Converts `groups`, a sequence of ReplicaGroup objects or of sequences of ids, to the attribute
    `replica_groups`.
    """
    what = "replica_groups"
    if isinstance(groups, ReplicaGroups):
        return groups
    found = [] if groups is None else items(groups, what, "ReplicaGroups, or sequences of ids")
    return ReplicaGroups(
        tuple(integers(g.replica_ids if isinstance(g, ReplicaGroup) else g, what) for g in found)
    )


def channel(handle: Any) -> int | None:
    """The channel number that `handle`, a ChannelHandle or int, stands for; None if `handle` is None."""
    if handle is None:
        return None
    return integer(handle.handle if isinstance(handle, ChannelHandle) else handle, "channel_id")


def _common(
    what: str, groups: Sequence[Any] | None, channel_id: Any, layout: object, globally: bool | None = None
) -> dict[str, Any]:
    if layout is not None:
        raise UnsupportedError(f"{what}: a layout for the exchange is not supported; leave it out")
    attributes: dict[str, Any] = {"replica_groups": _groups(groups), "channel_id": channel(channel_id)}
    globally = globally is not None and boolean(globally, f"{what}: use_global_device_ids")
    return attributes | ({"use_global_device_ids": True} if globally else {})


def _arrays(what: str, operand: XlaOp) -> list[XlaOp]:
    """The arrays that the collective `what` works on: the operand itself, or the elements of a tuple."""
    (value,) = operands(what, operand)
    if not isinstance(value.shape, TupleShape):
        return [value]
    return [GetTupleElement(value, n) for n in range(len(value.shape.elements))]


def _like(operand: XlaOp, result: XlaOp) -> XlaOp:
    """Wraps `result` in a tuple of one element if `operand` is a tuple and `result` is not."""
    return Tuple(result.builder, [result]) if operand.shape.is_tuple and not result.shape.is_tuple else result


def AllReduce(
    operand: XlaOp, computation: object, replica_groups: Sequence[Any] = (), channel_id: Any = None,
    shape_with_layout: object = None, use_global_device_ids: bool | None = None,
) -> XlaOp:  # fmt: skip
    """Combines the operands of all participants of a replica group with the computation; each gets the
    result. Elements of a tuple are combined one by one.
    """
    values = _arrays("AllReduce", operand)
    common = _common("AllReduce", replica_groups, channel_id, shape_with_layout, use_global_device_ids)
    builder = operand.builder
    op = hlo.AllReduce(to_apply=builder.callee(computation, "AllReduce: computation"), **common)
    return _like(operand, builder.add(op, values))


def CrossReplicaSum(operand: XlaOp, replica_groups: Sequence[Any] = ()) -> XlaOp:
    """The sum of the operands of all participants of a replica group; for pred, their logical or."""
    (value,) = operands("CrossReplicaSum", operand)
    shape = value.shape
    if not isinstance(shape, Shape):
        value.builder.fail("CrossReplicaSum", (value,), "the operand must be an array  [cross_replica_sum]")
    sub = value.builder.sub_builder("sum")
    x, y = (sub.parameter(n, Shape(shape.dtype), "xy"[n]) for n in range(2))
    return AllReduce(value, sub.build((Or if shape.dtype.is_pred else Add)(x, y)), replica_groups)


def AllGather(
    operand: XlaOp, all_gather_dimension: int, shard_count: int, replica_groups: Sequence[Any] = (),
    channel_id: Any = None, shape_with_layout: object = None, use_global_device_ids: bool | None = None,
) -> XlaOp:  # fmt: skip
    """Concatenates the operands of the `shard_count` participants of a replica group along dimension
    `all_gather_dimension`.
    """
    values = _arrays("AllGather", operand)
    common = _common("AllGather", replica_groups, channel_id, shape_with_layout, use_global_device_ids)
    what = "AllGather: all_gather_dimension, shard_count"
    at, count = integers((all_gather_dimension, shard_count), what)
    with operand.builder.checking("all-gather", values):
        results = [_resized("all_gather", v, at, lambda size: size * count) for v in values]
        op = hlo.AllGather(joined(results), dimensions=(at,), **common)
    return _like(operand, operand.builder.add(op, values))


def ReduceScatter(
    operand: XlaOp, computation: object, scatter_dimension: int, shard_count: int,
    replica_groups: Sequence[Any] = (), channel_id: Any = None, layout: object = None,
    use_global_device_ids: bool | None = None,
) -> XlaOp:  # fmt: skip
    """Combines the operands of the `shard_count` participants of a replica group with the computation. Each
    participant gets one of `shard_count` equal slices of the result along `scatter_dimension`.
    """
    values = _arrays("ReduceScatter", operand)
    common = _common("ReduceScatter", replica_groups, channel_id, layout, use_global_device_ids)
    builder, what = operand.builder, "ReduceScatter: scatter_dimension, shard_count"
    at, shard_count = integers((scatter_dimension, shard_count), what)

    def part(size: int) -> int:
        if shard_count < 1 or size % shard_count:
            message = f"reduce-scatter: {size} does not divide into {shard_count} shards"
            reject("reduce_scatter_count", message)
        return size // shard_count

    with builder.checking("reduce-scatter", values):
        shape = joined([_resized("reduce_scatter", v, at, part) for v in values])
    called = builder.callee(computation, "ReduceScatter: computation")
    op = hlo.ReduceScatter(shape, dimensions=(at,), to_apply=called, **common)
    return _like(operand, builder.add(op, values))


def _resized(label: str, value: XlaOp, at: int, size: Any) -> Shape:
    shape = value.shape
    if not isinstance(shape, Shape) or not 0 <= at < shape.rank:
        found = show(shape)
        reject(f"{label}_dimension", f"dimension {at} does not exist in shape {found}")
    return shape.with_dims([size(n) if d == at else n for d, n in enumerate(shape.dims)])


def AllToAll(
    operand: XlaOp, split_dimension: int, concat_dimension: int, split_count: int,
    replica_groups: Sequence[Any] = (), layout: object = None, channel_id: Any = None,
) -> XlaOp:  # fmt: skip
    """Splits each operand into `split_count` slices along `split_dimension` and sends slice n to participant
    n of the replica group. Each participant concatenates the slices it receives along `concat_dimension`.
    """
    (value,) = operands("AllToAll", operand)
    builder, shape = value.builder, value.shape
    common = _common("AllToAll", replica_groups, channel_id, layout)
    what = "AllToAll: split_dimension, concat_dimension, split_count"
    split_dimension, concat_dimension, split_count = integers(
        (split_dimension, concat_dimension, split_count), what
    )
    with builder.checking("all-to-all", (value,)):
        for at in (split_dimension, concat_dimension):
            _resized("all_to_all", value, at, int)
        size = shape.dims[split_dimension]
        if split_count < 1 or size % split_count:
            reject("all_to_all_count", f"all-to-all: {size} does not divide into {split_count} parts")
        members = common["replica_groups"].sizes
        if members and members != {split_count}:
            reject("all_to_all_count", f"all-to-all: {split_count} parts for groups of {sorted(members)}")
    exchanged = builder.add(hlo.AllToAll(dimensions=(split_dimension,), **common), (value,))
    if split_dimension == concat_dimension:
        return exchanged
    return moved_parts(exchanged, split_dimension, concat_dimension, split_count)


def moved_parts(value: XlaOp, split: int, concat: int, count: int) -> XlaOp:
    """Completes an all-to-all whose `count` received slices lie along dimension `split` of `value`:
    concatenates them along dimension `concat` instead. For this, the number of the sender becomes a dimension
    of its own, which is moved in front of `concat` and merged with it.
    """
    dims = list(value.shape.dims)
    parts = [*dims[:split], count, dims[split] // count, *dims[split + 1 :]]
    order = [d for d in range(len(parts)) if d != split]
    order.insert(concat, split)
    dims[split] //= count
    dims[concat] *= count
    return Reshape(Transpose(Reshape(value, parts), order), dims)


def CollectivePermute(
    operand: XlaOp, source_target_pairs: Sequence[tuple[int, int]], channel_id: Any = None,
    inplace: bool = False,
) -> XlaOp:  # fmt: skip
    """Sends the operand from source to target for each pair of participants. A participant that is no target
    gets zeros.
    """
    return MultiCollectivePermute([operand], source_target_pairs, channel_id, inplace)


def MultiCollectivePermute(
    operands: Sequence[XlaOp], source_target_pairs: Sequence[tuple[int, int]], channel_id: Any = None,
    inplace: bool = False,
) -> XlaOp:  # fmt: skip
    """As CollectivePermute, for several operands at once; returns a tuple if there is more than one array."""
    if boolean(inplace, "CollectivePermute: inplace"):
        raise UnsupportedError("CollectivePermute: slices in place are not supported; inplace must be False")
    pairs = tuple(tuples(source_target_pairs, "source_target_pairs", "pairs of numbers", integer, integer))
    given = items(operands, "CollectivePermute: operands", "a sequence of operands")
    values = [v for operand in given for v in _arrays("CollectivePermute", operand)]
    if not values:
        raise InvalidArgument("CollectivePermute: wanted at least one operand")
    op = hlo.CollectivePermute(channel(channel_id), SourceTargetPairs(pairs))
    return values[0].builder.add(op, values)


def ReplicaId(builder: XlaBuilder) -> XlaOp:
    """The number of the replica that runs the program, as u32."""
    return builder_in("ReplicaId", builder).add(hlo.ReplicaId())


def PartitionId(builder: XlaBuilder) -> XlaOp:
    """The number of the partition that runs the program, as u32."""
    return builder_in("PartitionId", builder).add(hlo.PartitionId())
