"""Rules of gather and scatter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from axla.stablehlo.tables import by_name
from axla.stablehlo.verify.kinds import Facts, Sizes, constant, fits, sizes_fit
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
    offset, collapsed, batching = [
        fields[n] for n in ("offset_dims", "collapsed_slice_dims", "operand_batching_dims")
    ]
    at, rank = fields["index_vector_dim"], operand.rank
    counts = len(offset) + len(collapsed) + len(batching)
    s.need(counts == rank, "c1", "offset, collapsed and batching dims are {}, found {}", rank, counts)
    _index_dim(s, "c2", "c3", at, indices, "start_index_map", fields["start_index_map"])
    s.is_sorted("c4", "offset_dims", offset)
    s.unique("c4", "offset_dims", offset)
    s.unique("c6", "collapsed_slice_dims with operand_batching_dims", collapsed + batching)
    s.is_sorted("c7", "collapsed_slice_dims", collapsed)
    s.in_range("c8", "collapsed_slice_dims", collapsed, rank)
    s.is_sorted("c10", "operand_batching_dims", batching)
    s.in_range("c11", "operand_batching_dims", batching, rank)
    names = ("operand_batching_dims", "start_indices_batching_dims")
    _batching(s, "c13 c14 c15 c16 c17", names, at, operand, indices)
    s.unique("c18", "start_index_map with operand_batching_dims", fields["start_index_map"] + batching)
    s.in_range("c19", "start_index_map", fields["start_index_map"], rank)
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
    outer = [size for dim, size in enumerate(indices.sizes) if dim != at]
    limits = [b for dim, b in enumerate(indices.bounds or (None,) * indices.rank) if dim != at]
    s.in_range("c5", "offset_dims", offset, len(offset) + len(outer))
    dropped = {*fields["collapsed_slice_dims"], *fields["operand_batching_dims"]}
    window: list[int | None] = [
        None if sizes is None else sizes[dim] for dim in range(operand.rank) if dim not in dropped
    ]
    shape: list[int | None] = []
    bounds: list[int | None] = []
    batch, inner = iter(zip(outer, limits, strict=True)), iter(window)
    inside = set(offset)
    for dim in range(len(offset) + len(outer)):
        size, bound = (next(inner), None) if dim in inside else next(batch)
        shape.append(size)
        bounds.append(bound)
    s.follows("c22", tuple(shape), operand.element, tuple(bounds) if indices.bounds else ())
    s.need(operand.element == s.results[0].element, "c23", "elements of {}, found {}", operand, s.results[0])


def _index_dim(
    s: Subject, range_rule: str, count_rule: str, at: int, indices: Facts, name: str, dims: Sizes
) -> None:
    """The dimension of index vectors, and as many elements in `name` as a vector has."""
    fit = 0 <= at <= indices.rank
    s.need(fit, range_rule, "index_vector_dim is in [0, {}], found {}", indices.rank, at)
    size = 1 if at == indices.rank else indices.sizes[at]
    s.need(fits(size, len(dims)), count_rule, "{} has {} elements, found {}", name, size, dims)


def _batching(
    s: Subject, labels: str, names: tuple[str, str], at: int, operand: Facts, indices: Facts
) -> None:
    """Dimensions that operand and indices share. The five rules have labels in this order."""
    unique, in_range, apart, as_many, sizes = labels.split()
    fields = s.attribute("dimension_numbers", s.attribute("scatter_dimension_numbers")).fields
    of_operand, of_indices = fields[names[0]], fields[names[1]]
    s.unique(unique, names[1], of_indices)
    s.in_range(in_range, names[1], of_indices, indices.rank)
    s.need(
        at not in of_indices, apart, "{} is without index_vector_dim {}, found {}", names[1], at, of_indices
    )
    same = len(of_operand) == len(of_indices)
    s.need(same, as_many, "{} and {} have one length, found {} and {}", *names, of_operand, of_indices)
    for x, y in zip(of_operand, of_indices, strict=True):
        fit = fits(operand.sizes[x], indices.sizes[y])
        s.need(fit, sizes, "dimension {} of {} has the size of {} of {}", x, operand, y, indices)


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
        _scatter_dimensions(s, operand, indices, update)
        _scatter_windows(s, operand, outer, update)
    s.need(len(s.results) == count, "results", "{} results are wanted, found {}", count, len(s.results))
    for i, (operand, returned) in enumerate(zip(inputs, s.returned(0), strict=True)):
        s.follows("c24", operand.shape, None, operand.bounds, i)
        s.follows("c25", operand.shape, returned.element, operand.bounds, i)


def _scatter_dimensions(s: Subject, operand: Facts, indices: Facts, update: Facts) -> None:
    fields: dict[str, Any] = s.attribute("scatter_dimension_numbers").fields
    window, inserted, batching = [
        fields[n] for n in ("update_window_dims", "inserted_window_dims", "input_batching_dims")
    ]
    counts, rank, at = len(window) + len(inserted) + len(batching), operand.rank, fields["index_vector_dim"]
    s.need(counts == rank, "c2", "window, inserted and batching dims are {}, found {}", rank, counts)
    s.is_sorted("c7", "update_window_dims", window)
    s.unique("c7", "update_window_dims", window)
    s.in_range("c8", "update_window_dims", window, update.rank)
    s.unique("c9", "inserted_window_dims with input_batching_dims", inserted + batching)
    s.is_sorted("c10", "inserted_window_dims", inserted)
    s.in_range("c11", "inserted_window_dims", inserted, rank)
    s.is_sorted("c12", "input_batching_dims", batching)
    s.in_range("c13", "input_batching_dims", batching, rank)
    names = ("input_batching_dims", "scatter_indices_batching_dims")
    _batching(s, "c14 c15 c16 c17 c18", names, at, operand, indices)
    to_operand = fields["scatter_dims_to_operand_dims"]
    _index_dim(s, "c22", "c19", at, indices, "scatter_dims_to_operand_dims", to_operand)
    s.unique("c20", "scatter_dims_to_operand_dims with input_batching_dims", to_operand + batching)
    s.in_range("c21", "scatter_dims_to_operand_dims", to_operand, rank)


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
