"""Which planner serves which kind of kernel, and which emitter which plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from axla.analysis import kernel_kinds as kinds
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
)  # fmt: skip
from axla.codegen.function import Module
from axla.codegen.kernel import KernelTask, KernelWriter, root_shape
from axla.ir.graph import Computation
from axla.program import plans
from axla.program.kernels import Kernel
from axla.target.machine import Target

PLANNERS: dict[type, Callable[[KernelTask, Any, Target], plans.AnyPlan]] = {
    kinds.LoopKind: loop.plan,
    kinds.RowKind: row.plan,
    kinds.ColumnKind: column.plan,
    kinds.TransposeKind: transpose.plan,
    kinds.DotKind: dot.plan,
    kinds.UpdateKind: update.plan_update,
    kinds.ScatterKind: update.plan_scatter,
    kinds.SortKind: sort.plan,
    kinds.ConvolutionKind: convolution.plan,
    kinds.FftKind: fft_plan.plan,
    kinds.TopKKind: topk.plan,
    kinds.ConcatKind: concat.plan,
}

EMITTERS: dict[type, Callable[[KernelWriter, Any], None]] = {
    plans.LoopPlan: loop.emit,
    plans.RowPlan: row.emit,
    plans.ColumnPlan: column.emit,
    plans.TransposePlan: transpose.emit,
    plans.UpdatePlan: update.emit_update,
    plans.ScatterPlan: update.emit_scatter,
    plans.SortPlan: sort.emit,
    plans.ConvolutionPlan: convolution.emit,
    plans.FftPlan: fft.emit,
    plans.TopKPlan: topk.emit,
    plans.ConcatPlan: concat.emit,
}


def _served(kind: kinds.KernelKind, computation: Computation, target: Target) -> kinds.KernelKind:
    """The kind as which a target's kernel is planned."""
    if isinstance(kind, kinds.CopyKind):
        return kinds.LoopKind(kind.dims)  # the loop whose body is its operand
    if isinstance(kind, kinds.DotKind) and not dot.multiplies(kind, target):
        return kinds.LoopKind(root_shape(kind.hero).dims, (kind.hero,))
    if isinstance(kind, kinds.RowKind) and row.lanes_across_rows(computation, kind, target):
        return kinds.LoopKind(kind.rows, kind.stages[0])
    return kind


def plan_kernel(
    name: str, computation: Computation, in_place: tuple[tuple[int, int], ...], target: Target
) -> Kernel:
    """The kernel of a computation that stands alone; (output, input) pairs `in_place` share memory."""
    kind = kernel_kind(computation, target.limits)
    served = _served(kind, computation, target)
    plan = PLANNERS[type(served)](KernelTask(name, computation, in_place), served, target)
    return Kernel(name, str(kind), computation, in_place, plan)


def emit_kernel(module: Module, kernel: Kernel, target: Target) -> None:
    """Writes a kernel's functions into the module: one for each phase."""
    plan = kernel.plan
    if isinstance(plan, plans.DotPlan):
        dot.emit(module, kernel, plan, target)
        return
    for phase in range(len(plan.phases)):
        k = KernelWriter(module, kernel, target, phase)
        EMITTERS[type(plan)](k, plan)
        k.share.finish()
