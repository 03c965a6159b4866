"""Functions of shapes: dimension numbers, ranks, subshapes; and literals as linear memory, with layout and
padding.

A layout in HLO text has no padding. `Padding` is the one of XLA's documents: the widths to which the
dimensions are extended in memory, and the value between the elements. `pack` and `unpack` convert between a
literal and linear memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.dtypes import DType
from axla.core.errors import ShapeError
from axla.core.literal import Literal
from axla.core.shape import AnyShape, Layout, Shape, TupleShape, array, show

LeafPath = tuple[int, ...]
"""Indices that select an element of nested tuples, the outermost first."""


@dataclass(frozen=True, slots=True)
class Padding:
    """The padding of an array in memory: the width of every dimension, and the value at positions without an
    element.
    """

    widths: tuple[int, ...]
    value: object = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", tuple(int(w) for w in self.widths))


def make_shape(dtype: DType, dims: Sequence[int] = ()) -> Shape:
    """An array shape in the default layout, in which dimension 0 is the most major one."""
    return Shape(dtype, tuple(dims))


def make_tuple_shape(elements: Sequence[AnyShape]) -> TupleShape:
    """A tuple shape with these elements."""
    return TupleShape(tuple(elements))


def rank(shape: AnyShape) -> int:
    """The number of dimensions of an array shape."""
    return array(shape, "rank: the shape").rank


def true_rank(shape: AnyShape) -> int:
    """The number of dimensions of an array shape that have more than one element."""
    return array(shape, "true_rank: the shape").true_rank


def dimension_number(shape: AnyShape, number: int) -> int:
    """Converts a dimension number to one from 0 to rank-1. Negative numbers count from the end: -1 is the
    last dimension. ShapeError if it is out of range.
    """
    n = rank(shape)
    if not -n <= number < n:
        raise ShapeError(
            f"dimension {number} of {show(shape)}: wanted a number from {-n} to {n - 1}"
            if n
            else f"dimension {number} of the scalar {show(shape)}: it has no dimensions"
        )
    return number + n if number < 0 else number


def dimension(shape: AnyShape, number: int) -> int:
    """The size of dimension `number` of an array shape. Negative numbers count from the end."""
    return array(shape).dims[dimension_number(shape, number)]


def subshape(shape: AnyShape, index: Sequence[int]) -> AnyShape:
    """The shape at `index`, a path through nested tuples; the empty path gives the shape itself. ShapeError
    if the path does not exist.
    """
    found = shape
    for depth, place in enumerate(index):
        if not isinstance(found, TupleShape) or not 0 <= place < len(found.elements):
            path = "{" + ",".join(map(str, index)) + "}"
            message = f"no subshape {path} in {show(shape)}: entry {depth} is {place}, at {show(found)}"
            raise ShapeError(message)
        found = found.elements[place]
    return found


def indexed_leaves(shape: AnyShape) -> list[tuple[LeafPath, AnyShape]]:
    """The leaves of a shape, depth first, each with its path through nested tuples."""
    if not isinstance(shape, TupleShape):
        return [((), shape)]
    parts = enumerate(shape.elements)
    return [((k, *index), leaf) for k, part in parts for index, leaf in indexed_leaves(part)]


def widths(shape: Shape, padding: Padding | None = None) -> tuple[int, ...]:
    """The sizes of the dimensions in memory: the padded widths, or without padding the sizes of the shape."""
    if padding is None:
        return shape.dims
    if len(padding.widths) != shape.rank:
        found = f"{len(padding.widths)} padded dimensions"
        raise ShapeError(f"padding of {shape}: found {found}, wanted one per dimension, {shape.rank}")
    for number, (size, width) in enumerate(zip(shape.dims, padding.widths, strict=True)):
        if width < size:
            raise ShapeError(
                f"padding of {shape}: dimension {number} of size {size} cannot be padded to width {width}"
            )
    return padding.widths


def elements_in_memory(shape: Shape, padding: Padding | None = None) -> int:
    """The number of elements in memory, including padding."""
    return prod(widths(shape, padding))


def pack(literal: Literal, layout: Layout | None = None, padding: Padding | None = None) -> np.ndarray:
    """Writes an array literal to linear memory. The elements are in the order of `layout`, by default that of
    the literal's shape.
    """
    shape = array(literal.shape, "pack: the literal")
    if layout is not None:
        shape = shape.with_layout(layout)
    memory = np.asarray(literal.array)
    padded = widths(shape, padding)
    if padding is not None and padded != shape.dims:
        wide = np.full(padded, np.asarray(padding.value).astype(shape.dtype.numpy))
        wide[tuple(slice(size) for size in shape.dims)] = memory
        memory = wide
    return np.ascontiguousarray(memory.transpose(major_to_minor(shape))).reshape(-1)


def unpack(memory: np.ndarray, shape: Shape, padding: Padding | None = None) -> Literal:
    """Reads a literal of `shape` from linear memory. The elements are in the order of the shape's layout."""
    padded = widths(shape, padding)
    if memory.dtype != shape.dtype.numpy or memory.size != prod(padded):
        found = f"{memory.size} elements of {memory.dtype}"
        raise ShapeError(f"unpack {shape}: found {found}, wanted {prod(padded)} of {shape.dtype.numpy}")
    order = major_to_minor(shape)
    wide = memory.reshape(tuple(padded[d] for d in order))
    wide = wide.transpose([order.index(d) for d in range(len(order))])
    return Literal(shape, np.array(wide[tuple(slice(size) for size in shape.dims)], order="C"))


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The inverse of the permutation `order`: entry order[k] of the result is k."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def major_to_minor(shape: Shape) -> tuple[int, ...]:
    """The dimensions of a shape in memory order, the most major one first."""
    return tuple(reversed(shape.layout.minor_to_major))
