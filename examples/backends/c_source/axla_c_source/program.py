"""A Program as C: its kernels, and the function `run` with its steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from axla import UnsupportedError
from axla.program.memory import AllocationKind
from axla.program.program import Program
from axla.program.steps import ArrayValue, BranchStep, CopyStep, KernelStep, LoopStep, RegisterStep, Step
from axla.target.machine import aligned

from .kernels import KernelWriter
from .writer import Writer, c_type

PRELUDE = Path(__file__).with_name("prelude.c").read_text()
HEAD = "void run(char *const *parameter, char *const *result, char *constants, char *workspace, Stop *stop)"
PLACES = {
    AllocationKind.PARAMETER: "parameter[{0}]", AllocationKind.RESULT: "result[{0}]",
    AllocationKind.CONSTANTS: "constants", AllocationKind.WORKSPACE: "workspace",
}  # fmt: skip


def source_of(program: Program) -> tuple[str, int]:
    """C99 of a program, and the bytes of its workspace: the arrays of kernels lie behind that of steps."""
    kernels = [KernelWriter(kernel) for kernel in program.kernels]
    texts = [kernel.text() for kernel in kernels]
    run, steps_bytes = Writer(), aligned(program.interface.workspace_bytes)
    run.line(f"char *scratch = workspace + {steps_bytes};")
    steps(run, program.steps)
    scratch_bytes = max((kernel.scratch for kernel in kernels), default=0)
    return "\n".join([PRELUDE, *texts, run.text(HEAD), ""]), steps_bytes + scratch_bytes


def pointer(value: ArrayValue) -> str:
    """Where a value lies."""
    place = value.place
    if place is None:
        return "NULL"
    start = PLACES[place.allocation.kind].format(place.allocation.number)
    return f"({c_type(value.shape.dtype)} *)({start} + {place.offset})"


def steps(out: Writer, steps: Sequence[Step]) -> None:
    for step in steps:
        if isinstance(step, RegisterStep) and not any(value.shape.size for value in step.results):
            continue  # of a program for `kit.PLAIN` only empty arrays are not in memory
        write = STEPS.get(type(step))
        if write is None:
            raise UnsupportedError(f"c-source does not run {type(step).__name__} {getattr(step, 'name', '')}")
        write(out, step)


def kernel(out: Writer, step: KernelStep) -> None:
    values = ", ".join(map(pointer, (*step.operands, *step.results)))
    out.line(f"{step.kernel}({values}, scratch, stop);  // {step.name!r}")
    out.line("if (*stop) return;")


def copy(out: Writer, step: CopyStep) -> None:
    out.line(f"memmove({pointer(step.target)}, {pointer(step.source)}, {step.target.memory.size});")


def loop(out: Writer, step: LoopStep) -> None:
    """Writes a loop. Each carried value keeps its memory from trip to trip, so nothing is copied."""
    with out.block("for (;;)"):
        out.line("if (*stop) return;")
        steps(out, step.condition)
        out.line(f"if (!*{pointer(step.test)}) break;")
        steps(out, step.body)


def branch(out: Writer, step: BranchStep) -> None:
    """A pred takes the first branch where it holds; a number that is no branch's takes the last."""
    value, last = f"*{pointer(step.selector)}", len(step.branches) - 1
    with out.block(f"switch ({f'!{value}' if step.selector.shape.dtype.is_pred else value})"):
        for number, taken in enumerate(step.branches):
            with out.block("default:" if number == last else f"case {number}:"):
                steps(out, taken.steps)
                out.line("break;")


STEPS: dict[type, Callable[[Writer, Any], None]] = {
    BranchStep: branch, CopyStep: copy, KernelStep: kernel, LoopStep: loop,
}  # fmt: skip
