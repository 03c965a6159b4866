"""Quantized numbers: rounded to steps of a scale, stored as floats or as integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import ml_dtypes
import numpy as np

import axla.ops as ops
from axla.builder.records import ConvolutionDimensionNumbers
from axla.builder.windows import window_padding_type_to_pad_values
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import F32, S32, DType
from axla.tensorflow.messages import decode
from axla.tensorflow.ops.common import check_same_dims, of_dims, reduced
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall, matched, spread

_BITS = "num_bits=int?8 narrow_range=bool?false"
_SCALES = (
    "lhs_scales:f32 lhs_zero_points:i32 rhs_scales:f32 rhs_zero_points:i32 output_scales:f32 "
    "output_zero_points:i32"
)
_OUTPUT = "output_quantization_axis=int?-1 output_quantization_min_val=int output_quantization_max_val=int"
RECORDS = f"""
FakeQuantWithMinMaxArgs: inputs:f32 min=float?-6.0 max=float?6.0 {_BITS} -> outputs:f32
FakeQuantWithMinMaxArgsGradient: gradients:f32 inputs:f32 min=float?-6.0 max=float?6.0 {_BITS} ->
    backprops:f32
FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel: inputs:f32 min:f32 max:f32 {_BITS} -> outputs:f32
FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannelGradient: gradients:f32 inputs:f32 min:f32
    max:f32 {_BITS} -> backprops_wrt_input:f32 backprop_wrt_min:f32 backprop_wrt_max:f32
QuantizeAndDequantizeV2 QuantizeAndDequantizeV4: input:T input_min:T input_max:T signed_input=bool?true
    num_bits=int?8 range_given=bool?false T=type round_mode=string{{HALF_TO_EVEN,HALF_UP}}?HALF_TO_EVEN
    narrow_range=bool?false axis=int?-1 -> output:T
QuantizeAndDequantizeV3: input:T input_min:T input_max:T num_bits:i32 signed_input=bool?true
    range_given=bool?true T=type narrow_range=bool?false axis=int?-1 -> output:T
QuantizeAndDequantizeV4Grad: gradients:T input:T input_min:T input_max:T T=type axis=int?-1 ->
    input_backprop:T input_min_backprop:T input_max_backprop:T
Dequantize: input:T min_range:f32 max_range:f32 T=type
    mode=string{{MIN_COMBINED,MIN_FIRST,SCALED}}?MIN_COMBINED narrow_range=bool?false axis=int?-1
    dtype=type?DT_FLOAT -> output:dtype
UniformQuantize UniformDequantize: input:Tin scales:f32 zero_points:i32 Tin=type Tout=type
    quantization_axis=int?-1 quantization_min_val=int quantization_max_val=int -> output:Tout
UniformRequantize: input:Tin input_scales:f32 input_zero_points:i32 output_scales:f32 output_zero_points:i32
    Tin=type Tout=type input_quantization_axis=int?-1 {_OUTPUT} -> output:Tout
UniformQuantizedAdd: lhs:T rhs:T {_SCALES} lhs_quantization_axis=int?-1 rhs_quantization_axis=int?-1
    {_OUTPUT} T=type -> output:T
UniformQuantizedClipByValue: operand:T min:T max:T scales:f32 zero_points:i32 T=type quantization_axis=int?-1
    -> output:T
UniformQuantizedDot: lhs:Tin rhs:Tin {_SCALES} Tin=type Tout=type lhs_quantization_axis=int?-1
    rhs_quantization_axis=int?-1 {_OUTPUT} -> output:Tout
UniformQuantizedConvolution: lhs:Tin rhs:Tin {_SCALES} Tin=type Tout=type window_strides=ints?[]
    padding=all_edges explicit_padding=ints?[] lhs_dilation=ints?[] rhs_dilation=ints?[]
    batch_group_count=int?1 feature_group_count=int?1 dimension_numbers=string? lhs_quantization_axis=int?-1
    rhs_quantization_axis=int?-1 {_OUTPUT} -> output:Tout
