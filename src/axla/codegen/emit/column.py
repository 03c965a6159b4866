"""Writes reductions over leading or middle dimensions, [outer, reduced, inner] -> [outer, inner].

Lanes run along `inner`. A few rows are combined at a time, and partial results of the columns stay in the
output (or in scratch memory) in between: memory is read in long contiguous ranges, and the partial results
stay in cache. Where threads share a step, each handles one column and a subset of its rows; their partial
results are combined through local memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from axla.codegen.array import DenseArray
from axla.codegen.element import Elements, reshape_index
from axla.codegen.emit.loop import vectors
from axla.codegen.function import Ssa
from axla.codegen.index import AnyIndex, Index, base_of
from axla.codegen.kernel import KernelWriter, least, span_of
from axla.codegen.reduction import Reduction, combined, folded, registers, scratch_arrays
from axla.codegen.value import Value, ValueGroup
from axla.kernels.reduce import ColumnPlan


def emit(k: KernelWriter, plan: ColumnPlan) -> None:
    """Writes the kernel of a `ColumnPlan`."""
    if plan.teams:
        return _Shared(k, plan).emit()
    space = plan.space
    reductions = [Reduction(k.named[name]) for name in plan.reduces]
    partial = _partials(k, plan, reductions)
    f = k.f
    with k.steps(*space.outer, space.blocks) as (outer, block):
        low, high = span_of(f, space, block)

        def start(e: Elements, column: AnyIndex) -> None:
            for r, arrays in zip(reductions, partial, strict=True):
                for array, value in zip(arrays, r.initial(e), strict=True):
                    array.store((outer, column), value)

        vectors(k, space, low, high, start, once=False)
        together = k.target.limits.column_rows
        whole = plan.reduced // together * together
        for first, last, rows in ((0, whole, together), (whole, plan.reduced, 1)):
            if first >= last:
                continue
            with f.loop(first, last, rows) as loop:
                row = Index(f, loop.index, limit=plan.reduced)

                def add(e: Elements, column: AnyIndex, row: Index = row, rows: int = rows) -> None:
                    _accumulate(plan, e, reductions, partial, (outer, row, column), rows)

                # With several rows, an iteration has enough work without unrolling.
                vectors(k, space, low, high, add, once=True, copies=1 if rows > 1 else 4)
        _write(k, plan, (low, high), reductions, partial, outer)


def _partials(k: KernelWriter, plan: ColumnPlan, reductions: Sequence[Reduction]) -> list[list[DenseArray]]:
    """For each reduction and accumulated value, the [outer, inner] array of its partial results."""
    dims = (plan.outer, plan.inner)
    apart = [r for r, number in zip(reductions, plan.kept_in, strict=True) if number < 0]
    scratch = iter(scratch_arrays(k, apart, dims))
    found = []
    for number in plan.kept_in:
        outputs = k.outputs_of(number) if number >= 0 else ()
        kept = [DenseArray(k.values, o.pointer, o.dtype, dims, readonly=False) for o in outputs]
        found.append(kept or next(scratch))
    return found


def _accumulate(
    plan: ColumnPlan, e: Elements, reductions: Sequence[Reduction], partial: Sequence[Sequence[DenseArray]],
    at: tuple[AnyIndex, Index, AnyIndex], rows: int,
) -> None:  # fmt: skip
    """Combines `rows` rows with the partial results in `partial`, for a vector of columns. `at` is (outer
    index, first row, columns).
    """
    outer, row, column = at
    for r, arrays in zip(reductions, partial, strict=True):
        groups: list[tuple[Value, ...]] = []
        for number in range(rows):
            place = (outer, row + number, column)
            values = []
            for x in r.inputs:
                index = reshape_index(place, (plan.outer, plan.reduced, plan.inner), x.shape.dims)
                values.append(e.values.splat(e(x, index), e.lanes))
            groups.append(r.lift(values, e.values))
        old = tuple(array.load((outer, column), e.lanes) for array in arrays)
        if r.any_order:
            while len(groups) > 1:
                groups = [r.combine(e, groups[i], groups[i + 1]) for i in range(0, len(groups), 2)]
        new = old
        for group in groups:
            new = r.combine(e, new, group)
        for array, value in zip(arrays, new, strict=True):
            array.store((outer, column), value)


def _write(
    k: KernelWriter, plan: ColumnPlan, span: tuple, reductions: Sequence[Reduction],
    partial: Sequence[Sequence[DenseArray]],
    outer: AnyIndex,
) -> None:  # fmt: skip
    """Computes and stores the outputs that do not hold partial results, for the columns [span[0], span[1]) of
    outer index `outer`. `partial` has the arrays of partial results.
    """
    todo = [number for number in range(len(k.roots)) if number not in plan.kept_in]
    if not todo:
        return

    def body(e: Elements, column: AnyIndex) -> None:
        bound = k.elements(e.lanes)
        for r, arrays in zip(reductions, partial, strict=True):
            loaded = tuple(array.load((outer, column), e.lanes) for array in arrays)
            r.started = True
            found = r.finish(bound, loaded)
            bound.bind(r.inst, found)
        k.write(bound, (outer, column), (plan.outer, plan.inner), todo)

    space = replace(plan.space, lanes=plan.lanes)
    vectors(k, space, span[0], span[1], body, once=bool(k.kernel.in_place))


class _Shared:
    """Writes a phase in which threads share columns and rows."""

    def __init__(self, k: KernelWriter, plan: ColumnPlan):
        self.k, self.f, self.plan, self.teams = k, k.f, plan, plan.teams[k.phase]
        self.reductions = [Reduction(k.named[name]) for name in plan.reduces]
        self.last = k.phase == len(plan.teams) - 1
        self.reduced = plan.teams[0].pieces if k.phase else plan.reduced
        self.scratch = []
        if len(plan.teams) > 1:
            self.scratch = scratch_arrays(k, self.reductions, (plan.teams[0].pieces, plan.outer, plan.inner))

    def emit(self) -> None:
        f, k, plan, t = self.f, self.k, self.plan, self.teams
        with k.steps(plan.outer, t.pieces, -(-plan.inner // t.columns)) as (outer, piece, block):
            number = Index(f, k.share.start(f.index(0), 1), limit=t.threads)
            place = number // t.columns, number % t.columns
            wanted = base_of(f, place[1] + block * t.columns)
            # Threads beyond the last column read the last column, and write nothing.
            column = Index(f, least(f, wanted, plan.inner - 1), limit=plan.inner)
            groups = self.accumulated(outer, column, piece, base_of(f, place[0]))
            is_last = f.icmp("slt", wanted, plan.inner)
            if t.teams > 1:
                arrays = [
                    [k.local_array(value.dtype, (t.teams, t.columns)) for value in group] for group in groups
                ]
                _store(arrays, place, groups)
                k.share.barrier()
                is_last = f.binary("and", is_last, f.icmp("eq", base_of(f, place[0]), 0))
            with f.if_(is_last):
                if t.teams > 1:
                    groups = self.halved([_load(arrays, (team, place[1])) for team in range(t.teams)])
                self.finish(groups, outer, column, piece)

    def accumulated(self, outer: AnyIndex, column: Index, piece: AnyIndex, team: Ssa) -> list[ValueGroup]:
        """Computes the partial results of this thread: combines those rows of a column, within piece number
        `piece`, that its team takes. `team` is the number of the team.
        """
        f, t, e = self.f, self.teams, self.k.elements(1)
        low = f.mul(base_of(f, piece), t.piece)
        high = f.index(self.reduced)
        if t.pieces > 1:  # the last piece has what is left, which may be more than others have
            is_last = f.icmp("eq", base_of(f, piece), t.pieces - 1)
            high = f.select(is_last, high, f.add(low, t.piece))
        together = t.rows * t.teams
        own, whole = f.add(low, team), f.add(low, f.mul(f.udiv(f.sub(high, low), together), together))

        def new(at: Ssa, rows: int = t.rows) -> list[ValueGroup]:
            places = [Index(f, f.add(at, n * t.teams), limit=self.reduced) for n in range(rows)]
            return [group for row in places for group in self.row(e, (outer, row, column))]

        current = new(own)
        if not all(r.any_order for r in self.reductions):
            current = combined(e, self.reductions, [r.initial(e) for r in self.reductions], current)
            for r in self.reductions:
                r.started = True
        if self.reduced > together:
            loop = f.loop(f.add(own, together), whole, together, registers(current))
            current = folded(e, self.reductions * t.rows, loop, current, new)
        count = len(self.reductions)
        current = self.halved([current[n : n + count] for n in range(0, len(current), count)])
        if self.reduced % together:
            loop = f.loop(f.add(whole, team), high, t.teams, registers(current))
            current = folded(e, self.reductions, loop, current, lambda at: new(at, 1))
        return current

    def row(self, e: Elements, at: tuple[AnyIndex, Index, Index]) -> list[ValueGroup]:
        """The values that each reduction combines at the index `at`, (outer, row, column). In the second
        phase these are the results of pieces; `row` is then the number of a piece.
        """
        if self.k.phase:
            return _load(self.scratch, (at[1], at[0], at[2]))
        dims = self.plan.outer, self.plan.reduced, self.plan.inner
        return [
            r.lift([e(x, reshape_index(at, dims, x.shape.dims)) for x in r.inputs], e.values)
            for r in self.reductions
        ]

    def halved(self, groups: list[list[ValueGroup]]) -> list[ValueGroup]:
        """Combines all groups into one: neighbouring groups in pairs, then neighbouring results, and so on.
        The number of groups is a power of two.
        """
        e = self.k.elements(1)
        while len(groups) > 1:
            pairs = zip(groups[::2], groups[1::2], strict=True)
            groups = [combined(e, self.reductions, a, b) for a, b in pairs]
        return groups[0]

    def finish(self, groups: list[ValueGroup], outer: AnyIndex, column: Index, piece: AnyIndex) -> None:
        """Stores the partial results of a piece in scratch memory or, in the last phase, computes the
        kernel's results and stores them.
        """
        if not self.last:
            _store(self.scratch, (piece, outer, column), groups)
            return
        e = self.k.elements(1)
        for r, values in zip(self.reductions, groups, strict=True):
            e.bind(r.inst, r.finish(e, values))
        self.k.write(e, (outer, column), (self.plan.outer, self.plan.inner))


def _store(arrays: Sequence[Sequence[DenseArray]], at: Sequence[AnyIndex], groups: list[ValueGroup]) -> None:
    for group, places in zip(groups, arrays, strict=True):
        for value, array in zip(group, places, strict=True):
            array.store(at, value)


def _load(arrays: Sequence[Sequence[DenseArray]], at: Sequence[AnyIndex]) -> list[ValueGroup]:
    return [tuple(array.load(at, 1) for array in places) for places in arrays]
