"""Schur's form by Francis's double shifts: a bulge of three rows is chased down the Hessenberg matrix.

One matrix at a time, for where to go on depends on its numbers. Real matrices keep blocks of 2 x 2 for pairs
of conjugate eigenvalues, in LAPACK's form: equal diagonal elements, the others of different sign.
"""

from __future__ import annotations

import numpy as np

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import S32
from axla.passes.linalg.reflectors import hessenberg, reflected, reflected_from_right, reflector, times_q
from axla.passes.matrix import (
    column,
    conjugate,
    diagonal,
    epsilon,
    identity,
    joined,
    largest,
    largest_of_matrix,
    like,
    loop,
    magnitude,
    number,
    over,
    padded,
    part,
    places,
    real,
    repeat,
    row,
    squared,
    unit_of,
    where,
    with_part,
    zeros,
)

ROUNDS = 30
"""Most sweeps for each eigenvalue; two or three are usual."""

UNUSUAL = 10
"""Sweeps without an eigenvalue after which the shifts are others."""


def schur(a: XlaOp, vectors: bool) -> tuple[XlaOp, XlaOp, XlaOp]:
    """T and Z (without rows unless `vectors`) with a = Z T Z^H, and info [batch, 1, 1]."""
    batch, n, _ = a.dims
    unit = unit_of(a)
    form, taus = hessenberg(over(a, unit), 0, n)
    # Two more rows and columns, so that three rows from any place on are there. Z lies below T: it is turned
    # as T's columns are.
    wide = n + 2
    both = padded(where(places(form, 1) > places(form, 2) + 1, 0.0, form), wide, wide)
    if vectors:
        z = times_q(form, taus, identity(a, n, n), below=1)
        both = joined([both, padded(z, n, wide)], 1)

    def one(k: XlaOp, whole: XlaOp, infos: XlaOp) -> list[XlaOp]:
        found, info = _one(ops.DynamicSliceInDim(whole, k, 1, 0), n)
        return [ops.DynamicUpdateSlice(x, new, (k, 0, 0)) for x, new in ((whole, found), (infos, info))]

    both, info = repeat(batch, [both, zeros(a.builder, S32, (batch, 1, 1))], one)
    return both[:, :n, :n] * like(unit, a), both[:, wide:, :n], info


def _one(both: XlaOp, n: int) -> tuple[XlaOp, XlaOp]:
    """The form of one matrix, of which the first n rows and columns count; and info."""
    wide, eps = both.dims[2], epsilon(both.dtype)
    norm = largest_of_matrix(magnitude(both[:, :wide]))

    def keep(high: XlaOp, _: XlaOp, rounds: XlaOp, *__: XlaOp) -> XlaOp:
        return (high > 0) & (rounds < ROUNDS * max(n, 10))

    def step(high: XlaOp, since: XlaOp, rounds: XlaOp, norm: XlaOp, both: XlaOp) -> list[XlaOp]:
        size, beside = magnitude(diagonal(both)), magnitude(diagonal(both[:, :wide], 1))
        around = size[:, 1:wide] + size[:, : wide - 1]
        index = places(beside, 1)
        cut = (beside <= eps * where(around == 0, norm, around)) & (index < high)
        low = _scalar(largest(where(cut, index + 1, np.int32(0)), 1))
        # What is negligible is zero, and so is all that rounding has left below the subdiagonal.
        rows, columns = places(both, 1), places(both, 2)
        off = (rows > columns + 1) | ((rows == columns + 1) & (rows == low) & (low > 0))
        both = where((rows < wide) & off, 0.0, both)
        done = high - low <= 1
        chase = [low, ops.Select(done, low, high), both, _first_column(both, low, high, since)]
        both = loop(chase, lambda k, last, *_: k < last, _chase)[2]
        both = standardized(both, high, _each(both, done & (high > low)))
        return [
            ops.Select(done, low - 1, high), ops.Select(done, 0, since + 1), rounds + 1, norm, both
        ]  # fmt: skip

    counters = [both.builder.constant(np.int32(k)) for k in (n - 1, 0, 0)]
    high, _, _, _, both = loop([*counters, norm, both], keep, step)
    return both, ops.Reshape(ops.Select(high > 0, high + 1, 0), (1, 1, 1))


def _scalar(x: XlaOp) -> XlaOp:
    return ops.Reshape(x, ())


def _each(x: XlaOp, flag: XlaOp) -> XlaOp:
    return ops.Broadcast(flag, (x.dims[0], 1, 1))


