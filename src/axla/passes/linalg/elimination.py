"""Gaussian elimination with row exchanges: LU factors and tridiagonal systems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.core.dataclass import dataclass
from axla.core.dtypes import S32
from axla.passes import matrix as mx
from axla.passes.expand.triangular import lower_triangle, panel_size, solve, split


@dataclass(slots=True)
class _Factors:
    """The result of a factorization. `matrix` has both factors in one matrix; `order` [batch, 1, size] has
    for each row its number in the given matrix; `pivots` count from 0; `info` [batch, 1, 1] is the first step
    without a pivot, from 1, or 0 if there is none.
    """

    matrix: XlaOp
    order: XlaOp
    pivots: XlaOp
    info: XlaOp


def lu(a: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp]:
    """LAPACK's getrf: returns both factors in one matrix, pivots [batch, 1, count] and info [batch, 1, 1].
    Both count from 1.
    """
    found = _factors(a, panel_size(min(a.dims[1:])))
    return found.matrix, found.pivots + 1, found.info


def _factors(a: XlaOp, block: int) -> _Factors:
    """Factors the left half of the columns, applies its row exchanges and updates to the right half, and
    factors the rest of that. Matrices of at most `block` columns are factored column by column.
    """
    _, m, n = a.dims
    if n <= min(block, m):
        return _panel(a, block)
    cut = m if m < n else split(n, block)
    left = _factors(a[:, :, :cut], block)
    right = mx.taken(a[:, :, cut:], left.order)
    above = solve(lower_triangle(left.matrix[:, :cut], True, block), right[:, :cut])
    if m == cut:
        return replace(left, matrix=mx.joined([left.matrix, above], 2))
    below = left.matrix[:, cut:]
    last = _factors(right[:, cut:] - mx.product(below, above), block)
    matrix = mx.joined(
        [
            mx.joined([left.matrix[:, :cut], above], 2),
            mx.joined([mx.taken(below, last.order), last.matrix], 2),
        ], 1,
    )  # fmt: skip
    order = mx.transposed(mx.taken(mx.transposed(left.order)[:, cut:], last.order))
    later = mx.where(last.info == 0, np.int32(0), last.info + cut)
    return _Factors(
        matrix, mx.joined([left.order[:, :, :cut], order], 2), mx.joined([left.pivots, last.pivots + cut], 2),
        mx.where(left.info == 0, later, left.info),
    )  # fmt: skip


def _panel(a: XlaOp, block: int) -> _Factors:
    """Factors a matrix column by column. Inside the loop it is stored transposed, so that a column is
    contiguous. Columns longer than `block` are padded to a multiple of the larger of `block` and 64, so that
    few kernels occur.
    """
    batch, m, n = a.dims
    # rounded up, so that few sizes and few kernels occur
    high = -(-m // max(block, 64)) * max(block, 64) if m > block else m

    def step(j: XlaOp, p: XlaOp, order: XlaOp, pivots: XlaOp, info: XlaOp) -> list[XlaOp]:
        rows = mx.indices(order, 2)
        size = mx.where((rows >= j) & (rows < m), mx.magnitude(mx.row(p, j)), -1.0)
        best = mx.first(size == mx.largest(size, 2), 2)
        best = mx.where(best == high, j, best)  # if all comparisons fail because of NaN
        p, here = mx.swapped(p, 2, j, best)
        order, _ = mx.swapped(order, 2, j, best)
        pivot = mx.row(here, j)
        singular = pivot == 0
        line = mx.row(p, j)
        line = mx.where(rows > j, line / mx.where(singular, 1.0, pivot), line)
        p = mx.with_part(p, line, j, 0)
        p = mx.where((mx.indices(p, 1) > j) & (mx.indices(p, 2) > j), p - here * line, p)
        pivots = mx.where(mx.places(pivots, 2) == j, best, pivots)
        return [p, order, pivots, mx.where((info == 0) & singular, j + 1, info)]

    order = mx.zeros(a.builder, S32, (batch, 1, high))
    whole = [mx.zeros(a.builder, S32, dims) for dims in ((batch, 1, n), (batch, 1, 1))]
    start = [mx.transposed(mx.padded(a, high, n)), mx.indices(order, 2), *whole]
    p, order, pivots, info = mx.repeat(n, start, step)
    return _Factors(mx.transposed(p)[:, :m], order[:, :, :m], pivots, info)


def tridiagonal_solution(
    lower: XlaOp, main: XlaOp, upper: XlaOp, b: XlaOp
) -> tuple[XlaOp, XlaOp, XlaOp, XlaOp, XlaOp]:
    """LAPACK's gtsv: solves tridiagonal systems. Returns the three diagonals as gtsv leaves them (columns),
    the solution, and info [batch, 1, 1]. The first element of `lower` and the last of `upper` are padding.
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
