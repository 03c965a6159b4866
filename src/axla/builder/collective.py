"""Builder functions for collectives."""

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
    """The attribute `replica_groups` of an op. `groups` has ReplicaGroup objects, or sequences of ids."""
    what = "replica_groups"
    if isinstance(groups, ReplicaGroups):
        return groups
    found = [] if groups is None else items(groups, what, "ReplicaGroups, or sequences of ids")
    return ReplicaGroups(
        tuple(integers(g.replica_ids if isinstance(g, ReplicaGroup) else g, what) for g in found)
    )


def channel(handle: Any) -> int | None:
    """The number of a channel; None for none."""
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
    """The operand, or the elements of a tuple."""
    (value,) = operands(what, operand)
    if not isinstance(value.shape, TupleShape):
        return [value]
    return [GetTupleElement(value, n) for n in range(len(value.shape.elements))]


def _like(operand: XlaOp, result: XlaOp) -> XlaOp:
    """Makes the result a tuple if the operand is one, also for a single element."""
    return Tuple(result.builder, [result]) if operand.shape.is_tuple and not result.shape.is_tuple else result


def AllReduce(
    operand: XlaOp, computation: object, replica_groups: Sequence[Any] = (), channel_id: Any = None,
    shape_with_layout: object = None, use_global_device_ids: bool | None = None,
) -> XlaOp:  # fmt: skip
    """The operands of all members of a group combined; for a tuple, each element."""
    values = _arrays("AllReduce", operand)
    common = _common("AllReduce", replica_groups, channel_id, shape_with_layout, use_global_device_ids)
    builder = operand.builder
    op = hlo.AllReduce(to_apply=builder.callee(computation, "AllReduce: computation"), **common)
    return _like(operand, builder.add(op, values))


def CrossReplicaSum(operand: XlaOp, replica_groups: Sequence[Any] = ()) -> XlaOp:
    """The sum of the operands of all members of a group; for pred, whether any is true."""
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
    """The operands of the `shard_count` members of a group, concatenated along the dimension."""
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
    """The operands of all members combined; each of the `shard_count` members gets a part."""
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
        reject(f"{label}_dimension", f"dimension {at} is not one of {found}")
    return shape.with_dims([size(n) if d == at else n for d, n in enumerate(shape.dims)])


def AllToAll(
    operand: XlaOp, split_dimension: int, concat_dimension: int, split_count: int,
    replica_groups: Sequence[Any] = (), layout: object = None, channel_id: Any = None,
) -> XlaOp:  # fmt: skip
    """Every member sends part n along `split_dimension` to member n, and concatenates the `split_count` parts
    that it receives along `concat_dimension`.
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
    """Moves the parts of an all-to-all's result from one dimension to another: the sender's number is split
    off and moved before the target dimension.
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
    """Sends each source's operand to its target; participants that are not targets get zeros."""
    return MultiCollectivePermute([operand], source_target_pairs, channel_id, inplace)


def MultiCollectivePermute(
    operands: Sequence[XlaOp], source_target_pairs: Sequence[tuple[int, int]], channel_id: Any = None,
    inplace: bool = False,
) -> XlaOp:  # fmt: skip
    """As CollectivePermute, for several operands at once."""
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
    """The number of the current replica, as u32."""
    return builder_in("ReplicaId", builder).add(hlo.ReplicaId())


def PartitionId(builder: XlaBuilder) -> XlaOp:
    """The number of the current partition, as u32."""
    return builder_in("PartitionId", builder).add(hlo.PartitionId())