def _first_column(both: XlaOp, low: XlaOp, high: XlaOp, since: XlaOp) -> XlaOp:
    """A multiple of the first column of (H - s)(H - t), where s and t are the eigenvalues of the last block:
    three numbers, from row `low` on.
    """
    top, end = part(both, low, low, 3, 3), part(both, high - 1, high - 1, 2, 2)
    x, y, w = end[:, 1:, 1:], end[:, :1, :1], end[:, 1:, :1] * end[:, :1, 1:]
    size = like(magnitude(end[:, 1:, :1]) + magnitude(part(both, high - 1, high - 2, 1, 1)), both)
    unusual = _each(both, since % UNUSUAL == UNUSUAL - 1)
    y, w = where(unusual, x + 0.75 * size, y), where(unusual, -0.4375 * size * size, w)
    x = where(unusual, x + 0.75 * size, x)
    here, below = top[:, :1, :1], top[:, 1:2, :1]
    r, s = x - here, y - here
    p = (r * s - w) / where(below == 0, 1.0, below) + top[:, :1, 1:2]
    return joined([p, top[:, 1:2, 1:2] - here - r - s, top[:, 2:, 1:2]], 1)


def _chase(k: XlaOp, last: XlaOp, both: XlaOp, x: XlaOp) -> list[XlaOp]:
    """Reflects rows and columns k to k + 2, so that x becomes a multiple of the first unit vector; the next
    x is what sticks out below.
    """
    v, tau, _ = reflector(x, 0)
    both = with_part(both, reflected(row(both, k, 3), v, conjugate(tau)), k, 0)
    both = with_part(both, reflected_from_right(column(both, k, 3), v, tau), 0, k)
    following = part(both, k + 1, k, 3, 1)
    return [k + 1, last, both, where(places(following, 1) + k < last, following, 0.0)]


def standardized(both: XlaOp, high: XlaOp, wanted: XlaOp) -> XlaOp:
    """The block of rows and columns high - 1 and high turned into standard form, in the matrices where this
    is `wanted` [batch, 1, 1]: triangular, or that of a pair of eigenvalues.
    """
    m = high - 1
    c, s, pair = _turn(part(both, m, m, 2, 2))
    c, s = where(wanted, c, 1.0), where(wanted, s, 0.0)
    x, y = row(both, m), row(both, high)
    both = with_part(both, joined([conjugate(c) * x + conjugate(s) * y, c * y - s * x], 1), m, 0)
    x, y = column(both, m), column(both, high)
    both = with_part(both, joined([c * x + s * y, conjugate(c) * y - conjugate(s) * x], 2), 0, m)
    block = part(both, m, m, 2, 2)
    above, below = block[:, :1, 1:], block[:, 1:, :1]
    first, last = block[:, :1, :1], block[:, 1:, 1:]
    pair = pair & (real(above) * real(below) < 0)
    middle = first + 0.5 * (last - first)
    first, last = where(pair, middle, first), where(pair, middle, last)
    new = joined([joined([first, above], 2), joined([where(pair, below, 0.0), last], 2)], 1)
    return with_part(both, where(wanted, new, block), m, m)


def _turn(block: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Cosine and sine of the rotation [c s; -s c] (conjugates in the first row) that brings a block into
    standard form, and whether it has a pair of eigenvalues.
    """
    block = over(block, unit_of(block))
    b, c = block[:, :1, 1:], block[:, 1:, :1]
    p = 0.5 * (block[:, :1, :1] - block[:, 1:, 1:])
    square = p * p + b * c
    pair = real(square) < 0
    if block.dtype.is_complex:
        pair = pair & (magnitude(square) < 0)
    root = ops.Sqrt(square if block.dtype.is_complex else ops.Abs(square))
    # (z, c) is an eigenvector, of the last diagonal element + z.
    z = p + where(real(conjugate(p) * root) < 0, -root, root)
    norm = ops.Sqrt(squared(z) + squared(c))
    known = where(norm == 0, 1.0, norm)
    cosine, sine = where(norm == 0, 1.0, over(z, known)), where(norm == 0, 0.0, over(c, known))
    if block.dtype.is_complex:
        return cosine, sine, pair
    sigma = b + c
    norm = ops.Sqrt(sigma * sigma + 4 * p * p)
    known = where(norm == 0, 1.0, norm)
    equal = ops.Sqrt(0.5 + 0.5 * ops.Abs(sigma) / known)
    equal = where(norm == 0, 1.0, equal)
    turn = -(p / (known * equal)) * where(sigma < 0, -1.0, number(sigma, 1.0))
    return where(pair, equal, cosine), where(pair, turn, sine), pair
