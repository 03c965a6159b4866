"""Compiles a module for a device: machine code for the host, and kernels in the device's format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from axla.codegen.child import CHILD
from axla.codegen.host import host_target
from axla.codegen.kernel import device_module, emit_kernel
from axla.core.dataclass import dataclass
from axla.core.errors import CompileError
from axla.core.literal import Literal
from axla.core.profile import Row
from axla.cpu.compiler import code_of, llvm_modules, object_for
from axla.cpu.timed import row_of
from axla.device.driver import Driver
from axla.device.entry import emit_device_entry
from axla.device.spaces import with_transfers
from axla.ir.graph import Module
from axla.lowering.pipeline import compile_program, constants_segment
from axla.program.interface import Interface
from axla.program.memory import MemorySpace
from axla.program.program import Program, all_steps
from axla.program.steps import KernelStep, LoopStep, Step, TransferStep
from axla.program.text import print_program
from axla.target.machine import Target


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled program for a device: machine code of the host, kernels in the driver's format,
    constants.
    """

    images: tuple[bytes, ...]
    interface: Interface
    constants: bytes
    symbols: tuple[str, ...]
    code: bytes
    host_bytes: int
    waits: bool = False
    """Whether the host has loops or waits for the device, so that it may take long to queue a run."""
    host_steps: Mapping[str, str] = field(default_factory=dict)
    """The kernels that the host runs, with the reasons why the device does not."""


def program_for(module: Module, target: Target) -> tuple[Program, bytes]:
    """The program of a module, as if host and device had a single memory, and its constants segment. Changes
    the module.
    """
    constants: dict[Literal, int] = {}
    return compile_program(module, target, constants), constants_segment(constants)


def code_for(
    program: Program, segment: bytes, target: Target, refused: Mapping[str, str] | None = None
) -> Compiled:
    """The code of a program for a device. `segment` has the bytes of its constants. `refused`: kernels that
    the host runs because the driver cannot build them, with reasons.
    """
    here = {**reasons(program, target), **(refused or {})}
    host = host_target()
    program, host_bytes = with_transfers(program, here, host)
    hosted, launched = _parted(program, here)
    symbols = symbols_of(launched)
    made = code_of(hosted, segment, host, emit=lambda m, _, t: emit_device_entry(m, program, t, symbols))
    code = kernels_code(launched, target)
    waits = any(_waits(step) for step in all_steps(program))
    return Compiled(
        made.images, program.interface, bytes(made.constants), symbols, code, host_bytes, waits, here
    )


def _waits(step: Step) -> bool:
    if isinstance(step, TransferStep):
        return step.target.place is None or step.target.place.space is MemorySpace.HOST
    return isinstance(step, LoopStep)


def reasons(program: Program, target: Target) -> dict[str, str]:
    """The names of the kernels that a device cannot run, each with the reason."""
    if target.has_double:
        return {}
    why = "it computes with f64, which the device does not have"
    return {kernel.name: why for kernel in program.kernels if _has_double(kernel.computation.module)}


def _has_double(module: Module) -> bool:
    insts = (inst for computation in module.computations for inst in computation.instructions)
    return any(s.is_array and s.dtype.name in ("f64", "c128") for inst in insts for s in inst.shape.leaves())


def _parted(program: Program, here: Mapping[str, str]) -> tuple[Program, Program]:
    """Two copies of the program: one with only the kernels named in `here`, which the host runs, and one with
    only those of the device.
    """
    ours = tuple(kernel for kernel in program.kernels if kernel.name in here)
    theirs = tuple(kernel for kernel in program.kernels if kernel.name not in here)
    return replace(program, kernels=ours), replace(program, kernels=theirs)


def symbols_of(program: Program) -> tuple[str, ...]:
    """The names of the functions of all kernels, each once."""
    return tuple(dict.fromkeys(symbol for kernel in program.kernels for symbol in kernel.symbols))


def kernels_text(program: Program, target: Target) -> str:
    """All kernels of a program as one LLVM module for the device."""
    module = device_module(target)
    for kernel in program.kernels:
        emit_kernel(module, kernel, target)
    return module.text()


def kernels_code(program: Program, target: Target) -> bytes:
    """All kernels of a program in the driver's format."""
    return object_for(kernels_text(program, target), target, CHILD.emit_object) if program.kernels else b""


def refused_kernels(program: Program, driver: Driver) -> dict[str, str]:
    """The names of the kernels that the driver cannot build for its device, each with the compiler's
    message.
    """
    found = {}
    for kernel in program.kernels:
        try:
            driver.build(kernel.symbols, kernels_code(replace(program, kernels=(kernel,)), driver.target))
        except CompileError as error:
            found[kernel.name] = str(error)
    return found


def text_of(program: Program, target: Target, here: Mapping[str, str], stage: str) -> str:
    """The text of a program at a stage: "program", "llvm" (host, then device), or the format of its kernels.
    `here` has the names of the kernels that the host runs.
    """
    host = host_target()
    program, _ = with_transfers(program, here, host)
    hosted, launched = _parted(program, here)
    if stage == "program":
        return print_program(program)
    if stage == target.form.format:
        return CHILD.emit_assembly(kernels_text(launched, target), target)
    symbols = symbols_of(launched)
    texts = llvm_modules(hosted, host, emit=lambda m, _, t: emit_device_entry(m, program, t, symbols))
    return "\n".join([*texts, kernels_text(launched, target)])


def rows_of(program: Program) -> dict[str, Row]:
    """The profile row for each kernel function: that of the first step that calls it. The bytes and
    operations of a kernel are in the row of its first function only.
    """
    kernels = {kernel.name: kernel for kernel in program.kernels}
    found: dict[str, Row] = {}
    for step in all_steps(program):
        if isinstance(step, KernelStep):
            row = row_of(step, kernels)
            for symbol in kernels[step.kernel].symbols:
                found.setdefault(symbol, row)
                row = replace(row, bytes=0, operations=0)
    return found
