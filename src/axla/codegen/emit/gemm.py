"""Matrix multiplication: out[b] = lhs[b] * rhs[b], with an epilogue applied where a result is stored.

`plan` decides, from sizes and Target, how the work is cut; `emit` writes the kernels of a plan:

    i32 name(ptr frame, ptr args, i64 begin, i64 end)      args: lhs, rhs, out, scratch, whatever the store reads

[begin, end) is a range of the plan's units. Every element's sum is taken in the same order whatever the range, so results
do not depend on how a kernel is split.
"""

from __future__ import annotations

from dataclasses import dataclass

from axla.codegen.emit.gemm_plan import GemmPlan, GemmSpec, lhs_stride, plan
from axla.codegen.emit.gemv import emit_gemv
from axla.codegen.emit.microkernel import Accumulation, Operand, emit_microkernel, load_parts, store_parts
from axla.codegen.emit.narrow import emit_narrow
from axla.codegen.emit.pack import (
    Packing,
    Reader,
    floor_power,
    least,
    pack_columns,
    pack_rows,
    pack_steps,
    pack_transposed,
    pieces,
)  # fmt: skip
from axla.codegen.emit.result import Store, default_store
from axla.codegen.function import Function, Module, Ssa
from axla.codegen.target import Target
from axla.codegen.value import Value

__all__ = ["GemmPlan", "GemmSpec", "Store", "emit", "plan"]

ATTRIBUTES = 'nounwind "no-builtins"'
OUTLINED = ATTRIBUTES + " noinline"


def emit(
    module: Module, name: str, spec: GemmSpec, found: GemmPlan, target: Target, store: Store | None = None
) -> None:
    """Adds the kernels of plan `found`, and the functions they call, to the module.

    `store(f, sum, batch, row, col, lanes)` is given each finished piece of the result, once, to do with as it likes; lanes
    run along columns, or along rows when n is 1. None stores to `out`, converted to the result type.
    """
    if found.method == "tile":
        _Tiles(module, name, spec, found, target, store).emit()
    elif found.method in ("narrow", "fill"):
        emit_narrow(module, name, spec, found, target, store or default_store(spec, target))
    else:
        emit_gemv(module, name, spec, found, target, store or default_store(spec, target))


@dataclass(frozen=True)
class _Place:
    """Where a tile stands: indices of its first new row and column, and of the row and column it really starts at."""

    batch: Ssa
    row: Ssa
    col: Ssa
    row_start: Ssa
    col_start: Ssa


