"""Elementwise functions of the builder, with XLA's names and argument order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import axla.hlo as hlo
from axla.builder.broadcasting import broadcast_pair, scalars_to
from axla.builder.coerce import array, as_op, builder_of, operands
from axla.builder.records import ResultAccuracy, ResultAccuracy_Mode
from axla.builder.values import element_type, instance, integers, member
from axla.builder.xla_builder import XlaOp
from axla.core.errors import InvalidArgument, UnsupportedError
from axla.core.shape import Shape
from axla.ir.attributes import CompareType, Direction
from axla.ir.op import Op

OpFunction = Callable[..., XlaOp]


def _unary(op: Op, name: str = "") -> OpFunction:
    name = name or type(op).__name__

    def function(operand: object, result_accuracy: object = None) -> XlaOp:
        check_accuracy(name, result_accuracy)
        (value,) = operands(name, operand)
        return value.builder.add(op, (value,))

    return named(function, name, op)


def check_accuracy(name: str, accuracy: object) -> None:
    """Raises UnsupportedError if an accuracy other than the default is requested. `name` is the function's
    name.
    """
    if accuracy is None:
        return
    mode = instance(ResultAccuracy, accuracy, f"{name}: result_accuracy").mode
    if member(ResultAccuracy_Mode, mode, f"{name}: result_accuracy") is not ResultAccuracy_Mode.DEFAULT:
        message = f"{name}: result_accuracy={accuracy!r}; only the default accuracy is implemented"
        raise UnsupportedError(message)


def _binary(op: Op, name: str = "") -> OpFunction:
    name = name or type(op).__name__

    def function(lhs: object, rhs: object, broadcast_dimensions: Sequence[int] | None = None) -> XlaOp:
        left, right = operands(name, lhs, rhs)
        return left.builder.add(op, broadcast_pair(op.opcode, left, right, broadcast_dimensions))

    return named(function, name, op)


def named(function: Any, name: str, op: Op) -> Any:
    """Gives a function a name and the docstring of its op, and returns it."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = type(op).__doc__
    return function


Abs = _unary(hlo.Abs())
Neg = _unary(hlo.Negate(), "Neg")
Sign = _unary(hlo.Sign())
Ceil = _unary(hlo.Ceil())
Floor = _unary(hlo.Floor())
Round = _unary(hlo.RoundNearestAfz(), "Round")
RoundNearestEven = _unary(hlo.RoundNearestEven())
IsFinite = _unary(hlo.IsFinite())
Not = _unary(hlo.Not())
PopulationCount = _unary(hlo.Popcnt(), "PopulationCount")
Clz = _unary(hlo.CountLeadingZeros(), "Clz")
Real = _unary(hlo.Real())
Imag = _unary(hlo.Imag())
Sqrt = _unary(hlo.Sqrt())
Rsqrt = _unary(hlo.Rsqrt())
Cbrt = _unary(hlo.Cbrt())
Exp = _unary(hlo.Exponential(), "Exp")
Expm1 = _unary(hlo.ExponentialMinusOne(), "Expm1")
Log = _unary(hlo.Log())
Log1p = _unary(hlo.LogPlusOne(), "Log1p")
Logistic = _unary(hlo.Logistic())
Tanh = _unary(hlo.Tanh())
Sin = _unary(hlo.Sine(), "Sin")
Cos = _unary(hlo.Cosine(), "Cos")
Tan = _unary(hlo.Tan())
Erf = _unary(hlo.Erf())

Add = _binary(hlo.Add())
Sub = _binary(hlo.Subtract(), "Sub")
Mul = _binary(hlo.Multiply(), "Mul")
Div = _binary(hlo.Divide(), "Div")
Rem = _binary(hlo.Remainder(), "Rem")
Max = _binary(hlo.Maximum(), "Max")
Min = _binary(hlo.Minimum(), "Min")
Pow = _binary(hlo.Power(), "Pow")
Atan2 = _binary(hlo.Atan2())
And = _binary(hlo.And())
Or = _binary(hlo.Or())
Xor = _binary(hlo.Xor())
ShiftLeft = _binary(hlo.ShiftLeft())
ShiftRightArithmetic = _binary(hlo.ShiftRightArithmetic())
ShiftRightLogical = _binary(hlo.ShiftRightLogical())
Complex = _binary(hlo.Complex())

Eq = _binary(hlo.Compare(Direction.EQ), "Eq")
Ne = _binary(hlo.Compare(Direction.NE), "Ne")
Ge = _binary(hlo.Compare(Direction.GE), "Ge")
Gt = _binary(hlo.Compare(Direction.GT), "Gt")
Le = _binary(hlo.Compare(Direction.LE), "Le")
Lt = _binary(hlo.Compare(Direction.LT), "Lt")


def _total_order(name: str, direction: Direction) -> OpFunction:
    floats = hlo.Compare(direction, CompareType.TOTAL_ORDER)
    others = hlo.Compare(direction)

    def function(lhs: object, rhs: object, broadcast_dimensions: Sequence[int] | None = None) -> XlaOp:
        left, right = operands(name, lhs, rhs)
        op = floats if isinstance(left.shape, Shape) and left.shape.dtype.is_float else others
        return left.builder.add(op, broadcast_pair("compare", left, right, broadcast_dimensions))

    return named(function, name, floats)


EqTotalOrder = _total_order("EqTotalOrder", Direction.EQ)
NeTotalOrder = _total_order("NeTotalOrder", Direction.NE)
GeTotalOrder = _total_order("GeTotalOrder", Direction.GE)
GtTotalOrder = _total_order("GtTotalOrder", Direction.GT)
LeTotalOrder = _total_order("LeTotalOrder", Direction.LE)
LtTotalOrder = _total_order("LtTotalOrder", Direction.LT)


