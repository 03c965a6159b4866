"""A compiled program before code generation: frozen data without references to the original module."""

from __future__ import annotations

from collections.abc import Iterator

from axla.core.dataclass import dataclass
from axla.core.literal import Digest
from axla.core.shape import Shape
from axla.program.interface import Interface
from axla.program.kernels import Kernel
from axla.program.memory import Allocation
from axla.program.steps import ArrayValue, BranchStep, LoopStep, Step

ContentDigest = str | Digest


@dataclass(frozen=True, slots=True)
class ConstantSpec:
    """An array in the constants segment; `digest` identifies its bytes (blake2b, 32 digits). It is computed
    on first use, since that takes long for large arrays.
    """

    offset: int
    shape: Shape
    digest: ContentDigest


@dataclass(frozen=True, slots=True)
class Program:
    """Everything that code generation needs. The bytes of the constants are separate.

    `parameters` and `results` are in the order of the code's own leaves, which the numbers of allocations
    refer to; None is a token, which callers do not count. `target` is the identity of the Target that it was
    made for (`axla.target.identity`).
    """

    name: str
    target: str
    interface: Interface
    allocations: tuple[Allocation, ...]  # of parameters and results
    constants: tuple[ConstantSpec, ...]
    kernels: tuple[Kernel, ...]
    parameters: tuple[ArrayValue | None, ...]
    steps: tuple[Step, ...]
    results: tuple[ArrayValue | None, ...]


def nested_steps(step: Step) -> Iterator[Step]:
    """The steps directly inside a step."""
    if isinstance(step, LoopStep):
        yield from step.condition
        yield from step.body
    elif isinstance(step, BranchStep):
        for branch in step.branches:
            yield from branch.steps


def all_steps(program: Program) -> Iterator[Step]:
    """Every step in order, including those inside loops and branches."""
    stack = list(reversed(program.steps))
    while stack:
        step = stack.pop()
        yield step
        stack.extend(reversed(tuple(nested_steps(step))))
