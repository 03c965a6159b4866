"""Quantized numbers: numbers rounded to steps of a scale, in floats or as integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

import axla.ops as ops
from axla.builder.records import ConvolutionDimensionNumbers
from axla.builder.windows import window_padding_type_to_pad_values
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import F32, S32, DType
from axla.tensorflow.messages import decode
from axla.tensorflow.ops.reductions import reduced
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import Call, matched, spread

RECORDS = """
FakeQuantWithMinMaxArgs: inputs:f32 min=float?-6.0 max=float?6.0 num_bits=int?8 narrow_range=bool?false ->
    outputs:f32
FakeQuantWithMinMaxArgsGradient: gradients:f32 inputs:f32 min=float?-6.0 max=float?6.0 num_bits=int?8
    narrow_range=bool?false -> backprops:f32
FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel: inputs:f32 min:f32 max:f32 num_bits=int?8
    narrow_range=bool?false -> outputs:f32
FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannelGradient: gradients:f32 inputs:f32 min:f32
    max:f32 num_bits=int?8 narrow_range=bool?false -> backprops_wrt_input:f32 backprop_wrt_min:f32
    backprop_wrt_max:f32
QuantizeAndDequantizeV2 QuantizeAndDequantizeV4: input:T input_min:T input_max:T signed_input=bool?true
    num_bits=int?8 range_given=bool?false T=type round_mode=string{HALF_TO_EVEN,HALF_UP}?HALF_TO_EVEN
    narrow_range=bool?false axis=int?-1 -> output:T
QuantizeAndDequantizeV3: input:T input_min:T input_max:T num_bits:i32 signed_input=bool?true
    range_given=bool?true T=type narrow_range=bool?false axis=int?-1 -> output:T
QuantizeAndDequantizeV4Grad: gradients:T input:T input_min:T input_max:T T=type axis=int?-1 ->
    input_backprop:T input_min_backprop:T input_max_backprop:T
Dequantize: input:T min_range:f32 max_range:f32 T=type mode=string{MIN_COMBINED,MIN_FIRST,SCALED}?MIN_COMBINED
    narrow_range=bool?false axis=int?-1 dtype=type?DT_FLOAT -> output:dtype
UniformQuantize: input:Tin scales:f32 zero_points:i32 Tin=type Tout=type quantization_axis=int?-1
    quantization_min_val=int quantization_max_val=int -> output:Tout
UniformDequantize: input:Tin scales:f32 zero_points:i32 Tin=type Tout=type quantization_axis=int?-1
    quantization_min_val=int quantization_max_val=int -> output:Tout
UniformRequantize: input:Tin input_scales:f32 input_zero_points:i32 output_scales:f32 output_zero_points:i32
    Tin=type Tout=type input_quantization_axis=int?-1 input_quantization_min_val=int
    input_quantization_max_val=int output_quantization_axis=int?-1 output_quantization_min_val=int
    output_quantization_max_val=int -> output:Tout
UniformQuantizedAdd: lhs:T rhs:T lhs_scales:f32 lhs_zero_points:i32 rhs_scales:f32 rhs_zero_points:i32
    output_scales:f32 output_zero_points:i32 lhs_quantization_axis=int?-1 lhs_quantization_min_val=int
    lhs_quantization_max_val=int rhs_quantization_axis=int?-1 rhs_quantization_min_val=int
    rhs_quantization_max_val=int output_quantization_axis=int?-1 output_quantization_min_val=int
    output_quantization_max_val=int T=type -> output:T
UniformQuantizedClipByValue: operand:T min:T max:T scales:f32 zero_points:i32 T=type quantization_axis=int?-1
    quantization_min_val=int quantization_max_val=int -> output:T
UniformQuantizedDot: lhs:Tin rhs:Tin lhs_scales:f32 lhs_zero_points:i32 rhs_scales:f32 rhs_zero_points:i32
    output_scales:f32 output_zero_points:i32 Tin=type Tout=type lhs_quantization_axis=int?-1
    lhs_quantization_min_val=int lhs_quantization_max_val=int rhs_quantization_axis=int?-1
    rhs_quantization_min_val=int rhs_quantization_max_val=int output_quantization_axis=int?-1
    output_quantization_min_val=int output_quantization_max_val=int -> output:Tout
