"""Reads and writes of elements at computed indices: gathers, scatters, top-k."""

from __future__ import annotations

import numpy as np

import axla.ops as ops
from axla.builder.iteration import combiner
from axla.builder.records import GatherDimensionNumbers, ScatterDimensionNumbers
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dtypes import S32, DType
from axla.core.shape import Shape
from axla.tensorflow.ops.arrays import full, shape_operand
from axla.tensorflow.ops.common import of_dims, of_rank
from axla.tensorflow.ops.variables import assign, read
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall
from axla.tensorflow.values import Variable

RECORDS = """
Gather GatherNd: params:Tparams indices:Tindices -> output:Tparams
GatherV2: params:Tparams indices:Tindices axis:Taxis batch_dims=int?0 -> output:Tparams
ResourceGather ResourceGatherNd: resource:resource indices:Tindices batch_dims=int?0 -> output:dtype
ScatterNd: indices:Tindices updates:T shape:Tindices -> output:T
TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin TensorScatterUpdate: tensor:T
    indices:Tindices updates:T -> output:T
ResourceScatterAdd ResourceScatterSub ResourceScatterMul ResourceScatterDiv ResourceScatterMax
    ResourceScatterMin ResourceScatterUpdate: resource:resource indices:Tindices updates:dtype ->
ResourceScatterNdAdd ResourceScatterNdSub ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdUpdate:
    ref:resource indices:Tindices updates:T ->
SparseToDense: sparse_indices:Tindices output_shape:Tindices sparse_values:T default_value:T -> dense:T
InvertPermutation: x:T T=type?DT_INT32 -> y:T
ReverseSequence: input:T seq_lengths:Tlen seq_dim=int batch_dim=int?0 Tlen=type?DT_INT64 -> output:T
TopK: input:T k=int>=0 -> values:T indices:i32
TopKV2: input:T k:Tk Tk=type?DT_INT32 index_type=type?DT_INT32 -> values:T indices:index_type
ApproxTopK: input:T k=int>=0 reduction_dimension=int?-1 recall_target=float?0.949999988 is_max_k=bool?true
    reduction_input_size_override=int?-1 aggregate_to_topk=bool?true -> values:T indices:i32
DataFormatDimMap DataFormatVecPermute: x:T T=type?DT_INT32 src_format=string?NHWC dst_format=string?NCHW ->
    y:T
"""


# Gathers: indices out of range are clamped to the nearest valid index.


def places_of(indices: XlaOp) -> XlaOp:
    """Indices converted to at least 32 bits: narrower types cannot hold the size of an array."""
    return ops.ConvertElementType(indices, np.int32) if indices.dtype.bits < 32 else indices


def take(value: XlaOp, indices: XlaOp, axis: int, batch: int = 0) -> XlaOp:
    """The slices of an array at `indices` along an axis; the dimensions of the indices replace the axis. The
    first `batch` dimensions of both `value` and `indices` are batch dimensions.
    """
    rank, extra = len(value.dims), len(indices.dims) - batch
    kept = [d for d in range(rank) if d != axis and d >= batch]
    dims = [d if d < axis else d + extra - 1 for d in kept]
    batches = list(range(batch))
    found = GatherDimensionNumbers(dims, [axis], [axis], len(indices.dims), batches, batches)
    windows = [size if d in kept else 1 for d, size in enumerate(value.dims)]
    if 0 in value.dims:  # no element can be gathered: the result is zeros
        whole = [*value.dims[:axis], *indices.dims[batch:], *value.dims[axis + 1 :]]
        return ops.Broadcast(ops.Zero(value.builder, value.dtype), whole)
    return ops.Gather(value, places_of(indices), found, windows)


@lowering("Gather", "GatherV2")
def _gather(call: OpCall, params: XlaOp, indices: XlaOp, axis: XlaOp | None = None) -> XlaOp:
    place = call.axis(call.integer(axis, "axis"), len(params.dims)) if axis is not None else 0
    return _gathered(call, params, indices, place, call.attributes.get("batch_dims", 0))


@lowering("ResourceGather")
def _resource_gather(call: OpCall, variable: Variable, indices: XlaOp) -> XlaOp:
    batch = call["batch_dims"]
    return _gathered(call, read(call, variable), indices, max(batch, 0), batch)


def _gathered(call: OpCall, params: XlaOp, indices: XlaOp, axis: int, batch_dims: int) -> XlaOp:
    batch = call.axis(batch_dims, len(indices.dims) + 1, "batch_dims") if batch_dims else 0
    if axis < batch or axis >= len(params.dims) or params.dims[:batch] != indices.dims[:batch]:
        call.fail(
            f"params has shape {list(params.dims)}, indices {list(indices.dims)}: they do not fit "
            f"axis {axis}, batch_dims {batch}"
        )
    return take(params, indices, axis, batch)


