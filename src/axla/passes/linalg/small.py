"""Algorithms for batches of small matrices: vector lanes run along the batch, and the code is unrolled over
the elements of a matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import S32
from axla.passes import matrix as mx

MOST = 4
"""The most rows and columns of a small matrix."""

MANY = 32
"""The fewest matrices in a batch for which these algorithms are used."""

ROUTINES = ("potrf", "trsm", "getrf", "geqrf", "orgqr", "syevd")
"""The routines that take less time here than calls of a library, for many small matrices."""

SWEEPS = 16
"""The most sweeps of rotations; 4 to 6 are enough."""

Numbers = list[XlaOp]
"""Arrays [batch], one for each column of a row."""


def is_small(a: XlaOp) -> bool:
    """Whether a batch has at least MANY matrices of at most MOST rows and columns."""
    batch, m, n = a.dims
    return batch >= MANY and 0 < max(m, n) <= MOST


def numbers(a: XlaOp) -> list[Numbers]:
    """The elements of matrices [batch, rows, columns] as lists of rows; each element is an array [batch]."""
    batch, m, n = a.dims
    lying = ops.Transpose(a, (1, 2, 0))
    return [[ops.Reshape(lying[i : i + 1, j : j + 1], (batch,)) for j in range(n)] for i in range(m)]


def matrices(found: Sequence[Numbers]) -> XlaOp:
    """The inverse of `numbers`: matrices [batch, rows, columns] from lists of rows."""
    dims = len(found), len(found[0]), found[0][0].dims[0]
    flat = [ops.Reshape(x, (1, dims[2])) for line in found for x in line]
    return ops.Transpose(ops.Reshape(mx.joined(flat, 0), dims), (2, 0, 1))


def lu(given: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """LAPACK's getrf, with the same results as `elimination.lu`."""
    a = numbers(given)
    m, n = len(a), len(a[0])
    info, pivots = mx.zeros(given.builder, S32, given.dims[:1]), []
    for j in range(min(m, n)):
        best, size = mx.zeros(given.builder, S32, given.dims[:1]) + j, mx.magnitude(a[j][j])
        for i in range(j + 1, m):
            other = mx.magnitude(a[i][j])
            best, size = mx.where(other > size, np.int32(i), best), mx.where(other > size, other, size)
        pivots.append(best + 1)
        top = list(a[j])
        for i in range(j + 1, m):
            this = best == i
            top = [mx.where(this, x, y) for x, y in zip(a[i], top, strict=True)]
            a[i] = [mx.where(this, y, x) for x, y in zip(a[i], a[j], strict=True)]
        a[j] = top
        singular = top[j] == 0
        info = mx.where((info == 0) & singular, np.int32(j + 1), info)
        pivot = mx.where(singular, 1.0, top[j])
        for i in range(j + 1, m):
            factor = a[i][j] / pivot
            rest = [x - factor * y for x, y in zip(a[i][j + 1 :], top[j + 1 :], strict=True)]
            a[i] = [*a[i][:j], factor, *rest]
    return matrices(a), matrices([pivots]), ops.Reshape(info, (given.dims[0], 1, 1))


def symmetric_eigenvalues(given: XlaOp, lower: bool, vectors: bool) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Eigenvalues of real symmetric matrices by Jacobi rotations, with the same results as
    `divide.hermitian_eigenvalues`.
    """
    batch, n, _ = given.dims
    unit = mx.unit_of(mx.hermitian(given, lower))
    a = numbers(mx.hermitian(given, lower) / unit)
    v = numbers(mx.identity(given, n, n)) if vectors else []
    places = [(i, j) for i in range(n) for j in range(i, n)]
    pairs = list(combinations(range(n), 2))

    def split(state: Sequence[XlaOp]) -> tuple[dict[tuple[int, int], XlaOp], list[Numbers]]:
        rest = state[len(places) :]
        return dict(zip(places, state, strict=False)), [list(rest[i : i + n]) for i in range(0, len(rest), n)]

    def keep(done: XlaOp, *state: XlaOp) -> XlaOp:
        a, _ = split(state)
        left = [
            mx.where(ops.Abs(a[p]) > mx.epsilon(given.dtype) / 8, np.int32(1), np.int32(0)) for p in pairs
        ]
        most = mx.largest(ops.Reshape(sum(left[1:], left[0]), (1, 1, batch)), 2)
        return (done < SWEEPS) & (ops.Reshape(most, ()) > 0)

    def sweep(done: XlaOp, *state: XlaOp) -> list[XlaOp]:
        a, v = split(state)
        for p, q in pairs:
            beside = a[p, q]
            zeta = (a[q, q] - a[p, p]) / (2 * mx.where(beside == 0, 1.0, beside))
            sign = mx.where(zeta < 0, -1.0, mx.number(zeta, 1.0))
            tangent = mx.where(beside == 0, 0.0, sign / (ops.Abs(zeta) + ops.Sqrt(1 + zeta * zeta)))
            c = 1 / ops.Sqrt(1 + tangent * tangent)
            s = tangent * c
            a[p, p], a[q, q] = a[p, p] - tangent * beside, a[q, q] + tangent * beside
            a[p, q] = mx.where(beside == beside, 0.0, beside)
            for r in range(n):
                if r not in (p, q):
                    one, two = (min(r, p), max(r, p)), (min(r, q), max(r, q))
                    a[one], a[two] = c * a[one] - s * a[two], s * a[one] + c * a[two]
            for line in v:
                line[p], line[q] = c * line[p] - s * line[q], s * line[p] + c * line[q]
        return [done + 1, *a.values(), *(x for line in v for x in line)]

    state = [a[i][j] for i, j in places] + [x for line in v for x in line]
    if pairs:
        state = mx.loop([given.builder.constant(np.int32(0)), *state], keep, sweep)[1:]
    found, v = split(state)
    lines = [[found[i, i] for i in range(n)], *v]
    for end in range(n - 1, 0, -1):
        for i in range(end):
            turn = lines[0][i] > lines[0][i + 1]
            for line in lines:
                one, two = line[i], line[i + 1]
                line[i], line[i + 1] = mx.where(turn, two, one), mx.where(turn, one, two)
    values = matrices(lines[:1]) * unit  # NaN if the largest element is infinite
    wrong = ~mx.every(values == values, 2)
    return values, matrices(v) if vectors else given, mx.where(wrong, np.int32(1), np.int32(0))
