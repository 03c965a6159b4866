"""Maximum and average pooling over windows, and the gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import axla.ops as ops
from axla.builder.iteration import combiner
from axla.builder.xla_builder import XlaComputation, XlaOp
from axla.core.shape import Shape
from axla.tensorflow.ops import windows
from axla.tensorflow.ops.common import lowest, of_dims, widened
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall

RECORDS = """
MaxPool: input:T T=type?DT_FLOAT ksize=ints strides=ints padding=all_edges explicit_paddings=ints?[]
    data_format=vectors?NHWC -> output:T
MaxPoolV2: input:T ksize:i32 strides:i32 T=type?DT_FLOAT padding=edges data_format=vectors?NHWC -> output:T
MaxPool3D AvgPool3D: input:T ksize=ints strides=ints padding=edges data_format=volumes?NDHWC -> output:T
MaxPoolGrad MaxPoolGradGrad: orig_input:T orig_output:T grad:T ksize=ints strides=ints padding=all_edges
    explicit_paddings=ints?[] data_format=images?NHWC T=type?DT_FLOAT -> output:T
MaxPoolGradV2 MaxPoolGradGradV2: orig_input:T orig_output:T grad:T ksize:i32 strides:i32 padding=edges
    data_format=images?NHWC T=type?DT_FLOAT -> output:T
MaxPool3DGrad: orig_input:TInput orig_output:TInput grad:T ksize=ints strides=ints padding=edges
    data_format=volumes?NDHWC T=type?DT_FLOAT TInput=type?DT_FLOAT -> output:T
MaxPool3DGradGrad: orig_input:T orig_output:T grad:T ksize=ints strides=ints padding=edges
    data_format=volumes?NDHWC -> output:T
AvgPool: value:T ksize=ints strides=ints padding=edges data_format=images?NHWC -> output:T
AvgPoolGrad: orig_input_shape:i32 grad:T ksize=ints strides=ints padding=edges data_format=images?NHWC ->
    output:T
AvgPool3DGrad: orig_input_shape:i32 grad:T ksize=ints strides=ints padding=edges data_format=volumes?NDHWC ->
    output:T
"""


def _windows(call: OpCall, dims: Sequence[int], sizes: Sequence[XlaOp] = ()) -> list[windows.WindowSteps]:
    """The window of each dimension. `sizes` are the operands ksize and strides; it is empty if they are
    attributes.
    """
    rank = 5 if "3D" in call.node.op else 4
    if len(dims) != rank:
        call.fail(f"the images have shape {list(dims)}, wanted {rank} dimensions")
    given = [call.integers(size, "ksize or strides") for size in sizes] or [call["ksize"], call["strides"]]
    size = windows.numbers_of(call, given[0], rank, "ksize")
    strides = windows.numbers_of(call, given[1], rank, "strides")
    return windows.steps_of(call, dims, size, strides, [1] * rank)


def _over_windows(
    values: list[XlaOp], starts: list[XlaOp], step: XlaComputation, steps: list[windows.WindowSteps]
) -> XlaOp:
    return ops.ReduceWindowWithGeneralPadding(
        values, starts, step, [s.size for s in steps], [s.stride for s in steps], (), (),
        [(s.low, s.high) for s in steps],
    )  # fmt: skip


# Maximum pooling.


@lowering("MaxPool", "MaxPoolV2", "MaxPool3D")
def _max_pool(call: OpCall, x: XlaOp, *sizes: XlaOp) -> XlaOp:
    """The maximum of each window. NaN counts as the lowest number, as in XLA's own compiler."""
    vectors = call["data_format"] == windows.VECTORS
    images = windows.joined_vectors(call, x) if vectors else x
    steps, least = _windows(call, images.dims, sizes), lowest(images)
    if x.dtype.is_float:
        images = ops.Select(ops.Ne(images, images), ops.Broadcast(least, images.dims), images)
    found = _over_windows([images], [least], combiner("Max", x.dtype), steps)
    return windows.split_vectors(found, x.dims[-1]) if vectors else found