@lowering("GatherNd")
def _gather_nd(call: OpCall, params: XlaOp, indices: XlaOp) -> XlaOp:
    depth = _depth(call, params, indices)
    outer, inner = indices.dims[:-1], params.dims[depth:]
    if not depth:
        return ops.Broadcast(params, outer)
    if 0 in params.dims:
        return full(call, [*outer, *inner], params.dtype)
    rows, dims = list(range(depth)), list(range(len(outer), len(outer) + len(inner)))
    numbers = GatherDimensionNumbers(dims, rows, rows, len(outer))
    return ops.Gather(params, places_of(indices), numbers, [1] * depth + list(inner))


@lowering("ResourceGatherNd")
def _resource_gather_nd(call: OpCall, variable: Variable, indices: XlaOp) -> XlaOp:
    return _gather_nd(call, read(call, variable), indices)


def _depth(call: OpCall, value: XlaOp, indices: XlaOp) -> int:
    """The size of the rows of `indices`: the number of leading dimensions of `value` that a row indexes."""
    if not indices.dims or indices.dims[-1] > len(value.dims):
        call.fail(f"indices has shape {list(indices.dims)}, too wide for {len(value.dims)} dimensions")
    return indices.dims[-1]


@lowering("ReverseSequence")
def _reverse_sequence(call: OpCall, value: XlaOp, lengths: XlaOp) -> XlaOp:
    """Reverses the first elements of each sequence, as many as its length says."""
    rank = len(value.dims)
    batch, axis = call.axis(call["batch_dim"], rank), call.axis(call["seq_dim"], rank)
    if batch == axis or lengths.dims != (value.dims[batch],):
        call.fail(f"seq_lengths {list(lengths.dims)} does not fit {list(value.dims)}, batch_dim {batch}")
    order = [batch, axis, *(d for d in range(rank) if d not in (batch, axis))]
    rows = ops.Transpose(value, order)
    shape = Shape(lengths.dtype, rows.dims[:2])
    place, length = ops.Iota(call.builder, shape, 1), ops.BroadcastInDim(lengths, shape.dims, [0])
    place = ops.Select(place < length, length - 1 - place, place)
    return ops.Transpose(take(rows, place, 1, 1), np.argsort(order).tolist())


# Scatters: updates at indices out of range are dropped.


def combined(dtype: DType, kind: str) -> object:
    """The computation that combines an element with an update, of the kind Add, Sub, Mul, Div, Max, Min or
    Update, which returns the update.
    """
    if kind == "Update":
        builder = XlaBuilder("update")
        _, new = (builder.parameter(k, Shape(dtype), "xy"[k]) for k in range(2))
        return builder.build(new)
    kinds = {"Add": "Or", "Sub": "Xor", "Max": "Or", "Min": "And"} if dtype.is_pred else {}
    return combiner(kinds.get(kind, kind), dtype)


def scattered(target: XlaOp, indices: XlaOp, updates: XlaOp, kind: str) -> XlaOp:
    """An array with updates of the kind `kind`, such as Add, applied at the positions in the rows of
    `indices`.
    """
    if 0 in target.dims or 0 in updates.dims:
        return target
    depth, outer = indices.dims[-1], len(indices.dims) - 1
    rows, window = list(range(depth)), list(range(outer, outer + len(target.dims) - depth))
    numbers = ScatterDimensionNumbers(window, rows, rows, outer)
    return ops.Scatter(target, places_of(indices), updates, combined(target.dtype, kind), numbers)


@lowering(*(f"TensorScatter{kind}" for kind in ("Add", "Sub", "Max", "Min", "Update")))
def _scatter(call: OpCall, target: XlaOp, indices: XlaOp, updates: XlaOp, kind: str = "") -> XlaOp:
    """Checks shapes and applies updates to an array. The kind of the update is the end of the operation's
    name.
    """
    depth = _depth(call, target, indices)
    wanted = (*indices.dims[:-1], *target.dims[depth:])
    if not updates.dims:
        updates = ops.Broadcast(updates, wanted)
    of_dims(call, updates, wanted, "updates")
    kind = kind or call.node.op.rpartition("Scatter")[2].removeprefix("Nd")
    return scattered(target, indices, updates, kind)


@lowering("ScatterNd")
def _scatter_nd(call: OpCall, indices: XlaOp, updates: XlaOp, shape: XlaOp) -> XlaOp:
    zeros = full(call, shape_operand(call, shape), updates.dtype)
    return _scatter(call, zeros, indices, updates, "Add")


