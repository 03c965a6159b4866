"""Compiles programs to object code for a CPU: first to LLVM text, then to object files."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from contextvars import copy_context
from functools import partial
from itertools import count

from axla.codegen import llvm
from axla.codegen.function import LlvmModule as LlvmModule
from axla.codegen.host import host_target
from axla.codegen.kernel import emit_kernel
from axla.codegen.value import forbidden_intrinsics
from axla.core import cache, flags, limits, progress, trace
from axla.core.collector import collector_paused
from axla.core.errors import InternalError
from axla.core.literal import Literal, MovedLiteral
from axla.cpu.entry import emit_entry
from axla.ir.graph import Module
from axla.ir.structure import Constant
from axla.lowering.loading import load_program
from axla.lowering.lower import Choose
from axla.lowering.pipeline import compile_program, constants_memory, settle
from axla.passes import dump
from axla.program.kernels import Kernel
from axla.program.packed import Packed
from axla.program.program import Program, all_steps, nested_steps
from axla.program.steps import KernelStep, LoopStep, RegisterStep
from axla.program.text import print_program
from axla.target.machine import Target

KERNEL_LEVEL = 2  # LLVM's optimization level for kernels
EmitEntry = Callable[[LlvmModule, Program, Target], None]
LONG_TEXT = 2 << 20  # bytes of LLVM text; for longer texts LLVM takes seconds
GROUP_TEXT = 12 << 10
"""Bytes of LLVM text beyond which a module gets no further kernel. A module without kernels takes 0.6 ms."""


def llvm_modules(
    program: Program, target: Target, *, parts: int = 0, emit: EmitEntry = emit_entry
) -> list[str]:
    """The program's LLVM modules as text: a single one if `parts` is 1, or, if it is 0, one for the entry and
    one for each group of kernels. `emit` writes the entry function.
    """
    entry = llvm_module(target)
    emit(entry, program, target)
    if parts == 1:
        for kernel in program.kernels:
            emit_kernel(entry, kernel, target)
        return [checked_text(entry, target)]
    modules = [entry]
    for number, kernel in enumerate(program.kernels, 1):
        if modules[-1] is entry or modules[-1].size() > GROUP_TEXT:
            modules.append(llvm_module(target))
        publish_kernel(modules[-1], kernel, target)
        progress.report("code", number, len(program.kernels))
        for symbol in kernel.symbols:
            entry.declare(symbol, f"declare hidden i32 @{symbol}(ptr, ptr, i64, i64)")
    return [checked_text(module, target) for module in modules]


def llvm_module(target: Target) -> LlvmModule:
    """An empty LLVM module for a target."""
    return LlvmModule(target.index_type, target.form)


def publish_kernel(module: LlvmModule, kernel: Kernel, target: Target) -> None:
    """Writes a kernel into a module, so that other modules that are linked with it can call it."""
    emit_kernel(module, kernel, target)
    for symbol in kernel.symbols:
        module.publish(symbol)


def checked_text(module: LlvmModule, target: Target) -> str:
    """The text of a module; InternalError if it has an intrinsic that LLVM may replace by a library call."""
    wrong = forbidden_intrinsics(list(module.declared), target)
    if wrong:
        raise InternalError(f"{target.name}: LLVM may replace the intrinsics {wrong} by library calls")
    return module.text()


SHORT_ENTRY = 50
"""The number of steps in an entry that LLVM optimizes within some milliseconds."""


def entry_level(program: Program) -> int:
    """LLVM's optimization level for the entry: 0, which takes a fifth of the time, if it mostly calls
    kernels, else 2.

    It is 2 for loops that work in registers; for loops in a short entry, whose kernels may be faster than the
    code around their calls; and for entries with scalars only.
    """
    calls = False
    steps = list(all_steps(program))
    if len(steps) <= SHORT_ENTRY and any(isinstance(step, LoopStep) for step in steps):
        return 2
    for step in steps:
        if isinstance(step, KernelStep):
            calls = True
        elif isinstance(step, LoopStep):
            if not any(isinstance(s, KernelStep) for s in nested_steps(step)):
                return 2
        elif isinstance(step, RegisterStep) and len(step.computation.module.computations) > 1:
            return 2
    return 0 if calls else 2


def dump_code(
    module: Module, program: Program, texts: Sequence[str], target: Target, levels: Sequence[int]
) -> None:
    """Writes the program, LLVM IR and assembly to the dump folder of a module. `texts` are the LLVM modules,
    `levels` the optimization level of each.
    """
    dump.write_text(module, "program.txt", print_program(program))
    dump.write_text(module, "ir.ll", "\n".join(texts))
    assembly = [llvm.emit_assembly(text, target, level=n) for text, n in zip(texts, levels, strict=True)]
    dump.write_text(module, "s", "\n".join(assembly))


@collector_paused()
def compile_module(
    module: Module, target: Target | None = None, *, parts: int = 0, choose: Choose | None = None
) -> Packed:  # fmt: skip
    """Compiles a module to object code. The module is changed; pass a clone to keep it. `parts` as for
    `llvm_modules`, `choose` as for `compile_program`.
    """
    target = target or host_target()
    constants: dict[Literal, int] = {}
    every = (inst.op for computation in module.computations for inst in computation.instructions)
    given = [op.literal for op in every if type(op) is Constant and isinstance(op.literal, MovedLiteral)]
    program = compile_program(module, target, constants, choose)
    memory = constants_memory(constants)
    settle([literal for literal in given if literal.lent], constants, memory)
    dumped = module if dump.wanted(module) else None
    return code_of(program, memory, target, parts=parts, dumped=dumped)


@collector_paused()
def compile_text(text: str, segment: bytes = b"", target: Target | None = None, *, parts: int = 0) -> Packed:
    """Compiles a program's text, as `print_program` wrote it, to object code for a target, which need not be
    the one that it was made for. `segment`: the bytes of its constants. `parts` as for `llvm_modules`. Raises
    the errors of `load_program`.
    """
    target = target or host_target()
    return code_of(load_program(text, segment, target), segment, target, parts=parts)


def code_of(
    program: Program, segment: bytes | memoryview, target: Target, *, parts: int = 0,
    dumped: Module | None = None, emit: EmitEntry = emit_entry,
) -> Packed:  # fmt: skip
    """Compiles a program to object code; `emit` writes its entry function. `segment`: the bytes of its
    constants. `parts` as for `llvm_modules`. `dumped` is the module whose dump folder gets the code, None to
    dump nothing.
    """
    with trace.span("emit"):
        texts = llvm_modules(program, target, parts=parts, emit=emit)
    most = flags.current().optimization_level
    kernels = min(KERNEL_LEVEL, most)
    levels = [kernels if parts == 1 else min(entry_level(program), most), *[kernels] * (len(texts) - 1)]
    if dumped is not None:
        dump_code(dumped, program, texts, target, levels)
    if kernels < KERNEL_LEVEL:  # objects are cached under their text, so the level is in it
        texts = [f"; level {kernels}\n{text}" for text in texts]
    with trace.span("llvm"):
        emitters = [partial(_emit_object, level=level) for level in levels]
        images = _objects(texts, target, emitters)
    return Packed(images, program.interface, segment)


def _objects(
    texts: Sequence[str], target: Target, emitters: Sequence[Callable[[str, Target], bytes]]
) -> tuple[bytes, ...]:
    """Compiles LLVM modules to object code in several threads, each with its function in `emitters`. LLVM
    holds no Python lock meanwhile, so that processes would not be faster (docs/benchmarks.md).
    """
    done, one_at_a_time = count(1), threading.Lock()

    def object_of(text: str, emit: Callable[[str, Target], bytes]) -> bytes:
        found = object_for(text, target, emit)
        with one_at_a_time:
            progress.report("objects", next(done), len(texts))
        return found

    calls = [partial(object_of, text, emit) for text, emit in zip(texts, emitters, strict=True)]
    pairs = min(llvm.MOST_EMITTERS, len(calls) // 2)
    threads = min(limits.thread_count(), pairs) if pairs > 1 else 1  # counting cores takes a while
    if threads < 2:
        return tuple(call() for call in calls)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        try:
            futures = [pool.submit(copy_context().run, call) for call in calls]
        except RuntimeError:  # the interpreter is shutting down and starts no threads
            return tuple(call() for call in calls)
        try:
            return tuple(future.result() for future in futures)
        finally:
            pool.shutdown(cancel_futures=True)


def object_for(text: str, target: Target, compile_: Callable[[str, Target], bytes]) -> bytes:
    """The object code of an LLVM module: from memory or disk, or else compiled and then cached."""
    features = ",".join(sorted(target.features))
    key = cache.key_of(target.triple, target.cpu, features, llvm.version(), text)
    found = cache.get("kernel", key)
    if found is None:
        found = compile_(text, target)
        cache.put("kernel", key, found)
    return found


def _emit_object(text: str, target: Target, *, level: int) -> bytes:
    """Compiles an LLVM module to an object file; a long one in a child process, so that Ctrl-C need not wait
    for LLVM.
    """
    if len(text) >= LONG_TEXT and sys.executable:
        from axla.codegen.child import Child

        with suppress(OSError), closing(Child()) as child:  # else it is compiled here
            return child.emit_object(text, target, level=level)
    return llvm.emit_object(text, target, level=level)
