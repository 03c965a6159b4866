"""An entry function that measures its steps, for a profile. Other entry functions have no code for it.

After each step it reads a clock, and adds the time since the last reading to the counters of the step. So the
times of all steps add up to the time of the whole run, control flow between them included. A step that
contains no kernel, custom call or transfer (a loop over registers) is measured as a whole. Two readings at
the beginning show what a reading itself takes.
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
"""Names in the function table of a timed program: `int64_t clock(void)` in nanoseconds, and an array of pairs
of i64 (nanoseconds, calls): for the entry as a whole (calls only), for a reading, and for each row.
"""

FUNCTIONS = (TableFunction(CLOCK), TableFunction(COUNTERS))


class TimedEntry(EntryWriter):
    """Writes an entry function that measures its steps. `FUNCTIONS` follow the program's own functions in the
    function table.
    """

    def emit(self) -> None:
        """Writes the whole function; the time between the first two readings is that of a reading."""
        self.rows: dict[int, tuple[int, Step]] = {}  # id of a step -> (number of its row, step)
        self.timed = True
        self.state = self.f.stack("i64", 3, slot=9)  # the last reading, and space for a timespec
        self.lap(0)
        self.lap(1)
        _write_lap(self.f.module, len(self.program.interface.functions))
        super().emit()

    def steps(self, steps: Sequence[Step]) -> None:
        """Writes the steps. After each step that contains a kernel, custom call or transfer, it writes a
        reading of the clock for the step's counters (`lap`). Steps inside a step that contains none of these
        are not timed.
        """
        for step in steps:
            timed = self.timed
            self.timed = timed and any(map(_is_worth_a_reading, nested_steps(step)))
            super().steps((step,))
            self.timed = timed
            if timed:
                number, _ = self.rows.setdefault(id(step), (len(self.rows) + 2, step))
                self.lap(number)

    def lap(self, row: int) -> None:
        """Writes a reading of the clock that adds the time since the last reading to the counters of row
        number `row`.
        """
        f = self.f
        f.call("void", "axla_lap", f.params["frame"], self.state, f.const("i64", 2 * row))


def timed_program(module: HloModule, target: Target) -> tuple[Packed, list[Row]]:
    """Compiles a module, which is changed, to a program that measures its steps. Returns the program, and the
    profile rows of the measured steps, in the order of the counters.
    """
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
    """The row of a step in a profile; `kernels` maps names to kernels."""
    if isinstance(step, CopyStep):
        return Row(step.source.name, "copy", 2 * step.source.shape.byte_size)
    location = str(step.location or "")
    if isinstance(step, KernelStep):
        kernel = kernels[step.kernel]
        found = cost(kernel.computation.module)
        parallel = any(phase.parallel for phase in kernel.plan.phases)
        # Only a part of a large operand may be read; then the bytes that the instructions need are fewer.
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
    """Writes the function that adds the time since the last reading to a row. `first` is the number of the
    clock in the function table; the counters follow.
    """
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
