"""Writes matrix products whose result has few columns.

With few steps of k, all of rhs stays in registers while rows are processed: batches of small matrices, and
tall, narrow ones. With many, a vector holds several steps of k for each column. Also writes the zeros of
products with k = 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.codegen.emit.pack import pieces
from axla.codegen.emit.product import Matrix, Product
from axla.codegen.emit.transpose_registers import transposed
from axla.codegen.function import Ssa
from axla.codegen.kernel import least
from axla.codegen.value import Value, parts_of, rebuilt
from axla.kernels.dot import GemmPlan


class Narrow(Product):
    """Writes the kernel of a plan whose method is narrow or fill."""

    cut: GemmPlan

    def emit(self) -> None:
        """Writes the loop over units; a unit is some rows of the result."""
        f, spec, cut = self.f, self.spec, self.cut
        with self.units() as unit:
            blocks = -(-spec.m // cut.unit_rows)
            batch = f.udiv(unit.index, blocks)
            first = f.mul(f.urem(unit.index, blocks), cut.unit_rows)
            stop = least(f, f.add(first, cut.unit_rows), spec.m, needed=spec.m % cut.unit_rows != 0)
            (self.fill if cut.method == "fill" else self.multiply)(batch, first, stop)

    def multiply(self, batch: Ssa, first: Ssa, stop: Ssa) -> None:
        """Computes rows [first, stop) of the result, each from its row of lhs and from rhs in registers."""
        spec, values = self.spec, self.values
        lhs, rhs = self.matrices(batch)
        spans = pieces(spec.n, self.tile.lanes)
        factors = [self.columns(rhs, start, lanes) for start, lanes in spans]
        with self.f.loop(first, stop, nonempty=True) as row:
            scalars = [lhs.load(*self.stored(row.index, k), 1) for k in range(spec.k)]
            for (start, lanes), columns in zip(spans, factors, strict=True):
                total = self.zero(lanes)
                for scalar, column in zip(scalars, columns, strict=True):
                    total = self.multiply_add(values.splat(scalar, lanes), column, total)
                self.give(total, batch, row.index, start)

    def stored(self, row: Ssa, k: int) -> tuple[Ssa | int, Ssa | int]:
        """(row, column) in memory of the element of lhs for a row of the result and a step of k."""
        return (k, row) if self.spec.lhs_transposed else (row, k)

    def columns(self, rhs: Matrix, start: int, lanes: int) -> list[Value]:
        """Loads columns [start, start+lanes) of rhs: one vector for each step of k."""
        if not self.spec.rhs_transposed:
            return [rhs.load(k, start, lanes) for k in range(self.spec.k)]
        return transposed(self.f, [rhs.load(start + lane, 0, self.spec.k) for lane in range(lanes)])

    def fill(self, batch: Ssa, first: Ssa, stop: Ssa) -> None:
        """Computes rows [first, stop) of the result from empty sums, for k = 0."""
        f, lanes, n = self.f, self.tile.lanes, self.spec.n
        with f.loop(first, stop, nonempty=True) as row:
            whole = n // lanes * lanes
            if whole:
                with f.loop(0, whole, lanes) as col:
                    self.give(self.zero(lanes), batch, row.index, col.index)
            for start, width in pieces(n - whole, lanes):
                self.give(self.zero(width), batch, row.index, whole + start)


class Folded(Product):
    """Writes the kernel of a plan with the method `folded`.

    Lane j * steps + t of a vector is step t of column j, in the packed rhs and in the sums, which are added
    over t at the end. The other factor is `steps` adjacent elements of a row of lhs, repeated for each
    column.
    """

    cut: GemmPlan

    def emit(self) -> None:
        """Writes the loop over units, after rhs is packed; a unit is some rows of the result."""
        f, spec, cut = self.f, self.spec, self.cut
        self.columns = 1 << (spec.n - 1).bit_length()
        self.steps = self.lanes // self.columns
        self.whole = spec.k // self.steps * self.steps
        self.packed = self.k.scratch_of_call(cut.region_bytes)
        high, rows = cut.unit_rows, self.tile.rows
        with self.units() as unit:
            blocks = -(-spec.m // high)
            batch = f.udiv(unit.index, blocks)
            first = f.mul(f.urem(unit.index, blocks), high)
            stop = least(f, f.add(first, high), spec.m // rows * rows, needed=spec.m % high != 0)
            lhs, rhs = self.matrices(batch)
            self.pack(rhs)
            with f.loop(first, stop, rows) as row:
                self.tile_of(lhs, batch, row.index, rows)
            if spec.m % rows:  # the matrix ends in the last unit
                with f.if_(f.icmp("sge", f.add(first, high), spec.m)):
                    self.tile_of(lhs, batch, f.index(spec.m // rows * rows), spec.m % rows)

    def pack(self, rhs: Matrix) -> None:
        """Packs all of rhs. The last vector starts early; the steps in it that were packed before are
        zero.
        """
        f, spec, steps = self.f, self.spec, self.steps
        with f.loop(0, self.whole, steps) as k:
            self.store(self.folded(rhs, k.index, 0), self.packed, f.mul(k.index, self.columns), 0)
        if self.whole < spec.k:
            last = self.folded(rhs, f.index(spec.k - steps), steps - (spec.k - self.whole))
            self.store(last, self.packed, self.whole * self.columns, 0)

    def folded(self, rhs: Matrix, k: Ssa, skipped: int) -> Value:
        """A packed vector: all columns of rhs for `steps` steps of k, from `k` on. The first `skipped` steps
        are zero.
        """
        f, values, n, steps = self.f, self.values, self.spec.n, self.steps
        zero = self.zero(self.lanes)
        places = [(column, step) for column in range(self.columns) for step in range(steps)]
        if self.spec.rhs_transposed:
            parts = [rhs.load(column, k, steps) for column in range(n)]
            at = {place: place[0] * steps + place[1] for place in places}
        else:
            parts = [rhs.load(f.add(k, step), 0, n) for step in range(steps)]
            at = {place: place[1] * n + place[0] for place in places}
        while len(parts) > 1:
            odd, size = parts[len(parts) // 2 * 2 :], parts[0].lanes
            pairs = zip(parts[::2], parts[1::2], strict=False)
            parts = [values.shuffle(a, b, range(2 * size)) for a, b in pairs]
            parts += [values.shuffle(one, one, range(2 * size)) for one in odd]
        (found,) = parts
        found = values.shuffle(found, found, [min(lane, found.lanes - 1) for lane in range(self.lanes)])
        order = [
            at[place] if place[0] < n and place[1] >= skipped else self.lanes + lane
            for lane, place in enumerate(places)
        ]
        return values.shuffle(found, zero, order)

    def tile_of(self, lhs: Matrix, batch: Ssa, row: Ssa, rows: int) -> None:
        """Computes `rows` rows of the result, from `row` on."""
        f, spec, steps = self.f, self.spec, self.steps
        start = [self.zero(self.lanes)] * rows
        with f.loop(0, self.whole, steps, parts_of(start)) as k:
            k.yield_(parts_of(self.added(lhs, row, k.index, 0, rebuilt(start, k.carried))))
        sums = rebuilt(start, k.results)
        if self.whole < spec.k:
            sums = self.added(lhs, row, f.index(spec.k - steps), steps - (spec.k - self.whole), sums)
        for number, total in enumerate(sums):
            while total.lanes > self.columns:
                halves = (self.values.shuffle(total, total, range(at, total.lanes, 2)) for at in range(2))
                total = self.add(*halves)
            for start_, lanes in pieces(spec.n, self.columns):
                part = total
                if lanes < total.lanes:
                    part = self.values.shuffle(total, total, range(start_, start_ + lanes))
                if lanes == 1:
                    part = self.values.lane(total, start_)
                self.give(part, batch, f.add(row, number), start_)

    def added(self, lhs: Matrix, row: Ssa, k: Ssa, skipped: int, sums: Sequence[Value]) -> list[Value]:
        """Adds the products of `steps` steps, from `k` on, to the sums; the first `skipped` steps are left
        out.
        """
        f, steps = self.f, self.steps
        place = f.mul(k, self.columns) if not skipped else self.whole * self.columns
        column = self.load(self.packed, place, self.lanes, 0)
        found = []
        for number, total in enumerate(sums):
            factor = lhs.load(f.add(row, number), k, steps)
            zero = self.zero(steps)
            order = [lane % steps + (steps if lane % steps < skipped else 0) for lane in range(self.lanes)]
            found.append(self.multiply_add(self.values.shuffle(factor, zero, order), column, total))
        return found
