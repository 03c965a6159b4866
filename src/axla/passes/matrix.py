"""Functions that add operations on batches of matrices [batch, rows, columns] to a builder. All values have
these three dimensions, so that dimensions of size 1 broadcast as in NumPy: a column is [batch, rows, 1], one
number per matrix is [batch, 1, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from axla.builder import ops
from axla.builder.iteration import combiner, function, loop, repeat  # noqa: F401  (part of what this names)
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dtypes import S32, DType
from axla.core.shape import Shape
from axla.hlo import Gather

# Operations on single elements


def real(x: XlaOp) -> XlaOp:
    """The real part; `x` itself if it is real."""
    return ops.Real(x) if x.dtype.is_complex else x


def imaginary(x: XlaOp) -> XlaOp:
    """The imaginary part; zeros if `x` is real."""
    return ops.Imag(x) if x.dtype.is_complex else ops.ZerosLike(x)


def conjugate(x: XlaOp) -> XlaOp:
    """The complex conjugate; `x` itself if it is real."""
    return ops.Conj(x) if x.dtype.is_complex else x


def squared(x: XlaOp) -> XlaOp:
    """Computes |x|^2 of each element, as a real number."""
    return ops.Real(x) * ops.Real(x) + ops.Imag(x) * ops.Imag(x) if x.dtype.is_complex else x * x


def magnitude(x: XlaOp) -> XlaOp:
    """Computes |x| of real numbers; |re| + |im| of complex numbers, as LAPACK compares them."""
    return ops.Abs(ops.Real(x)) + ops.Abs(ops.Imag(x)) if x.dtype.is_complex else ops.Abs(x)


def like(x: XlaOp, other: XlaOp) -> XlaOp:
    """`x` converted to the element type of `other`."""
    return x if x.dtype is other.dtype else ops.ConvertElementType(x, other.dtype)


def over(x: XlaOp, by: XlaOp) -> XlaOp:
    """`x` divided by the real numbers `by`. The parts of complex numbers are divided separately, so that
    nothing overflows for small divisors.
    """
    return ops.Complex(ops.Real(x) / by, ops.Imag(x) / by) if x.dtype.is_complex else x / by


def epsilon(dtype: DType) -> float:
    """The distance from 1 to the next larger number of a type; for a complex type, of its real type."""
    return float(np.finfo(dtype.real.numpy).eps)


def minimum_normal(dtype: DType) -> float:
    """The smallest positive normal number of a type; for a complex type, of its real type."""
    return float(np.finfo(dtype.real.numpy).tiny)


def where(condition: XlaOp, yes: Any, no: Any) -> XlaOp:
    """`yes` where the condition holds, else `no`; dimensions of size 1 are broadcast. A Python or NumPy
    number takes the element type of the other value; if both are NumPy scalars, they keep their own types.
    """
    typed = next((v for v in (yes, no) if isinstance(v, XlaOp)), None)
    values = [
        v if isinstance(v, XlaOp) else condition.builder.constant(v) if typed is None else number(typed, v)
        for v in (yes, no)
    ]
    dims = np.broadcast_shapes(*[v.dims for v in (condition, *values)])
    return ops.Select(*[broadcast(v, dims) for v in (condition, *values)])


def broadcast(x: XlaOp, dims: Sequence[int]) -> XlaOp:
    """`x` broadcast to `dims`; missing leading dimensions are added."""
    if x.dims == tuple(dims):
        return x
    return ops.BroadcastInDim(x, dims, range(len(dims) - len(x.dims), len(dims)))


def number(like: XlaOp, value: Any) -> XlaOp:
    """A scalar constant with the element type of `like`."""
    return like.builder.constant(np.asarray(value).astype(like.dtype.numpy))


def zeros(builder: XlaBuilder, dtype: DType, dims: Sequence[int]) -> XlaOp:
    """An array of zeros of the given element type and dimensions."""
    return ops.Broadcast(ops.Zero(builder, dtype), dims)


# Operations on whole matrices


def product(a: XlaOp, b: XlaOp) -> XlaOp:
    """The matrix products a b, one per batch index."""
    return ops.DotGeneral(a, b, (([2], [1]), ([0], [0])))


def transposed(x: XlaOp) -> XlaOp:
    """Each matrix of the batch transposed."""
    return ops.Transpose(x, (0, 2, 1))


def adjoint(x: XlaOp) -> XlaOp:
    """The conjugate transpose of each matrix."""
    return conjugate(transposed(x))


def identity(x: XlaOp, rows: int, columns: int) -> XlaOp:
    """Identity matrices of the given size, with the batch size and element type of `x`."""
    like_this = zeros(x.builder, x.dtype, (x.dims[0], rows, columns))
    return where(places(like_this, 1) == places(like_this, 2), 1.0, like_this)


def diagonal(x: XlaOp, below: int = 0) -> XlaOp:
    """The diagonal of each matrix as a column; with `below` > 0, the subdiagonal that many rows below it."""
    batch, rows, columns = x.dims
    count = max(0, min(rows - below, columns))
    flat = ops.Reshape(x, (batch, rows * columns))
    first = min(below * columns, rows * columns)
    end = min(first + (count - 1) * (columns + 1) + 1, rows * columns) if count else first
    return ops.Reshape(ops.Slice(flat, (0, first), (batch, end), (1, columns + 1)), (batch, count, 1))


def places(x: XlaOp, axis: int) -> XlaOp:
    """The indices along an axis, as an array with size 1 along the other axes."""
    return ops.Iota(x.builder, Shape(S32, [n if d == axis else 1 for d, n in enumerate(x.dims)]), axis)


def indices(x: XlaOp, axis: int) -> XlaOp:
    """For every element its index along an axis, as an array of the size of `x`. Masks that are made of it
    become part of the kernel that reads them.
    """
    return ops.Iota(x.builder, Shape(S32, x.dims), axis)


def row(x: XlaOp, at: XlaOp, count: int = 1) -> XlaOp:
    """The `count` rows of each matrix from row `at` on."""
    return ops.DynamicSliceInDim(x, at, count, 1)


def column(x: XlaOp, at: XlaOp, count: int = 1) -> XlaOp:
    """The `count` columns of each matrix from column `at` on."""
    return ops.DynamicSliceInDim(x, at, count, 2)


def part(x: XlaOp, row: XlaOp, column: XlaOp, rows: int, columns: int) -> XlaOp:
    """The block of each matrix with `rows` rows and `columns` columns whose first element is at (`row`,
    `column`).
    """
    return ops.DynamicSlice(x, (0, row, column), (x.dims[0], rows, columns))


def with_part(x: XlaOp, part: XlaOp, row: XlaOp | int, column: XlaOp | int) -> XlaOp:
    """`x` with the block `part` written at (`row`, `column`) of each matrix."""
    return ops.DynamicUpdateSlice(x, part, (0, row, column))


def padded(x: XlaOp, rows: int, columns: int) -> XlaOp:
    """`x` with zeros added below and to the right, up to `rows` rows and `columns` columns."""
    more = (0, rows - x.dims[1], columns - x.dims[2])
    return ops.Pad(x, number(x, 0), [(0, n, 0) for n in more]) if any(more) else x


def joined(parts: Sequence[XlaOp], axis: int) -> XlaOp:
    """The arrays `parts` concatenated along an axis."""
    return ops.ConcatInDim(parts[0].builder, parts, axis)


def hermitian(a: XlaOp, lower: bool) -> XlaOp:
    """Hermitian matrices built from one triangle of `a`: from the lower one if `lower`, else from the upper
    one.
    """
    rows, columns = places(a, 1), places(a, 2)
    given = rows > columns if lower else rows < columns
    return where(rows == columns, like(real(a), a), where(given, a, adjoint(a)))


# Reductions along an axis, which is kept with size 1


def total(x: XlaOp, axis: int) -> XlaOp:
    """The sum along an axis, which is kept with size 1."""
    return _reduced(x, "Add", 0, axis)


def product_of(x: XlaOp, axis: int) -> XlaOp:
    """The product along an axis, which is kept with size 1."""
    return _reduced(x, "Mul", 1, axis)


def largest(x: XlaOp, axis: int) -> XlaOp:
    """The maximum along an axis, which is kept with size 1. NaN if an element is NaN; at least 0 for
    integers.
    """
    return _reduced(x, "Max", -np.inf if x.dtype.is_inexact else 0, axis)


def largest_of_matrix(x: XlaOp) -> XlaOp:
    """The largest element of each matrix, as [batch, 1, 1]."""
    return largest(largest(x, 2), 1)


def unit_of(x: XlaOp) -> XlaOp:
    """The largest magnitude in each matrix (1 if all are 0). Elements divided by it have squares that do not
    overflow.
    """
    size = largest_of_matrix(magnitude(x))
    return where(size == 0, 1.0, size)


def every(found: XlaOp, axis: int) -> XlaOp:
    """Whether a condition holds for all elements along an axis, which is kept with size 1."""
    return _reduced(found, "And", True, axis)


def first(found: XlaOp, axis: int) -> XlaOp:
    """The first index along an axis at which a condition holds; the size of the axis if it holds nowhere."""
    size = found.dims[axis]
    index = where(found, places(found, axis), np.int32(size))
    return _reduced(index, "Min", size, axis)


def _reduced(x: XlaOp, opcode: str, start: float, axis: int) -> XlaOp:
    dims = [1 if d == axis else n for d, n in enumerate(x.dims)]
    return ops.Reshape(ops.Reduce(x, number(x, start), combiner(opcode, x.dtype), [axis]), dims)


def chosen(x: XlaOp, axis: int, at: XlaOp) -> XlaOp:
    """The row (`axis` 1) or column (`axis` 2) of each matrix with the index `at` [batch, 1, 1]."""
    if x.dims[0] == 1:
        return (row if axis == 1 else column)(x, ops.Reshape(at, ()))
    return total(where(places(x, axis) == at, x, 0.0 if x.dtype.is_inexact else 0), axis)


def swapped(x: XlaOp, axis: int, one: XlaOp, other: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Exchanges rows (`axis` 1) or columns (`axis` 2) `one` and `other`. Returns the matrices, and the row or
    column that is now at `one`. `one` is the same for all matrices, `other` is [batch, 1, 1].
    """
    index = places(x, axis)
    a, b = (row if axis == 1 else column)(x, one), chosen(x, axis, other)
    if x.dims[0] > 1 or x.dims[3 - axis] == 1:
        return where(index == one, b, where(index == other, a, x)), b
    at = ops.Reshape(other, ())
    for part, k in ((b, one), (a, at)):
        x = with_part(x, part, *((k, 0) if axis == 1 else (0, k)))
    return x, b


def taken(x: XlaOp, order: XlaOp) -> XlaOp:
    """The rows of each matrix in the order that `order` [batch, 1, rows] lists."""
    op = Gather(
        offset_dims=(2,), collapsed_slice_dims=(1,), start_index_map=(1,), operand_batching_dims=(0,),
        start_indices_batching_dims=(0,), index_vector_dim=2, slice_sizes=(1, 1, x.dims[2]),
    )  # fmt: skip
    return x.builder.add(op, (x, transposed(order)))


def ordered(keys: XlaOp, *values: XlaOp) -> list[XlaOp]:
    """Sorts the rows of each of `values` by ascending keys [batch, rows, 1]; rows with equal keys keep their
    order.
    """
    other = transposed(keys)
    before = (other < keys) | ((other == keys) & (places(other, 2) < places(keys, 1)))
    rank = total(where(before, np.int32(1), np.int32(0)), 2)
    chosen = transposed(where(rank == places(other, 2), np.float32(1), np.float32(0)))
    return [product(like(chosen, x), x) for x in values]