def ShiftRight(lhs: object, rhs: object, broadcast_dimensions: Sequence[int] | None = None) -> XlaOp:
    """Shifts right: arithmetically for signed integers, logically for others."""
    left, right = operands("ShiftRight", lhs, rhs)
    signed = isinstance(left.shape, Shape) and left.shape.dtype.is_signed
    return (ShiftRightArithmetic if signed else ShiftRightLogical)(left, right, broadcast_dimensions)


def Compare(
    lhs: object, rhs: object, broadcast_dimensions: Sequence[int] | None, direction: Direction | str,
    compare_type: CompareType | str | None = None,
) -> XlaOp:  # fmt: skip
    """Returns, as pred, whether `lhs` is in the relation `direction` (EQ, NE, GE, GT, LE or LT) to `rhs`."""
    left, right = operands("Compare", lhs, rhs)
    relation = member(Direction, direction, "Compare: direction")
    order = None if compare_type is None else member(CompareType, compare_type, "Compare: compare_type")
    op = hlo.Compare(relation, order)
    return left.builder.add(op, broadcast_pair("compare", left, right, broadcast_dimensions))


def Select(pred: object, on_true: object, on_false: object) -> XlaOp:
    """Selects elements of `on_true` where `pred` is true, else of `on_false`. Scalars are broadcast. Of two
    tuples a scalar `pred` selects one.
    """
    builder = builder_of("Select", (pred, on_true, on_false))
    first, second = operands("Select", on_true, on_false, builder=builder)
    chooser = as_op("Select", builder, pred)
    if first.shape.is_tuple:
        return _select_tuple(chooser, first, second)
    sized = next((v for v in (first, second, chooser) if getattr(v.shape, "dims", ())), first)
    values = [scalars_to(sized, v) for v in (chooser, first, second)]
    return chooser.builder.add(hlo.Select(), values)


def _select_tuple(pred: XlaOp, on_true: XlaOp, on_false: XlaOp) -> XlaOp:
    """Selects one of two tuples by the scalar `pred`. Selects element by element, since HLO's `select` only
    takes arrays.
    """
    builder = pred.builder
    if on_true.shape.logical is not on_false.shape.logical or getattr(pred.shape, "dims", None) != ():
        message = "select of tuples: wanted a scalar pred and tuples of equal shape  [select_tuple]"
        builder.fail("select", (pred, on_true, on_false), message)
    elements = []
    for k in range(len(on_true)):
        a, b = on_true[k], on_false[k]
        elements.append(Select(pred, a, b))
    return builder.add(hlo.Tuple(), elements)


def Clamp(min: object, operand: object, max: object) -> XlaOp:
    """Returns minimum(maximum(min, operand), max); scalar bounds are broadcast."""
    value, low, high = operands("Clamp", operand, min, max)
    return value.builder.add(hlo.Clamp(), (scalars_to(value, low), value, scalars_to(value, high)))


def ConvertElementType(operand: object, new_element_type: Any) -> XlaOp:
    """Converts every element to another element type, as HLO's `convert` does. If the new type is real, only
    the real part of complex numbers is kept.
    """
    value, shape = array("ConvertElementType", operand)
    dtype = element_type(new_element_type, "ConvertElementType: new_element_type")
    if shape.dtype.is_complex and not dtype.is_complex:
        value = Real(value)
    return value.builder.add(hlo.Convert(Shape(dtype, shape.dims, shape.dynamic)), (value,))


def BitcastConvertType(operand: object, new_element_type: Any) -> XlaOp:
    """Reinterprets the bits as another element type. If it has k times fewer bits, a new last dimension of
    size k holds the parts of an element; if more, the last dimension is merged into one element.
    """
    value, shape = array("BitcastConvertType", operand)
    dtype = element_type(new_element_type, "BitcastConvertType: new_element_type")
    dims, dynamic = shape.dims, shape.dynamic
    if dtype.bits < shape.dtype.bits:
        dims, dynamic = (*dims, shape.dtype.bits // dtype.bits), (*dynamic, False)
    elif dtype.bits > shape.dtype.bits:
        dims, dynamic = dims[:-1], dynamic[:-1]
    return value.builder.add(hlo.BitcastConvert(Shape(dtype, dims, dynamic)), (value,))


def ReducePrecision(
    operand: object, *bits: int, exponent_bits: int | None = None, mantissa_bits: int | None = None
) -> XlaOp:
    """Rounds the operand to a float format with the given numbers of bits; the element type stays.

    XLA's builder takes `exponent_bits` first, but its documents show `mantissa_bits` first. Unless the two
    numbers are equal, at least one must therefore be passed by name.
    """
    (value,) = operands("ReducePrecision", operand)
    named = {"exponent_bits": exponent_bits, "mantissa_bits": mantissa_bits}
    given = {name: number for name, number in named.items() if number is not None}
    unnamed = integers(bits, "ReducePrecision: bits")
    if len(unnamed) + len(given) != 2 or len(set(unnamed)) == 2:
        raise InvalidArgument(
            f"ReducePrecision: found {[*unnamed, *given]}, wanted exponent_bits=... and mantissa_bits=... by "
            "name: XLA's builder and its documents have them in different order"
        )
    numbers = integers([given.get(name, *unnamed[:1]) for name in named], "ReducePrecision: bits")
    return value.builder.add(hlo.ReducePrecision(*numbers), (value,))
