"""Writes in place: dynamic-update-slice and scatter. The result shares the operand's memory; only changed
elements are written.
"""

from __future__ import annotations

import contextlib

from axla.codegen.array import element_address
from axla.codegen.element import Elements, Indices
from axla.codegen.emit.loop import vectors, walk
from axla.codegen.function import ForLoop, LlvmFunction
from axla.codegen.index import AnyIndex, Index, delinearize, linear
from axla.codegen.kernel import KernelWriter
from axla.codegen.scatter import Scattering
from axla.codegen.value import Value
from axla.kernels.plan import Space
from axla.kernels.update import ScatterPlan, Sharing, UpdatePlan


def emit_update(k: KernelWriter, plan: UpdatePlan) -> None:
    """Writes the kernel of an `UpdatePlan`."""
    hero = k.named[plan.hero]
    _, update, *starts = hero.operands
    dims = hero.shape.dims

    def body(e: Elements, index: Indices) -> None:
        begin = e.window_start(starts, dims, plan.dims)
        value = e(update, index)
        k.outputs[0].store(tuple(i + s for i, s in zip(index, begin, strict=True)), value)

    # Each element once: where the update reads an element that it overwrites, a second pass would read the
    # new one.
    walk(k, plan.space, plan.dims, body, once=True)


def emit_scatter(k: KernelWriter, plan: ScatterPlan) -> None:
    """Writes the kernel of a `ScatterPlan`: for each scatter index, and each element of its window, combines
    the update with the operand and stores the result.
    """
    if plan.sharing is Sharing.ALONE:
        _alone(k, plan)
    else:
        _SHARED[plan.sharing](_Shared(k, plan))


