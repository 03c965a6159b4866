"""Imports calls, loops, branches and tuples.

Computations that HLO calls cannot access outer values: the outer values that a region uses become elements of
a loop's state, or operands of a branch.
"""

from __future__ import annotations

from dataclasses import replace

import axla.hlo as hlo
from axla.core.tables import by_name
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.importer.scope import ImportRule, ImportScope, Lowered
from axla.stablehlo.text.printer import attribute_text


def _while(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    captured = scope.captured(operation, range(len(operation.regions)))
    state = [*scope.operands(operation), *[scope.value(v) for v in captured]]
    condition, body = (scope.closed(operation, n, captured, passed=n == 1) for n in range(2))
    loop = scope.add(hlo.While(condition, body), (scope.tuple(state),))
    count = len(operation.results)
    if len(state) == 1:
        return [loop][:count]
    return loop if count > 1 else scope.parts(loop, count)


def _conditional(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    """Imports an `if` or a `case`; each region becomes a computation with one operand."""
    operands = scope.operands(operation, 1)
    computations = []
    for number in range(len(operation.regions)):
        captured = scope.captured(operation, (number,))
        operands.append(scope.tuple([scope.value(v) for v in captured], named=False))
        computations.append(scope.closed(operation, number, captured))
    by_pred = operation.name == "stablehlo.if"
    op = hlo.Conditional(*computations) if by_pred else hlo.Conditional(None, None, tuple(computations))
    return scope.add(op, operands)


def _call(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    called = scope.importer.computations[attr.symbol(operation, "callee")]
    return scope.add(hlo.Call(called), scope.operands(operation))


def _composite(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    """Imports a composite as a call of its decomposition, with frontend attributes that identify the
    composite.
    """
    called = scope.importer.computations[attr.symbol(operation, "decomposition")]
    said = {
        "composite.attributes": attribute_text(attr.dictionary(operation, "composite_attributes")),
        "composite.name": attr.text(operation, "name"),
        "composite.version": str(attr.integer(operation, "version", 0)),
    }
    given = scope.extra.frontend_attributes
    extra = replace(scope.extra, frontend_attributes=tuple(sorted({**dict(given), **said}.items())))
    return scope.add(hlo.Call(called, is_composite=True), scope.operands(operation), extra=extra)


def _optimization_barrier(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    operands = scope.operands(operation)
    return scope.add(hlo.OptBarrier(), (scope.tuple(operands),)) if operands else None


def _nothing(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    return None


RULES: dict[str, ImportRule] = {
    **by_name("stablehlo.", _composite, _optimization_barrier, _while),
    "func.call": _call,
    "sdy.mesh": _nothing,
    "sdy.sharding_group": _nothing,
    "stablehlo.case": _conditional,
    "stablehlo.if": _conditional,
}
