"""Products, convolutions, transforms, sorting, random numbers: what their records do not say of them."""

from __future__ import annotations

import axla.hlo as hlo
from axla.ir.graph import Instruction
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.conversions import labels_of, precision
from axla.stablehlo.importer.movement import array
from axla.stablehlo.importer.plain import op_of
from axla.stablehlo.importer.scope import Rule, Scope
from axla.stablehlo.tables import by_name


def _dot(scope: Scope, operation: mlir.Operation) -> Instruction:
    """A product of vectors and matrices."""
    lhs, rhs = scope.operands(operation, 2)
    exactly = precision(operation, "precision_config")
    op = hlo.Dot(scope.shape(operation), (), (array(lhs).rank - 1,), (), (0,), operand_precision=exactly)
    return scope.add(op, (lhs, rhs))


def _convolution(scope: Scope, operation: mlir.Operation) -> Instruction:
    """The window is as large as the kernel."""
    lhs, rhs = scope.operands(operation, 2)
    spatial = labels_of(operation, "dimension_numbers").kernel_spatial
    size = tuple([array(rhs).dims[d] for d in spatial])
    return scope.add(op_of(scope, operation, window={"size": size}), (lhs, rhs))


def _fft(scope: Scope, operation: mlir.Operation) -> Instruction:
    if not scope.shape(operation).size:  # HLO gives nothing another shape than StableHLO
        return scope.scalar(0, scope.shape(operation))
    return scope.add(op_of(scope, operation), scope.operands(operation, 1))


def _rng(scope: Scope, operation: mlir.Operation) -> Instruction:
    """The last operand is the sizes, which the type says."""
    return scope.add(op_of(scope, operation), scope.operands(operation, 3)[:2])


def _sort(scope: Scope, operation: mlir.Operation) -> Instruction:
    """A negative dimension counts from the end, and -1 is the default."""
    operands = scope.operands(operation)
    at = attr.integer(operation, "dimension", -1)
    rank = array(operands[0]).rank if operands else 0
    at = at + rank if at < 0 else at
    op = hlo.Sort((at,), attr.flag(operation, "is_stable"), scope.region(operation))
    return scope.add(op, operands)


RULES: dict[str, Rule] = by_name("stablehlo.", _convolution, _dot, _fft, _rng, _sort)
