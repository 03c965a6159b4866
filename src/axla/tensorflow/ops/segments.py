"""Operations that combine rows by segment numbers, or copy rows to given positions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import S32, DType
from axla.tensorflow.ops.arrays import full
from axla.tensorflow.ops.common import reduced, require, taken, widened
from axla.tensorflow.ops.indexing import scattered, take
from axla.tensorflow.ops.sets import shortened
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall

RECORDS = """
SegmentSumV2 SegmentProdV2 SegmentMaxV2 SegmentMinV2 UnsortedSegmentSum UnsortedSegmentProd UnsortedSegmentMax
    UnsortedSegmentMin: data:T segment_ids:Tindices num_segments:Tnumsegments Tnumsegments=type?DT_INT32 ->
    output:T
SegmentSum SegmentProd SegmentMax SegmentMin SegmentMean: data:T segment_ids:Tindices -> output:T
SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN: data:T indices:Tidx segment_ids:Tsegmentids
    Tidx=type?DT_INT32 Tsegmentids=type?DT_INT32 -> output:T
DynamicStitch ParallelDynamicStitch: indices:N*i32 data:N*T N=int>=1 -> merged:T
"""

_KINDS = {"Sum": "Add", "Prod": "Mul", "Max": "Max", "Min": "Min"}


def _start(dtype: DType, kind: str) -> float:
    """The value of a segment without rows: 0 for Add, 1 for Mul, the lowest finite number for Max, the
    highest for Min.
    """
    if kind in ("Add", "Mul"):
        return int(kind == "Mul")
    limits: Any = ml_dtypes.finfo(dtype.numpy) if dtype.is_float else ml_dtypes.iinfo(dtype.numpy)
    return limits.min if kind == "Max" else limits.max


def _combined(call: OpCall, data: XlaOp, ids: XlaOp, count: int, kind: str) -> XlaOp:
    """Combines the rows of each of `count` segments by `kind`: Add, Mul, Max or Min. Rows whose segment
    number is out of range are ignored.
    """
    rank = len(ids.dims)
    if data.dims[:rank] != ids.dims:
        call.fail(f"segment_ids of shape {list(ids.dims)} do not fit data of shape {list(data.dims)}")
    if count < 0:
        call.fail(f"num_segments is {count}, wanted at least 0")
    target = full(call, [count, *data.dims[rank:]], data.dtype, _start(data.dtype, kind))
    return scattered(target, ops.Reshape(ids, (*ids.dims, 1)), data, kind)


@lowering(
    *(f"{name}{kind}{end}" for kind in _KINDS for name, end in (("Segment", "V2"), ("UnsortedSegment", "")))
)
def _segments(call: OpCall, data: XlaOp, ids: XlaOp, count: XlaOp) -> XlaOp:
    kind = call.node.op.partition("Segment")[2].removesuffix("V2")
    return _combined(call, data, ids, call.integer(count, "num_segments"), _KINDS[kind])


@lowering("SegmentSum", "SegmentProd", "SegmentMax", "SegmentMin", "SegmentMean")
def _sorted_segments(call: OpCall, data: XlaOp, ids: XlaOp) -> XlaOp:
    """Combines the rows of each segment: Sum, Prod, Max, Min, Mean, or SqrtN, sums divided by the square root
    of the number of rows. The last segment number decides the number of segments. A segment without rows is
    0, or 1 for products. If the numbers are not constant, the result has the static size of `ids`.
    """
    if len(ids.dims) != 1:
        call.fail(f"segment_ids has shape {list(ids.dims)}, wanted a vector")
    numbers, name = call.scope.known(ids), call.node.op.partition("Segment")[2]
    limit = ids.dims[0] if numbers is None else int(numbers.max(initial=-1)) + 1
    data, ids, count = _checked(call, data, ids, limit)
    found = _combined(call, widened(data), ids, limit, _KINDS.get(name, "Add"))
    rows = _combined(call, full(call, ids.dims, S32, 1), ids, limit, "Add")
    rows = ops.BroadcastInDim(rows, found.dims, [0])
    if name in ("Max", "Min"):
        found = ops.Select(rows > 0, found, ops.ZerosLike(found))
    elif name in ("Mean", "SqrtN"):
        divisor = ops.ConvertElementType(ops.Max(rows, 1), found.dtype)
        found /= ops.Sqrt(divisor) if name == "SqrtN" else divisor
    return shortened(call, ops.ConvertElementType(found, data.dtype), count)


def _checked(call: OpCall, data: XlaOp, ids: XlaOp, limit: int) -> tuple[XlaOp, XlaOp, XlaOp]:
    """The rows, their segment numbers, both with static sizes, and the number of segments. Elements beyond a
    dynamic size get the number `limit`, which is no segment. A run fails unless the numbers ascend from 0 on
    and are less than `limit`.
    """
    there = ops.GetDimensionSize(ids, 0)
    real = ops.Iota(call.builder, np.int32, ids.dims[0]) < there
    ids = ops.Select(real, ops.RemoveDynamicDimension(ids, 0), limit)
    fine = ops.Eq(ids < limit, real) & (ids >= ops.PadInDim(ids, ops.Zero(call.builder, ids.dtype), 0, 1, -1))
    truth = reduced(fine, [0], "And") & ops.Eq(ops.GetDimensionSize(data, 0), there)
    require(call, truth, f"segment_ids must be one for each row, ascend from 0 on and be less than {limit}")
    last = reduced(ops.Select(real, ids, -1), [0], "Max")
    count = ops.ConvertElementType(ops.Clamp(-1, last, limit - 1), S32) + 1
    return ops.RemoveDynamicDimension(data, 0), ids, count


@lowering("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
def _sparse_segments(call: OpCall, data: XlaOp, indices: XlaOp, ids: XlaOp) -> XlaOp:
    inside = (indices >= 0) & (indices < data.dims[0])
    truth = reduced(inside, range(len(indices.dims)), "And")
    require(call, truth, f"indices must be from 0 to {data.dims[0] - 1}")
    return _sorted_segments(call, take(data, indices, 0), ids)


@lowering("DynamicStitch", "ParallelDynamicStitch")
def _stitch(call: OpCall, indices: list[XlaOp], data: list[XlaOp]) -> XlaOp:
    """The rows of several arrays at the positions in `indices`. If several rows have the same position, the
    last one is used.
    """
    rest = data[0].dims[len(indices[0].dims) :]
    for number, (index, value) in enumerate(zip(indices, data, strict=True)):
        if value.dims != (*index.dims, *rest):
            call.fail(f"data {number} has shape {list(value.dims)}, wanted {[*index.dims, *rest]}")
    known = [call.constant(index, "indices").reshape(-1) for index in indices]
    places = np.concatenate(known).astype(np.int64)
    count = int(places.max(initial=-1)) + 1
    if places.min(initial=0) < 0 or len(np.unique(places)) < count:
        call.fail("indices do not name every row of the result")
    source = np.zeros(count, np.int64)
    source[places] = np.arange(len(places))
    rows = [ops.Reshape(value, [len(index), *rest]) for index, value in zip(known, data, strict=True)]
    return taken(ops.ConcatInDim(call.builder, rows, 0), 0, source)
