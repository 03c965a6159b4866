"""The HLO operations of graphs (Xla...). Dimension numbers are attributes with serialized XLA messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import axla.ops as ops
from axla.builder import records
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import BF16, F32
from axla.core.errors import UnsupportedError
from axla.core.shape import Shape, TupleShape
from axla.proto import decode
from axla.tensorflow.ops.arrays import shape_operand
from axla.tensorflow.ops.common import of_dims
from axla.tensorflow.ops.random import algorithm_of
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall
from axla.tensorflow.types import dtype_of

RECORDS = """
XlaDot: lhs:T rhs:T dimension_numbers=string precision_config=string -> output:T
XlaDotV2: lhs:LhsT rhs:RhsT dimension_numbers=string precision_config=string -> output:preferred_element_type
XlaConv: lhs:T rhs:T window_strides:Tindices padding:Tindices lhs_dilation:Tindices rhs_dilation:Tindices
    feature_group_count:Tindices dimension_numbers=string precision_config=string -> output:T
XlaConvV2: lhs:LhsT rhs:RhsT window_strides:Tindices padding:Tindices lhs_dilation:Tindices
    rhs_dilation:Tindices feature_group_count:Tindices dimension_numbers=string precision_config=string
    batch_group_count=int?1 -> output:preferred_element_type
XlaGather: operand:T start_indices:Tindices slice_sizes:Tindices dimension_numbers=string
    indices_are_sorted=bool -> output:T
XlaPad: input:T padding_value:T padding_low:Tindices padding_high:Tindices padding_interior:Tindices ->
    output:T
XlaDynamicSlice: input:T start_indices:Tindices size_indices:Tindices -> output:T
XlaDynamicUpdateSlice: input:T update:T indices:Tindices -> output:T
XlaSort: input:T -> output:T
XlaKeyValueSort: keys:K values:V -> sorted_keys:K sorted_values:V
XlaReducePrecision: operand:T exponent_bits=int mantissa_bits=int -> output:T
XlaRngBitGenerator: algorithm:i32 initial_state:DT_UINT64 shape:Tshape dtype=type?DT_UINT64
    Tshape=type?DT_INT32 -> output_key:DT_UINT64 output:dtype
XlaOptimizationBarrier: input:T T=types>=0 -> output:T
XlaSetBound: input:i32 bound:i32 -> output:i32
XlaSetDynamicDimensionSize: input:T dim_index:i32 size:i32 -> output:T
XlaRemoveDynamicDimensionSize: input:T dim_index:i32 -> output:T
XlaDequantize: input:DT_UINT32 min_range=float max_range=float mode=string transpose_output=bool ->
    output:DT_BFLOAT16
XlaCustomCall: args:T target_name=string backend_config=string T=types>=0 shape=shape -> output:dtype
XlaCustomCallV2: operands:operand_dtypes call_target_name=string backend_config=string has_side_effect=bool
    operand_dtypes=types>=0 result_dtypes=types>=0 result_shapes=list(shape)>=0 -> results:result_dtypes
