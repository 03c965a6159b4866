"""Packs the operands of matrix products: copies them in the order in which the micro-kernel reads them, in
the accumulator type.
"""

from __future__ import annotations

from axla.codegen.emit.product import Matrix
from axla.codegen.emit.transpose_registers import transposed
from axla.codegen.function import Ssa
from axla.codegen.kernel import least
from axla.kernels.plan import fitting


def pieces(count: int, lanes: int) -> list[tuple[int, int]]:
    """(start, lanes) of the vectors that cover `count` elements: vectors of `lanes`, then halves,
    quarters...
    """
    found, start = [], 0
    while start < count:
        width = fitting(lanes, count - start)
        found.append((start, width))
        start += width
    return found


def pack_columns(
    source: Matrix, target: Ssa, *, rows: Ssa, first: tuple[Ssa, Ssa], last: Ssa,
    width: int, total: int, depth: int,
) -> None:  # fmt: skip
    """Copies rows [k0, k0+rows) and columns [c0, last) of a [k, n] array into panels of `width` columns.

    `first` is (k0, c0), `total` is n, `depth` the number of rows in a panel. A panel is
    [depth][parts][width]. Rows are the outer loop, so memory is read in order. The last panel starts early
    enough to be full; a matrix narrower than a panel is padded with zeros.
    """
    sums, f, parts = source.sums, source.sums.f, source.sums.parts
    with f.loop(0, rows, 1, nonempty=True) as k, f.loop(first[1], last, width, nonempty=True) as j:
        start = least(f, j.index, total - width, needed=total > width and total % width != 0)
        place = f.add(f.mul(f.sub(j.index, first[1]), depth * parts), f.mul(k.index, width * parts))
        for offset, lanes in pieces(min(width, total), sums.lanes):
            value = source.load(f.add(first[0], k.index), f.add(start, offset), lanes)
            sums.store(value, target, f.add(place, offset), width)
        for offset, lanes in pieces(max(0, width - total), sums.lanes):
            # Left as they are, these columns could hold denormals, which some processors multiply slowly.
            sums.store(sums.zero(lanes), target, f.add(place, total + offset), width)


def pack_transposed(
    source: Matrix, target: Ssa, *, rows: Ssa, first: tuple[Ssa, Ssa], last: Ssa,
    width: int, total: int, depth: int, block: int,
) -> None:  # fmt: skip
    """Packs an [n, k] array as `pack_columns` does a [k, n] array: transposes blocks of `block` x `block`
    elements in registers.

    `block` is a power of two that divides `width` and is at most `rows`. A matrix narrower than a panel is
    padded with copies of its last column.
    """
    sums, f, parts = source.sums, source.sums.f, source.sums.parts
    with (
        f.loop(first[1], last, width, nonempty=True) as j,
        f.loop(0, width, block) as c,
        f.loop(0, rows, block, nonempty=True) as k,
    ):
        start = least(f, j.index, total - width, needed=total > width and total % width != 0)
        # The last block overlaps the one before it and writes the same numbers again.
        step = f.smin(k.index, f.sub(rows, block))
        loaded = []
        for r in range(block):
            column = f.add(f.add(start, c.index), r)
            column = least(f, column, total - 1, needed=total < width)
            loaded.append(source.load(column, f.add(first[0], step), block))
        panel = f.mul(f.sub(j.index, first[1]), depth * parts)
        for r, value in enumerate(transposed(f, loaded)):
            place = f.add(f.add(panel, c.index), f.mul(f.add(step, r), width * parts))
            sums.store(value, target, place, width)


def pack_last(
    source: Matrix, target: Ssa, *, rows: Ssa, first: tuple[Ssa, Ssa], last: Ssa,
    width: int, total: int, depth: int,
) -> None:  # fmt: skip
    """Packs the last word of each column, which has fewer numbers than a word holds, as row `rows` of the
    panels that `pack_columns` or `pack_transposed` has written. The arguments are theirs.
    """
    sums, f = source.sums, source.sums.f
    with f.loop(first[1], last, width, nonempty=True) as j, f.loop(0, width) as c:
        start = least(f, j.index, total - width, needed=total > width and total % width != 0)
        column = least(f, f.add(start, c.index), total - 1, needed=total < width)
        place = f.add(f.mul(f.sub(j.index, first[1]), depth), f.mul(rows, width))
        sums.store(source.last(f.add(first[0], rows), column), target, f.add(place, c.index), 0)


def pack_rows(
    source: Matrix, target: Ssa, *, depth: Ssa, first: tuple[Ssa, Ssa], rows: int,
    stride: int, lanes: int,
) -> None:  # fmt: skip
    """Copies rows [i0, i0+rows), elements [k0, k0+depth) of an [m, k] array to rows that are `stride`
    elements apart.
    """
    sums, f = source.sums, source.sums.f
    with f.loop(0, rows) as r, f.loop(0, depth, lanes, nonempty=True) as k:
        step = f.smin(k.index, f.sub(depth, lanes)) if lanes > 1 else k.index
        value = source.load(f.add(first[0], r.index), f.add(first[1], step), lanes)
        sums.store(value, target, f.add(f.mul(r.index, stride), step), 0)


def pack_steps(source: Matrix, target: Ssa, *, depth: Ssa, first: tuple[Ssa, Ssa], rows: int) -> None:
    """Copies rows [k0, k0+depth), columns [i0, i0+rows) of a [k, m] array to a dense [depth, rows] array."""
    sums, f = source.sums, source.sums.f
    with f.loop(0, depth, 1, nonempty=True) as k:
        for offset, lanes in pieces(rows, sums.lanes):
            value = source.load(f.add(first[1], k.index), f.add(first[0], offset), lanes)
            sums.store(value, target, f.add(f.mul(k.index, rows), offset), 0)
