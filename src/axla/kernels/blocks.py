"""Plans of matrix products by thread blocks, which share slices of the operands in local memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

from axla.core.dataclass import dataclass
from axla.core.dtypes import F32
from axla.kernels.product import GemmSpec, Tile
from axla.target.machine import Target, aligned

_NEIGHBOURS = 4  # adjacent elements that a thread loads, or multiplies, at most
SQUARE = 16
"""The rows, columns and k of the matrices that a warp multiplies by tensor cores."""
_TILES = {
    "threads": ((8, 8), (8, 4), (4, 8), (4, 4), (2, 2), (4, 1), (1, 4), (1, 1)),
    "warps": ((64, 32), (32, 32), (32, 16), (16, 16)),
}
# For a large GPU: the number of threads that keep it busy, if each has several sums, and the bytes that all
# of them together get from L2 in the time of an instruction.
_BUSY, _L2_BYTES = 1 << 15, 6000
_SECTOR = 32  # bytes that memory transfers together


@dataclass(frozen=True, slots=True)
class Staging:
    """The way in which a thread block loads a slice of an operand to local memory: `depth` steps of k, for
    `extent` rows of lhs or columns of rhs, in vectors of `lanes` elements.

    `along_k`: adjacent elements of the operand are adjacent in k. In local memory an element has `size`
    bytes, and lines begin `pitch` elements apart. A line runs along rows or columns; for warps, in the
    direction of the operand.
    """

    extent: int
    depth: int
    along_k: bool
    lanes: int
    size: int
    pitch: int
    bytes: int

    @property
    def minor(self) -> int:
        """The number of elements in a line of the slice as the operand stores it."""
        return self.depth if self.along_k else self.extent

    @property
    def vectors(self) -> int:
        """The number of vectors in a slice."""
        return self.extent * self.depth // self.lanes


@dataclass(frozen=True, slots=True)
class BlockCut:
    """A plan of a product by thread blocks, which share slices of the operands in local memory.

    `method` is threads (each thread computes a `tile` of the result) or warps (each warp does, with tensor
    cores). A block has `down` x `across` tiles. `groups` groups of threads compute them: each group takes its
    share of the k of a slice.
    """

    method: str
    tile: Tile
    down: int
    across: int
    groups: int
    threads: int
    units: int  # number of blocks of the result
    lhs: Staging
    rhs: Staging
    part_rows: int  # rows of a block whose sums are in local memory at once
    local_bytes: int
    group: int = 1  # units that one step computes

    @property
    def rows(self) -> int:
        """The rows of the result that a block computes."""
        return self.down * self.tile.rows

    @property
    def columns(self) -> int:
        """The columns of the result that a block computes."""
        return self.across * self.tile.columns

    @property
    def depth(self) -> int:
        """The number of elements of k in a slice."""
        return self.lhs.depth

    @property
    def half_bytes(self) -> int:
        """The bytes of local memory that a slice of lhs and one of rhs take."""
        return self.lhs.bytes + self.rhs.bytes


@functools.lru_cache(maxsize=1024)
def plan_blocks(spec: GemmSpec, target: Target) -> BlockCut:
    """The cheapest plan for `spec` whose slices and sums fit in local memory and registers.

    Sums of f16 and bf16 in f32 use tensor cores, if the device has them and m, n and k are not below SQUARE.
    """
    square = spec.accumulator is F32 and min(spec.m, spec.n, spec.k) >= SQUARE
    method = "warps" if square and spec.dtype.name in target.matrix_units else "threads"
    cuts = (c for c in _cuts(spec, method, target.threads) if c.local_bytes <= target.local_bytes)
    return min(cuts, key=functools.partial(_cost, spec))


def _cuts(spec: GemmSpec, method: str, most: int) -> Iterator[BlockCut]:
    """Yields plans with at most `most` threads in a block whose sums fit in registers. `method` is that of
    `BlockCut`.
    """
    warps = method == "warps"
    team = 32 if warps else 1
    several = [
        groups for groups in (1, 4, 16) if groups == 1 or spec.k >= 32 * groups
    ]  # short sums are not divided among groups
    for rows, columns in _TILES[method]:
        fits = rows * columns * spec.accumulator.itemsize <= 256 * team
        for threads in sorted({most, min(most, 64)}) if fits else ():
            for groups in (1,) if warps else several:
                teams = threads // team // groups
                for power in range(teams.bit_length()):
                    yield _cut(spec, method, Tile(rows, columns, 1), 1 << power, teams >> power, groups, team)


def _cut(spec: GemmSpec, method: str, tile: Tile, down: int, across: int, groups: int, team: int) -> BlockCut:
    """The plan with `down` x `across` tiles in a block and `groups` groups of threads; `team` threads compute
    a tile together. Slices are deeper for small tiles, but not deeper than k.
    """
    rows, columns, size = down * tile.rows, across * tile.columns, spec.accumulator.itemsize
    if method == "warps":
        depth, part_rows = 2 * SQUARE, down * SQUARE
    else:
        deep = max(8 if tile.rows * tile.columns > 16 else 16, 4 * groups)
        depth = max(groups, min(deep, 1 << (spec.k - 1).bit_length()))
        part_rows = down * neighbours(spec, tile.rows)
    lhs = _staging(spec, method, rows, depth, not spec.lhs_transposed, spec.lhs_row)
    rhs = _staging(spec, method, columns, depth, spec.rhs_transposed, spec.rhs_row)
    local = max(2 * (lhs.bytes + rhs.bytes), groups * part_rows * columns * size)
    units = spec.batch * math.ceil(spec.m / rows) * math.ceil(spec.n / columns)
    threads = down * across * groups * team
    return BlockCut(method, tile, down, across, groups, threads, units, lhs, rhs, part_rows, local)


def neighbours(spec: GemmSpec, count: int) -> int:
    """The number of a thread's `count` rows or columns that are adjacent: as many as fill 16 bytes, which are
    read at once.
    """
    return min(count, _NEIGHBOURS, max(1, 16 // spec.accumulator.itemsize))


def _staging(spec: GemmSpec, method: str, extent: int, depth: int, along_k: bool, row: int) -> Staging:
    """Plans the load of a slice: in vectors of 16 bytes if the length of operand rows, `row`, is a multiple
    of a vector, so that all vectors are aligned; else element by element.
    """
    minor = depth if along_k else extent
    size, pitch, lines, most = spec.accumulator.itemsize, extent + 4 * along_k, depth, _NEIGHBOURS
    if method == "warps":  # the pitch makes adjacent lines begin in different banks of local memory
        size, pitch, lines, most = 2, minor + 8, extent * depth // minor, 8
    most = min(most, 16 // spec.dtype.itemsize)
    lanes = most if row % most == 0 and minor % most == 0 else 1
    return Staging(extent, depth, along_k, lanes, size, pitch, aligned(lines * pitch * size))


def _cost(spec: GemmSpec, cut: BlockCut) -> float:
    """The estimated time on a large GPU, in instructions of a thread: the larger of the latency of a single
    thread and the throughput of multipliers and local memory, plus traffic from L2.
    """
    rows, columns, slices = cut.tile.rows, cut.tile.columns, math.ceil(spec.k / cut.depth)
    adds, reads = rows * columns, rows + columns
    if cut.method == "warps":
        adds, reads = rows * columns / 64, (rows + columns) / SQUARE
    rounds = sum(math.ceil(side.vectors / cut.threads) for side in (cut.lhs, cut.rhs))
    last = 8 * (cut.groups + 2) * math.ceil(cut.rows * cut.columns / cut.threads)
    steps = slices * cut.depth / cut.groups
    alone = steps * (adds + reads / 2 + 4) + slices * (8 * rounds + 40) + last
    # If each thread of a warp reads 16 bytes, local memory returns 128 bytes in the time of four
    # instructions.
    words = spec.accumulator.itemsize / 4
    together = steps * max(adds, 4 * reads) * words + slices * 8 * rounds + last
    # A line of a slice that is shorter than a sector costs as much as a sector.
    moved = 0
    for side in (cut.lhs, cut.rhs):
        line = max(_SECTOR, side.minor * spec.dtype.itemsize)
        moved += cut.units * slices * side.extent * side.depth // side.minor * line
    return max(alone, together * cut.units * cut.threads / _BUSY) + moved / _L2_BYTES
