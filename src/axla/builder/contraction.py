"""Builder functions for dot products, gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import axla.hlo as hlo
from axla.builder.coerce import operands
from axla.builder.records import (
    DotDimensionNumbers,
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
    """The product of vectors and matrices: contracts the last dimension of `lhs` with the first of `rhs`."""
    left, right = operands("Dot", lhs, rhs)
    for value in (left, right):
        if not isinstance(value.shape, Shape) or not 1 <= value.shape.rank <= 2:
            with left.builder.checking("dot", (left, right)):
                reject("dot_ranks", "dot takes vectors and matrices; use DotGeneral for other ranks")
    numbers = DotDimensionNumbers([len(left.dims) - 1], [0])
    return _dot(left, right, numbers, precision_config, preferred_element_type)


def DotGeneral(
    lhs: object, rhs: object, dimension_numbers: Any, precision_config: PrecisionConfig | None = None,
    preferred_element_type: Any = None,
) -> XlaOp:  # fmt: skip
    """Sums products over the contracting dimensions, separately for every index of the batch dimensions."""
    left, right = operands("DotGeneral", lhs, rhs)
    numbers = make_dot_dimension_numbers(dimension_numbers)
    return _dot(left, right, numbers, precision_config, preferred_element_type)


def _dot(
    left: XlaOp, right: XlaOp, numbers: DotDimensionNumbers, precision: PrecisionConfig | None, dtype: Any
) -> XlaOp:
    builder = left.builder
    attributes: dict[str, Any] = {
        f"{name}_dims": integers(getattr(numbers, f"{name}_dimensions"), f"{name}_dimensions")
        for name in ("lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch")
    }
    attributes["operand_precision"] = operand_precision(precision)
    with builder.checking("dot", (left, right)):
        a, b = left.shape, right.shape
        if not isinstance(a, Shape) or not isinstance(b, Shape):
            reject("dot_array", "dot: the operands must be arrays")
        if a.dtype is not b.dtype and not (a.dtype.is_float and b.dtype.is_float) and dtype is None:
            reject("dot_types", f"dot of {a.dtype} and {b.dtype} needs a preferred_element_type")
        wanted = None if dtype is None else element_type(dtype, "preferred_element_type")
        op = hlo.Dot.of(a, b, wanted, **attributes)
    return builder.add(op, (left, right))


def _window_numbers(kind: type, what: str, numbers: Any) -> dict[str, Any]:
    """The attributes of gather or scatter under HLO's names, from `numbers`, which must be a record of the
    class `kind`. `what` is the function's name in messages.
    """
    instance(kind, numbers, f"{what}: dimension_numbers")
    found = {f.name: getattr(numbers, f.name) for f in fields(numbers)}
    place = integer(found.pop("index_vector_dim"), f"{what}: index_vector_dim")
    dims = {name: integers(value, f"{what}: {name}") for name, value in found.items()}
    return {"index_vector_dim": place, **dims}


def Gather(
    a: object, start_indices: object, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int],
    indices_are_sorted: bool = False,
) -> XlaOp:  # fmt: skip
    """Collects slices of `a`, each with the sizes `slice_sizes`, at the positions in `start_indices`.
    `indices_are_sorted` is a promise of the program.
    """
    source, indices = operands("Gather", a, start_indices)
    op = hlo.Gather(
        **_window_numbers(GatherDimensionNumbers, "Gather", dimension_numbers),
        slice_sizes=integers(slice_sizes, "slice_sizes"),
        indices_are_sorted=boolean(indices_are_sorted, "indices_are_sorted"),
    )
    return source.builder.add(op, (source, indices))


def Scatter(
    input: Any, scatter_indices: object, updates: Any, update_computation: object,
    dimension_numbers: ScatterDimensionNumbers, indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> XlaOp:  # fmt: skip
    """Combines slices of `updates` into `input` with `update_computation`, at the positions in
    `scatter_indices`. `input` and `updates` may also be lists of arrays. `indices_are_sorted` and
    `unique_indices` are promises of the program.
    """
    several = isinstance(input, (list, tuple))
    if several != isinstance(updates, (list, tuple)) or several and len(input) != len(updates):
        raise InvalidArgument("Scatter: wanted as many updates as inputs, both lists or both single arrays")
    targets, changes = (list(input), list(updates)) if several else ([input], [updates])
    values = operands("Scatter", *targets, scatter_indices, *changes)
    builder = values[0].builder
    op = hlo.Scatter(
        **_window_numbers(ScatterDimensionNumbers, "Scatter", dimension_numbers),
        indices_are_sorted=boolean(indices_are_sorted, "indices_are_sorted"),
        unique_indices=boolean(unique_indices, "unique_indices"),
        to_apply=builder.callee(update_computation, "Scatter: update_computation"),
    )
    return builder.add(op, values)
