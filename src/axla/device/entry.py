"""Writes the host side of a device's program: an entry function as on the CPU, whose kernel steps call a
driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from axla.codegen.array import DenseArray
from axla.codegen.function import LlvmModule, Ssa
from axla.cpu.entry import ENTRY, STEPS, EntryWriter
from axla.cpu.places import indices
from axla.custom.site import TableFunction
from axla.device.driver import DRIVER
from axla.program import abi
from axla.program.memory import BufferSlice, MemorySpace
from axla.program.program import Program
from axla.program.steps import CopyStep, KernelStep, TransferStep
from axla.target.machine import Target

FUNCTIONS = (TableFunction("axla.driver"), TableFunction("axla.kernels"), TableFunction("axla.host"))
"""Entries of the function table after the program's own functions: the addresses of a DRIVER, of the kernels'
handles, and of host memory.
"""


def emit_device_entry(module: LlvmModule, program: Program, target: Target, symbols: Sequence[str]) -> None:
    """Adds the entry function to the module. `target` is the host's; `symbols`: the functions of the device's
    kernels, in the order of their handles.
    """
    entry = DeviceEntryWriter(module, program, target, ENTRY)
    entry.numbers = {symbol: number for number, symbol in enumerate(symbols)}
    entry.emit()


class DeviceEntryWriter(EntryWriter):
    """Writes the entry function of a program for a device: kernels are launched by calls of the device's
    driver.
    """

    numbers: Mapping[str, int]

    @property
    def writers(self) -> Mapping[type, Callable]:
        """The methods that write a step, by the class of the step."""
        return WRITERS

    def emit(self) -> None:
        """Writes the whole function; driver, kernel handles and host memory come from the function table."""
        first = len(self.program.interface.functions)
        self.driver, self.handles, self.host = (self.function(first + n) for n in range(len(FUNCTIONS)))
        super().emit()

    def pointer(self, place: BufferSlice) -> Ssa:
        """The address of a slice, in memory of the host or of the device."""
        if place.space is MemorySpace.HOST:
            return self.f.gep("i8", self.host, self.f.const("i64", place.offset))
        return super().pointer(place)

    def kernel_step(self, step: KernelStep) -> None:
        """Writes the launches of a kernel's phases, or its calls if the host runs it."""
        if any(value.memory.space is MemorySpace.HOST for value in step.results):
            super().kernel_step(step)
            return
        f, kernel = self.f, self.kernels[step.kernel]
        pointers = [self.pointer(value.memory) for value in (*step.operands, *step.results)]
        pointers.append(self.pointer(step.scratch) if step.scratch is not None else f.null())
        args = self.pointers(pointers)
        for phase in kernel.plan.phases:
            if phase.count:
                handle = self.handles.item(self.numbers[phase.symbol]).load("ptr")
                sizes = (phase.count, phase.threads, len(pointers))
                self.drive("launch", handle, args, *(f.const("i64", size) for size in sizes))
        f.poll()

    def copy_step(self, step: CopyStep) -> None:
        """Queues a copy within the device's memory. A copy to registers does not need the driver."""
        if step.target.place is None:
            super().copy_step(step)
            return
        size = self.f.const("i64", step.source.shape.byte_size)
        self.drive("copy", self.pointer(step.target.memory), self.pointer(step.source.memory), size)

    def transfer_step(self, step: TransferStep) -> None:
        """Queues a copy between the memories of host and device. A side in registers goes
        through the stack.
        """
        f, source, target, shape = self.f, step.source, step.target, step.source.shape
        size = f.const("i64", shape.byte_size)
        if source.place is not None and target.place is not None:
            down = target.place.space is MemorySpace.HOST
            self.move(
                "read" if down else "write", self.pointer(target.place), self.pointer(source.place), size
            )
            return
        buffer = f.space(f"[{max(shape.byte_size, 1)} x i8]", 64)
        array = DenseArray(self.values, buffer, shape.dtype, shape.dims, readonly=False)
        if source.place is not None:
            self.move("read", buffer, self.pointer(source.place), size)
            self.define(target, [array.load(index, 1) for index in indices(shape)])
            return
        for index, element in zip(indices(shape), self.elements(source), strict=True):
            array.store(index, element)
        self.move("write", self.pointer(target.memory), buffer, size)

    def move(self, name: str, target: Ssa, source: Ssa, size: Ssa) -> None:
        """Writes a call of the driver function `name` ("read" or "write"), which copies bytes between host
        and device and may wait. The run then ends if it was stopped.
        """
        self.drive(name, target, source, size, self.f.params["frame"].get(abi.FRAME, "cancel"))
        self.f.poll()

    def drive(self, name: str, *arguments: Ssa) -> None:
        """Writes a call of the driver function `name` of DRIVER; if the call fails, the run ends."""
        f = self.f
        code = f.call_pointer(
            "i32", self.driver.get(DRIVER, name), self.driver.get(DRIVER, "context"), *arguments
        )
        with f.if_(code.ne(0), likely=False):
            f.params["frame"].set(abi.FRAME, "error_detail", f.cast("sext", code, "i64"))
            f.ret(f.const("i32", abi.DEVICE))


WRITERS: dict[type, Callable] = {
    **STEPS, KernelStep: DeviceEntryWriter.kernel_step, CopyStep: DeviceEntryWriter.copy_step,
    TransferStep: DeviceEntryWriter.transfer_step,
}  # fmt: skip
