"""An entry that measures its steps, for a profile. Other entries have no trace of it.

After each step it reads a clock and adds the time since the last reading to the step's counters: so the times
of all steps are the time of the whole run, control flow between them included. What holds no step worth a
reading (a loop over registers) is measured as a whole. A step of nothing at the beginning shows
what a reading takes itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from axla.analysis.cost import cost
from axla.codegen.function import LlvmFunction, LlvmModule
from axla.core.literal import Literal
from axla.core.profile import Row
from axla.cpu.compiler import code_of
from axla.cpu.entry import ENTRY, EntryWriter
from axla.cpu.tuning import tuner
from axla.custom.site import TableFunction
from axla.ir.graph import Module as HloModule
from axla.lowering.pipeline import compile_program, constants_memory
from axla.program import abi
from axla.program.packed import Packed
from axla.program.program import Program, nested_steps
from axla.program.steps import ArrayValue, CopyStep, CustomCallStep, KernelStep, Step, StoreStep, TransferStep
from axla.target.machine import Target

CLOCK, COUNTERS = "axla.clock", "axla.counters"
"""Names in the function table of a timed program: `int64_t clock(void)` in nanoseconds, and pairs of i64,
nanoseconds and calls: of the entry as a whole (calls only), of nothing (a reading of the clock), and of the
rows."""

FUNCTIONS = (TableFunction(CLOCK), TableFunction(COUNTERS))


class TimedEntry(EntryWriter):
    """Writes the entry. The function table has `FUNCTIONS` behind the program's own."""

    def emit(self) -> None:
        """Writes the whole function; the first two readings give the cost of a reading."""
        self.rows: dict[int, tuple[int, Step]] = {}  # by the identity of the step: its number
        self.timed = True
        self.state = self.f.stack("i64", 3, slot=9)  # the last reading, and room for a timespec
        self.lap(0)
        self.lap(1)
        _write_lap(self.f.module, len(self.program.interface.functions))
        super().emit()

    def steps(self, steps: Sequence[Step]) -> None:
        """Writes steps, each with a reading behind it if it is worth one."""
        for step in steps:
            timed = self.timed
            self.timed = timed and any(map(_is_worth_a_reading, nested_steps(step)))
            super().steps((step,))
            self.timed = timed
            if timed:
                number, _ = self.rows.setdefault(id(step), (len(self.rows) + 2, step))
                self.lap(number)

    def lap(self, row: int) -> None:
        """Writes a reading of the clock that adds the time since the last one to a row."""
        f = self.f
        f.call("void", "axla_lap", f.params["frame"], self.state, f.const("i64", 2 * row))


def timed_program(module: HloModule, target: Target) -> tuple[Packed, list[Row]]:
    """The program of a module, which is changed on the way, with clocks; its rows, in counters' order."""
    rows: list[Row] = []

    def emit(code: LlvmModule, program: Program, target: Target) -> None:
        entry = TimedEntry(code, program, target, ENTRY)
        entry.emit()
        kernels = {kernel.name: kernel for kernel in program.kernels}
        rows.extend(row_of(step, kernels) for _, step in entry.rows.values())

    constants: dict[Literal, int] = {}
    program = compile_program(module, target, constants, tuner(module, target))
    made = code_of(program, constants_memory(constants), target, emit=emit)
    functions = (*made.interface.functions, *FUNCTIONS)
    return replace(made, interface=replace(made.interface, functions=functions)), rows


def _is_worth_a_reading(step: Step) -> bool:
    work = (KernelStep, CustomCallStep, TransferStep)
    return isinstance(step, work) or any(map(_is_worth_a_reading, nested_steps(step)))


def row_of(step: Step, kernels: dict) -> Row:
    """The row of a step in a profile."""
    if isinstance(step, CopyStep):
        return Row(step.source.name, "copy", 2 * step.source.shape.byte_size)
    location = str(step.location or "")
    if isinstance(step, KernelStep):
        kernel = kernels[step.kernel]
        found = cost(kernel.computation.module)
        parallel = any(phase.parallel for phase in kernel.plan.phases)
        # Of a large operand only a part may be read: then what the instructions need is less.
        moved = min(_bytes(step), found.bytes) if found.exact else _bytes(step)
        operations = found.operations + found.transcendentals
        return Row(step.name, f"{step.kernel}: {kernel.kind}", moved, operations, location, parallel)
    kind = type(step).__name__.removesuffix("Step").lower()
    if isinstance(step, StoreStep):
        return Row(step.name, kind, 2 * step.update.shape.byte_size, 0, location)
    if isinstance(step, CustomCallStep):
        return Row(step.name, f"custom-call {step.site.target}", _bytes(step), 0, location)
    return Row(step.name, kind, location=location)


def _bytes(step: KernelStep | CustomCallStep) -> int:
    values: list[ArrayValue | None] = [*step.operands, *step.results]
    return sum(value.shape.byte_size for value in values if value is not None)


def _write_lap(module: LlvmModule, first: int) -> None:
    """The function that adds what a row took; functions `first` and the next are clock and counters."""
    params = [("ptr", "frame"), ("ptr", "state"), ("i64", "row")]
    f = LlvmFunction(module, "axla_lap", "void", params, linkage="internal", attributes="nounwind noinline")
    frame, state, row = f.params.values()
    table = frame.get(abi.FRAME, "functions")
    clock, counters = (table.item(first + n).load("ptr") for n in range(2))
    now = f.call_pointer("i64", clock)
    took = now - state.load("i64")
    state.store(now)
    row_at = counters.item(row)
    row_at.atomic("add", took, "monotonic")
    row_at.at(8).atomic("add", f.const("i64", 1), "monotonic")
    f.ret()
