"""A compiled program before code generation: frozen data without a reference to the module it came from."""

from __future__ import annotations

from collections.abc import Iterator

from axla.core.dataclass import dataclass
from axla.core.literal import Digest
from axla.core.shape import Shape
from axla.program.interface import Interface
from axla.program.kernels import Kernel
from axla.program.memory import Allocation
from axla.program.steps import BranchStep, LoopStep, Step, Value

Sum = str | Digest


@dataclass(frozen=True, slots=True)
class Constant:
    """An array in the segment of constants; `digest` tells its bytes (blake2b, 32 digits): that of large ones
    takes as long as all else, so it is computed when it is read.
    """

    offset: int
    shape: Shape
    digest: Sum


@dataclass(frozen=True, slots=True)
class Program:
    """All that code generation needs. The bytes of the constants stand beside it.

    `parameters` and `results` are by leaf of the code's own parameters and results, which the numbers of
    allocations count; None is a token, which callers do not count. `target` is the identity of the Target
    that it was made for (`axla.target.identity`).
    """

    name: str
    target: str
    interface: Interface
    allocations: tuple[Allocation, ...]  # of parameters and results
    constants: tuple[Constant, ...]
    kernels: tuple[Kernel, ...]
    parameters: tuple[Value | None, ...]
    steps: tuple[Step, ...]
    results: tuple[Value | None, ...]


def nested_steps(step: Step) -> Iterator[Step]:
    """The steps right inside of a step."""
    if isinstance(step, LoopStep):
        yield from step.condition
        yield from step.body
    elif isinstance(step, BranchStep):
        for branch in step.branches:
            yield from branch.steps


def all_steps(program: Program) -> Iterator[Step]:
    """Every step, those inside of loops and branches included, in order."""
    stack = list(reversed(program.steps))
    while stack:
        step = stack.pop()
        yield step
        stack.extend(reversed(tuple(nested_steps(step))))
