"""Compiles the emitted glue and loads it into the process, once, when the first array or program is created.

`load()` returns a `Glue`: the addresses of functions and variables by name. The code is never unloaded:
worker threads run in it, and objects made by it may be destroyed when the interpreter ends.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType

from axla.codegen.native import call, fork, memory, objects, pool, python_abi, queue, signals, tasks
from axla.codegen.native import locks as spin_locks
from axla.codegen.native.assembly import GlueModule
from axla.codegen.native.image import Image
from axla.codegen.native.systems import HERE, machine, triple
from axla.core import cache, locks
from axla.core.dataclass import dataclass
from axla.core.errors import UnsupportedError
from axla.core.python_api import incref


@dataclass(frozen=True, slots=True)
class Glue:
    """The loaded glue: the addresses of its functions and variables."""

    addresses: dict[str, int]

    def function(self, name: str, result: type | None, *parameters: type):
        """A glue function as a ctypes function that keeps the interpreter lock, which glue code relies on."""
        return c.PYFUNCTYPE(result, *parameters)(self.addresses[name])

    def extended(
        self, emit: Callable[[GlueModule], None], known: Mapping[str, int] = MappingProxyType({})
    ) -> dict[str, int]:
        """The addresses of further functions, which `emit` adds to a new module. They may call exported
        functions of the glue, and functions whose addresses are in `known`.
        """
        m = GlueModule(machine())
        emit(m)
        return _link(m, {**self.addresses, **known})

    def variable(self, name: str, kind: type = c.c_void_p):
        """A glue variable as a ctypes object, to read and to set through `.value`."""
        return kind.from_address(self.addresses[name])


_loaded: Glue | None = None
_lock = locks.new_lock()


def load(checks: bool = False) -> Glue:
    """The glue of this process; raises UnsupportedError if it cannot be used here. The first call decides
    whether the glue checks its use of locks (locks.py).
    """
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                reason = python_abi.why_not()
                if reason is not None:
                    raise UnsupportedError(reason)
                _loaded = Glue(_link(emit(machine(), checks=checks)))
                if checks:
                    HERE.library().pthread_key_create(c.c_void_p(_loaded.addresses["lock_key"]), None)
    return _loaded


def emit(machine: str, *, checks: bool = False, system: ModuleType = HERE) -> GlueModule:
    """Writes the glue as an LLVM module for the architecture `machine`. `checks`: whether it checks its use
    of locks. `system` is the module of `systems` for the operating system.
    """
    m = GlueModule(machine, checks=checks)
    for part in (system, spin_locks, memory, pool, tasks, objects, signals, call, queue, fork):
        part.emit(m)
    return m


def _link(m: GlueModule, known: Mapping[str, int] = MappingProxyType({})) -> dict[str, int]:
    """Loads the code of a module, and returns the addresses of its exported symbols by name. The code is
    compiled once for each version of axla and LLVM. `known` has addresses of functions that it may call.
    """
    text = m.text()
    key = cache.key_of(cache.compiler(), text)
    code = cache.get("glue", key)
    if code is None:
        code = _compiled(text)
        cache.put("glue", key, code)
    image = Image([("axla.glue", code)], m.exports, _imports(m, known))
    incref(image)  # keep it beyond the end of the interpreter: threads run in it
    return image.addresses


def _compiled(text: str) -> bytes:
    import llvmlite.binding as llvm

    locks.hold_over_forks(llvm.ffi.lib._lock._lock)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(triple())
    # Cheapest passes and code generation: 30 ms instead of 260 ms at the first array of a process, and a call
    # takes 230 ns instead of 165 ns (two arrays of 64 floats, on a Zen 4 at 3.7 GHz).
    # CPython and the C library may be far away: their functions are called through slots of the image.
    features = ",".join(HERE.FEATURES)
    made = target.create_target_machine(opt=0, reloc="pic", codemodel="small", features=features)
    context = llvm.create_context()
    module = llvm.parse_assembly(text, context)
    module.triple = triple()
    module.verify()
    builder = llvm.create_pass_builder(made, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    return made.emit_object(module)


def _imports(m: GlueModule, known: Mapping[str, int]) -> dict[str, int]:
    """The addresses of the functions that the glue calls: those in `known`, of CPython, and of the C
    library.
    """
    found = {}
    for name in m.imports:
        if name in known:
            found[name] = known[name]
        elif not name.startswith("llvm."):
            of_python = name.startswith(("Py", "_Py"))
            found[name] = _address(getattr(c.pythonapi, name)) if of_python else HERE.address(name)
    return found


def _address(function: object) -> int:
    return c.cast(function, c.c_void_p).value or 0  # type: ignore[arg-type]
