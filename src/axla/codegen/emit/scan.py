"""The scan emitter: combines every element of a line with all before it, by thread blocks.

A block loads tiles of [rows, size, columns] elements to local memory, with neighbouring threads loading
neighbouring elements. There each thread combines consecutive elements of a line, its *chunk*. The totals of
the chunks are scanned by doubling: each thread combines its total with that of the thread 1, 2, 4, ...
before it, so a tile of a team of 256 threads takes eight barriers. Then the tile is stored. The total
of a line is kept in registers for its next tile. Reverse scans count positions from the end, and are
otherwise the same.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from axla.codegen.array import DenseArray
from axla.codegen.element import reshape_index
from axla.codegen.emit.scan_lines import LineScan
from axla.codegen.function import Ssa
from axla.codegen.index import AnyIndex, Index, base_of, delinearize
from axla.codegen.kernel import KernelWriter, least
from axla.codegen.reduction import Reduction, scratch_arrays
from axla.codegen.value import Value, rebuilt
from axla.core.dtypes import PRED
from axla.kernels.scan import ScanPlan

ScanIndex = tuple[AnyIndex, ...]
"""The position of a thread in its block, or of an element in a tile: its row, number in the line, and column.
"""


def emit(k: KernelWriter, plan: ScanPlan) -> None:
    """Writes a phase of a `ScanPlan`."""
    (_Scan if plan.cuts else LineScan)(k, plan).emit()


class _Scan:
    """Writes a phase of a scan by thread blocks. If lines are cut into pieces, the first phase stores the
    totals of the pieces, the second scans these totals, and the third scans the pieces.
    """

    def __init__(self, k: KernelWriter, plan: ScanPlan):
        self.k, self.f = k, k.f
        self.geometry, self.cut, pieces = plan.geometry, plan.cuts[k.phase], plan.cuts[0].pieces
        self.parts, self.starts = pieces > 1 and k.phase == 0, k.phase == 1
        self.continues = k.phase == 2
        self.reduction = Reduction(k.named[plan.hero])
        self.reduction.started = True
        g, t, (held,) = self.geometry, self.cut, self.reduction.accumulators
        self.length = pieces if self.starts else g.length
        # Neighbouring chunks of a row begin in different banks.
        self.tile = k.local_array(held, (t.rows, t.team, t.chunk + 1, t.columns))
        self.sums = [k.local_array(held, (t.rows, t.team, t.columns)) for _ in range(2 if t.team > 1 else 0)]
        self.totals: DenseArray | None = None
        if pieces > 1:
            [[self.totals]] = scratch_arrays(k, [self.reduction], (g.outer, pieces, g.inner))

    def emit(self) -> None:
        f, g, t, share = self.f, self.geometry, self.cut, self.k.share
        with self.k.steps(-(-g.outer // t.rows), t.pieces, -(-g.inner // t.columns)) as (row, piece, column):
            self.row, self.column = row * t.rows, column * t.columns
            self.thread = Index(f, share.start(f.index(0), 1), limit=t.threads)
            place = delinearize(self.thread, (t.rows, t.team, t.columns))
            line = self.line(place)
            start = self.first(line, piece)
            low = f.mul(base_of(f, piece), t.piece)
            if t.piece <= t.size:
                total = self.scan(place, low, low, start)
            else:
                high = f.smin(f.add(low, t.piece), self.length)
                with f.loop(low, high, t.size, start.parts, nonempty=True) as loop:
                    (carried,) = rebuilt([start], loop.carried)
                    loop.yield_(self.scan(place, low, loop.index, carried).parts)
                (total,) = rebuilt([start], loop.results)
            if self.parts and self.totals:
                is_first = f.icmp("eq", base_of(f, place[1]), 0)
                with f.if_(f.binary("and", is_first, self.real(place, f.index(0)))):
                    self.totals.store((line[0], piece, line[1]), total)

    def line(self, place: ScanIndex) -> ScanIndex:
        """(outer, inner) index of the line at the position `place` of the tile; the last line for positions
        outside of the array.
        """
        f, g, t = self.f, self.geometry, self.cut
        ends = ((self.row + place[0], g.outer, t.rows), (self.column + place[2], g.inner, t.columns))
        return tuple(
            Index(f, least(f, base_of(f, index), count - 1, needed=count % by != 0), limit=count)
            for index, count, by in ends
        )

    def real(self, place: ScanIndex, position: Ssa) -> Ssa:
        """Whether the position `place` of the tile is an element of the array; `position` is the position of
        the element in its line.
        """
        f, g = self.f, self.geometry
        row, column = base_of(f, self.row + place[0]), base_of(f, self.column + place[2])
        inside = f.binary("and", f.icmp("slt", row, g.outer), f.icmp("slt", column, g.inner))
        return f.binary("and", inside, f.icmp("slt", position, self.length))

    def first(self, line: ScanIndex, piece: AnyIndex) -> Value:
        """The start value of a piece: the initial value combined with the totals of all pieces before it."""
        f = self.f
        (initial,) = self.reduction.initial(self.k.elements(1))
        if not self.continues or self.totals is None:
            return initial
        number = base_of(f, piece)
        before = Index(f, f.smax(f.sub(number, 1), 0), limit=self.cut.pieces)
        found = self.totals.load((line[0], before, line[1]), 1)
        return self.chosen(f.icmp("sgt", number, 0), found, initial)

    def chosen(self, condition: Ssa, a: Value, b: Value) -> Value:
        return self.k.values.select(Value(PRED, 1, (condition,)), a, b)

    def join(self, a: Value, b: Value) -> Value:
        pair = ((b,), (a,)) if self.geometry.reverse else ((a,), (b,))
        (found,) = self.reduction.combine(self.k.elements(1), *pair)
        return found

    # -- a tile --------------------------------------------------------------------------------------------

    def scan(self, place: ScanIndex, low: Ssa, first: Ssa, start: Value) -> Value:
        """Scans the tile from position `first` on, in a piece that begins at `low`; `start` is the total
        before the tile. Returns the total of the line up to the end of the tile.
        """
        f, t, (row, number, column) = self.f, self.cut, place
        self.fill(first)
        self.k.share.barrier()
        slots = [(row, number, n, column) for n in range(t.chunk)]
        held = [self.tile.load(slots[0], 1)]
        for slot in slots[1:]:
            held.append(self.join(held[-1], self.tile.load(slot, 1)))
        before, whole = self.shared(place, held[-1])
        total = self.join(start, whole)
        if self.parts:
            total = self.chosen(f.icmp("eq", first, low), whole, total)
        else:
            behind = f.icmp("sgt", base_of(f, number), 0)
            start = self.chosen(behind, self.join(start, before), start)
            for slot, value in zip(slots, held, strict=True):
                self.tile.store(slot, self.join(start, value))
            self.k.share.barrier()
            self.give(first)
        if t.piece > t.size:
            self.k.share.barrier()
        return total

    def shared(self, place: ScanIndex, value: Value) -> tuple[Value, Value]:
        """Combines the totals of the threads that share a line; `value` is the total of this thread, which is
        at `place` in the block. Returns the total of the threads before this one, and that of all threads.
        """
        f, team, (row, number, column) = self.f, self.cut.team, place
        if team == 1:
            return value, value
        mine, distance, round_ = base_of(f, number), 1, 0

        def of(thread: Ssa) -> ScanIndex:
            return (row, Index(f, thread, limit=team), column)

        while True:
            sums = self.sums[round_ % 2]  # the other one may still be read
            sums.store(place, value)
            self.k.share.barrier()
            if distance == team:
                before = sums.load(of(f.smax(f.sub(mine, 1), 0)), 1)
                return before, sums.load(of(f.index(team - 1)), 1)
            other = sums.load(of(f.smax(f.sub(mine, distance), 0)), 1)
            value = self.chosen(f.icmp("sge", mine, distance), self.join(other, value), value)
            distance, round_ = 2 * distance, round_ + 1

    def fill(self, first: Ssa) -> None:
        """Loads the tile from position `first` on to local memory. Positions after the end of a line get its
        last element, which is not used.
        """
        f, t = self.f, self.cut
        found = []
        for round_ in range(t.chunk):  # all elements are read before the first is needed
            place = delinearize(self.thread + round_ * t.threads, (t.rows, t.size, t.columns))
            position = f.smin(f.add(first, base_of(f, place[1])), self.length - 1)
            found.append((self.slot(place), self.read(self.at(place, position))))
        for slot, value in found:
            self.tile.store(slot, value)

    def give(self, first: Ssa) -> None:
        """Stores the results of the tile from position `first` on."""
        f, g, t = self.f, self.geometry, self.cut
        count = t.threads * t.chunk
        with self.k.walk(f.index(0), f.index(count), 1) as loop:
            place = delinearize(Index(f, loop.index, limit=count), (t.rows, t.size, t.columns))
            position = f.add(first, base_of(f, place[1]))
            with self.wanted(place, position):
                value, at = self.tile.load(self.slot(place), 1), self.at(place, position)
                if self.starts and self.totals:
                    self.totals.store(at, value)
                else:
                    e = self.k.elements(1)
                    e.bind(self.reduction.inst, self.reduction.finish(e, (value,)))
                    self.k.write(e, at, (g.outer, g.length, g.inner))

    def wanted(self, place: ScanIndex, position: Ssa) -> AbstractContextManager[None]:
        """Opens code that runs only if the position `place` of the tile is an element of the array, at
        `position` in its line.
        """
        g, t = self.geometry, self.cut
        whole = not (g.outer % t.rows or self.length % t.size or g.inner % t.columns)
        return nullcontext() if whole else self.f.if_(self.real(place, position))

    def slot(self, place: ScanIndex) -> ScanIndex:
        """The index in local memory of an element of the tile."""
        row, inside, column = place
        return row, inside // self.cut.chunk, inside % self.cut.chunk, column

    def at(self, place: ScanIndex, position: Ssa) -> ScanIndex:
        """The index in [outer, length, inner] of the element at `position` of the line to which `place`, a
        position of the tile, belongs.
        """
        f = self.f
        if self.geometry.reverse and not self.starts:
            position = f.sub(self.length - 1, position)
        outer, inner = self.line(place)
        return outer, Index(f, position, limit=self.length), inner

    def read(self, at: ScanIndex) -> Value:
        """The element to scan at an index of [outer, length, inner]."""
        if self.starts and self.totals:
            return self.totals.load(at, 1)
        g, e, (x,) = self.geometry, self.k.elements(1), self.reduction.inputs
        index = reshape_index(at, (g.outer, g.length, g.inner), x.shape.dims)
        return self.reduction.lift([e(x, index)], self.k.values)[0]
