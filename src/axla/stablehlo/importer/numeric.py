"""Products, convolutions, gathers, linear algebra, normalization, random numbers."""

from __future__ import annotations

from typing import Any

import axla.hlo as hlo
from axla.ir.attributes import (
    CONVOLUTION_DIMENSIONS,
    ConvDims,
    FftType,
    Precision,
    RandomDistribution,
    Word,
)  # fmt: skip
from axla.ir.graph import Instruction
from axla.stablehlo import mlir
from axla.stablehlo.importer import attributes as attr
from axla.stablehlo.importer.movement import array
from axla.stablehlo.importer.reduction import window_of
from axla.stablehlo.importer.scope import Rule, Scope
from axla.stablehlo.tables import by_name
from axla.stablehlo.text.printer import type_text


def precision(operation: mlir.Operation) -> tuple[Precision, ...]:
    """How exactly operands are read; () where that is the default."""
    found = tuple(Precision(w.lower()) for w in attr.words(operation, "precision_config"))
    return () if all(p is Precision.DEFAULT for p in found) else found


def dot_dimensions(numbers: dict[str, Any]) -> dict[str, Any]:
    """The dimensions that a product is over, by HLO's names."""
    return {
        f"{side}_{to}_dims": attr.field_integers(numbers, f"{side}_{of}_dimensions")
        for side in ("lhs", "rhs")
        for of, to in (("batching", "batch"), ("contracting", "contracting"))
    }


def _dot_general(scope: Scope, operation: mlir.Operation) -> Instruction:
    numbers = attr.structure(operation, "dot_dimension_numbers", "dot")
    named = dot_dimensions(numbers) | {
        "operand_precision": precision(operation),
        "algorithm": _algorithm(operation),
    }
    return scope.add(hlo.Dot(scope.shape(operation), **named), scope.operands(operation, 2))


def _dot(scope: Scope, operation: mlir.Operation) -> Instruction:
    """A product of vectors and matrices."""
    lhs, rhs = scope.operands(operation, 2)
    op = hlo.Dot(
        scope.shape(operation), (), (array(lhs).rank - 1,), (), (0,), operand_precision=precision(operation)
    )
    return scope.add(op, (lhs, rhs))


# (lhs, rhs, accumulation, lhs components, rhs components, primitive operations, imprecise) -> HLO's name.
ALGORITHMS = {
    ("f8", "f8", "f32", 1, 1, 1, False): "dot_any_f8_any_f8_f32",
    ("f8", "f8", "f32", 1, 1, 1, True): "dot_any_f8_any_f8_f32_fast_accum",
    ("f16", "f16", "f16", 1, 1, 1, False): "dot_f16_f16_f16",
    ("f16", "f16", "f32", 1, 1, 1, False): "dot_f16_f16_f32",
    ("bf16", "bf16", "bf16", 1, 1, 1, False): "dot_bf16_bf16_bf16",
    ("bf16", "bf16", "f32", 1, 1, 1, False): "dot_bf16_bf16_f32",
    ("bf16", "bf16", "f32", 1, 1, 3, False): "dot_bf16_bf16_f32_x3",
    ("bf16", "bf16", "f32", 1, 1, 6, False): "dot_bf16_bf16_f32_x6",
    ("bf16", "bf16", "f32", 1, 1, 9, False): "dot_bf16_bf16_f32_x9",
    ("bf16", "bf16", "f32", 3, 3, 6, False): "dot_bf16_bf16_f32_x6",
    ("tf32", "tf32", "f32", 1, 1, 1, False): "dot_tf32_tf32_f32",
    ("tf32", "tf32", "f32", 1, 1, 3, False): "dot_tf32_tf32_f32_x3",
    ("f32", "f32", "f32", 1, 1, 1, False): "dot_f32_f32_f32",
    ("f64", "f64", "f64", 1, 1, 1, False): "dot_f64_f64_f64",
}


def _algorithm(operation: mlir.Operation) -> Word | None:
    fields = attr.structure(operation, "algorithm", "dot_algorithm", None)
    if fields is None:
        return None
    types = [
        type_text(fields.get(f"{name}_type", mlir.NoneType()))
        for name in ("lhs_precision", "rhs_precision", "accumulation")
    ]
    counts = [
        attr.field_integer(fields, name, 1)
        for name in ("lhs_component_count", "rhs_component_count", "num_primitive_operations")
    ]
    key = ("f8" if t.startswith("f8") else t for t in types)
    found = ALGORITHMS.get((*key, *counts, bool(fields.get("allow_imprecise_accumulation"))))  # type: ignore[arg-type]
    if found is None:
        attr.reject(operation, "algorithm", "one that HLO has")
    return Word(found)


def _convolution(scope: Scope, operation: mlir.Operation) -> Instruction:
    lhs, rhs = scope.operands(operation, 2)
    labels, kernel = labels_of(operation), array(rhs)
    size = [kernel.dims[d] for d in labels.kernel_spatial]
    op = hlo.Convolution(
        scope.shape(operation), window_of(operation, size, "lhs_dilation", "rhs_dilation"), labels,
        attr.integer(operation, "feature_group_count", 1), attr.integer(operation, "batch_group_count", 1),
        precision(operation),
    )  # fmt: skip
    return scope.add(op, (lhs, rhs))


def labels_of(operation: mlir.Operation) -> ConvDims:
    """What the dimensions of a convolution mean."""
    numbers = attr.structure(operation, "dimension_numbers", "conv")
    found: dict[str, Any] = {
        label: attr.field_integers(numbers, name)
        if name.endswith("dimensions")
        else attr.field_integer(numbers, name, -1)
        for name, label in CONVOLUTION_DIMENSIONS.items()
    }
    return ConvDims.of(**found)


def _fft(scope: Scope, operation: mlir.Operation) -> Instruction:
    kind = FftType(attr.word(operation, "fft_type"))
    if not scope.shape(operation).size:  # HLO gives nothing another shape than StableHLO
        return scope.scalar(0, scope.shape(operation))
    return scope.add(hlo.Fft(kind, attr.integers(operation, "fft_length")), scope.operands(operation, 1))


def _rng(scope: Scope, operation: mlir.Operation) -> Instruction:
    first, second, _ = scope.operands(operation, 3)
    kind = RandomDistribution(f"rng_{attr.word(operation, 'rng_distribution').lower()}")
    return scope.add(hlo.Rng(scope.shape(operation), kind), (first, second))


RULES: dict[str, Rule] = by_name("stablehlo.", _convolution, _dot, _dot_general, _fft, _rng)
