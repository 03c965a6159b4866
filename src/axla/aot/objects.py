"""Compiles modules to one object file for a machine, without external dependencies.

Ops that an object cannot contain are refused by name before code is generated: calls into the host process,
f64 arithmetic on cores without it, arrays that a 32-bit machine cannot address. Calls that LLVM generates
nevertheless are found in the object's symbols, and refused too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from axla.aot.constants_space import emit_with_constants
from axla.aot.exported_functions import (
    ALIGNMENT,
    add_constants,
    add_exported_functions,
    add_frame,
    constants_module,
)
from axla.aot.library import Tensor, Weights
from axla.aot.refusals import refuse_dynamic, where
from axla.codegen.child import CHILD
from axla.codegen.function import LlvmModule as LlvmModule
from axla.codegen.kernel import emit_kernel
from axla.codegen.object_files import symbols
from axla.core.dataclass import dataclass
from axla.core.errors import CompileError, UnsupportedError
from axla.core.literal import Literal
from axla.core.shape import Shape, array
from axla.cpu.compiler import checked_text, llvm_module
from axla.cpu.entry import emit_entry
from axla.cpu.tuning import tuner
from axla.hlo import Constant
from axla.ir.graph import Instruction, Module
from axla.ir.op import Op
from axla.lowering.pipeline import constants_segment, optimize, program_of
from axla.passes import driver
from axla.passes.pipelines import lapack_expander
from axla.program.interface import Interface
from axla.program.program import Program
from axla.target.machine import CpuTarget

ADDRESSABLE = 1 << 31
"""A program for 32-bit addresses is refused if a buffer, all constants or the workspace have at least this
number of bytes.
"""

KERNEL_LEVEL = 2
_EMPTY = "axla_no_constants"

_NO_ARITHMETIC = frozenset({"constant", "select", "fusion", "abs", "negate", "real", "imag", "complex"})
"""Ops without floating-point arithmetic, besides those that only move, return or combine values."""


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """The compiled object of programs for a target, their interfaces, and their common constants.

    `constants_image` is the object with the constants if they are separate; `tensors` lists the arrays in the
    constants.
    """

    target: CpuTarget
    image: bytes
    interfaces: tuple[Interface, ...]
    constants: bytes
    constants_image: bytes = b""
    tensors: tuple[Tensor, ...] = ()

    @property
    def interface(self) -> Interface:
        """The interface of the program, if the object has a single one."""
        [interface] = self.interfaces
        return interface


def compile_object(
    modules: Module | Mapping[str, Module], target: CpuTarget, *, prefix: str = "program",
    weights: Weights = Weights.OBJECT, allow_libgcc: bool = False,
) -> ObjectCode:  # fmt: skip
    """Compiles verified modules (which are changed) to one object for a target. `modules` has each module by
    its symbol; the symbol of a single module is the prefix. The object exports only `{symbol}_run` and
    `{symbol}_run_frame` of each.

    `allow_libgcc` allows f64 arithmetic where the machine lacks it. It is axla's own code, not libgcc's, but
    users know the restriction by that name.
    """
    if isinstance(modules, Module):
        modules = {prefix: modules}
    pool: dict[Literal, int] = {}
    programs: dict[str, Program] = {}
    names: dict[Literal, str] = {}
    for symbol, module in modules.items():
        names = constant_names(module) | names
        programs[symbol] = _program(module, target, pool, allow_libgcc)
        names = constant_names(module) | names  # constants to which passes gave another layout
    tensors = _tensors(pool, names)
    return object_of(
        programs,
        constants_segment(pool, target.form.byte_order),
        target,
        prefix=prefix,
        weights=weights,
        tensors=tensors,
    )


def object_of(
    programs: Mapping[str, Program], constants: bytes, target: CpuTarget, *, prefix: str = "program",
    weights: Weights = Weights.OBJECT, tensors: tuple[Tensor, ...] = (),
) -> ObjectCode:  # fmt: skip
    """The object for a target of programs, given by symbol, and of their common constants segment
    `constants`. Raises the same errors as `compile_object`.
    """
    code = llvm_module(target)
    add_frame(code)
    for symbol, program in programs.items():
        refuse_functions(program)
        if target.form.pointer_bytes == 4:
            refuse_large(program, target)
        _add_program(code, f"{symbol}_entry", program, target)
    if weights is not Weights.OBJECT:  # callers and linkers need some even if all are folded away
        constants = constants or bytes(ALIGNMENT)
    segment = None if weights is Weights.FILE or not constants else f"{prefix}_weights"
    for symbol, program in programs.items():
        given = segment if constants else _EMPTY
        add_exported_functions(code, symbol, f"{symbol}_entry", program.interface, given)
    if not constants:
        code.globals[_EMPTY] = f"@{_EMPTY} = internal constant i8 0"
    elif segment is not None:
        add_constants(code, segment, len(constants), weights, target.form)
    text = checked_text(code, target)
    apart = weights is Weights.SEPARATE
    constants_image = b""
    outside = target.form.externals
    if segment is None or apart:
        image = CHILD.emit_object(text, target, level=KERNEL_LEVEL)
    else:
        image = emit_with_constants(text, target, segment, constants, level=KERNEL_LEVEL)
    if segment is not None and apart:
        outside |= {segment}
        space = constants_module(segment, len(constants), target.form)
        constants_image = emit_with_constants(space, target, segment, constants)
    wanted = {f"{symbol}_{suffix}" for symbol in programs for suffix in ("run", "run_frame")}
    check_alone(image, target, wanted, outside)
    interfaces = tuple(program.interface for program in programs.values())
    return ObjectCode(target, image, interfaces, constants, constants_image, tensors)


def constant_names(module: Module) -> dict[Literal, str]:
    """Names for those constants of a module that may be in memory: their op_name, else their instruction's
    name.
    """
    found: dict[Literal, str] = {}
    for computation in module.computations:
        for inst in computation.instructions:
            if isinstance(inst.op, Constant) and isinstance(inst.shape, Shape) and inst.shape.size > 16:
                found.setdefault(inst.op.literal, _name_of(inst))
    return found


def _name_of(inst: Instruction) -> str:
    location = inst.extra.location
    return inst.name if location is None else location.op_name or inst.name


def _tensors(constants: Mapping[Literal, int], names: Mapping[Literal, str]) -> tuple[Tensor, ...]:
    """The constants by offset, each with a unique name; constants without an instruction are numbered."""
    found: dict[str, Tensor] = {}
    for number, (literal, offset) in enumerate(constants.items()):
        name = unique = names.get(literal, f"constant_{number}")
        count = 2
        while unique in found:
            unique, count = f"{name}_{count}", count + 1
        found[unique] = Tensor(unique, offset, array(literal.shape))
    return tuple(found.values())


def _program(module: Module, target: CpuTarget, pool: dict[Literal, int], allow_libgcc: bool) -> Program:
    """The program of a module, which is changed. `pool` receives the offsets of its constants in the common
    segment. Raises UnsupportedError if the program cannot be part of an object file.
    """
    refuse_dynamic(module)
    double = None if allow_libgcc or target.has_double else double_arithmetic(module)
    stand_alone(module)
    optimize(module, target)
    if double is not None and double_arithmetic(module) is not None:  # optimization left f64 arithmetic
        message = f"{double}: target {target.name} has no f64 arithmetic; use f32, or allow_libgcc"
        raise UnsupportedError(message)
    return program_of(module, target, pool, tuner(module, target))


def stand_alone(module: Module) -> None:
    """Expands ops for which the JIT uses libraries of the process."""
    driver.run(module, (lapack_expander,), name="objects")


def _add_program(code: LlvmModule, entry: str, program: Program, target: CpuTarget) -> None:
    """Adds entry and kernels of a program; kernels shared with an earlier program are not added again."""
    emit_entry(code, program, target, entry)
    code.enclose(entry)
    for kernel in program.kernels:
        if not all(symbol in code.functions for symbol in kernel.symbols):
            emit_kernel(code, kernel, target)


def check_alone(image: bytes, target: CpuTarget, wanted: set[str], apart: Set[str]) -> None:
    """Raises CompileError unless the object exports exactly the symbols `wanted`, and needs only symbols in
    `apart`.
    """
    found = symbols(image)
    if found.needed - apart:
        names = ", ".join(sorted(found.needed - apart))
        raise CompileError(f"target {target.name}: the object needs symbols from outside: {names}")
    if found.defined != wanted:
        names = ", ".join(sorted(found.defined))
        message = f"target {target.name}: the object defines {names}, wanted {', '.join(sorted(wanted))}"
        raise CompileError(message)


def double_arithmetic(module: Module) -> str | None:
    """The first instruction that computes with f64 or c128, with its source location, as text; None if there
    is none.
    """
    for computation in module.computations:
        for inst in computation.instructions:
            if _computes(inst.op) and any(map(_is_double, _arrays(inst))):
                return where(inst)
    return None


def _computes(op: Op) -> bool:
    """Whether an op needs arithmetic of its element type; called computations are examined separately."""
    moves = op.moves or op.keeps_order or op.updates or op.passes_on or op.structural or op.control
    return not moves and op.opcode not in _NO_ARITHMETIC


def _arrays(inst: Instruction) -> Iterator[Shape]:
    for value in (inst, *inst.operands):
        yield from value.shape.arrays()


def _is_double(shape: Shape) -> bool:
    return shape.dtype.is_inexact and shape.dtype.real.bits == 64


def refuse_functions(program: Program) -> None:
    """Raises UnsupportedError for calls into the compiler's process, which does not exist at run time."""
    if program.interface.functions:
        names = ", ".join(dict.fromkeys(function.name for function in program.interface.functions))
        message = f"{program.name}: calls {names} of the process it runs in; an object has to stand alone"
        raise UnsupportedError(message)


def refuse_large(program: Program, target: CpuTarget) -> None:
    """Raises UnsupportedError for arrays that 32-bit addresses cannot reach."""
    interface = program.interface
    specs = (*interface.parameters, *interface.results)
    sizes = {f"{spec.name} {spec.shape}": spec.bytes for spec in specs}
    sizes |= {"the workspace": interface.workspace_bytes, "the constants": interface.constants_bytes}
    for name, size in sizes.items():
        if size >= ADDRESSABLE:
            raise UnsupportedError(
                f"{program.name}: {name} takes {size} bytes; target {target.name} has 32-bit addresses, "
                f"which allow less than {ADDRESSABLE}"
            )
