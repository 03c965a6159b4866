"""Writes in place: dynamic-update-slice and scatter. The operand's memory is the result's; only what changes is written."""

from __future__ import annotations

import contextlib

from axla.analysis.kernel_kinds import ScatterKind, UpdateKind
from axla.codegen.element import Elements, Indices, all_of
from axla.codegen.emit.loop import loop_phase, loop_space, walk
from axla.codegen.function import Module
from axla.codegen.index import AnyIndex, Index, delinearize
from axla.codegen.kernel import KernelTask, KernelWriter, Phase, Plan
from axla.codegen.target import Target
from axla.codegen.value import Value
from axla.core.shape import Shape


def plan_update(task: KernelTask, target: Target) -> Plan:
    """How an update kernel is called: a loop over the elements of the update."""
    assert isinstance(task.kind, UpdateKind)
    space = loop_space(task, task.kind.dims, target)
    return Plan((loop_phase(task.name, task.computation, space),))


def emit_update(module: Module, task: KernelTask, target: Target) -> None:
    """Writes the kernel of an `UpdateKind`."""
    kind = task.kind
    assert isinstance(kind, UpdateKind)
    k = KernelWriter(module, task, target, task.name)
    _, update, *starts = kind.hero.operands
    dims = kind.hero.shape.dims  # type: ignore[attr-defined]

    def body(e: Elements, index: Indices) -> None:
        begin = e.window_start(starts, dims, kind.dims)
        value = e(update, index)
        k.outputs[0].store(tuple(i + s for i, s in zip(index, begin, strict=True)), value)

    # Not twice: where the update reads the element it writes, a second pass would read the new one.
    walk(k, loop_space(task, kind.dims, target), kind.dims, body, once=True)
    k.finish()


def plan_scatter(task: KernelTask, target: Target) -> Plan:
    """How a scatter kernel is called: once, in the order of its updates."""
    del target
    return Plan((Phase(task.name, 1, 1, False),))


def emit_scatter(module: Module, task: KernelTask, target: Target) -> None:
    """Writes the kernel of a `ScatterKind`: for each scatter index, and each element of its window, combine and store."""
    kind = task.kind
    assert isinstance(kind, ScatterKind)
    k = KernelWriter(module, task, target, task.name)
    f, hero, op = k.f, kind.hero, kind.hero.op
    count = (len(hero.operands) - 1) // 2
    indices = hero.operands[count]
    updates = hero.operands[count + 1 :]
    shape = updates[0].shape
    assert isinstance(shape, Shape)
    if shape.size == 0:
        k.finish()
        return
    window_dims = op.update_window_dims  # type: ignore[attr-defined]
    batch_dims = [d for d in range(shape.rank) if d not in window_dims]
    batch_sizes = [shape.dims[d] for d in batch_dims]
    window_sizes = [shape.dims[d] for d in window_dims]
    batch_count, window_count = _product(batch_sizes), _product(window_sizes)
    arrays = k.outputs
    e = k.elements(1)
    with f.loop(0, batch_count, 1) as outer:
        batch = delinearize(Index(f, outer.index, limit=batch_count), batch_sizes)
        start, ok = _window(e, hero, indices, batch, window_sizes, arrays[0].dims)
        with _when(f, ok), f.loop(0, window_count, 1) as inner:
            window = delinearize(Index(f, inner.index, limit=window_count), window_sizes)
            full: list[AnyIndex] = [0] * shape.rank
            for d, i in (*zip(batch_dims, batch, strict=True), *zip(window_dims, window, strict=True)):
                full[d] = i
            at = _operand_index(hero, start, window, len(arrays[0].dims))
            old = [array.load(at, 1) for array in arrays]
            new = [e(u, tuple(full)) for u in updates]
            found = e.apply(op.to_apply, (*old, *new))  # type: ignore[attr-defined]
            for array, value in zip(arrays, found, strict=True):
                array.store(at, value)
    k.finish()


def _product(sizes: list[int]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found


def _when(f, condition: Value | bool):
    """A region that runs when the condition holds."""
    if condition is True:
        return contextlib.nullcontext()
    if condition is False:
        return f.if_(f.const("i1", False))
    return f.if_(condition.ssa)


def _window(e: Elements, hero, indices, batch, window_sizes, dims) -> tuple[dict[int, AnyIndex], Value | bool]:
    """(start of the window per operand dimension, whether the window lies inside the operand)."""
    op = hero.op
    vector_dim = op.index_vector_dim
    start: dict[int, AnyIndex] = {}
    conditions: list[Value | bool] = []
    sizes = _window_size_of(op, window_sizes, len(dims))
    for number, d in enumerate(op.scatter_dims_to_operand_dims):
        where = list(batch)
        if vector_dim < indices.shape.rank:
            where.insert(vector_dim, number)
        value = e(indices, tuple(where))
        position, inside = e.checked_index(value, dims[d] - sizes[d])
        start[d] = position
        conditions.append(inside)
    operand_batch = dict(zip(op.input_batching_dims, op.scatter_indices_batching_dims, strict=True))
    for d, of_indices in operand_batch.items():
        start[d] = batch[of_indices - (1 if of_indices > vector_dim else 0)]
    return start, all_of(e.values, conditions)


def _window_size_of(op, window_sizes, rank: int) -> list[int]:
    """The window's size in each operand dimension: 1 where it was left out of the updates."""
    left_out = (*op.inserted_window_dims, *op.input_batching_dims)
    sizes = iter(window_sizes)
    return [1 if d in left_out else next(sizes) for d in range(rank)]


def _operand_index(hero, start: dict[int, AnyIndex], window, rank: int) -> tuple[AnyIndex, ...]:
    op = hero.op
    left_out = (*op.inserted_window_dims, *op.input_batching_dims)
    inside = iter(window)
    found: list[AnyIndex] = []
    for d in range(rank):
        i = start.get(d, 0)
        if d not in left_out:
            i = i + next(inside) if not isinstance(i, int) or i else next(inside)
        found.append(i)
    return tuple(found)
