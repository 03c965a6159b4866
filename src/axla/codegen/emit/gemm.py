"""Matrix multiplication: out[b] = lhs[b] * rhs[b], with an epilogue applied where a result is stored.

`axla.kernels.gemm` decides, from sizes and Target, how the work is cut; `emit` writes the kernels of a plan:

    i32 name(ptr frame, ptr args, i64 begin, i64 end)     args: lhs, rhs, out, scratch, what the store reads

[begin, end) is a range of the plan's units. Every element's sum is taken in the same order whatever the
range, so results do not depend on how a kernel is split.
"""

from __future__ import annotations

from dataclasses import dataclass

from axla.codegen.emit.gemv import emit_gemv
from axla.codegen.emit.microkernel import Accumulation, Operand, emit_microkernel, load_parts, store_parts
from axla.codegen.emit.narrow import emit_narrow
from axla.codegen.emit.pack import (
    Packing,
    Reader,
    least,
    pack_columns,
    pack_rows,
    pack_steps,
    pack_transposed,
    pieces,
)
from axla.codegen.emit.result import ATTRIBUTES, Store, arguments, default_store, product_function, units
from axla.codegen.function import Function, Module, Ssa
from axla.codegen.value import Value
from axla.kernels.dot import GemmPlan, GemmSpec
from axla.kernels.plan import fitting
from axla.target.machine import Target

LOOPS = f"{ATTRIBUTES} noinline optnone"
"""Of the loops around the micro-kernel, where LLVM would spend more time than on it and gain nothing."""


def emit(
    module: Module, name: str, spec: GemmSpec, found: GemmPlan, target: Target, store: Store | None = None
) -> None:
    """Adds the kernel of plan `found`, and the functions it calls, to the module.

    `store(f, sum, batch, row, col, lanes)` is given each finished piece of the result, once, to do with as it
    likes; lanes run along columns, or along rows when n is 1. None stores to `out`, converted to the result
    type.
    """
    if found.method == "tile":
        _Tiles(module, name, spec, found, target, store).emit()
    elif found.method in ("narrow", "fill"):
        emit_narrow(module, name, spec, found, target, store or default_store(spec, target))
    else:
        emit_gemv(module, name, spec, found, target, store or default_store(spec, target))


@dataclass(frozen=True)
class _Block:
    """What one block of k adds to: [first, end) of rows and of columns, first and count of k."""

    batch: Ssa
    lhs: Ssa
    rhs: Ssa
    out: Ssa
    rows: tuple[Ssa, Ssa]
    cols: tuple[Ssa, Ssa]
    first: Ssa
    depth: Ssa


@dataclass(frozen=True)
class _Place:
    """Where a tile stands: its first new row and column, and the row and column it really starts at."""

    row: Ssa
    col: Ssa
    row_start: Ssa
    col_start: Ssa


