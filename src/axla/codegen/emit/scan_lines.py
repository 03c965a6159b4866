"""Writes scans by threads that do not cooperate.

Along a line: a vector is scanned in registers, in blocks of 2, 4, ... lanes. Then it is combined with the
total of the earlier vectors of its group, and that of all earlier groups, so that no chain of roundings is as
long as the line. Few long lines are cut into pieces: the first phase computes their totals, the second scans
the totals, the third scans the pieces. Across lines, each lane has a line of its own; totals of the group,
and of all groups before it, stay in L1. Reverse scans count positions from the end; lanes stay in memory
order.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.codegen.array import DenseArray
from axla.codegen.element import Elements, reshape_index
from axla.codegen.emit.loop import vectors
from axla.codegen.function import Ssa
from axla.codegen.index import AnyIndex, Index, base_of
from axla.codegen.kernel import KernelWriter, span_of
from axla.codegen.reduction import Reduction, scratch_arrays
from axla.codegen.value import Value, rebuilt
from axla.core.dtypes import PRED
from axla.kernels.scan import ScanPlan

PIECES = 8
"""The number of pieces of a line whose totals are combined to a group."""
ROWS = 4
"""The number of rows that an iteration of a scan across lines handles."""


_TWICE = ("maximum", "minimum", "and", "or")
"""The reductions whose result does not change when a value takes part twice."""


def _as(like: Value, parts: Sequence[Ssa]) -> Value:
    """A value of the type of `like` made of LLVM values that a loop carries."""
    return rebuilt([like], parts)[0]


class LineScan:
    """Writes a phase of a scan by threads that do not cooperate. If lines are cut into pieces, the first
    phase stores the totals of the pieces, the second scans these totals, and the third scans the pieces.
    """

    def __init__(self, k: KernelWriter, plan: ScanPlan):
        assert plan.space is not None
        self.k, self.f, self.plan, self.space = k, k.f, plan, plan.space
        self.g, self.lanes = plan.geometry, plan.space.lanes
        self.reduction = Reduction(k.named[plan.hero], mirrored=k.target.has_ordered_maximum)
        self.reduction.started = True
        self.twice = self.reduction.plain in _TWICE
        self.totals: DenseArray | None = None
        if plan.pieces > 1:
            [[self.totals]] = scratch_arrays(k, [self.reduction], (self.g.outer, plan.pieces))

    def emit(self) -> None:
        """Writes the phase: a scan across lines, along lines, or of the totals of pieces."""
        if self.g.inner > 1:
            self.across()
        elif self.totals is not None and self.k.phase == 1:
            self.starts(self.totals)
        else:
            self.along()

    def join(self, lanes: int, a: Value, b: Value) -> Value:
        """Combines a with b, which comes after it in the scan."""
        pair = (b, a) if self.g.reverse else (a, b)
        values = self.k.values
        x, y = (values.splat(v, lanes) for v in pair)
        (found,) = self.reduction.combine(self.k.elements(lanes), (x,), (y,))
        return found

    def initial(self) -> Value:
        """The initial value of the reduction, as a scalar."""
        (found,) = self.reduction.initial(self.k.elements(1))
        return found

    def read(self, e: Elements, at: tuple[AnyIndex, ...]) -> Value:
        """The element to scan at an index of [outer, length, inner]."""
        (x,), g = self.reduction.inputs, self.g
        found = e(x, reshape_index(at, (g.outer, g.length, g.inner), x.shape.dims))
        return e.values.splat(self.reduction.lift([found], e.values)[0], e.lanes)

    def write(self, at: tuple[AnyIndex, ...], value: Value) -> None:
        """Computes the kernel's results from scanned values, and stores them. `at` is the index of the values
        in [outer, length, inner].
        """
        g, e = self.g, self.k.elements(value.lanes)
        e.bind(self.reduction.inst, self.reduction.finish(e, (value,)))
        self.k.write(e, at, (g.outer, g.length, g.inner))

    # -- along lines ---------------------------------------------------------------------------------------

    def starts(self, totals: DenseArray) -> None:
        """Replaces the totals of pieces by their start values: the total of all earlier groups of pieces,
        combined with that of the earlier pieces in the group.
        """
        f, pieces, initial = self.f, self.plan.pieces, self.initial()
        pair = [initial, initial]
        with f.loop(0, self.g.outer) as lines:
            line = Index(f, lines.index, limit=self.g.outer)
            with f.loop(0, pieces, PIECES, [*initial.parts, *initial.parts]) as groups:
                before, total = rebuilt(pair, groups.carried)
                end = f.smin(f.add(groups.index, PIECES), pieces)
                with f.loop(groups.index, end, 1, [*before.parts, *before.parts]) as loop:
                    start, within = rebuilt(pair, loop.carried)
                    at = (line, Index(f, loop.index, limit=pieces))
                    own = totals.load(at, 1)
                    totals.store(at, start)
                    within = self.behind(f.icmp("eq", loop.index, groups.index), within, own)
                    loop.yield_([*self.join(1, before, within).parts, *within.parts])
                _, within = rebuilt(pair, loop.results)
                total = self.behind(f.icmp("eq", groups.index, 0), total, within)
                groups.yield_([*self.join(1, initial, total).parts, *total.parts])

    def behind(self, is_first: Ssa, before: Value, own: Value) -> Value:
        """Combines `before` with `own`; returns `own` alone where `is_first`."""
        joined = self.join(own.lanes, before, own)
        return self.k.values.select(Value(PRED, 1, (is_first,)), own, joined)

    def along(self) -> None:
        """Scans along lines, or computes the totals of all pieces but the last."""
        f, length, (outer,), pieces = self.f, self.g.length, self.space.outer, self.plan.pieces
        parts = self.totals is not None and self.k.phase == 0
        with self.k.steps(outer, pieces - parts) as (line, number):
            low = f.mul(base_of(f, number), self.plan.piece)
            if self.totals is None:
                self.scan(line, low, f.index(length), self.initial())
            elif parts:  # the totals of all but the last piece
                self.totals.store((line, number), self.total(line, low))
            else:
                high = f.smin(f.add(low, self.plan.piece), length)
                self.scan(line, low, high, self.totals.load((line, number), 1))

    def at(self, line: AnyIndex, position: Ssa, lanes: int) -> tuple[AnyIndex, ...]:
        """The index in [outer, length, inner] of the vector at a position of a line."""
        f, length = self.f, self.g.length
        multiple = lanes
        if self.g.reverse:
            position, multiple = f.sub(length - lanes, position), 1 if length % lanes else lanes
        return line, Index(f, position, 1, lanes, multiple=multiple, limit=length), 0

    def prefixes(self, x: Value) -> Value:
        """Combines every lane with those before it: the upper half of each block with the end of the lower
        half, in blocks of 2, 4, ... lanes. Short blocks stay within 128 bits, where shuffles are fast.
        """
        values, lanes, distance = self.k.values, self.lanes, 1
        neutral = None
        if self.reduction.plain == "multiply" and x.dtype.is_float:
            # Lower halves are multiplied too. Without a neutral factor, LLVM would choose one, which may be
            # denormal and slow.
            neutral = values.constant(x.dtype, 1, lanes)
        while distance < lanes:
            order = list(range(lanes))
            ends = [n // (2 * distance) * 2 * distance + distance - 1 for n in order]
            upper = [n % (2 * distance) >= distance for n in order]
            if self.g.reverse:
                ends, upper = [lanes - 1 - n for n in ends[::-1]], upper[::-1]
            if neutral is not None:
                before = [end if up else n + lanes for n, end, up in zip(order, ends, upper, strict=True)]
                x = self.join(lanes, values.shuffle(x, neutral, before), x)
            else:
                before = [end if up else n for n, end, up in zip(order, ends, upper, strict=True)]
                found = self.join(lanes, values.shuffle(x, x, before), x)
                kept = [n if up else n + lanes for n, up in zip(order, upper, strict=True)]
                x = found if self.twice else values.shuffle(found, x, kept)
            distance *= 2
        return x

    def last(self, x: Value) -> Value:
        """The last prefix of a vector, repeated in all lanes."""
        if self.lanes == 1:
            return x
        return self.k.values.shuffle(x, x, [0 if self.g.reverse else self.lanes - 1] * self.lanes)

    def scan(self, line: AnyIndex, low: Ssa, high: Ssa, start: Value) -> None:
        """Scans and writes the positions [low, high) of a line, whose first is combined with `start`."""
        f, lanes = self.f, self.lanes
        e, single = self.k.elements(lanes), self.k.elements(1)

        def vector(position: Ssa, start: Value | None, before: Value | None) -> Value:
            """Scans the vector at `position`, and writes the results. `start` is the total of all elements
            before the group; `before` that of the group's vectors before this one. None: there is no such
            total, or the other argument includes it. Returns the total of the group up to the end of this
            vector.
            """
            at = self.at(line, position, lanes)
            found = self.prefixes(self.read(e, at))
            last = self.last(found)
            if before is not None:
                found, last = self.join(lanes, before, found), self.join(lanes, before, last)
            self.write(at, found if start is None else self.join(lanes, start, found))
            return last

        start = self.k.values.splat(start, lanes)
        whole = f.add(low, f.mul(f.udiv(f.sub(high, low), lanes), lanes))
        if self.twice:  # nothing is rounded, so there is only one group
            with f.loop(low, whole, lanes, start.parts) as loop:
                loop.yield_(vector(loop.index, None, _as(start, loop.carried)).parts)
            start = _as(start, loop.results)
        else:
            state = [*start.parts, *start.parts]
            with f.loop(low, whole, self.plan.group * lanes, state) as groups:
                before, within = rebuilt([start, start], groups.carried)
                total = vector(groups.index, before, None)
                end = f.smin(f.add(groups.index, self.plan.group * lanes), whole)
                with f.loop(f.add(groups.index, lanes), end, lanes, total.parts) as loop:
                    loop.yield_(vector(loop.index, before, _as(total, loop.carried)).parts)
                is_first = f.icmp("eq", groups.index, low)
                within = self.behind(is_first, within, _as(total, loop.results))
                groups.yield_([*self.join(lanes, start, within).parts, *within.parts])
            start, _ = rebuilt([start, start], groups.results)
        if self.g.length % lanes:
            with f.loop(whole, high, 1, self.k.values.lane(start, 0).parts) as rest:
                at = self.at(line, rest.index, 1)
                before = _as(self.k.values.lane(start, 0), rest.carried)
                found = self.join(1, before, self.read(single, at))
                self.write(at, found)
                rest.yield_(found.parts)

    def total(self, line: AnyIndex, low: Ssa) -> Value:
        """The total of a piece that begins at `low`; where the order is free, lanes are combined last."""
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
        """Scans across lines, a line in each lane."""
        f, g, k, group = self.f, self.g, self.k, self.plan.group + 1  # rows: one, then ROWS at a time
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
        """The index in memory, along the scanned dimension, of a row: `first + number` in the order of the
        scan.
        """
        f, length = self.f, self.g.length
        if self.g.reverse:
            return Index(f, f.sub(length - 1, first), limit=length) - number
        return Index(f, first, limit=length) + number
