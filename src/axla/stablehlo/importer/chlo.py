"""CHLO: functions that are composed, and operations with implicit broadcasts."""

from __future__ import annotations

import math
from collections.abc import Callable

import axla.hlo as hlo
from axla.builder import bessel, compositions, inverse, zeta
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.shape import Shape
from axla.ir.attributes import Direction
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.counterparts import COUNTERPARTS
from axla.stablehlo.importer.elementwise import converted
from axla.stablehlo.importer.movement import array, broadcast
from axla.stablehlo.importer.plain import op_of
from axla.stablehlo.importer.scope import Outcome, Rule, Scope
from axla.stablehlo.operations import OPERATIONS
from axla.stablehlo.tables import by_name
from axla.stablehlo.types import literal_of

# Functions of the builder


def _composed(function: Callable[..., XlaOp], count: int) -> Rule:
    """A function composed of builder operations."""

    def rule(scope: Scope, operation: mlir.Operation) -> Instruction:
        return composition(scope, function, _spread(scope, operation, count))

    return rule


def composition(scope: Scope, function: Callable[..., XlaOp], operands: list[Instruction]) -> Instruction:
    """What a function composes, next to its operands. It is composed once for the same shapes."""
    shapes = tuple(o.shape for o in operands)
    body = scope.importer.compositions.get((function, shapes))
    if body is None:
        builder = XlaBuilder(function.__name__)
        function(*[builder.parameter(n, s) for n, s in enumerate(shapes)])
        body = builder.build().entry
        scope.importer.compositions[function, shapes] = body
    return scope.inline(body, dict(zip(body.parameters, operands, strict=True)))


# Implicit broadcasts


def _spread(scope: Scope, operation: mlir.Operation, count: int) -> list[Instruction]:
    """The operands, each in the sizes of the result."""
    result, operands = scope.shape(operation), scope.operands(operation, count)
    return [broadcast(scope, o, result, _expansion(operation, array(o), result)) for o in operands]


def _expansion(operation: mlir.Operation, operand: Shape, result: Shape) -> tuple[int, ...]:
    """Which dimensions of the result those of an operand are: by the attribute, or the last ones."""
    if operand.rank == result.rank:
        return tuple(range(result.rank))
    given = attr.integers(operation, "broadcast_dimensions", None)
    if given is not None and len(given) == operand.rank:
        return given
    return tuple(range(result.rank - operand.rank, result.rank))


def _broadcasting(name: str) -> Rule:
    """An operation, by its name, on operands of different sizes."""
    count = len(COUNTERPARTS[name].record.operands)

    def rule(scope: Scope, operation: mlir.Operation) -> Instruction:
        operands = _spread(scope, operation, count)
        return scope.add(op_of(scope, operation, name), operands)

    return rule


# Small ones


def _constant(scope: Scope, operation: mlir.Operation) -> Outcome:
    scope.shape(operation)
    return scope.constant(operation.attributes.get("value"), operation.results[0].type)


def _constant_like(scope: Scope, operation: mlir.Operation) -> Outcome:
    literal = literal_of(operation.attributes.get("value"), scope.importer.source.resources)
    return scope.scalar(literal.item(), scope.shape(operation))


def _conj(scope: Scope, operation: mlir.Operation) -> Outcome:
    (operand,) = scope.operands(operation, 1)
    return composition(scope, compositions.Conj, [operand]) if array(operand).dtype.is_complex else operand


def _square(scope: Scope, operation: mlir.Operation) -> Outcome:
    (operand,) = scope.operands(operation, 1)
    return scope.add(hlo.Multiply(), (operand, operand))


def _is_infinite(value: float) -> Rule:
    """Whether the operand is this infinity; NaN stands for either."""

    def rule(scope: Scope, operation: mlir.Operation) -> Outcome:
        (operand,) = scope.operands(operation, 1)
        if math.isnan(value):
            operand = scope.add(hlo.Abs(), (operand,))
        limit = scope.scalar(math.inf if math.isnan(value) else value, array(operand))
        return scope.add(hlo.Compare(Direction.EQ), (operand, limit))

    return rule


def _inverse(function: Callable[..., XlaOp], op: Op | None) -> Rule:
    """An inverse function: of complex numbers composed, of real ones what HLO has (or an angle)."""

    def rule(scope: Scope, operation: mlir.Operation) -> Outcome:
        (operand,) = scope.operands(operation, 1)
        if array(operand).dtype.is_complex:
            return composition(scope, function, [operand])
        if op is None:
            return scope.add(hlo.Atan2(), (operand, scope.scalar(1, array(operand))))
        return scope.add(op, (operand,))

    return rule


def _top_k(scope: Scope, operation: mlir.Operation) -> Outcome:
    (operand,) = scope.operands(operation, 1)
    op = hlo.TopK(attr.integer(operation, "k"), attr.flag(operation, "largest", True))
    values, indices = scope.parts(scope.add(op, (operand,)), 2)
    return [values, converted(scope, indices, scope.shape(operation, 1))]


_COMPOSED: dict[str, Rule] = {
    "bessel_i1e": _composed(bessel.BesselI1e, 1),
    "digamma": _composed(compositions.Digamma, 1),
    "erf_inv": _composed(compositions.ErfInv, 1),
    "erfc": _composed(compositions.Erfc, 1),
    "lgamma": _composed(compositions.Lgamma, 1),
    "next_after": _composed(compositions.NextAfter, 2),
    "polygamma": _composed(zeta.Polygamma, 2),
    "zeta": _composed(zeta.Zeta, 2),
}
RULES: dict[str, Rule] = {
    **by_name("chlo.", _conj, _constant, _constant_like, _square, _top_k),
    **{f"chlo.{name}": rule for name, rule in _COMPOSED.items()},
    **{f"chlo.broadcast_{name}": rule for name, rule in _COMPOSED.items()},
    **{
        wide: _broadcasting(name)
        for name, counterpart in COUNTERPARTS.items()
        if (wide := f"chlo.broadcast_{counterpart.record.short}") in OPERATIONS
    },
    "chlo.acos": _inverse(inverse.acos, hlo.Acos()),
    "chlo.acosh": _inverse(inverse.acosh, hlo.Acosh()),
    "chlo.asin": _inverse(inverse.asin, hlo.Asin()),
    "chlo.asinh": _inverse(inverse.asinh, hlo.Asinh()),
    "chlo.atan": _inverse(inverse.atan, None),
    "chlo.atanh": _inverse(inverse.atanh, hlo.Atanh()),
    "chlo.is_inf": _is_infinite(math.nan),
    "chlo.is_neg_inf": _is_infinite(-math.inf),
    "chlo.is_pos_inf": _is_infinite(math.inf),
}
