"""Converts between multidimensional indices and linear indices in memory, which depend on the layout and
padding of a shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from axla.core.errors import ShapeError
from axla.core.shape import Shape, show
from axla.core.shape_util import Padding, elements_in_memory, widths


def memory_strides(shape: Shape, padding: Padding | None = None) -> tuple[int, ...]:
    """For each dimension, the distance in memory between neighbouring elements, counted in elements."""
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
    """The position in memory, counted in elements, of the element at `index`."""
    if not index_in_bounds(shape, index):
        raise ShapeError(f"index {list(index)} is not inside {show(shape)}")
    return sum(i * s for i, s in zip(index, memory_strides(shape, padding), strict=True))


def linear_index_to_multidimensional_index(
    shape: Shape, linear: int, padding: Padding | None = None
) -> tuple[int, ...]:
    """The index of the element at position `linear` in memory, counted in elements. ShapeError for positions
    outside of the array's memory, and for padding.
    """
    count = elements_in_memory(shape, padding)
    if not 0 <= linear < count:
        raise ShapeError(f"linear index {linear} is not inside {shape}, which has {count} elements in memory")
    padded = widths(shape, padding)
    result = [0] * shape.rank
    rest = linear
    for dim in shape.layout.minor_to_major:
        rest, result[dim] = divmod(rest, padded[dim])
    if not index_in_bounds(shape, result):
        raise ShapeError(f"linear index {linear} of {shape} is padding: no element has the index {result}")
    return tuple(result)


def index_in_bounds(shape: Shape, index: Sequence[int]) -> bool:
    """Whether `index` is the index of an element of an array of this shape."""
    return len(index) == shape.rank and all(0 <= i < d for i, d in zip(index, shape.dims, strict=True))


def indices(shape: Shape) -> Iterator[tuple[int, ...]]:
    """Yields every index of an array in row-major order."""
    return product(*map(range, shape.dims))
