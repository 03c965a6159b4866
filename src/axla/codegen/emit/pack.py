"""Packing of matrix operands: copies in the order of the micro-kernel's reads, in the accumulator type."""

from __future__ import annotations

from dataclasses import dataclass

from axla.codegen.array import element_address
from axla.codegen.emit.microkernel import Parts, part_type, store_parts
from axla.codegen.emit.transpose_registers import transpose_block
from axla.codegen.function import Function, Ssa
from axla.codegen.types import vector
from axla.codegen.value import Values
from axla.core.dtypes import DType
from axla.kernels.dot import part_count
from axla.kernels.plan import fitting
from axla.target.machine import Target


@dataclass(frozen=True)
class Reader:
    """Loads elements of `source` as registers of the accumulator type `to`."""

    source: DType
    to: DType
    target: Target

    def load(self, f: Function, pointer: Ssa, index: Ssa, lanes: int) -> Parts:
        """`lanes` elements from element `index` on."""
        values = Values(f, self.target)
        loaded = values.load(self.source, element_address(f, pointer, self.source, index), lanes)
        return values.convert(loaded, self.to).parts


@dataclass(frozen=True)
class Packing:
    """What is copied: from an array with rows `stride` elements apart, `lanes` at a time."""

    reader: Reader
    stride: int
    lanes: int

    @property
    def packed(self) -> DType:
        return self.reader.to

    @property
    def parts(self) -> int:
        return part_count(self.packed)

    def load(self, f: Function, pointer: Ssa, row: Ssa, column: Ssa, lanes: int) -> Parts:
        return self.reader.load(f, pointer, f.add(f.mul(row, f.index(self.stride)), column), lanes)


def pieces(count: int, lanes: int) -> list[tuple[int, int]]:
    """(start, lanes) of the vectors that cover `count` elements: whole ones, then halves, quarters..."""
    found, start = [], 0
    while start < count:
        width = fitting(lanes, count - start)
        found.append((start, width))
        start += width
    return found


def least(f: Function, index: Ssa, limit: int, *, needed: bool = True) -> Ssa:
    """`index`, at most `limit`: the last piece of a row then overlaps the one before."""
    return f.smin(index, f.index(limit)) if needed else index


def pack_columns(
    f: Function, packing: Packing, source: Ssa, target: Ssa, *, rows: Ssa, first: tuple[Ssa, Ssa], last: Ssa,
    width: int, total: int, depth: int,
) -> None:  # fmt: skip
    """Copies rows [k0, k0+rows) and columns [c0, last) of a [k, n] array into panels of `width` columns.

    `first` is (k0, c0), `total` is n, `depth` the rows a panel has room for. A panel is
    [depth][parts][width]. Rows are the outer loop: memory is read in order. The last panel starts early
    enough to be full; a matrix narrower than a panel gets zeros.
    """
    element, size = part_type(packing.packed), packing.packed.real.itemsize
    parts = packing.parts
    with f.loop(f.index(0), rows, 1, nonempty=True) as k, f.loop(first[1], last, width, nonempty=True) as j:
        start = least(f, j.index, total - width, needed=total > width and total % width != 0)
        place = f.add(
            f.mul(f.sub(j.index, first[1]), f.index(depth * parts)), f.mul(k.index, f.index(width * parts))
        )
        for offset, lanes in pieces(min(width, total), packing.lanes):
            value = packing.load(f, source, f.add(first[0], k.index), f.add(start, f.index(offset)), lanes)
            store_parts(f, packing.packed, value, target, f.add(place, f.index(offset)), width)
        for offset, lanes in pieces(max(0, width - total), packing.lanes):
            # Left as they are, these columns could hold denormals, which some processors multiply slowly.
            for part in range(parts):
                zero = f.zero(vector(element, lanes))
                at = f.index(part * width + total + offset)
                f.store(zero, f.gep(element, target, f.add(place, at)), size)


def pack_transposed(
    f: Function, packing: Packing, source: Ssa, target: Ssa, *, rows: Ssa, first: tuple[Ssa, Ssa], last: Ssa,
    width: int, total: int, depth: int, block: int,
) -> None:  # fmt: skip
    """`pack_columns` from an [n, k] array, by blocks of `block` x `block` transposed in registers.

    `block` is a power of two that divides `width` and is not above `rows`. Columns that a matrix narrower
    than a panel lacks are copies of its last one.
    """
    parts = packing.parts
    with (
        f.loop(first[1], last, width, nonempty=True) as j,
        f.loop(0, width, block) as c,
        f.loop(f.index(0), rows, block, nonempty=True) as k,
    ):
        start = least(f, j.index, total - width, needed=total > width and total % width != 0)
        # The last block overlaps the one before it and writes the same numbers again.
        step = f.smin(k.index, f.sub(rows, f.index(block)))
        loaded = []
        for r in range(block):
            column = f.add(f.add(start, c.index), f.index(r))
            column = least(f, column, total - 1, needed=total < width)
            loaded.append(packing.load(f, source, column, f.add(first[0], step), block))
        turned = [transpose_block(f, [row[part] for row in loaded]) for part in range(parts)]
        panel = f.mul(f.sub(j.index, first[1]), f.index(depth * parts))
        for r in range(block):
            place = f.add(f.add(panel, c.index), f.mul(f.add(step, f.index(r)), f.index(width * parts)))
            value = tuple(plane[r] for plane in turned)
            store_parts(f, packing.packed, value, target, place, width)


def pack_rows(
    f: Function, packing: Packing, source: Ssa, target: Ssa, *, depth: Ssa, first: tuple[Ssa, Ssa], rows: int,
    stride: int, lanes: int,
) -> None:  # fmt: skip
    """Copies rows [i0, i0+rows), elements [k0, k0+depth) of an [m, k] array to rows `stride` apart."""
    with f.loop(0, rows) as r, f.loop(f.index(0), depth, lanes, nonempty=True) as k:
        step = f.smin(k.index, f.sub(depth, f.index(lanes))) if lanes > 1 else k.index
        value = packing.load(f, source, f.add(first[0], r.index), f.add(first[1], step), lanes)
        store_parts(f, packing.packed, value, target, f.add(f.mul(r.index, f.index(stride)), step), 0)


def pack_steps(
    f: Function, packing: Packing, source: Ssa, target: Ssa, *, depth: Ssa, first: tuple[Ssa, Ssa], rows: int
) -> None:
    """Copies rows [k0, k0+depth), columns [i0, i0+rows) of a [k, m] array to a dense [depth, rows]."""
    with f.loop(f.index(0), depth, 1, nonempty=True) as k:
        for offset, lanes in pieces(rows, packing.lanes):
            value = packing.load(f, source, f.add(first[1], k.index), f.add(first[0], f.index(offset)), lanes)
            store_parts(
                f, packing.packed, value, target, f.add(f.mul(k.index, f.index(rows)), f.index(offset)), 0
            )
