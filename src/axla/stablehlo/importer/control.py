"""Calls, loops, branches, tuples.

HLO's regions see nothing outside: what they use becomes elements of a loop's state, or operands of a branch.
"""

from __future__ import annotations

from dataclasses import replace

import axla.hlo as hlo
from axla.ir.graph import Instruction
from axla.ir.structure import GetTupleElement, Tuple
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.importer.plain import same
from axla.stablehlo.importer.scope import Outcome, Rule, Scope
from axla.stablehlo.tables import by_name
from axla.stablehlo.text.printer import attribute_text


def _while(scope: Scope, operation: mlir.Operation) -> Outcome:
    captured = scope.captured(operation, range(len(operation.regions)))
    state = [*scope.operands(operation), *[scope.value(v) for v in captured]]
    condition, test = scope.carrying(operation, 0, captured)
    (root,) = condition.fill(test)
    condition.computation.set_root(root)
    body, block = scope.carrying(operation, 1, captured)
    results = body.fill(block)
    # An array may be its own tuple only where it is the whole state.
    found = [*results, *[body.value(v) for v in captured]]
    body.computation.set_root(body.tuple(found, named=False))
    loop = scope.add(hlo.While(condition.computation, body.computation), (scope.tuple(state),))
    return _elements(scope, loop, len(operation.results), whole=len(state) == 1)


def _elements(scope: Scope, value: Instruction, count: int, *, whole: bool) -> Outcome:
    """The first elements of a tuple; the value itself where it is no tuple."""
    if whole:
        return [value][:count]
    return value if count > 1 else scope.parts(value, count)


def _branches(scope: Scope, operation: mlir.Operation) -> tuple[list, list[Instruction]]:
    """The regions as computations of one operand each, and those operands."""
    computations, operands = [], []
    for number in range(len(operation.regions)):
        captured = scope.captured(operation, (number,))
        operands.append(scope.tuple([scope.value(v) for v in captured], named=False))
        branch, block = scope.carrying(operation, number, captured)
        branch.computation.set_root(branch.tuple(branch.fill(block), named=False))
        computations.append(branch.computation)
    return computations, operands


def _if(scope: Scope, operation: mlir.Operation) -> Outcome:
    (pred,) = scope.operands(operation, 1)
    (yes, no), operands = _branches(scope, operation)
    return scope.add(hlo.Conditional(yes, no), (pred, *operands))


def _case(scope: Scope, operation: mlir.Operation) -> Outcome:
    (index,) = scope.operands(operation, 1)
    computations, operands = _branches(scope, operation)
    return scope.add(hlo.Conditional(None, None, tuple(computations)), (index, *operands))


def _call(scope: Scope, operation: mlir.Operation) -> Outcome:
    called = scope.importer.computations[attr.symbol(operation, "callee")]
    return scope.add(hlo.Call(called), scope.operands(operation))


def _composite(scope: Scope, operation: mlir.Operation) -> Outcome:
    """A call of the decomposition, which says what it is."""
    called = scope.importer.computations[attr.symbol(operation, "decomposition")]
    said = {
        "composite.attributes": attribute_text(attr.dictionary(operation, "composite_attributes")),
        "composite.name": attr.text(operation, "name"),
        "composite.version": str(attr.integer(operation, "version", 0)),
    }
    given = scope.extra.frontend_attributes
    extra = replace(scope.extra, frontend_attributes=tuple(sorted({**dict(given), **said}.items())))
    return scope.add(hlo.Call(called, is_composite=True), scope.operands(operation), extra=extra)


def _optimization_barrier(scope: Scope, operation: mlir.Operation) -> Outcome:
    operands = scope.operands(operation)
    return scope.add(hlo.OptBarrier(), (scope.tuple(operands),)) if operands else None


def _get_tuple_element(scope: Scope, operation: mlir.Operation) -> Outcome:
    return scope.add(GetTupleElement(attr.integer(operation, "index")), scope.operands(operation, 1))


def _nothing(scope: Scope, operation: mlir.Operation) -> Outcome:
    return None


RULES: dict[str, Rule] = {
    **by_name(
        "stablehlo.", _case, _composite, _get_tuple_element, _if, _optimization_barrier, _while,
    ),
    "func.call": _call,
    "sdy.mesh": _nothing,
    "stablehlo.tuple": same(Tuple()),
}  # fmt: skip
