"""Matrix times vector: out[l] = sum over k of x[k] * matrix(k, l), for a product with one row or one column.

Both ways read the matrix once, in the order in which it lies in memory:

    columns   l is contiguous: blocks of k-steps are added to a strip of sums that stays in L1
    rows      k is contiguous: a few rows at once against x, lanes summed at the end

The strip of finished sums then goes to the store, in vectors along l.
"""

from __future__ import annotations

from axla.codegen.array import element_address
from axla.codegen.emit.microkernel import Accumulation, Parts, load_parts, store_parts
from axla.codegen.emit.pack import Reader, least, pieces
from axla.codegen.emit.result import Store, arguments, product_function, units
from axla.codegen.function import Function, Module, Ssa
from axla.codegen.value import Value
from axla.kernels.dot import GemmPlan, GemmSpec
from axla.kernels.plan import fitting
from axla.target.machine import Target


def emit_gemv(
    module: Module, name: str, spec: GemmSpec, found: GemmPlan, target: Target, store: Store
) -> None:
    """Adds the kernel of a plan whose method is columns or rows."""
    f, begin, end = product_function(module, name)
    _Gemv(f, spec, found, target, store).emit(begin, end)


class _Gemv:
    """The kernel being written: x times a matrix, whichever side the vector is on."""

    def __init__(self, f: Function, spec: GemmSpec, found: GemmPlan, target: Target, store: Store):
        self.f, self.spec, self.plan, self.store = f, spec, found, store
        self.rule = Accumulation.of(spec, target)
        self.reader = Reader(spec.dtype, spec.accumulator, target)
        self.tall = spec.n == 1 and spec.m != 1
        self.length = spec.m if self.tall else spec.n
        matrix, vector = ("lhs", "rhs") if self.tall else ("rhs", "lhs")
        self.stride = getattr(spec, f"{matrix}_row")
        # A vector whose k runs down a column has the stride of that matrix's rows.
        along = spec.rhs_transposed if self.tall else not spec.lhs_transposed
        self.step = 1 if along else getattr(spec, f"{vector}_row")
        self.batches = getattr(spec, f"{matrix}_batch"), getattr(spec, f"{vector}_batch")
        self.lanes = found.tile.lanes

    def emit(self, begin: Ssa, end: Ssa) -> None:
        f, found, spec = self.f, self.plan, self.spec
        buffers = arguments(f, 0, 1, 3)
        matrix, vector = buffers[:2] if self.tall else (buffers[1], buffers[0])
        self.sums = f.gep("i8", buffers[2], f.mul(begin, f.index(found.region_bytes)))
        with units(f, found, begin, end) as unit:
            blocks = -(-self.length // found.unit_columns)
            batch = f.udiv(unit.index, blocks)
            first = f.mul(f.urem(unit.index, blocks), f.index(found.unit_columns))
            end = least(f, f.add(first, f.index(found.unit_columns)), self.length)
            self.matrix = element_address(f, matrix, spec.dtype, f.mul(batch, f.index(self.batches[0])))
            self.vector = element_address(f, vector, spec.dtype, f.mul(batch, f.index(self.batches[1])))
            if found.method == "columns":
                self._columns(first, end)
            else:
                self._rows(first, end)
            self._finish(batch, first, end)
        f.ret(f.const("i32", 0))

    def _element(self, k: Ssa, l: Ssa, lanes: int) -> Parts:  # noqa: E741
        """`lanes` elements of the matrix, along its contiguous index."""
        major, minor = (k, l) if self.plan.method == "columns" else (l, k)
        f = self.f
        return self.reader.load(f, self.matrix, f.add(f.mul(major, f.index(self.stride)), minor), lanes)

    def _factor(self, k: Ssa) -> Parts:
        """x[k] in every lane."""
        f = self.f
        loaded = self.reader.load(f, self.vector, f.mul(k, f.index(self.step)), 1)
        return tuple(f.splat(part, self.lanes) for part in loaded)

    def _planes(self) -> int:
        """Distance of the parts of a sum in the strip."""
        return self.plan.unit_columns + self.plan.tile.rows

    # -- l contiguous ---------------------------------------------------------------------------------------

    def _columns(self, first: Ssa, end: Ssa) -> None:
        """Sums of columns [first, end): slot j is column first + j, but for the matrix's last vector.

        That one starts early enough to be whole, so its new columns stand at its end.
        """
        f, spec = self.f, self.spec
        block = min(self.plan.tile.rows, spec.k)
        whole = spec.k // block * block
        self._steps(f.index(0), block, first, end, fresh=True)
        if whole > block:
            with f.loop(block, whole, block) as k:
                self._steps(k.index, block, first, end, fresh=False)
        if spec.k > whole:
            self._steps(f.index(whole), spec.k - whole, first, end, fresh=False)

    def _steps(self, k: Ssa, count: int, first: Ssa, end: Ssa, *, fresh: bool) -> None:
        """Adds `count` steps of k to the strip, or begins it with them."""
        f, dtype = self.f, self.spec.accumulator
        factors = [self._factor(f.add(k, f.index(step))) for step in range(count)]
        with f.loop(first, end, self.lanes, nonempty=True) as loop:
            column = least(f, loop.index, self.length - self.lanes, needed=self.length % self.lanes != 0)
            slot = f.sub(loop.index, first)
            chains = [self.rule.zero(f, self.lanes)] * 2
            if not fresh:
                chains[0] = load_parts(f, dtype, self.sums, slot, self.lanes, self._planes())
            for step, factor in enumerate(factors):
                element = self._element(f.add(k, f.index(step)), column, self.lanes)
                chains[step % 2] = self.rule.multiply_add(f, factor, element, chains[step % 2])
            total = self.rule.add(f, *chains) if count > 1 else chains[0]
            store_parts(f, dtype, total, self.sums, slot, self._planes())

    # -- k contiguous ---------------------------------------------------------------------------------------

    def _rows(self, first: Ssa, end: Ssa) -> None:
        """Sums of rows [first, end), a tile of rows at a time; the last tile overlaps the one before it."""
        f, found, spec = self.f, self.plan, self.spec
        count, chains = found.tile.rows, found.tile.vectors
        stretch = self.lanes * chains
        whole = spec.k // stretch * stretch
        with f.loop(first, end, count, nonempty=True) as loop:
            row = least(f, loop.index, self.length - count, needed=self.length % count != 0)
            sums = [self.rule.zero(f, self.lanes)] * (count * chains)
            if whole:
                parts = self.rule.parts
                flat = [part for value in sums for part in value]
                with f.loop(0, whole, stretch, flat) as k:
                    sums = [tuple(k.carried[n : n + parts]) for n in range(0, len(flat), parts)]
                    sums = self._stretch(sums, row, k.index, chains)
                    k.yield_([part for value in sums for part in value])
                sums = [tuple(k.results[n : n + parts]) for n in range(0, len(flat), parts)]
            totals = self._tail(sums, row, whole)
            for r, total in enumerate(totals):
                # A tile that was moved back rewrites what stands there; the strip has room for one in front
                # of it.
                slot = f.add(f.sub(f.add(row, f.index(r)), first), f.index(count))
                store_parts(f, spec.accumulator, total, self.sums, slot, self._planes())

    def _stretch(self, sums: list[Parts], row: Ssa, k: Ssa, chains: int) -> list[Parts]:
        """Adds one stretch of k, a vector for each chain."""
        f, found = self.f, list(sums)
        count = self.plan.tile.rows
        for chain in range(chains):
            at = f.add(k, f.index(chain * self.lanes))
            factor = self._vector(at)
            for r in range(count):
                element = self._element(at, f.add(row, f.index(r)), self.lanes)
                found[r * chains + chain] = self.rule.multiply_add(
                    f, element, factor, found[r * chains + chain]
                )
        return found

    def _vector(self, k: Ssa) -> Parts:
        """x[k : k + lanes]."""
        f = self.f
        if self.step == 1:
            return self.reader.load(f, self.vector, k, self.lanes)
        lanes = [
            self.reader.load(f, self.vector, f.mul(f.add(k, f.index(lane)), f.index(self.step)), 1)
            for lane in range(self.lanes)
        ]
        found = []
        for part in range(self.rule.parts):
            whole = f.undef(self.rule.zero(f, self.lanes)[0].type)
            for number, lane in enumerate(lanes):
                whole = f.insert(whole, lane[part], number)
            found.append(whole)
        return tuple(found) if self.lanes > 1 else lanes[0]

    def _tail(self, sums: list[Parts], row: Ssa, whole: int) -> list[Parts]:
        """One scalar per row: chains and the last, partial stretch of k added, lanes summed."""
        f, found = self.f, self.plan
        count, chains = found.tile.rows, found.tile.vectors
        totals = []
        for r in range(count):
            total = sums[r * chains]
            for chain in range(1, chains):
                total = self.rule.add(f, total, sums[r * chains + chain])
            totals.append(total)
        for start in range(whole, self.spec.k, self.lanes):
            # The last vector starts early; what was added before is cleared on both sides (0 * inf is not 0).
            at = f.index(min(start, self.spec.k - self.lanes))
            seen = start - min(start, self.spec.k - self.lanes)
            factor = self._clear(self._vector(at), seen)
            for r in range(count):
                element = self._clear(self._element(at, f.add(row, f.index(r)), self.lanes), seen)
                totals[r] = self.rule.multiply_add(f, element, factor, totals[r])
        return [self._sum_lanes(total) for total in totals]

    def _clear(self, value: Parts, count: int) -> Parts:
        """`value` with its first `count` lanes zero."""
        if not count:
            return value
        f = self.f
        order = [self.lanes + lane if lane < count else lane for lane in range(self.lanes)]
        return tuple(f.shuffle(part, f.zero(part.type), order) for part in value)

    def _sum_lanes(self, value: Parts) -> Parts:
        f, half = self.f, self.lanes // 2
        while half > 1:
            low = tuple(f.shuffle(part, part, range(half)) for part in value)
            high = tuple(f.shuffle(part, part, range(half, 2 * half)) for part in value)
            value = self.rule.add(f, low, high)
            half //= 2
        if not half:
            return value
        return self.rule.add(f, *(tuple(f.extract(part, lane) for part in value) for lane in (0, 1)))

    # -- the result -----------------------------------------------------------------------------------------

    def _finish(self, batch: Ssa, first: Ssa, end: Ssa) -> None:
        """Hands the strip to the store: whole vectors, then the columns beyond them."""
        f = self.f
        columns = self.plan.method == "columns"
        front = 0 if columns else self.plan.tile.rows
        most = self.rule.target.lanes(self.spec.accumulator)
        lanes = self.lanes if columns else fitting(most, min(self.plan.unit_columns, self.length))
        tail = self.length % lanes
        size = f.sub(end, first)
        stop = f.binary("and", size, f.index(-lanes)) if tail else size
        with f.loop(f.index(0), stop, lanes) as loop:
            self._store(batch, f.add(first, loop.index), f.add(loop.index, f.index(front)), lanes)
        if not tail:
            return
        with f.if_(f.icmp("ne", stop, size)):
            # In the columns way the last vector was moved back, and its new columns stand at its end.
            moved = lanes - tail if columns else front
            for offset, width in pieces(tail, lanes):
                slot = f.add(stop, f.index(offset + moved))
                self._store(batch, f.add(f.add(first, stop), f.index(offset)), slot, width)

    def _store(self, batch: Ssa, place: Ssa, slot: Ssa, lanes: int) -> None:
        f, dtype = self.f, self.spec.accumulator
        value = load_parts(f, dtype, self.sums, slot, lanes, self._planes())
        row, col = (place, f.index(0)) if self.tall else (f.index(0), place)
        self.store(f, Value(dtype, lanes, value), batch, row, col, lanes)
