"""Calls LLVM: text in, object code or assembly out.

Several threads can emit objects at the same time, each with its own module, context and machine; all other
calls of LLVM are made by one thread at a time.

No LLVM pass pipeline is run: instruction selection and scheduling work on what the function builder wrote. No
process-global LLVM option is set, because other packages in the process share the library.
"""

from __future__ import annotations

import ctypes as c
import functools
import threading
from typing import TYPE_CHECKING

import llvmlite.binding as binding

from axla.core import flags, locks
from axla.core.errors import CompileError, InternalError

if TYPE_CHECKING:
    from axla.target.machine import Target

LOCK = locks.new_lock(threading.RLock)
"""Held around every use of llvmlite; other modules that call the binding must take it too."""

locks.hold_over_forks(binding.ffi.lib._lock._lock)
MOST_EMITTERS = 8
"""The number of threads that can emit objects at the same time."""

_EMITTERS = tuple(threading.Lock() for _ in range(MOST_EMITTERS))  # a fork waits until nobody emits
for _emitter in _EMITTERS:
    locks.hold_over_forks(_emitter)

_machines = threading.local()


@functools.cache
def initialise() -> None:
    """Registers all targets and assembly printers, once."""
    with LOCK:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()


@functools.cache
def host_cpu() -> str:
    """LLVM's name of the CPU of this machine."""
    with LOCK:
        return binding.get_host_cpu_name()


@functools.cache
def host_features() -> dict[str, bool]:
    """The features that LLVM detects on this machine; empty where LLVM cannot detect any."""
    with LOCK:
        try:
            return dict(binding.get_host_cpu_features())
        except RuntimeError:
            return {}


def machine(target: Target, *, level: int = 2) -> binding.TargetMachine:
    """The LLVM target machine for an optimization level; there is one per target, level and thread."""
    initialise()
    features = ",".join(sorted(target.features))
    form = target.form
    key = (target.triple, target.cpu, features, form, level)
    cache: dict[tuple, binding.TargetMachine] = _machines.__dict__.setdefault("cache", {})
    if key not in cache:
        with LOCK:
            try:
                found = binding.Target.from_triple(target.triple)
            except RuntimeError as error:
                message = f"target {target.name}: LLVM has no target for {target.triple!r}: {error}"
                raise CompileError(message) from error
            cache[key] = found.create_target_machine(
                cpu=target.cpu, features=features, opt=level, reloc=form.relocation,
                codemodel=form.code_model, abiname=form.abi,
            )  # fmt: skip
    return cache[key]


def parse(text: str, target: Target, *, level: int = 2) -> tuple[binding.ModuleRef, binding.TargetMachine]:
    """(the LLVM module of `text`, the target machine for `level`). The module has the data layout of
    `target`; it is verified if the flag `verify` is set.
    """
    found = machine(target, level=level)
    with LOCK:
        # Each module has its own context, so that its types and constants are freed with it.
        try:
            module = binding.parse_assembly(text, binding.create_context())
            module.triple = found.triple
            module.data_layout = str(found.target_data)
            if flags.current().verify:
                module.verify()
        except RuntimeError as error:
            raise InternalError(f"LLVM rejects generated code: {error}") from error
    return module, found


def emit_object(text: str, target: Target, *, level: int = 2) -> bytes:
    """The object file of an LLVM module; for NVIDIA GPUs PTX text."""
    if target.form.format == "ptx":
        return emit_assembly(text, target, level=level).encode()
    module, found = parse(text, target, level=level)
    try:
        return _emitted(module, found)
    finally:
        with LOCK:
            module.close()


def _emitted(module: binding.ModuleRef, machine: binding.TargetMachine) -> bytes:
    """The object of a module, emitted without holding llvmlite's lock."""
    lib = binding.ffi.lib
    emit = getattr(lib.LLVMPY_TargetMachineEmitToMemory, "_cfn", lib.LLVMPY_TargetMachineEmitToMemory)
    with binding.ffi.OutputString() as error:
        with _EMITTERS[threading.get_native_id() % len(_EMITTERS)]:
            buffer = emit(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    with LOCK:
        try:
            return c.string_at(lib.LLVMPY_GetBufferStart(buffer), lib.LLVMPY_GetBufferSize(buffer))
        finally:
            lib.LLVMPY_DisposeMemoryBuffer(buffer)


def emit_assembly(text: str, target: Target, *, level: int = 2) -> str:
    """The assembly text of an LLVM module; PTX for an NVPTX target."""
    with LOCK:
        module, found = parse(text, target, level=level)
        return found.emit_assembly(module)


def data_layout(text: str, target: Target, *, level: int = 2) -> str:
    """LLVM's description of a target's sizes, alignment and byte order; `text` is not used."""
    return str(machine(target, level=level).target_data)


@functools.cache
def version() -> str:
    """The versions of llvmlite and LLVM, on which object code depends, as text for cache keys."""
    import llvmlite

    return f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, binding.llvm_version_info))}"