@lowering(
    "MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad",
    "MaxPoolGradGrad", "MaxPoolGradGradV2", "MaxPool3DGradGrad",
)  # fmt: skip
def _max_pool_grad(call: OpCall, x: XlaOp, y: XlaOp, gradient: XlaOp, *sizes: XlaOp) -> XlaOp:
    """Adds the gradient of each window to the first largest element of the window. For GradGrad: the gradient
    at the first largest element of each window.
    """
    steps, is_second = _windows(call, x.dims, sizes), "GradGrad" in call.node.op
    of_dims(call, y, [s.count for s in steps], "orig_output")
    of_dims(call, gradient, x.dims if is_second else y.dims, "grad")
    if is_second:
        return _first_largest(x, gradient, steps)
    x, dtype = ops.ConvertElementType(x, gradient.dtype), gradient.dtype
    return ops.SelectAndScatterWithGeneralPadding(
        x, combiner("Ge", dtype), [s.size for s in steps], [s.stride for s in steps],
        [(s.low, s.high) for s in steps], gradient, ops.Zero(x.builder, dtype), combiner("Add", dtype),
    )  # fmt: skip


def _first_largest(x: XlaOp, other: XlaOp, steps: list[windows.WindowSteps]) -> XlaOp:
    """For each window, the element of `other` at the position of the first largest element of `x`."""
    inner, shape = x.builder.sub_builder("first_largest"), Shape(x.dtype)
    a, p, y, q = (inner.parameter(number, shape, "apyq"[number]) for number in range(4))
    chosen = inner.build(ops.Tuple(inner, [ops.Max(a, y), ops.Select(ops.Ge(a, y), p, q)]))
    return _over_windows([x, other], [lowest(x), ops.Zero(x.builder, x.dtype)], chosen, steps)[1]


# Average pooling.


def _mean(call: OpCall, value: XlaOp, dims: Sequence[int], steps: list[windows.WindowSteps]) -> XlaOp:
    """Divides the sums of windows by the number of elements that each window has inside images of shape
    `dims`; `steps` has the window of each dimension.
    """
    counts = np.ones((), np.int64)
    for size, s in zip(dims, steps, strict=True):
        begin = call.numbers(s.count) * s.stride - s.low
        inside = np.minimum(begin + s.size, size) - np.maximum(begin, 0)
        is_one = bool(np.all(inside == inside[:1]))
        counts = np.multiply.outer(counts, inside[:1] if is_one else inside)
    varying = [d for d, size in enumerate(counts.shape) if size != 1]
    known = counts.reshape([counts.shape[d] for d in varying])
    divisor = value.builder.constant(known.astype(value.dtype.numpy))
    return value / ops.BroadcastInDim(divisor, value.dims, varying)


@lowering("AvgPool", "AvgPool3D")
def _avg_pool(call: OpCall, x: XlaOp) -> XlaOp:
    steps, wide = _windows(call, x.dims), widened(x)
    zero = ops.Zero(x.builder, wide.dtype)
    sums = _over_windows([wide], [zero], combiner("Add", wide.dtype), steps)
    return ops.ConvertElementType(_mean(call, sums, x.dims, steps), x.dtype)


@lowering("AvgPoolGrad", "AvgPool3DGrad")
def _avg_pool_grad(call: OpCall, shape: XlaOp, gradient: XlaOp) -> XlaOp:
    """The gradient of each window is divided equally among its elements: window sums of the gradient, dilated
    to the positions at which windows begin.
    """
    dims = call.integers(shape, "orig_input_shape")
    steps = _windows(call, dims)
    of_dims(call, gradient, [s.count for s in steps], "grad")
    wide = widened(gradient)
    zero, edges, around = ops.Zero(wide.builder, wide.dtype), [], []
    for size, s in zip(dims, steps, strict=True):
        low = s.size - 1 - s.low
        edges.append((low, size + s.size - 2 - (s.count - 1) * s.stride - low, s.stride - 1))
        around.append(windows.WindowSteps(s.size, 1, 1, size, 0, 0))
    if 0 in gradient.dims:
        return ops.Broadcast(ops.Zero(wide.builder, gradient.dtype), dims)
    spread = ops.Pad(_mean(call, wide, dims, steps), zero, edges)
    sums = _over_windows([spread], [zero], combiner("Add", wide.dtype), around)
    return ops.ConvertElementType(sums, gradient.dtype)
