"""Kernels as data: an HLO computation, and the plan (`axla.kernels.plan`) of its code.

A kernel's buffers are the inputs (the parameters of its computation, in order), the outputs (the leaves of
its root) and, if the plan needs it, scratch memory.
"""

from __future__ import annotations

from dataclasses import field, replace
from math import prod

from axla.core.dataclass import dataclass
from axla.core.shape import Shape, array
from axla.ir.graph import Computation, Instruction
from axla.kernels.kinds import kernel_kind
from axla.kernels.plan import KernelTask, Plan
from axla.target.machine import Target

SHORT_BYTES = 1 << 20
"""Bytes that a kernel may read and write before it looks whether the run is cancelled."""


def output_shapes(computation: Computation) -> tuple[Shape, ...]:
    """The shape of every output, in order."""
    return tuple(map(array, computation.root.shape.leaves()))


def _largest(computation: Computation) -> int:
    """The number of elements in the largest array of a computation, at least 1."""
    shapes = (s for inst in computation.instructions for s in inst.shape.leaves())
    return max((s.size for s in shapes if isinstance(s, Shape)), default=0) or 1


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel, compiled once and called from any number of steps.

    `computation` is the entry of a module of its own. `kind` describes the kernel as text. `in_place`:
    (output, input) pairs that share memory. The name identifies the computation, so kernels are compared by
    all fields except the computation.
    """

    name: str
    kind: str
    computation: Computation = field(compare=False)
    in_place: tuple[tuple[int, int], ...]
    plan: Plan

    @property
    def symbols(self) -> tuple[str, ...]:
        """The functions called for its phases."""
        return tuple(dict.fromkeys(phase.symbol for phase in self.plan.phases))

    @property
    def polls(self) -> bool:
        """Whether it polls for cancellation; runs with it let Python's other threads continue."""
        shapes = (*(p.shape for p in self.computation.parameters), *output_shapes(self.computation))
        moved = sum(s.size * s.dtype.itemsize for s in shapes)
        # What it computes and keeps nowhere may be more; what it calls, it calls for every element.
        computations = self.computation.module.computations
        return max(moved, prod(c.fact("largest array", _largest) for c in computations)) > SHORT_BYTES

    def named(self) -> dict[str, Instruction]:
        """The instructions of its computation by name."""
        return {inst.name: inst for inst in self.computation.instructions}


def plan_kernel(
    name: str, computation: Computation, in_place: tuple[tuple[int, int], ...], target: Target
) -> Kernel:
    """The kernel for a computation; the (output, input) pairs `in_place` share memory."""
    kind = kernel_kind(computation, target.limits)
    task = KernelTask(name, computation, in_place)
    return Kernel(name, str(kind), computation, in_place, kind.served(computation, target).plan(task, target))


def variants_of(kernel: Kernel, target: Target) -> list[Kernel]:
    """The same kernel with other plans that give the same bits; each once."""
    task = KernelTask(kernel.name, kernel.computation, kernel.in_place)
    kind = kernel_kind(kernel.computation, target.limits).served(kernel.computation, target)
    plans = dict.fromkeys(kind.variants(task, target))
    return [replace(kernel, plan=plan) for plan in plans if plan != kernel.plan]
