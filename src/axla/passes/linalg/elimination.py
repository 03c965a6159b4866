"""Elimination with exchanges of rows: LU factors, tridiagonal systems."""

from __future__ import annotations

import numpy as np

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import S32
from axla.passes.matrix import (
    column,
    first,
    joined,
    largest,
    magnitude,
    places,
    repeat,
    row,
    swapped,
    where,
    with_part,
    zeros,
)


def lu(a: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """getrf: both factors in one matrix, pivots [batch, 1, count] and info [batch, 1, 1], both from 1."""
    batch, m, n = a.dims
    count = min(m, n)

    def step(j: XlaOp, a: XlaOp, pivots: XlaOp, info: XlaOp) -> list[XlaOp]:
        rows, columns = places(a, 1), places(a, 2)
        size = where(rows >= j, magnitude(column(a, j)), -1.0)
        best = first(size == largest(size, 1), 1)
        best = where(best == m, j, best)  # NaN is equal to nothing
        a = swapped(a, 1, j, best)
        this = column(a, j)
        pivot = row(this, j)
        singular = pivot == 0
        factors = where(rows > j, this / where(singular, 1.0, pivot), 0.0)
        a = where(columns > j, a - factors * row(a, j), where((columns == j) & (rows > j), factors, a))
        return [
            a, where(places(pivots, 2) == j, best + 1, pivots), where((info == 0) & singular, j + 1, info)
        ]  # fmt: skip

    whole = [zeros(a.builder, S32, dims) for dims in ((batch, 1, count), (batch, 1, 1))]
    found = repeat(count, [a, *whole], step)
    return found[0], found[1], found[2]


def tridiagonal_solution(
    lower: XlaOp, main: XlaOp, upper: XlaOp, b: XlaOp
) -> tuple[XlaOp, XlaOp, XlaOp, XlaOp, XlaOp]:
    """gtsv: what it leaves in the three diagonals (columns; the first of `lower` and the last of `upper` are
    padding), the solution, and info [batch, 1, 1].
    """
    n = main.dims[1]
    last = places(main, 1) == n - 1
    nothing = zeros(main.builder, main.dtype, (main.dims[0], 1, 1))
    under = joined([lower[:, 1:], nothing], 1)
    over = where(last, 0.0, upper)
    info = zeros(main.builder, S32, (main.dims[0], 1, 1))

    def forward(i: XlaOp, under: XlaOp, main: XlaOp, over: XlaOp, b: XlaOp, info: XlaOp) -> list[XlaOp]:
        low, here, there = row(under, i), row(main, i), row(main, i + 1)
        beside, further, one, two = row(over, i), row(over, i + 1), row(b, i), row(b, i + 1)
        swap = magnitude(here) < magnitude(low)
        info = where((info == 0) & (here == 0) & ~swap, i + 1, info)
        pivot = where(swap, low, where(here == 0, 1.0, here))
        factor = where(swap, here, low) / pivot
        first_, second = where(swap, there, beside), where(swap, beside, there)
        main = with_part(main, where(swap, low, here), i, 0)
        main = with_part(main, second - factor * first_, i + 1, 0)
        over = with_part(over, first_, i, 0)
        over = with_part(over, where(swap, -(factor * further), further), i + 1, 0)
        under = with_part(under, ops.Select(i < n - 2, where(swap, further, 0.0), low), i, 0)
        kept = where(swap, two, one)
        b = with_part(b, kept, i, 0)
        return [under, main, over, with_part(b, where(swap, one, two) - factor * kept, i + 1, 0), info]

    under, main, over, b, info = repeat(n - 1, [under, main, over, b, info], forward)
    end = row(main, number_of(main, n - 1))
    info = where((info == 0) & (end == 0), np.int32(n), info)

    def backward(k: XlaOp, under: XlaOp, main: XlaOp, over: XlaOp, x: XlaOp) -> list[XlaOp]:
        i = (n - 1) - k
        rest = row(x, i) - row(over, i) * row(x, i + 1) - row(under, i) * row(x, i + 2)
        return [under, main, over, with_part(x, rest / row(main, i), i, 0)]

    wide = ops.PadInDim(b, ops.Zero(b.builder, b.dtype), 1, 0, 2)
    x = repeat(n, [under, main, over, wide], backward)[3][:, :n]
    return joined([lower[:, :1], under[:, : n - 1]], 1), main, where(last, upper, over), x, info


def number_of(x: XlaOp, value: int) -> XlaOp:
    return x.builder.constant(np.int32(value))
