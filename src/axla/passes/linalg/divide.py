"""Eigenvalues and eigenvectors of symmetric tridiagonal matrices by divide and conquer (Cuppen).

A matrix is divided into diagonal blocks. The coupling of two neighbouring blocks is subtracted first, as a
matrix of rank one. When both blocks are solved, with eigenvalues d, the two together are diag(d) + rho z z^T
in the basis of their eigenvectors. The eigenvalues of that are the roots of

    f(x) = 1 + rho sum_j z_j^2 / (d_j - x)

There is one between every two d. Each root is stored as its distance from the nearer of the two, so that d_j
- x is exact to the last digits. Then z is computed again from the roots such that they are exact for it (Gu
and Eisenstat), which makes the eigenvectors orthogonal. All blocks of a level are merged at once, and all
roots are searched at once.

If z_j is negligible, d_j is a root (deflation). If several d are equal, a reflection makes z_j zero for all
but one.
"""

from __future__ import annotations

import numpy as np

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.passes import matrix as mx
from axla.passes.expand.triangular import panel_size
from axla.passes.linalg import jacobi
from axla.passes.linalg.reflectors import q_of, qr, times_q, tridiagonal_form

LEAF = 24
"""The most rows of a block that is solved by Jacobi rotations."""

STEPS = 60
"""The most steps of the search for a root; about 6 are enough."""


