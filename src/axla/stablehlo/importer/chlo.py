"""Imports CHLO: operations that are composed of builder functions, and operations with implicit
broadcasts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import axla.hlo as hlo
from axla.builder import compositions
from axla.builder import elementwise as e
from axla.builder.special import bessel, inverse, zeta
from axla.builder.xla_builder import XlaOp
from axla.core.shape import Shape, array
from axla.core.tables import by_name
from axla.ir.graph import Instruction
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.counterparts import COUNTERPARTS
from axla.stablehlo.importer.arrays import broadcast, converted
from axla.stablehlo.importer.plain import op_of
from axla.stablehlo.importer.scope import ImportRule, ImportScope, Lowered
from axla.stablehlo.operations import OPERATIONS
from axla.stablehlo.types import literal_of

_Function = Callable[..., XlaOp]


def _composed(function: _Function, count: int) -> ImportRule:
    """A rule for an operation with `count` operands, which `function` composes of builder operations."""

    def rule(scope: ImportScope, operation: mlir.Operation) -> Instruction:
        return scope.composed(function, _spread(scope, operation, count))

    return rule


# Implicit broadcasts


def _spread(scope: ImportScope, operation: mlir.Operation, count: int) -> list[Instruction]:
    """The `count` operands of an operation, each broadcast to the sizes of the result."""
    result, operands = scope.shape(operation), scope.operands(operation, count)
    return [broadcast(scope, o, result, _expansion(operation, array(o.shape), result)) for o in operands]


def _expansion(operation: mlir.Operation, operand: Shape, result: Shape) -> tuple[int, ...]:
    """The dimensions of the result that correspond to those of an operand: those in the attribute, or else
    the last ones.
    """
    if operand.rank == result.rank:
        return tuple(range(result.rank))
    given = attr.integers(operation, "broadcast_dimensions", None)
    if given is not None and len(given) == operand.rank:
        return given
    return tuple(range(result.rank - operand.rank, result.rank))


def _broadcasting(name: str) -> ImportRule:
    """A rule for an operation whose operands may have different sizes. They are broadcast first; `name` is
    the operation on equal sizes.
    """
    count = len(COUNTERPARTS[name].record.operands)

    def rule(scope: ImportScope, operation: mlir.Operation) -> Instruction:
        operands = _spread(scope, operation, count)
        return scope.add(op_of(scope, operation, name), operands)

    return rule


# Constants and top_k


def _constant(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    scope.shape(operation)
    return scope.constant(operation.attributes.get("value"), operation.results[0].type)


def _constant_like(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    literal = literal_of(operation.attributes.get("value"), scope.importer.source.resources)
    return scope.scalar(literal.item(), scope.shape(operation))


def _top_k(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    (operand,) = scope.operands(operation, 1)
    op = hlo.TopK(attr.integer(operation, "k"), attr.flag(operation, "largest", True))
    values, indices = scope.parts(scope.add(op, (operand,)), 2)
    return [values, converted(scope, indices, scope.shape(operation, 1))]


# Functions composed of builder operations


def _either(of_complex: _Function, of_real: _Function) -> _Function:
    def function(x: XlaOp) -> XlaOp:
        return of_complex(x) if x.dtype.is_complex else of_real(x)

    return function


def _is_inf(x: XlaOp) -> XlaOp:
    return e.Eq(abs(x), math.inf)


def _is_pos_inf(x: XlaOp) -> XlaOp:
    return e.Eq(x, math.inf)


def _is_neg_inf(x: XlaOp) -> XlaOp:
    return e.Eq(x, -math.inf)


_COMPOSED: dict[str, _Function] = {
    "acos": _either(inverse.acos, compositions.Acos),
    "acosh": _either(inverse.acosh, compositions.Acosh),
    "asin": _either(inverse.asin, compositions.Asin),
    "asinh": _either(inverse.asinh, compositions.Asinh),
    "atan": _either(inverse.atan, compositions.Atan),
    "atanh": _either(inverse.atanh, compositions.Atanh),
    "bessel_i1e": bessel.BesselI1e,
    "conj": compositions.Conj,
    "digamma": compositions.Digamma,
    "erf_inv": compositions.ErfInv,
    "erfc": compositions.Erfc,
    "is_inf": _is_inf,
    "is_neg_inf": _is_neg_inf,
    "is_pos_inf": _is_pos_inf,
    "lgamma": compositions.Lgamma,
    "next_after": compositions.NextAfter,
    "polygamma": zeta.Polygamma,
    "square": compositions.Square,
    "zeta": zeta.Zeta,
}
RULES: dict[str, ImportRule] = {
    **by_name("chlo.", _constant, _constant_like, _top_k),
    **{
        f"chlo.{prefix}{name}": _composed(function, len(OPERATIONS[f"chlo.{name}"].operands))
        for name, function in _COMPOSED.items()
        for prefix in ("", "broadcast_")
    },
    **{
        wide: _broadcasting(name)
        for name, counterpart in COUNTERPARTS.items()
        if (wide := f"chlo.broadcast_{counterpart.record.short}") in OPERATIONS
    },
}
