"""Module -> one object file for a machine, which needs nothing from outside.

What cannot be there is refused before code is generated, by the op's name: calls into the host process, f64
arithmetic on cores without it, arrays that a 32-bit machine cannot address. What LLVM then calls all the same
is found in the object's symbols, and refused too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from axla.aot.child import CHILD
from axla.codegen.symbols import symbols
from axla.codegen.target import CpuTarget
from axla.core.errors import CompileError, UnsupportedError
from axla.core.shape import Shape
from axla.cpu.compiler import entry_level, llvm_modules, optimize, program_of
from axla.cpu.entry import ENTRY
from axla.ir.graph import Instruction, Module
from axla.program.interface import Interface
from axla.program.steps import Program

ADDRESSABLE = 1 << 31
"""Bytes of one buffer, of all constants and of the workspace, of a program for 32-bit addresses."""

KERNEL_LEVEL = 2

# What moves or names values without computing with them: allowed with element types the machine lacks.
_MOVES = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "reshape", "transpose", "broadcast",
    "slice", "concatenate", "reverse", "pad", "copy", "dynamic-slice", "dynamic-update-slice", "gather",
    "select", "bitcast-convert", "while", "conditional", "call", "fusion", "opt-barrier", "after-all",
    "add-dependency", "abs", "negate", "real", "imag", "complex",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """A program for a target: its object, what its callers must know, the constants that stand apart."""

    target: CpuTarget
    image: bytes
    interface: Interface
    constants: bytes


def compile_object(module: Module, target: CpuTarget, *, allow_libgcc: bool = False) -> ObjectCode:
    """The object of a verified module (which is changed) for a target.

    `allow_libgcc`: f64 arithmetic where the machine lacks it. It is done by own code like all the rest; the
    word is the one users know the restriction by.
    """
    if not allow_libgcc:
        refuse_double(module, target)
    optimize(module)
    program = program_of(module, target)
    refuse_functions(program)
    if target.form.pointer_bytes == 4:
        refuse_large(program, target)
    [text] = llvm_modules(program, target, parts=1)
    image = CHILD.emit_object(text, target, level=max(KERNEL_LEVEL, entry_level(program)))
    check_alone(image, target)
    return ObjectCode(target, image, program.interface, program.constants)


def check_alone(image: bytes, target: CpuTarget) -> None:
    """CompileError unless the object defines the entry, and needs nothing."""
    found = symbols(image)
    if found.needed:
        names = ", ".join(sorted(found.needed))
        raise CompileError(f"target {target.name}: the object needs symbols from outside: {names}")
    if found.defined != {ENTRY}:
        names = ", ".join(sorted(found.defined))
        raise CompileError(f"target {target.name}: the object defines {names}, wanted {ENTRY} alone")


def refuse_double(module: Module, target: CpuTarget) -> None:
    """UnsupportedError for arithmetic on f64 or c128, on a machine without it."""
    if target.has_double:
        return
    for computation in module.computations:
        for inst in computation.instructions:
            if inst.op.opcode not in _MOVES and any(_is_double(shape) for shape in _arrays(inst)):
                raise UnsupportedError(
                    f"{inst.op.opcode} ({inst!r}): target {target.name} has no f64 arithmetic; use f32"
                )


def _arrays(inst: Instruction) -> Iterator[Shape]:
    for value in (inst, *inst.operands):
        yield from (leaf for leaf in value.shape.leaves() if isinstance(leaf, Shape))


def _is_double(shape: Shape) -> bool:
    return shape.dtype.is_inexact and shape.dtype.real.bits == 64


def refuse_functions(program: Program) -> None:
    """UnsupportedError for what runs in the process of the compiler: it is not there later."""
    if program.interface.functions:
        names = ", ".join(dict.fromkeys(function.name for function in program.interface.functions))
        raise UnsupportedError(
            f"{program.name}: calls {names} of the process it runs in; an object has to stand alone"
        )


def refuse_large(program: Program, target: CpuTarget) -> None:
    """UnsupportedError for what 32-bit addresses cannot reach."""
    interface = program.interface
    specs = (*interface.parameters, *interface.results)
    sizes = {f"{spec.name} {spec.shape}": spec.bytes for spec in specs}
    sizes |= {"the workspace": interface.workspace_bytes, "the constants": interface.constants_bytes}
    for name, size in sizes.items():
        if size >= ADDRESSABLE:
            raise UnsupportedError(
                f"{program.name}: {name} takes {size} bytes; target {target.name} has addresses of 32 bits, "
                f"for less than {ADDRESSABLE}"
            )
