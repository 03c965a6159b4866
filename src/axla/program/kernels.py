"""Kernels as data: an HLO computation, and the plan (`axla.kernels.plan`) for its code.

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
"""The bytes that a kernel may read and write without polling for cancellation."""


def output_shapes(computation: Computation) -> tuple[Shape, ...]:
    """The shape of every output of a kernel, in order."""
    return tuple(map(array, computation.root.shape.leaves()))


def _largest(computation: Computation) -> int:
    """The number of elements in the largest array of a computation, at least 1."""
    shapes = (s for inst in computation.instructions for s in inst.shape.leaves())
    return max((s.size for s in shapes if isinstance(s, Shape)), default=0) or 1


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel, which is compiled once and called from any number of steps.

    `computation` is the entry of a module of its own. `kind` describes the kernel as text. `in_place` has the
    (output, input) pairs that share memory. The name identifies the computation; so kernels are compared by
    all fields except the computation.
    """

    name: str
    kind: str
    computation: Computation = field(compare=False)
    in_place: tuple[tuple[int, int], ...]
    plan: Plan

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the functions for its phases."""
        return tuple(dict.fromkeys(phase.symbol for phase in self.plan.phases))

    @property
    def polls(self) -> bool:
        """Whether the kernel polls for cancellation; during a run with such a kernel, other Python threads
        can continue.
        """
        shapes = (*(p.shape for p in self.computation.parameters), *output_shapes(self.computation))
        moved = sum(s.size * s.dtype.itemsize for s in shapes)
        # Values that are not stored may be larger, and a called computation is run for every element.
        computations = self.computation.module.computations
        return max(moved, prod(c.fact("largest array", _largest) for c in computations)) > SHORT_BYTES

    def named(self) -> dict[str, Instruction]:
        """The instructions of the kernel's computation, by name."""
        return {inst.name: inst for inst in self.computation.instructions}


def plan_kernel(
    name: str, computation: Computation, in_place: tuple[tuple[int, int], ...], target: Target
) -> Kernel:
    """Plans a computation as a kernel; the (output, input) pairs `in_place` share memory."""
    kind = kernel_kind(computation, target.limits)
    task = KernelTask(name, computation, in_place)
    return Kernel(name, str(kind), computation, in_place, kind.served(computation, target).plan(task, target))


def variants_of(kernel: Kernel, target: Target) -> list[Kernel]:
    """Copies of the kernel with the other plans whose results have the same bits as those of the kernel's
    plan.
    """
    task = KernelTask(kernel.name, kernel.computation, kernel.in_place)
    kind = kernel_kind(kernel.computation, target.limits).served(kernel.computation, target)
    plans = dict.fromkeys(kind.variants(task, target))
    return [replace(kernel, plan=plan) for plan in plans if plan != kernel.plan]
