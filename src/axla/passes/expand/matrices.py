"""Batches of matrices [batch, rows, columns], as expansions of linear algebra build them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from axla.core.dtypes import PRED, S32
from axla.core.shape import Shape
from axla.hlo import (
    Compare,
    Complex,
    Concatenate,
    Divide,
    Dot,
    DynamicSlice,
    Imag,
    Iota,
    Negate,
    Real,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)
from axla.ir.attributes import Direction, SliceDims
from axla.ir.graph import Instruction
from axla.passes.expand.expander import scalar, shape_of, spread


def batched(x: Instruction) -> Instruction:
    """All leading dimensions as one."""
    dims = shape_of(x).dims
    return reshaped(x, (prod(dims[:-2]), *dims[-2:]))


def reshaped(x: Instruction, dims: Sequence[int]) -> Instruction:
    """The same elements in other dimensions."""
    shape = shape_of(x)
    return x if tuple(dims) == shape.dims else Reshape(shape.with_dims(dims).logical)(x)


def part(x: Instruction, rows: tuple[int, int], columns: tuple[int, int]) -> Instruction:
    """The rows and columns of these ranges, of all matrices."""
    dims = shape_of(x).dims
    if (rows, columns) == ((0, dims[1]), (0, dims[2])):
        return x
    return Slice(SliceDims((0, rows[0], columns[0]), (dims[0], rows[1], columns[1])))(x)


def stacked(parts: Sequence[Instruction], dimension: int) -> Instruction:
    """The parts one behind the other."""
    return parts[0] if len(parts) == 1 else parts[0].computation.add(Concatenate((dimension,)), parts)


def product(a: Instruction, b: Instruction) -> Instruction:
    """a b, per matrix."""
    op = Dot.of(
        shape_of(a), shape_of(b), lhs_batch_dims=(0,), rhs_batch_dims=(0,),
        lhs_contracting_dims=(2,), rhs_contracting_dims=(1,),
    )  # fmt: skip
    return op(a, b)


def transposed(x: Instruction) -> Instruction:
    return Transpose((0, 2, 1))(x)


def conjugate(x: Instruction) -> Instruction:
    return Complex()(Real()(x), Negate()(Imag()(x))) if shape_of(x).dtype.is_complex else x


def flipped(x: Instruction, *dimensions: int) -> Instruction:
    return Reverse(dimensions)(x)


def divided(x: Instruction, by: Instruction) -> Instruction:
    """x by real numbers."""
    if not shape_of(x).dtype.is_complex:
        return Divide()(x, by)
    return Complex()(Divide()(Real()(x), by), Divide()(Imag()(x), by))


def row(x: Instruction, at: Instruction) -> Instruction:
    """Row `at` of every matrix: [batch, columns]."""
    dims = shape_of(x).dims
    zero = scalar(x.computation, S32, 0)
    return reshaped(DynamicSlice((dims[0], 1, dims[2]))(x, zero, at, zero), (dims[0], dims[2]))


def column(x: Instruction, at: Instruction) -> Instruction:
    """Column `at` of every matrix: [batch, rows]."""
    dims = shape_of(x).dims
    zero = scalar(x.computation, S32, 0)
    return reshaped(DynamicSlice((dims[0], dims[1], 1))(x, zero, zero, at), (dims[0], dims[1]))


def diagonal_element(x: Instruction, at: Instruction) -> Instruction:
    """Element [at, at] of every matrix: [batch]."""
    zero, count = scalar(x.computation, S32, 0), shape_of(x).dims[0]
    return reshaped(DynamicSlice((count, 1, 1))(x, zero, at, at), (count,))


def where(shape: Shape, dimension: int, direction: Direction, at: Instruction) -> Instruction:
    """Whether the index along a dimension compares so with a scalar, for every element of a shape."""
    places = at.computation.add(Iota(shape.with_dtype(S32).logical, dimension))
    return Compare(direction)(places, spread(at, shape_of(places)))


def triangle(x: Instruction, direction: Direction) -> Instruction:
    """Whether the row compares so with the column, for every element of the matrices."""
    shape = shape_of(x).with_dtype(S32).logical
    rows, columns = (x.computation.add(Iota(shape, d)) for d in (1, 2))
    found = Compare(direction)(rows, columns)
    assert shape_of(found).dtype is PRED
    return found
