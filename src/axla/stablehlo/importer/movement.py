"""Operations that move elements: broadcasts, slices, padding, and what gives positions."""

from __future__ import annotations

from collections.abc import Sequence

import axla.hlo as hlo
from axla.core.dtypes import S32
from axla.core.errors import VerifyError
from axla.core.shape import Shape
from axla.ir.attributes import SliceDims
from axla.ir.graph import Instruction
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.importer.scope import Rule, Scope
from axla.stablehlo.tables import by_name


def array(inst: Instruction) -> Shape:
    """The shape of an operand that must be an array."""
    if not isinstance(inst.shape, Shape):
        raise VerifyError(f"an operand must be a tensor, found {inst.shape.to_string(layout=False)}")
    return inst.shape


def broadcast(scope: Scope, operand: Instruction, shape: Shape, dimensions: Sequence[int]) -> Instruction:
    """The operand in a shape, its dimension k being dimension `dimensions[k]`; sizes 1 are repeated."""
    source = array(operand)
    if len(dimensions) != source.rank or any(not 0 <= d < shape.rank for d in dimensions):
        raise VerifyError(
            f"broadcast_dimensions={list(dimensions)}: {source.rank} dimensions of "
            f"{shape.to_string(layout=False)} are wanted"
        )
    target = Shape(source.dtype, shape.dims, shape.dynamic)
    if source.logical is target.logical and tuple(dimensions) == tuple(range(source.rank)):
        return operand
    # HLO's broadcast repeats along new dimensions only: a dimension of size 1 that grows is dropped first.
    kept = [k for k, d in enumerate(dimensions) if source.dims[k] == target.dims[d] or source.dims[k] != 1]
    if len(kept) != source.rank:
        flat = source.with_dims([source.dims[k] for k in kept], [source.dynamic[k] for k in kept])
        operand = scope.add(hlo.Reshape(flat), (operand,))
    return scope.add(hlo.Broadcast(target, tuple(dimensions[k] for k in kept)), (operand,))


def _broadcast_in_dim(scope: Scope, operation: mlir.Operation) -> Instruction:
    """The type of the result says the sizes, also those that `dynamic_broadcast_in_dim` has as an operand."""
    dimensions = attr.integers(operation, "broadcast_dimensions")
    return broadcast(scope, scope.operands(operation)[0], scope.shape(operation), dimensions)


def _broadcast(scope: Scope, operation: mlir.Operation) -> Instruction:
    (operand,) = scope.operands(operation, 1)
    first = len(attr.integers(operation, "broadcast_sizes"))
    return broadcast(scope, operand, scope.shape(operation), range(first, first + array(operand).rank))


def _dynamic_reshape(scope: Scope, operation: mlir.Operation) -> Instruction:
    """With sizes below bounds they count; else the type of the result says them."""
    shape = scope.shape(operation)
    operand, sizes = scope.operands(operation, 2)
    if not shape.is_dynamic:
        return scope.add(hlo.Reshape(shape), (operand,))
    vector = Shape(S32, array(sizes).dims)
    sizes = scope.add(hlo.Convert(vector), (sizes,))
    parts = [scope.add(hlo.Slice(SliceDims((d,), (d + 1,))), (sizes,)) for d in range(shape.rank)]
    scalars = [scope.add(hlo.Reshape(Shape(S32)), (p,)) for p in parts]
    return scope.add(hlo.DynamicReshape(shape), (operand, *scalars))


def _set_dimension_size(scope: Scope, operation: mlir.Operation) -> Instruction:
    operand, size = scope.operands(operation, 2)
    at = attr.integer(operation, "dimension")
    shape = array(operand)
    # A size that is the bound leaves the dimension static, as the written type may say.
    dynamic = [mark or d == at for d, mark in enumerate(shape.dynamic)]
    return scope.add(hlo.SetDimensionSize(Shape(shape.dtype, shape.dims, dynamic), (at,)), (operand, size))


def _dynamic_iota(scope: Scope, operation: mlir.Operation) -> Instruction:
    """The type of the result says the sizes that the operand has."""
    return scope.add(hlo.Iota(scope.shape(operation), attr.integer(operation, "iota_dimension")))


RULES: dict[str, Rule] = {
    **by_name(
        "stablehlo.", _broadcast, _broadcast_in_dim, _dynamic_iota, _dynamic_reshape, _set_dimension_size
    ),
    "stablehlo.dynamic_broadcast_in_dim": _broadcast_in_dim,
}
