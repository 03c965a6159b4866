"""Operations that select elements by their values. The number of selected elements is the dynamic size of a
dimension; it is known at compile time only for constant values.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import PRED, S32, S64
from axla.core.shape import Shape
from axla.tensorflow.ops.arrays import full, reshaped
from axla.tensorflow.ops.common import of_rank, reduced
from axla.tensorflow.ops.indexing import scattered, take
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall

RECORDS = """
Where: input:T T=type?DT_BOOL -> index:i64
Unique: x:T out_idx=type?DT_INT32 -> y:T idx:out_idx
UniqueV2: x:T axis:Taxis Taxis=type?DT_INT64 out_idx=type?DT_INT32 -> y:T idx:out_idx
UniqueWithCounts: x:T out_idx=type?DT_INT32 -> y:T idx:out_idx count:out_idx
UniqueWithCountsV2: x:T axis:Taxis Taxis=type?DT_INT64 out_idx=type?DT_INT32 -> y:T idx:out_idx count:out_idx
ListDiff: x:T y:T out_idx=type?DT_INT32 -> out:T idx:out_idx
DynamicPartition: data:T partitions:i32 num_partitions=int>=1 -> outputs:num_partitions*T
"""


def chosen(mask: XlaOp) -> tuple[XlaOp, XlaOp]:
    """The positions of the true elements of a vector, in order, padded with the vector's size; and the number
    of true elements.
    """
    size = mask.dims[0]
    places = ops.Iota(mask.builder, np.int32, size)
    if mask.shape.dynamic[0]:
        mask = ops.RemoveDynamicDimension(mask, 0) & (places < ops.GetDimensionSize(mask, 0))
    order = ops.Sort(mask.builder, [ops.Select(mask, places, size)])
    return order, reduced(ops.ConvertElementType(mask, np.int32), [0], "Add")


def shortened(call: OpCall, rows: XlaOp, count: XlaOp) -> XlaOp:
    """The first `count` rows of an array. A count that is not constant is the result's dynamic size."""
    known = call.scope.known(count)
    if known is not None:
        return rows[: int(known)]
    return ops.SetDimensionSize(rows, count, 0)


@lowering("Where")
def _where(call: OpCall, value: XlaOp) -> XlaOp:
    dims = value.dims
    if not dims:
        call.fail("the operand is a scalar, wanted an array")
    if 0 in dims:
        return full(call, (0, len(dims)), S64)
    mask = value if value.dtype.is_pred else ops.Ne(value, ops.ZerosLike(value))
    order, count = chosen(reshaped(mask, [prod(dims)], 0))
    rest = ops.ConvertElementType(order, S64)
    columns = [_column(rest / prod(dims[d + 1 :]) % size) for d, size in enumerate(dims)]
    return shortened(call, ops.ConcatInDim(call.builder, columns, 1), count)


@lowering("ListDiff")
def _list_diff(call: OpCall, value: XlaOp, others: XlaOp) -> list[XlaOp]:
    """The elements of a vector that do not occur in `others`, and the positions of these elements."""
    of_rank(call, value, 1, "x")
    of_rank(call, others, 1, "y")
    if not value.dims[0]:
        return [value, full(call, (0,), call.dtype("out_idx"))]
    grid = (value.dims[0], others.dims[0])
    same = ops.Eq(ops.BroadcastInDim(value, grid, [0]), ops.BroadcastInDim(others, grid, [1]))
    order, count = chosen(ops.Not(reduced(same, [1], "Or")))
    places = ops.ConvertElementType(order, call.dtype("out_idx"))
    return [shortened(call, found, count) for found in (take(value, order, 0), places)]


@lowering("DynamicPartition")
def _partition(call: OpCall, data: XlaOp, partitions: XlaOp) -> list[XlaOp]:
    """The rows of each partition, as a list by partition number."""
    rank = len(partitions.dims)
    if data.dims[:rank] != partitions.dims:
        call.fail(f"partitions of shape {list(partitions.dims)} do not fit data of {list(data.dims)}")
    size = prod(partitions.dims)
    rows = ops.Reshape(data, [size, *data.dims[rank:]])
    if not size:
        return [rows] * call["num_partitions"]
    flat, found = ops.Reshape(partitions, [size]), []
    for number in range(call["num_partitions"]):
        order, count = chosen(ops.Eq(flat, number))
        found.append(shortened(call, take(rows, order, 0), count))
    return found


# Distinct elements.


