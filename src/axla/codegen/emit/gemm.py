"""Writes matrix multiplications: one canonical dot, and the fused ops to apply before its results are stored.

A kernel's steps are groups of the plan's units. Every element's sum is taken in the same order whatever the
range of a call, so results do not depend on how a kernel is split among threads. This file has products that
are cut into tiles.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from axla.codegen.array import element_address
from axla.codegen.emit.gemv import Gemv
from axla.codegen.emit.microkernel import Factor, emit_microkernel
from axla.codegen.emit.narrow import Folded, Narrow
from axla.codegen.emit.pack import pack_columns, pack_last, pack_rows, pack_steps, pack_transposed, pieces
from axla.codegen.emit.product import Matrix, Product
from axla.codegen.emit.thread_blocks import Threads, Warps
from axla.codegen.function import LlvmFunction, Ssa
from axla.codegen.kernel import KernelWriter, least
from axla.codegen.value import merged
from axla.core.dataclass import dataclass
from axla.core.dtypes import DType
from axla.kernels.dot import DotPlan, GemmPlan, rows_read_past
from axla.kernels.plan import fitting

# Without "no-builtins", LLVM would turn loops that copy and clear into calls of memcpy and memset.
ATTRIBUTES = 'nounwind noinline "no-builtins"'
LOOPS = f"{ATTRIBUTES} optnone"
"""The attributes of the function with the loops around the micro-kernel. LLVM does not optimize this
function: it would spend more time on it than on the micro-kernel, and gain nothing.
"""


def emit(k: KernelWriter, plan: DotPlan) -> None:
    """Writes the kernel of a `DotPlan`."""
    _METHODS[plan.cut.method](k, plan).emit()


@dataclass(frozen=True)
class _Block:
    """A block of the product: the rows and columns [first, end) of the result, the first step of k, and the
    number of steps of k.
    """

    batch: Ssa
    lhs: Matrix
    rhs: Matrix
    out: Ssa
    rows: tuple[Ssa, Ssa]
    cols: tuple[Ssa, Ssa]
    first: Ssa
    depth: Ssa


@dataclass(frozen=True)
class _Place:
    """The position of a tile in the result: the tile begins at `row_start` and `col_start`. A tile at the end
    overlaps the one before it; its elements are new from `row` and `col` on.
    """

    row: Ssa
    col: Ssa
    row_start: Ssa
    col_start: Ssa


class TiledProduct(Product):
    """Writes the kernel of a plan with tiles.

        for unit:  for k block:  pack rhs;  for row tile:  pack lhs;  for column tile:  micro-kernel, finish

    The micro-kernel adds directly to the output if nothing else must be done with a whole tile. Otherwise it
    leaves the tile in a buffer on the stack, and `finish` adds the sums of earlier k blocks, cuts off the
    overlap and writes the results.
    """

    cut: GemmPlan

    def __init__(self, k: KernelWriter, plan: DotPlan):
        super().__init__(k, plan)
        spec, cut = self.spec, self.cut
        self.direct = k.roots == (self.hero,) and spec.accumulator is spec.result and self.parts == 1
        self.split = cut.depth < spec.k
        self.least_depth = cut.least_depth(spec)
        self.overlaps = spec.m % self.tile.rows != 0 or spec.n % self.tile.columns != 0
        self.finishes = self.overlaps or not self.direct
        # Row stride of sums of earlier k blocks: in the output itself, or in scratch.
        self.partial_stride = spec.n if self.direct else cut.unit_columns * self.parts

    def emit(self) -> None:
        """Writes the micro-kernel and the function that runs it for all tiles of its units."""
        f, spec, cut, tile = self.f, self.spec, self.cut, self.tile
        depths = sorted({cut.depth, self.least_depth})
        emit_microkernel(
            f.module, f"{f.name}.tile", spec, self.k.target, tile, self._lhs_operand(), self._rhs_operand(),
            depths, self.split and self.direct,
        )  # fmt: skip
        if self.finishes:
            self._emit_finish()
        f.attributes, f.polls = LOOPS, cut.calls > 1 and "frame" in f.params
        if cut.scratch_bytes:
            self.lhs_pack = self.k.scratch_of_call(cut.region_bytes)
            self.rhs_pack = f.gep("i8", self.lhs_pack, cut.lhs_bytes)
            self.partial = f.gep("i8", self.rhs_pack, cut.rhs_bytes)
        if self.finishes:
            size = tile.rows * tile.columns * self.parts
            self.buffer = f.effect("ptr", f"alloca [{size} x {self.element}], align 64")
        with self.units() as unit:
            stripes, blocks = -(-spec.m // cut.unit_rows), -(-spec.n // cut.unit_columns)
            row = f.mul(f.urem(unit.index, stripes), cut.unit_rows)
            rest = f.udiv(unit.index, stripes)
            col = f.mul(f.urem(rest, blocks), cut.unit_columns)
            self._emit_unit(f.udiv(rest, blocks), row, col)

    def _lhs_operand(self) -> Factor:
        spec, rows = self.spec, self.tile.rows
        if self.cut.pack_lhs:
            return Factor(rows, 1) if spec.lhs_transposed else Factor(1, self.cut.lhs_stride)
        return Factor(spec.lhs_row, 1) if spec.lhs_transposed else Factor(1, spec.lhs_row)

    def _rhs_operand(self) -> Factor:
        width = self.tile.columns
        if self.cut.pack_rhs:
            return Factor(width * self.parts, 1, width if self.parts == 2 else 0)
        return Factor(self.spec.rhs_row, 1, past=rows_read_past(self.spec, self.tile))

    # -- units and blocks ----------------------------------------------------------------------------------

    def _emit_unit(self, batch: Ssa, row: Ssa, col: Ssa) -> None:
        """Writes one unit: the block of result matrix number `batch` that begins at row `row` and column
        `col`.
        """
        f, spec, cut = self.f, self.spec, self.cut
        high, wide = cut.unit_rows, cut.unit_columns
        rows = row, least(f, f.add(row, high), spec.m, needed=spec.m % high != 0)
        cols = col, least(f, f.add(col, wide), spec.n, needed=spec.n % wide != 0)
        lhs, rhs = self.matrices(batch)
        lhs = replace(lhs, moved=spec.is_biased(self.k.target))
        out = element_address(f, self.k.outputs[0].pointer, spec.result, f.mul(batch, spec.m * spec.n))
        if not self.split:
            self._emit_block(_Block(batch, lhs, rhs, out, rows, cols, f.index(0), f.index(spec.k)))
            return
        with f.loop(0, spec.k, cut.depth) as k:
            f.poll()
            depth = f.smin(f.sub(spec.k, k.index), cut.depth)
            self._emit_block(_Block(batch, lhs, rhs, out, rows, cols, k.index, depth))

    def _emit_block(self, block: _Block) -> None:
        """Writes the loops over all tiles of a unit, for one block of k."""
        f, spec, cut, tile = self.f, self.spec, self.cut, self.tile
        if cut.pack_rhs:
            self._pack_rhs(block)
        with f.loop(*block.rows, tile.rows, nonempty=True) as i:
            row_start = least(f, i.index, spec.m - tile.rows, needed=spec.m % tile.rows != 0)
            a = self._lhs_tile(block, row_start)
            with f.loop(*block.cols, tile.columns, nonempty=True) as j:
                moves = spec.n > tile.columns and spec.n % tile.columns != 0
                col_start = least(f, j.index, spec.n - tile.columns, needed=moves)
                if cut.pack_rhs:
                    offset = f.mul(f.sub(j.index, block.cols[0]), cut.depth * self.parts)
                    b = f.gep(self.element, self.rhs_pack, offset)
                else:
                    b = element_address(f, block.rhs.start, self.dtype, self._rhs_place(block, col_start))
                if cut.prefetch:
                    self._prefetch_rhs(block, f.sub(i.index, block.rows[0]), j.index)
                self._prefetch_followers(block, row_start, col_start)
                self._emit_tile(block, _Place(i.index, j.index, row_start, col_start), a, b)

    def _rhs_place(self, block: _Block, col: Ssa) -> Ssa:
        """The offset, in elements of rhs, of the first element that a tile reads: at the first step of k of
        the block, in column `col`.
        """
        f, panel = self.f, self.spec.panel
        if not panel:
            return block.rhs.at(block.first, col)
        inside = f.urem(col, panel)
        rows = f.mul(f.sub(col, inside), self.spec.k)
        return f.add(f.add(rows, f.mul(block.first, panel)), inside)

    def _pack_rhs(self, block: _Block) -> None:
        f, (whole, last) = self.f, self._whole_words(block)
        options = {
            "rows": whole,
            "first": (block.first, block.cols[0]),
            "last": block.cols[1],
            "width": self.tile.columns,
            "total": self.spec.n,
            "depth": self.cut.depth,
        }
        if self.spec.rhs_transposed:
            side = fitting(self.tile.lanes, self.least_depth - (last is not None))
            pack_transposed(block.rhs, self.rhs_pack, block=side, **options)
        else:
            pack_columns(block.rhs, self.rhs_pack, **options)
        if last is not None:
            with f.if_(last):
                pack_last(block.rhs, self.rhs_pack, **options)

    def _whole_words(self, block: _Block) -> tuple[Ssa, Ssa | None]:
        """(the number of whole words of k in a block, whether an incomplete word follows them). The second
        one is None if no block has an incomplete word.
        """
        f, spec = self.f, self.spec
        if not spec.missing:
            return block.depth, None
        last = f.icmp("sge", f.add(block.first, block.depth), spec.k)
        return f.sub(block.depth, f.select(last, f.index(1), f.index(0))), last

    def _prefetch_rhs(self, block: _Block, row: Ssa, col: Ssa) -> None:
        """Prefetches into L2 this tile's share of the block of rhs that is packed next."""
        f, spec, cut, tile = self.f, self.spec, self.cut, self.tile
        share = -(-cut.depth // (cut.unit_rows // tile.rows))
        first = f.add(block.first, block.depth)
        done = f.icmp("sge", first, spec.k)
        # After the last block of k comes the first one of the next columns; a prefetch past the matrix does
        # no harm.
        first = f.select(done, f.index(0), first)
        col = f.add(col, f.select(done, f.index(cut.unit_columns), f.index(0)))
        first = f.add(first, f.mul(f.udiv(row, tile.rows), share))
        with f.loop(0, share) as r:
            self._prefetch(block.rhs.start, block.rhs.at(f.add(first, r.index), col), spec.dtype, level=2)

    def _prefetch_followers(self, block: _Block, row: Ssa, col: Ssa) -> None:
        """Prefetches elements for the ops after the product, while the sums of a tile are computed: the
        tile's part of each large input or output with the size of the result.
        """
        f, spec, tile = self.f, self.spec, self.tile
        arrays = [(array, 0) for array in self.k.inputs if array.pointer not in (self.lhs, self.rhs)]
        arrays += [(array, 1) for array in self.k.outputs]
        count = spec.batch * spec.m * spec.n
        far = [
            (array, write) for array, write in arrays
            if prod(array.dims) == count and count * array.dtype.itemsize >= self.k.target.caches.l2 // 4
        ]  # fmt: skip
        if not far:
            return
        needed = f.icmp("sge", f.add(block.first, block.depth), spec.k)
        with f.if_(f.const("i1", True) if self.direct else needed), f.loop(0, tile.rows) as r:
            first = f.add(f.mul(f.add(f.mul(block.batch, spec.m), f.add(row, r.index)), spec.n), col)
            for array, write in far:
                self._prefetch(array.pointer, first, array.dtype, level=3, write=write)

    def _prefetch(self, array: Ssa, first: Ssa, dtype: DType, *, level: int, write: int = 0) -> None:
        """Prefetches one row of a tile, `Tile.columns` elements from element `first` of the array on. `level`
        is the locality and `write` the kind of access (1: write), both as LLVM's prefetch takes them.
        """
        f, size = self.f, dtype.itemsize
        for offset in range(0, self.tile.columns * size, 64):
            # Not a gep of the array: an address outside of it would be poison.
            address = f.gep("i8", array, f.add(f.mul(first, size), offset), inbounds=False)
            f.call("void", "llvm.prefetch.p0", address, *(f.const("i32", n) for n in (write, level, 1)))

    def _lhs_tile(self, block: _Block, row: Ssa) -> Ssa:
        """The address of the rows of lhs from `row` on that the micro-kernel reads, at the first step of a
        block. Packs the rows first if the plan says so.
        """
        f, spec, lhs = self.f, self.spec, block.lhs
        if not self.cut.pack_lhs:
            major, minor = (block.first, row) if spec.lhs_transposed else (row, block.first)
            return element_address(f, lhs.start, self.dtype, lhs.at(major, minor))
        whole, last = self._whole_words(block)
        where = {"depth": whole, "first": (row, block.first), "rows": self.tile.rows}
        if spec.lhs_transposed:
            pack_steps(lhs, self.lhs_pack, **where)
        else:
            lanes = fitting(self.lanes, self.least_depth - (last is not None))
            pack_rows(lhs, self.lhs_pack, stride=self.cut.lhs_stride, lanes=lanes, **where)
        if last is not None:
            operand = self._lhs_operand()
            with f.if_(last), f.loop(0, self.tile.rows) as r:
                value = lhs.last(f.add(block.first, whole), f.add(row, r.index))
                at = f.add(f.mul(whole, operand.step_k), f.mul(r.index, operand.step_other))
                self.store(value, self.lhs_pack, at, 0)
        return self.lhs_pack

    # -- one tile ------------------------------------------------------------------------------------------

    def _emit_tile(self, block: _Block, place: _Place, a: Ssa, b: Ssa) -> None:
        """Computes the tile at `place` for one block of k, and stores it. `a` and `b` are the addresses of
        its factors.
        """
        f, spec, tile = self.f, self.spec, self.tile
        later = f.icmp("ne", block.first, 0)
        if not self.direct:
            stride = f.index(tile.columns * self.parts)
            f.call("void", f"{f.name}.tile", a, b, self.buffer, block.depth, stride, effect=True)
            self._call_finish(block, place, later)
            return
        index = f.add(f.mul(place.row, spec.n), place.col)
        c, stride, add = f.gep(self.element, block.out, index), f.index(spec.n), later
        whole = f.const("i1", spec.n >= tile.columns)
        if self.overlaps and whole.constant:
            unmoved = f.icmp("eq", place.row, place.row_start), f.icmp("eq", place.col, place.col_start)
            whole = f.binary("and", *unmoved)
        c = f.select(whole, c, self.buffer) if self.overlaps else c
        stride = f.select(whole, stride, f.index(tile.columns))
        args = [a, b, c, block.depth, stride]
        if self.split:
            args.append(f.select(whole, add, f.const("i1", False)))
        f.call("void", f"{f.name}.tile", *args, effect=True)
        if whole.constant == 0:
            self._call_finish(block, place, later)
        elif self.overlaps:
            with f.if_(f.binary("xor", whole, f.const("i1", True))):
                self._call_finish(block, place, later)

    def _call_finish(self, block: _Block, place: _Place, later: Ssa) -> None:
        f, spec, tile = self.f, self.spec, self.tile
        skipped = f.mul(f.sub(place.row, place.row_start), tile.columns * self.parts)
        corner = f.gep(self.element, self.buffer, f.add(skipped, f.sub(place.col, place.col_start)))
        rows = f.smin(f.sub(spec.m, place.row), tile.rows)
        cols = f.smin(f.sub(spec.n, place.col), tile.columns)
        handed = self.k.share.handed().values()
        args = [*handed, corner, block.batch, place.row, rows, place.col, cols]
        if self.split:
            row, col, base = place.row, place.col, block.out
            if not self.direct:
                row, col, base = f.sub(row, block.rows[0]), f.sub(col, block.cols[0]), self.partial
            at = f.add(f.mul(row, self.partial_stride), col)
            done = f.icmp("sge", f.add(block.first, block.depth), spec.k)
            args += [f.gep(self.element, base, at), later, done]
        f.call("void", f"{f.name}.finish", *args, effect=True)

    def _emit_finish(self) -> None:
        """Writes `finish`: adds earlier sums to a tile, then writes its results, or stores the sums for the
        next block.
        """
        module, tile = self.f.module, self.tile
        kind = module.index_type
        params = [("ptr", name) for name in (*self.k.share.handed(), "tile")]
        params += [(kind, name) for name in ("batch", "row", "rows", "col", "cols")]
        if self.split:
            params += [("ptr", "partial"), ("i1", "add"), ("i1", "done")]
        name = f"{self.f.name}.finish"
        f = LlvmFunction(module, name, "void", params, linkage="internal", attributes=ATTRIBUTES)
        inner, cols = self.inside(f), f.params["cols"]
        with f.loop(0, f.params["rows"], 1, nonempty=True) as r:
            if self.spec.n >= tile.lanes:
                whole = f.binary("and", cols, f.index(-tile.lanes))
                with f.loop(0, whole, tile.lanes) as c:
                    self._emit_piece(inner, r.index, c.index, tile.lanes)
            # Only the last panel has a width that is not a multiple of the lanes.
            tail = self.spec.n % tile.columns % tile.lanes
            if tail:
                with f.if_(f.icmp("ne", cols, tile.columns)):
                    start = f.sub(cols, tail)
                    for offset, lanes in pieces(tail, tile.lanes):
                        self._emit_piece(inner, r.index, f.add(start, offset), lanes)
        f.ret()

    def _emit_piece(self, inner: Product, row: Ssa, col: Ssa, lanes: int) -> None:
        """Finishes `lanes` sums of the tile, at `row` and `col` of its new part: adds the sums of earlier k
        blocks, then computes and stores the results, or stores the sums if a k block follows.
        """
        f, p, width = inner.f, inner.f.params, self.tile.columns
        value = inner.load(p["tile"], f.add(f.mul(row, width * self.parts), col), lanes, width)
        place = p["batch"], f.add(p["row"], row), f.add(p["col"], col)
        if not self.split:
            inner.give(value, *place)
            return
        kept = f.add(f.mul(row, self.partial_stride), col)
        branch = f.branch(p["add"])
        with branch.then():
            added = inner.add(inner.load(p["partial"], kept, lanes, self.cut.unit_columns), value)
        (value,) = merged(branch, [added], [value])
        branch = f.branch(p["done"])
        with branch.then():
            inner.give(value, *place)
        with branch.otherwise():
            inner.store(value, p["partial"], kept, self.cut.unit_columns)
        branch.merge([])


_METHODS: dict[str, type[TiledProduct | Gemv | Narrow | Folded | Threads | Warps]] = {
    "tile": TiledProduct, "rows": Gemv, "columns": Gemv, "narrow": Narrow, "fill": Narrow, "folded": Folded,
    "threads": Threads, "warps": Warps,
}  # fmt: skip
