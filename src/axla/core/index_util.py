"""Conversion between multidimensional indices and positions in linear memory, by the layout (and padding) of
a shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from axla.core.errors import ShapeError
from axla.core.shape import Shape, show
from axla.core.shape_util import Padding, elements_in_memory, widths


def memory_strides(shape: Shape, padding: Padding | None = None) -> tuple[int, ...]:
    """The distance in memory between neighbours along each dimension."""
    padded = widths(shape, padding)
    result = [0] * shape.rank
    step = 1
    for dim in shape.layout.minor_to_major:
        result[dim] = step
        step *= padded[dim]
    return tuple(result)


def multidimensional_index_to_linear_index(
    shape: Shape, index: Sequence[int], padding: Padding | None = None
) -> int:
    """The position in memory of the element at `index`."""
    if not index_in_bounds(shape, index):
        raise ShapeError(f"index {list(index)} is not inside {show(shape)}")
    return sum(i * s for i, s in zip(index, memory_strides(shape, padding), strict=True))


def linear_index_to_multidimensional_index(
    shape: Shape, linear: int, padding: Padding | None = None
) -> tuple[int, ...]:
    """The index of the element at a position in memory; ShapeError outside of the array and for padding."""
    count = elements_in_memory(shape, padding)
    if not 0 <= linear < count:
        raise ShapeError(f"linear index {linear} is not inside {shape}, which has {count} places in memory")
    padded = widths(shape, padding)
    result = [0] * shape.rank
    rest = linear
    for dim in shape.layout.minor_to_major:
        rest, result[dim] = divmod(rest, padded[dim])
    if not index_in_bounds(shape, result):
        raise ShapeError(f"linear index {linear} of {shape} is padding: no element has the index {result}")
    return tuple(result)


def index_in_bounds(shape: Shape, index: Sequence[int]) -> bool:
    """Whether an index names an element of an array of this shape."""
    return len(index) == shape.rank and all(0 <= i < d for i, d in zip(index, shape.dims, strict=True))


def next_index(shape: Shape, index: Sequence[int]) -> tuple[int, ...] | None:
    """The index after `index`, the last dimension varying fastest; None after the last element."""
    result = list(index)
    for dim in range(shape.rank - 1, -1, -1):
        result[dim] += 1
        if result[dim] < shape.dims[dim]:
            return tuple(result)
        result[dim] = 0
    return None


def indices(shape: Shape) -> Iterator[tuple[int, ...]]:
    """Every index of an array, the last dimension varying fastest."""
    index: tuple[int, ...] | None = (0,) * shape.rank if shape.size else None
    while index is not None:
        yield index
        index = next_index(shape, index)
