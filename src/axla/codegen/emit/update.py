"""Writes in place: dynamic-update-slice and scatter. The operand's memory is the result's; only what changes
is written.
"""

from __future__ import annotations

import contextlib

from axla.codegen.element import Elements, Indices
from axla.codegen.emit.loop import vectors, walk
from axla.codegen.function import Function
from axla.codegen.index import AnyIndex, Index, delinearize
from axla.codegen.kernel import KernelWriter
from axla.codegen.scatter import Scattering
from axla.codegen.value import Value
from axla.kernels.plan import Space
from axla.kernels.update import ScatterPlan, UpdatePlan


def emit_update(k: KernelWriter, plan: UpdatePlan) -> None:
    """Writes the kernel of an `UpdatePlan`."""
    hero = k.named[plan.hero]
    _, update, *starts = hero.operands
    dims = hero.shape.dims

    def body(e: Elements, index: Indices) -> None:
        begin = e.window_start(starts, dims, plan.dims)
        value = e(update, index)
        k.outputs[0].store(tuple(i + s for i, s in zip(index, begin, strict=True)), value)

    # Not twice: where the update reads the element it writes, a second pass would read the new one.
    walk(k, plan.space, plan.dims, body, once=True)


def emit_scatter(k: KernelWriter, plan: ScatterPlan) -> None:
    """Writes the kernel of a `ScatterPlan`: for each scatter index, and each element of its window, combine
    and store.
    """
    f, g = k.f, Scattering(k.named[plan.hero])
    arrays, minor = k.outputs, plan.row
    rows = g.window_count // max(minor, 1)
    if g.batch_count and g.window_count:
        with f.loop(0, g.batch_count, 1) as outer:
            batch = delinearize(Index(f, outer.index, limit=g.batch_count), g.batch_sizes)
            start, inside = g.start(k.elements(1), batch)

            def combine(e: Elements, row: AnyIndex, column: AnyIndex) -> None:
                window = delinearize(column + row * minor, g.window_sizes)
                at = g.operand_index(start, window)
                old = [array.load(at, e.lanes) for array in arrays]
                new = [e(update, g.update_index(batch, window)) for update in g.updates]
                for array, value in zip(arrays, e.apply(g.op.to_apply, (*old, *new)), strict=True):
                    array.store(at, value)

            with _when(f, inside):
                if g.window_count == 1:
                    combine(k.elements(1), 0, 0)
                else:
                    with f.loop(0, rows, 1) as loop:
                        row = Index(f, loop.index, limit=rows)
                        space = Space((), minor, minor, plan.lanes)
                        columns = f.index(0), f.index(minor)
                        vectors(k, space, *columns, lambda e, column: combine(e, row, column), once=True)


def _when(f: Function, condition: Value | bool) -> contextlib.AbstractContextManager[None]:
    """A region that runs when the condition holds."""
    if condition is True:
        return contextlib.nullcontext()
    return f.if_(f.const("i1", False) if condition is False else condition.ssa)
