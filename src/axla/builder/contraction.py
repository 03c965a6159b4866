"""Functions of the builder that sum products, and that read and write at computed places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import axla.hlo as hlo
from axla.builder.coerce import operands
from axla.builder.records import (
    GatherDimensionNumbers,
    PrecisionConfig,
    ScatterDimensionNumbers,
    make_dot_dimension_numbers,
    operand_precision,
)
from axla.builder.values import boolean, element_type, instance, integer, integers
from axla.builder.xla_builder import XlaOp
from axla.core.errors import InvalidArgument
from axla.core.shape import Shape
from axla.ir.op import reject


def Dot(
    lhs: object,
    rhs: object,
    precision_config: PrecisionConfig | None = None,
    preferred_element_type: Any = None,
) -> XlaOp:
    """Vector and matrix products: contracts the last dimension of `lhs` with the first of `rhs`."""
    left, right = operands("Dot", lhs, rhs)
    for value in (left, right):
        if not isinstance(value.shape, Shape) or not 1 <= value.shape.rank <= 2:
            with left.builder.checking("dot", (left, right)):
                reject("dot_ranks", "dot takes vectors and matrices; use DotGeneral for other ranks")
    last = len(left.dims) - 1
    return _dot(left, right, (last,), (0,), (), (), precision_config, preferred_element_type)


def DotGeneral(
    lhs: object, rhs: object, dimension_numbers: Any, precision_config: PrecisionConfig | None = None,
    preferred_element_type: Any = None,
) -> XlaOp:  # fmt: skip
    """The sum of products over contracting dimensions, for every index of the batch dimensions."""
    left, right = operands("DotGeneral", lhs, rhs)
    numbers = make_dot_dimension_numbers(dimension_numbers)
    return _dot(
        left, right,
        integers(numbers.lhs_contracting_dimensions, "lhs_contracting_dimensions"),
        integers(numbers.rhs_contracting_dimensions, "rhs_contracting_dimensions"),
        integers(numbers.lhs_batch_dimensions, "lhs_batch_dimensions"),
        integers(numbers.rhs_batch_dimensions, "rhs_batch_dimensions"),
        precision_config, preferred_element_type,
    )  # fmt: skip


def _dot(
    left: XlaOp, right: XlaOp, lhs: tuple[int, ...], rhs: tuple[int, ...], lhs_batch: tuple[int, ...],
    rhs_batch: tuple[int, ...], precision: PrecisionConfig | None, dtype: Any,
) -> XlaOp:  # fmt: skip
    builder = left.builder
    numbers: dict[str, Any] = {
        "lhs_contracting_dims": lhs,
        "rhs_contracting_dims": rhs,
        "lhs_batch_dims": lhs_batch,
        "rhs_batch_dims": rhs_batch,
        "operand_precision": operand_precision(precision),
    }
    with builder.checking("dot", (left, right)):
        a, b = left.shape, right.shape
        if not isinstance(a, Shape) or not isinstance(b, Shape):
            reject("dot_array", "dot: the operands must be arrays")
        if a.dtype is not b.dtype and not (a.dtype.is_float and b.dtype.is_float) and dtype is None:
            reject("dot_types", f"dot of {a.dtype} and {b.dtype} needs a preferred_element_type")
        wanted = None if dtype is None else element_type(dtype, "preferred_element_type")
        op = hlo.Dot.of(a, b, wanted, **numbers)
    return builder.add(op, (left, right))


def Gather(
    a: object, start_indices: object, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int],
    indices_are_sorted: bool = False,
) -> XlaOp:  # fmt: skip
    """Windows of `a` at the places that `start_indices` gives."""
    source, indices = operands("Gather", a, start_indices)
    numbers = instance(GatherDimensionNumbers, dimension_numbers, "Gather: dimension_numbers")
    op = hlo.Gather(
        offset_dims=integers(numbers.offset_dims, "offset_dims"),
        collapsed_slice_dims=integers(numbers.collapsed_slice_dims, "collapsed_slice_dims"),
        start_index_map=integers(numbers.start_index_map, "start_index_map"),
        operand_batching_dims=integers(numbers.operand_batching_dims, "operand_batching_dims"),
        start_indices_batching_dims=integers(
            numbers.start_indices_batching_dims, "start_indices_batching_dims"
        ),
        index_vector_dim=integer(numbers.index_vector_dim, "index_vector_dim"),
        slice_sizes=integers(slice_sizes, "slice_sizes"),
        indices_are_sorted=boolean(indices_are_sorted, "indices_are_sorted"),
    )
    return source.builder.add(op, (source, indices))


def Scatter(
    input: Any, scatter_indices: object, updates: Any, update_computation: object,
    dimension_numbers: ScatterDimensionNumbers, indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> XlaOp:  # fmt: skip
    """`input` with windows of `updates` combined into the places that `scatter_indices` gives; also of
    several arrays.
    """
    several = isinstance(input, (list, tuple))
    if several != isinstance(updates, (list, tuple)) or several and len(input) != len(updates):
        raise InvalidArgument("Scatter: wanted as many updates as inputs, both lists or both single arrays")
    targets, changes = (list(input), list(updates)) if several else ([input], [updates])
    values = operands("Scatter", *targets, scatter_indices, *changes)
    builder = values[0].builder
    numbers = instance(ScatterDimensionNumbers, dimension_numbers, "Scatter: dimension_numbers")
    op = hlo.Scatter(
        update_window_dims=integers(numbers.update_window_dims, "update_window_dims"),
        inserted_window_dims=integers(numbers.inserted_window_dims, "inserted_window_dims"),
        scatter_dims_to_operand_dims=integers(
            numbers.scatter_dims_to_operand_dims, "scatter_dims_to_operand_dims"
        ),
        input_batching_dims=integers(numbers.input_batching_dims, "input_batching_dims"),
        scatter_indices_batching_dims=integers(
            numbers.scatter_indices_batching_dims, "scatter_indices_batching_dims"
        ),
        index_vector_dim=integer(numbers.index_vector_dim, "index_vector_dim"),
        indices_are_sorted=boolean(indices_are_sorted, "indices_are_sorted"),
        unique_indices=boolean(unique_indices, "unique_indices"),
        to_apply=builder.callee(update_computation, "Scatter: update_computation"),
    )
    return builder.add(op, values)
