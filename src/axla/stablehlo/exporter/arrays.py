"""Exports ops on arrays, and on tuples, for which their records are not enough."""

from __future__ import annotations

import numpy as np

import axla.hlo as hlo
from axla.core.errors import UnsupportedError
from axla.core.literal import Literal
from axla.core.shape import Shape, TupleShape, array
from axla.core.tables import by_name
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.ir.structure import Constant, GetTupleElement
from axla.stablehlo import mlir
from axla.stablehlo.building import number, numbers
from axla.stablehlo.exporter.control import part
from axla.stablehlo.exporter.plain import written
from axla.stablehlo.exporter.scope import ExportRule, ExportScope, Tree


def _constant(scope: ExportScope, inst: Instruction, op: Constant) -> Tree:
    return _literal(scope, op.literal)


def _literal(scope: ExportScope, literal: Literal) -> Tree:
    if isinstance(literal.shape, TupleShape):
        return tuple([_literal(scope, part) for part in literal.elements])
    return scope.constant(literal) if isinstance(literal.shape, Shape) else scope.zero(literal.shape)


def _element(scope: ExportScope, inst: Instruction, op: GetTupleElement) -> Tree:
    return scope.values[inst.operands[0]][op.index]


def _tuple(scope: ExportScope, inst: Instruction, op: Op) -> Tree:
    return tuple([scope.values[o] for o in inst.operands])


def _bitcast_convert(scope: ExportScope, inst: Instruction, op: Op) -> Tree:
    source = inst.operands[0]
    return bits(scope, scope.one(source), array(source.shape), array(inst.shape))


def bits(scope: ExportScope, value: mlir.Value, source: Shape, result: Shape) -> mlir.Value:
    """Reinterprets the bits of a value as another element type. A pred is a byte in HLO, a bit in
    StableHLO.
    """
    of, to = source.dtype, result.dtype
    if of is to:
        return value
    if of.is_pred or to.is_pred:
        if of.bits != to.bits or not (of.is_integer or to.is_integer):
            raise UnsupportedError(f"the bits of {of} cannot be read as {to}")
        return scope.add("stablehlo.convert", (value,), result)
    return scope.add("stablehlo.bitcast_convert", (value,), result)


