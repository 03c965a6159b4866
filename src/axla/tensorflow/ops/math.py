"""Elementwise operations: arithmetic, comparisons, bits, selection, conversions of types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.core.errors import VerifyError
from axla.tensorflow.lists import TensorList
from axla.tensorflow.ops.common import check_same_dims
from axla.tensorflow.records import lowering, records
from axla.tensorflow.scope import OpCall, matched, spread
from axla.tensorflow.values import GraphValue

RECORDS = """
Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Exp Expm1 Floor Log Log1p Neg Rsqrt Sign Sin Sinh Sqrt
    Square Tan Tanh: x:T -> y:T ; hlo
Inv Reciprocal: x:T -> y:T ; hlo Reciprocal
Invert: x:T -> y:T ; hlo Not
Rint: x:T -> y:T ; hlo RoundNearestEven
Sigmoid: x:T -> y:T ; hlo Logistic
IsFinite: x:T -> y:DT_BOOL ; hlo
LogicalNot: x:DT_BOOL -> y:DT_BOOL ; hlo Not
Round: x:T -> y:T
IsInf IsNan: x:T -> y:DT_BOOL
PopulationCount: x:T -> y:DT_UINT8
TanhGrad SigmoidGrad SqrtGrad RsqrtGrad ReciprocalGrad InvGrad: y:T dy:T -> z:T
_UnaryOpsComposition: x:T op_names=list(string) -> y:T
Add AddV2: x:T y:T -> z:T ; hlo Add
Sub Mul Pow: x:T y:T -> z:T ; hlo
Div RealDiv: x:T y:T -> z:T ; hlo Div
Mod TruncateMod: x:T y:T -> z:T ; hlo Rem
Maximum: x:T y:T -> z:T ; hlo Max
Minimum: x:T y:T -> z:T ; hlo Min
Atan2: y:T x:T -> z:T ; hlo
NextAfter: x1:T x2:T T=type?DT_FLOAT -> output:T ; hlo
LogicalAnd: x:DT_BOOL y:DT_BOOL -> z:DT_BOOL ; hlo And
LogicalOr: x:DT_BOOL y:DT_BOOL -> z:DT_BOOL ; hlo Or
BitwiseAnd: x:T y:T -> z:T ; hlo And
BitwiseOr: x:T y:T -> z:T ; hlo Or
BitwiseXor: x:T y:T -> z:T ; hlo Xor
LeftShift: x:T y:T -> z:T ; hlo ShiftLeft
RightShift: x:T y:T -> z:T ; hlo ShiftRight
Less: x:T y:T -> z:DT_BOOL ; hlo Lt
LessEqual: x:T y:T -> z:DT_BOOL ; hlo Le
Greater: x:T y:T -> z:DT_BOOL ; hlo Gt
GreaterEqual: x:T y:T -> z:DT_BOOL ; hlo Ge
Equal NotEqual: x:T y:T incompatible_shape_error=bool?true -> z:DT_BOOL
ApproximateEqual: x:T y:T tolerance=float?1e-05 -> z:DT_BOOL
FloorDiv FloorMod TruncateDiv DivNoNan MulNoNan Xdivy Xlogy Xlog1py SquaredDifference: x:T y:T -> z:T
AddN: inputs:N*T N=int>=1 -> sum:T
AccumulateNV2: inputs:N*T N=int>=1 shape=shape -> sum:T
Cross: a:T b:T -> product:T
Cast: x:SrcT Truncate=bool?false -> y:DstT
Bitcast: input:T -> output:type
Complex: real:T imag:T T=type?DT_FLOAT Tout=type?DT_COMPLEX64 -> out:Tout ; hlo
Real Imag: input:T T=type?DT_COMPLEX64 Tout=type?DT_FLOAT -> output:Tout ; hlo
Angle: input:T T=type?DT_COMPLEX64 Tout=type?DT_FLOAT -> output:Tout
ComplexAbs: x:T T=type?DT_COMPLEX64 Tout=type?DT_FLOAT -> y:Tout ; hlo Abs
Conj: input:T T=type?DT_COMPLEX64 -> output:T ; hlo
Select: condition:DT_BOOL t:T e:T -> output:T
SelectV2: condition:DT_BOOL t:T e:T -> output:T ; hlo Select
ClipByValue: t:T clip_value_min:T clip_value_max:T -> output:T
"""


# Elementwise functions of one array, or of two arrays that are broadcast to one shape.


def _round(x: XlaOp) -> XlaOp:
    if x.dtype.is_integer:
        return x
    if x.dtype.is_complex:
        return ops.Complex(ops.RoundNearestEven(ops.Real(x)), ops.RoundNearestEven(ops.Imag(x)))
    return ops.RoundNearestEven(x)


def _is_inf(x: XlaOp) -> XlaOp:
    return abs(x) == np.inf


def _is_nan(x: XlaOp) -> XlaOp:
    return x != x


def _population_count(x: XlaOp) -> XlaOp:
    return ops.ConvertElementType(ops.PopulationCount(x), "u8")


def _angle(x: XlaOp) -> XlaOp:
    return ops.Atan2(ops.Imag(x), ops.Real(x))


def _floor_div(x: XlaOp, y: XlaOp) -> XlaOp:
    """The quotient, rounded down unless it is complex. A signed integer divided by 0 is -1, or -2 if it is
    negative.
    """
    if x.dtype.is_float:
        return ops.Floor(x / y)
    if x.dtype.is_complex or not x.dtype.is_signed:
        return x / y
    rest = ops.Rem(x, y)
    is_above = (rest != 0) & ((rest < 0) != (y < 0))
    return x / y - ops.ConvertElementType(is_above, x.dtype)


def _floor_mod(x: XlaOp, y: XlaOp) -> XlaOp:
    """The remainder for `FloorDiv`, with the sign of the divisor."""
    rest = ops.Rem(x, y)
    if x.dtype.is_integer and not x.dtype.is_signed:
        return rest
    return ops.Select((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def _truncate_div(x: XlaOp, y: XlaOp) -> XlaOp:
    """The quotient, rounded towards zero."""
    found = x / y
    if not x.dtype.is_float:
        return found
    return ops.Select(found < 0, ops.Ceil(found), ops.Floor(found))


def _squared_difference(x: XlaOp, y: XlaOp) -> XlaOp:
    return (x - y) * ops.Conj(x - y)


def _times_log(x: XlaOp, y: XlaOp) -> XlaOp:
    return x * ops.Log(y)


def _times_log1p(x: XlaOp, y: XlaOp) -> XlaOp:
    return x * ops.Log1p(y)


# Gradients, computed from the results y of the functions.


def _tanh_grad(y: XlaOp, dy: XlaOp) -> XlaOp:
    return dy * (1 - y * y)


def _sigmoid_grad(y: XlaOp, dy: XlaOp) -> XlaOp:
    return dy * y * (1 - y)


def _sqrt_grad(y: XlaOp, dy: XlaOp) -> XlaOp:
    return dy * 0.5 / ops.Conj(y)


def _rsqrt_grad(y: XlaOp, dy: XlaOp) -> XlaOp:
    y = ops.Conj(y)
    return dy * -0.5 * (y * y * y)


def _reciprocal_grad(y: XlaOp, dy: XlaOp) -> XlaOp:
    y = ops.Conj(y)
    return -dy * y * y


_FUNCTIONS: dict[str, Callable[..., XlaOp]] = {
    "Round": _round, "IsInf": _is_inf, "IsNan": _is_nan, "PopulationCount": _population_count,
    "Angle": _angle, "FloorDiv": _floor_div, "FloorMod": _floor_mod, "TruncateDiv": _truncate_div,
    "SquaredDifference": _squared_difference, "DivNoNan": ops.Div, "MulNoNan": ops.Mul, "Xdivy": ops.Div,
    "Xlogy": _times_log, "Xlog1py": _times_log1p, "TanhGrad": _tanh_grad, "SigmoidGrad": _sigmoid_grad,
    "SqrtGrad": _sqrt_grad, "RsqrtGrad": _rsqrt_grad, "ReciprocalGrad": _reciprocal_grad,
    "InvGrad": _reciprocal_grad,
}  # fmt: skip
_ZERO_AT_ZERO = {
    "DivNoNan": 1, "MulNoNan": 1, "Xdivy": 0, "Xlogy": 0, "Xlog1py": 0, "SqrtGrad": 1, "RsqrtGrad": 1,
    "ReciprocalGrad": 1, "InvGrad": 1,
}  # fmt: skip
"""The number of an operand; where this operand is 0, the result of the operation is 0."""


@lowering(*_FUNCTIONS)
def _function(call: OpCall, *operands: XlaOp) -> XlaOp:
    operands = tuple(matched(*operands))
    found = _FUNCTIONS[call.node.op](*operands)
    place = _ZERO_AT_ZERO.get(call.node.op)
    return found if place is None else ops.Select(operands[place] == 0, ops.ZerosLike(found), found)


# Other operations with one or two operands.


@lowering("_UnaryOpsComposition")
def _composition(call: OpCall, x: XlaOp) -> XlaOp:
    """Applies the functions that the attribute `op_names` lists, one after another."""
    for name in call["op_names"]:
        node = replace(call.node, op=name, record=records().get(name))
        (x,) = call.scope.add(node, [x], call.graph)
    return x


@lowering("Equal", "NotEqual")
def _equal(call: OpCall, x: XlaOp, y: XlaOp) -> XlaOp | np.ndarray:
    """Compares elements. For arrays with incompatible shapes the result is a scalar, "not equal"; with
    `incompatible_shape_error`, a VerifyError is raised.
    """
    is_equal = call.node.op == "Equal"
    try:
        x, y = matched(x, y)
    except VerifyError:
        if call["incompatible_shape_error"]:
            raise
        return np.asarray(not is_equal)
    return ops.Eq(x, y) if is_equal else ops.Ne(x, y)


@lowering("ApproximateEqual")
def _approximate_equal(call: OpCall, x: XlaOp, y: XlaOp) -> XlaOp:
    check_same_dims(call, x, y)
    size = abs(x - y)
    with np.errstate(all="ignore"):
        tolerance = np.asarray(call["tolerance"]).astype(size.dtype.numpy)
    return size < tolerance


@lowering("AddN", "AccumulateNV2")
def _add_n(call: OpCall, values: list[GraphValue]) -> GraphValue:
    if isinstance(values[0], TensorList):
        return reduce(TensorList.plus, values)
    check_same_dims(call, *values)
    return reduce(ops.Add, values)


@lowering("Cross")
def _cross(call: OpCall, a: XlaOp, b: XlaOp) -> XlaOp:
    """The cross product of vectors in the last dimension, of size 3."""
    check_same_dims(call, a, b)
    if a.dims[-1:] != (3,):
        call.fail(f"vectors of three numbers are wanted, found shape {list(a.dims)}")
    a1, a2, b1, b2 = (_rolled(value, places) for value in (a, b) for places in (1, 2))
    return a1 * b2 - a2 * b1


def _rolled(value: XlaOp, places: int) -> XlaOp:
    """An array whose last dimension is rotated, so that it begins at index `places`."""
    pieces = [value[..., places:], value[..., :places]]
    return ops.ConcatInDim(value.builder, pieces, len(value.dims) - 1)


# Conversions of types.


@lowering("Cast")
def _cast(call: OpCall, value: XlaOp) -> XlaOp:
    wanted = call.dtype("DstT")
    if wanted.is_pred and value.dtype.is_complex:
        return value != 0
    if call["Truncate"] and wanted.is_float and value.dtype.is_float:
        count = value.dtype.finfo.nmant - wanted.finfo.nmant
        if count > 0:  # clears the mantissa bits that the result type does not have
            words = np.dtype(f"uint{value.dtype.bits}")
            mask = np.array((1 << value.dtype.bits) - (1 << count), words)
            value = ops.BitcastConvertType(ops.BitcastConvertType(value, words) & mask, value.dtype)
    return ops.ConvertElementType(value, wanted)


@lowering("Bitcast")
def _bitcast(call: OpCall, value: XlaOp) -> XlaOp:
    found, wanted = value.dtype.bits, call.dtype("type").bits
    if found < wanted and value.dims[-1:] != (wanted // found,):
        call.fail(
            f"{wanted // found} elements become one of {call['type']}: the last dimension must have this "
            f"size, found shape {list(value.dims)}"
        )
    return ops.BitcastConvertType(value, call.dtype("type"))


# Selection.


@lowering("Select")
def _select(call: OpCall, condition: XlaOp, x: XlaOp, y: XlaOp) -> XlaOp:
    """Selects elements of `x` where the condition is true, else of `y`. A scalar condition selects a whole
    array, a vector rows.
    """
    check_same_dims(call, x, y)
    if condition.dims and condition.dims == x.dims[:1]:
        condition = ops.BroadcastInDim(condition, x.dims, [0])
    elif condition.dims not in ((), x.dims):
        call.fail(f"a condition of shape {list(condition.dims)} does not fit shape {list(x.dims)}")
    return ops.Select(spread(condition, x.dims), x, y)


@lowering("ClipByValue")
def _clip(call: OpCall, x: XlaOp, low: XlaOp, high: XlaOp) -> XlaOp:
    for bound in (low, high):
        if bound.dims not in ((), x.dims):
            call.fail(f"a bound has shape {list(bound.dims)}, wanted a scalar or {list(x.dims)}")
    if x.dtype.is_complex:
        return ops.Complex(*(ops.Clamp(part(low), part(x), part(high)) for part in (ops.Real, ops.Imag)))
    return ops.Clamp(low, x, high)
