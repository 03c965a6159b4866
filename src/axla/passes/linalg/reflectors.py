"""Householder reflectors 1 - tau v v^H, stored as by LAPACK: the leading 1 of v is not stored, the rest of v
is stored in the elements that the reflector made zero, and tau is stored separately.
"""

from __future__ import annotations

import numpy as np

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.passes import matrix as mx
from axla.passes.expand.triangular import DiagonalBlock, by_substitution, panel_size


def reflector(x: XlaOp, at: XlaOp | int) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Computes a reflector for each column x. Returns v, tau and a real beta such that (1 - conj(tau) v v^H)
    x is beta in row `at` and zero below. Rows above `at` are ignored. tau is 0 if x already has this form.
    """
    rows = mx.places(x, 1)
    x = mx.where(rows >= at, x, 0.0)
    unit = mx.unit_of(x)
    x = mx.over(x, unit)
    alpha, tail = mx.total(mx.where(rows == at, x, 0.0), 1), mx.where(rows > at, x, 0.0)
    nothing = (mx.largest(mx.magnitude(tail), 1) == 0) & (mx.imaginary(alpha) == 0)
    norm = ops.Sqrt(mx.total(mx.squared(x), 1))
    beta = mx.where(nothing, mx.real(alpha), mx.where(mx.real(alpha) < 0, norm, -norm))
    tau = mx.where(nothing, 0.0, mx.over(mx.like(beta, x) - alpha, mx.where(nothing, 1.0, beta)))
    v = mx.where(rows == at, 1.0, tail / mx.where(nothing, 1.0, alpha - mx.like(beta, x)))
    beta = mx.like(beta * unit, x)
    return v, tau, beta


def reflected(a: XlaOp, v: XlaOp, tau: XlaOp) -> XlaOp:
    """The reflector applied from the left: (1 - tau v v^H) a."""
    return a - (tau * v) * mx.product(mx.adjoint(v), a)


def reflected_from_right(a: XlaOp, v: XlaOp, tau: XlaOp) -> XlaOp:
    """The reflector applied from the right: a (1 - tau v v^H)."""
    return a - mx.product(a, v) * (tau * mx.adjoint(v))


def _eliminated(a: XlaOp, j: XlaOp, at: XlaOp, v: XlaOp, tau: XlaOp, beta: XlaOp) -> XlaOp:
    """Applies a reflector to the columns after j, and stores it in column j: `beta` in row `at`, v below."""
    rows, columns = mx.places(a, 1), mx.places(a, 2)
    kept = mx.where(rows < at, mx.column(a, j), mx.where(rows == at, beta, v))
    return mx.where(columns > j, reflected(a, v, mx.conjugate(tau)), mx.where(columns == j, kept, a))


def qr(a: XlaOp) -> tuple[XlaOp, XlaOp]:
    """LAPACK's geqrf: returns R with the reflectors stored below it, and the factors tau [batch, 1,
    count].
    """
    return _qr(a, panel_size(min(a.dims[1:])))


def _qr(a: XlaOp, block: int) -> tuple[XlaOp, XlaOp]:
    """QR by panels of `block` columns."""
    _, m, n = a.dims
    width = min(m, n, block)
    panel, taus = _panel(a[:, :, :width])
    if width == n:
        return panel, taus
    right = _blocked(panel, taus, a[:, :, width:], adjoint_of_q=True)
    if width < m:
        last, more = _qr(right[:, width:], block)
        right, taus = mx.joined([right[:, :width], last], 1), mx.joined([taus, more], 2)
    return mx.joined([panel, right], 2), taus


def _panel(a: XlaOp) -> tuple[XlaOp, XlaOp]:
    """Factors a matrix column by column. Inside the loop it is stored transposed, so that a column is
    contiguous.
    """
    batch, m, n = a.dims
    high = -(-m // 64) * 64 if m > 64 else m  # rounded up, so that few sizes and few kernels occur

    def step(j: XlaOp, p: XlaOp, taus: XlaOp) -> list[XlaOp]:
        line = mx.row(p, j)
        column, tau, beta = reflector(mx.transposed(line), j)
        v = mx.transposed(column)
        inner = mx.product(p, mx.conjugate(column)) * mx.conjugate(tau)
        rows = mx.places(p, 2)
        kept = mx.where(rows < j, line, mx.where(rows == j, beta, v))
        p = mx.where(mx.indices(p, 1) > j, p - inner * v, p)
        return [mx.with_part(p, kept, j, 0), mx.where(mx.places(taus, 2) == j, tau, taus)]

    start = [mx.transposed(mx.padded(a, high, n)), mx.zeros(a.builder, a.dtype, (batch, 1, n))]
    p, taus = mx.repeat(n, start, step)
    return mx.transposed(p)[:, :m], taus


def _blocked(panel: XlaOp, taus: XlaOp, c: XlaOp, *, adjoint_of_q: bool) -> XlaOp:
    """Q c, or Q^H c if `adjoint_of_q`, for the reflectors of a panel: Q = 1 - v t v^H with t^H = (1 + d s)^-1
    d. Here d is the diagonal matrix of conj(taus), and s the part of v^H v below its diagonal.
    """
    batch, _, n = panel.dims
    rows, columns = mx.places(panel, 1), mx.places(panel, 2)
    v = mx.where(rows == columns, 1.0, mx.where(rows > columns, panel, 0.0))
    vh = mx.adjoint(v)
    inner = mx.adjoint(taus) * mx.product(vh, v)
    diagonal = mx.adjoint(taus) * mx.identity(c, n, n)
    t = by_substitution(DiagonalBlock(inner, unit=True), diagonal)
    return c - mx.product(v, mx.product(t if adjoint_of_q else mx.adjoint(t), mx.product(vh, c)))


def pivoted_qr(a: XlaOp, pivots: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """LAPACK's geqp3: QR with column pivoting. Columns whose entry in `pivots` [batch, 1, columns] is not
    zero come first; after them, each step takes the largest remaining column. Returns R with the reflectors,
    the column order (from 1), and the factors tau.
    """
    batch, count = a.dims[0], min(a.dims[1:])
    fixed = mx.where(pivots == 0, np.int32(0), np.int32(1))
    unit = mx.unit_of(a)

    def step(j: XlaOp, a: XlaOp, taus: XlaOp, pivots: XlaOp, fixed: XlaOp, unit: XlaOp) -> list[XlaOp]:
        columns, rows = mx.places(a, 2), mx.places(a, 1)
        norms = mx.total(mx.squared(mx.over(mx.where(rows >= j, a, 0.0), unit)), 1)
        key = mx.where(columns < j, -1.0, mx.where(fixed != 0, np.inf, norms))
        best = mx.first(key == mx.largest(key, 2), 2)
        best = mx.where(best == a.dims[2], j, best)  # if all comparisons fail because of NaN
        a, pivots, fixed = (mx.swapped(x, 2, j, best)[0] for x in (a, pivots, fixed))
        v, tau, beta = reflector(mx.column(a, j), j)
        taus = mx.where(mx.places(taus, 2) == j, tau, taus)
        return [_eliminated(a, j, j, v, tau, beta), taus, pivots, fixed, unit]

    order = mx.broadcast(mx.places(pivots, 2) + 1, pivots.dims)
    taus = mx.zeros(a.builder, a.dtype, (batch, 1, count))
    a, taus, order, *_ = mx.repeat(count, [a, taus, order, fixed, unit], step)
    return a, order, taus


def _panels(taus: XlaOp) -> list[tuple[int, int]]:
    """For each panel, the numbers of its first reflector and of the one after its last."""
    count = taus.dims[2]
    block = panel_size(count)
    return [(k, min(k + block, count)) for k in range(0, count, block)]


def times_q(a: XlaOp, taus: XlaOp, c: XlaOp, *, adjoint_of_q: bool = False) -> XlaOp:
    """Q c, or Q^H c if `adjoint_of_q`, where Q is the product of the reflectors stored in `a`."""
    panels = _panels(taus)
    for first, end in panels if adjoint_of_q else reversed(panels):
        part = a[:, first:, first:end], taus[:, :, first:end]
        found = _blocked(*part, c[:, first:], adjoint_of_q=adjoint_of_q)
        c = mx.joined([c[:, :first], found], 1) if first else found
    return c


def q_of(a: XlaOp, taus: XlaOp, columns: int, below: int = 0) -> XlaOp:
    """The first `columns` columns of Q, the product of the reflectors stored in `a`. The vectors of the
    reflectors begin `below` rows under the diagonal.
    """
    if not taus.dims[2]:
        return mx.identity(a, a.dims[1], columns)
    _, m, n = a.dims
    if below:
        inner = q_of(a[:, below:, : n - below], taus, columns - below)
        return _bordered(inner, below)
    c = None
    for first, end in reversed(_panels(taus)):
        # The reflectors of this and later panels change no rows and columns before it, so c begins there.
        c = mx.identity(a, m - first, columns - first) if c is None else _bordered(c, end - first)
        c = _blocked(a[:, first:, first:end], taus[:, :, first:end], c, adjoint_of_q=False)
    assert c is not None
    return c


def _bordered(c: XlaOp, count: int) -> XlaOp:
    """The matrix c with an identity of `count` rows and columns added above and to the left of it."""
    wide = ops.Pad(c, mx.number(c, 0), [(0, 0, 0), (count, 0, 0), (count, 0, 0)])
    rows, columns = mx.places(wide, 1), mx.places(wide, 2)
    return mx.where((rows == columns) & (rows < count), 1.0, wide)


def hessenberg(a: XlaOp, low: int, high: int) -> tuple[XlaOp, XlaOp]:
    """LAPACK's gehrd: returns the Hessenberg form Q^H a Q, with the reflectors stored below its first
    subdiagonal, and the factors tau. Only rows and columns from `low` (counted from 0) to `high` - 1 are
    reduced.
    """
    batch, n, _ = a.dims

    def step(k: XlaOp, a: XlaOp, taus: XlaOp) -> list[XlaOp]:
        j = k + low
        inside = mx.places(a, 1) < high
        v, tau, beta = reflector(mx.where(inside, mx.column(a, j), 0.0), j + 1)
        v = mx.where(inside, v, 0.0)
        kept = mx.column(a, j)
        a = mx.where(inside, reflected_from_right(a, v, tau), a)
        rows, columns = mx.places(a, 1), mx.places(a, 2)
        kept = mx.where(rows == j + 1, beta, mx.where((rows > j + 1) & inside, v, kept))
        a = mx.where(columns > j, reflected(a, v, mx.conjugate(tau)), mx.where(columns == j, kept, a))
        return [a, mx.where(mx.places(taus, 2) == j, tau, taus)]

    taus = mx.zeros(a.builder, a.dtype, (batch, 1, max(n - 1, 0)))
    found = mx.repeat(high - low - 1, [a, taus], step)
    return found[0], found[1]


def tridiagonal(a: XlaOp, lower: bool) -> tuple[XlaOp, XlaOp, XlaOp, XlaOp]:
    """LAPACK's sytrd and hetrd: returns the matrix with reflectors stored in the given triangle, the diagonal
    and the off-diagonal (real rows), and the factors tau. The upper triangle is handled by reversing all
    indices.
    """
    n, given, axes = a.dims[1], a, (1, 2)
    a = mx.hermitian(a, lower)
    kept, main, beside, taus = tridiagonal_form(a if lower else ops.Rev(a, axes), panel_size(n))
    rows, columns = mx.places(a, 1), mx.places(a, 2)
    kept = mx.where(rows == columns, mx.like(main, a), kept)
    kept = mx.where(rows == columns + 1, mx.like(mx.padded(beside, 1, n), a), kept)
    if not lower:
        kept = ops.Rev(kept, axes)
        main, beside, taus = (ops.Rev(x, (2,)) for x in (main, beside, taus))
    kept = mx.where(rows >= columns if lower else rows <= columns, kept, given)
    return kept, main, beside, taus


def tridiagonal_form(a: XlaOp, block: int) -> tuple[XlaOp, XlaOp, XlaOp, XlaOp]:
    """Reduces Hermitian matrices to tridiagonal form by panels of `block` columns. Returns the reflectors,
    the diagonal, the off-diagonal and the factors tau. The update v w^H + w v^H of the remaining matrix by a
    panel is subtracted once, after the panel; a column of the panel is updated when it is reached.
    """
    batch, n, _ = a.dims
    width = min(block, n - 1)
    if not width:
        none = mx.zeros(a.builder, a.dtype, (batch, 1, 0))
        return a, mx.real(a), mx.real(none), none

    def other(x: XlaOp) -> XlaOp:
        return mx.joined([x[:, width:], x[:, :width]], 1)

    def step(j: XlaOp, a: XlaOp, both: XlaOp, main: XlaOp, beside: XlaOp, taus: XlaOp) -> list[XlaOp]:
        line = mx.conjugate(mx.row(a, j)) - mx.product(mx.adjoint(other(mx.column(both, j))), both)
        column, tau, beta = reflector(mx.transposed(line), j + 1)
        v = mx.transposed(column)
        inner = mx.adjoint(mx.product(both, mx.conjugate(column)))
        p = mx.conjugate(mx.product(mx.conjugate(v), a))
        p = tau * (p - mx.product(mx.transposed(other(mx.transposed(inner))), both))
        w = p - 0.5 * tau * mx.total(mx.conjugate(p) * v, 2) * v
        both = mx.with_part(mx.with_part(both, v, j, 0), w, j + width, 0)
        here = mx.places(main, 2) == j
        values = mx.real(mx.column(line, j)), mx.real(beta), tau
        kept = zip(values, (main, beside, taus), strict=True)
        return [a, both, *(mx.where(here, new, x) for new, x in kept)]

    numbers = mx.zeros(a.builder, a.dtype, (batch, 1, width))
    start = [
        a,
        mx.zeros(a.builder, a.dtype, (batch, 2 * width, n)),
        mx.real(numbers),
        mx.real(numbers),
        numbers,
    ]
    _, both, *found = mx.repeat(width, start, step)
    rest = a[:, width:, width:] - mx.product(
        mx.transposed(both)[:, width:], mx.conjugate(other(both))[:, :, width:]
    )
    below, *more = tridiagonal_form(rest, block)
    kept = mx.joined(
        [mx.transposed(both[:, :width]), ops.PadInDim(below, mx.number(below, 0), 1, width, 0)], 2
    )
    main, beside, taus = (mx.joined([x, y], 2) for x, y in zip(found, more, strict=True))
    return kept, main, beside, taus
