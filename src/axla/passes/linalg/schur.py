"""Schur form by Francis's double shifts: a bulge of three rows is chased down the Hessenberg matrix.

Matrices are handled one at a time, since the number of steps depends on their elements. Real matrices keep 2
x 2 blocks for pairs of conjugate eigenvalues, in LAPACK's form: equal diagonal elements, off-diagonal
elements of opposite sign.
"""

from __future__ import annotations

import numpy as np

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import S32
from axla.passes import matrix as mx
from axla.passes.linalg.reflectors import hessenberg, q_of, reflected, reflected_from_right, reflector

ROUNDS = 30
"""The most sweeps per eigenvalue; two or three are usual."""

UNUSUAL = 10
"""The number of sweeps without a new eigenvalue after which exceptional shifts are used."""


def schur(a: XlaOp, vectors: bool) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Returns T and Z with a = Z T Z^H (Z has no rows unless `vectors`), and info [batch, 1, 1]."""
    batch, n, _ = a.dims
    unit = mx.unit_of(a)
    form, taus = hessenberg(mx.over(a, unit), 0, n)
    # Two more rows and columns, so that three rows can be read from any row on. Z is stored below T, as it
    # takes the rotations of T's columns.
    wide = n + 2
    both = mx.padded(mx.where(mx.places(form, 1) > mx.places(form, 2) + 1, 0.0, form), wide, wide)
    if vectors:
        z = q_of(form, taus, n, below=1)
        both = mx.joined([both, mx.padded(z, n, wide)], 1)

    def one(k: XlaOp, whole: XlaOp, infos: XlaOp) -> list[XlaOp]:
        found, info = _one(ops.DynamicSliceInDim(whole, k, 1, 0), n)
        return [ops.DynamicUpdateSlice(x, new, (k, 0, 0)) for x, new in ((whole, found), (infos, info))]

    both, info = mx.repeat(batch, [both, mx.zeros(a.builder, S32, (batch, 1, 1))], one)
    return both[:, :n, :n] * mx.like(unit, a), both[:, wide:, :n], info


def _one(both: XlaOp, n: int) -> tuple[XlaOp, XlaOp]:
    """Computes the Schur form of one Hessenberg matrix, the first n rows and columns of `both`; Z is stored
    below. Returns `both` with the Schur form instead of the matrix, and info.
    """
    wide, eps = both.dims[2], mx.epsilon(both.dtype)
    norm = mx.largest_of_matrix(mx.magnitude(both[:, :wide]))

    def keep(high: XlaOp, _: XlaOp, rounds: XlaOp, *__: XlaOp) -> XlaOp:
        return (high > 0) & (rounds < ROUNDS * max(n, 10))

    def step(high: XlaOp, since: XlaOp, rounds: XlaOp, norm: XlaOp, both: XlaOp) -> list[XlaOp]:
        size, beside = mx.magnitude(mx.diagonal(both)), mx.magnitude(mx.diagonal(both[:, :wide], 1))
        around = size[:, 1:wide] + size[:, : wide - 1]
        index = mx.places(beside, 1)
        cut = (beside <= eps * mx.where(around == 0, norm, around)) & (index < high)
        low = _scalar(mx.largest(mx.where(cut, index + 1, np.int32(0)), 1))
        # Negligible elements, and rounding errors below the subdiagonal, become zero.
        rows, columns = mx.places(both, 1), mx.places(both, 2)
        off = (rows > columns + 1) | ((rows == columns + 1) & (rows == low) & (low > 0))
        both = mx.where((rows < wide) & off, 0.0, both)
        done = high - low <= 1
        chase = [low, ops.Select(done, low, high), both, _first_column(both, low, high, since)]
        both = mx.loop(chase, lambda k, last, *_: k < last, _chase)[2]
        both = standardized(both, high, _each(both, done & (high > low)))
        return [
            ops.Select(done, low - 1, high), ops.Select(done, 0, since + 1), rounds + 1, norm, both
        ]  # fmt: skip

    counters = [both.builder.constant(np.int32(k)) for k in (n - 1, 0, 0)]
    high, _, _, _, both = mx.loop([*counters, norm, both], keep, step)
    return both, ops.Reshape(ops.Select(high > 0, high + 1, 0), (1, 1, 1))


def _scalar(x: XlaOp) -> XlaOp:
    return ops.Reshape(x, ())


def _each(x: XlaOp, flag: XlaOp) -> XlaOp:
    return ops.Broadcast(flag, (x.dims[0], 1, 1))


def _first_column(both: XlaOp, low: XlaOp, high: XlaOp, since: XlaOp) -> XlaOp:
    """The column that begins a step of the QR algorithm on rows and columns `low` to `high` of H: a multiple
    of the first column of (H - s)(H - t), whose only nonzero elements are in the three rows from `low` on.

    s and t are the eigenvalues of the last 2 x 2 block; every UNUSUAL-th step takes other shifts. `since` is
    the number of steps since the last eigenvalue was found.
    """
    top, end = mx.part(both, low, low, 3, 3), mx.part(both, high - 1, high - 1, 2, 2)
    x, y, w = end[:, 1:, 1:], end[:, :1, :1], end[:, 1:, :1] * end[:, :1, 1:]
    size = mx.like(mx.magnitude(end[:, 1:, :1]) + mx.magnitude(mx.part(both, high - 1, high - 2, 1, 1)), both)
    unusual = _each(both, since % UNUSUAL == UNUSUAL - 1)
    y, w = mx.where(unusual, x + 0.75 * size, y), mx.where(unusual, -0.4375 * size * size, w)
    x = mx.where(unusual, x + 0.75 * size, x)
    here, below = top[:, :1, :1], top[:, 1:2, :1]
    r, s = x - here, y - here
    p = (r * s - w) / mx.where(below == 0, 1.0, below) + top[:, :1, 1:2]
    return mx.joined([p, top[:, 1:2, 1:2] - here - r - s, top[:, 2:, 1:2]], 1)


def _chase(k: XlaOp, last: XlaOp, both: XlaOp, x: XlaOp) -> list[XlaOp]:
    """Reflects rows and columns k to k + 2 of `both`, so that x becomes a multiple of the first unit vector.
    Returns the arguments of the next step; its x is the part of the bulge that is left below. `last` is the
    last row of the block.
    """
    v, tau, _ = reflector(x, 0)
    both = mx.with_part(both, reflected(mx.row(both, k, 3), v, mx.conjugate(tau)), k, 0)
    both = mx.with_part(both, reflected_from_right(mx.column(both, k, 3), v, tau), 0, k)
    following = mx.part(both, k + 1, k, 3, 1)
    return [k + 1, last, both, mx.where(mx.places(following, 1) + k < last, following, 0.0)]


def standardized(both: XlaOp, high: XlaOp, wanted: XlaOp) -> XlaOp:
    """Brings the block of rows and columns high - 1 and high into standard form: triangular, or equal
    diagonal elements for a conjugate pair. Matrices for which `wanted` [batch, 1, 1] is false stay unchanged.
    """
    m = high - 1
    c, s, pair = _turn(mx.part(both, m, m, 2, 2))
    c, s = mx.where(wanted, c, 1.0), mx.where(wanted, s, 0.0)
    x, y = mx.row(both, m), mx.row(both, high)
    both = mx.with_part(both, mx.joined([mx.conjugate(c) * x + mx.conjugate(s) * y, c * y - s * x], 1), m, 0)
    x, y = mx.column(both, m), mx.column(both, high)
    both = mx.with_part(both, mx.joined([c * x + s * y, mx.conjugate(c) * y - mx.conjugate(s) * x], 2), 0, m)
    block = mx.part(both, m, m, 2, 2)
    above, below = block[:, :1, 1:], block[:, 1:, :1]
    first, last = block[:, :1, :1], block[:, 1:, 1:]
    pair = pair & (mx.real(above) * mx.real(below) < 0)
    middle = first + 0.5 * (last - first)
    first, last = mx.where(pair, middle, first), mx.where(pair, middle, last)
    new = mx.joined([mx.joined([first, above], 2), mx.joined([mx.where(pair, below, 0.0), last], 2)], 1)
    return mx.with_part(both, mx.where(wanted, new, block), m, m)


def _turn(block: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Cosine and sine of the rotation [c s; -s c] (conjugated in the first row) that brings a 2 x 2 block
    into standard form, and whether the block has a pair of conjugate eigenvalues.
    """
    block = mx.over(block, mx.unit_of(block))
    b, c = block[:, :1, 1:], block[:, 1:, :1]
    p = 0.5 * (block[:, :1, :1] - block[:, 1:, 1:])
    square = p * p + b * c
    pair = mx.real(square) < 0
    if block.dtype.is_complex:
        pair = pair & (mx.magnitude(square) < 0)
    root = ops.Sqrt(square if block.dtype.is_complex else ops.Abs(square))
    # (z, c) is an eigenvector; its eigenvalue is the last diagonal element + z.
    z = p + mx.where(mx.real(mx.conjugate(p) * root) < 0, -root, root)
    norm = ops.Sqrt(mx.squared(z) + mx.squared(c))
    known = mx.where(norm == 0, 1.0, norm)
    cosine, sine = mx.where(norm == 0, 1.0, mx.over(z, known)), mx.where(norm == 0, 0.0, mx.over(c, known))
    if block.dtype.is_complex:
        return cosine, sine, pair
    sigma = b + c
    norm = ops.Sqrt(sigma * sigma + 4 * p * p)
    known = mx.where(norm == 0, 1.0, norm)
    equal = ops.Sqrt(0.5 + 0.5 * ops.Abs(sigma) / known)
    equal = mx.where(norm == 0, 1.0, equal)
    turn = -(p / (known * equal)) * mx.where(sigma < 0, -1.0, mx.number(sigma, 1.0))
    return mx.where(pair, equal, cosine), mx.where(pair, turn, sine), pair
