"""The column emitter: reductions over leading or middle dimensions, [outer, reduced, inner] -> [outer,
inner].

Lanes run along `inner`. Rows are taken a few at a time, and each column's partial result stays in the output
(or in scratch memory) between them: all memory is read in long contiguous stretches, and the partial results
stay in cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.codegen.array import Array
from axla.codegen.element import Elements, reshape_index
from axla.codegen.emit.loop import vectors
from axla.codegen.index import AnyIndex, Index
from axla.codegen.kernel import KernelWriter, span_of
from axla.codegen.reduction import Reduction, scratch_arrays
from axla.codegen.value import Value
from axla.kernels.reduce import ColumnPlan


def emit(k: KernelWriter, plan: ColumnPlan) -> None:
    """Writes the kernel of a `ColumnPlan`."""
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

                # Several rows are work enough for an iteration.
                vectors(k, space, low, high, add, once=True, copies=1 if rows > 1 else 4)
        _write(k, plan, (low, high), reductions, partial, outer)


def _partials(k: KernelWriter, plan: ColumnPlan, reductions: Sequence[Reduction]) -> list[list[Array]]:
    """Per reduction and accumulated value, the [outer, inner] array of partial results."""
    dims = (plan.outer, plan.inner)
    apart = [r for r, number in zip(reductions, plan.kept_in, strict=True) if number < 0]
    scratch = iter(scratch_arrays(k, apart, dims))
    found = []
    for number in plan.kept_in:
        outputs = k.outputs_of(number) if number >= 0 else ()
        kept = [Array(k.values, o.pointer, o.dtype, dims, readonly=False) for o in outputs]
        found.append(kept or next(scratch))
    return found


def _accumulate(
    plan: ColumnPlan, e: Elements, reductions: Sequence[Reduction], partial: Sequence[Sequence[Array]],
    at: tuple[AnyIndex, Index, AnyIndex], rows: int,
) -> None:  # fmt: skip
    """Combines `rows` rows at a column into the partial results."""
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
    partial: Sequence[Sequence[Array]],
    outer: AnyIndex,
) -> None:  # fmt: skip
    """Writes the outputs that are not themselves partial results."""
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

    vectors(k, plan.space, span[0], span[1], body, once=bool(k.kernel.in_place))
