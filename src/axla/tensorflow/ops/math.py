"""Element by element: arithmetic, comparisons, bits, choices, conversions of types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.tensorflow.records import lowering, records
from axla.tensorflow.scope import Call, matched, spread
from axla.tensorflow.values import Composite, Value

RECORDS = """
Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Exp Expm1 Floor Log Log1p Neg Rsqrt Sign Sin Sinh Sqrt
    Square Tan Tanh: x:T T=type -> y:T ; hlo
Inv Reciprocal: x:T T=type -> y:T ; hlo Reciprocal
Invert: x:T T=type -> y:T ; hlo Not
Rint: x:T T=type -> y:T ; hlo RoundNearestEven
Sigmoid: x:T T=type -> y:T ; hlo Logistic
IsFinite: x:T T=type -> y:DT_BOOL ; hlo
LogicalNot: x:DT_BOOL -> y:DT_BOOL ; hlo Not
Round: x:T T=type -> y:T
IsInf IsNan: x:T T=type -> y:DT_BOOL
PopulationCount: x:T T=type -> y:DT_UINT8
TanhGrad SigmoidGrad SqrtGrad RsqrtGrad ReciprocalGrad InvGrad: y:T dy:T T=type -> z:T
_UnaryOpsComposition: x:T T=type op_names=list(string) -> y:T
CheckNumerics CheckNumericsV2: tensor:T T=type message=string -> output:T

Add AddV2: x:T y:T T=type -> z:T ; hlo Add
Sub Mul Pow: x:T y:T T=type -> z:T ; hlo
Div RealDiv: x:T y:T T=type -> z:T ; hlo Div
Mod TruncateMod: x:T y:T T=type -> z:T ; hlo Rem
Maximum: x:T y:T T=type -> z:T ; hlo Max
Minimum: x:T y:T T=type -> z:T ; hlo Min
Atan2: y:T x:T T=type -> z:T ; hlo
NextAfter: x1:T x2:T T=type?DT_FLOAT -> output:T ; hlo
LogicalAnd: x:DT_BOOL y:DT_BOOL -> z:DT_BOOL ; hlo And
LogicalOr: x:DT_BOOL y:DT_BOOL -> z:DT_BOOL ; hlo Or
BitwiseAnd: x:T y:T T=type -> z:T ; hlo And
BitwiseOr: x:T y:T T=type -> z:T ; hlo Or
BitwiseXor: x:T y:T T=type -> z:T ; hlo Xor
LeftShift: x:T y:T T=type -> z:T ; hlo ShiftLeft
RightShift: x:T y:T T=type -> z:T ; hlo ShiftRight
Less: x:T y:T T=type -> z:DT_BOOL ; hlo Lt
LessEqual: x:T y:T T=type -> z:DT_BOOL ; hlo Le
Greater: x:T y:T T=type -> z:DT_BOOL ; hlo Gt
GreaterEqual: x:T y:T T=type -> z:DT_BOOL ; hlo Ge
Equal NotEqual: x:T y:T T=type incompatible_shape_error=bool?true -> z:DT_BOOL
ApproximateEqual: x:T y:T T=type tolerance=float?1e-05 -> z:DT_BOOL
FloorDiv FloorMod TruncateDiv DivNoNan MulNoNan Xdivy Xlogy Xlog1py SquaredDifference: x:T y:T T=type -> z:T
AddN: inputs:N*T N=int>=1 T=type -> sum:T
AccumulateNV2: inputs:N*T N=int>=1 T=type shape=shape -> sum:T
Cross: a:T b:T T=type -> product:T

Cast: x:SrcT SrcT=type DstT=type Truncate=bool?false -> y:DstT
Bitcast: input:T T=type type=type -> output:type
ToBool: input:T T=type -> output:DT_BOOL
Complex: real:T imag:T T=type?DT_FLOAT Tout=type?DT_COMPLEX64 -> out:Tout ; hlo
Real Imag: input:T T=type?DT_COMPLEX64 Tout=type?DT_FLOAT -> output:Tout ; hlo
Angle: input:T T=type?DT_COMPLEX64 Tout=type?DT_FLOAT -> output:Tout
ComplexAbs: x:T T=type?DT_COMPLEX64 Tout=type?DT_FLOAT -> y:Tout ; hlo Abs
Conj: input:T T=type?DT_COMPLEX64 -> output:T ; hlo

