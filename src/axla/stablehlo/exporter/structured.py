"""Ops that call a region on elements, products, gathers, linear algebra, random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import axla.hlo as hlo
from axla.core.errors import UnsupportedError
from axla.core.literal import Literal
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.ir.attributes import CONVOLUTION_DIMENSIONS, ConvDims, Precision, Window
from axla.ir.graph import Instruction
from axla.stablehlo import mlir
from axla.stablehlo.attributes import STRUCTURES
from axla.stablehlo.exporter.scope import Rule, Scope, Tree
from axla.stablehlo.exporter.types import element_of, flags, matrix, number, numbers, struct
from axla.stablehlo.importer.numeric import ALGORITHMS
from axla.stablehlo.tables import by_name


def _map(scope: Scope, inst: Instruction, op: hlo.Map) -> Tree:
    assert isinstance(inst.shape, Shape)
    at = {"dimensions": numbers(range(inst.shape.rank))}
    return scope.add("stablehlo.map", scope.ones(inst), inst.shape, at, [scope.region(op.to_apply)])


def windowed(window: Window, bases: str = "", holes: str = "") -> dict[str, Any]:
    """The attributes of a moving window. Dilations that have no name must be 1."""
    found: dict[str, Any] = {"window_strides": numbers(window.stride)}
    for name, values in ((bases, window.base_dilation), (holes, window.window_dilation)):
        if name:
            found[name] = numbers(values)
        elif any(v != 1 for v in values):
            raise UnsupportedError("a window with dilations")
    return found | {"padding": matrix(list(zip(window.low, window.high, strict=True)), 2)}


def _reduce_window(scope: Scope, inst: Instruction, op: hlo.ReduceWindow) -> Tree:
    if any(op.window.reversal):
        raise UnsupportedError("a window that is reversed")
    attributes = {"window_dimensions": numbers(op.window.size)}
    attributes |= windowed(op.window, "base_dilations", "window_dilations")
    return scope.add(
        "stablehlo.reduce_window", scope.ones(inst), inst.shape, attributes, [scope.region(op.to_apply)]
    )


def _select_and_scatter(scope: Scope, inst: Instruction, op: hlo.SelectAndScatter) -> Tree:
    attributes = {"window_dimensions": numbers(op.window.size), **windowed(op.window)}
    regions = [scope.region(op.select), scope.region(op.scatter)]
    return scope.add("stablehlo.select_and_scatter", scope.ones(inst), inst.shape, attributes, regions)


def _scatter(scope: Scope, inst: Instruction, op: hlo.Scatter) -> Tree:
    attributes = {
        "scatter_dimension_numbers": struct(
            "scatter", **{name: getattr(op, name) for name in STRUCTURES["scatter"]}
        ),
        "indices_are_sorted": op.indices_are_sorted, "unique_indices": op.unique_indices,
    }  # fmt: skip
    return scope.combined("stablehlo.scatter", inst, op.to_apply, attributes, len(inst.operands) // 2)


def precision_of(given: tuple[Precision, ...]) -> tuple[mlir.EnumAttr, ...]:
    known = [
        p if p is not Precision.PACKED_NIBBLE else Precision.DEFAULT
        for p in given or (Precision.DEFAULT,) * 2
    ]
    return tuple(mlir.EnumAttr("precision", str(p).upper()) for p in known)


def _dot_numbers(op: Any) -> dict[str, Any]:
    return {
        f"{side}_{to}_dimensions": getattr(op, f"{side}_{of}_dims")
        for of, to in (("batch", "batching"), ("contracting", "contracting"))
        for side in ("lhs", "rhs")
    }


def _dot(scope: Scope, inst: Instruction, op: hlo.Dot) -> Tree:
    if op.sparsity:
        raise UnsupportedError("a dot of sparse operands")
    attributes: dict[str, Any] = {
        "dot_dimension_numbers": struct("dot", **_dot_numbers(op)),
        "precision_config": precision_of(op.operand_precision),
    }
    if op.algorithm is not None:
        attributes["algorithm"] = _algorithm(inst, str(op.algorithm))
    operands = [_as_product(scope, o, inst.shape) for o in inst.operands]
    return scope.add("stablehlo.dot_general", operands, inst.shape, attributes)


def _as_product(scope: Scope, inst: Instruction, result: AnyShape) -> mlir.Value:
    """An operand of a product; integers times floats are floats."""
    assert isinstance(inst.shape, Shape) and isinstance(result, Shape)
    mixed = result.dtype.is_float and not inst.shape.dtype.is_inexact
    return scope.converted(scope.one(inst), inst.shape, result) if mixed else scope.one(inst)


def _algorithm(inst: Instruction, name: str) -> mlir.StructAttr:
    found = next((key for key, known in ALGORITHMS.items() if known == name), None)
    if found is None:
        raise UnsupportedError(f"algorithm={name}")
    own = [element_of(o.shape.dtype) for o in inst.operands]
    types = [own[n] if kind == "f8" else mlir.FloatType(kind) for n, kind in enumerate(found[:3])]
    return struct(
        "dot_algorithm", lhs_precision_type=types[0], rhs_precision_type=types[1], accumulation_type=types[2],
        lhs_component_count=found[3], rhs_component_count=found[4], num_primitive_operations=found[5],
        allow_imprecise_accumulation=found[6],
    )  # fmt: skip


def _ragged_dot(scope: Scope, inst: Instruction, op: hlo.RaggedDot) -> Tree:
    fields: dict[str, Any] = {
        **_dot_numbers(op),
        "lhs_ragged_dimensions": op.lhs_ragged_dims,
        "rhs_group_dimensions": op.rhs_group_dims,
    }
    attributes = {
        "ragged_dot_dimension_numbers": struct("ragged_dot", "chlo", **fields),
        "precision_config": tuple(
            mlir.EnumAttr("precision", p.value, "chlo") for p in precision_of(op.operand_precision)
        ),
    }
    return scope.add("chlo.ragged_dot", scope.ones(inst), inst.shape, attributes)


def _convolution(scope: Scope, inst: Instruction, op: hlo.Convolution) -> Tree:
    if op.convolution_kind is not None or op.sparsity_config is not None:
        raise UnsupportedError("a convolution of a kind, or with sparsity_config")
    attributes = {
        **windowed(op.window, "lhs_dilation", "rhs_dilation"), "window_reversal": flags(op.window.reversal),
        "dimension_numbers": convolution_numbers(op.dim_labels),
        "feature_group_count": number(op.feature_group_count),
        "batch_group_count": number(op.batch_group_count),
        "precision_config": precision_of(op.operand_precision),
    }  # fmt: skip
    operands = [_as_product(scope, o, inst.shape) for o in inst.operands]
    return scope.add("stablehlo.convolution", operands, inst.shape, attributes)


def convolution_numbers(labels: ConvDims) -> mlir.StructAttr:
    """What dimensions mean."""
    if "?" in labels.input + labels.kernel + labels.output:
        raise UnsupportedError(f"dimensions without a meaning: {labels}")
    return struct("conv", **{name: getattr(labels, label) for name, label in CONVOLUTION_DIMENSIONS.items()})


def _rng(scope: Scope, inst: Instruction, op: hlo.Rng) -> Tree:
    sizes = scope.constant(Literal.of(np.array(op.shape.dims, np.int64)))
    kind = {"rng_distribution": mlir.EnumAttr("rng_distribution", op.distribution.name)}
    return scope.add("stablehlo.rng", [*scope.ones(inst), sizes], inst.shape, kind)


def _rng_bit_generator(scope: Scope, inst: Instruction, op: hlo.RngBitGenerator) -> Tree:
    if not isinstance(inst.shape, TupleShape):
        raise UnsupportedError("the bits alone, without the state")
    kind = {"rng_algorithm": mlir.EnumAttr("rng_algorithm", op.algorithm.name)}
    return scope.add("stablehlo.rng_bit_generator", scope.ones(inst), inst.shape, kind)


RULES: dict[str, Rule] = by_name(
    "", _convolution, _dot, _map, _ragged_dot, _reduce_window, _rng, _rng_bit_generator, _scatter,
    _select_and_scatter, between="-",
)  # fmt: skip
