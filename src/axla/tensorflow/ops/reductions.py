"""Reductions, sums along dimensions, counts, ranges."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

import axla.hlo as hlo
import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import F32, F64, S64
from axla.core.shape import Shape
from axla.tensorflow.ops.common import neutral, of_dims, reduced, widened
from axla.tensorflow.ops.indexing import scattered
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall, matched

RECORDS = """
Sum Prod Max Min Mean EuclideanNorm: input:T reduction_indices:Tidx keep_dims=bool?false Tidx=type?DT_INT32 ->
    output:T
Any All: input:DT_BOOL reduction_indices:Tidx keep_dims=bool?false Tidx=type?DT_INT32 -> output:DT_BOOL
L2Loss: t:T -> output:T
ArgMax ArgMin: input:T dimension:Tidx Tidx=type?DT_INT32 output_type=type?DT_INT64 -> output:output_type
Cumsum Cumprod CumulativeLogsumexp: x:T axis:Tidx exclusive=bool?false reverse=bool?false Tidx=type?DT_INT32
    -> out:T
Bincount: arr:i32 size:i32 weights:T -> bins:T
DenseBincount: input:Tidx size:Tidx weights:T binary_output=bool?false -> output:T
HistogramFixedWidth: values:T value_range:T nbins:i32 dtype=type?DT_INT32 -> out:dtype
Bucketize: input:T boundaries=list(float) -> output:i32
LowerBound UpperBound: sorted_inputs:T values:T out_type=type?DT_INT32 -> output:out_type
InTopK: predictions:f32 targets:T k=int T=type?DT_INT32 -> precision:DT_BOOL
InTopKV2: predictions:f32 targets:T k:T T=type?DT_INT32 -> precision:DT_BOOL
NthElement: input:T n:i32 reverse=bool?false -> values:T
Range: start:Tidx limit:Tidx delta:Tidx Tidx=type?DT_INT32 -> output:Tidx
LinSpace: start:T stop:T num:Tidx Tidx=type?DT_INT32 -> output:T
"""


# Reductions over given dimensions.


_OPCODES = {
    "Sum": "Add", "Prod": "Mul", "Max": "Max", "Min": "Min", "Any": "Or", "All": "And", "Mean": "Add",
    "EuclideanNorm": "Add",
}  # fmt: skip


@lowering(*_OPCODES)
def _reduce(call: OpCall, x: XlaOp, indices: XlaOp) -> XlaOp:
    """Reduces the dimensions in `indices`; with `keep_dims`, the result has size 1 in these dimensions."""
    op, opcode, rank = call.node.op, _OPCODES[call.node.op], len(x.dims)
    dims = [call.axis(n, rank) for n in call.integers(indices, "the dimensions of the reduction")]
    if len(set(dims)) < len(dims):
        call.fail(f"a dimension occurs twice in {dims}")
    is_norm = op == "EuclideanNorm"
    is_sum = opcode in ("Add", "Mul") and not (is_norm and x.dtype.is_integer)
    values = widened(x) if is_sum else x
    found = reduced(values * ops.Conj(values) if is_norm else values, dims, opcode)
    if op == "Mean":
        found = found / np.asarray(math.prod(x.dims[d] for d in dims)).astype(found.dtype.numpy)
    if is_norm:
        found = ops.Sqrt(ops.ConvertElementType(found, "f64") if found.dtype.is_integer else found)
    if call["keep_dims"]:
        found = ops.Reshape(found, [1 if d in dims else size for d, size in enumerate(x.dims)])
    return ops.ConvertElementType(found, x.dtype)


@lowering("L2Loss")
def _l2_loss(call: OpCall, x: XlaOp) -> XlaOp:
    """Half the sum of the squares."""
    total = reduced(widened(x) * widened(x), range(len(x.dims)), "Add")
    return ops.ConvertElementType(total * 0.5, x.dtype)


@lowering("ArgMax", "ArgMin")
def _arg_extreme(call: OpCall, x: XlaOp, dimension: XlaOp) -> XlaOp:
    """The index of the first largest or smallest number along a dimension; NaN is ignored."""
    at = call.axis(call.integer(dimension, "the dimension"), len(x.dims), "the dimension")
    if not x.dims[at]:
        call.fail(f"there are no elements along dimension {at} of shape {list(x.dims)}")
    opcode = "Max" if call.node.op == "ArgMax" else "Min"
    if x.dtype.is_pred:
        x = ops.ConvertElementType(x, "u8")
    if x.dtype.is_float:
        x = ops.Select(x != x, neutral(opcode, x.dtype), x)
    best = ops.BroadcastInDim(reduced(x, [at], opcode), x.dims, [d for d in range(len(x.dims)) if d != at])
    places = ops.Iota(x.builder, Shape(call.dtype("output_type"), x.dims), at)
    last = np.asarray(x.dims[at] - 1).astype(places.dtype.numpy)
    return reduced(ops.Select(x == best, places, last), [at], "Min")


# Cumulative sums along a dimension.


@lowering("Cumsum", "Cumprod", "CumulativeLogsumexp")
def _cumulative(call: OpCall, x: XlaOp, axis: XlaOp) -> XlaOp:
    """For each element, combines the elements before it along a dimension and, unless the node is exclusive,
    the element itself. If the node is reversed, the elements after it take the place of those before it.
    """
    at = call.axis(call.integer(axis, "the axis"), len(x.dims))
    combine, start = _CUMULATIVE[call.node.op]
    if not x.shape.size:
        return x
    values = widened(x)
    step = call.builder.sub_builder(call.node.op)
    shape = Shape(values.dtype, (*x.dims[:at], *x.dims[at + 1 :]))
    value, before = (step.parameter(number, shape, f"p{number}") for number in range(2))
    after = combine(before, value)
    body = step.build(ops.Tuple(step, [before if call["exclusive"] else after, after]))
    op = hlo.Scan((at,), 1, call["reverse"], True, call.builder.callee(body, call.node.op))
    first = ops.Broadcast(call.builder.constant(np.asarray(start).astype(values.dtype.numpy)), shape.dims)
    found = ops.GetTupleElement(call.builder.add(op, [values, first]), 0)
    return ops.ConvertElementType(found, x.dtype)


def _log_sum_exp(x: XlaOp, y: XlaOp) -> XlaOp:
    """log(exp(x) + exp(y)) without overflow."""
    high, low = ops.Max(x, y), ops.Min(x, y)
    return ops.Select(high == low, high + math.log(2), high + ops.Log1p(ops.Exp(low - high)))


_CUMULATIVE: dict[str, tuple[Callable[[XlaOp, XlaOp], XlaOp], float]] = {
    "Cumsum": (ops.Add, 0), "Cumprod": (ops.Mul, 1), "CumulativeLogsumexp": (_log_sum_exp, -math.inf),
}  # fmt: skip
"""For each operation, the function that combines two numbers, and the neutral element of the function."""


# Counts.


@lowering("Bincount", "DenseBincount")
def _bincount(call: OpCall, values: XlaOp, size: XlaOp, weights: XlaOp) -> XlaOp:
    """For each number below `size`, its count among the values, or the sum of its weights. DenseBincount
    counts in each row of a matrix. With `binary_output`, the result is 1 for numbers that occur.
    """
    is_dense, is_binary = call.node.op == "DenseBincount", call.attributes.get("binary_output", False)
    if is_dense and len(values.dims) not in (1, 2):
        call.fail(f"the values have shape {list(values.dims)}, wanted a vector or matrix")
    is_weighted = weights.dims == values.dims and values.dims != (0,)
    if weights.shape.size and not is_weighted:
        call.fail(f"weights of shape {list(weights.dims)} do not fit values of shape {list(values.dims)}")
    kept = values.dims[:-1] if is_dense else ()
    rows = ops.Reshape(values, [math.prod(kept), values.dims[-1] if is_dense else values.shape.size])
    updates = ops.Reshape(weights, rows.dims) if is_weighted and not is_binary else None
    count = call.integer(size, "the number of bins")
    if count < 0:
        call.fail(f"the number of bins is {count}, wanted at least 0")
    dtype = call.dtype("T")
    if updates is None:
        updates = ops.Broadcast(ops.One(call.builder, dtype), rows.dims)
    zeros = ops.Broadcast(ops.Zero(call.builder, dtype), [rows.dims[0], count])
    row = ops.Iota(call.builder, Shape(rows.dtype, (*rows.dims, 1)), 0)
    places = ops.ConcatInDim(call.builder, [row, ops.Reshape(rows, [*rows.dims, 1])], 2)
    found = scattered(zeros, places, updates, "Max" if is_binary else "Add")
    return ops.Reshape(found, [*kept, count])


@lowering("HistogramFixedWidth")
def _histogram(call: OpCall, values: XlaOp, limits: XlaOp, size: XlaOp) -> XlaOp:
    """The number of values in each of `size` equal parts of the range `limits`. Values outside are counted in
    the first or last part.
    """
    count = call.integer(size, "the number of bins")
    of_dims(call, limits, (2,), "value_range")
    if count < 1:
        call.fail(f"there are {count} bins, wanted at least one")
    low, high = limits
    place = ops.Floor((values - low) / (high - low) * float(count))
    place = ops.ConvertElementType(ops.Clamp(0.0, place, count - 1.0), "s32")
    bins = ops.Iota(call.builder, Shape(place.dtype, (count, *values.dims)), 0)
    is_there = ops.BroadcastInDim(place, bins.dims, range(1, len(bins.dims))) == bins
    return _count(is_there, range(1, len(bins.dims)), call.dtype("dtype"))


def _count(flags: XlaOp, dims: Sequence[int], dtype: object) -> XlaOp:
    """The number of true flags along dimensions."""
    return reduced(ops.ConvertElementType(flags, dtype), dims, "Add")


@lowering("Bucketize")
def _bucketize(call: OpCall, x: XlaOp) -> XlaOp:
    """For each number, the count of boundaries that are less than or equal to it."""
    limits = np.asarray(call["boundaries"], np.float32)
    if (limits[1:] < limits[:-1]).any():
        call.fail(f"the boundaries {limits.tolist()} are not sorted")
    values = x if x.dtype.is_float else ops.ConvertElementType(x, F32)
    bounds = call.builder.constant(limits.astype(values.dtype.numpy))
    values, bounds = matched(ops.Reshape(values, [*x.dims, 1]), bounds)
    return _count(values >= bounds, [len(x.dims)], "s32")


@lowering("LowerBound", "UpperBound")
def _bound(call: OpCall, rows: XlaOp, values: XlaOp) -> XlaOp:
    """For each value, the count of numbers in the sorted row that are less than it (UpperBound: or equal to
    it).
    """
    if len(rows.dims) != 2 or len(values.dims) != 2 or rows.dims[0] != values.dims[0]:
        found = f"{list(rows.dims)} and {list(values.dims)}"
        call.fail(f"wanted two matrices with equally many rows, found shapes {found}")
    dims = (*values.dims, rows.dims[1])
    numbers, wanted = ops.BroadcastInDim(rows, dims, [0, 2]), ops.BroadcastInDim(values, dims, [0, 1])
    is_before = numbers < wanted if call.node.op == "LowerBound" else numbers <= wanted
    return _count(is_before, [2], call.dtype("out_type"))


@lowering("InTopK", "InTopKV2")
def _in_top_k(call: OpCall, rows: XlaOp, targets: XlaOp, *given: XlaOp) -> XlaOp:
    """For each row, whether fewer than k elements are larger than the element whose index `targets` has for
    the row; false if an element of the row is not finite.
    """
    if len(rows.dims) != 2 or targets.dims != rows.dims[:1]:
        call.fail(f"predictions of shape {list(rows.dims)} do not fit targets of {list(targets.dims)}")
    places = ops.Iota(call.builder, Shape(targets.dtype, rows.dims), 1)
    is_target = places == ops.BroadcastInDim(targets, rows.dims, [0])
    value = reduced(ops.Select(is_target, rows, ops.ZerosLike(rows)), [1], "Add")
    larger = _count(rows > ops.BroadcastInDim(value, rows.dims, [0]), [1], "s64")
    is_valid = reduced(is_target, [1], "Or") & reduced(ops.IsFinite(rows), [1], "And")
    limit = ops.ConvertElementType(given[0], "s64") if given else np.int64(call["k"])
    return is_valid & (larger < limit)


@lowering("NthElement")
def _nth_element(call: OpCall, x: XlaOp, n: XlaOp) -> XlaOp:
    """The element that has position n in each row after sorting."""
    place = call.integer(n, "n")
    if not x.dims or not 0 <= place < x.dims[-1]:
        call.fail(f"n is {place}, which is not a position in rows of shape {list(x.dims)}")
    place = x.dims[-1] - 1 - place if call["reverse"] else place
    return ops.Sort(call.builder, [x])[..., place]


# Ranges.


_MOST_KNOWN = 1 << 16
"""The length of the longest range that becomes a constant; longer ranges are computed by the program."""


@lowering("Range")
def _range(call: OpCall, *limits: XlaOp) -> XlaOp | np.ndarray:
    names = ("start", "limit", "delta")
    known = [call.constant(value, f"'{name}'") for name, value in zip(names, limits, strict=True)]
    if any(value.ndim for value in known):
        call.fail("its operands must be scalars")
    dtype = call.dtype("Tidx")
    number = float if dtype.is_float else int
    start, limit, delta = (number(value) for value in known)
    if not delta or (limit - start) * delta < 0:
        call.fail(f"there is no range from {start} to {limit} in steps of {delta}")
    count = math.ceil((limit - start) / delta) if dtype.is_float else -(-(limit - start) // delta)
    if count > _MOST_KNOWN:
        places = ops.Iota(call.builder, F64 if dtype.is_float else S64, count)
        return ops.ConvertElementType(places * delta + start, dtype)
    return (start + delta * np.arange(count)).astype(dtype.numpy)


@lowering("LinSpace")
def _lin_space(call: OpCall, start: XlaOp, stop: XlaOp, num: XlaOp) -> XlaOp:
    """`num` numbers at equal distances, from `start` to `stop`."""
    count = call.integer(num, "the number of values")
    if count < 1 or start.dims or stop.dims:
        call.fail(
            f"num is {count}, start {list(start.dims)}, stop {list(stop.dims)}; wanted num > 0, and scalars"
        )
    places = ops.Iota(call.builder, start.dtype, count)
    step = (stop - start) / float(max(count - 1, 1))
    return ops.Select(places == float(max(count - 1, 1)), stop, start + step * places)
