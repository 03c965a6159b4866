"""Rules of gather and scatter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from axla.stablehlo.attributes import STRUCTURES
from axla.stablehlo.tables import by_name
from axla.stablehlo.verify.kinds import Facts, constant, fits, sizes_fit
from axla.stablehlo.verify.reducers import check_reducer
from axla.stablehlo.verify.subject import Subject


def gather(s: Subject) -> None:
    _gather(s, s.integers("slice_sizes"), len(s.integers("slice_sizes")))


def dynamic_gather(s: Subject) -> None:
    given = constant(s.operation.operands[2])
    count = s.operands[2].sizes[0]
    _gather(s, None if given is None else tuple(given), count)


def _gather(s: Subject, sizes: tuple[int, ...] | None, count: int | None) -> None:
    """`sizes` are None when they are computed; `count` is how many there are."""
    operand, indices = s.operands[0], s.operands[1]
    fields: dict[str, Any] = s.attribute("dimension_numbers").fields
    rank, collapsed, batching = operand.rank, fields["collapsed_slice_dims"], fields["operand_batching_dims"]
    _dimensions(s, "gather", fields, operand, indices)
    s.need(fits(count, rank), "c20", "{} slice_sizes, found {}", rank, count)
    if sizes is not None:
        for rule, dims in (("c9", collapsed), ("c12", batching)):
            for dim in dims:
                s.need(sizes[dim] <= 1, rule, "a size of at most 1 in dimension {}, found {}", dim, sizes)
        for dim, (size, end) in enumerate(zip(sizes, operand.sizes, strict=True)):
            fit = size >= 0 and (end is None or size <= end)
            s.need(fit, "c21", "0 <= size <= {}, found {} in dimension {}", end, size, dim)
    _gathered(s, fields, sizes)


def _gathered(s: Subject, fields: dict[str, Any], sizes: tuple[int, ...] | None) -> None:
    """The shape of the result: windows at offset_dims, indices elsewhere."""
    operand, indices = s.operands[0], s.operands[1]
    offset, at = fields["offset_dims"], fields["index_vector_dim"]
    outer = [size for dim, size in enumerate(indices.dims) if dim != at]
    s.in_range("c5", "offset_dims", offset, len(offset) + len(outer))
    dropped = {*fields["collapsed_slice_dims"], *fields["operand_batching_dims"]}
    window: list[int | None] = [
        None if sizes is None else sizes[dim] for dim in range(operand.rank) if dim not in dropped
    ]
    batch, inner = iter(outer), iter(window)
    shape = [next(inner if dim in offset else batch) for dim in range(len(offset) + len(outer))]
    s.follows("c22", tuple(shape), operand.element)
    s.need(operand.element == s.results[0].element, "c23", "elements of {}, found {}", operand, s.results[0])


_LABELS = {
    "gather": "c1 c2 c3 c4 c6 c7 c8 c10 c11 c13 c14 c15 c16 c17 c18 c19",
    "scatter": "c2 c22 c19 c7 c9 c10 c11 c12 c13 c14 c15 c16 c17 c18 c20 c21",
}


def _dimensions(s: Subject, kind: str, fields: dict[str, Any], operand: Facts, indices: Facts) -> None:
    """The rules for dimension numbers, whose fields are in the same order in gather and scatter: of windows,
    dropped, batching in the operand and in the indices, those that indices say, of the vectors.
    """
    labels, names = _LABELS[kind].split(), list(STRUCTURES[kind])
    counted, vector, as_many, windows, apart, ordered, within, batch_ordered, batch_within, *rest = labels
    rank, at = operand.rank, fields["index_vector_dim"]
    window, dropped, batching, of_indices, said = [fields[name] for name in names[:5]]
    count = len(window) + len(dropped) + len(batching)
    s.need(count == rank, counted, "{}, {} and {} are {}, found {}", *names[:3], rank, count)
    s.is_sorted(windows, names[0], window)
    s.unique(windows, names[0], window)
    s.unique(apart, f"{names[1]} with {names[2]}", dropped + batching)
    s.is_sorted(ordered, names[1], dropped)
    s.in_range(within, names[1], dropped, rank)
    s.is_sorted(batch_ordered, names[2], batching)
    s.in_range(batch_within, names[2], batching, rank)
    unique, in_range, no_vector, one_length, sizes, distinct, inside = rest
    s.unique(unique, names[3], of_indices)
    s.in_range(in_range, names[3], of_indices, indices.rank)
    fit = at not in of_indices
    s.need(fit, no_vector, "{} is without index_vector_dim {}, found {}", names[3], at, of_indices)
    same = len(batching) == len(of_indices)
    s.need(same, one_length, "{} and {} have one length, found {} and {}", *names[2:4], batching, of_indices)
    for x, y in zip(batching, of_indices, strict=True):
        fit = fits(operand.sizes[x], indices.sizes[y])
        s.need(fit, sizes, "dimension {} of {} has the size of {} of {}", x, operand, y, indices)
    fit = 0 <= at <= indices.rank
    s.need(fit, vector, "index_vector_dim is in [0, {}], found {}", indices.rank, at)
    size = 1 if at == indices.rank else indices.sizes[at]
    s.need(fits(size, len(said)), as_many, "{} has {} elements, found {}", names[4], size, said)
    s.unique(distinct, f"{names[4]} with {names[2]}", said + batching)
    s.in_range(inside, names[4], said, rank)


def scatter(s: Subject) -> None:
    count = (len(s.operands) - 1) // 2
    inputs, indices, updates = s.operands[:count], s.operands[count], s.operands[count + 1 :]
    s.need(count, "c5", "at least one input")
    fields: dict[str, Any] = s.attribute("scatter_dimension_numbers").fields
    for facts in inputs:
        s.need(sizes_fit(inputs[0].shape, facts.shape), "c1", "inputs of one shape, found {}", facts)
    for facts in updates:
        message = "updates of one shape, found {} and {}"
        s.need(sizes_fit(updates[0].shape, facts.shape), "c3", message, updates[0], facts)
    at = fields["index_vector_dim"]
    s.need(0 <= at <= indices.rank, "c22", "index_vector_dim is in [0, {}], found {}", indices.rank, at)
    check_reducer(s, "c23", 0, inputs, [((), facts.element) for facts in updates], ())
    outer = [size for dim, size in enumerate(indices.sizes) if dim != at]
    rank = len(outer) + len(fields["update_window_dims"])
    for facts in updates:
        s.need(facts.rank == rank, "c4", "updates of rank {}, found {}", rank, facts)
    for operand, update in zip(inputs, updates, strict=True):
        _dimensions(s, "scatter", fields, operand, indices)
        s.in_range("c8", "update_window_dims", fields["update_window_dims"], update.rank)
        _scatter_windows(s, operand, outer, update)
    s.need(len(s.results) == count, "results", "{} results are wanted, found {}", count, len(s.results))
    for i, (operand, returned) in enumerate(zip(inputs, s.returned(0), strict=True)):
        s.follows("c24", operand.extents, None, i)
        s.follows("c25", operand.extents, returned.element, i)


def _scatter_windows(s: Subject, operand: Facts, outer: list[int | None], update: Facts) -> None:
    """Updates have the sizes of the indices, and windows within the operand."""
    fields: dict[str, Any] = s.attribute("scatter_dimension_numbers").fields
    dropped = {*fields["inserted_window_dims"], *fields["input_batching_dims"]}
    ends = [size for dim, size in enumerate(operand.sizes) if dim not in dropped]
    inside = set(fields["update_window_dims"])
    windows, batch = iter(ends), iter(outer)
    for dim, size in enumerate(update.sizes):
        if dim in inside:
            end = next(windows)
            fit = size is None or end is None or size <= end
            s.need(fit, "c4", "a window of at most {} in dimension {}, found {}", end, dim, update)
        else:
            wanted = next(batch)
            s.need(fits(size, wanted), "c4", "a size {} in dimension {}, found {}", wanted, dim, update)


RULES: dict[str, Callable[[Subject], None]] = by_name(
    "", gather, dynamic_gather, scatter,
)  # fmt: skip