class _Shared:
    """Writes a scatter that threads share: each thread handles one element of a window."""

    def __init__(self, k: KernelWriter, plan: ScatterPlan):
        self.k, self.f, self.plan = k, k.f, plan
        self.g = Scattering(k.named[plan.hero])

    def batch(self, number: AnyIndex) -> tuple[AnyIndex, ...]:
        return delinearize(number, self.g.batch_sizes)

    def numbers(self, count: int) -> contextlib.AbstractContextManager[ForLoop]:
        """Opens a loop that this thread runs once, with its own number, if that is below `count`."""
        f, threads = self.f, self.k.share.threads
        low = f.mul(self.k.share.begin, threads)
        return self.k.walk(low, f.smin(f.add(low, threads), count), 1)

    def free(self) -> None:
        """Writes code in which each thread combines one element of the updates with the operand, in any
        order.
        """
        g = self.g
        work = g.batch_count * g.window_count
        with self.numbers(work) as loop:
            number = Index(self.f, loop.index, limit=work)
            batch = self.batch(number // g.window_count)
            start, inside = g.start(self.k.elements(1), batch)
            with _when(self.f, inside):
                self.combine(batch, start, number % g.window_count)

    def owners(self) -> None:
        """Writes code in which each thread reads all start indices, in order, and combines the updates at
        those that it owns.
        """
        f, g, owners = self.f, self.g, self.plan.owners
        work = owners * g.window_count
        with self.numbers(work) as loop:
            number = Index(f, loop.index, limit=work)
            owner = (number // g.window_count).base
            with f.loop(0, g.batch_count, 1) as batches:
                batch = self.batch(Index(f, batches.index, limit=g.batch_count))
                start, inside = g.start(self.k.elements(1), batch)
                place = linear([start[d] for d in g.indexed], g.indexed_sizes)
                at = f.index(place) if isinstance(place, int) else place.base
                mine = f.icmp("eq", f.urem(at, owners), owner)
                with _when(f, inside), f.if_(mine):
                    self.combine(batch, start, number % g.window_count)

    def window(self) -> None:
        """Writes code in which the threads process one window after the other; each thread combines some of
        its elements.
        """
        f, g = self.f, self.g
        with f.loop(0, g.batch_count, 1) as batches:
            batch = self.batch(Index(f, batches.index, limit=g.batch_count))
            start, inside = g.start(self.k.elements(1), batch)
            with _when(f, inside), self.k.walk(f.index(0), f.index(g.window_count), 1) as loop:
                self.combine(batch, start, Index(f, loop.index, limit=g.window_count))
            self.k.share.barrier(everywhere=True)

    def combine(self, batch: tuple[AnyIndex, ...], start: dict[int, AnyIndex], number: AnyIndex) -> None:
        """Combines element number `number` of a window with the operand. `batch` is the index of the window
        among all updates; `start` has its start in each operand dimension.
        """
        f, g, e, arrays = self.f, self.g, self.k.elements(1), self.k.outputs
        window = delinearize(number, g.window_sizes)
        at = g.operand_index(start, window)
        new = [e(update, g.update_index(batch, window)) for update in g.updates]
        if self.plan.atomic:
            offset = linear(at, g.dims)
            place = offset if isinstance(offset, int) else offset.base
            pointer = element_address(f, arrays[0].pointer, arrays[0].dtype, place)
            value = new[0].ssa
            f.effect(value.type, f'atomicrmw {g.atomic} {pointer!r}, {value!r} syncscope("device") monotonic')
            return
        old = [array.load(at, 1) for array in arrays]
        for array, value in zip(arrays, g.combined(e, old, new), strict=True):
            array.store(at, value)


_SHARED = {Sharing.FREE: _Shared.free, Sharing.OWNERS: _Shared.owners, Sharing.WINDOW: _Shared.window}


def _alone(k: KernelWriter, plan: ScatterPlan) -> None:
    """Writes code in which one thread combines all updates, with vectors along the rows of windows."""
    f, g = k.f, Scattering(k.named[plan.hero])
    arrays, minor = k.outputs, plan.row
    rows = g.window_count // max(minor, 1)
    whole = g.batch_count // plan.beside * plan.beside if plan.beside > 1 else 0
    if whole:
        _beside(k, g, plan.beside, whole)
    if whole < g.batch_count and g.window_count:
        with f.loop(whole, g.batch_count, 1) as outer:
            batch = delinearize(Index(f, outer.index, limit=g.batch_count), g.batch_sizes)
            start, inside = g.start(k.elements(1), batch, clamped=False)

            def combine(e: Elements, row: AnyIndex, column: AnyIndex) -> None:
                window = delinearize(column + row * minor, g.window_sizes)
                at = g.operand_index(start, window)
                old = [array.load(at, e.lanes) for array in arrays]
                new = [e(update, g.update_index(batch, window)) for update in g.updates]
                for array, value in zip(arrays, g.combined(e, old, new), strict=True):
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


def _beside(k: KernelWriter, g: Scattering, lanes: int, whole: int) -> None:
    """Combines the first `whole` updates, which have one element each: `lanes` of them are computed at a
    time, then combined one by one, in order.
    """
    f, values, arrays = k.f, k.values, k.outputs
    with f.loop(0, whole, lanes, nonempty=True) as loop:
        number = Index(f, loop.index, 1, lanes, multiple=lanes, limit=g.batch_count)
        first = Index(f, loop.index, multiple=lanes, limit=g.batch_count)
        e, one, window = k.elements(lanes), k.elements(1), (0,) * len(g.window_sizes)
        starts = [g.start(one, delinearize(first + n, g.batch_sizes), clamped=False) for n in range(lanes)]
        if starts[0][1] is False:  # the array has no elements
            return
        at = g.update_index(delinearize(number, g.batch_sizes), window)
        new = [values.splat(e(update, at), lanes) for update in g.updates]
        for lane, (start, inside) in enumerate(starts):
            with _when(f, inside):
                place = g.operand_index(start, window)
                old = [array.load(place, 1) for array in arrays]
                found = g.combined(one, old, [values.lane(value, lane) for value in new])
                for array, value in zip(arrays, found, strict=True):
                    array.store(place, value)


def _when(f: LlvmFunction, condition: Value | bool) -> contextlib.AbstractContextManager[None]:
    """Opens code that runs if the condition holds."""
    if condition is True:
        return contextlib.nullcontext()
    return f.if_(f.const("i1", False) if condition is False else condition.ssa)
