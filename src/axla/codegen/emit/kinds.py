"""Which emitter serves which kind of kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from axla.analysis.kernel_kinds import (
    ColumnKind,
    ConcatKind,
    ConvolutionKind,
    CopyKind,
    DotKind,
    FftKind,
    LoopKind,
    RowKind,
    ScatterKind,
    SortKind,
    TopKKind,
    TransposeKind,
    UpdateKind,
)
from axla.codegen.emit import column, concat, convolution, dot, fft, loop, row, sort, topk, transpose, update
from axla.codegen.function import Module
from axla.codegen.kernel import KernelTask, Plan, root_shape
from axla.target.machine import Target

Planner = Callable[[KernelTask, Target], Plan]
Emitter = Callable[[Module, KernelTask, Target], None]

EMITTERS: dict[type, tuple[Planner, Emitter]] = {
    LoopKind: (loop.plan, loop.emit),
    RowKind: (row.plan, row.emit),
    ColumnKind: (column.plan, column.emit),
    TransposeKind: (transpose.plan, transpose.emit),
    DotKind: (dot.plan, dot.emit),
    UpdateKind: (update.plan_update, update.emit_update),
    ScatterKind: (update.plan_scatter, update.emit_scatter),
    SortKind: (sort.plan, sort.emit),
    ConvolutionKind: (convolution.plan, convolution.emit),
    FftKind: (fft.plan, fft.emit),
    TopKKind: (topk.plan, topk.emit),
    ConcatKind: (concat.plan, concat.emit),
}


def _served(task: KernelTask, target: Target) -> KernelTask:
    """The task as an emitter takes it."""
    kind = task.kind
    if isinstance(kind, CopyKind):
        return replace(task, kind=LoopKind(kind.dims))  # the loop whose body is its operand
    if isinstance(kind, DotKind) and not dot.multiplies(kind, target):
        return replace(task, kind=LoopKind(root_shape(kind.hero).dims, (kind.hero,)))
    if isinstance(kind, RowKind) and row.lanes_across_rows(task, target):
        return replace(task, kind=LoopKind(kind.rows, kind.stages[0]))
    return task


def plan_kernel(task: KernelTask, target: Target) -> Plan:
    """How a kernel is called."""
    task = _served(task, target)
    return EMITTERS[type(task.kind)][0](task, target)


def emit_kernel(module: Module, task: KernelTask, target: Target) -> None:
    """Writes a kernel's functions into the module."""
    task = _served(task, target)
    EMITTERS[type(task.kind)][1](module, task, target)