@lowering(*(f"ResourceScatterNd{kind}" for kind in ("Add", "Sub", "Max", "Min", "Update")))
def _resource_scatter_nd(call: OpCall, variable: Variable, indices: XlaOp, updates: XlaOp) -> None:
    assign(call, variable, _scatter(call, read(call, variable), indices, updates))


@lowering(*(f"ResourceScatter{kind}" for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Update")))
def _resource_scatter(call: OpCall, variable: Variable, indices: XlaOp, updates: XlaOp) -> None:
    rows = ops.Reshape(indices, (*indices.dims, 1))
    assign(call, variable, _scatter(call, read(call, variable), rows, updates))


@lowering("SparseToDense")
def _sparse_to_dense(call: OpCall, indices: XlaOp, shape: XlaOp, values: XlaOp, default: XlaOp) -> XlaOp:
    dims = shape_operand(call, shape, "output_shape")
    count = indices.dims[0] if indices.dims else 1
    rows = indices if len(indices.dims) == 2 else ops.Reshape(indices, (count, 1))
    if default.dims or rows.dims[1] != len(dims):
        call.fail(f"sparse_indices {list(indices.dims)}, default_value {list(default.dims)} do not fit")
    return _scatter(call, ops.Broadcast(default, dims), rows, values, "Update")


@lowering("InvertPermutation")
def _invert(call: OpCall, value: XlaOp) -> XlaOp:
    of_rank(call, value, 1, "x")
    places, rows = ops.Iota(call.builder, value.dtype, value.dims[0]), ops.Reshape(value, (*value.dims, 1))
    return scattered(ops.ZerosLike(value), rows, places, "Update")


# Top-k.


@lowering("TopK", "TopKV2")
def _top_k(call: OpCall, value: XlaOp, k: XlaOp | None = None) -> list[XlaOp]:
    count = call["k"] if k is None else call.integer(k, "k")
    if not value.dims or not 0 <= count <= value.dims[-1]:
        call.fail(f"k is {count}, not within the last dimension of shape {list(value.dims)}")
    found, places = ops.TopK(value, count)
    return [found, ops.ConvertElementType(places, S32 if k is None else call.dtype("index_type"))]


@lowering("ApproxTopK")
def _approx_top_k(call: OpCall, value: XlaOp) -> XlaOp:
    axis = call.axis(call["reduction_dimension"], len(value.dims), "reduction_dimension")
    sub = call.builder.sub_builder("comparator")
    shapes = [Shape(value.dtype)] * 2 + [Shape(S32)] * 2
    left, right, *_ = (sub.parameter(n, shape, f"p{n}") for n, shape in enumerate(shapes))
    better = sub.build(ops.Gt(left, right) if call["is_max_k"] else ops.Lt(left, right))
    first = np.array(-np.inf if call["is_max_k"] else np.inf, value.dtype.numpy)
    places = ops.Iota(call.builder, Shape(S32, value.dims), axis)
    return ops.ApproxTopK(
        call.builder, [value, places], [first, np.int32(-1)], call["k"], axis, better, call["recall_target"],
        call["aggregate_to_topk"], call["reduction_input_size_override"],
    )  # fmt: skip


# Formats of images.


def _places(call: OpCall, source: str, target: str) -> list[int]:
    if len(source) != len(target) or set(source) != set(target) or len(set(source)) != len(source):
        call.fail(f"formats {source!r} and {target!r} do not name the same dimensions")
    return [source.index(letter) for letter in target]


@lowering("DataFormatDimMap")
def _dim_map(call: OpCall, value: XlaOp) -> XlaOp:
    """Converts the numbers of dimensions from one data format to another."""
    found = _places(call, call["dst_format"], call["src_format"])
    table = call.scope.constant(np.array(found, value.dtype.numpy))
    return take(table, (value + len(found)) % len(found), 0)


@lowering("DataFormatVecPermute")
def _vec_permute(call: OpCall, value: XlaOp) -> XlaOp:
    """Permutes a vector with an entry per dimension (or per spatial dimension) from one data format to
    another.
    """
    source, target = call["src_format"], call["dst_format"]
    if value.dims[:1] == (len(source) - 2,):
        source, target = (f.translate(str.maketrans("", "", "NC")) for f in (source, target))
    if value.dims not in ((len(source),), (len(source), 2)):
        call.fail(f"the operand's shape {list(value.dims)} does not fit {source!r} and {target!r}")
    return take(value, call.scope.constant(np.array(_places(call, source, target))), 0)