class _Tiles:
    """Writes the kernel of a plan made of tiles.

        for unit:  for k block:  pack rhs;  for row tile:  pack lhs;  for column tile:  micro-kernel, finish

    The micro-kernel adds straight into `out` where nothing else has to happen to a whole tile; else it leaves the tile in a
    buffer on the stack and `finish` adds earlier k blocks, cuts off the overlap and stores.
    """

    def __init__(
        self, module: Module, name: str, spec: GemmSpec, found: GemmPlan, target: Target, store: Store | None
    ):
        self.module, self.name, self.spec, self.plan, self.target = module, name, spec, found, target
        self.rule = Accumulation(spec.accumulator, target)
        self.parts = self.rule.parts
        self.element = self.rule.element
        tile = found.tile
        self.direct = store is None and spec.accumulator is spec.result and self.parts == 1
        self.store = store or default_store(spec, target)
        self.split = found.depth < spec.k
        self.overlaps = spec.m % tile.rows != 0 or spec.n % tile.columns != 0
        self.finishes = self.overlaps or not self.direct
        # Row stride of sums of earlier k blocks: in `out` itself, or in scratch.
        self.partial_stride = spec.stride("out_row") if self.direct else found.unit_columns * self.parts
        self.partial_planes = found.unit_columns

    def emit(self) -> None:
        spec, found = self.spec, self.plan
        depths = [found.depth] * (spec.k // found.depth)
        if spec.k % found.depth:
            depths.append(spec.k % found.depth)
        emit_microkernel(
            self.module, f"{self.name}.tile", found.tile, self.rule, self._lhs_operand(), self._rhs_operand(), depths,
            self.split and self.direct,
        )  # fmt: skip
        if self.finishes:
            self._emit_finish()
        self._emit_kernel(min(depths))

    def _lhs_operand(self) -> Operand:
        spec, rows = self.spec, self.plan.tile.rows
        if self.plan.pack_lhs:
            return Operand(rows, 1) if spec.lhs_transposed else Operand(1, lhs_stride(self.plan))
        stride = spec.stride("lhs_row")
        return Operand(stride, 1) if spec.lhs_transposed else Operand(1, stride)

    def _rhs_operand(self) -> Operand:
        width = self.plan.tile.columns
        if self.plan.pack_rhs:
            return Operand(width * self.parts, 1, width if self.parts == 2 else 0)
        return Operand(self.spec.stride("rhs_row"), 1)

    # -- the kernel: units, blocks, tiles -------------------------------------------------------------------

    def _emit_kernel(self, least_depth: int) -> None:
        spec, found = self.spec, self.plan
        params = [("ptr", "frame"), ("ptr", "args"), ("i64", "begin"), ("i64", "end")]
        f = Function(self.module, self.name, "i32", params, attributes=ATTRIBUTES)
        kind = self.module.index_type
        begin, end = (f.cast("trunc", f.params[p], kind) for p in ("begin", "end"))
        self.buffers = [f.load("ptr", f.gep("ptr", f.params["args"], f.index(n)), 8) for n in range(4)]
        self.lhs_pack = f.gep("i8", self.buffers[3], f.mul(begin, f.index(found.region_bytes)))
        self.rhs_pack = f.gep("i8", self.lhs_pack, f.index(found.lhs_bytes))
        self.partial = f.gep("i8", self.rhs_pack, f.index(found.rhs_bytes))
        if self.finishes:
            size = found.tile.rows * found.tile.columns * self.parts
            self.buffer = f.effect("ptr", f"alloca [{size} x {self.element}], align 64")
        group = f.index(found.group)
        last = f.smin(f.mul(end, group), f.index(found.units))
        with f.loop(f.mul(begin, group), last) as unit:
            stripes, blocks = -(-spec.m // found.unit_rows), -(-spec.n // found.unit_columns)
            row = f.mul(f.urem(unit.index, stripes), f.index(found.unit_rows))
            rest = f.udiv(unit.index, stripes)
            col = f.mul(f.urem(rest, blocks), f.index(found.unit_columns))
            self._emit_unit(f, f.udiv(rest, blocks), row, col, least_depth)
        f.ret(f.const("i32", 0))

    def _emit_unit(self, f: Function, batch: Ssa, row: Ssa, col: Ssa, least_depth: int) -> None:
        """One unit: a block of the result of one matrix, from its first row and column on."""
        spec, found = self.spec, self.plan
        lhs = f.gep(*self._matrix(f, 0, batch))
        rhs = f.gep(*self._matrix(f, 1, batch))
        row_end = least(f, f.add(row, f.index(found.unit_rows)), spec.m, needed=spec.m % found.unit_rows != 0)
        col_end = least(
            f, f.add(col, f.index(found.unit_columns)), spec.n, needed=spec.n % found.unit_columns != 0
        )
        if not self.split:
            self._emit_block(
                f,
                (lhs, rhs),
                batch,
                (row, row_end),
                (col, col_end),
                (f.index(0), f.index(spec.k)),
                least_depth,
            )
            return
        with f.loop(0, spec.k, found.depth) as k:
            depth = f.smin(f.sub(f.index(spec.k), k.index), f.index(found.depth))
            self._emit_block(
                f, (lhs, rhs), batch, (row, row_end), (col, col_end), (k.index, depth), least_depth
            )

    def _matrix(self, f: Function, side: int, batch: Ssa) -> tuple[str, Ssa, Ssa]:
        """(element, pointer, index) of a matrix of the batch: the arguments of `gep`."""
        name, dtype = (
            ("lhs_batch", self.spec.dtype),
            ("rhs_batch", self.spec.dtype),
            ("out_batch", self.spec.result),
        )[side]
        offset = f.mul(batch, f.index(self.spec.stride(name) * dtype.itemsize))
        return "i8", self.buffers[side], offset

    def _emit_block(
        self, f: Function, matrices: tuple[Ssa, Ssa], batch: Ssa, rows: tuple[Ssa, Ssa], cols: tuple[Ssa, Ssa],
        depths: tuple[Ssa, Ssa], least_depth: int,
    ) -> None:  # fmt: skip
        """All tiles of a unit for one block of k; `depths` is (first k, how many)."""
        spec, found, tile = self.spec, self.plan, self.plan.tile
        lhs, rhs = matrices
        first, depth = depths
        if found.pack_rhs:
            self._pack_rhs(f, rhs, cols, depths, least_depth)
        with f.loop(rows[0], rows[1], tile.rows, nonempty=True) as i:
            row_start = least(f, i.index, spec.m - tile.rows, needed=spec.m % tile.rows != 0)
            a = self._lhs_tile(f, lhs, row_start, depths, least_depth)
            with f.loop(cols[0], cols[1], tile.columns, nonempty=True) as j:
                overlaps = spec.n > tile.columns and spec.n % tile.columns != 0
                col_start = least(f, j.index, spec.n - tile.columns, needed=overlaps)
                if found.pack_rhs:
                    offset = f.mul(f.sub(j.index, cols[0]), f.index(found.depth * self.parts))
                    b = f.gep(self.element, self.rhs_pack, offset)
                else:
                    at = f.add(f.mul(first, f.index(spec.stride("rhs_row"))), col_start)
                    b = f.gep(self.element, rhs, f.mul(at, f.index(self.parts)))
                if found.prefetch:
                    self._prefetch_rhs(f, rhs, f.sub(i.index, rows[0]), j.index, depths)
                place = _Place(batch, i.index, j.index, row_start, col_start)
                self._emit_tile(f, (a, b), place, (rows, cols), depths)

    def _packing(self, side: str) -> Packing:
        reader = Reader(self.spec.dtype, self.spec.accumulator, self.target)
        return Packing(reader, self.spec.stride(f"{side}_row"), self.target.lanes(self.spec.accumulator))

    def _pack_rhs(
        self, f: Function, rhs: Ssa, cols: tuple[Ssa, Ssa], depths: tuple[Ssa, Ssa], least_depth: int
    ) -> None:
        spec, found = self.spec, self.plan
        options = {
            "rows": depths[1], "first": (depths[0], cols[0]), "last": cols[1], "width": found.tile.columns,
            "total": spec.n, "depth": found.depth,
        }  # fmt: skip
        if spec.rhs_transposed:
            block = min(floor_power(least_depth), found.tile.lanes)
            pack_transposed(f, self._packing("rhs"), rhs, self.rhs_pack, block=block, **options)
        else:
            pack_columns(f, self._packing("rhs"), rhs, self.rhs_pack, **options)

    def _prefetch_rhs(self, f: Function, rhs: Ssa, row: Ssa, col: Ssa, depths: tuple[Ssa, Ssa]) -> None:
        """Brings the share of this tile of the rhs block that is packed next into L2 while the tile is computed."""
        spec, found, tile = self.spec, self.plan, self.plan.tile
        share = -(-found.depth // (found.unit_rows // tile.rows))
        first = f.add(depths[0], depths[1])
        done = f.icmp("sge", first, f.index(spec.k))
        # After the last block of k comes the first one of the next unit's columns; past the matrix it does no harm.
        first = f.select(done, f.index(0), first)
        col = f.add(col, f.select(done, f.index(found.unit_columns), f.index(0)))
        first = f.add(first, f.mul(f.udiv(row, tile.rows), f.index(share)))
        self.module.declare("llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        with f.loop(0, share) as r:
            at = f.add(f.mul(f.add(first, r.index), f.index(spec.stride("rhs_row"))), col)
            line = f.gep("i8", rhs, f.mul(at, f.index(spec.dtype.itemsize)))
            for offset in range(0, tile.columns * spec.dtype.itemsize, 64):
                address = f.gep("i8", line, f.index(offset))
                f.line(f"call void @llvm.prefetch.p0(ptr {address.text}, i32 0, i32 2, i32 1)")

    def _lhs_tile(self, f: Function, lhs: Ssa, row: Ssa, depths: tuple[Ssa, Ssa], least_depth: int) -> Ssa:
        """Where the micro-kernel finds its rows of lhs, packed first where the plan says so."""
        spec, found = self.spec, self.plan
        first, depth = depths
        if found.pack_lhs:
            packing = self._packing("lhs")
            if spec.lhs_transposed:
                pack_steps(
                    f, packing, lhs, self.lhs_pack, depth=depth, first=(row, first), rows=found.tile.rows
                )
            else:
                lanes = min(floor_power(least_depth), packing.lanes)
                pack_rows(
                    f, packing, lhs, self.lhs_pack, depth=depth, first=(row, first), rows=found.tile.rows,
                    stride=lhs_stride(found), lanes=lanes,
                )  # fmt: skip
            return self.lhs_pack
        major, minor = (first, row) if spec.lhs_transposed else (row, first)
        index = f.add(f.mul(major, f.index(spec.stride("lhs_row"))), minor)
        return f.gep(self.element, lhs, f.mul(index, f.index(self.parts)))

    # -- one tile -------------------------------------------------------------------------------------------

    def _emit_tile(
        self, f: Function, factors: tuple[Ssa, Ssa], place: _Place, unit: tuple[tuple[Ssa, Ssa], tuple[Ssa, Ssa]],
        depths: tuple[Ssa, Ssa],
    ) -> None:  # fmt: skip
        spec, tile = self.spec, self.plan.tile
        first, depth = depths
        later = f.icmp("ne", first, f.index(0))
        c, stride, add = None, None, later
        whole = f.const("i1", not self.overlaps)
        if self.direct:
            out = f.gep(*self._matrix(f, 2, place.batch))
            index = f.add(f.mul(place.row, f.index(spec.stride("out_row"))), place.col)
            c, stride = f.gep(self.element, out, index), f.index(spec.stride("out_row"))
            if self.overlaps:
                same = f.icmp("eq", place.row, place.row_start), f.icmp("eq", place.col, place.col_start)
                whole = f.binary("and", *same)
                if spec.n < tile.columns:
                    whole = f.const("i1", False)
                c = f.select(whole, c, self.buffer)
                stride = f.select(whole, stride, f.index(tile.columns))
                add = f.select(whole, later, f.const("i1", False)) if self.split else later
        else:
            c, stride = self.buffer, f.index(tile.columns * self.parts)
        args = [*factors, c, depth, stride]
        if self.split and self.direct:
            args.append(add)
        f.call("void", f"{self.name}.tile", args, effect=True)
        if not self.finishes:
            return
        if not self.direct or whole.constant == 0:
            self._call_finish(f, place, unit, depths, later)
            return
        with f.if_(f.binary("xor", whole, f.const("i1", True))):
            self._call_finish(f, place, unit, depths, later)

    def _call_finish(
        self, f: Function, place: _Place, unit: tuple[tuple[Ssa, Ssa], tuple[Ssa, Ssa]], depths: tuple[Ssa, Ssa],
        later: Ssa,
    ) -> None:  # fmt: skip
        spec, tile = self.spec, self.plan.tile
        (row_first, row_end), (col_first, col_end) = unit
        del row_end, col_end
        skipped = f.mul(f.sub(place.row, place.row_start), f.index(tile.columns * self.parts))
        corner = f.gep(self.element, self.buffer, f.add(skipped, f.sub(place.col, place.col_start)))
        rows = f.smin(f.sub(f.index(spec.m), place.row), f.index(tile.rows))
        cols = f.smin(f.sub(f.index(spec.n), place.col), f.index(tile.columns))
        args = [f.params["frame"], f.params["args"], corner, place.batch, place.row, rows, place.col, cols]
        if self.split:
            if self.direct:
                out = f.gep(*self._matrix(f, 2, place.batch))
                at = f.add(f.mul(place.row, f.index(self.partial_stride)), place.col)
                partial = f.gep(self.element, out, at)
            else:
                at = f.mul(f.sub(place.row, row_first), f.index(self.partial_stride))
                partial = f.gep(self.element, self.partial, f.add(at, f.sub(place.col, col_first)))
            done = f.icmp("sge", f.add(depths[0], depths[1]), f.index(spec.k))
            args += [partial, later, done]
        f.call("void", f"{self.name}.finish", args, effect=True)

    # -- finishing a tile -----------------------------------------------------------------------------------

    def _emit_finish(self) -> None:
        """`finish`: adds earlier sums to the part of a tile that is new, then stores it, or keeps it for later."""
        kind = self.module.index_type
        params = [("ptr", "frame"), ("ptr", "args"), ("ptr", "tile"), (kind, "batch"), (kind, "row"), (kind, "rows"),
                  (kind, "col"), (kind, "cols")]  # fmt: skip
        if self.split:
            params += [("ptr", "partial"), ("i1", "add"), ("i1", "done")]
        f = Function(
            self.module, f"{self.name}.finish", "void", params, linkage="internal", attributes=OUTLINED
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
                if self.spec.n < tile.columns:
                    self._emit_tail(f, r.index, tail)
                else:
                    ragged = f.icmp("ne", f.params["cols"], f.index(tile.columns))
                    with f.if_(ragged):
                        self._emit_tail(f, r.index, tail)
        f.ret()

    def _emit_tail(self, f: Function, row: Ssa, tail: int) -> None:
        start = f.sub(f.params["cols"], f.index(tail))
        for offset, lanes in pieces(tail, self.plan.tile.lanes):
            self._emit_piece(f, row, f.add(start, f.index(offset)), lanes)

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
            added = self.rule.add(f, load_parts(f, dtype, f.params["partial"], kept, lanes, planes), value)
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