@lowering("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")
def _unique(call: OpCall, value: XlaOp, axis: XlaOp | None = None) -> list[XlaOp]:
    """The distinct elements, or slices along an axis, in order of first occurrence; for each element, the
    index of its distinct value; with `WithCounts`, also the count of each distinct value.
    """
    places = call.integers(axis, "axis") if axis is not None else ()
    if len(places) > 1 or not places and len(value.dims) != 1:
        call.fail(f"axis {list(places)} does not select one dimension of shape {list(value.dims)}")
    at = call.axis(places[0], len(value.dims)) if places else 0
    front = [at, *(d for d in range(len(value.dims)) if d != at)]
    rows, dtype, size = ops.Transpose(value, front), call.dtype("out_idx"), value.dims[at]
    if not size:
        return [value, *[full(call, (0,), dtype)] * (len(call.node.types or ()) - 1)]
    numbers, there = ops.Iota(call.builder, np.int32, size), None
    if value.shape.dynamic[at]:
        there = ops.GetDimensionSize(value, at)
        rows = ops.RemoveDynamicDimension(rows, 0)
    behind = [numbers >= there] if there is not None else []
    order, group = _groups(call, [*behind, *_keys(rows)])
    first = scattered(full(call, (size,), S32, size), _column(group), order, "Min")
    found = ops.Sort(call.builder, [first])
    count = reduced(group if there is None else ops.Select(order < there, group, -1), [0], "Max") + 1
    number = scattered(numbers, _column(found), numbers, "Update")
    index = scattered(numbers, _column(order), take(number, take(first, group, 0), 0), "Update")
    differing = ops.Transpose(shortened(call, take(rows, found, 0), count), np.argsort(front).tolist())
    whole = index if there is None else ops.SetDimensionSize(index, there, 0)
    results = [differing, ops.ConvertElementType(whole, dtype)]
    if "WithCounts" in call.node.op:
        often = scattered(full(call, (size,), dtype), _column(index), full(call, (size,), dtype, 1), "Add")
        results.append(shortened(call, often, count))
    return results


def _column(indices: XlaOp) -> XlaOp:
    return ops.Reshape(indices, (*indices.dims, 1))


def _keys(rows: XlaOp) -> list[XlaOp]:
    """For each column of the rows, a vector of numbers: rows are equal if all these numbers are. 0 and -0 are
    equal.
    """
    size, width = rows.dims[0], prod(rows.dims[1:])
    flat = ops.Reshape(rows, [size, width])
    if flat.dtype.is_pred:
        flat = ops.ConvertElementType(flat, np.uint8)
    halves = [ops.Real(flat), ops.Imag(flat)] if flat.dtype.is_complex else [flat]
    halves = [ops.Select(half == 0, ops.ZerosLike(half), half) for half in halves]
    return [half[:, at] for at in range(width) for half in halves]


def _groups(call: OpCall, keys: Sequence[XlaOp]) -> tuple[XlaOp, XlaOp]:
    """The positions of elements in the order of their keys; and, in this order, the number of each element's
    group of equal elements. Each of `keys` has a number for each element.
    """
    if not keys:
        call.fail("slices along the axis have no elements")
    size = keys[0].dims[0]
    values = [*keys, ops.Iota(call.builder, np.int32, size)]
    *ordered, order = ops.Sort(call.builder, values, _before(call, values), 0, True)
    changes = full(call, (size - 1,), PRED)
    for key in ordered:
        changes |= ops.Ne(key[1:], key[:-1])
    group, step = ops.PadInDim(changes.astype(np.int32), np.int32(0), 0, 1, 0), 1
    while step < size:  # computes prefix sums by doubling
        group += ops.PadInDim(group[: size - step], np.int32(0), 0, step, 0)
        step *= 2
    return order, group


def _before(call: OpCall, values: Sequence[XlaOp]) -> object:
    """The comparator for sorting `values` by the first of them that differs. The last one has positions and
    is not compared.
    """
    sub = call.builder.sub_builder("comparator")
    shapes = [Shape(value.dtype) for value in values for _ in range(2)]
    given = [sub.parameter(number, shape, f"p{number}") for number, shape in enumerate(shapes)]
    pairs = list(zip(given[::2], given[1::2], strict=True))[:-1]
    found = ops.LtTotalOrder(*pairs[-1])
    for left, right in reversed(pairs[:-1]):
        found = ops.LtTotalOrder(left, right) | (ops.EqTotalOrder(left, right) & found)
    return sub.build(found)