class _Tiles:
    """Writes the kernel of a plan made of tiles.

        for unit:  for k block:  pack rhs;  for row tile:  pack lhs;  for column tile:  micro-kernel, finish

    The micro-kernel adds straight into `out` where nothing else has to happen to a whole tile; else it leaves
    the tile in a buffer on the stack, and `finish` adds earlier k blocks, cuts off the overlap and stores.
    """

    def __init__(
        self, module: Module, name: str, spec: GemmSpec, found: GemmPlan, target: Target, store: Store | None
    ):
        self.module, self.name, self.spec, self.plan, self.target = module, name, spec, found, target
        self.rule = Accumulation.of(spec, target)
        self.parts = self.rule.parts
        self.element = self.rule.element
        self.direct = store is None and spec.accumulator is spec.result and self.parts == 1
        self.store = store or default_store(spec, target)
        self.split = found.depth < spec.k
        self.least_depth = min(found.depth, spec.k % found.depth or found.depth)
        self.overlaps = spec.m % found.tile.rows != 0 or spec.n % found.tile.columns != 0
        self.finishes = self.overlaps or not self.direct
        # Row stride of sums of earlier k blocks: in `out` itself, or in scratch.
        self.partial_stride = spec.out_row if self.direct else found.unit_columns * self.parts
        self.partial_planes = found.unit_columns

    def emit(self) -> None:
        spec, found = self.spec, self.plan
        depths = {found.depth, self.least_depth}
        accumulates = self.split and self.direct
        emit_microkernel(
            self.module, f"{self.name}.tile", found.tile, self.rule,
            self._lhs_operand(), self._rhs_operand(), sorted(depths), accumulates,
        )  # fmt: skip
        if self.finishes:
            self._emit_finish()
        f, begin, end = product_function(self.module, self.name, LOOPS)
        f.polls = found.calls > 1
        self.buffers = arguments(f, 0, 1, 2, 3)
        self.lhs_pack = f.gep("i8", self.buffers[3], f.mul(begin, f.index(found.region_bytes)))
        self.rhs_pack = f.gep("i8", self.lhs_pack, f.index(found.lhs_bytes))
        self.partial = f.gep("i8", self.rhs_pack, f.index(found.rhs_bytes))
        if self.finishes:
            size = found.tile.rows * found.tile.columns * self.parts
            self.buffer = f.effect("ptr", f"alloca [{size} x {self.element}], align 64")
        with units(f, found, begin, end) as unit:
            stripes, blocks = -(-spec.m // found.unit_rows), -(-spec.n // found.unit_columns)
            row = f.mul(f.urem(unit.index, stripes), f.index(found.unit_rows))
            rest = f.udiv(unit.index, stripes)
            col = f.mul(f.urem(rest, blocks), f.index(found.unit_columns))
            self._emit_unit(f, f.udiv(rest, blocks), row, col)
        f.ret(f.const("i32", 0))

    def _lhs_operand(self) -> Operand:
        spec, rows = self.spec, self.plan.tile.rows
        if self.plan.pack_lhs:
            return Operand(rows, 1) if spec.lhs_transposed else Operand(1, self.plan.lhs_stride)
        stride = spec.lhs_row
        return Operand(stride, 1) if spec.lhs_transposed else Operand(1, stride)

    def _rhs_operand(self) -> Operand:
        width = self.plan.tile.columns
        if self.plan.pack_rhs:
            return Operand(width * self.parts, 1, width if self.parts == 2 else 0)
        return Operand(self.spec.rhs_row, 1)

    # -- units and blocks
    # --------------------------------------------------------------------------------------

    def _emit_unit(self, f: Function, batch: Ssa, row: Ssa, col: Ssa) -> None:
        """One unit: a block of the result of one matrix, from its first row and column on."""
        spec, found = self.spec, self.plan
        high, wide = found.unit_rows, found.unit_columns
        rows = row, least(f, f.add(row, f.index(high)), spec.m, needed=spec.m % high != 0)
        cols = col, least(f, f.add(col, f.index(wide)), spec.n, needed=spec.n % wide != 0)
        matrices = []
        for side, dtype in (("lhs", spec.dtype), ("rhs", spec.dtype), ("out", spec.result)):
            offset = f.mul(batch, f.index(getattr(spec, f"{side}_batch") * dtype.itemsize))
            matrices.append(f.gep("i8", self.buffers[len(matrices)], offset))
        lhs, rhs, out = matrices
        if not self.split:
            self._emit_block(f, _Block(batch, lhs, rhs, out, rows, cols, f.index(0), f.index(spec.k)))
            return
        with f.loop(0, spec.k, found.depth) as k:
            f.poll()
            depth = f.smin(f.sub(f.index(spec.k), k.index), f.index(found.depth))
            self._emit_block(f, _Block(batch, lhs, rhs, out, rows, cols, k.index, depth))

    def _emit_block(self, f: Function, block: _Block) -> None:
        """All tiles of a unit for one block of k."""
        spec, found, tile = self.spec, self.plan, self.plan.tile
        if found.pack_rhs:
            self._pack_rhs(f, block)
        with f.loop(*block.rows, tile.rows, nonempty=True) as i:
            row_start = least(f, i.index, spec.m - tile.rows, needed=spec.m % tile.rows != 0)
            a = self._lhs_tile(f, block, row_start)
            with f.loop(*block.cols, tile.columns, nonempty=True) as j:
                moves = spec.n > tile.columns and spec.n % tile.columns != 0
                col_start = least(f, j.index, spec.n - tile.columns, needed=moves)
                if found.pack_rhs:
                    offset = f.mul(f.sub(j.index, block.cols[0]), f.index(found.depth * self.parts))
                    b = f.gep(self.element, self.rhs_pack, offset)
                else:
                    at = f.add(f.mul(block.first, f.index(spec.rhs_row)), col_start)
                    b = f.gep(self.element, block.rhs, f.mul(at, f.index(self.parts)))
                if found.prefetch:
                    self._prefetch_rhs(f, block, f.sub(i.index, block.rows[0]), j.index)
                self._emit_tile(f, block, _Place(i.index, j.index, row_start, col_start), a, b)

    def _packing(self, side: str) -> Packing:
        reader = Reader(self.spec.dtype, self.spec.accumulator, self.target)
        return Packing(reader, getattr(self.spec, f"{side}_row"), self.target.lanes(self.spec.accumulator))

    def _pack_rhs(self, f: Function, block: _Block) -> None:
        spec, found = self.spec, self.plan
        options = {
            "rows": block.depth,
            "first": (block.first, block.cols[0]),
            "last": block.cols[1],
            "width": found.tile.columns,
            "total": spec.n,
            "depth": found.depth,
        }
        packing = self._packing("rhs")
        if spec.rhs_transposed:
            side = fitting(found.tile.lanes, self.least_depth)
            pack_transposed(f, packing, block.rhs, self.rhs_pack, block=side, **options)
        else:
            pack_columns(f, packing, block.rhs, self.rhs_pack, **options)

    def _prefetch_rhs(self, f: Function, block: _Block, row: Ssa, col: Ssa) -> None:
        """Brings this tile's share of the block of rhs that is packed next into L2."""
        spec, found, tile = self.spec, self.plan, self.plan.tile
        share = -(-found.depth // (found.unit_rows // tile.rows))
        first = f.add(block.first, block.depth)
        done = f.icmp("sge", first, f.index(spec.k))
        # After the last block of k comes the first one of the next columns; past the matrix it does no harm.
        first = f.select(done, f.index(0), first)
        col = f.add(col, f.select(done, f.index(found.unit_columns), f.index(0)))
        first = f.add(first, f.mul(f.udiv(row, tile.rows), f.index(share)))
        with f.loop(0, share) as r:
            at = f.add(f.mul(f.add(first, r.index), f.index(spec.rhs_row)), col)
            for offset in range(0, tile.columns * spec.dtype.itemsize, 64):
                # Not a gep of the matrix: an address outside of it would be poison.
                place = f.add(f.mul(at, f.index(spec.dtype.itemsize)), f.index(offset))
                address = f.gep("i8", block.rhs, place, inbounds=False)
                f.call("void", "llvm.prefetch.p0", address, *(f.const("i32", n) for n in (0, 2, 1)))

    def _lhs_tile(self, f: Function, block: _Block, row: Ssa) -> Ssa:
        """Where the micro-kernel finds its rows of lhs, packed first where the plan says so."""
        spec, found = self.spec, self.plan
        if found.pack_lhs:
            packing, rows = self._packing("lhs"), found.tile.rows
            where = {"depth": block.depth, "first": (row, block.first), "rows": rows}
            if spec.lhs_transposed:
                pack_steps(f, packing, block.lhs, self.lhs_pack, **where)
            else:
                lanes = fitting(packing.lanes, self.least_depth)
                stride = found.lhs_stride
                pack_rows(f, packing, block.lhs, self.lhs_pack, stride=stride, lanes=lanes, **where)
            return self.lhs_pack
        major, minor = (block.first, row) if spec.lhs_transposed else (row, block.first)
        index = f.add(f.mul(major, f.index(spec.lhs_row)), minor)
        return f.gep(self.element, block.lhs, f.mul(index, f.index(self.parts)))

    # -- one tile
    # ----------------------------------------------------------------------------------------------

    def _emit_tile(self, f: Function, block: _Block, place: _Place, a: Ssa, b: Ssa) -> None:
        """Computes a tile and puts it where it belongs."""
        spec, tile = self.spec, self.plan.tile
        later = f.icmp("ne", block.first, f.index(0))
        if not self.direct:
            stride = f.index(tile.columns * self.parts)
            f.call("void", f"{self.name}.tile", a, b, self.buffer, block.depth, stride, effect=True)
            self._call_finish(f, block, place, later)
            return
        index = f.add(f.mul(place.row, f.index(spec.out_row)), place.col)
        c, stride, add = f.gep(self.element, block.out, index), f.index(spec.out_row), later
        whole = f.const("i1", spec.n >= tile.columns)
        if self.overlaps and whole.constant:
            unmoved = f.icmp("eq", place.row, place.row_start), f.icmp("eq", place.col, place.col_start)
            whole = f.binary("and", *unmoved)
        c = f.select(whole, c, self.buffer) if self.overlaps else c
        stride = f.select(whole, stride, f.index(tile.columns))
        args = [a, b, c, block.depth, stride]
        if self.split:
            args.append(f.select(whole, add, f.const("i1", False)))
        f.call("void", f"{self.name}.tile", *args, effect=True)
        if whole.constant == 0:
            self._call_finish(f, block, place, later)
        elif self.overlaps:
            with f.if_(f.binary("xor", whole, f.const("i1", True))):
                self._call_finish(f, block, place, later)

    def _call_finish(self, f: Function, block: _Block, place: _Place, later: Ssa) -> None:
        spec, tile = self.spec, self.plan.tile
        skipped = f.mul(f.sub(place.row, place.row_start), f.index(tile.columns * self.parts))
        corner = f.gep(self.element, self.buffer, f.add(skipped, f.sub(place.col, place.col_start)))
        rows = f.smin(f.sub(f.index(spec.m), place.row), f.index(tile.rows))
        cols = f.smin(f.sub(f.index(spec.n), place.col), f.index(tile.columns))
        args = [f.params["frame"], f.params["args"], corner, block.batch, place.row, rows, place.col, cols]
        if self.split:
            row, col, base = place.row, place.col, block.out
            if not self.direct:
                row, col, base = f.sub(row, block.rows[0]), f.sub(col, block.cols[0]), self.partial
            at = f.add(f.mul(row, f.index(self.partial_stride)), col)
            done = f.icmp("sge", f.add(block.first, block.depth), f.index(spec.k))
            args += [f.gep(self.element, base, at), later, done]
        f.call("void", f"{self.name}.finish", *args, effect=True)

    def _emit_finish(self) -> None:
        """`finish`: adds earlier sums to the new part of a tile, then stores it or keeps it for later."""
        kind = self.module.index_type
        params = [("ptr", "frame"), ("ptr", "args"), ("ptr", "tile")]
        params += [(kind, name) for name in ("batch", "row", "rows", "col", "cols")]
        if self.split:
            params += [("ptr", "partial"), ("i1", "add"), ("i1", "done")]
        attributes = ATTRIBUTES + " noinline"
        f = Function(
            self.module, f"{self.name}.finish", "void", params, linkage="internal", attributes=attributes
        )
        tile = self.plan.tile
        with f.loop(f.index(0), f.params["rows"], 1, nonempty=True) as r:
            if self.spec.n >= tile.lanes:
                whole = f.binary("and", f.params["cols"], f.index(-tile.lanes))
                with f.loop(f.index(0), whole, tile.lanes) as c:
                    self._emit_piece(f, r.index, c.index, tile.lanes)
            # Only the last panel has a width that is not a multiple of the lanes.
            tail = self.spec.n % tile.columns % tile.lanes
            if tail:
                with f.if_(f.icmp("ne", f.params["cols"], f.index(tile.columns))):
                    start = f.sub(f.params["cols"], f.index(tail))
                    for offset, lanes in pieces(tail, tile.lanes):
                        self._emit_piece(f, r.index, f.add(start, f.index(offset)), lanes)
        f.ret()

    def _emit_piece(self, f: Function, row: Ssa, col: Ssa, lanes: int) -> None:
        """One vector of the tile: row and column within its new part."""
        dtype, width = self.spec.accumulator, self.plan.tile.columns
        at = f.add(f.mul(row, f.index(width * self.parts)), col)
        value = load_parts(f, dtype, f.params["tile"], at, lanes, width)
        if not self.split:
            self._store(f, value, row, col, lanes)
            return
        kept = f.add(f.mul(row, f.index(self.partial_stride)), col)
        planes = self.partial_planes
        branch = f.branch(f.params["add"])
        with branch.then():
            earlier = load_parts(f, dtype, f.params["partial"], kept, lanes, planes)
            added = self.rule.add(f, earlier, value)
        value = tuple(branch.merge(list(zip(added, value, strict=True))))
        branch = f.branch(f.params["done"])
        with branch.then():
            self._store(f, value, row, col, lanes)
        with branch.otherwise():
            store_parts(f, dtype, value, f.params["partial"], kept, planes)
        branch.merge([])

    def _store(self, f: Function, value: tuple[Ssa, ...], row: Ssa, col: Ssa, lanes: int) -> None:
        p = f.params
        total = Value(self.spec.accumulator, lanes, value)
        self.store(f, total, p["batch"], f.add(p["row"], row), f.add(p["col"], col), lanes)
