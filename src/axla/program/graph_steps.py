"""A compiled program before code generation: ordered steps over buffer slices. Frozen, printable, without
llvmlite.

`source` fields hold the instructions that code generation reads; they are not part of the text form or of
equality.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from axla.custom.routines import Plan
from axla.custom.site import CallSite
from axla.program.interface import Interface
from axla.program.kernels import Kernel
from axla.program.memory import Allocation, BufferSlice


@dataclass(frozen=True, slots=True)
class KernelStep:
    """Calls a kernel. `operands` and `results` are its arguments in order; `reads`/`writes` follow from their
    place.
    """

    name: str
    kernel: str
    operands: tuple[BufferSlice, ...]
    results: tuple[BufferSlice, ...]
    scratch: BufferSlice | None = None
    source: Any = field(default=None, compare=False, repr=False)

    def lines(self) -> Iterator[str]:
        results = ", ".join(map(str, self.results))
        scratch = f", scratch {self.scratch}" if self.scratch is not None else ""
        operands = ", ".join(map(str, self.operands))
        yield f"{results} = kernel {self.kernel}({operands}{scratch})  # {self.name}"


@dataclass(frozen=True, slots=True)
class ScalarStep:
    """Instructions computed in registers."""

    texts: tuple[str, ...]
    source: Any = field(default=None, compare=False, repr=False)

    def lines(self) -> Iterator[str]:
        yield "registers {"
        for text in self.texts:
            yield "  " + text
        yield "}"


@dataclass(frozen=True, slots=True)
class StoreStep:
    """Writes a few elements into an array in place: a dynamic-update-slice with a small update."""

    name: str
    target: BufferSlice
    text: str
    source: Any = field(default=None, compare=False, repr=False)

    def lines(self) -> Iterator[str]:
        yield f"{self.target} <- {self.text}"


@dataclass(frozen=True, slots=True)
class LoopStep:
    """A while loop whose body has steps of its own."""

    name: str
    condition: tuple[Step, ...]
    body: tuple[Step, ...]
    trip_count: int | None
    source: Any = field(default=None, compare=False, repr=False)

    def lines(self) -> Iterator[str]:
        count = "" if self.trip_count is None else f", {self.trip_count} times"
        yield f"while {self.name}{count} {{"
        yield from _indented("condition", self.condition)
        yield from _indented("body", self.body)
        yield "}"


@dataclass(frozen=True, slots=True)
class BranchStep:
    """A conditional: one list of steps per branch."""

    name: str
    branches: tuple[tuple[Step, ...], ...]
    source: Any = field(default=None, compare=False, repr=False)

    def lines(self) -> Iterator[str]:
        yield f"conditional {self.name} {{"
        for number, branch in enumerate(self.branches):
            yield from _indented(f"branch {number}", branch)
        yield "}"


@dataclass(frozen=True, slots=True)
class CallStep:
    """The steps of a called computation, in place."""

    name: str
    body: tuple[Step, ...]
    source: Any = field(default=None, compare=False, repr=False)

    def lines(self) -> Iterator[str]:
        yield f"call {self.name} {{"
        yield from _indented("body", self.body)
        yield "}"


@dataclass(frozen=True, slots=True)
class CustomCallStep:
    """Calls entry `function` of the function table. Operands and results are leaves; None is a token."""

    name: str
    site: CallSite
    api: str
    function: int
    operands: tuple[BufferSlice | None, ...]
    results: tuple[BufferSlice | None, ...]
    report: int = -1  # the function that takes note of a failed status
    plan: Plan | None = None  # of a library's routine
    scratch: BufferSlice | None = None
    source: Any = field(default=None, compare=False, repr=False)

    def lines(self) -> Iterator[str]:
        results = ", ".join(map(str, self.results))
        operands = ", ".join(map(str, self.operands))
        yield f"{results} = custom-call {self.site.target}({operands})  # {self.name}"


Step = KernelStep | ScalarStep | StoreStep | LoopStep | BranchStep | CallStep | CustomCallStep


def _indented(title: str, steps: tuple[Step, ...]) -> Iterator[str]:
    yield f"  {title}:"
    for step in steps:
        for line in step.lines():
            yield "    " + line


@dataclass(frozen=True, slots=True)
class Program:
    """All that code generation needs: memory, kernels, steps."""

    name: str
    interface: Interface
    allocations: tuple[Allocation, ...]
    kernels: tuple[Kernel, ...]
    steps: tuple[Step, ...]
    source: Any = field(default=None, compare=False, repr=False)

    def to_text(self) -> str:
        """The program for reading: memory, kernels with their HLO, steps."""
        lines = [f"program {self.name}", ""]
        lines += [f"allocation {a}" for a in self.allocations]
        for kernel in self.kernels:
            lines += ["", *kernel.lines()]
        lines += ["", "steps {"]
        for step in self.steps:
            lines += ["  " + line for line in step.lines()]
        return "\n".join([*lines, "}", "", self.interface.to_text()]) + "\n"
