"""Convolutions and their gradients.

A filter has the dimensions [spatial..., features of the input / groups, features of the output]. The filter
of a depthwise convolution, [spatial..., features, multiplier], is treated as a filter with as many groups as
the input has features.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import axla.ops as ops
from axla.builder.records import ConvolutionDimensionNumbers
from axla.builder.xla_builder import XlaOp
from axla.core.dataclass import dataclass
from axla.core.dtypes import F32, S8
from axla.core.errors import UnsupportedError
from axla.tensorflow.ops import windows
from axla.tensorflow.ops.common import of_dims, of_rank
from axla.tensorflow.ops.neural import bias_add
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall, spread

RECORDS = """
Conv: input:T filter:T strides=ints padding=all_edges explicit_paddings=ints?[]
    data_format=string{CHANNELS_FIRST,CHANNELS_LAST}?CHANNELS_LAST dilations=ints?[] batch_dims=int?1
    groups=int?1 -> output:T
Conv2D DepthwiseConv2dNative: input:T filter:T strides=ints padding=all_edges explicit_paddings=ints?[]
    data_format=images?NHWC dilations=ints?[] -> output:T
Conv3D: input:T filter:T strides=ints padding=edges data_format=volumes?NDHWC dilations=ints?[] -> output:T
Conv2DBackpropInput DepthwiseConv2dNativeBackpropInput: input_sizes:i32 filter:T out_backprop:T strides=ints
    padding=all_edges explicit_paddings=ints?[] data_format=images?NHWC dilations=ints?[] -> output:T
Conv3DBackpropInputV2: input_sizes:Tshape filter:T out_backprop:T strides=ints padding=edges
    data_format=volumes?NDHWC dilations=ints?[] Tshape=type?DT_INT32 -> output:T
Conv2DBackpropFilter DepthwiseConv2dNativeBackpropFilter: input:T filter_sizes:i32 out_backprop:T strides=ints
    padding=all_edges explicit_paddings=ints?[] data_format=images?NHWC dilations=ints?[] -> output:T
Conv3DBackpropFilterV2: input:T filter_sizes:i32 out_backprop:T strides=ints padding=edges
    data_format=volumes?NDHWC dilations=ints?[] -> output:T
_FusedConv2D: input:T filter:T args:TArgs host_args:num_host_args*f32 TArgs=types num_host_args=int?0
    strides=ints padding=all_edges explicit_paddings=ints?[] data_format=vectors?NHWC
    filter_format=string{HWIO,OIHW,OIHW_VECT_I}?HWIO dilations=ints?[] fused_ops=list(string)?[] -> output:T
