"""Eigenvalues and eigenvectors of general matrices, computed from their Schur form."""

from __future__ import annotations

import numpy as np

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import C64, C128, F32
from axla.passes import matrix as mx
from axla.passes.linalg.schur import standardized


def eigenvalues(t: XlaOp) -> list[XlaOp]:
    """The eigenvalues of a Schur form, as columns: one complex column, or for a real form the real and the
    imaginary parts. Of a conjugate pair, the one with a positive imaginary part comes first.
    """
    if t.dtype.is_complex:
        return [mx.diagonal(t)]
    n = t.dims[1]
    below, above = mx.diagonal(t, 1), mx.diagonal(mx.transposed(t), 1)
    size = mx.where(below == 0, 0.0, ops.Sqrt(ops.Abs(below)) * ops.Sqrt(ops.Abs(above)))
    after = ops.PadInDim(size, ops.Zero(t.builder, t.dtype), 1, 1, 0)
    return [mx.diagonal(t), mx.padded(size, n, 1) - after]


def complex_form(t: XlaOp, z: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Converts a real Schur form to a complex one, in which t is triangular."""
    if t.dtype.is_complex:
        return t, z
    n = t.dims[1]
    both = ops.ConvertElementType(mx.joined([t, z], 1), C64 if t.dtype is F32 else C128)

    def step(k: XlaOp, both: XlaOp) -> list[XlaOp]:
        high = k + 1
        return [standardized(both, high, mx.part(both, high, k, 1, 1) != 0)]

    [both] = mx.repeat(n - 1, [both], step)
    return both[:, :n], both[:, n:]


def eigenvectors(t: XlaOp, z: XlaOp, *, left: bool) -> XlaOp:
    """The eigenvectors of z t z^H (the left ones if `left`) as columns of length 1, in the order of the
    diagonal of the triangular t. The largest element of each is real.
    """
    # Left eigenvectors of t are right eigenvectors of t^H. With all indices reversed t^H is upper triangular
    # again.
    found = ops.Rev(_of_triangle(ops.Rev(mx.adjoint(t), (1, 2))), (1, 2)) if left else _of_triangle(t)
    found = mx.product(z, found)
    size = mx.magnitude(found)
    at = mx.first(size == mx.largest(size, 1), 1)
    chosen = mx.total(mx.where(mx.places(found, 1) == at, found, 0.0), 1)
    found = unit_columns(found * mx.over(mx.conjugate(chosen), mx.where(chosen == 0, 1.0, ops.Abs(chosen))))
    exact = ops.Complex(mx.real(found), ops.ZerosLike(mx.real(found)))
    return mx.where(mx.places(found, 1) == at, exact, found)


def unit_columns(x: XlaOp) -> XlaOp:
    """The columns of each matrix divided by their norms."""
    size = mx.largest(mx.magnitude(x), 1)
    x = mx.over(x, mx.where(size == 0, 1.0, size))
    length = ops.Sqrt(mx.total(mx.squared(x), 1))
    return mx.over(x, mx.where(length == 0, 1.0, length))


def _of_triangle(t: XlaOp) -> XlaOp:
    """The eigenvectors of an upper triangular matrix, not normalised: computed row by row, from the last row
    up.
    """
    n = t.dims[1]
    least = ops.Max(mx.epsilon(t.dtype) * mx.largest_of_matrix(mx.magnitude(t)), mx.minimum_normal(t.dtype))

    def step(k: XlaOp, t: XlaOp, least: XlaOp, x: XlaOp) -> list[XlaOp]:
        i = (n - 1) - k
        values, columns = mx.transposed(mx.diagonal(t)), mx.places(t, 2)
        line, here = mx.where(columns > i, mx.row(t, i), 0.0), mx.part(t, i, i, 1, 1)
        difference = values - here
        difference = mx.where(mx.magnitude(difference) < least, mx.like(least, t), difference)
        found = mx.where(columns > i, mx.product(line, x) / difference, mx.row(x, i))
        # Scaled so that no element is much larger than 1, even if differences are tiny.
        size = mx.magnitude(found)
        scale = mx.where((columns > i) & (size > 1), size, 1.0)
        return [t, least, mx.over(mx.with_part(x, found, i, 0), scale)]

    return mx.repeat(n, [t, least, mx.identity(t, n, n)], step)[2]


def of_real_matrix(vectors: XlaOp, imaginary_parts: XlaOp) -> XlaOp:
    """Eigenvectors of real matrices, as complex columns: real eigenvalues get real vectors, conjugate
    eigenvalues conjugate vectors. `imaginary_parts` are those of the eigenvalues, as a column.
    """
    im = mx.transposed(imaginary_parts)
    before = ops.PadInDim(vectors, ops.Zero(vectors.builder, vectors.dtype), 2, 1, 0)[:, :, : vectors.dims[2]]
    vectors = mx.where(im < 0, mx.conjugate(before), vectors)
    return unit_columns(ops.Complex(mx.real(vectors), mx.where(im == 0, 0.0, mx.imaginary(vectors))))


def finite(a: XlaOp) -> XlaOp:
    """Whether all elements of each matrix are finite, as [batch, 1, 1]."""
    wrong = mx.where(
        (mx.real(a) - mx.real(a) == 0) & (mx.imaginary(a) - mx.imaginary(a) == 0), np.int32(0), np.int32(1)
    )
    return mx.largest_of_matrix(wrong) == 0
