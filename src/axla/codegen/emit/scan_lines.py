"""Scans by threads that run alone.

Along a line: a vector is scanned in registers, lanes joined with those 1, 2, 4, ... before them. What all
vectors of a group before it have in common comes in front, and what all groups before have: no chain of
roundings is as long as the line. Few long lines are cut into pieces: one phase takes their totals, one scans
these, and one the pieces.
Across lines, lanes have a line each. Totals of the group, and of all before it, stay in the nearest cache.
Scans from the end count positions from the end; lanes stay in the order of memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.codegen.array import Array
from axla.codegen.element import Elements, reshape_index
from axla.codegen.emit.loop import vectors
from axla.codegen.function import Ssa
from axla.codegen.index import AnyIndex, Index, base_of
from axla.codegen.kernel import KernelWriter, span_of
from axla.codegen.reduction import Reduction, scratch_arrays
from axla.codegen.value import Value, rebuilt
from axla.kernels.scan import ScanPlan

ROWS = 4
"""Rows taken at once across lines."""


def _as(like: Value, parts: Sequence[Ssa]) -> Value:
    """A value of the type of `like` that a loop carries."""
    return rebuilt([like], parts)[0]


class LineScan:
    """Writes a phase. Of three, the first keeps the totals of pieces, the second scans these."""

    def __init__(self, k: KernelWriter, plan: ScanPlan):
        assert plan.space is not None
        self.k, self.f, self.plan, self.space = k, k.f, plan, plan.space
        self.g, self.lanes = plan.geometry, plan.space.lanes
        self.reduction = Reduction(k.named[plan.hero])
        self.reduction.started = True
        self.totals: Array | None = None
        if plan.pieces > 1:
            [[self.totals]] = scratch_arrays(k, [self.reduction], (self.g.outer, plan.pieces))

    def emit(self) -> None:
        if self.g.inner > 1:
            self.across()
        elif self.totals is not None and self.k.phase == 1:
            self.starts(self.totals)
        else:
            self.along()

    def join(self, lanes: int, a: Value, b: Value) -> Value:
        """What is combined of a and of b, which comes behind it."""
        pair = (b, a) if self.g.reverse else (a, b)
        values = self.k.values
        x, y = (values.splat(v, lanes) for v in pair)
        (found,) = self.reduction.combine(self.k.elements(lanes), (x,), (y,))
        return found

    def initial(self) -> Value:
        (found,) = self.reduction.initial(self.k.elements(1))
        return found

    def read(self, e: Elements, at: tuple[AnyIndex, ...]) -> Value:
        """What is scanned at an index of [outer, length, inner]."""
        (x,), g = self.reduction.inputs, self.g
        found = e(x, reshape_index(at, (g.outer, g.length, g.inner), x.shape.dims))
        return e.values.splat(self.reduction.lift([found], e.values)[0], e.lanes)

    def write(self, at: tuple[AnyIndex, ...], value: Value) -> None:
        g, e = self.g, self.k.elements(value.lanes)
        e.bind(self.reduction.inst, self.reduction.finish(e, (value,)))
        self.k.write(e, at, (g.outer, g.length, g.inner))

    # -- along lines ---------------------------------------------------------------------------------------

    def starts(self, totals: Array) -> None:
        """Puts in place of the totals of pieces what each begins with."""
        f, pieces = self.f, self.plan.pieces
        with f.loop(0, self.g.outer) as lines:
            line = Index(f, lines.index, limit=self.g.outer)
            with f.loop(0, pieces, 1, self.initial().parts) as loop:
                at = (line, Index(f, loop.index, limit=pieces))
                start = _as(self.initial(), loop.carried)
                own = totals.load(at, 1)
                totals.store(at, start)
                loop.yield_(self.join(1, start, own).parts)

    def along(self) -> None:
        f, length, (outer,), pieces = self.f, self.g.length, self.space.outer, self.plan.pieces
        parts = self.totals is not None and self.k.phase == 0
        with self.k.steps(outer, pieces - parts) as (line, number):
            low = f.mul(base_of(f, number), self.plan.piece)
            if self.totals is None:
                self.scan(line, low, f.index(length), self.initial())
            elif parts:  # of all but the last piece
                self.totals.store((line, number), self.total(line, low))
            else:
                high = f.smin(f.add(low, self.plan.piece), length)
                self.scan(line, low, high, self.totals.load((line, number), 1))

    def at(self, line: AnyIndex, position: Ssa, lanes: int) -> tuple[AnyIndex, ...]:
        """The index of the vector at a position."""
        f, length = self.f, self.g.length
        multiple = lanes
        if self.g.reverse:
            position, multiple = f.sub(length - lanes, position), 1 if length % lanes else lanes
        return line, Index(f, position, 1, lanes, multiple=multiple, limit=length), 0

    def prefixes(self, x: Value) -> Value:
        """Every lane with those before it."""
        values, lanes, distance = self.k.values, self.lanes, 1
        while distance < lanes:
            order = list(range(lanes))
            moved = [max(n - distance, 0) for n in order]
            kept = [n + lanes if n < distance else n for n in order]
            if self.g.reverse:
                moved = [min(n + distance, lanes - 1) for n in order]
                kept = [n + lanes if n >= lanes - distance else n for n in order]
            x = values.shuffle(self.join(lanes, values.shuffle(x, x, moved), x), x, kept)
            distance *= 2
        return x

    def last(self, x: Value) -> Value:
        """The last of the prefixes, in all lanes."""
        if self.lanes == 1:
            return x
        return self.k.values.shuffle(x, x, [0 if self.g.reverse else self.lanes - 1] * self.lanes)

    def scan(self, line: AnyIndex, low: Ssa, high: Ssa, start: Value) -> None:
        """Writes the positions [low, high) of a line, the first of which comes behind `start`."""
        f, lanes = self.f, self.lanes
        e, single = self.k.elements(lanes), self.k.elements(1)

        def vector(position: Ssa, start: Value, before: Value | None) -> Value:
            """Scans a vector, which comes behind `before` in its group; the total up to its end."""
            at = self.at(line, position, lanes)
            found = self.prefixes(self.read(e, at))
            last = self.last(found)
            if before is not None:
                found, last = self.join(lanes, before, found), self.join(lanes, before, last)
            self.write(at, self.join(lanes, start, found))
            return last

        start = self.k.values.splat(start, lanes)
        whole = f.add(low, f.mul(f.udiv(f.sub(high, low), lanes), lanes))
        with f.loop(low, whole, self.plan.group * lanes, start.parts) as groups:
            start = _as(start, groups.carried)
            total = vector(groups.index, start, None)
            end = f.smin(f.add(groups.index, self.plan.group * lanes), whole)
            with f.loop(f.add(groups.index, lanes), end, lanes, total.parts) as loop:
                loop.yield_(vector(loop.index, start, _as(total, loop.carried)).parts)
            groups.yield_(self.join(lanes, start, _as(total, loop.results)).parts)
        start = _as(start, groups.results)
        if self.g.length % lanes:
            with f.loop(whole, high, 1, self.k.values.lane(start, 0).parts) as rest:
                at = self.at(line, rest.index, 1)
                before = _as(self.k.values.lane(start, 0), rest.carried)
                found = self.join(1, before, self.read(single, at))
                self.write(at, found)
                rest.yield_(found.parts)

    def total(self, line: AnyIndex, low: Ssa) -> Value:
        """The total of a whole piece: where the order is free, of each lane, then of all."""
        f, lanes, e, free = self.f, self.lanes, self.k.elements(self.lanes), self.reduction.any_order
        high, step = f.add(low, self.plan.piece), self.plan.group * lanes

        def vector(position: Ssa) -> Value:
            found = self.read(e, self.at(line, position, lanes))
            return found if free else self.last(self.prefixes(found))

        def group(first: Ssa) -> Value:
            start = vector(first)
            with f.loop(f.add(first, lanes), f.smin(f.add(first, step), high), lanes, start.parts) as loop:
                loop.yield_(self.join(lanes, _as(start, loop.carried), vector(loop.index)).parts)
            return _as(start, loop.results)

        total = group(low)
        with f.loop(f.add(low, step), high, step, total.parts) as groups:
            groups.yield_(self.join(lanes, _as(total, groups.carried), group(groups.index)).parts)
        total = _as(total, groups.results)
        if free:
            (total,) = self.reduction.across_lanes(e, (total,))
        return self.k.values.lane(total, 0)

    # -- across lines --------------------------------------------------------------------------------------

    def across(self) -> None:
        f, g, k, group = self.f, self.g, self.k, self.plan.group + 1  # its first row, then a few at once
        (held,) = self.reduction.accumulators
        starts, totals = (k.local_array(held, (self.space.block,)) for _ in range(2))
        with k.steps(g.outer, self.space.blocks) as (outer, block):
            low, high = span_of(f, self.space, block)

            def put(e: Elements, column: AnyIndex) -> None:
                starts.store((column - Index(f, low),), self.initial())

            def rows(e: Elements, column: AnyIndex, first: Ssa, count: int, begins: bool) -> None:
                own = (column - Index(f, low),)
                start = starts.load(own, e.lanes)
                total = None if begins else totals.load(own, e.lanes)
                places = [(outer, self.row(first, number), column) for number in range(count)]
                for at, x in [(at, self.read(e, at)) for at in places]:
                    total = x if total is None else self.join(e.lanes, total, x)
                    self.write(at, self.join(e.lanes, start, total))
                assert total is not None
                totals.store(own, total)

            def close(e: Elements, column: AnyIndex) -> None:
                own = (column - Index(f, low),)
                start, total = (array.load(own, e.lanes) for array in (starts, totals))
                starts.store(own, self.join(e.lanes, start, total))

            def over(first: Ssa, count: int, begins: bool = False) -> None:
                def body(e: Elements, column: AnyIndex) -> None:
                    rows(e, column, first, count, begins)

                vectors(k, self.space, low, high, body, once=True, copies=1)

            vectors(k, self.space, low, high, put, once=False)
            with f.loop(0, g.length, group) as groups:
                over(groups.index, 1, begins=True)
                second, end = f.add(groups.index, 1), f.smin(f.add(groups.index, group), g.length)
                whole = f.add(second, f.mul(f.udiv(f.sub(end, second), ROWS), ROWS))
                with f.loop(second, whole, ROWS) as loop:
                    over(loop.index, ROWS)
                with f.loop(whole, end, 1) as loop:
                    over(loop.index, 1)
                vectors(k, self.space, low, high, close, once=True)

    def row(self, first: Ssa, number: int) -> AnyIndex:
        """The index of a row in memory."""
        f, length = self.f, self.g.length
        if self.g.reverse:
            return Index(f, f.sub(length - 1, first), limit=length) - number
        return Index(f, first, limit=length) + number
