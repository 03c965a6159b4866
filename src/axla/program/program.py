"""Compiled programs before code generation: immutable data without references to the original module."""

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
    """An array in the constants segment at byte `offset`. `digest` identifies its bytes (blake2b, 32
    hexadecimal digits); it is computed at its first use, since that takes long for large arrays.
    """

    offset: int
    shape: Shape
    digest: ContentDigest


@dataclass(frozen=True, slots=True)
class Program:
    """All data that code generation needs, except for the bytes of the constants.

    `parameters` and `results` are in the order of the code's leaves, which allocations refer to by number.
    None is a token, which callers do not count. `target` is the identity of the Target for which the program
    was made (`axla.target.identity`).
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
    """Yields the steps directly inside a loop or branch."""
    if isinstance(step, LoopStep):
        yield from step.condition
        yield from step.body
    elif isinstance(step, BranchStep):
        for branch in step.branches:
            yield from branch.steps


def all_steps(program: Program) -> Iterator[Step]:
    """Yields every step in order, including those inside loops and branches."""
    stack = list(reversed(program.steps))
    while stack:
        step = stack.pop()
        yield step
        stack.extend(reversed(tuple(nested_steps(step))))
