"""Plans of dots: a canonical matrix product, with elementwise ops on its result.

Tiles of the micro-kernel form blocks (of rows, columns and k), and blocks form units of work. If tiles do not
divide a dimension, the last tile begins early and overlaps its neighbour. Elements that are computed twice
are stored once. So one micro-kernel serves all tiles.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from axla.core.dataclass import dataclass
from axla.core.dtypes import S8
from axla.hlo import Dot
from axla.ir.attributes import FusionKind
from axla.ir.graph import Computation, Instruction
from axla.ir.typed import shape_of
from axla.kernels.access import KernelBody, accesses, elements, kernel_roots
from axla.kernels.blocks import BlockCut, plan_blocks
from axla.kernels.kind import Form, Kind, is_costly
from axla.kernels.loop import LoopKind
from axla.kernels.plan import KernelTask, Phase, Plan, accumulation_type, fitting
from axla.kernels.product import NEVER_NEGATIVE, GemmSpec, Tile, part_count
from axla.target.machine import Limits, Target, aligned


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """The plan of a matrix product. Sizes of blocks are in elements.

    `method`: tile (blocks of micro-kernel tiles), narrow (all of rhs in registers), folded (few columns: a
    vector holds several steps of k for each), columns and rows (matrix times vector, with a contiguous result
    or a contiguous k), fill (k is 0). A call computes `group` units.
    """

    method: str
    tile: Tile
    depth: int
    unit_rows: int
    unit_columns: int
    pack_lhs: bool
    pack_rhs: bool
    units: int
    group: int
    prefetch: bool = False
    lhs_bytes: int = 0
    rhs_bytes: int = 0
    partial_bytes: int = 0

    @property
    def calls(self) -> int:
        """The number of calls of the kernel, each of which computes `group` units."""
        return -(-self.units // self.group)

    def least_depth(self, spec: GemmSpec) -> int:
        """The size of the smallest block of k."""
        return min(self.depth, spec.k % self.depth or self.depth)

    @property
    def lhs_stride(self) -> int:
        """The row stride of a packed tile of lhs, in elements: longer than a row, so that rows map to
        different cache sets.
        """
        return self.depth + 16

    @property
    def region_bytes(self) -> int:
        """The bytes of scratch memory of one call. A call over [begin, end) uses region number `begin`, so
        that no two calls share one.
        """
        return self.lhs_bytes + self.rhs_bytes + self.partial_bytes

    @property
    def scratch_bytes(self) -> int:
        """The scratch memory of all calls, in bytes."""
        return self.region_bytes * self.calls


def piece_count(count: int, lanes: int) -> int:
    """The number of vectors for a row of `count` elements: whole vectors, then one each of a half, a
    quarter... as needed; `lanes` is a power of two.
    """
    return count // lanes + (count % lanes).bit_count()


def ceil_to(value: int, multiple: int) -> int:
    """`value` rounded up to a multiple."""
    return -(-value // multiple) * multiple


WAY = 4096
"""Bytes of a way of the L1 cache. Addresses at this distance map to the same set, of `WAYS` lines."""
WAYS = 8


def _share_sets(spec: GemmSpec, tile: Tile) -> bool:
    """Whether the rows of lhs in a tile evict each other from L1, since their distance is a multiple of a
    large power of two.
    """
    if spec.lhs_transposed or spec.dtype is not spec.accumulator:  # its rows are contiguous, or packed
        return False
    distance = spec.lhs_row * spec.dtype.itemsize
    return tile.rows > (WAYS - 2) * (WAY // math.gcd(distance, WAY))


def _tile_cost(spec: GemmSpec, tile: Tile, parts: int, fused: bool) -> float:
    """The estimated cycles of the whole product with these tiles, without memory access. `parts` is the
    number of registers of a vector of sums; `fused`: a multiply-add is one instruction.
    """
    sums = tile.rows * tile.vectors * parts
    # One vector multiply-add and two loads per cycle, with a latency of four; vectors of rhs come from L2,
    # factors from L1.
    step = max(sums * parts * (1 if fused else 2), (tile.rows + tile.vectors) * parts / 2, 4)
    step += 0.5 + tile.rows * parts / 32 + tile.vectors * parts / 8
    step *= 1 + _share_sets(spec, tile)
    last = 20 + 2 * sums
    # Code grows with the tile: among equally good tiles, the smaller one is chosen.
    return (
        math.ceil(spec.m / tile.rows)
        * math.ceil(spec.n / tile.columns)
        * (spec.k * step + last)
        * (1 + 0.003 * sums)
    )


@functools.lru_cache(maxsize=1024)
def choose_tile(spec: GemmSpec, target: Target) -> Tile:
    """The register tile with the least estimated time."""
    return min(_tiles(spec, target), key=lambda found: found[0])[1]


def _tiles(spec: GemmSpec, target: Target) -> Iterator[tuple[float, Tile]]:
    """Yields the tiles that fit in registers, each with its estimated time in cycles."""
    parts = part_count(spec.accumulator)
    biased = spec.is_biased(target)
    widest = max(1, target.lanes(spec.accumulator))
    # Without vectors, more than a few sums make code longer, but not faster.
    registers = target.registers if widest > 1 else 12
    lanes = widest
    while lanes >= 1:
        for vectors in range(1, 7):
            if vectors > 1 and (vectors - 1) * lanes >= spec.n:
                break
            # One register for the broadcast factor.
            most = (registers - parts - vectors * parts) // (vectors * parts)
            if biased:  # the sums of rhs, and a factor for them
                most = (registers - 2 - vectors) // vectors - 1
            if spec.accumulator.is_integer and spec.accumulator.bits == 64:
                # A 64-bit product is a dozen instructions where it is not one.
                most = min(most, 8 // vectors)
            for rows in range(1, min(most, 14, spec.m) + 1):
                tile = Tile(rows, vectors, lanes, 1 if rows * vectors * parts >= 12 else 2)
                if spec.panel % tile.columns == 0:
                    yield _tile_cost(spec, tile, parts, target.has_fma or spec.accumulator.is_integer), tile
        if lanes == 1 or spec.n >= 4 * lanes:
            break
        lanes //= 2


def _blocks(total: int, most: int, multiple: int) -> int:
    """The size of equal blocks of `total`: at most about `most`, and a multiple of `multiple` if there is
    more than one block.
    """
    count = max(1, -(-total // most))
    return total if count == 1 else min(total, ceil_to(-(-total // count), multiple))


def plan_product(spec: GemmSpec, target: Target) -> GemmPlan:
    """The plan of the product `spec` on `target`, by the first method that fits."""
    if min(spec.batch, spec.m, spec.n) < 1 or spec.k < 0:
        message = f"matrix product of {spec.batch} x {spec.m} x {spec.n} x {spec.k}: the result is empty"
        raise AssertionError(message)
    if spec.panel:
        return _plan_row(spec, target) if spec.m == 1 else _plan_tiles(spec, target)
    return (
        _plan_narrow(spec, target) or _plan_vector(spec, target) or _plan_folded(spec, target)
        or _plan_tiles(spec, target)
    )  # fmt: skip


def _group(units: int, work: int, enough: int, limits: Limits) -> int:
    """The number of units in a call, so that it has at least `enough` work and there are at most
    `limits.parts` calls. A unit has the work `work`.
    """
    return max(-(-units // limits.parts), enough // max(1, work), 1)


def _plan_narrow(spec: GemmSpec, target: Target) -> GemmPlan | None:
    """The plan of a product whose rhs fits in registers, or with k = 0; None for other products."""
    lanes = fitting(target.lanes(spec.accumulator), spec.n)
    parts = part_count(spec.accumulator)
    vectors = piece_count(spec.n, lanes) * spec.k * parts
    # Rhs may take three quarters of the registers; the rest are for factors and sums. One lane means scalar
    # code, which grows with every element.
    fits = vectors <= (min(24, target.registers * 3 // 4) if lanes > 1 else 16)
    transposes = not spec.rhs_transposed or spec.n == spec.k == lanes
    if spec.k and not (fits and transposes and spec.m > 1):
        return None
    work = spec.n * max(1, spec.k)
    rows = min(spec.m, max(8, target.limits.unit_work // 4 // work))
    units = spec.batch * -(-spec.m // rows)
    group = _group(units, rows * work, target.limits.unit_work // 4, target.limits)
    return GemmPlan(
        "narrow" if spec.k else "fill", Tile(1, 1, lanes), spec.k, rows, spec.n, False, False, units, group,
    )  # fmt: skip


def _plan_vector(spec: GemmSpec, target: Target) -> GemmPlan | None:
    """The plan of a product of a matrix and a vector; None for other products."""
    if spec.m > 1 and spec.n > 1:
        return None
    tall = spec.m > 1
    length = spec.m if tall else spec.n
    along = not spec.lhs_transposed if tall else spec.rhs_transposed
    if spec.m == spec.n == 1 and spec.rhs_row == 1:
        along = True
    lanes = fitting(target.lanes(spec.accumulator), spec.k if along else length)
    chains = 2 if spec.k >= 2 * lanes else 1
    # A matrix beyond L2 is read fastest in memory order, one row after the other.
    far = spec.numbers * length * spec.dtype.itemsize > target.caches.l2
    tile = Tile(1 if far else min(4, length), chains, lanes) if along else Tile(8, 1, lanes)
    # The sums of a unit take at most half of L1; blocks of columns keep a row of the block at least a few
    # cache lines long.
    size = spec.accumulator.itemsize
    most = max(64, target.caches.l1 // 2 // size // 64 * 64)
    wanted = max(1, min(16, spec.batch * length * spec.k // target.limits.vector_work))
    strip = min(most, ceil_to(-(-length // wanted), 512 if not along and length > 512 else 64))
    units = spec.batch * -(-length // strip)
    group = _group(units, strip * spec.k, target.limits.vector_work, target.limits)
    return GemmPlan(
        "rows" if along else "columns", tile, spec.k, 1, strip, False, False, units, group,
        partial_bytes=aligned((strip + tile.rows) * size),
    )  # fmt: skip


def _plan_folded(spec: GemmSpec, target: Target) -> GemmPlan | None:
    """The plan of a product with so few columns that at least half of a vector would be unused; None for
    other products.
    """
    lanes, size = target.lanes(spec.accumulator), spec.accumulator.itemsize
    rows = 8  # independent sums hide the latency of two multiply-adds per cycle
    steps = lanes >> (spec.n - 1).bit_length()
    packed = aligned(-(-spec.k // max(1, steps)) * lanes * size)
    fits = steps > 1 and spec.m >= rows and spec.k >= 2 * steps and packed <= target.caches.l2 // 4
    if not fits or spec.lhs_transposed or spec.accumulator.is_complex or target.launched:
        return None
    # Each unit packs rhs, so it has 64 times the rows whose computation takes as long as packing.
    high = ceil_to(max(64 * steps, target.limits.unit_work // 4 // (spec.n * spec.k)), rows)
    high = min(high, ceil_to(spec.m, rows))
    units = spec.batch * -(-spec.m // high)
    group = _group(units, high * spec.n * spec.k, target.limits.unit_work, target.limits)
    return GemmPlan(
        "folded", Tile(rows, 1, lanes), spec.k, high, spec.n, False, True, units, group, rhs_bytes=packed
    )


def row_panel(spec: GemmSpec, target: Target) -> int:
    """The number of columns of a panel, for a constant matrix that one row is multiplied by: all sums of a
    panel are in registers. 0 if no such number divides the columns.
    """
    lanes, most = target.lanes(spec.accumulator), target.registers // 4
    return next((v * lanes for v in range(most, most // 2, -1) if spec.n % (v * lanes) == 0), 0)


def _plan_row(spec: GemmSpec, target: Target) -> GemmPlan:
    """The plan of the product of one row and a matrix stored in panels, which is read once, in memory
    order.
    """
    lanes, size = target.lanes(spec.accumulator), spec.accumulator.itemsize
    panels = spec.n // spec.panel
    wanted = max(1, min(16, spec.n * spec.k // target.limits.vector_work))
    columns = -(-panels // wanted) * spec.panel
    tile, converts = Tile(1, spec.panel // lanes, lanes, 2), spec.dtype is not spec.accumulator
    found = GemmPlan("tile", tile, spec.k, 1, columns, converts, False, -(-spec.n // columns), 1)
    return replace(found, lhs_bytes=aligned(found.lhs_stride * size) if converts else 0)


def _plan_tiles(
    spec: GemmSpec, target: Target, tile: Tile | None = None, packs: bool | None = None, wider: float = 1
) -> GemmPlan:
    """The plan of a product with micro-kernel tiles. The optional arguments override the planner's choices:
    the tile, whether rhs is packed (where both are possible), and, as a factor `wider`, the width of blocks.
    """
    tile = tile or choose_tile(spec, target)
    size = spec.accumulator.itemsize
    converts = spec.dtype is not spec.accumulator
    small = spec.m * spec.n * spec.k <= 128**3
    # All of rhs stays in L2: reading it unpacked is as fast as packed, and takes no scratch memory.
    near = spec.n * spec.k * size <= target.caches.l2 // 4
    reused = spec.m >= 4 * tile.rows
    past = rows_read_past(spec, tile)
    short = past and (past > MOST_PAST or spec.k < LEAST_READ or spec.accumulator.is_complex)
    pack_rhs = converts or spec.rhs_transposed or bool(short or past and not (small or near))
    pack_rhs = pack_rhs or (packs if packs is not None else reused and not (small or near))
    # Rows of lhs are read unpacked, transposed or not: packing a tile costs more than it saves.
    pack_lhs = converts
    # Every block of k reads and writes the sums again, which costs more the more rows there are. Few rows are
    # faster with small blocks: one is packed, and the next one prefetched, during little arithmetic.
    most = 512 if spec.m >= 512 and not spec.lhs_transposed else 256
    # In a small product, too, at most a block is packed, to save scratch memory.
    whole = small and spec.k <= 2 * most or (small or near) and not pack_rhs
    depth = spec.k if whole else _blocks(spec.k, most * 4 // min(size, 8), max(8, tile.lanes))
    fitting = target.caches.l2 // 4 // (depth * size) // tile.columns
    if not (whole or pack_rhs or spec.panel or target.launched):
        # Unpacked rows of rhs are far apart. With few rows per block, prefetchers can follow them, and few
        # pages are in use.
        depth = _blocks(spec.k, 16, 8)
        fitting = max(1, 512 // tile.columns)
    columns = max(1, min(int(fitting * wider), -(-spec.n // tile.columns)))
    unit_columns, unit_rows = _units(spec, tile, columns * tile.columns, pack_rhs, target.limits)
    units = spec.batch * -(-spec.m // unit_rows) * -(-spec.n // unit_columns)
    group = _group(units, unit_rows * unit_columns * spec.k, target.limits.unit_work, target.limits)
    pack_rhs = pack_rhs and not spec.panel
    found = GemmPlan("tile", tile, depth, unit_rows, unit_columns, pack_lhs, pack_rhs, units, group)
    return replace(
        found,
        lhs_bytes=aligned(tile.rows * found.lhs_stride * size) if pack_lhs else 0,
        rhs_bytes=aligned(unit_columns * depth * size) if pack_rhs else 0,
        prefetch=pack_rhs
        and not target.launched
        and not small
        and not (spec.rhs_transposed or spec.word > 1)
        and tile.lanes > 1,
        partial_bytes=aligned(unit_rows * unit_columns * size) if depth < spec.k else 0,
    )


MOST_PAST, LEAST_READ = 3, 8
"""The highest number of last rows of rhs for which a tile would read past its end, and the least k with such
rows; otherwise rhs is packed.
"""


def rows_read_past(spec: GemmSpec, tile: Tile) -> int:
    """The number of last rows of rhs for which a tile that is wider than rhs would read past its end."""
    return -(-tile.columns // spec.n) - 1


def _units(spec: GemmSpec, tile: Tile, most_columns: int, pack_rhs: bool, limits: Limits) -> tuple[int, int]:
    """(columns, rows) of a unit: whole tiles with enough work, and at least eight units in a long product."""
    work = spec.m * spec.n * spec.k * spec.batch
    wanted = max(1, min(8, work // limits.unit_work), min(limits.parts, work >> 27))
    panels, stripes = -(-spec.n // tile.columns), -(-spec.m // tile.rows)
    columns = min(panels, most_columns // tile.columns)
    rows = stripes
    while -(-panels // columns) * -(-stripes // rows) * spec.batch < wanted:
        # Many rows should use a packed block of rhs; an unpacked one costs nothing more if rows are divided.
        long = rows * tile.rows > (512 if pack_rhs else tile.rows)
        if columns > 1 and (pack_rhs or rows == 1) and not (long and columns * tile.columns <= 256):
            columns = -(-columns // 2)
        elif rows > 1:
            rows = -(-rows // 2)
        else:
            break
    return columns * tile.columns, rows * tile.rows


@dataclass(frozen=True, slots=True)
class DotPlan(Plan):
    """The plan of a dot by the matrix product emitter, with elementwise ops on its result. `hero` is the name
    of the dot.
    """

    hero: str
    product: GemmSpec
    cut: GemmPlan | BlockCut


COLUMN = 16
"""If the result is a column of at least so many elements, functions of it are computed in another kernel."""


@dataclass(frozen=True, slots=True)
class DotKind(Kind):
    """A canonical dot, [batch, m, k] x [batch, k, n], with elementwise ops at the linear index of its result.

    `sizes`: batch, m, n, k, whether the left operand is stored as [batch, k, m], and whether the right one is
    stored as [batch, n, k]. `batch` is 1 for a dot of matrices. The operands of the hero are parameters of
    the kernel. The right one may be stored in panels, [n / panel, k, panel], or in panels of words of short
    numbers, [n / panel, k / word, panel, word]; then the left one is [m, k / word, word].
    """

    sizes: tuple[int, int, int, int, bool, bool]
    hero: Instruction

    name = "dot"
    heroes = (Dot,)
    planned = DotPlan
    emission = "axla.codegen.emit.gemm:emit"
    takes_epilogues = True
    fusion = FusionKind.OUTPUT

    def __str__(self) -> str:
        batch, m, n, k, left, right = self.sizes
        return f"dot {batch} x [{m},{k}] x [{k},{n}]{' lhs^T' * left}{' rhs^T' * right}"

    @classmethod
    def form(cls, inst: Instruction, limits: Limits) -> Form | None:
        """The form of a kernel with this dot as its hero, if the dot is canonical or reads panels; else
        None.
        """
        return (cls, inst.id) if dot_sizes(inst) or panel_sizes(inst) else None

    @classmethod
    def why_not_followed(cls, hero: Instruction, members: Iterable[Instruction]) -> str | None:
        """The reason why functions of the result are not in the kernel: a product with one column computes
        its elements one by one, which would make them slower. None if they are.
        """
        sizes = dot_sizes(hero)
        if sizes is None or sizes[2] > 1 or sizes[1] < COLUMN or not any(map(is_costly, members)):
            return None
        return "functions of a column are computed in vectors, but its elements one by one"

    @classmethod
    def why_not_joined(cls, inst: Instruction, limits: Limits) -> str:
        """The reason why a dot that is no hero is not in another kernel."""
        return "a dot is a kernel of its own"

    @classmethod
    def why_not_operand(cls, user: Instruction, numbers: Sequence[int], inst: Instruction) -> str:
        """The reason why an operand is not computed in the kernel."""
        return "operands of a dot are read many times, in memory order"

    @classmethod
    def match(cls, body: KernelBody, limits: Limits) -> DotKind | None:
        """The kernel, if it has one dot, whose operands are parameters, and elementwise ops on the result of
        the dot; else None.
        """
        dots = [i for i in body.order if isinstance(i.op, Dot)]
        hero, inside = dots[0], set(body.order)
        if len(dots) != 1 or not body.uniform or elements(hero.shape) != elements(body.roots[0].shape):
            return None
        sizes = dot_sizes(hero) or panel_sizes(hero)
        if sizes is None or any(o in inside for o in hero.operands) or not accesses(body, dots).heroes:
            return None
        return cls(sizes, hero)

    def served(self, computation: Computation, target: Target) -> Kind:
        """This kind, if the matrix product emitter supports the element types and the result is not empty;
        else a loop.
        """
        left, right, result = (shape_of(i).dtype for i in (*self.hero.operands, self.hero))
        small_integer = result.is_integer and result.bits < 8
        known = left is right and not left.is_pred and not small_integer and not result.is_pred
        by_blocks = target.local_bytes > 0 and self.sizes[3] > 0
        if dot_sizes(self.hero) is None:  # the right operand is stored in panels
            spec, rhs = self._in_panels(target), shape_of(self.hero.operands[1])
            words = rhs.rank == 4 and spec.word == rhs.dims[3] and not spec.missing
            plain = rhs.rank == 3 and left is result is accumulation_type(result) and result.is_float
            known = known and (plain or words) and not target.local_bytes
        if known and elements(self.hero.shape) and (target.blocks_products or by_blocks):
            return self
        return LoopKind(shape_of(self.hero).dims, (self.hero,))

    def plan(self, task: KernelTask, target: Target) -> DotPlan:
        """Plans the product in one phase: by blocks of threads on targets with local memory, else by one of
        the methods of `GemmPlan`.
        """
        left, result = shape_of(self.hero.operands[0]).dtype, shape_of(self.hero).dtype
        plain = GemmSpec(left, result, *self.sizes, positive=is_positive(self.hero))
        if dot_sizes(self.hero) is None:
            spec = plain = self._in_panels(target)
        else:
            spec = plain.by_words(target)
        if target.local_bytes:
            blocks = plan_blocks(spec, target)
            phase = Phase(task.name, blocks.units, 1, blocks.units > 1, blocks.threads)
            return DotPlan(self.hero.name, spec, blocks, phases=(phase,))
        cut = plan_product(spec, target)
        if spec.missing and (cut.method != "tile" or cut.least_depth(spec) == 1):  # only packing fills words
            spec, cut = plain, plan_product(plain, target)
        return self._planned(task, spec, cut)

    def _in_panels(self, target: Target) -> GemmSpec:
        """The parameters of the product for a rhs that is stored in panels."""
        left, right, result = (shape_of(i) for i in (*self.hero.operands, self.hero))
        plain = GemmSpec(left.dtype, result.dtype, *self.sizes, positive=is_positive(self.hero))
        return replace(plain.by_words(target) if right.rank == 4 else plain, panel=right.dims[2])

    def _planned(self, task: KernelTask, spec: GemmSpec, cut: GemmPlan) -> DotPlan:
        phase = Phase(task.name, cut.calls, 1, cut.calls > 1)
        return DotPlan(self.hero.name, spec, cut, phases=(phase,), scratch_bytes=cut.scratch_bytes)

    def variants(self, task: KernelTask, target: Target) -> Iterator[DotPlan]:
        """Plans of products by tiles, with other tiles, steps of k per iteration, packing and blocks.

        All give the same bits: a sum is taken along k, and begins anew with every block of k, except for
        whole tiles that are added directly to the result; then the edges of tiles matter, too.
        """
        plan = self.plan(task, target)
        spec, cut = plan.product, plan.cut
        if not isinstance(cut, GemmPlan) or cut.method != "tile":
            return
        best = [tile for _, tile in sorted(_tiles(spec, target), key=lambda found: found[0])[:MOST_TILES]]
        own = cut.tile
        unrolled = [replace(own, unroll=n) for n in (1, 2, 4)]
        asked = [(tile, packs, 1) for tile in (*best, *unrolled) for packs in (None, not cut.pack_rhs)]
        asked += [(own, None, wider) for wider in (0.25, 0.5, 2, 4)]
        straight = kernel_roots(task.computation) == (self.hero,)
        for tile, packs, wider in asked:
            found = _plan_tiles(spec, target, tile, packs, wider)
            missing = spec.missing and found.least_depth(spec) == 1
            if not missing and _sums_alike(spec, cut, found, straight):
                yield self._planned(task, spec, found)


def is_positive(hero: Instruction) -> bool:
    """Whether the first operand of a product, of signed bytes, is known to have no negative element."""
    return hero.extra.backend_config == NEVER_NEGATIVE and shape_of(hero.operands[0]).dtype is S8


MOST_TILES = 6
"""The number of tiles that tuning tries."""


def _sums_alike(spec: GemmSpec, one: GemmPlan, other: GemmPlan, straight: bool) -> bool:
    """Whether the plans `one` and `other`, which have tiles, give the same bits. `straight`: no ops follow
    the product.
    """
    if spec.accumulator.is_integer:
        return True
    if one.depth != other.depth:
        return False
    tiles = [(plan.tile.rows, plan.tile.columns) for plan in (one, other)]
    whole = all(spec.m % rows == 0 and spec.n % columns == 0 for rows, columns in tiles)
    return one.depth >= spec.k or not straight or whole or tiles[0] == tiles[1]


def dot_sizes(inst: Instruction) -> tuple[int, int, int, int, bool, bool] | None:
    """(batch, m, n, k, lhs transposed, rhs transposed) of a canonical dot; None for other instructions."""
    op = inst.op
    if not isinstance(op, Dot) or op.sparsity or len(inst.operands) != 2:
        return None
    lhs, rhs = shape_of(inst.operands[0]), shape_of(inst.operands[1])
    batches = len(op.lhs_batch_dims)
    wanted = (0,) if batches else ()
    if batches > 1 or op.lhs_batch_dims != wanted or op.rhs_batch_dims != wanted:
        return None
    if lhs.rank != batches + 2 or rhs.rank != batches + 2:
        return None
    if len(op.lhs_contracting_dims) != 1 or len(op.rhs_contracting_dims) != 1:
        return None
    left, right = op.lhs_contracting_dims[0] - batches, op.rhs_contracting_dims[0] - batches
    m, n = lhs.dims[batches + 1 - left], rhs.dims[batches + 1 - right]
    k = lhs.dims[batches + left]
    return (lhs.dims[0] if batches else 1), m, n, k, left == 0, right == 1


def panel_sizes(inst: Instruction) -> tuple[int, int, int, int, bool, bool] | None:
    """`dot_sizes` for a product of matrices whose rhs is stored in panels (see `DotKind`); None for other
    instructions.
    """
    op = inst.op
    if not isinstance(op, Dot) or op.sparsity or op.lhs_batch_dims or len(inst.operands) != 2:
        return None
    lhs, rhs = shape_of(inst.operands[0]), shape_of(inst.operands[1])
    contracted = op.lhs_contracting_dims, op.rhs_contracting_dims
    if not rhs.size or (lhs.rank, rhs.rank) not in ((2, 3), (3, 4)):
        return None
    n, k = rhs.dims[0] * rhs.dims[2], rhs.dims[1]
    if rhs.rank == 4:
        return (1, lhs.dims[0], n, k * rhs.dims[3], False, False) if contracted == ((1, 2), (1, 3)) else None
    if contracted[1] != (1,):
        return None
    (left,) = contracted[0]
    return 1, lhs.dims[1 - left], n, k, left == 0, False
