"""The largest number, or the average, of each window; and the gradients of that."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

import axla.ops as ops
from axla.builder.iteration import combiner
from axla.builder.xla_builder import XlaComputation, XlaOp
from axla.core.shape import Shape
from axla.tensorflow.ops import windows
from axla.tensorflow.ops.common import lowest, widened
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import Call
from axla.tensorflow.values import parts

RECORDS = """
MaxPool: input:T T=type?DT_FLOAT ksize=ints>=4 strides=ints>=4 padding=all_edges explicit_paddings=ints?[]
    data_format=vectors?NHWC -> output:T
MaxPoolV2: input:T ksize:i32 strides:i32 T=type?DT_FLOAT padding=edges data_format=vectors?NHWC -> output:T
MaxPool3D: input:T ksize=ints>=5 strides=ints>=5 padding=edges data_format=volumes?NDHWC T=type -> output:T
MaxPoolGrad: orig_input:T orig_output:T grad:T ksize=ints>=4 strides=ints>=4 padding=all_edges
    explicit_paddings=ints?[] data_format=images?NHWC T=type?DT_FLOAT -> output:T
MaxPoolGradV2 MaxPoolGradGradV2: orig_input:T orig_output:T grad:T ksize:i32 strides:i32 padding=edges
    data_format=images?NHWC T=type?DT_FLOAT -> output:T
MaxPoolGradGrad: orig_input:T orig_output:T grad:T ksize=ints>=4 strides=ints>=4 padding=edges
    data_format=images?NHWC T=type -> output:T
MaxPool3DGrad: orig_input:TInput orig_output:TInput grad:T ksize=ints>=5 strides=ints>=5 padding=edges
    data_format=volumes?NDHWC T=type?DT_FLOAT TInput=type?DT_FLOAT -> output:T
MaxPool3DGradGrad: orig_input:T orig_output:T grad:T ksize=ints>=5 strides=ints>=5 padding=edges
    data_format=volumes?NDHWC T=type -> output:T
MaxPoolWithArgmax: input:T ksize=ints>=4 strides=ints>=4 Targmax=type?DT_INT64 padding=edges
    include_batch_in_index=bool?false T=type -> output:T argmax:Targmax
AvgPool: value:T ksize=ints>=4 strides=ints>=4 padding=edges data_format=images?NHWC T=type -> output:T
AvgPool3D: input:T ksize=ints>=5 strides=ints>=5 padding=edges data_format=volumes?NDHWC T=type -> output:T
AvgPoolGrad: orig_input_shape:i32 grad:T ksize=ints>=4 strides=ints>=4 padding=edges data_format=images?NHWC
    T=type -> output:T
AvgPool3DGrad: orig_input_shape:i32 grad:T ksize=ints>=5 strides=ints>=5 padding=edges
    data_format=volumes?NDHWC T=type -> output:T
