"""Multiplies a matrix by a vector: out[l] = sum over k of x[k] * matrix(k, l), for one row or one column.

Both methods read the matrix once, in memory order:

    columns   l is contiguous: blocks of k-steps are added to a strip of sums that stays in L1
    rows      k is contiguous: a few rows at once are multiplied with x, and lanes summed at the end

The finished sums of the strip are then stored, in vectors along l.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from axla.codegen.array import element_address
from axla.codegen.emit.pack import pieces
from axla.codegen.emit.product import Product
from axla.codegen.function import Ssa
from axla.codegen.kernel import KernelWriter, least
from axla.codegen.value import Value, parts_of, rebuilt
from axla.kernels.dot import DotPlan, GemmPlan
from axla.kernels.plan import fitting


class Gemv(Product):
    """Writes the kernel of a plan whose method is `columns` or `rows`. x is the vector, which may be lhs or
    rhs.
    """

    cut: GemmPlan

    def __init__(self, k: KernelWriter, plan: DotPlan):
        super().__init__(k, plan)
        # Words may have rhs as their first factor, and its bytes may be negative.
        spec = self.spec = replace(self.spec, positive=False)
        self.tall = spec.n == 1 and spec.m != 1
        self.length = spec.m if self.tall else spec.n
        # Elements of x that are a column of a matrix are apart by the length of that matrix's rows.
        along = spec.rhs_transposed if self.tall else not spec.lhs_transposed
        self.step = 1 if along else spec.rhs_row if self.tall else spec.lhs_row
        self.width = self.tile.lanes
        # Distance of the real and the imaginary part of a sum in the strip, in elements.
        self.planes = self.cut.unit_columns + self.tile.rows

    def emit(self) -> None:
        """Writes the loop over units; a unit is a strip of the result."""
        f, cut = self.f, self.cut
        self.strip = self.k.scratch_of_call(cut.region_bytes)
        with self.units() as unit:
            blocks = -(-self.length // cut.unit_columns)
            batch = f.udiv(unit.index, blocks)
            first = f.mul(f.urem(unit.index, blocks), cut.unit_columns)
            end = least(f, f.add(first, cut.unit_columns), self.length)
            lhs, rhs = self.matrices(batch)
            self.matrix, self.vector = (lhs, rhs.start) if self.tall else (rhs, lhs.start)
            (self.columns if cut.method == "columns" else self.rows)(first, end)
            self.finish(batch, first, end)

    # -- the method `columns`: l is contiguous --------------------------------------------------------------

    def columns(self, first: Ssa, end: Ssa) -> None:
        """Computes the sums of columns [first, end): slot j of the strip has column first + j, except for the
        matrix's last vector.

        That vector starts early enough to be whole, so its new columns are at its end.
        """
        f, spec = self.f, self.spec
        block = min(self.tile.rows, spec.k)
        whole = spec.k // block * block
        self.steps(f.index(0), block, first, end, fresh=True)
        if whole > block:
            with f.loop(block, whole, block) as k:
                self.steps(k.index, block, first, end, fresh=False)
        if spec.k > whole:
            self.steps(f.index(whole), spec.k - whole, first, end, fresh=False)

    def steps(self, k: Ssa, count: int, first: Ssa, end: Ssa, *, fresh: bool) -> None:
        """Adds the products of `count` steps of k, from `k` on, to the sums of columns [first, end) in the
        strip. If the strip is `fresh`, it has no sums yet: the sums begin with these products.
        """
        f, spec, width = self.f, self.spec, self.width
        places = (f.mul(f.add(k, step), self.step) for step in range(count))
        factors = [self.values.splat(self.read(self.vector, place, 1), width) for place in places]
        matrix, rows = self.matrix, [f.add(k, step) for step in range(count)]
        if spec.word == 1:  # rows from k on are a constant distance apart
            start = element_address(f, matrix.start, spec.dtype, matrix.at(k, 0))
            matrix, rows = replace(matrix, start=start), [f.index(step) for step in range(count)]
        with f.loop(first, end, width, nonempty=True) as loop:
            column = least(f, loop.index, self.length - width, needed=self.length % width != 0)
            slot = f.sub(loop.index, first)
            chains = [self.zero(width)] * 2
            if not fresh:
                chains[0] = self.load(self.strip, slot, width, self.planes)
            for step, (factor, row) in enumerate(zip(factors, rows, strict=True)):
                element = matrix.load(row, column, width)
                chains[step % 2] = self.multiply_add(factor, element, chains[step % 2])
            self.store(self.add(*chains) if count > 1 else chains[0], self.strip, slot, self.planes)

    # -- the method `rows`: k is contiguous -----------------------------------------------------------------

    def rows(self, first: Ssa, end: Ssa) -> None:
        """Computes the sums of rows [first, end), a tile of rows at a time; the last tile overlaps the one
        before it.
        """
        f, count, chains = self.f, self.tile.rows, self.tile.vectors
        chunk = self.width * chains
        whole = self.spec.k // chunk * chunk
        with f.loop(first, end, count, nonempty=True) as loop:
            row = least(f, loop.index, self.length - count, needed=self.length % count != 0)
            start = sums = [self.zero(self.width)] * (count * chains)
            if whole:
                with f.loop(0, whole, chunk, parts_of(start)) as k:
                    k.yield_(parts_of(self.chunk(rebuilt(start, k.carried), row, k.index)))
                sums = rebuilt(start, k.results)
            for r, total in enumerate(self.tail(sums, row, whole)):
                # A tile that was moved back writes earlier sums again; the strip has space for one tile
                # before its first slot.
                slot = f.add(f.sub(f.add(row, r), first), count)
                self.store(total, self.strip, slot, self.planes)

    def chunk(self, sums: Sequence[Value], row: Ssa, k: Ssa) -> list[Value]:
        """Adds the products of one iteration, from step `k` on, to the sums of the rows from `row` on. Each
        row has a sum for each accumulator chain, and each chain takes a vector of steps.
        """
        f, found, chains = self.f, list(sums), self.tile.vectors
        for chain in range(chains):
            at = f.add(k, chain * self.width)
            factor = self.vector_at(at)
            for number in range(chain, len(found), chains):
                element = self.matrix.load(f.add(row, number // chains), at, self.width)
                found[number] = self.multiply_add(element, factor, found[number])
        return found

    def vector_at(self, k: Ssa) -> Value:
        """Loads the elements x[k : k + width] of the vector."""
        f = self.f
        if self.step == 1:
            return self.read(self.vector, k, self.width)
        places = (f.mul(f.add(k, lane), self.step) for lane in range(self.width))
        return self.values.join([self.read(self.vector, place, 1) for place in places])

    def tail(self, sums: Sequence[Value], row: Ssa, whole: int) -> list[Value]:
        """Sums, for each row from `row` on, the accumulator chains, the steps of k from `whole` on, and the
        lanes. Returns one scalar per row.
        """
        f, width, chains = self.f, self.width, self.tile.vectors
        totals = [reduce(self.add, sums[r : r + chains]) for r in range(0, len(sums), chains)]
        for start in range(whole, self.spec.k, width):
            # The last vector starts early; elements that were added before are cleared in both factors (0 *
            # inf is not 0).
            at = min(start, self.spec.k - width)
            factor = self.clear(self.vector_at(f.index(at)), start - at)
            for r, total in enumerate(totals):
                element = self.clear(self.matrix.load(f.add(row, r), f.index(at), width), start - at)
                totals[r] = self.multiply_add(element, factor, total)
        return [self.values.across_lanes((v,), lambda a, b: (self.add(*a, *b),))[0] for v in totals]

    def clear(self, value: Value, count: int) -> Value:
        """Sets the first `count` lanes of a value to zero."""
        order = [self.width + lane if lane < count else lane for lane in range(self.width)]
        return self.values.shuffle(value, self.zero(self.width), order) if count else value

    # -- the result -----------------------------------------------------------------------------------------

    def finish(self, batch: Ssa, first: Ssa, end: Ssa) -> None:
        """Stores the results at positions [first, end) of the vector, whose sums the strip holds: whole
        vectors, then the remaining elements.
        """
        f, columns = self.f, self.cut.method == "columns"
        front = 0 if columns else self.tile.rows
        lanes = self.width if columns else fitting(self.lanes, min(self.cut.unit_columns, self.length))
        tail = self.length % lanes
        size = f.sub(end, first)
        stop = f.binary("and", size, f.index(-lanes)) if tail else size
        with f.loop(0, stop, lanes) as loop:
            self.give_slot(batch, f.add(first, loop.index), f.add(loop.index, front), lanes)
        if not tail:
            return
        with f.if_(f.icmp("ne", stop, size)):
            # With the method `columns`, the last vector was moved back, and its new columns are at its end.
            moved = lanes - tail if columns else front
            for offset, width in pieces(tail, lanes):
                place = f.add(f.add(first, stop), offset)
                self.give_slot(batch, place, f.add(stop, offset + moved), width)

    def give_slot(self, batch: Ssa, place: Ssa, slot: Ssa, lanes: int) -> None:
        """Computes the results for `lanes` sums, from slot `slot` of the strip on, and stores them at
        position `place` of the result.
        """
        row, col = (place, 0) if self.tall else (0, place)
        self.give(self.load(self.strip, slot, lanes, self.planes), batch, row, col)
