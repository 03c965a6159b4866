"""Normalization over batches and neighbours, softmax, and cross entropy."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan, prod

import numpy as np

import axla.ops as ops
from axla.builder.iteration import combiner
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import F32
from axla.core.errors import UnsupportedError
from axla.core.shape import Shape
from axla.tensorflow.ops.common import lowest, of_dims, of_rank, summed, widened
from axla.tensorflow.ops.windows import format_of
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall, matched

RECORDS = """
FusedBatchNorm: x:T scale:T offset:T mean:T variance:T epsilon=float?0.0001 exponential_avg_factor=float?1.0
    data_format=images?NHWC is_training=bool?true -> y:T batch_mean:T batch_variance:T reserve_space_1:T
    reserve_space_2:T
FusedBatchNormV2: x:T scale:U offset:U mean:U variance:U epsilon=float?0.0001 exponential_avg_factor=float?1.0
    data_format=images?NHWC is_training=bool?true -> y:T batch_mean:U batch_variance:U reserve_space_1:U
    reserve_space_2:U
FusedBatchNormV3: x:T scale:U offset:U mean:U variance:U epsilon=float?0.0001 exponential_avg_factor=float?1.0
    data_format=string{NHWC,NCHW,NDHWC,NCDHW}?NHWC is_training=bool?true -> y:T batch_mean:U batch_variance:U
    reserve_space_1:U reserve_space_2:U reserve_space_3:U
_FusedBatchNormEx: x:T scale:U offset:U mean:U variance:U side_input:num_side_inputs*T epsilon=float?0.0001
    exponential_avg_factor=float?1.0 num_side_inputs=int?0 activation_mode=string?Identity
    data_format=images?NHWC is_training=bool?true -> y:T batch_mean:U batch_variance:U reserve_space_1:U
    reserve_space_2:U reserve_space_3:U
FusedBatchNormGrad: y_backprop:T x:T scale:T reserve_space_1:T reserve_space_2:T epsilon=float?0.0001
    data_format=images?NHWC is_training=bool?true -> x_backprop:T scale_backprop:T offset_backprop:T
    reserve_space_3:T reserve_space_4:T
FusedBatchNormGradV2: y_backprop:T x:T scale:f32 reserve_space_1:U reserve_space_2:U epsilon=float?0.0001
    data_format=images?NHWC is_training=bool?true -> x_backprop:T scale_backprop:U offset_backprop:U
    reserve_space_3:U reserve_space_4:U
FusedBatchNormGradV3: y_backprop:T x:T scale:f32 reserve_space_1:U reserve_space_2:U reserve_space_3:U
    epsilon=float?0.0001 data_format=string{NHWC,NCHW,NDHWC,NCDHW}?NHWC is_training=bool?true -> x_backprop:T
    scale_backprop:U offset_backprop:U reserve_space_4:U reserve_space_5:U
LRN: input:T depth_radius=int?5 bias=float?1.0 alpha=float?1.0 beta=float?0.5 T=type?DT_FLOAT -> output:T
LRNGrad: input_grads:T input_image:T output_image:T depth_radius=int?5 bias=float?1.0 alpha=float?1.0
    beta=float?0.5 T=type?DT_FLOAT -> output:T
