"""How a matrix multiplication of given sizes is cut up for a Target: a pure function of both.

Tiles of the micro-kernel are grouped into blocks (of rows, columns and k), blocks into units that tasks take.
The last tile of a dimension that the tile does not divide starts early and overlaps its neighbour: what is
computed twice is stored once, so one micro-kernel serves all tiles.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

from axla.codegen.emit.microkernel import part_count
from axla.codegen.emit.pack import floor_power, piece_count
from axla.program.memory import aligned
from axla.program.plans import GemmPlan, GemmSpec, Tile
from axla.target.machine import Limits, Target


def ceil_to(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _tile_cost(spec: GemmSpec, tile: Tile, parts: int, fused: bool) -> float:
    """Estimated cycles of the whole product by such tiles, memory aside."""
    sums = tile.rows * tile.vectors * parts
    # A vector multiply-add and two loads per cycle, a latency of four; vectors of rhs come from L2, factors
    # from L1.
    step = max(sums * parts * (1 if fused else 2), (tile.rows + tile.vectors) * parts / 2, 4)
    step += 0.5 + tile.rows * parts / 32 + tile.vectors * parts / 8
    last = 20 + 2 * sums
    # Code grows with the tile: of equally good ones the small one.
    return (
        math.ceil(spec.m / tile.rows)
        * math.ceil(spec.n / tile.columns)
        * (spec.k * step + last)
        * (1 + 0.003 * sums)
    )


@functools.lru_cache(maxsize=1024)
def choose_tile(spec: GemmSpec, target: Target) -> Tile:
    """The register tile with the least estimated time: it fits the registers and wastes little of m and n."""
    parts = part_count(spec.accumulator)
    widest = max(1, target.lanes(spec.accumulator))
    # Scalars on integer or vector registers: more than a handful of sums is code size without speed.
    registers = target.registers if widest > 1 else 12
    best: tuple[float, Tile] | None = None
    lanes = widest
    while lanes >= 1:
        for vectors in range(1, 7):
            if vectors > 1 and (vectors - 1) * lanes >= spec.n:
                break
            # One register for the broadcast factor.
            most = (registers - parts - vectors * parts) // (vectors * parts)
            if spec.accumulator.is_integer and spec.accumulator.bits == 64:
                # A 64-bit product is a dozen instructions where it is not one.
                most = min(most, 8 // vectors)
            for rows in range(1, min(most, 14, spec.m) + 1):
                tile = Tile(rows, vectors, lanes, 1 if rows * vectors * parts >= 12 else 2)
                cost = _tile_cost(spec, tile, parts, target.has_fma or spec.accumulator.is_integer)
                if best is None or cost < best[0]:
                    best = (cost, tile)
        if lanes == 1 or spec.n >= 4 * lanes:
            break
        lanes //= 2
    assert best is not None
    return best[1]


def _blocks(total: int, most: int, multiple: int) -> int:
    """The size of equal blocks of a `total`: at most about `most`, multiples of `multiple` if several."""
    count = max(1, -(-total // most))
    return total if count == 1 else min(total, ceil_to(-(-total // count), multiple))


def plan(spec: GemmSpec, target: Target, *, fused_store: bool = True) -> GemmPlan:
    """How to do `spec` on `target`. `fused_store`: results go through a callback, not to `out`."""
    if min(spec.batch, spec.m, spec.n) < 1 or spec.k < 0:
        raise AssertionError(
            f"matrix product of {spec.batch} x {spec.m} x {spec.n} x {spec.k}: nothing to compute"
        )
    return _plan_narrow(spec, target) or _plan_vector(spec, target) or _plan_tiles(spec, target, fused_store)


def _plan_narrow(spec: GemmSpec, target: Target) -> GemmPlan | None:
    """The plan of a product whose rhs fits registers, or that has no k at all."""
    lanes = floor_power(min(target.lanes(spec.accumulator), spec.n))
    parts = part_count(spec.accumulator)
    vectors = piece_count(spec.n, lanes) * spec.k * parts
    # Half the registers: the rest are for factors and sums. One lane means scalar code, which grows with
    # every element.
    fits = vectors <= (min(24, target.registers * 3 // 4) if lanes > 1 else 16)
    turns = not spec.rhs_transposed or spec.n == spec.k == lanes
    if spec.k and not (fits and turns and spec.m > 1):
        return None
    work = spec.n * max(1, spec.k)
    rows = min(spec.m, max(8, target.limits.unit_work // 4 // work))
    units = spec.batch * -(-spec.m // rows)
    group = max(-(-units // target.limits.parts), target.limits.unit_work // 4 // (rows * work), 1)
    return GemmPlan(
        "narrow" if spec.k else "fill", Tile(1, 1, lanes), spec.k, rows, spec.n, False, False, units, group,
    )  # fmt: skip


def _plan_vector(spec: GemmSpec, target: Target) -> GemmPlan | None:
    """The plan of a product with a vector, if it is one."""
    if spec.m > 1 and (spec.n > 1 or spec.out_row != 1):
        return None
    tall = spec.m > 1
    length = spec.m if tall else spec.n
    along = not spec.lhs_transposed if tall else spec.rhs_transposed
    if spec.m == spec.n == 1 and spec.rhs_row == 1:
        along = True
    lanes = floor_power(min(target.lanes(spec.accumulator), spec.k if along else length))
    chains = 2 if spec.k >= 2 * lanes else 1
    tile = Tile(min(4, length), chains, lanes) if along else Tile(8, 1, lanes)
    # A strip of sums is at most half of L1; columns are cut so that the pieces of their rows stay a few lines
    # long.
    size = spec.accumulator.itemsize
    most = max(64, target.caches.l1 // 2 // size // 64 * 64)
    wanted = max(1, min(16, spec.batch * length * spec.k // target.limits.vector_work))
    strip = min(most, ceil_to(-(-length // wanted), 512 if not along and length > 512 else 64))
    units = spec.batch * -(-length // strip)
    group = max(-(-units // target.limits.parts), target.limits.vector_work // (strip * spec.k), 1)
    return GemmPlan(
        "rows" if along else "columns", tile, spec.k, 1, strip, False, False, units, group,
        partial_bytes=aligned((strip + tile.rows) * size),
    )  # fmt: skip


def _plan_tiles(spec: GemmSpec, target: Target, fused_store: bool) -> GemmPlan:
    tile = choose_tile(spec, target)
    size = spec.accumulator.itemsize
    converts = spec.dtype is not spec.accumulator
    small = spec.m * spec.n * spec.k <= 128**3
    reused = spec.m >= 4 * tile.rows
    pack_rhs = converts or spec.rhs_transposed or spec.n < tile.columns or (reused and not small)
    # Rows of lhs are read as they lie, transposed or not: copying a tile costs more than it saves.
    pack_lhs = converts
    # Every block of k reads and writes the sums again, which weighs more the more rows there are. Few rows
    # want small blocks: one is packed, and its successor fetched, beside little arithmetic.
    most = 512 if spec.m >= 512 and not spec.lhs_transposed else 256
    # What is packed of a small product is at most a block as well: scratch memory counts.
    whole = small and (spec.k <= 2 * most or not pack_rhs)
    depth = spec.k if whole else _blocks(spec.k, most * 4 // min(size, 8), max(8, tile.lanes))
    fitting = target.caches.l2 // 4 // (depth * size) // tile.columns
    columns = max(1, min(fitting, -(-spec.n // tile.columns)))
    unit_columns, unit_rows = _units(spec, tile, columns * tile.columns, pack_rhs, target.limits)
    units = spec.batch * -(-spec.m // unit_rows) * -(-spec.n // unit_columns)
    group = max(
        -(-units // target.limits.parts),
        target.limits.unit_work // max(1, unit_rows * unit_columns * spec.k),
        1,
    )
    direct = not fused_store and spec.accumulator is spec.result and not spec.accumulator.is_complex
    found = GemmPlan("tile", tile, depth, unit_rows, unit_columns, pack_lhs, pack_rhs, units, group)
    return replace(
        found,
        lhs_bytes=aligned(tile.rows * found.lhs_stride * size) if pack_lhs else 0,
        rhs_bytes=aligned(unit_columns * depth * size) if pack_rhs else 0,
        prefetch=pack_rhs and not small and not spec.rhs_transposed and tile.lanes > 1,
        partial_bytes=aligned(unit_rows * unit_columns * size) if depth < spec.k and not direct else 0,
    )


def _units(spec: GemmSpec, tile: Tile, most_columns: int, pack_rhs: bool, limits: Limits) -> tuple[int, int]:
    """(columns, rows) of a unit: whole tiles, a good piece of work, eight units or more if it lasts."""
    work = spec.m * spec.n * spec.k * spec.batch
    wanted = max(1, min(8, work // limits.unit_work), min(limits.parts, work >> 27))
    panels, stripes = -(-spec.n // tile.columns), -(-spec.m // tile.rows)
    columns = min(panels, most_columns // tile.columns)
    rows = stripes
    while -(-panels // columns) * -(-stripes // rows) * spec.batch < wanted:
        # A packed block of rhs wants many rows to use it; an unpacked one costs nothing more when rows are
        # cut.
        long = rows * tile.rows > (512 if pack_rhs else tile.rows)
        if columns > 1 and (pack_rhs or rows == 1) and not (long and columns * tile.columns <= 256):
            columns = -(-columns // 2)
        elif rows > 1:
            rows = -(-rows // 2)
        else:
            break
    return columns * tile.columns, rows * tile.rows
