"""One-sided Jacobi method: pairs of rows are rotated until all rows are orthogonal to one another. In every
round each row is in one pair, and all pairs are rotated at once. A sweep is a sequence of rounds in which
each row is paired with every other one.

It computes singular values, and the eigenvalues of Hermitian matrices.
"""

from __future__ import annotations

import numpy as np

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.passes import matrix as mx
from axla.passes.linalg.reflectors import q_of, qr

SWEEPS = 40
"""The most sweeps; about 8 are enough for any matrix that we know."""


def orthogonal_rows(x: XlaOp, width: int) -> tuple[XlaOp, XlaOp]:
    """Rotates rows so that their first `width` elements are orthogonal. Returns the rows, and whether that
    was reached [batch, 1, 1].
    """
    batch, count, _ = x.dims
    limit = mx.epsilon(x.dtype) * max(4.0, 2 * width**0.5)
    half = (count + 1) // 2
    x = mx.padded(x, 2 * half, x.dims[2])

    # Rows that are as small as the rounding errors of the others would never become orthogonal to them.
    nothing = 4 * mx.epsilon(x.dtype) * ops.Sqrt(mx.total(mx.total(mx.squared(x[:, :, :width]), 2), 1))

    def rotate(_: XlaOp, nothing: XlaOp, worst: XlaOp, top: XlaOp, bottom: XlaOp) -> list[XlaOp]:
        p, q = top[:, :, :width], bottom[:, :, :width]
        a, b, inner = mx.total(mx.squared(p), 2), mx.total(mx.squared(q), 2), mx.total(mx.conjugate(p) * q, 2)
        size = ops.Abs(inner)
        known = mx.where(size == 0, 1.0, size)
        norms = [ops.Sqrt(a), ops.Sqrt(b)]
        none = (size == 0) | (ops.Min(*norms) <= nothing)
        cosine = mx.where(none, 0.0, size / mx.where(none, 1.0, norms[0] * norms[1]))
        zeta = (b - a) / (2 * known)
        tangent = mx.where(zeta < 0, -1.0, mx.number(zeta, 1.0)) / (ops.Abs(zeta) + ops.Sqrt(1 + zeta * zeta))
        tangent = mx.where(cosine > limit, tangent, 0.0)
        c = ops.Rsqrt(1 + tangent * tangent)
        s = mx.like(c * tangent, x)
        c = mx.like(c, x)
        rotated = bottom * mx.where(size == 0, 1.0, mx.over(mx.conjugate(inner), known))
        top, bottom = top * c - rotated * s, top * s + rotated * c
        # The first row stays, all others move on by one position.
        above = mx.joined([top[:, :1], bottom[:, :1], top[:, 1 : half - 1]], 1) if half > 1 else top
        below = mx.joined([bottom[:, 1:], top[:, half - 1 :]], 1) if half > 1 else bottom
        return [nothing, ops.Max(worst, mx.largest(cosine, 1)), above, below]

    def sweep(done: XlaOp, nothing: XlaOp, worst: XlaOp, top: XlaOp, bottom: XlaOp) -> list[XlaOp]:
        return [done + 1, *mx.repeat(2 * half - 1, [nothing, ops.ZerosLike(worst), top, bottom], rotate)]

    def keep(done: XlaOp, _: XlaOp, worst: XlaOp, *__: XlaOp) -> XlaOp:
        # False for NaN, so the loop ends
        left = mx.largest(mx.where(worst > limit, np.int32(1), np.int32(0)), 0)
        return (done < SWEEPS) & (ops.Reshape(left, ()) > 0)

    worst = ops.Broadcast(mx.number(mx.real(x), np.inf), (batch, 1, 1))
    start = [x.builder.constant(np.int32(0)), nothing, worst, x[:, :half], x[:, half:]]
    _, _, worst, top, bottom = mx.loop(start, keep, sweep)
    return mx.joined([top, bottom], 1)[:, :count], worst <= limit


def _info(converged: XlaOp) -> XlaOp:
    return mx.where(converged, np.int32(0), np.int32(1))


def singular_values(a: XlaOp, vectors: bool, full: bool) -> tuple[XlaOp, XlaOp | None, XlaOp | None, XlaOp]:
    """Singular value decomposition a = u s v^H of each matrix. Returns s [batch, 1, count], descending; u and
    v^H (None without `vectors`; square with `full`); and info (0 if converged).
    """
    m, n = a.dims[1:]
    if m < n:
        s, u, v, info = singular_values(mx.adjoint(a), vectors, full)
        if u is None or v is None:
            return s, None, None, info
        return s, mx.adjoint(v), mx.adjoint(u), info
    unit = mx.unit_of(a)
    x = mx.transposed(mx.over(a, unit))
    # The first m elements of row k are column k of a v; the others become column k of v.
    x, converged = orthogonal_rows(mx.joined([x, mx.identity(x, n, n)], 2) if vectors else x, m)
    s = ops.Sqrt(mx.total(mx.squared(x[:, :, :m]), 2))
    (sorted_s, sorted_x) = mx.ordered(-s, s, x)
    values = mx.transposed(sorted_s * unit)
    if not vectors:
        return values, None, None, _info(converged)
    # The columns of a v are u s: their factor R is s, up to signs. Its Q is orthogonal even if some s are 0.
    factors, taus = qr(mx.transposed(sorted_x[:, :, :m]))
    signs = mx.where(mx.real(mx.diagonal(factors)) < 0, -1.0, mx.number(mx.real(a), 1.0))
    wide = m if full else n
    signs = mx.padded(signs, wide, 1)
    signs = mx.where(mx.places(signs, 1) < n, signs, 1.0)
    u = q_of(factors, taus, wide) * mx.like(mx.transposed(signs), a)
    return values, u, mx.conjugate(sorted_x[:, :, m:]), _info(converged)


def symmetric_eigenvalues(a: XlaOp, lower: bool) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Eigenvalues and eigenvectors of Hermitian matrices, read from the lower triangle if `lower`. Returns
    ascending eigenvalues [batch, 1, size], eigenvectors as columns, and info (0 if converged).

    Adding a multiple of the identity makes a matrix positive definite and well conditioned. Its columns, made
    orthogonal by rotations from the right, are its eigenvectors times its eigenvalues.
    """
    n = a.dims[1]
    a = mx.hermitian(a, lower)
    unit = mx.unit_of(a)
    a = mx.over(a, unit)
    bound = mx.largest_of_matrix(mx.total(mx.magnitude(a), 2))
    shift = mx.where(bound == 0, 1.0, 2 * bound)
    rows, converged = orthogonal_rows(mx.transposed(a + mx.like(shift, a) * mx.identity(a, n, n)), n)
    rows = mx.over(rows, ops.Sqrt(mx.total(mx.squared(rows), 2)))
    values = mx.real(mx.total(mx.conjugate(rows) * mx.product(rows, mx.transposed(a)), 2))
    values, rows = mx.ordered(values, values, rows)
    return mx.transposed(values * unit), mx.transposed(rows), _info(converged)