Select SelectV2: condition:DT_BOOL t:T e:T T=type -> output:T
ClipByValue: t:T clip_value_min:T clip_value_max:T T=type -> output:T
"""


# One operand.


@lowering("Round")
def _round(call: Call, x: XlaOp) -> XlaOp:
    if x.dtype.is_integer:
        return x
    if x.dtype.is_complex:
        return ops.Complex(ops.RoundNearestEven(ops.Real(x)), ops.RoundNearestEven(ops.Imag(x)))
    return ops.RoundNearestEven(x)


@lowering("IsInf")
def _is_inf(call: Call, x: XlaOp) -> XlaOp:
    return abs(x) == np.inf


@lowering("IsNan")
def _is_nan(call: Call, x: XlaOp) -> XlaOp:
    return x != x


@lowering("PopulationCount")
def _population_count(call: Call, x: XlaOp) -> XlaOp:
    return ops.ConvertElementType(ops.PopulationCount(x), "u8")


@lowering("CheckNumerics", "CheckNumericsV2")
def _check_numerics(call: Call, x: XlaOp) -> XlaOp:
    """Not checked, as XLA does it."""
    return x


@lowering("_UnaryOpsComposition")
def _composition(call: Call, x: XlaOp) -> XlaOp:
    """The functions of a list, one after another."""
    for name in call["op_names"]:
        node = replace(call.node, op=name, record=records().get(name))
        (x,) = call.scope.add(node, [x], call.graph)
    return x


# Gradients, by the results y of the functions.


@lowering("TanhGrad")
def _tanh_grad(call: Call, y: XlaOp, dy: XlaOp) -> XlaOp:
    return dy * (1 - y * y)


@lowering("SigmoidGrad")
def _sigmoid_grad(call: Call, y: XlaOp, dy: XlaOp) -> XlaOp:
    return dy * y * (1 - y)


def _zero_where_zero(factor: XlaOp, found: XlaOp) -> XlaOp:
    return ops.Select(factor == 0, ops.ZerosLike(found), found)


@lowering("SqrtGrad")
def _sqrt_grad(call: Call, y: XlaOp, dy: XlaOp) -> XlaOp:
    return _zero_where_zero(dy, dy * 0.5 / ops.Conj(y))


@lowering("RsqrtGrad")
def _rsqrt_grad(call: Call, y: XlaOp, dy: XlaOp) -> XlaOp:
    y = ops.Conj(y)
    return _zero_where_zero(dy, dy * -0.5 * (y * y * y))


@lowering("ReciprocalGrad", "InvGrad")
def _reciprocal_grad(call: Call, y: XlaOp, dy: XlaOp) -> XlaOp:
    y = ops.Conj(y)
    return _zero_where_zero(dy, -dy * y * y)


# Two operands.


@lowering("FloorDiv")
def _floor_div(call: Call, x: XlaOp, y: XlaOp) -> XlaOp:
    """The quotient, rounded down; -1 for a positive integer by 0, -2 for a negative one."""
    x, y = matched(x, y)
    if not x.dtype.is_integer:
        return ops.Floor(x / y)
    if not x.dtype.is_signed:
        return x / y
    rest = ops.Rem(x, y)
    is_above = (rest != 0) & ((rest < 0) != (y < 0))
    return x / y - ops.ConvertElementType(is_above, x.dtype)


@lowering("FloorMod")
def _floor_mod(call: Call, x: XlaOp, y: XlaOp) -> XlaOp:
    """The rest of `FloorDiv`, which has the sign of the divisor."""
    x, y = matched(x, y)
    rest = ops.Rem(x, y)
    if x.dtype.is_integer and not x.dtype.is_signed:
        return rest
    return ops.Select((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


@lowering("TruncateDiv")
def _truncate_div(call: Call, x: XlaOp, y: XlaOp) -> XlaOp:
    """The quotient, rounded towards zero."""
    x, y = matched(x, y)
    found = x / y
    if not x.dtype.is_float:
        return found
    return ops.Select(found < 0, ops.Ceil(found), ops.Floor(found))


def _times_log(x: XlaOp, y: XlaOp) -> XlaOp:
    return x * ops.Log(y)


def _times_log1p(x: XlaOp, y: XlaOp) -> XlaOp:
    return x * ops.Log1p(y)


_ZERO_AT_ZERO: dict[str, tuple[Callable[[XlaOp, XlaOp], XlaOp], int]] = {
    "DivNoNan": (ops.Div, 1), "MulNoNan": (ops.Mul, 1), "Xdivy": (ops.Div, 0), "Xlogy": (_times_log, 0),
    "Xlog1py": (_times_log1p, 0),
}  # fmt: skip
"""Functions of x and y that are 0 where one of these is, and the number of the one."""


@lowering(*_ZERO_AT_ZERO)
def _zero_at_zero(call: Call, *operands: XlaOp) -> XlaOp:
    function, place = _ZERO_AT_ZERO[call.node.op]
    x, y = matched(*operands)
    return _zero_where_zero((x, y)[place], function(x, y))


@lowering("SquaredDifference")
def _squared_difference(call: Call, x: XlaOp, y: XlaOp) -> XlaOp:
    x, y = matched(x, y)
    return (x - y) * ops.Conj(x - y)


@lowering("Equal", "NotEqual")
def _equal(call: Call, x: XlaOp, y: XlaOp) -> XlaOp | np.ndarray:
    """Without `incompatible_shape_error`, arrays whose shapes do not go together are not equal: a scalar."""
    is_equal = call.node.op == "Equal"
    if not call["incompatible_shape_error"] and not _go_together(x, y):
        return np.asarray(not is_equal)
    x, y = matched(x, y)
    return ops.Eq(x, y) if is_equal else ops.Ne(x, y)


def _go_together(x: XlaOp, y: XlaOp) -> bool:
    pairs = zip(reversed(x.dims), reversed(y.dims), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


@lowering("ApproximateEqual")
def _approximate_equal(call: Call, x: XlaOp, y: XlaOp) -> XlaOp:
    _same_dims(call, x, y)
    size = abs(x - y)
    with np.errstate(all="ignore"):
        tolerance = np.asarray(call["tolerance"]).astype(size.dtype.numpy)
    return size < tolerance


def _same_dims(call: Call, *values: XlaOp) -> None:
    if len({value.dims for value in values}) > 1:
        call.fail(f"operands of one shape are wanted, found {', '.join(str(list(v.dims)) for v in values)}")


@lowering("AddN", "AccumulateNV2")
def _add_n(call: Call, values: list[Value]) -> Value:
    if isinstance(values[0], Composite):
        return reduce(_plus, values)
    _same_dims(call, *values)
    return reduce(ops.Add, values)


def _plus(one: Composite, other: Composite) -> Composite:
    return one.plus(other)


@lowering("Cross")
def _cross(call: Call, a: XlaOp, b: XlaOp) -> XlaOp:
    """The cross product of vectors of three numbers, those of the last dimension."""
    _same_dims(call, a, b)
    if a.dims[-1:] != (3,):
        call.fail(f"vectors of three numbers are wanted, found shape {list(a.dims)}")
    a1, a2, b1, b2 = (_turned(value, places) for value in (a, b) for places in (1, 2))
    return a1 * b2 - a2 * b1


def _turned(value: XlaOp, places: int) -> XlaOp:
    """An array whose last dimension is turned around: it begins at another place."""
    last = len(value.dims) - 1
    back = ops.SliceInDim(value, places, 3, 1, last)
    return ops.ConcatInDim(value.builder, [back, ops.SliceInDim(value, 0, places, 1, last)], last)


# Types.


@lowering("Cast")
def _cast(call: Call, value: XlaOp) -> XlaOp:
    wanted = call.dtype("DstT")
    if wanted.is_pred and value.dtype.is_complex:
        return value != 0
    if call["Truncate"] and wanted.is_float and value.dtype.is_float:
        value = _truncated(value, value.dtype.finfo.nmant - wanted.finfo.nmant)
    return ops.ConvertElementType(value, wanted)


def _truncated(value: XlaOp, count: int) -> XlaOp:
    """Floats without the last digits of their mantissas."""
    if count <= 0:
        return value
    dtype = np.dtype(f"uint{value.dtype.bits}")
    mask = np.array((1 << value.dtype.bits) - (1 << count), dtype)
    return ops.BitcastConvertType(ops.BitcastConvertType(value, dtype) & mask, value.dtype)


@lowering("Bitcast")
def _bitcast(call: Call, value: XlaOp) -> XlaOp:
    found, wanted = value.dtype.bits, call.dtype("type").bits
    if found < wanted and value.dims[-1:] != (wanted // found,):
        call.fail(
            f"{wanted // found} elements make one of {call['type']}: wanted this as the size of the last "
            f"dimension, found shape {list(value.dims)}"
        )
    return ops.BitcastConvertType(value, call.dtype("type"))


@lowering("ToBool")
def _to_bool(call: Call, value: XlaOp) -> XlaOp | np.ndarray:
    """Of a scalar whether it is not zero, of other arrays whether they have elements."""
    if value.dims:
        return np.asarray(value.shape.size > 0)
    return value if value.dtype.is_pred else value != 0


@lowering("Angle")
def _angle(call: Call, value: XlaOp) -> XlaOp:
    return ops.Atan2(ops.Imag(value), ops.Real(value))


# Choices.


@lowering("Select")
def _select(call: Call, condition: XlaOp, x: XlaOp, y: XlaOp) -> XlaOp:
    """A scalar chooses one array, a vector rows, an array elements."""
    _same_dims(call, x, y)
    if condition.dims == x.dims[:1]:
        condition = ops.BroadcastInDim(condition, x.dims, [0])
    elif condition.dims not in ((), x.dims):
        call.fail(f"a condition of shape {list(condition.dims)} for operands of shape {list(x.dims)}")
    return ops.Select(spread(condition, x.dims), x, y)


@lowering("SelectV2")
def _select_v2(call: Call, condition: XlaOp, x: XlaOp, y: XlaOp) -> XlaOp:
    return ops.Select(*matched(condition, x, y))


@lowering("ClipByValue")
def _clip(call: Call, x: XlaOp, low: XlaOp, high: XlaOp) -> XlaOp:
    for bound in (low, high):
        if bound.dims not in ((), x.dims):
            call.fail(f"a bound has shape {list(bound.dims)}, wanted a scalar or {list(x.dims)}")
    if x.dtype.is_complex:
        return ops.Complex(*(ops.Clamp(part(low), part(x), part(high)) for part in (ops.Real, ops.Imag)))
    return ops.Clamp(low, x, high)
