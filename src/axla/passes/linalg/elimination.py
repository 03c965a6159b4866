"""Elimination with exchanges of rows: LU factors, tridiagonal systems."""

from __future__ import annotations

import numpy as np

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import S32
from axla.passes import matrix as mx


def lu(a: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """getrf: both factors in one matrix, pivots [batch, 1, count] and info [batch, 1, 1], both from 1."""
    batch, m, n = a.dims
    count = min(m, n)

    def step(j: XlaOp, a: XlaOp, pivots: XlaOp, info: XlaOp) -> list[XlaOp]:
        rows, columns = mx.places(a, 1), mx.places(a, 2)
        size = mx.where(rows >= j, mx.magnitude(mx.column(a, j)), -1.0)
        best = mx.first(size == mx.largest(size, 1), 1)
        best = mx.where(best == m, j, best)  # NaN is equal to nothing
        a = mx.swapped(a, 1, j, best)
        this = mx.column(a, j)
        pivot = mx.row(this, j)
        singular = pivot == 0
        factors = mx.where(rows > j, this / mx.where(singular, 1.0, pivot), 0.0)
        a = mx.where(
            columns > j, a - factors * mx.row(a, j), mx.where((columns == j) & (rows > j), factors, a)
        )
        pivots = mx.where(mx.places(pivots, 2) == j, best + 1, pivots)
        return [a, pivots, mx.where((info == 0) & singular, j + 1, info)]

    whole = [mx.zeros(a.builder, S32, dims) for dims in ((batch, 1, count), (batch, 1, 1))]
    found = mx.repeat(count, [a, *whole], step)
    return found[0], found[1], found[2]


def tridiagonal_solution(
    lower: XlaOp, main: XlaOp, upper: XlaOp, b: XlaOp
) -> tuple[XlaOp, XlaOp, XlaOp, XlaOp, XlaOp]:
    """gtsv: what it leaves in the three diagonals (columns; the first of `lower` and the last of `upper` are
    padding), the solution, and info [batch, 1, 1].
    """
    n = main.dims[1]
    last = mx.places(main, 1) == n - 1
    nothing = mx.zeros(main.builder, main.dtype, (main.dims[0], 1, 1))
    under = mx.joined([lower[:, 1:], nothing], 1)
    over = mx.where(last, 0.0, upper)
    info = mx.zeros(main.builder, S32, (main.dims[0], 1, 1))

    def forward(i: XlaOp, under: XlaOp, main: XlaOp, over: XlaOp, b: XlaOp, info: XlaOp) -> list[XlaOp]:
        low, here, there = mx.row(under, i), mx.row(main, i), mx.row(main, i + 1)
        beside, further, one, two = mx.row(over, i), mx.row(over, i + 1), mx.row(b, i), mx.row(b, i + 1)
        swap = mx.magnitude(here) < mx.magnitude(low)
        info = mx.where((info == 0) & (here == 0) & ~swap, i + 1, info)
        pivot = mx.where(swap, low, mx.where(here == 0, 1.0, here))
        factor = mx.where(swap, here, low) / pivot
        first_, second = mx.where(swap, there, beside), mx.where(swap, beside, there)
        main = mx.with_part(main, mx.where(swap, low, here), i, 0)
        main = mx.with_part(main, second - factor * first_, i + 1, 0)
        over = mx.with_part(over, first_, i, 0)
        over = mx.with_part(over, mx.where(swap, -(factor * further), further), i + 1, 0)
        under = mx.with_part(under, ops.Select(i < n - 2, mx.where(swap, further, 0.0), low), i, 0)
        kept = mx.where(swap, two, one)
        b = mx.with_part(b, kept, i, 0)
        return [under, main, over, mx.with_part(b, mx.where(swap, one, two) - factor * kept, i + 1, 0), info]

    under, main, over, b, info = mx.repeat(n - 1, [under, main, over, b, info], forward)
    end = mx.row(main, main.builder.constant(np.int32(n - 1)))
    info = mx.where((info == 0) & (end == 0), np.int32(n), info)

    def backward(k: XlaOp, under: XlaOp, main: XlaOp, over: XlaOp, x: XlaOp) -> list[XlaOp]:
        i = (n - 1) - k
        rest = mx.row(x, i) - mx.row(over, i) * mx.row(x, i + 1) - mx.row(under, i) * mx.row(x, i + 2)
        return [under, main, over, mx.with_part(x, rest / mx.row(main, i), i, 0)]

    wide = ops.PadInDim(b, ops.Zero(b.builder, b.dtype), 1, 0, 2)
    x = mx.repeat(n, [under, main, over, wide], backward)[3][:, :n]
    return mx.joined([lower[:, :1], under[:, : n - 1]], 1), main, mx.where(last, upper, over), x, info
