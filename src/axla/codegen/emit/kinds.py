"""Which planner serves which kind of kernel, and which emitter which plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

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
from axla.analysis.kernels import kernel_kind
from axla.codegen.emit import (
    column,
    concat,
    convolution,
    dot,
    fft,
    fft_plan,
    loop,
    row,
    sort,
    topk,
    transpose,
    update,
)
from axla.codegen.function import Module
from axla.codegen.kernel import KernelTask, root_shape
from axla.ir.graph import Computation
from axla.program.kernels import Kernel
from axla.program.plans import (
    AnyPlan,
    ColumnPlan,
    ConcatPlan,
    ConvolutionPlan,
    DotPlan,
    FftPlan,
    LoopPlan,
    RowPlan,
    ScatterPlan,
    SortPlan,
    TopKPlan,
    TransposePlan,
    UpdatePlan,
)
from axla.target.machine import Target

PLANNERS: dict[type, Callable[[KernelTask, Target], AnyPlan]] = {
    LoopKind: loop.plan,
    RowKind: row.plan,
    ColumnKind: column.plan,
    TransposeKind: transpose.plan,
    DotKind: dot.plan,
    UpdateKind: update.plan_update,
    ScatterKind: update.plan_scatter,
    SortKind: sort.plan,
    ConvolutionKind: convolution.plan,
    FftKind: fft_plan.plan,
    TopKKind: topk.plan,
    ConcatKind: concat.plan,
}

EMITTERS: dict[type, Callable[[Module, Kernel, Any, Target], None]] = {
    LoopPlan: loop.emit,
    RowPlan: row.emit,
    ColumnPlan: column.emit,
    TransposePlan: transpose.emit,
    DotPlan: dot.emit,
    UpdatePlan: update.emit_update,
    ScatterPlan: update.emit_scatter,
    SortPlan: sort.emit,
    ConvolutionPlan: convolution.emit,
    FftPlan: fft.emit,
    TopKPlan: topk.emit,
    ConcatPlan: concat.emit,
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


def plan_kernel(
    name: str, computation: Computation, in_place: tuple[tuple[int, int], ...], target: Target
) -> Kernel:
    """The kernel of a computation that stands alone; (output, input) pairs `in_place` share memory."""
    kind = kernel_kind(computation, target.limits)
    task = _served(KernelTask(name, computation, kind, in_place), target)
    return Kernel(name, str(kind), computation, in_place, PLANNERS[type(task.kind)](task, target))


def emit_kernel(module: Module, kernel: Kernel, target: Target) -> None:
    """Writes a kernel's functions into the module."""
    EMITTERS[type(kernel.plan)](module, kernel, kernel.plan, target)
