"""Writes the entry function of a program: `i32 axla_entry(ptr frame)`.

It runs the steps in order. Small values are in registers, one per element, and loops carry them as phis.
Arrays are slices of the frame's memory, and are updated in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from axla.codegen.function import LlvmModule, Ssa
from axla.codegen.index import AnyIndex
from axla.codegen.value import Value
from axla.core.errors import UnsupportedError
from axla.cpu.collective import emit_collective
from axla.cpu.custom_call import emit_custom_call
from axla.cpu.places import ValuePlaces, from_registers, indices, registers_of
from axla.cpu.registers import emit_registers
from axla.kernels.plan import Phase
from axla.program import abi
from axla.program import steps as kinds
from axla.program.program import Program
from axla.program.steps import ArrayValue, Branch, Step
from axla.target.machine import Target

ENTRY = "axla_entry"
"""The entry that this process calls. Where it polls, a parallel_for without steps handles signals."""


def emit_entry(module: LlvmModule, program: Program, target: Target, name: str = ENTRY) -> None:
    """Adds the entry function of a program to a module. The kernels are in the module, or linked with it."""
    module.in_process = name == ENTRY
    EntryWriter(module, program, target, name).emit()


class EntryWriter(ValuePlaces):
    """Writes the entry function of a program for a CPU."""

    @property
    def writers(self) -> Mapping[type, Callable]:
        """The functions that write steps, by class of step."""
        return STEPS

    def emit(self) -> None:
        """Writes the whole function: the check of the frame's version, all steps, and the return of 0."""
        f = self.f
        self.kernels = {kernel.name: kernel for kernel in self.program.kernels}
        version = self.field("version", "i32")
        f.guard(version.ne(abi.FRAME_VERSION), f.const("i32", abi.WRONG_FRAME))
        self.steps(self.program.steps)
        f.ret(f.const("i32", 0))

    def steps(self, steps: Sequence[Step]) -> None:
        """Writes steps in order; UnsupportedError for a step that CPUs cannot run."""
        for step in steps:
            write = self.writers.get(type(step))
            if write is None:
                raise UnsupportedError(f"{self.program.name}: a CPU cannot run a {type(step).__name__}")
            write(self, step)

    # -- control -----------------------------------------------------------------------------------------

    def loop_step(self, step: kinds.LoopStep) -> None:
        """Writes a loop. Carried values in registers are parameters of its blocks."""
        carried = [one for one in step.carried if one.parameter.place is None]

        def enter(parts: Sequence[Ssa]) -> None:
            self.define_all([one.parameter for one in carried], parts)

        def condition() -> Value:
            self.steps(step.condition)
            return self.scalar(step.test)

        def body() -> list[Ssa]:
            self.steps(step.body)
            return self.parts([one.next for one in carried])

        parts = self.loop(self.parts([one.initial for one in carried]), enter, condition, body)
        self.define_all([one.result for one in carried], parts)

    def branch_step(self, step: kinds.BranchStep) -> None:
        """Writes a branch for each side. Results in registers are merged after them."""
        results = [value for value in step.results if value.place is None]

        def side(branch: Branch) -> Callable[[], list[Ssa]]:
            def write() -> list[Ssa]:
                self.steps(branch.steps)
                values = zip(step.results, branch.values, strict=True)
                return self.parts([value for result, value in values if result.place is None])

            return write

        parts = self.choose(self.scalar(step.selector), [side(branch) for branch in step.branches])
        self.define_all(results, parts)

    def parts(self, values: Sequence[ArrayValue]) -> list[Ssa]:
        """The registers of all elements of the values, in order."""
        return [part for value in values for part in registers_of(self.elements(value))]

    def define_all(self, values: Sequence[ArrayValue], parts: Sequence[Ssa]) -> None:
        """Records that values are in registers, which `parts` lists in order."""
        for value, elements in zip(values, from_registers([v.shape for v in values], parts), strict=True):
            self.define(value, elements)

    # -- memory ------------------------------------------------------------------------------------------

    def copy_step(self, step: kinds.CopyStep) -> None:
        """Writes a copy: into registers, element by element for tiny values, or of bytes."""
        source, target = step.source, step.target
        if target.place is None:
            self.define(target, self.elements(source))
        elif source.place is None or source.shape.size <= self.target.limits.tiny:
            self.write(target.place, target.shape, self.elements(source))
        else:
            self.writable(target.place, target.shape)
            self.copy_bytes(self.pointer(target.place), self.pointer(source.memory), source.shape.byte_size)
        self.pause()

    def store_step(self, step: kinds.StoreStep) -> None:
        """Writes the stores of an update, element by element, into a window of the result's memory."""
        shape, small = step.result.shape, step.update.shape
        begin = self.window_start(step)
        elements = self.elements(step.update)
        array = self.writable(step.result.memory, shape)
        for index, value in zip(indices(small), elements, strict=True):
            array.store(tuple(s + i for s, i in zip(begin, index, strict=True)), value)

    def window_start(self, step: kinds.StoreStep) -> list[AnyIndex]:
        """The clamped start of the window in each dimension."""
        starts = [element for value in step.starts for element in self.elements(value)]
        limits = zip(step.result.shape.dims, step.update.shape.dims, strict=True)
        return [
            self.e.start_index(start, size - small)
            for start, (size, small) in zip(starts, limits, strict=True)
        ]

    def kernel_step(self, step: kinds.KernelStep) -> None:
        """Writes the calls of a kernel's phases, with pointers to operands, results and scratch memory."""
        kernel = self.kernels[step.kernel]
        pointers = [self.pointer(value.memory) for value in (*step.operands, *step.results)]
        if step.scratch is not None:
            pointers.append(self.pointer(step.scratch))
        args = self.pointers(pointers)
        for phase in kernel.plan.phases:
            if phase.count != 0:
                self.run_phase(phase, args, kernel.polls)

    def run_phase(self, phase: Phase, args: Ssa, may_stop: bool) -> None:
        """Writes the call of one phase: directly, or through the `parallel_for` of the frame. `args` is the
        table of pointers for the kernel; `may_stop` is whether the kernel can return an error code.
        """
        f = self.f
        frame = f.params["frame"]
        if not phase.parallel:
            zero, count = f.const("i64", 0), f.const("i64", phase.count)
            code = f.call("i32", phase.symbol, frame, args, zero, count, effect=True)
            if may_stop:
                f.guard(code.ne(0), code)
            return
        self.parallel_for(f.glob(phase.symbol), args, phase.count, phase.grain)

    def parallel_for(self, kernel: Ssa, args: Ssa, count: int, grain: int) -> None:
        """Writes a call of the frame's `parallel_for`. If the call returns an error code, the entry function
        returns this code.
        """
        f = self.f
        ranges = f.const("i64", count), f.const("i64", grain)
        frame = f.params["frame"]
        code = f.call_pointer("i32", self.field("parallel_for"), frame, kernel, args, *ranges)
        f.guard(code.ne(0), code)


STEPS: dict[type, Callable] = {
    kinds.KernelStep: EntryWriter.kernel_step,
    kinds.RegisterStep: emit_registers,
    kinds.CopyStep: EntryWriter.copy_step,
    kinds.StoreStep: EntryWriter.store_step,
    kinds.LoopStep: EntryWriter.loop_step,
    kinds.BranchStep: EntryWriter.branch_step,
    kinds.CustomCallStep: emit_custom_call,
    kinds.CollectiveStep: emit_collective,
}
