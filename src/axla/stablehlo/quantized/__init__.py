"""Rewrites quantized types as the integer types that store them.

A value of a quantized type becomes a value of its storage type. `rules.py` rewrites operations: those that
only move elements move integers; sums, products and convolutions are computed exactly with integers and
scaled afterwards; all others are computed with the real numbers that the integers represent, and rounded.
`arithmetic.py` has the conversions, as defined by the specification.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from axla.core.errors import AxlaError, UnsupportedError, VerifyError
from axla.stablehlo import mlir
from axla.stablehlo.importer.scope import DEEPEST, placed
from axla.stablehlo.quantized.arithmetic import Quantizer, is_quantized, stored
from axla.stablehlo.quantized.rules import rewrite

__all__ = ["without_quantized"]


def without_quantized(source: mlir.Source) -> mlir.Source:
    """The source without quantized types; the source itself if it has none. Functions without quantized types
    are shared with it.
    """
    functions = {id(op) for op in source.body if op.name == "func.func" and _mentions(op)}
    if not functions:
        return source
    known: dict[Any, np.ndarray] = {}
    return source.with_body([_function(op, known) if id(op) in functions else op for op in source.body])


def _mentions(function: mlir.Operation) -> bool:
    """Whether a quantized type occurs in a function."""
    inside = list(function.walk())
    values = [result for operation in inside for result in operation.results]
    values += [a for operation in inside for block in operation.blocks for a in block.arguments]
    # Types are collected by identity, since hashing them takes longer; the source keeps them alive.
    types = {id(value.type): value.type for value in values}
    return any(stored(kind) != kind for kind in types.values())


def _function(function: mlir.Operation, known: dict[Any, np.ndarray]) -> mlir.Operation:
    values: dict[mlir.Value, mlir.Value] = {}
    try:
        regions = [_region(r, values, known, 0) for r in function.regions]
    except AxlaError as error:
        raise placed(error, function) from None
    return function.with_regions(regions, _attributes(function))


def _attributes(operation: mlir.Operation) -> dict[str, Any]:
    """The attributes of an operation, with storage types in place of quantized types."""
    found = dict(operation.attributes)
    for name, value in operation.attributes.items():
        if isinstance(value, mlir.FunctionType | mlir.TensorType):
            found[name] = stored(value)
        elif isinstance(value, mlir.DenseElements) and is_quantized(value.type):
            found[name] = replace(value, type=stored(value.type))
    return found


def _region(
    region: mlir.Region, values: dict[mlir.Value, mlir.Value], known: dict[Any, np.ndarray], depth: int
) -> mlir.Region:
    if depth > DEEPEST:
        raise UnsupportedError(f"regions are nested more than {DEEPEST} deep")
    found = mlir.Region()
    for old in region.blocks:
        block = mlir.Block([stored(a.type) for a in old.arguments], old.locations)
        values.update(zip(old.arguments, block.arguments, strict=True))
        found.blocks.append(block)
        writer = Quantizer(block, known)
        for operation in old.operations:
            try:
                _operation(operation, writer, values, depth)
            except AxlaError as error:
                raise placed(error, operation) from None
    return found


def _operation(
    operation: mlir.Operation, writer: Quantizer, values: dict[mlir.Value, mlir.Value], depth: int
) -> None:
    try:
        operands = [values[v] for v in operation.operands]
    except KeyError:
        raise VerifyError("an operand is used before it is computed") from None
    regions = [_region(r, values, writer.known, depth + 1) for r in operation.regions]
    kinds = [v.type for v in (*operation.operands, *operation.results)]
    writer.stand_for(operation)
    if any(map(is_quantized, kinds)):
        results = rewrite(writer, operation, operands, _attributes(operation), regions)
    else:
        types = [stored(r.type) for r in operation.results]
        results = writer.emit(operation.name, operands, types, _attributes(operation), regions)
    values.update(zip(operation.results, results, strict=True))