def _bitcast(scope: ExportScope, inst: Instruction, op: Op) -> Tree:
    """Exports a bitcast, the memory of the operand with another shape: transposes the operand to memory
    order, reinterprets it, and transposes it to the dimension order of the result.
    """
    source, result = inst.operands[0].shape, inst.shape
    if not isinstance(source, Shape) or not isinstance(result, Shape) or source.is_dynamic:
        return scope.values[inst.operands[0]]
    if source.layout.tiles or result.layout.tiles:
        raise UnsupportedError("a bitcast between tiled layouts")
    value, order = scope.one(inst.operands[0]), source.layout.minor_to_major[::-1]
    value, shape = _transposed(scope, value, source.logical, order)
    of, to = source.dtype, result.dtype
    order = result.layout.minor_to_major[::-1]
    wanted = result.with_dims([result.dims[d] for d in order])
    if of is not to:
        count, wide = source.size * of.bits, max(of.bits, to.bits)
        dims = [count // wide]
        value = _reshaped(scope, value, shape, Shape(of, dims + [wide // of.bits] * (of.bits < wide)))
        shape = Shape(to, dims + [wide // to.bits] * (to.bits < wide))
        value = bits(scope, value, Shape(of, dims), shape)
    value = _reshaped(scope, value, shape, wanted)
    inverse = tuple(int(d) for d in np.argsort(order))
    return _transposed(scope, value, wanted, inverse)[0]


def _transposed(
    scope: ExportScope, value: mlir.Value, shape: Shape, order: tuple[int, ...]
) -> tuple[mlir.Value, Shape]:
    if order == tuple(range(shape.rank)):
        return value, shape
    shape = shape.with_dims([shape.dims[d] for d in order])
    return scope.add("stablehlo.transpose", (value,), shape, {"permutation": numbers(order)}), shape


def _reshaped(scope: ExportScope, value: mlir.Value, shape: Shape, wanted: Shape) -> mlir.Value:
    return value if shape.dims == wanted.dims else scope.add("stablehlo.reshape", (value,), wanted)


def _dynamic_slice(
    scope: ExportScope, inst: Instruction, op: hlo.DynamicSlice | hlo.DynamicUpdateSlice
) -> Tree:
    """Exports dynamic-slice or dynamic-update-slice. Start indices are scalars in StableHLO; an older form
    of HLO has them as one vector.
    """
    first = 1 if isinstance(op, hlo.DynamicSlice) else 2
    operands, indices = scope.ones(inst)[:first], scope.ones(inst)[first:]
    if indices and array(inst.operands[first].shape).rank:
        indices = scope.scalars(indices[0], array(inst.operands[first].shape).dims[0])
    return written(scope, inst, op, operands + indices)


def _dynamic_reshape(scope: ExportScope, inst: Instruction, op: Op) -> Tree:
    operand, *sizes = inst.operands
    dtype = array(sizes[0].shape).dtype
    parts = [scope.add("stablehlo.reshape", (scope.one(s),), Shape(dtype, (1,))) for s in sizes]
    joined = scope.add("stablehlo.concatenate", parts, Shape(dtype, (len(parts),)), {"dimension": number(0)})
    return scope.add("stablehlo.dynamic_reshape", (scope.one(operand), joined), inst.shape)


# Maps, products, random numbers


def _map(scope: ExportScope, inst: Instruction, op: hlo.Map) -> Tree:
    """Exports a map; HLO may omit the dimensions, which must be all dimensions."""
    return written(scope, inst, op, dimensions=numbers(range(array(inst.shape).rank)))


def _dot(scope: ExportScope, inst: Instruction, op: hlo.Dot) -> Tree:
    if op.sparsity:
        raise UnsupportedError("a dot of sparse operands")
    return written(scope, inst, op, _factors(scope, inst))


def _factors(scope: ExportScope, inst: Instruction) -> list[mlir.Value]:
    """The operands of a product. Integers become floats if the result is a float, and the operands of a
    convolution get one type.
    """
    result, types = array(inst.shape).dtype, {array(o.shape).dtype for o in inst.operands}
    differ = len(types) > 1 and inst.opcode == "convolution"
    if differ and any(t.is_inexact and t.bits > result.bits for t in types):
        raise UnsupportedError("a convolution of several types that is rounded to a narrower one")
    return [
        scope.converted(value, o.shape, result)
        if differ or (result.is_float and not array(o.shape).dtype.is_inexact)
        else value
        for value, o in zip(scope.ones(inst), inst.operands, strict=True)
    ]


def _convolution(scope: ExportScope, inst: Instruction, op: hlo.Convolution) -> Tree:
    if op.convolution_kind is not None or op.sparsity_config is not None:
        raise UnsupportedError("a convolution with convolution_kind or sparsity_config")
    return written(scope, inst, op, _factors(scope, inst))


def _rng(scope: ExportScope, inst: Instruction, op: hlo.Rng) -> Tree:
    sizes = scope.constant(Literal.of(np.array(op.shape.dims, np.int64)))
    return written(scope, inst, op, [*scope.ones(inst), sizes])


def _rng_bit_generator(scope: ExportScope, inst: Instruction, op: hlo.RngBitGenerator) -> Tree:
    if not isinstance(inst.shape, TupleShape):
        raise UnsupportedError("its result is the bits alone, without the state")
    return written(scope, inst, op)


RULES: dict[str, ExportRule] = {
    **by_name(
        "", _bitcast, _bitcast_convert, _constant, _convolution, _dot, _dynamic_reshape, _dynamic_slice,
        _map, _rng, _rng_bit_generator, _tuple, between="-",
    ),
    "copy": part(),
    "domain": part(),
    "dynamic-update-slice": _dynamic_slice,
    "get-tuple-element": _element,
}  # fmt: skip