"""
"""(The attribute `use_cudnn_on_gpu` is left out, as it has no meaning here. Empty dilations mean 1 for each
dimension.)
"""


@dataclass(frozen=True, slots=True)
class FilteredConvolution:
    """A convolution in `groups` groups with a filter of the sizes `filter_dims`; `output`: the sizes of the
    result.
    """

    form: windows.ImageFormat
    filter_dims: tuple[int, ...]
    groups: int
    steps: list[windows.WindowSteps]
    output: tuple[int, ...]


def _convolution(call: OpCall, dims: Sequence[int], filter_dims: Sequence[int]) -> FilteredConvolution:
    """The convolution that the attributes describe, checked; a depthwise filter is converted to a grouped
    one.
    """
    rank = len(filter_dims)
    if len(dims) != rank or rank < 3 or min(*dims, *filter_dims) < 0:
        call.fail(f"an input of shape {list(dims)} does not fit a filter of {list(filter_dims)}")
    form = windows.format_of(call["data_format"], rank)
    dilations = windows.numbers_of(call, call["dilations"] or (1,) * rank, rank, "dilations")
    strides = windows.numbers_of(call, call["strides"], rank, "strides")
    windows.only_spatial(strides, form, "strides")
    windows.only_spatial(dilations, form, "dilations")
    features = dims[form.features]
    if call.node.op.startswith("Depthwise"):
        if filter_dims[-2] != features:
            call.fail(f"a filter of shape {list(filter_dims)} does not fit {features} features")
        filter_dims = (*filter_dims[:-2], 1, prod(filter_dims[-2:]))
    groups = features // max(filter_dims[-2], 1)
    if groups * filter_dims[-2] != features or (groups and filter_dims[-1] % groups):
        call.fail(f"a filter of shape {list(filter_dims)} does not fit {features} features")
    sizes, output = [1] * rank, list(dims)
    for d, size in zip(form.spatial, filter_dims[:-2], strict=True):
        sizes[d] = size
    steps = windows.steps_of(call, dims, sizes, strides, dilations)
    if any(steps[d].low or steps[d].high for d in range(rank) if d not in form.spatial):
        found = list(call["explicit_paddings"])
        call.fail(f"explicit_paddings are {found}, wanted 0 for images and features")
    for d in form.spatial:
        output[d] = steps[d].count
    output[form.features] = filter_dims[-1]
    spatial = [steps[d] for d in form.spatial]
    return FilteredConvolution(form, tuple(filter_dims), max(groups, 1), spatial, tuple(output))


def _numbers(form: windows.ImageFormat, swapped: bool = False) -> ConvolutionDimensionNumbers:
    """The dimension numbers of input, filter and output; `swapped`: with the feature dimensions of the filter
    exchanged.
    """
    count, spatial = len(form.spatial), list(form.spatial)
    inward, outward = (count + 1, count) if swapped else (count, count + 1)
    return ConvolutionDimensionNumbers(
        0, form.features, spatial, outward, inward, list(range(count)), 0, form.features, spatial
    )


def _zeros(like: XlaOp, dims: Sequence[int]) -> XlaOp:
    return ops.Broadcast(ops.Zero(like.builder, like.dtype), tuple(dims))


def _forward(call: OpCall, x: XlaOp, kernel: XlaOp) -> XlaOp:
    conv = _convolution(call, x.dims, kernel.dims)
    if not prod(conv.output) or not prod(kernel.dims):
        return _zeros(x, conv.output)
    return ops.ConvGeneralDilated(
        x, ops.Reshape(kernel, conv.filter_dims), [s.stride for s in conv.steps],
        [(s.low, s.high) for s in conv.steps], [1] * len(conv.steps), [s.dilation for s in conv.steps],
        _numbers(conv.form), conv.groups,
    )  # fmt: skip


def _of_rank(call: OpCall, images: XlaOp, what: str) -> None:
    of_rank(call, images, 5 if "3D" in call.node.op else 4, what)


@lowering("Conv2D", "Conv3D", "DepthwiseConv2dNative")
def _conv(call: OpCall, x: XlaOp, kernel: XlaOp) -> XlaOp:
    _of_rank(call, x, "input")
    return _forward(call, x, kernel)


@lowering("Conv")
def _conv_any(call: OpCall, x: XlaOp, kernel: XlaOp) -> XlaOp:
    batch = call["batch_dims"]
    if batch < 1 or len(kernel.dims) not in (4, 5) or len(x.dims) != len(kernel.dims) + batch - 1:
        found = f"batch_dims={batch}, a filter of shape {list(kernel.dims)}"
        call.fail(f"an input of shape {list(x.dims)} does not fit {found}")
    images = ops.Reshape(x, (prod(x.dims[:batch]), *x.dims[batch:]))
    form = windows.format_of(call["data_format"], len(images.dims))
    groups = images.dims[form.features] // max(kernel.dims[-2], 1)
    if groups != call["groups"]:
        call.fail(f"a filter of shape {list(kernel.dims)} makes {groups} groups, groups is {call['groups']}")
    found = _forward(call, images, kernel)
    return ops.Reshape(found, (*x.dims[:batch], *found.dims[1:]))


@lowering("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput")
def _input_gradient(call: OpCall, sizes: XlaOp, kernel: XlaOp, gradient: XlaOp) -> XlaOp:
    _of_rank(call, gradient, "out_backprop")
    dims = call.integers(sizes, "input_sizes")
    if len(dims) == 2 and len(kernel.dims) == 4:  # input_sizes has only the spatial sizes
        images, features = gradient.dims[0], kernel.dims[2]
        is_last = call["data_format"] == "NHWC"
        dims = (images, *dims, features) if is_last else (images, features, *dims)
    conv = _convolution(call, dims, kernel.dims)
    of_dims(call, gradient, conv.output, "out_backprop")
    if not prod(dims) or not prod(gradient.dims) or not prod(kernel.dims):
        return _zeros(gradient, dims)
    space, inner, outer = conv.filter_dims[:-2], *conv.filter_dims[-2:]
    count, groups = len(space), conv.groups
    kernel = ops.Reshape(kernel, (*space, inner, groups, outer // groups))
    kernel = ops.Transpose(kernel, [*range(count), count + 1, count, count + 2])
    kernel = ops.Reshape(kernel, (*space, inner * groups, outer // groups))
    padding = []
    for d, s in zip(conv.form.spatial, conv.steps, strict=True):
        low = (s.size - 1) * s.dilation - s.low
        padding.append((low, dims[d] - 1 - (s.count - 1) * s.stride + s.low))
    return ops.ConvGeneralDilated(
        gradient, ops.Rev(kernel, range(count)), [1] * count, padding, [s.stride for s in conv.steps],
        [s.dilation for s in conv.steps], _numbers(conv.form, swapped=True), groups,
    )  # fmt: skip


@lowering("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter")
def _filter_gradient(call: OpCall, x: XlaOp, sizes: XlaOp, gradient: XlaOp) -> XlaOp:
    _of_rank(call, gradient, "out_backprop")
    dims = call.integers(sizes, "filter_sizes")
    conv = _convolution(call, x.dims, dims)
    of_dims(call, gradient, conv.output, "out_backprop")
    if not prod(dims) or not prod(gradient.dims) or not prod(x.dims):
        return _zeros(gradient, dims)
    count, spatial, features = len(conv.steps), list(conv.form.spatial), conv.form.features
    numbers = ConvolutionDimensionNumbers(
        features, 0, spatial, features, 0, spatial, count, count + 1, list(range(count))
    )
    padding = []
    for d, s in zip(spatial, conv.steps, strict=True):
        reach = (s.count - 1) * s.stride + 1 + (s.size - 1) * s.dilation
        padding.append((s.low, reach - x.dims[d] - s.low))
    found = ops.ConvGeneralDilated(
        x, gradient, [s.dilation for s in conv.steps], padding, [1] * count,
        [s.stride for s in conv.steps], numbers, 1, conv.groups,
    )  # fmt: skip
    return ops.Reshape(found, dims)


# Convolutions fused with the operations after them.

_FILTERS = {"HWIO": (0, 1, 2, 3), "OIHW": (2, 3, 1, 0)}
"""By the format of a filter, the permutation that makes its dimensions [height, width, input, output]."""


def _filter(call: OpCall, kernel: XlaOp) -> XlaOp:
    """A filter converted to the dimension order of convolutions."""
    name = call["filter_format"]
    if name in _FILTERS:
        of_rank(call, kernel, 4, "filter")
        return ops.Transpose(kernel, _FILTERS[name])
    of_rank(call, kernel, 5, "filter")
    outer, inner, height, width, size = kernel.dims
    return ops.Reshape(ops.Transpose(kernel, [2, 3, 1, 4, 0]), (height, width, inner * size, outer))


@lowering("_FusedConv2D")
def _fused(call: OpCall, x: XlaOp, kernel: XlaOp, args: list[XlaOp], scales: list[XlaOp]) -> XlaOp:
    """activation(scales[0] * convolution + bias + scales[1] * side), rounded to 8-bit integers; `args` are
    bias and side.
    """
    names = call["fused_ops"]
    if x.dtype is not S8:
        raise UnsupportedError(f"the input of a fused convolution is {x.dtype.name}, wanted s8")
    if len(args) != 2 or len(scales) != 2 or names[:1] != ("BiasAdd",) or names[1:] not in ((), ("Relu",)):
        given = f"{len(args)} arrays and {len(scales)} scales"
        raise UnsupportedError(f"unsupported fused operations {', '.join(names)} with {given}")
    bias, side = args
    vectors = x.dims[-1] if call["data_format"] == windows.VECTORS else 0
    if vectors:
        x = windows.joined_vectors(call, x)
        side = windows.joined_vectors(call, side) if prod(side.dims) else side
    wide = [ops.ConvertElementType(value, F32) for value in (x, _filter(call, kernel), bias, side)]
    found = bias_add(call, _forward(call, wide[0], wide[1]) * scales[0], wide[2])
    if prod(side.dims):
        found = found + wide[3] * spread(scales[1], side.dims)
    if names[1:]:
        found = ops.Max(found, ops.ZerosLike(found))
    found = ops.ConvertElementType(ops.RoundNearestEven(ops.Clamp(-128, found, 127)), S8)
    return windows.split_vectors(found, vectors) if vectors else found
