"""Operations that call a region on scalars: reductions, windows, sorting, scatters."""

from __future__ import annotations

from collections.abc import Sequence

import axla.hlo as hlo
from axla.core.dtypes import DType
from axla.core.errors import VerifyError
from axla.core.shape import Shape
from axla.ir.attributes import Window
from axla.ir.graph import Computation, Instruction
from axla.stablehlo import mlir
from axla.stablehlo.importer import attributes as attr
from axla.stablehlo.importer.movement import array
from axla.stablehlo.importer.scope import Rule, Scope
from axla.stablehlo.tables import by_name


def parameter_types(called: Computation) -> list[DType]:
    """The element types that a region computes with."""
    return [p.shape.dtype for p in called.parameters if isinstance(p.shape, Shape)]


def _halves(scope: Scope, operation: mlir.Operation, called: Computation) -> list[Instruction]:
    """n arrays and n initial values, in the element types that the region computes with."""
    operands = scope.operands(operation)
    types, count = parameter_types(called), len(operands) // 2
    return scope.converted(operands, types[:count] * 2)


def _reduce(scope: Scope, operation: mlir.Operation) -> Instruction:
    called = scope.region(operation)
    operands = _halves(scope, operation, called)
    return scope.add(hlo.Reduce(attr.integers(operation, "dimensions"), called), operands)


def window_of(operation: mlir.Operation, size: Sequence[int], bases: str, holes: str) -> Window:
    """A window with the attributes of StableHLO; those that are left out have their defaults."""
    padding = attr.matrix(operation, "padding", [])
    names = ("window_strides", bases, holes, "window_reversal")
    lists = {name: attr.integers(operation, name, ()) for name in names}
    for name, found in (*lists.items(), ("padding", padding)):
        if found and len(found) != len(size):
            raise VerifyError(f"{name} has {len(found)} entries, {len(size)} are wanted")
    return Window(
        tuple(size), lists["window_strides"], tuple(p[0] for p in padding), tuple(p[1] for p in padding),
        lists[bases], lists[holes], tuple(map(bool, lists["window_reversal"])),
    )  # fmt: skip


def _reduce_window(scope: Scope, operation: mlir.Operation) -> Instruction:
    called = scope.region(operation)
    size = attr.integers(operation, "window_dimensions")
    window = window_of(operation, size, "base_dilations", "window_dilations")
    return scope.add(hlo.ReduceWindow(window, called), _halves(scope, operation, called))


def _select_and_scatter(scope: Scope, operation: mlir.Operation) -> Instruction:
    operand, source, init = scope.operands(operation, 3)
    select, scatter = (scope.region(operation, n) for n in range(2))
    dtype = parameter_types(scatter)[0]
    source, init = scope.converted((source, init), (dtype, dtype))
    window = window_of(operation, attr.integers(operation, "window_dimensions"), "", "")
    return scope.add(hlo.SelectAndScatter(window, select, scatter), (operand, source, init))


def _sort(scope: Scope, operation: mlir.Operation) -> Instruction:
    operands = scope.operands(operation)
    at = attr.integer(operation, "dimension", -1)
    rank = array(operands[0]).rank if operands else 0
    at = at + rank if at < 0 else at
    op = hlo.Sort((at,), attr.flag(operation, "is_stable"), scope.region(operation))
    return scope.add(op, operands)


def _scatter(scope: Scope, operation: mlir.Operation) -> Instruction:
    operands = scope.operands(operation)
    called = scope.region(operation)
    count = len(operands) // 2
    types = parameter_types(called)
    operands = [
        *scope.converted(operands[:count], types[:count]),
        operands[count],
        *scope.converted(operands[count + 1 :], types[count:]),
    ]
    op = hlo.Scatter(
        **attr.window_numbers(operation, "scatter_dimension_numbers", "scatter"),
        indices_are_sorted=attr.flag(operation, "indices_are_sorted"),
        unique_indices=attr.flag(operation, "unique_indices"), to_apply=called,
    )  # fmt: skip
    return scope.add(op, operands)


RULES: dict[str, Rule] = by_name(
    "stablehlo.", _reduce, _reduce_window, _scatter, _select_and_scatter, _sort,
)  # fmt: skip