"""


# Fake quantization: floats rounded to the steps of integers with some bits; one of the steps is zero.


def _steps(call: OpCall, low: XlaOp, high: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """The first and last step of a range, shifted so that one step is zero, and the step size."""
    if not 2 <= call["num_bits"] <= 16:
        call.fail(f"attribute 'num_bits' is {call['num_bits']}, wanted 2 to 16")
    first, last = float(call["narrow_range"]), float((1 << call["num_bits"]) - 1)
    scale = (high - low) / (last - first)
    zero = ops.Round(ops.Clamp(first, first - low / ops.Select(scale == 0, 1.0, scale), last))
    return (first - zero) * scale, (last - zero) * scale, scale


def _limits(call: OpCall, x: XlaOp, given: Sequence[XlaOp]) -> Sequence[XlaOp]:
    """The lower and the upper limit of a range: attributes, or the operands `given`, which are scalars or,
    for operations per channel, vectors with a number for each index of the last dimension of `x`.
    """
    if not given:
        if not call["min"] < call["max"]:
            call.fail(f"attribute 'min' is {call['min']}, 'max' {call['max']}: wanted min < max")
        return [call.builder.constant(np.float32(call[name])) for name in ("min", "max")]
    is_by_channel = "PerChannel" in call.node.op
    if is_by_channel and not x.dims:
        call.fail("it takes an array with channels, found a scalar")
    wanted = x.dims[-1:] if is_by_channel else ()
    for limit in given:
        of_dims(call, limit, wanted, "a limit")
    return given


@lowering("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def _fake(call: OpCall, x: XlaOp, *given: XlaOp) -> XlaOp:
    low, high, step = _steps(call, *_limits(call, x, given))
    inverse = ops.Select(step == 0, 0.0, 1.0 / step)
    first, last, scale, inverse = (spread(value, x.dims) for value in (low, high, step, inverse))
    return ops.Floor((ops.Clamp(first, x, last) - first) * inverse + 0.5) * scale + first


@lowering(
    "FakeQuantWithMinMaxArgsGradient", "FakeQuantWithMinMaxVarsGradient",
    "FakeQuantWithMinMaxVarsPerChannelGradient",
)  # fmt: skip
def _fake_grad(call: OpCall, gradient: XlaOp, x: XlaOp, *given: XlaOp) -> Sequence[XlaOp]:
    """The gradient, zero where a number was outside of the range. If the limits are operands, also their
    gradients: the sums of the gradient where numbers were below, and where they were above. An empty range at
    zero contains all numbers.
    """
    check_same_dims(call, gradient, x)
    low, high = _limits(call, x, given)
    is_empty = (low == 0) & (high == 0)
    first, last, _ = _steps(call, low, high)
    first = spread(ops.Select(is_empty, -math.inf, first), x.dims)
    last = spread(ops.Select(is_empty, math.inf, last), x.dims)
    flags = [(x >= first) & (x <= last), x < first, x > last]
    within, below, above = (ops.Select(flag, gradient, 0.0) for flag in flags)
    dims = range(len(x.dims) - len(low.dims))
    return [within, reduced(below, dims, "Add"), reduced(above, dims, "Add")] if given else [within]


# Floats, rounded to the steps of a range around zero.


def _axis(call: OpCall, dims: Sequence[int], name: str = "axis") -> int:
    """The number, in the attribute `name`, of the dimension in which each index has its own scale; -1 for a
    single scale.
    """
    axis = call[name]
    if not -1 <= axis < len(dims):
        call.fail(f"attribute {name!r} is {axis}, wanted -1 to {len(dims) - 1}")
    return axis


def _along(call: OpCall, value: XlaOp, dims: Sequence[int], axis: int) -> XlaOp:
    """Broadcasts a scale, zero point or limit to the shape `dims`: one number, or one for each index along
    the axis.
    """
    if axis < 0 and value.shape.size == 1:
        return spread(ops.Reshape(value, []), dims)
    if axis < 0 or value.dims != (dims[axis],):
        wanted = [] if axis < 0 else [dims[axis]]
        call.fail(f"a range, scale or zero point has shape {list(value.dims)}, wanted {wanted}")
    return ops.BroadcastInDim(value, tuple(dims), [axis])


@lowering("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
def _there_and_back(call: OpCall, x: XlaOp, low: XlaOp, high: XlaOp, *given: XlaOp) -> XlaOp:
    """Rounds numbers to the steps of an integer type, in a given range or in the range of the numbers. The
    lower and the upper limit each need a step; the larger step is used.
    """
    bits = call.integer(given[0], "the number of bits") if given else call["num_bits"]
    axis, is_signed = _axis(call, x.dims), call["signed_input"]
    if not 0 < bits < 63 - is_signed:
        call.fail(f"the number of bits is {bits}, wanted 1 to {62 - is_signed}")
    if not call["range_given"]:
        others = [d for d in range(len(x.dims)) if d != axis]
        low, high = reduced(x, others, "Min"), reduced(x, others, "Max")
    low, high = (_along(call, limit, x.dims, axis) for limit in (low, high))
    first = float(call["narrow_range"] - (1 << (bits - 1))) if is_signed else 0.0
    last = float((1 << (bits - is_signed)) - 1)
    most = float(x.dtype.finfo.max)
    by_low = ops.Select(low * first > 0, first / low, most)
    by_high = ops.Select(high * last > 0, last / high, most)
    is_low = by_low < by_high
    scale = ops.Select(is_low, by_low, by_high)
    inverse = ops.Select(is_low, low / first, high / last)
    if call["range_given"]:
        x = ops.Clamp(ops.Select(is_low, low, first * inverse), x, ops.Select(is_low, last * inverse, high))
    is_up = call.attributes.get("round_mode") == "HALF_UP"
    return _whole(x * scale, is_up) * inverse


def _whole(value: XlaOp, is_up: bool) -> XlaOp:
    """Rounds to the nearest integers; halves are rounded up, or to even."""
    return ops.Floor(value + 0.5) if is_up else ops.RoundNearestEven(value)


@lowering("QuantizeAndDequantizeV4Grad")
def _there_and_back_grad(call: OpCall, gradient: XlaOp, x: XlaOp, low: XlaOp, high: XlaOp) -> list[XlaOp]:
    check_same_dims(call, gradient, x)
    axis = _axis(call, x.dims)
    is_within = (x >= _along(call, low, x.dims, axis)) & (x <= _along(call, high, x.dims, axis))
    return [ops.Select(is_within, gradient, 0.0), ops.ZerosLike(low), ops.ZerosLike(high)]


@lowering("Dequantize")
def _dequantize(call: OpCall, x: XlaOp, low: XlaOp, high: XlaOp) -> XlaOp:
    """The numbers in the range `low` to `high` that quantized integers represent."""
    axis, limits = _axis(call, x.dims), ml_dtypes.iinfo(x.dtype.numpy)
    low, high = (_along(call, limit, x.dims, axis) for limit in (low, high))
    value = ops.ConvertElementType(x, F32)
    scale = (high - low) / float(limits.max - limits.min)
    if call["mode"] == "MIN_COMBINED":
        half = (limits.max - limits.min + 1) / 2 if x.dtype.is_signed else 0.0
        found = (value + half) * scale + low
    elif call["mode"] == "MIN_FIRST":
        found = (value - float(limits.min)) * scale + ops.Round(low / scale) * scale
    else:
        scale = high / float(limits.max)
        if x.dtype.is_signed:
            scale = ops.Max(scale, low / float(limits.min + call["narrow_range"]))
        found = value * scale
    return ops.ConvertElementType(found, call.dtype("dtype"))


# Integers with a scale and a zero point, the integer that represents zero.


def _code(call: OpCall, dims: Sequence[int], code: Sequence[XlaOp], side: str = "") -> tuple[XlaOp, XlaOp]:
    """The scale and the zero point of quantized integers as f32, broadcast to `dims`. `side` is the prefix of
    the attribute that has their axis.
    """
    scale, zero = code
    axis = _axis(call, dims, f"{side}quantization_axis")
    return _along(call, scale, dims, axis), _along(call, ops.ConvertElementType(zero, F32), dims, axis)


def _integers(call: OpCall, places: XlaOp, dtype: DType, side: str = "output_", is_up: bool = False) -> XlaOp:
    """Rounds numbers to integers and clamps them to the limits in the attributes whose prefix is `side`."""
    least, most = (float(call[f"{side}quantization_{name}_val"]) for name in ("min", "max"))
    return ops.ConvertElementType(ops.Clamp(least, _whole(places, is_up), most), dtype)


def _recoded(
    call: OpCall, value: XlaOp, source: tuple[XlaOp, XlaOp], target: tuple[XlaOp, XlaOp], dtype: DType
) -> XlaOp:  # fmt: skip
    """Converts quantized integers to the type `dtype`, from the (scale, zero point) pair `source` to the pair
    `target`.
    """
    factor = source[0] / target[0]
    places = ops.ConvertElementType(value, F32) * factor + (target[1] - source[1] * factor)
    return _integers(call, places, dtype)


@lowering("UniformQuantize")
def _uniform_quantize(call: OpCall, x: XlaOp, *code: XlaOp) -> XlaOp:
    scale, zero = _code(call, x.dims, code)
    return _integers(call, x / scale + zero, call.dtype("Tout"), "")


@lowering("UniformDequantize")
def _uniform_dequantize(call: OpCall, x: XlaOp, *code: XlaOp) -> XlaOp:
    scale, zero = _code(call, x.dims, code)
    return ops.ConvertElementType((ops.ConvertElementType(x, F32) - zero) * scale, call.dtype("Tout"))


@lowering("UniformRequantize")
def _uniform_requantize(call: OpCall, x: XlaOp, *codes: XlaOp) -> XlaOp:
    source, target = _code(call, x.dims, codes[:2], "input_"), _code(call, x.dims, codes[2:], "output_")
    return _recoded(call, x, source, target, call.dtype("Tout"))


@lowering("UniformQuantizedAdd")
def _uniform_add(call: OpCall, x: XlaOp, y: XlaOp, *codes: XlaOp) -> XlaOp:
    """The sum of quantized integers, which are converted to the scale of the result before they are added."""
    x, y = matched(x, y)
    left, right = _code(call, x.dims, codes[:2], "lhs_"), _code(call, y.dims, codes[2:4], "rhs_")
    target = _code(call, x.dims, codes[4:], "output_")
    zero = ops.ConvertElementType(target[1], x.dtype)
    total = _recoded(call, x, left, target, x.dtype) + _recoded(call, y, right, target, x.dtype) - zero
    limits = (call[f"output_quantization_{name}_val"] for name in ("min", "max"))
    least, most = (np.asarray(limit, x.dtype.numpy) for limit in limits)
    return ops.Clamp(least, total, most)


@lowering("UniformQuantizedClipByValue")
def _uniform_clip(call: OpCall, x: XlaOp, low: XlaOp, high: XlaOp, *code: XlaOp) -> XlaOp:
    """Clamps quantized integers to limits of the same scale."""
    axis = _axis(call, x.dims, "quantization_axis")
    return ops.Clamp(_along(call, low, x.dims, axis), x, _along(call, high, x.dims, axis))


def _centred(call: OpCall, x: XlaOp, y: XlaOp, codes: Sequence[XlaOp], feature: int) -> list[XlaOp]:
    """The integers of both operands minus their zero points. `codes` begins with the scale and the zero point
    of `x`, then those of `y`. `x` has one zero point; `y` has one, or one for each index of its dimension
    `feature`.
    """
    axis = call["rhs_quantization_axis"]
    if axis not in (-1, feature) or call["lhs_quantization_axis"] != -1:
        call.fail(f"wanted one scale on the left; on the right, one or one per index of dimension {feature}")
    zeros = _along(call, codes[1], x.dims, -1), _along(call, codes[3], y.dims, axis)
    return [ops.ConvertElementType(v, S32) - zero for v, zero in zip((x, y), zeros, strict=True)]


def _requantized(call: OpCall, total: XlaOp, codes: Sequence[XlaOp], feature: int) -> XlaOp:
    """Converts `total`, sums of products of quantized integers, to the scale of the result. `codes` are the
    scale and the zero point of lhs, of rhs and of the result. The scale of rhs may have a number for each
    index of dimension `feature` of the result.
    """
    right = _along(call, codes[2], total.dims, feature if call["rhs_quantization_axis"] >= 0 else -1)
    scale, zero = _code(call, total.dims, codes[4:], "output_")
    factor = _along(call, codes[0], total.dims, -1) * right / scale
    places = ops.ConvertElementType(total, F32) * factor + zero
    is_up = call.node.op == "UniformQuantizedConvolution"  # as in TensorFlow's kernel
    return _integers(call, places, call.dtype("Tout"), is_up=is_up)


@lowering("UniformQuantizedDot")
def _uniform_dot(call: OpCall, x: XlaOp, y: XlaOp, *codes: XlaOp) -> XlaOp:
    if len(x.dims) != 2 or len(y.dims) != 2 or x.dims[1] != y.dims[0]:
        call.fail(f"there is no product of matrices of shapes {list(x.dims)} and {list(y.dims)}")
    left, right = _centred(call, x, y, codes, 1)
    return _requantized(call, ops.Dot(left, right), codes, 1)


def _convolution_numbers(call: OpCall, rank: int) -> ConvolutionDimensionNumbers:
    """The dimension numbers in an attribute, a serialized message. If it is empty, batch and features come
    first.
    """
    text = call["dimension_numbers"].encode("utf-8", "surrogateescape")
    if not text:
        spatial = list(range(2, rank))
        return ConvolutionDimensionNumbers(0, 1, spatial, 0, 1, spatial, 0, 1, spatial)
    zeros = ConvolutionDimensionNumbers(0, 0, [], 0, 0, [], 0, 0, [])
    return replace(zeros, **decode(text, "UniformConvolutionDims"))


def _pads(
    call: OpCall, sizes: Sequence[int], windows: Sequence[int], strides: Sequence[int]
) -> Sequence[tuple[int, int]]:
    if call["padding"] != "EXPLICIT":
        return window_padding_type_to_pad_values(call["padding"], sizes, windows, strides)
    numbers = call["explicit_padding"]
    if len(numbers) != 2 * len(sizes):
        call.fail(f"attribute 'explicit_padding' has {len(numbers)} numbers, wanted {2 * len(sizes)}")
    return list(zip(numbers[::2], numbers[1::2], strict=True))


@lowering("UniformQuantizedConvolution")
def _uniform_convolution(call: OpCall, x: XlaOp, kernel: XlaOp, *codes: XlaOp) -> XlaOp:
    numbers = _convolution_numbers(call, len(x.dims))
    count = len(x.dims) - 2
    ones = (1,) * count
    strides, lhs_dilation, rhs_dilation = (
        call[name] or ones for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    sides = _centred(call, x, kernel, codes, numbers.kernel_output_feature_dimension)
    spatial = zip(numbers.input_spatial_dimensions, lhs_dilation, strict=True)
    sizes = [(x.dims[d] - 1) * n + 1 for d, n in spatial]
    spatial = zip(numbers.kernel_spatial_dimensions, rhs_dilation, strict=True)
    windows = [(kernel.dims[d] - 1) * n + 1 for d, n in spatial]
    total = ops.ConvGeneralDilated(
        sides[0], sides[1], strides, _pads(call, sizes, windows, strides), lhs_dilation, rhs_dilation,
        numbers, call["feature_group_count"], call["batch_group_count"],
    )  # fmt: skip
    return _requantized(call, total, codes, numbers.output_feature_dimension)
