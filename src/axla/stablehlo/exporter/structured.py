"""Products, convolutions, random numbers, maps: what their records do not say of them."""

from __future__ import annotations

import numpy as np

import axla.hlo as hlo
from axla.core.errors import UnsupportedError
from axla.core.literal import Literal
from axla.core.shape import TupleShape, array
from axla.ir.graph import Instruction
from axla.stablehlo import mlir
from axla.stablehlo.building import numbers
from axla.stablehlo.exporter.plain import written
from axla.stablehlo.exporter.scope import Rule, Scope, Tree
from axla.stablehlo.tables import by_name


def _map(scope: Scope, inst: Instruction, op: hlo.Map) -> Tree:
    """HLO may leave the dimensions out, which are all."""
    return written(scope, inst, op, dimensions=numbers(range(array(inst.shape).rank)))


def _dot(scope: Scope, inst: Instruction, op: hlo.Dot) -> Tree:
    if op.sparsity:
        raise UnsupportedError("a dot of sparse operands")
    return written(scope, inst, op, _factors(scope, inst))


def _factors(scope: Scope, inst: Instruction) -> list[mlir.Value]:
    """The operands of a product; integers times floats are floats."""
    result = array(inst.shape).dtype
    return [
        scope.converted(value, o.shape, result)
        if result.is_float and not array(o.shape).dtype.is_inexact
        else value
        for value, o in zip(scope.ones(inst), inst.operands, strict=True)
    ]


def _convolution(scope: Scope, inst: Instruction, op: hlo.Convolution) -> Tree:
    if op.convolution_kind is not None or op.sparsity_config is not None:
        raise UnsupportedError("a convolution of a kind, or with sparsity_config")
    return written(scope, inst, op, _factors(scope, inst))


def _rng(scope: Scope, inst: Instruction, op: hlo.Rng) -> Tree:
    sizes = scope.constant(Literal.of(np.array(op.shape.dims, np.int64)))
    return written(scope, inst, op, [*scope.ones(inst), sizes])


def _rng_bit_generator(scope: Scope, inst: Instruction, op: hlo.RngBitGenerator) -> Tree:
    if not isinstance(inst.shape, TupleShape):
        raise UnsupportedError("the bits alone, without the state")
    return written(scope, inst, op)


RULES: dict[str, Rule] = by_name("", _convolution, _dot, _map, _rng, _rng_bit_generator, between="-")