"""


def message(call: OpCall, attribute: str, name: str) -> dict[str, Any]:
    """Decodes the message of the type `name` in an attribute of bytes."""
    return decode(call[attribute].encode("utf-8", "surrogateescape"), name)


def dimension_numbers(call: OpCall, kind: type[Any]) -> Any:
    """The message in the attribute `dimension_numbers`, as an instance of `kind`."""
    return kind(**message(call, "dimension_numbers", kind.__name__))


def _precision(call: OpCall) -> ops.PrecisionConfig:
    names = message(call, "precision_config", "PrecisionConfig").get("operand_precision", ())
    return records.PrecisionConfig([records.PrecisionConfig_Precision[name] for name in names])


@lowering("XlaDot", "XlaDotV2")
def _dot(call: OpCall, left: XlaOp, right: XlaOp) -> XlaOp:
    numbers = dimension_numbers(call, records.DotDimensionNumbers)
    return ops.DotGeneral(left, right, numbers, _precision(call), _result_type(call))


def _result_type(call: OpCall) -> object:
    return call.dtype("T" if "T" in call.attributes else "preferred_element_type")


@lowering("XlaConv", "XlaConvV2")
def _conv(
    call: OpCall, left: XlaOp, right: XlaOp, strides: XlaOp, padding: XlaOp, lhs_dilation: XlaOp,
    rhs_dilation: XlaOp, groups: XlaOp,
) -> XlaOp:  # fmt: skip
    found = message(call, "dimension_numbers", "ConvolutionDimensionNumbers")
    names = records.ConvolutionDimensionNumbers.__dataclass_fields__
    numbers = {name: found.get(name, [] if name.endswith("dimensions") else 0) for name in names}
    return ops.ConvGeneralDilated(
        left, right, call.integers(strides, "window_strides"), pairs(call, padding),
        call.integers(lhs_dilation, "lhs_dilation"), call.integers(rhs_dilation, "rhs_dilation"),
        records.ConvolutionDimensionNumbers(**numbers), call.integer(groups, "feature_group_count"),
        call.attributes.get("batch_group_count", 1), _precision(call), _result_type(call),
    )  # fmt: skip


def pairs(call: OpCall, padding: XlaOp) -> list[tuple[int, int]]:
    """The padding before and after each dimension, from a constant operand."""
    found = call.constant(padding, "padding")
    if found.ndim != 2 or found.shape[1] != 2:
        call.fail(f"padding has shape {list(found.shape)}, wanted pairs of numbers")
    return [(int(low), int(high)) for low, high in found]


@lowering("XlaGather")
def _gather(call: OpCall, value: XlaOp, starts: XlaOp, sizes: XlaOp) -> XlaOp:
    numbers = dimension_numbers(call, records.GatherDimensionNumbers)
    windows = call.integers(sizes, "slice_sizes")
    return ops.Gather(value, starts, numbers, windows, call["indices_are_sorted"])


@lowering("XlaPad")
def _pad(call: OpCall, value: XlaOp, padding: XlaOp, low: XlaOp, high: XlaOp, interior: XlaOp) -> XlaOp:
    edges = [call.integers(operand, "the padding") for operand in (low, high, interior)]
    if {len(sizes) for sizes in edges} != {len(value.dims)}:
        call.fail(f"paddings of {[len(sizes) for sizes in edges]} numbers for {len(value.dims)} dimensions")
    return ops.Pad(value, padding, list(zip(*edges, strict=True)))


@lowering("XlaDynamicSlice")
def _dynamic_slice(call: OpCall, value: XlaOp, starts: XlaOp, sizes: XlaOp) -> XlaOp:
    of_dims(call, starts, [len(value.dims)], "start_indices")
    return ops.DynamicSlice(value, starts, call.integers(sizes, "size_indices"))


@lowering("XlaDynamicUpdateSlice")
def _dynamic_update_slice(call: OpCall, value: XlaOp, update: XlaOp, starts: XlaOp) -> XlaOp:
    of_dims(call, starts, [len(value.dims)], "indices")
    return ops.DynamicUpdateSlice(value, update, starts)


@lowering("XlaSort", "XlaKeyValueSort")
def _sort(call: OpCall, *operands: XlaOp) -> XlaOp:
    return ops.Sort(call.builder, operands)


@lowering("XlaReducePrecision")
def _reduce_precision(call: OpCall, value: XlaOp) -> XlaOp:
    exponent, mantissa = call["exponent_bits"], call["mantissa_bits"]
    return ops.ReducePrecision(value, exponent_bits=exponent, mantissa_bits=mantissa)


@lowering("XlaRngBitGenerator")
def _bits(call: OpCall, algorithm: XlaOp, state: XlaOp, shape: XlaOp) -> XlaOp:
    wanted = Shape(call.dtype("dtype"), shape_operand(call, shape))
    return ops.RngBitGenerator(algorithm_of(call, algorithm), state, wanted)


@lowering("XlaOptimizationBarrier")
def _barrier(call: OpCall, values: list[XlaOp]) -> XlaOp:
    return ops.OptimizationBarrier(ops.Tuple(call.builder, values))


# Dynamic sizes.


@lowering("XlaSetBound")
def _set_bound(call: OpCall, value: XlaOp, bound: XlaOp) -> XlaOp:
    """Returns the value: a bound is a hint for the compiler, and changes no result."""
    call.integer(bound, "the bound")
    return value


@lowering("XlaSetDynamicDimensionSize", "XlaRemoveDynamicDimensionSize")
def _set_size(call: OpCall, value: XlaOp, dimension: XlaOp, *size: XlaOp) -> XlaOp:
    place = call.axis(call.integer(dimension, "dim_index"), len(value.dims), "dim_index")
    if size:
        return ops.SetDimensionSize(value, size[0], place)
    made = value.instruction
    if made.opcode == "set-dimension-size" and not any(made.operands[0].shape.dynamic):
        return XlaOp(call.builder, made.operands[0])  # (elements beyond the dynamic size remain)
    return ops.RemoveDynamicDimension(value, place)


@lowering("XlaDequantize")
def _dequantize(call: OpCall, value: XlaOp) -> XlaOp:
    """The numbers in a range that 8-bit quantization steps represent. Each element of `value` is a word of
    four such steps, the one in the highest byte first.
    """
    if call["mode"] != "MIN_COMBINED":
        raise UnsupportedError(f"mode {call['mode']} is not supported")
    if not value.dims:
        call.fail("the operand is a scalar, wanted at least one dimension")
    last = len(value.dims)
    shifts = call.builder.constant(np.array([24, 16, 8, 0], np.uint32))
    dims = (*value.dims, 4)
    words = ops.BroadcastInDim(value, dims, range(last))
    steps = ops.And(ops.ShiftRightLogical(words, ops.BroadcastInDim(shifts, dims, [last])), np.uint32(255))
    low, high = np.float32(call["min_range"]), np.float32(call["max_range"])
    found = ops.ConvertElementType(steps, F32) * ((high - low) / np.float32(255)) + low
    whole = ops.Collapse(found, [last - 1, last])
    if call["transpose_output"]:
        whole = ops.Transpose(whole, range(last)[::-1])
    return ops.ConvertElementType(whole, BF16)


# Functions outside of the program.


@lowering("XlaCustomCall")
def _custom_call(call: OpCall, values: list[XlaOp]) -> XlaOp:
    shape = shape_of(call, call["dtype"], call["shape"])
    return ops.CustomCall(call.builder, call["target_name"], values, shape, call["backend_config"])


@lowering("XlaCustomCallV2")
def _custom_call_v2(call: OpCall, values: list[XlaOp]) -> XlaOp:
    types, dims, name = call["result_dtypes"], call["result_shapes"], call["call_target_name"]
    if len(types) != len(dims):
        call.fail(f"there are {len(types)} types, but {len(dims)} shapes of results")
    shape = TupleShape(tuple(shape_of(call, type_, sizes) for type_, sizes in zip(types, dims, strict=True)))
    config, effect = call["backend_config"], call["has_side_effect"]
    return ops.CustomCall(call.builder, name, values, shape, config, effect)


def shape_of(call: OpCall, type_: str, dims: Sequence[int] | None) -> Shape:
    """The shape of a result; VerifyError if a size is unknown."""
    if dims is None or -1 in dims:
        call.fail(f"the shape of a result is not known: {dims}")
    return Shape(dtype_of(type_, "a result"), tuple(dims))
