"""Imports operations on arrays for which their records are not enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import axla.hlo as hlo
from axla.builder import elementwise as e
from axla.builder.xla_builder import XlaOp
from axla.core import dtypes
from axla.core.errors import VerifyError
from axla.core.shape import Shape, array
from axla.core.tables import by_name
from axla.ir.attributes import SliceDims
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.ir.structure import Parameter
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.conversions import labels_of, precision
from axla.stablehlo.importer.plain import op_of
from axla.stablehlo.importer.scope import ImportRule, ImportScope

# Elementwise


def _extreme(op: Op, exceeds: Callable[..., XlaOp]) -> ImportRule:
    """A rule for the larger or the smaller of two values: real ones become the op `op`. Complex ones are
    compared by `exceeds`, first their real parts, then their imaginary parts.
    """

    def ordered(x: XlaOp, y: XlaOp) -> XlaOp:
        (a, b), (c, d) = ([part(value) for value in (x, y)] for part in (e.Real, e.Imag))
        return e.Select(exceeds(a, b) | (e.Eq(a, b) & exceeds(c, d)), x, y)

    def rule(scope: ImportScope, operation: mlir.Operation) -> Instruction:
        operands = scope.operands(operation, 2)
        if array(operands[0].shape).dtype.is_complex:
            return scope.composed(ordered, operands)
        return scope.add(op, operands)

    return rule


def converted(scope: ImportScope, operand: Instruction, shape: Shape) -> Instruction:
    """Converts an operand to the element type of `shape`; unless that is complex, complex numbers lose their
    imaginary parts.
    """
    if array(operand.shape).dtype.is_complex and not shape.dtype.is_complex:
        operand = scope.add(hlo.Real(), (operand,))
    return scope.add(hlo.Convert(shape), (operand,))


def _convert(scope: ImportScope, operation: mlir.Operation) -> Instruction:
    (operand,) = scope.operands(operation, 1)
    return converted(scope, operand, scope.shape(operation))


def _bitcast_convert(scope: ImportScope, operation: mlir.Operation) -> Instruction:
    (operand,) = scope.operands(operation, 1)
    source, result = array(operand.shape), scope.shape(operation)
    if source.dtype.is_pred is result.dtype.is_pred:
        return scope.add(hlo.BitcastConvert(result), (operand,))
    return (_from_bits if source.dtype.is_pred else _to_bits)(scope, operand, source, result)


def _words(scope: ImportScope, bits: Shape, width: int) -> tuple[Shape, Instruction]:
    """Returns the shape of integers of `width` bits, one for each element of `bits`, and the position of each
    element in its integer. The last dimension of `bits` must have `width` elements; a pred is one bit.
    """
    words = dtypes.BY_NAME.get(f"u{width}")
    if words is None or not bits.dims or bits.dims[-1] != width:
        raise VerifyError(f"the last dimension of {bits.to_string(layout=False)} must be {width} bits")
    shape = Shape(words, bits.dims)
    return shape, scope.add(hlo.Iota(shape, shape.rank - 1))


def _from_bits(scope: ImportScope, operand: Instruction, source: Shape, result: Shape) -> Instruction:
    """Joins the bits in the last dimension to integers, the lowest bit first."""
    shape, place = _words(scope, source, result.dtype.bits)
    shifted = scope.add(hlo.ShiftLeft(), (scope.add(hlo.Convert(shape), (operand,)), place))
    scalar = Shape(shape.dtype)
    either = scope.importer.module.add_computation("either")
    parameters = [either.add(Parameter(scalar, n), (), scalar) for n in range(2)]
    either.set_root(either.add(hlo.Or(), parameters))
    word = scope.add(hlo.Reduce((shape.rank - 1,), either), (shifted, scope.scalar(0, scalar)))
    return word if result.dtype is shape.dtype else scope.add(hlo.BitcastConvert(result), (word,))


def _to_bits(scope: ImportScope, operand: Instruction, source: Shape, result: Shape) -> Instruction:
    """Splits integers into bits in a new last dimension, the lowest bit first."""
    shape, place = _words(scope, result, source.dtype.bits)
    if source.dtype is not shape.dtype:
        operand = scope.add(hlo.BitcastConvert(Shape(shape.dtype, source.dims)), (operand,))
    repeated = scope.add(hlo.Broadcast(shape, tuple(range(source.rank))), (operand,))
    shifted = scope.add(hlo.ShiftRightLogical(), (repeated, place))
    return scope.add(hlo.Convert(result), (scope.add(hlo.And(), (shifted, scope.scalar(1, shape))),))


def _constant(scope: ImportScope, operation: mlir.Operation) -> Instruction:
    scope.operands(operation, 0)
    return scope.constant(operation.attributes.get("value"), operation.results[0].type)


# Broadcasts, reshapes and other moves of elements


def broadcast(
    scope: ImportScope, operand: Instruction, shape: Shape, dimensions: Sequence[int]
) -> Instruction:
    """Broadcasts an operand to a shape: dimension k of the operand becomes dimension `dimensions[k]`;
    dimensions of size 1 are repeated.
    """
    source = array(operand.shape)
    if len(dimensions) != source.rank or any(not 0 <= d < shape.rank for d in dimensions):
        wanted = f"{source.rank} dimensions of {shape.to_string(layout=False)}"
        raise VerifyError(f"broadcast_dimensions={list(dimensions)}: {wanted} are wanted")
    target = Shape(source.dtype, shape.dims, shape.dynamic)
    if source.logical is target.logical and tuple(dimensions) == tuple(range(source.rank)):
        return operand
    # HLO's broadcast repeats along new dimensions only: a dimension of size 1 that grows is dropped first.
    kept = [k for k, d in enumerate(dimensions) if source.dims[k] == target.dims[d] or source.dims[k] != 1]
    if len(kept) != source.rank:
        flat = source.with_dims([source.dims[k] for k in kept], [source.dynamic[k] for k in kept])
        operand = scope.add(hlo.Reshape(flat), (operand,))
    return scope.add(hlo.Broadcast(target, tuple(dimensions[k] for k in kept)), (operand,))


def _broadcast_in_dim(scope: ImportScope, operation: mlir.Operation) -> Instruction:
    """Imports broadcast_in_dim and dynamic_broadcast_in_dim. The latter has an operand with the sizes, but
    the result type has them, too.
    """
    dimensions = attr.integers(operation, "broadcast_dimensions")
    return broadcast(scope, scope.operands(operation)[0], scope.shape(operation), dimensions)


def _broadcast(scope: ImportScope, operation: mlir.Operation) -> Instruction:
    (operand,) = scope.operands(operation, 1)
    first = len(attr.integers(operation, "broadcast_sizes"))
    return broadcast(scope, operand, scope.shape(operation), range(first, first + array(operand.shape).rank))


def _dynamic_reshape(scope: ImportScope, operation: mlir.Operation) -> Instruction:
    """Imports dynamic_reshape. If the result type has only bounds for some sizes, the second operand has the
    sizes; else the result type has them.
    """
    shape = scope.shape(operation)
    operand, sizes = scope.operands(operation, 2)
    if not shape.is_dynamic:
        return scope.add(hlo.Reshape(shape), (operand,))
    vector = Shape(dtypes.S32, array(sizes.shape).dims)
    sizes = scope.add(hlo.Convert(vector), (sizes,))
    parts = [scope.add(hlo.Slice(SliceDims((d,), (d + 1,))), (sizes,)) for d in range(shape.rank)]
    scalars = [scope.add(hlo.Reshape(Shape(dtypes.S32)), (p,)) for p in parts]
    return scope.add(hlo.DynamicReshape(shape), (operand, *scalars))


def _set_dimension_size(scope: ImportScope, operation: mlir.Operation) -> Instruction:
    operand, size = scope.operands(operation, 2)
    at = attr.integer(operation, "dimension")
    shape = array(operand.shape)
    # The result type may have a static dimension, if the size equals the bound; HLO's is always dynamic.
    dynamic = [mark or d == at for d, mark in enumerate(shape.dynamic)]
    return scope.add(hlo.SetDimensionSize(Shape(shape.dtype, shape.dims, dynamic), (at,)), (operand, size))


def _dynamic_iota(scope: ImportScope, operation: mlir.Operation) -> Instruction:
    """Imports dynamic_iota; the result type has the sizes."""
    return scope.add(hlo.Iota(scope.shape(operation), attr.integer(operation, "iota_dimension")))


# Products, transforms, sorting, random numbers


def _dot(scope: ImportScope, operation: mlir.Operation) -> Instruction:
    """Imports a product of vectors and matrices."""
    lhs, rhs = scope.operands(operation, 2)
    last, exactly = array(lhs.shape).rank - 1, precision(operation, "precision_config")
    op = hlo.Dot(scope.shape(operation), (), (last,), (), (0,), operand_precision=exactly)
    return scope.add(op, (lhs, rhs))


def _convolution(scope: ImportScope, operation: mlir.Operation) -> Instruction:
    """Imports a convolution; its window has the size of the kernel."""
    lhs, rhs = scope.operands(operation, 2)
    spatial = labels_of(operation, "dimension_numbers").kernel_spatial
    size = tuple([array(rhs.shape).dims[d] for d in spatial])
    return scope.add(op_of(scope, operation, window={"size": size}), (lhs, rhs))


def _fft(scope: ImportScope, operation: mlir.Operation) -> Instruction:
    if not scope.shape(operation).size:  # HLO and StableHLO differ in the shape of an empty result
        return scope.scalar(0, scope.shape(operation))
    return scope.add(op_of(scope, operation), scope.operands(operation, 1))


def _rng(scope: ImportScope, operation: mlir.Operation) -> Instruction:
    """Imports rng without its last operand, the sizes, which the result type has."""
    return scope.add(op_of(scope, operation), scope.operands(operation, 3)[:2])


def _sort(scope: ImportScope, operation: mlir.Operation) -> Instruction:
    """Imports a sort; a negative dimension counts from the end, the default is -1."""
    operands = scope.operands(operation)
    at = attr.integer(operation, "dimension", -1)
    rank = array(operands[0].shape).rank if operands else 0
    at = at + rank if at < 0 else at
    op = hlo.Sort((at,), attr.flag(operation, "is_stable"), scope.region(operation))
    return scope.add(op, operands)


RULES: dict[str, ImportRule] = {
    **by_name(
        "stablehlo.", _bitcast_convert, _broadcast, _broadcast_in_dim, _constant, _convert, _convolution,
        _dot, _dynamic_iota, _dynamic_reshape, _fft, _rng, _set_dimension_size, _sort,
    ),
    "stablehlo.dynamic_broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.maximum": _extreme(hlo.Maximum(), e.Gt),
    "stablehlo.minimum": _extreme(hlo.Minimum(), e.Lt),
}  # fmt: skip