UniformQuantizedConvolution: lhs:Tin rhs:Tin lhs_scales:f32 lhs_zero_points:i32 rhs_scales:f32
    rhs_zero_points:i32 output_scales:f32 output_zero_points:i32 Tin=type Tout=type window_strides=ints?[]
    padding=all_edges explicit_padding=ints?[] lhs_dilation=ints?[] rhs_dilation=ints?[]
    batch_group_count=int?1 feature_group_count=int?1 dimension_numbers=string? lhs_quantization_axis=int?-1
    lhs_quantization_min_val=int lhs_quantization_max_val=int rhs_quantization_axis=int?-1
    rhs_quantization_min_val=int rhs_quantization_max_val=int output_quantization_axis=int?-1
    output_quantization_min_val=int output_quantization_max_val=int -> output:Tout
"""


# Floats, rounded to as many steps as integers of some bits have, so that one of them is zero.


@dataclass(frozen=True, slots=True)
class _Steps:
    """The first and the last step, the distance of two, and whether the range was empty, at zero."""

    low: XlaOp
    high: XlaOp
    scale: XlaOp
    is_empty: XlaOp


def _steps(call: Call, low: XlaOp, high: XlaOp) -> _Steps:
    """The steps of a range, moved so that one is zero."""
    if not 2 <= call["num_bits"] <= 16:
        call.fail(f"attribute 'num_bits' is {call['num_bits']}, wanted 2 to 16")
    first, last = float(call["narrow_range"]), float((1 << call["num_bits"]) - 1)
    scale = (high - low) / (last - first)
    zero = ops.Round(ops.Clamp(first, first - low / ops.Select(scale == 0, 1.0, scale), last))
    return _Steps((first - zero) * scale, (last - zero) * scale, scale, (low == 0) & (high == 0))


def _limits(call: Call) -> tuple[XlaOp, XlaOp]:
    """The range that attributes give."""
    if not call["min"] < call["max"]:
        call.fail(f"attribute 'min' is {call['min']}, 'max' {call['max']}: wanted a smaller number first")
    return call.builder.constant(np.float32(call["min"])), call.builder.constant(np.float32(call["max"]))


def _fitting(call: Call, x: XlaOp, *limits: XlaOp) -> tuple[XlaOp, ...]:
    """The limits of a range: scalars, or one for each channel, which are the last dimension."""
    wanted = x.dims[-1:] if "PerChannel" in call.node.op else ()
    if "PerChannel" in call.node.op and not x.dims:
        call.fail("it takes an array with channels, found a scalar")
    for limit in limits:
        if limit.dims != wanted:
            call.fail(f"a limit has shape {list(limit.dims)}, wanted {list(wanted)}")
    return limits


def _on_steps(call: Call, x: XlaOp, low: XlaOp, high: XlaOp) -> XlaOp:
    steps = _steps(call, low, high)
    inverse = ops.Select(steps.scale == 0, 0.0, 1.0 / steps.scale)
    first, last, scale, inverse = (spread(v, x.dims) for v in (steps.low, steps.high, steps.scale, inverse))
    return ops.Floor((ops.Clamp(first, x, last) - first) * inverse + 0.5) * scale + first


@lowering("FakeQuantWithMinMaxArgs")
def _fake_args(call: Call, x: XlaOp) -> XlaOp:
    return _on_steps(call, x, *_limits(call))


@lowering("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def _fake_vars(call: Call, x: XlaOp, low: XlaOp, high: XlaOp) -> XlaOp:
    return _on_steps(call, x, *_fitting(call, x, low, high))


def _sides(call: Call, gradient: XlaOp, x: XlaOp, low: XlaOp, high: XlaOp) -> list[XlaOp]:
    """The gradient where numbers were in the range, where below and where above. All are in an empty one."""
    if gradient.dims != x.dims:
        call.fail(f"gradients of shape {list(gradient.dims)} for inputs of shape {list(x.dims)}")
    steps = _steps(call, low, high)
    first = spread(ops.Select(steps.is_empty, -math.inf, steps.low), x.dims)
    last = spread(ops.Select(steps.is_empty, math.inf, steps.high), x.dims)
    flags = [(x >= first) & (x <= last), x < first, x > last]
    return [ops.Select(flag, gradient, 0.0) for flag in flags]


@lowering("FakeQuantWithMinMaxArgsGradient")
def _fake_args_grad(call: Call, gradient: XlaOp, x: XlaOp) -> XlaOp:
    return _sides(call, gradient, x, *_limits(call))[0]


@lowering("FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient")
def _fake_vars_grad(call: Call, gradient: XlaOp, x: XlaOp, low: XlaOp, high: XlaOp) -> list[XlaOp]:
    low, high = _fitting(call, x, low, high)
    within, below, above = _sides(call, gradient, x, low, high)
    dims = range(len(x.dims) - len(low.dims))
    return [within, reduced(below, dims, "Add"), reduced(above, dims, "Add")]


# Floats, rounded to the steps of a range around zero.


def _axis(call: Call, dims: Sequence[int], name: str = "axis") -> int:
    """The dimension that has a scale each, -1 where one is for all."""
    axis = call[name]
    if not -1 <= axis < len(dims):
        call.fail(f"attribute {name!r} is {axis}, wanted -1 to {len(dims) - 1}")
    return axis


def _along(call: Call, value: XlaOp, dims: Sequence[int], axis: int) -> XlaOp:
    """A number for all elements, or one for each place along the axis, in the shape `dims`."""
    if axis < 0 and value.shape.size == 1:
        return spread(ops.Reshape(value, []), dims)
    if axis < 0 or value.dims != (dims[axis],):
        wanted = [] if axis < 0 else [dims[axis]]
        call.fail(f"a range, scale or zero point has shape {list(value.dims)}, wanted {wanted}")
    return ops.BroadcastInDim(value, tuple(dims), [axis])


@lowering("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4")
def _there_and_back(call: Call, x: XlaOp, low: XlaOp, high: XlaOp) -> XlaOp:
    return _rounded(call, x, (low, high), call["num_bits"], call["round_mode"] == "HALF_UP")


@lowering("QuantizeAndDequantizeV3")
def _there_and_back_v3(call: Call, x: XlaOp, low: XlaOp, high: XlaOp, bits: XlaOp) -> XlaOp:
    return _rounded(call, x, (low, high), call.integer(bits, "the number of bits"), False)


def _rounded(call: Call, x: XlaOp, limits: tuple[XlaOp, XlaOp], bits: int, is_up: bool) -> XlaOp:
    """Numbers rounded to steps of which as many are in a range, or that of the numbers themselves, as
    integers have; the side that is longer by them counts.
    """
    axis, is_signed = _axis(call, x.dims), call["signed_input"]
    if not 0 < bits < 63 - is_signed:
        call.fail(f"the number of bits is {bits}, wanted 1 to {62 - is_signed}")
    low, high = limits
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
    places = ops.Floor(x * scale + 0.5) if is_up else ops.RoundNearestEven(x * scale)
    return places * inverse


@lowering("QuantizeAndDequantizeV4Grad")
def _there_and_back_grad(call: Call, gradient: XlaOp, x: XlaOp, low: XlaOp, high: XlaOp) -> list[XlaOp]:
    if gradient.dims != x.dims:
        call.fail(f"gradients of shape {list(gradient.dims)} for inputs of shape {list(x.dims)}")
    axis = _axis(call, x.dims)
    is_within = (x >= _along(call, low, x.dims, axis)) & (x <= _along(call, high, x.dims, axis))
    return [ops.Select(is_within, gradient, 0.0), ops.ZerosLike(low), ops.ZerosLike(high)]


@lowering("Dequantize")
def _dequantize(call: Call, x: XlaOp, low: XlaOp, high: XlaOp) -> XlaOp:
    """The numbers of a range that integers stand for."""
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


# Integers with a scale and a zero point, the integer that stands for zero.


@dataclass(frozen=True, slots=True)
class _Code:
    """How integers of a shape stand for numbers; all are f32."""

    scale: XlaOp
    zero: XlaOp
    least: int
    most: int

    def rounded(self, places: XlaOp, dtype: DType, is_up: bool = False) -> XlaOp:
        """The integers next to numbers on the scale of integers; between two the even or the upper one."""
        places = ops.Floor(places + 0.5) if is_up else ops.RoundNearestEven(places)
        return ops.ConvertElementType(ops.Clamp(float(self.least), places, float(self.most)), dtype)

    def of(self, value: XlaOp, source: _Code, dtype: DType) -> XlaOp:
        """Integers of another code in this one."""
        factor = source.scale / self.scale
        places = ops.ConvertElementType(value, F32) * factor + (self.zero - source.zero * factor)
        return self.rounded(places, dtype)


def _code(call: Call, dims: Sequence[int], scale: XlaOp, zero: XlaOp, side: str = "") -> _Code:
    """The code that operands give, with the attributes of a side."""
    axis = _axis(call, dims, f"{side}quantization_axis")
    least, most = (call[f"{side}quantization_{name}_val"] for name in ("min", "max"))
    zero = ops.ConvertElementType(zero, F32)
    return _Code(_along(call, scale, dims, axis), _along(call, zero, dims, axis), least, most)


@lowering("UniformQuantize")
def _uniform_quantize(call: Call, x: XlaOp, scale: XlaOp, zero: XlaOp) -> XlaOp:
    code = _code(call, x.dims, scale, zero)
    return code.rounded(x / code.scale + code.zero, call.dtype("Tout"))


@lowering("UniformDequantize")
def _uniform_dequantize(call: Call, x: XlaOp, scale: XlaOp, zero: XlaOp) -> XlaOp:
    code = _code(call, x.dims, scale, zero)
    found = (ops.ConvertElementType(x, F32) - code.zero) * code.scale
    return ops.ConvertElementType(found, call.dtype("Tout"))


@lowering("UniformRequantize")
def _uniform_requantize(
    call: Call, x: XlaOp, scale: XlaOp, zero: XlaOp, to_scale: XlaOp, to_zero: XlaOp
) -> XlaOp:  # fmt: skip
    source = _code(call, x.dims, scale, zero, "input_")
    target = _code(call, x.dims, to_scale, to_zero, "output_")
    return target.of(x, source, call.dtype("Tout"))


@lowering("UniformQuantizedAdd")
def _uniform_add(call: Call, x: XlaOp, y: XlaOp, *codes: XlaOp) -> XlaOp:
    """The sum of integers that were brought into the code of the result."""
    x, y = matched(x, y)
    left, right = _code(call, x.dims, *codes[:2], side="lhs_"), _code(call, y.dims, *codes[2:4], side="rhs_")
    target = _code(call, x.dims, *codes[4:], side="output_")
    zero = ops.ConvertElementType(target.zero, x.dtype)
    total = target.of(x, left, x.dtype) + target.of(y, right, x.dtype) - zero
    least, most = (np.asarray(limit, x.dtype.numpy) for limit in (target.least, target.most))
    return ops.Clamp(least, total, most)


@lowering("UniformQuantizedClipByValue")
def _uniform_clip(call: Call, x: XlaOp, low: XlaOp, high: XlaOp, scale: XlaOp, zero: XlaOp) -> XlaOp:
    """Integers between others of the same code."""
    axis = _axis(call, x.dims, "quantization_axis")
    return ops.Clamp(_along(call, low, x.dims, axis), x, _along(call, high, x.dims, axis))


def _centred(value: XlaOp, zero: XlaOp, axis: int, call: Call) -> XlaOp:
    """Integers less their zero points."""
    return ops.ConvertElementType(value, S32) - _along(call, zero, value.dims, axis)


def _requantized(
    call: Call, total: XlaOp, codes: Sequence[XlaOp], kernel_axis: int, feature: int
) -> XlaOp:  # fmt: skip
    """Sums of products of integers in the code of the result. The scales of the right side may be one for
    each feature of the result.
    """
    left, _, right, _, scale, zero = codes
    right = _along(call, right, total.dims, feature if kernel_axis >= 0 else -1)
    code = _code(call, total.dims, scale, zero, "output_")
    factor = _along(call, left, total.dims, -1) * right / code.scale
    places = ops.ConvertElementType(total, F32) * factor + code.zero
    is_up = call.node.op == "UniformQuantizedConvolution"  # (as TensorFlow's kernel does, XLA has none)
    return code.rounded(places, call.dtype("Tout"), is_up)


@lowering("UniformQuantizedDot")
def _uniform_dot(call: Call, x: XlaOp, y: XlaOp, *codes: XlaOp) -> XlaOp:
    if len(x.dims) != 2 or len(y.dims) != 2 or x.dims[1] != y.dims[0]:
        call.fail(f"there is no product of matrices of shapes {list(x.dims)} and {list(y.dims)}")
    axis = call["rhs_quantization_axis"]
    if axis not in (-1, 1) or call["lhs_quantization_axis"] != -1:
        call.fail("scales are for the whole left side, and for the right one or its dimension 1")
    total = ops.Dot(_centred(x, codes[1], -1, call), _centred(y, codes[3], axis, call))
    return _requantized(call, total, codes, axis, 1)


def _convolution_numbers(call: Call, rank: int) -> ConvolutionDimensionNumbers:
    """Which dimensions are which: a message in an attribute, batch and features first where it is empty."""
    text = call["dimension_numbers"].encode("utf-8", "surrogateescape")
    if not text:
        spatial = list(range(2, rank))
        return ConvolutionDimensionNumbers(0, 1, spatial, 0, 1, spatial, 0, 1, spatial)
    zeros = ConvolutionDimensionNumbers(0, 0, [], 0, 0, [], 0, 0, [])
    return replace(zeros, **decode(text, "UniformConvolutionDims"))


def _pads(
    call: Call, sizes: Sequence[int], windows: Sequence[int], strides: Sequence[int]
) -> Sequence[tuple[int, int]]:
    if call["padding"] != "EXPLICIT":
        return window_padding_type_to_pad_values(call["padding"], sizes, windows, strides)
    numbers = call["explicit_padding"]
    if len(numbers) != 2 * len(sizes):
        call.fail(f"attribute 'explicit_padding' has {len(numbers)} numbers, wanted {2 * len(sizes)}")
    return list(zip(numbers[::2], numbers[1::2], strict=True))


@lowering("UniformQuantizedConvolution")
def _uniform_convolution(call: Call, x: XlaOp, kernel: XlaOp, *codes: XlaOp) -> XlaOp:
    numbers = _convolution_numbers(call, len(x.dims))
    count = len(x.dims) - 2
    ones = (1,) * count
    strides, holes, dilation = (
        call[name] or ones for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    axis = call["rhs_quantization_axis"]
    if axis not in (-1, numbers.kernel_output_feature_dimension) or call["lhs_quantization_axis"] != -1:
        call.fail("scales are for the whole left side, and for the right one or its output features")
    sizes = [(x.dims[d] - 1) * n + 1 for d, n in zip(numbers.input_spatial_dimensions, holes, strict=True)]
    windows = [
        (kernel.dims[d] - 1) * n + 1 for d, n in zip(numbers.kernel_spatial_dimensions, dilation, strict=True)
    ]
    total = ops.ConvGeneralDilated(
        _centred(x, codes[1], -1, call), _centred(kernel, codes[3], axis, call), strides,
        _pads(call, sizes, windows, strides), holes, dilation, numbers, call["feature_group_count"],
        call["batch_group_count"],
    )  # fmt: skip
    return _requantized(call, total, codes, axis, numbers.output_feature_dimension)