Softmax: logits:T -> softmax:T
LogSoftmax: logits:T -> logsoftmax:T
SoftmaxCrossEntropyWithLogits: features:T labels:T -> loss:T backprop:T
SparseSoftmaxCrossEntropyWithLogits: features:T labels:Tlabels Tlabels=type?DT_INT64 -> loss:T backprop:T
"""


# Batch normalization.


def _features(call: OpCall, x: XlaOp, *vectors: XlaOp) -> int:
    """The number of the feature dimension of the images `x`. Raises VerifyError unless each of `vectors` has
    one number for each feature.
    """
    of_rank(call, x, len(call["data_format"]), "x")
    dim = format_of(call["data_format"], len(x.dims)).features
    for vector in vectors:
        of_dims(call, vector, x.dims[dim : dim + 1], "a vector for the features")
    return dim


@lowering("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "_FusedBatchNormEx")
def _batch_norm(
    call: OpCall, x: XlaOp, scale: XlaOp, offset: XlaOp, mean: XlaOp, variance: XlaOp,
    side: Sequence[XlaOp] = (),
) -> list[XlaOp | np.ndarray]:  # fmt: skip
    """(x - mean) / sqrt(variance + epsilon) * scale + offset. In training, mean and variance are those of
    `x`, and the operands `mean` and `variance` are running averages, whose new values are results 1 and 2.
    Otherwise the factor of each feature is computed once for all elements.
    """
    dim, dtype, image_dtype = _features(call, x, scale, offset), scale.dtype, x.dtype
    scale, offset, mean, variance = (widened(value) for value in (scale, offset, mean, variance))
    x = ops.ConvertElementType(x, scale.dtype)
    if call["is_training"]:
        y, *saved = _trained(call, dim, x, scale, offset, mean, variance)
    else:
        _features(call, x, mean, variance)
        factor = ops.Rsqrt(variance + call["epsilon"]) * scale
        scaled = ops.Mul(ops.Sub(x, mean, [dim]), factor, [dim])
        y, *saved = ops.Add(scaled, offset, [dim]), *[mean, variance] * 2
    y = _activated(call, ops.ConvertElementType(y, image_dtype), side)
    rest = [np.zeros(0, dtype.numpy)] if call.node.op in ("FusedBatchNormV3", "_FusedBatchNormEx") else []
    return [y, *(ops.ConvertElementType(value, dtype) for value in saved), *rest]


def _trained(
    call: OpCall, dim: int, x: XlaOp, scale: XlaOp, offset: XlaOp, mean: XlaOp, variance: XlaOp
) -> list[XlaOp]:
    """For training: the result, the new running averages of mean and variance, and mean and variance of this
    batch.
    """
    y, now, spread = ops.BatchNormTraining(x, scale, offset, call["epsilon"], dim)
    count = prod(x.dims) // max(x.dims[dim], 1)
    unbiased = spread * (count / max(count - 1, 1))
    new = call["exponential_avg_factor"]
    if new == 1 or not prod(x.dims):
        return [y, now, unbiased if prod(x.dims) else spread * nan, now, spread]
    _features(call, x, mean, variance)
    return [y, mean * (1 - new) + now * new, variance * (1 - new) + unbiased * new, now, spread]


def _activated(call: OpCall, y: XlaOp, side: Sequence[XlaOp]) -> XlaOp:
    """Applies the operations after a fused normalization: adds the array in `side`, if there is one, then
    applies Relu if the node says so.
    """
    mode = call.attributes.get("activation_mode", "Identity")
    if len(side) > 1 or mode not in ("Identity", "Relu"):
        raise UnsupportedError(f"activation_mode {mode} with {len(side)} side inputs is not supported")
    for value in side:
        y = y + value
    return ops.Max(y, ops.ZerosLike(y)) if mode == "Relu" else y


@lowering("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def _batch_norm_grad(
    call: OpCall, gradient: XlaOp, x: XlaOp, scale: XlaOp, mean: XlaOp, variance: XlaOp, *_: XlaOp
) -> list[XlaOp | np.ndarray]:
    """The gradients of x, scale and offset; in training, mean and variance depend on x."""
    dim, dtype = _features(call, x, scale, mean, variance), mean.dtype
    of_dims(call, gradient, x.dims, "y_backprop")
    wide, scale, mean, variance = (widened(value) for value in (x, scale, mean, variance))
    given = ops.ConvertElementType(gradient, wide.dtype)
    if call["is_training"]:
        found = list(ops.BatchNormGrad(wide, scale, mean, variance, given, call["epsilon"], dim))
    else:
        others = [d for d in range(len(x.dims)) if d != dim]
        factor = ops.Rsqrt(variance + call["epsilon"])
        centered = ops.Sub(wide, mean, [dim])
        found = [
            ops.Mul(given, factor * scale, [dim]), summed(given * centered, others) * factor,
            summed(given, others),
        ]  # fmt: skip
    results = [ops.ConvertElementType(value, dtype) for value in found[1:]]
    return [ops.ConvertElementType(found[0], x.dtype), *results, *[np.zeros(0, dtype.numpy)] * 2]


# Neighbours: features whose numbers differ by `depth_radius` at most.


def _neighbours(call: OpCall, x: XlaOp) -> XlaOp:
    """The sums over neighbouring features, for each feature."""
    radius = call["depth_radius"]
    if radius < 0:
        call.fail(f"depth_radius is {radius}, wanted a number from 0 on")
    sizes, edges = [1, 1, 1, 2 * radius + 1], [(0, 0)] * 3 + [(radius, radius)]
    zero = ops.Zero(x.builder, x.dtype)
    return ops.ReduceWindowWithGeneralPadding(
        x, zero, combiner("Add", x.dtype), sizes, [1] * 4, (), (), edges
    )


@lowering("LRN")
def _lrn(call: OpCall, x: XlaOp) -> XlaOp:
    """x / (bias + alpha * (sum of the squares of neighbours)) ** beta."""
    of_rank(call, x, 4, "input")
    wide = widened(x)
    norm = _neighbours(call, wide * wide) * call["alpha"] + call["bias"]
    return ops.ConvertElementType(wide * ops.Pow(norm, -call["beta"]), x.dtype)


@lowering("LRNGrad")
def _lrn_grad(call: OpCall, gradient: XlaOp, x: XlaOp, y: XlaOp) -> XlaOp:
    of_rank(call, x, 4, "input_image")
    of_dims(call, gradient, x.dims, "input_grads")
    of_dims(call, y, x.dims, "output_image")
    gradient, wide, y = (widened(value) for value in (gradient, x, y))
    alpha, beta = call["alpha"], call["beta"]
    norm = _neighbours(call, wide * wide) * alpha + call["bias"]
    shared = _neighbours(call, gradient * (y / norm) * (-2 * alpha * beta))
    return ops.ConvertElementType(wide * shared + gradient * ops.Pow(norm, -beta), x.dtype)


# Softmax.


def _exponentials(x: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """For each row: the row minus its largest element, the exponentials of that, and their sum."""
    last = len(x.dims) - 1
    largest = ops.Reduce(x, lowest(x), combiner("Max", x.dtype), [last])
    shifted = ops.Sub(x, largest, list(range(last)))
    powers = ops.Exp(shifted)
    return shifted, powers, summed(powers, [last])


@lowering("Softmax", "LogSoftmax")
def _softmax(call: OpCall, x: XlaOp) -> XlaOp:
    if not x.dims:
        call.fail("the logits are a scalar, wanted at least one dimension")
    shifted, powers, sums = _exponentials(widened(x))
    batch = list(range(len(x.dims) - 1))
    if call.node.op == "Softmax":
        return ops.ConvertElementType(ops.Div(powers, sums, batch), x.dtype)
    return ops.ConvertElementType(ops.Sub(shifted, ops.Log(sums), batch), x.dtype)


def _cross_entropy(x: XlaOp, labels: XlaOp) -> list[XlaOp]:
    """For each row, the sum of -label * log(softmax), and its gradient with respect to the logits."""
    shifted, powers, sums = _exponentials(widened(x))
    labels = widened(labels)
    lost = labels * -ops.Sub(shifted, ops.Log(sums), [0])
    loss = summed(ops.Select(ops.Eq(labels, ops.ZerosLike(labels)), ops.ZerosLike(lost), lost), [1])
    gradient = ops.Div(powers, sums, [0]) - labels
    return [ops.ConvertElementType(value, x.dtype) for value in (loss, gradient)]


@lowering("SoftmaxCrossEntropyWithLogits")
def _softmax_cross_entropy(call: OpCall, x: XlaOp, labels: XlaOp) -> list[XlaOp]:
    x, labels = matched(x, labels)
    of_rank(call, x, 2, "the logits")
    return _cross_entropy(x, labels)


@lowering("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy(call: OpCall, x: XlaOp, labels: XlaOp) -> list[XlaOp]:
    """The cross entropy for labels that are class numbers, and its gradient. A label that is not a class
    number makes its row NaN.
    """
    of_rank(call, x, 2, "the logits")
    if labels.dims != x.dims[:1] or not x.dims[1]:
        call.fail(f"labels of shape {list(labels.dims)} do not fit logits of shape {list(x.dims)}")
    places = ops.Iota(call.builder, Shape(labels.dtype, x.dims), 1)
    one_hot = ops.ConvertElementType(ops.Eq(places, labels, [0]), F32 if x.dtype.bits < 64 else x.dtype)
    is_class = (labels >= 0) & (labels < x.dims[1])
    known = ops.BroadcastInDim(is_class, x.dims, [0])
    return _cross_entropy(x, ops.Select(known, one_hot, ops.ZerosLike(one_hot) * nan))
