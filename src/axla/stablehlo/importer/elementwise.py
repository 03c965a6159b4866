"""Elementwise operations."""

from __future__ import annotations

import axla.hlo as hlo
from axla.core import dtypes
from axla.core.errors import VerifyError
from axla.core.shape import Shape
from axla.ir.attributes import Direction
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.ir.structure import Parameter
from axla.stablehlo import mlir
from axla.stablehlo.importer.scope import Rule, Scope
from axla.stablehlo.tables import by_name


def _extreme(op: Op, direction: Direction) -> Rule:
    """The larger or the smaller; complex numbers are ordered by their real parts, then by the others."""

    def rule(scope: Scope, operation: mlir.Operation) -> Instruction:
        operands = scope.operands(operation, 2)
        shape = operands[0].shape
        if not isinstance(shape, Shape) or not shape.dtype.is_complex:
            return scope.add(op, operands)
        (x, y), (u, v) = ([scope.add(part, (o,)) for o in operands] for part in (hlo.Real(), hlo.Imag()))
        first, then = (scope.add(hlo.Compare(direction), pair) for pair in ((x, y), (u, v)))
        equal = scope.add(hlo.Compare(Direction.EQ), (x, y))
        chosen = scope.add(hlo.Or(), (first, scope.add(hlo.And(), (equal, then))))
        return scope.add(hlo.Select(), (chosen, *operands))

    return rule


def converted(scope: Scope, operand: Instruction, shape: Shape) -> Instruction:
    source = operand.shape
    if isinstance(source, Shape) and source.dtype.is_complex and not shape.dtype.is_complex:
        operand = scope.add(hlo.Real(), (operand,))
    return scope.add(hlo.Convert(shape), (operand,))


def _convert(scope: Scope, operation: mlir.Operation) -> Instruction:
    (operand,) = scope.operands(operation, 1)
    return converted(scope, operand, scope.shape(operation))


def _bitcast_convert(scope: Scope, operation: mlir.Operation) -> Instruction:
    (operand,) = scope.operands(operation, 1)
    source, result = operand.shape, scope.shape(operation)
    if isinstance(source, Shape) and source.dtype.is_pred is not result.dtype.is_pred:
        return (
            _from_bits(scope, operand, result) if source.dtype.is_pred else _to_bits(scope, operand, result)
        )
    return scope.add(hlo.BitcastConvert(result), (operand,))


def _words(scope: Scope, bits: Shape, width: int) -> tuple[Shape, Instruction]:
    """A type of words for an array of bits, and the place of each bit in its word. A pred is one bit."""
    words = dtypes.BY_NAME.get(f"u{width}")
    if words is None or not bits.dims or bits.dims[-1] != width:
        raise VerifyError(f"the last dimension of {bits.to_string(layout=False)} must be the {width} bits")
    shape = Shape(words, bits.dims)
    return shape, scope.add(hlo.Iota(shape, shape.rank - 1))


def _from_bits(scope: Scope, operand: Instruction, result: Shape) -> Instruction:
    """Words from their bits, the lowest first."""
    shape, place = _words(scope, operand.shape, result.dtype.bits)  # type: ignore[arg-type]
    shifted = scope.add(hlo.ShiftLeft(), (scope.add(hlo.Convert(shape), (operand,)), place))
    scalar = Shape(shape.dtype)
    either = scope.importer.module.add_computation("either")
    parameters = [either.add(Parameter(scalar, n), (), scalar) for n in range(2)]
    either.set_root(either.add(hlo.Or(), parameters))
    word = scope.add(hlo.Reduce((shape.rank - 1,), either), (shifted, scope.scalar(0, scalar)))
    return word if result.dtype is shape.dtype else scope.add(hlo.BitcastConvert(result), (word,))


def _to_bits(scope: Scope, operand: Instruction, result: Shape) -> Instruction:
    """The bits of words, the lowest first."""
    source = operand.shape
    assert isinstance(source, Shape)
    shape, place = _words(scope, result, source.dtype.bits)
    if source.dtype is not shape.dtype:
        operand = scope.add(hlo.BitcastConvert(Shape(shape.dtype, source.dims)), (operand,))
    repeated = scope.add(hlo.Broadcast(shape, tuple(range(source.rank))), (operand,))
    shifted = scope.add(hlo.ShiftRightLogical(), (repeated, place))
    return scope.add(hlo.Convert(result), (scope.add(hlo.And(), (shifted, scope.scalar(1, shape))),))


def _constant(scope: Scope, operation: mlir.Operation) -> Instruction:
    scope.operands(operation, 0)
    return scope.constant(operation.attributes.get("value"), operation.results[0].type)


RULES: dict[str, Rule] = {
    **by_name("stablehlo.", _bitcast_convert, _constant, _convert),
    "stablehlo.maximum": _extreme(hlo.Maximum(), Direction.GT),
    "stablehlo.minimum": _extreme(hlo.Minimum(), Direction.LT),
}