def hermitian_eigenvalues(a: XlaOp, lower: bool, vectors: bool) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Eigenvalues and eigenvectors of Hermitian matrices, read from the lower triangle if `lower`. Returns
    ascending eigenvalues [batch, 1, size], eigenvectors as columns, and info [batch, 1, 1] (0 if converged).
    """
    n = a.dims[1]
    kept, main, beside, taus = tridiagonal_form(mx.hermitian(a, lower), panel_size(n))
    values, rows, fine = tridiagonal_eigenvalues(main, beside)
    z = mx.like(mx.transposed(rows), a)
    if vectors and n > 1:
        z = mx.joined([z[:, :1], times_q(kept[:, 1:, : n - 1], taus, z[:, 1:])], 1)
    return mx.transposed(values), z, mx.where(fine, np.int32(0), np.int32(1))


def singular_values(a: XlaOp, vectors: bool, full: bool) -> tuple[XlaOp, XlaOp | None, XlaOp | None, XlaOp]:
    """Singular values and vectors like `jacobi.singular_values`, for larger matrices.

    s and -s are the eigenvalues of [0 r^H; r 0], where r is the matrix or its factor R. The upper halves of
    the eigenvectors are the columns of v, with a rounding error that is large for small s: QR makes v
    unitary. u is computed from a v.
    """
    m, n = a.dims[1:]
    if m < n:
        s, u, v, info = singular_values(mx.adjoint(a), vectors, full)
        return s, v if v is None else mx.adjoint(v), u if u is None else mx.adjoint(u), info
    if n <= LEAF:
        return jacobi.singular_values(a, vectors, full)
    unit = mx.unit_of(a)
    a = mx.over(a, unit)
    r = a if m == n else qr(a)[0][:, :n]
    r = mx.where(mx.places(r, 1) <= mx.places(r, 2), r, 0.0) if m > n else r
    below = ops.PadInDim(mx.padded(r, n, 2 * n), mx.number(r, 0), 1, n, 0)
    values, both, info = hermitian_eigenvalues(below, True, vectors)
    s = ops.Max(ops.Rev(values, (2,))[:, :, :n], mx.number(values, 0)) * unit
    if not vectors:
        return s, None, None, info
    v = _unitary(ops.Rev(both, (2,))[:, :n, :n], n)
    u = _unitary(mx.product(a, v), m if full else n)
    return s, u, mx.adjoint(v), info


def _unitary(a: XlaOp, columns: int) -> XlaOp:
    """The first columns of the factor Q of `a`, with signs such that the diagonal of R is not negative."""
    factors, taus = qr(a)
    signs = mx.where(mx.real(mx.diagonal(factors)) < 0, -1.0, mx.number(mx.real(a), 1.0))
    signs = mx.padded(signs, columns, 1)
    signs = mx.where(mx.places(signs, 1) < a.dims[2], signs, 1.0)
    return q_of(factors, taus, columns) * mx.like(mx.transposed(signs), a)


def tridiagonal_eigenvalues(main: XlaOp, beside: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Eigenvalues and eigenvectors of real tridiagonal matrices, given by their diagonals [batch, 1, size]
    and off-diagonals [batch, 1, size - 1]. Returns ascending eigenvalues [batch, size, 1], eigenvectors as
    rows, and whether they were found [batch, 1, 1].
    """
    batch, _, n = main.dims
    unit = mx.unit_of(mx.joined([main, beside], 2))
    main, beside = main / unit, beside / unit
    count = 1
    while -(-n // count) > LEAF:
        count *= 2
    size = -(-n // count)
    wide = size * count
    # Added rows have an eigenvalue above all others, and are not coupled to other rows.
    main = ops.Pad(main, mx.number(main, 4), [(0, 0, 0), (0, 0, 0), (0, wide - n, 0)])
    beside = mx.padded(beside, 1, wide)
    cuts = mx.places(main, 2) % size == size - 1
    coupling = mx.where(cuts, beside, 0.0)
    lost = ops.Abs(coupling)
    before = ops.PadInDim(lost, mx.number(lost, 0), 2, 1, 0)[:, :, :wide]
    main = main - lost - before
    inside = ops.Reshape(beside - coupling, (batch * count, 1, size))
    rows = ops.Reshape(main, (batch * count, 1, size))
    eye = mx.identity(rows, size, size)
    below = mx.where(mx.places(eye, 1) == mx.places(eye, 2) + 1, inside, 0.0)
    leaf, vectors, info = jacobi.symmetric_eigenvalues(mx.where(eye == 1, rows, below), True)
    values, vectors = mx.transposed(leaf), mx.transposed(vectors)
    fine = mx.every(ops.Reshape(info == 0, (batch, count, 1)), 1)
    links = ops.Reshape(coupling, (batch, count, size))[:, :, size - 1 :]
    while count > 1:
        count, size = count // 2, size * 2
        link = ops.Reshape(ops.Reshape(links, (batch, count, 2))[:, :, :1], (batch * count, 1, 1))
        links = ops.Reshape(ops.Reshape(links, (batch, count, 2))[:, :, 1:], (batch, count, 1))
        values, vectors = _merged(values, vectors, link)
    order = _rank(values, mx.transposed(values))
    values, vectors = (mx.taken(x, _inverse(order)) for x in (values, vectors))
    fine = fine & mx.every(values == values, 1)
    return values[:, :n] * unit, vectors[:, :n, :n], fine


def _merged(values: XlaOp, vectors: XlaOp, link: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Merges every two neighbouring blocks. `values` are the eigenvalues [blocks, size, 1], `vectors` the
    eigenvectors as rows, `link` the coupling of the two blocks [blocks / 2, 1, 1]. Returns eigenvalues and
    eigenvectors of the merged blocks.
    """
    parts, half, _ = vectors.dims
    count, size = parts // 2, 2 * half
    d = ops.Reshape(values, (count, 1, size))
    pairs = ops.Reshape(vectors, (count, 2, half, half))
    first, second = pairs[:, :1, :, half - 1 :], pairs[:, 1:, :, :1]
    sign = mx.where(link < 0, -1.0, mx.number(link, 1.0))
    z = mx.joined([ops.Reshape(x, (count, 1, half)) for x in (first, second)], 2)
    z = mx.where(mx.places(z, 2) < half, z, z * sign) * 0.5**0.5
    found, rotated = _rank_one(d, z, 2 * ops.Abs(link))
    both = ops.Transpose(ops.Reshape(rotated, (count, size, 2, half)), (0, 2, 1, 3))
    product = ops.DotGeneral(both, pairs, (([3], [2]), ([0, 1], [0, 1])))
    return found, ops.Reshape(ops.Transpose(product, (0, 2, 1, 3)), (count, size, size))


def _rank_one(d: XlaOp, z: XlaOp, rho: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Eigenvalues (a column) and eigenvectors (rows) of diag(d) + rho z z^T. d and z are rows, |z| = 1."""
    tolerance = 8 * mx.epsilon(d.dtype) * mx.largest(ops.Max(ops.Abs(d), mx.broadcast(rho, d.dims)), 2)
    z = mx.where(rho * ops.Abs(z) <= tolerance, 0.0, z)
    rank, poles, gaps = _sorted(d, z)
    near = gaps <= tolerance
    again = ops.Reshape(mx.largest_of_matrix(mx.largest(mx.where(near, np.int32(1), np.int32(0)), 0)), ())
    nothing = [ops.ZerosLike(z), ops.ZerosLike(rank)]

    def reflected(go: XlaOp, d: XlaOp, z: XlaOp, rank: XlaOp, near: XlaOp, *_: XlaOp) -> list[XlaOp]:
        z, v, cluster = _reflected(z, rank, near)
        rank, poles = _sorted(d, z)[:2]
        return [ops.ZerosLike(go), d, z, rank, near, poles, v, cluster]

    start = [again, d, z, rank, near, poles, *nothing]
    _, _, z, rank, _, poles, v, cluster = mx.loop(start, lambda go, *_: go > 0, reflected)
    base, offset, values = _roots(d, z, rho, rank, poles)
    vectors = _vectors(d, z, rank, poles, base, offset)

    def rotated(go: XlaOp, v: XlaOp, cluster: XlaOp, vectors: XlaOp) -> list[XlaOp]:
        same = mx.where(mx.transposed(cluster) == cluster, mx.transposed(v) * v, 0.0)
        return [ops.ZerosLike(go), v, cluster, vectors - mx.product(vectors, same)]

    vectors = mx.loop([again, v, cluster, vectors], lambda go, *_: go > 0, rotated)[3]
    return values, vectors


def _rank(keys: XlaOp, other: XlaOp) -> XlaOp:
    """The rank of each key in ascending order. One argument is a column of keys, the other the same keys as a
    row.
    """
    before = (other < keys) | ((other == keys) & (mx.places(other, 2) < mx.places(keys, 1)))
    return mx.total(mx.where(before, np.int32(1), np.int32(0)), 2)


def _inverse(rank: XlaOp) -> XlaOp:
    """The inverse of a permutation. The argument is a column, the result a row."""
    here = rank == mx.transposed(mx.places(rank, 1))
    return mx.total(mx.where(here, mx.places(rank, 1), np.int32(0)), 1)


def _sorted(d: XlaOp, z: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Sorts d ascending, with the d whose z is 0 last. Returns the ranks (a row), the sorted d (a column),
    and the distance of each d to the next (a column). A distance is infinite if z is 0 for one of the two.
    """
    keys = mx.where(z == 0, np.inf, d)
    rank = mx.transposed(_rank(mx.transposed(keys), keys))
    here = mx.places(d, 2) == mx.transposed(rank)
    poles = mx.transposed(mx.total(mx.where(here, mx.transposed(d), 0.0), 1))
    keys = mx.transposed(mx.total(mx.where(here, mx.transposed(keys), 0.0), 1))
    size = d.dims[2]
    following = ops.Pad(keys[:, 1:], mx.number(d, np.inf), [(0, 0, 0), (0, 1, 0), (0, 0, 0)])
    gaps = mx.where(following == np.inf, np.inf, following - keys)
    return rank, poles, gaps if size > 1 else following


def _reflected(z: XlaOp, rank: XlaOp, near: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Deflation of equal d by reflections 1 - v v^T, which leave one nonzero element of z in each cluster of
    equal d. `rank` (a row) has the position of each d in sorted order; `near` (a column) says for each
    position whether its d equals the next one. Returns the new z, the vectors v, and the number of each
    element's cluster; all are rows.
    """
    size = z.dims[2]
    cut = mx.where(near, np.int32(0), np.int32(1))
    cluster = mx.total(mx.where(mx.places(near, 1) < rank, cut, np.int32(0)), 1)
    last = mx.total(mx.where(mx.places(near, 1) == rank, cut, np.int32(0)), 1) == 1
    cluster = mx.where(z == 0, np.int32(size) + mx.places(z, 2), cluster)
    same = mx.transposed(cluster) == cluster
    norm = ops.Sqrt(mx.total(mx.where(same, mx.transposed(z * z), 0.0), 1))
    members = mx.total(mx.where(same, np.int32(1), np.int32(0)), 1)
    end = mx.total(mx.where(same, mx.transposed(mx.where(last, z, 0.0)), 0.0), 1)
    alone = members == 1
    sign = mx.where(end < 0, -1.0, mx.number(z, 1.0))
    v = mx.where(last, z + sign * norm, z) / mx.where(alone, 1.0, ops.Sqrt(norm * (norm + ops.Abs(end))))
    v = mx.where(alone, 0.0, v)
    return mx.where(alone, z, mx.where(last, -sign * norm, 0.0)), v, cluster


def _roots(d: XlaOp, z: XlaOp, rho: XlaOp, rank: XlaOp, poles: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """The roots of f in ascending order, as three columns: the nearest d, the distance from that d, and the
    sum of both. `rank` has the position of each d in ascending order; `poles` has the sorted d.
    """
    eps, weights = mx.epsilon(d.dtype), rho * z * z
    count = mx.total(mx.where(z == 0, np.int32(0), np.int32(1)), 2)
    place = mx.places(poles, 1)
    ends = mx.where(
        place == count - 1, poles + mx.total(weights, 2), mx.joined([poles[:, 1:], poles[:, :1]], 1)
    )
    gap = mx.where(place < count, ends - poles, 1.0)
    left = rank <= place

    def f(base: XlaOp, at: XlaOp, weights: XlaOp, d: XlaOp, left: XlaOp) -> list[XlaOp]:
        """The terms of f at x = base + at, without the 1. Returns the sum of the terms with a d below the
        root (`left` selects them), the sum of the other terms, and the derivatives of the two sums. `weights`
        are rho z^2.
        """
        over = 1.0 / mx.where(weights == 0, 1.0, (d - base) - at)
        part = weights * over
        slope = part * over
        return [mx.total(mx.where(side, x, 0.0), 2) for x in (part, slope) for side in (left, ~left)]

    psi, phi, *_ = f(poles, 0.5 * gap, weights, d, left)
    near = (1.0 + psi + phi >= 0) | (place >= count)
    base = mx.where(near, poles, ends)
    low, high = mx.where(near, 0.0, -0.5 * gap), mx.where(near, 0.5 * gap, 0.0)
    at = 0.5 * (low + high)

    def keep(step: XlaOp, going: XlaOp, *_: XlaOp) -> XlaOp:
        left_ = mx.largest_of_matrix(mx.largest(mx.where(going, np.int32(1), np.int32(0)), 0))
        return (step < STEPS) & (ops.Reshape(left_, ()) > 0)

    def search(
        step: XlaOp, going: XlaOp, at: XlaOp, low: XlaOp, high: XlaOp, base: XlaOp, poles: XlaOp, ends: XlaOp,
        weights: XlaOp, d: XlaOp, rank: XlaOp,
    ) -> list[XlaOp]:  # fmt: skip
        psi, phi, psi_slope, phi_slope = f(base, at, weights, d, rank <= mx.places(poles, 1))
        value = 1.0 + psi + phi
        low, high = mx.where(value < 0, at, low), mx.where(value < 0, high, at)
        # The root of c + s / (pole - x) + t / (end - x), a function with the same sums and derivatives at x.
        one, two = (poles - base) - at, (ends - base) - at
        c = value - one * psi_slope - two * phi_slope
        a = (one + two) * value - one * two * (psi_slope + phi_slope)
        b = one * two * value
        root = ops.Sqrt(ops.Max(a * a - 4 * b * c, ops.ZerosLike(a)))
        new = at + mx.where(a <= 0, (a - root) / (2 * c), 2 * b / (a + root))
        new = mx.where((new > low) & (new < high), new, 0.5 * (low + high))
        small = ops.Abs(value) <= 2 * eps * (1.0 + ops.Abs(psi) + ops.Abs(phi))
        more = going & ~small & (ops.Abs(new - at) > eps * ops.Abs(at))
        return [
            step + 1, more, mx.where(going & ~small, new, at), low, high, base, poles, ends, weights, d, rank
        ]  # fmt: skip

    start = [d.builder.constant(np.int32(0)), place < count, at, low, high]
    at = mx.loop([*start, base, poles, ends, weights, d, rank], keep, search)[2]
    at = mx.where(place < count, at, 0.0)
    return base, at, base + at


def _vectors(d: XlaOp, z: XlaOp, rank: XlaOp, poles: XlaOp, base: XlaOp, offset: XlaOp) -> XlaOp:
    """The eigenvectors of D + rho z z^T as rows, in the order of the eigenvalues `base` + `offset` that
    `_roots` found. `rank` has the position of each d in ascending order; `poles` has the sorted d.
    """
    count = mx.total(mx.where(z == 0, np.int32(0), np.int32(1)), 2)
    place = mx.places(poles, 1)
    here, used = place == rank, (place < count) & (z != 0)
    distance = (d - base) - offset
    # The product over all roots of (d - root), divided by the product over all other d of (d - other).
    factors = distance / mx.where(here | ~used, -1.0, d - poles)
    size = mx.product_of(mx.where(used, factors, 1.0), 1)
    z = mx.where(z < 0, -1.0, mx.number(z, 1.0)) * ops.Sqrt(ops.Abs(size))
    rows = mx.where(used, z / mx.where(used, distance, 1.0), 0.0)
    rows = mx.where(place < count, rows, mx.where(here, 1.0, mx.number(d, 0.0)))
    return rows / ops.Sqrt(mx.total(rows * rows, 2))
