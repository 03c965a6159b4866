"""The program cache: code of modules that were compiled before, found without running passes and LLVM.

Passes and LLVM are imported only to compile.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b

from axla.core import cache, flags, plugins, trace
from axla.core.errors import AxlaError, InvalidArgument
from axla.core.literal import ElidedLiteral, Literal
from axla.custom.lapack import is_installed
from axla.custom.registry import in_libraries, registered
from axla.custom.routines import TARGETS
from axla.hlo.control import CustomCall
from axla.ir.graph import Module
from axla.ir.op import package_of
from axla.ir.structure import Constant
from axla.kernels import ADDED, ENTRY_POINTS
from axla.passes.added import ADDED as PASSES_ADDED
from axla.passes.added import load_installed
from axla.passes.observer import OBSERVER
from axla.passes.pipelines import PASSES
from axla.passes.rewrite import has_foreign
from axla.program.packed import Packed, byte_size, decode, encode
from axla.target.identity import identity
from axla.target.machine import CpuTarget
from axla.text.printer import print_module

_WATCHED = ("dump_to", "verify", "timings", "trace", "shuffle", "fuel")
"""Flags that observe the compiler; with any of them, the cache is not used."""
_ELSEWHERE = ("cache_dir", "progress", "num_threads", "host_device_count", "autotune_budget")
"""Flags that do not affect the code."""


def found(key: str | None) -> Packed | None:
    """The code that is cached under a key; None if there is none."""
    code = cache.get("program", key, decode) if key else None
    if code is not None:
        with trace.span("cached program"):
            return code
    return None


def compiled(module: Module, target: CpuTarget, key: str | None) -> Packed:
    """Compiles a module and caches the code under `key`. The module is changed; pass a clone to keep it."""
    from axla.cpu.compiler import compile_module

    choose = None
    if flags.current().autotune:
        from axla.cpu.tuning import tuner

        choose = tuner(module, target)
    made = compile_module(module, target, choose=choose)
    if key and (choose is None or choose.complete):
        with suppress(InvalidArgument):  # tuples nested too deeply to be written
            cache.put("program", key, made, encode, byte_size)
    return made


def program_key(module: Module, target: CpuTarget, *facts: object) -> str | None:
    """The key under which a module's code is cached: its whole text, with names and source lines (which
    messages have), digests of constants, target, flags, compiler, machine, and `facts` of the caller. None if
    the module must be compiled. The module must have passed `verify_graph`, not more.
    """
    try:
        return _key(module, target, facts)
    except (AxlaError, ValueError, IndexError, TypeError, ArithmeticError, AttributeError):
        return None  # invalid attributes, which the verifier will report


def _key(module: Module, target: CpuTarget, facts: tuple[object, ...]) -> str | None:
    load_installed()
    own = ADDED or PASSES_ADDED or has_foreign(PASSES) or OBSERVER.get()
    options = not own and _options(flags.current())
    constants = _constants(module) if options and cache.machine() else None
    packages = _packages(module)
    if constants is None or None in packages:
        return None
    text = print_module(module, print_program_shape=False, print_operand_shape=False)  # lines have shapes
    return cache.key_of(
        cache.compiler(), cache.machine(), identity(target), options, text, _order(module), constants,
        _functions(module), packages, *facts,
    )  # fmt: skip


def _order(module: Module) -> str:
    """The order of computations and instructions, which the text does not have. Effects and the digest of
    `_constants` depend on it.
    """
    return "\n".join(" ".join((c.name, *[inst.name for inst in c.instructions])) for c in module.computations)


@lru_cache
def _options(chosen: flags.Flags) -> str:
    """The text of the flags that affect code; "" if a flag observes the compiler."""
    watched = any(getattr(chosen, name) not in (None, False, "") for name in _WATCHED)
    return "" if watched else str([(n, getattr(chosen, n)) for n in flags.FIELDS if n not in _ELSEWHERE])


def _constants(module: Module) -> str | None:
    """A digest of all constants, in the order of `_order`; None if some are unknown, or they are too large to
    be cached.
    """
    found: list[Literal] = []
    for computation in module.computations:
        for inst in computation.instructions:
            if type(inst.op) is not Constant:
                continue
            if isinstance(inst.op.literal, ElidedLiteral):
                return None
            found += inst.op.literal.leaves()
    if sum(leaf.array.nbytes for leaf in found) > cache.LARGEST:  # before any constant is read
        return None
    digest = blake2b(digest_size=20)
    for leaf in found:
        digest.update(leaf.digest.encode())
    return digest.hexdigest()


def _packages(module: Module) -> list[str | None]:
    """The digests of the code of other packages that declare ops of the module, or kinds of kernels."""
    ops = {type(inst.op) for computation in module.computations for inst in computation.instructions}
    names = {package_of(cls) for cls in (*ops, *_kinds())} - {"axla"}
    return [cache.package(name) for name in sorted(names)]


@lru_cache
def _kinds() -> tuple[type, ...]:
    """The kernel kinds of installed packages."""
    if not plugins.installed(ENTRY_POINTS):
        return ()
    from axla.kernels.kinds import installed

    return installed()


def _functions(module: Module) -> list[tuple[str, str]]:
    """The names of custom calls with their calling conventions. The code depends on the conventions, but not
    on addresses.
    """
    names = {
        inst.op.custom_call_target for computation in module.computations for inst in computation.instructions
        if type(inst.op) is CustomCall
    }  # fmt: skip
    return [(name, _convention(name)) for name in sorted(names)]


def _convention(name: str) -> str:
    found = registered(name)
    if found is None and name in TARGETS:
        return f"routine, {is_installed()}"
    found = found or in_libraries(name)
    return found.api if found is not None else ""