"""


def _windows(call: Call, dims: Sequence[int], sizes: list[XlaOp]) -> list[windows.Steps]:
    """How the windows go over each dimension; `sizes` are the operands ksize and strides, or nothing where
    they are attributes.
    """
    rank = 5 if "3D" in call.node.op else 4
    if len(dims) != rank:
        call.fail(f"images of shape {list(dims)}, wanted {rank} dimensions")
    given = [call.integers(size, "ksize or strides") for size in sizes] or [call["ksize"], call["strides"]]
    size, strides = (
        windows.numbers_of(call, numbers, rank, what)
        for numbers, what in zip(given, ("ksize", "strides"), strict=True)
    )
    return windows.steps_of(call, dims, size, strides, [1] * rank)


def _over_windows(
    values: list[XlaOp], starts: list[XlaOp], step: XlaComputation, steps: list[windows.Steps]
) -> XlaOp:
    padding = [(s.low, s.high) for s in steps]
    sizes, strides = [s.size for s in steps], [s.stride for s in steps]
    return ops.ReduceWindowWithGeneralPadding(values, starts, step, sizes, strides, (), (), padding)


# The largest number.


@lowering("MaxPool", "MaxPoolV2", "MaxPool3D")
def _max_pool(call: Call, x: XlaOp, *sizes: XlaOp) -> XlaOp:
    vectors = call["data_format"] == windows.VECTORS
    images = windows.joined_vectors(call, x) if vectors else x
    steps = _windows(call, images.dims, list(sizes))
    found = _over_windows([images], [lowest(images)], combiner("Max", x.dtype), steps)
    return windows.split_vectors(found, x.dims[-1]) if vectors else found


@lowering("MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad")
def _max_pool_grad(call: Call, x: XlaOp, y: XlaOp, gradient: XlaOp, *sizes: XlaOp) -> XlaOp:
    """The gradient of each window goes to its first largest number."""
    steps = _windows(call, x.dims, list(sizes))
    windows.of_dims(call, y, [s.count for s in steps], "orig_output")
    windows.of_dims(call, gradient, y.dims, "grad")
    x, dtype = ops.ConvertElementType(x, gradient.dtype), gradient.dtype
    return ops.SelectAndScatterWithGeneralPadding(
        x, combiner("Ge", dtype), [s.size for s in steps], [s.stride for s in steps],
        [(s.low, s.high) for s in steps], gradient, ops.Zero(x.builder, dtype), combiner("Add", dtype),
    )  # fmt: skip


@lowering("MaxPoolGradGrad", "MaxPoolGradGradV2", "MaxPool3DGradGrad")
def _max_pool_grad_grad(call: Call, x: XlaOp, y: XlaOp, gradient: XlaOp, *sizes: XlaOp) -> XlaOp:
    """What `gradient` is at the first largest number of each window."""
    steps = _windows(call, x.dims, list(sizes))
    windows.of_dims(call, y, [s.count for s in steps], "orig_output")
    windows.of_dims(call, gradient, x.dims, "grad")
    return _first_largest(x, gradient, steps)[1]


@lowering("MaxPoolWithArgmax")
def _max_pool_with_argmax(call: Call, x: XlaOp) -> Sequence[XlaOp]:
    """The largest numbers, and the places of the first of them: in their image, or among all."""
    steps, wanted = _windows(call, x.dims, []), call.dtype("Targmax")
    firsts = 0 if call["include_batch_in_index"] else 1
    count = prod(x.dims[firsts:])
    places = ops.Reshape(ops.Iota(x.builder, wanted, count), x.dims[firsts:])
    places = ops.BroadcastInDim(places, x.dims, list(range(firsts, len(x.dims))))
    return _first_largest(x, places, steps)


def _first_largest(x: XlaOp, other: XlaOp, steps: list[windows.Steps]) -> list[XlaOp]:
    """The largest number of each window, and what `other` is at the first of them."""
    inner = x.builder.sub_builder("first_largest")
    shapes = [Shape(x.dtype), Shape(other.dtype)] * 2
    a, p, y, q = (inner.parameter(number, shapes[number], "apyq"[number]) for number in range(4))
    chosen = inner.build(ops.Tuple(inner, [ops.Max(a, y), ops.Select(ops.Ge(a, y), p, q)]))
    starts = [lowest(x), ops.Zero(x.builder, other.dtype)]
    return parts(_over_windows([x, other], starts, chosen, steps))


# Averages.


def _mean(value: XlaOp, dims: Sequence[int], steps: list[windows.Steps]) -> XlaOp:
    """Sums divided by how many elements each window has within images of shape `dims`."""
    counts = np.ones((), np.int64)
    for size, s in zip(dims, steps, strict=True):
        begin = np.arange(s.count) * s.stride - s.low
        inside = np.minimum(begin + s.size, size) - np.maximum(begin, 0)
        is_one = bool(np.all(inside == inside[:1]))
        counts = np.multiply.outer(counts, inside[:1] if is_one else inside)
    varying = [d for d, size in enumerate(counts.shape) if size != 1]
    known = counts.reshape([counts.shape[d] for d in varying])
    divisor = value.builder.constant(known.astype(value.dtype.numpy))
    return value / ops.BroadcastInDim(divisor, value.dims, varying)


@lowering("AvgPool", "AvgPool3D")
def _avg_pool(call: Call, x: XlaOp) -> XlaOp:
    steps, wide = _windows(call, x.dims, []), widened(x)
    zero = ops.Zero(x.builder, wide.dtype)
    sums = _over_windows([wide], [zero], combiner("Add", wide.dtype), steps)
    return ops.ConvertElementType(_mean(sums, x.dims, steps), x.dtype)


@lowering("AvgPoolGrad", "AvgPool3DGrad")
def _avg_pool_grad(call: Call, shape: XlaOp, gradient: XlaOp) -> XlaOp:
    """The gradient of each window goes to its elements in equal parts: sums over windows of the gradient,
    spread to the places that windows begin at.
    """
    dims = call.integers(shape, "orig_input_shape")
    steps = _windows(call, dims, [])
    windows.of_dims(call, gradient, [s.count for s in steps], "grad")
    wide = widened(gradient)
    zero, edges, around = ops.Zero(wide.builder, wide.dtype), [], []
    for size, s in zip(dims, steps, strict=True):
        low = s.size - 1 - s.low
        edges.append((low, size + s.size - 2 - (s.count - 1) * s.stride - low, s.stride - 1))
        around.append(windows.Steps(s.size, 1, 1, size, 0, 0))
    if 0 in gradient.dims:
        return ops.Broadcast(ops.Zero(wide.builder, gradient.dtype), dims)
    parts = ops.Pad(_mean(wide, dims, steps), zero, edges)
    sums = _over_windows([parts], [zero], combiner("Add", wide.dtype), around)
    return ops.ConvertElementType(sums, gradient.dtype)
