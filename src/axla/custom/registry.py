"""The functions that programs may call by name: `register_custom_call`, and the search for the target of a
call.
"""

from __future__ import annotations

import ctypes as c
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from axla.core import locks
from axla.core.dataclass import dataclass
from axla.core.errors import AxlaError, InvalidArgument, UnsupportedError, choices, did_you_mean
from axla.custom.attributes import parse_attributes
from axla.custom.built_in import BUILT_IN
from axla.custom.site import (
    AXLA,
    FFI,
    LIBRARY,
    NATIVE,
    ORIGINAL,
    PYTHON,
    STATUS,
    UNIFIED,
    UNTYPED,
    CallSite,
)  # fmt: skip

_VERSIONS = {
    "API_VERSION_ORIGINAL": ORIGINAL,
    "API_VERSION_UNSPECIFIED": ORIGINAL,
    "API_VERSION_STATUS_RETURNING": STATUS,
    "API_VERSION_STATUS_RETURNING_UNIFIED": UNIFIED,
    "API_VERSION_TYPED_FFI": FFI,
}
_SIGNATURES = {
    ORIGINAL: "void f(void *out, void **in)",
    STATUS: "void f(void *out, void **in, axla_status *)",
    UNIFIED: "void f(void *out, void **in, const char *opaque, size_t length, axla_status *)",
    UNTYPED: "the function that the version of the call says",
    FFI: "XLA_FFI_Error *f(XLA_FFI_CallFrame *)",
    AXLA: "int32_t f(axla_frame *, void **operands, void **results, const char *opaque, int64_t length)",
}
STAGES = ("instantiate", "prepare", "initialize", "execute")  # the stages of an FFI handler


@dataclass(frozen=True)
class CallTarget:
    """The function registered under a name. `keep` is an object that keeps the address valid. `instantiate`
    is the address of the FFI handler that creates the state of a call when a program is loaded. `user_data`
    is an address that FFI handlers get as their user data.
    """

    name: str
    api: str
    address: int = 0
    function: Callable[..., Any] | None = None
    keep: Any = None
    instantiate: int = 0
    user_data: int = 0


_targets: dict[str, CallTarget] = {}
"""Has no lock: when a target is freed, even by a garbage collection, its finalizer may unregister others."""
_libraries: list[tuple[c.CDLL, str | None]] = []
_lock = locks.new_lock()
"""The lock for `_libraries`."""


def register_custom_call(
    name: str, target: Any = None, *, symbol: str | None = None, api: str | None = None
) -> Any:
    """Registers a function under a name, for programs that are compiled from now on, on every backend.

    `target` is one of these: the path of a shared library or a `ctypes.CDLL`, with the function `symbol` in
    it (default: `name`); the address of a native function as an int, a PyCapsule, a ctypes or cffi function
    or callback, or a Numba `cfunc`; a Python function. Registering a name again replaces its target.

    `api` is the calling convention of a native function: "original", `void f(void *out, void **in)`, is the
    default; others are "status_returning", "status_returning_unified", "untyped", "ffi" and "axla"
    (docs/custom-calls.md). With "ffi", `target` may be a dictionary with functions for the stages "execute"
    and "instantiate". A Python function gets read-only NumPy arrays and must return arrays of exactly the
    declared shapes and types.

    Without `target` this is a decorator. Returns `target`, or the decorated function.
    """
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"register_custom_call: name={name!r}; wanted a string that is not empty")
    if target is None:
        return lambda function: register_custom_call(name, function, symbol=symbol, api=api)
    register_target(_target(name, target, symbol, api))
    return target


def register_target(target: CallTarget) -> None:
    """Registers a target under its name."""
    _targets[target.name] = target


def register_custom_calls(library: str | os.PathLike[str] | c.CDLL, *, api: str | None = None) -> None:
    """Registers every function of a library under its symbol, as `register_custom_call` does for one.
    `ctypes.CDLL(None)` means the functions of the process. Registered names, and axla's own targets, take
    precedence; of several libraries, the one registered last does.
    """
    where = "register_custom_calls"
    if api is not None and api not in NATIVE:
        raise InvalidArgument(f"{where}: api={api!r}; {choices(NATIVE)}")
    loaded = _library(where, library)
    with _lock:
        _libraries[:] = [(loaded, api), *(found for found in _libraries if found[0] is not loaded)]


def unregister_custom_calls() -> None:
    """Removes all libraries registered by `register_custom_calls`."""
    _libraries.clear()


def unregister_custom_call(name: str) -> None:
    """Removes a registered name. Programs that are already compiled keep its target."""
    if _targets.pop(name, None) is None:
        raise InvalidArgument(f"unregister_custom_call: {name!r} is not registered")


def registered(name: str) -> CallTarget | None:
    """The target that is now registered under a name; None if there is none."""
    return _targets.get(name)


def _target(name: str, target: Any, symbol: str | None, api: str | None) -> CallTarget:
    where = f"register_custom_call({name!r})"
    if api is not None and api not in (*NATIVE, PYTHON):
        raise InvalidArgument(f"{where}: api={api!r}; {choices((*NATIVE, PYTHON))}")
    if isinstance(target, Mapping):
        return _stages(where, name, target, api)
    if isinstance(target, str | os.PathLike | c.CDLL):
        target = _symbol(where, target, symbol or name)
    elif symbol is not None:
        raise InvalidArgument(f"{where}: symbol={symbol!r} names a function of a library, found {target!r}")
    address = address_of(target)
    if address is None:
        if not callable(target):
            raise InvalidArgument(
                f"{where}: wanted a library, an address, a native or a Python function, found {target!r}"
            )
        if api not in (None, PYTHON):
            raise InvalidArgument(f"{where}: api={api!r} is for native functions, found {target!r}")
        return CallTarget(name, PYTHON, function=target)
    if api == PYTHON:
        raise InvalidArgument(f"{where}: api='python' is for Python functions, found {target!r}")
    if not 0 < address < 1 << 64:
        raise InvalidArgument(f"{where}: {address:#x} is not the address of a function")
    _check_signature(where, target, api or ORIGINAL)
    return CallTarget(name, api or ORIGINAL, address=address, keep=target)


def _stages(where: str, name: str, stages: Mapping[str, Any], api: str | None) -> CallTarget:
    """Makes the target for a dictionary with functions of several stages."""
    if api != FFI:
        raise InvalidArgument(f"{where}: a dictionary of stages needs api='ffi', found api={api!r}")
    for stage in stages:
        if stage not in STAGES:
            raise InvalidArgument(f"{where}: stage {stage!r}; {choices(STAGES, stage)}")
    made = {stage: _target(name, function, None, FFI) for stage, function in stages.items()}
    if "execute" not in made:
        raise InvalidArgument(f"{where}: the stage 'execute' is missing")
    first = made.get("instantiate")
    return replace(made["execute"], keep=made, instantiate=first.address if first is not None else 0)


def _check_signature(where: str, target: Any, api: str) -> None:
    """Refuses a ctypes function whose declared argument types do not fit the calling convention."""
    if not isinstance(target, c._CFuncPtr):  # type: ignore[attr-defined]
        return
    types = target.argtypes
    wanted = _SIGNATURES[api]
    # In all conventions, arguments are as wide as an address, and none is a float. Classes of users are
    # accepted.
    simple = [t for t in types or () if isinstance(t, type) and issubclass(t, c._SimpleCData)]
    narrow = any(c.sizeof(t) != c.sizeof(c.c_void_p) or t is c.c_double for t in simple)
    if types is not None and (narrow or len(types) != wanted.count(",") + 1):
        found = ", ".join(getattr(t, "__name__", repr(t)) for t in types)
        raise InvalidArgument(f"{where}: the function takes ({found}); api={api!r} wants {wanted}")
    if api in (AXLA, FFI) and target.restype is None:
        raise InvalidArgument(f"{where}: the function returns nothing; api={api!r} wants {wanted}")


def _library(where: str, library: Any) -> c.CDLL:
    try:
        return library if isinstance(library, c.CDLL) else c.CDLL(os.fspath(library))
    except (OSError, ValueError, TypeError) as error:  # ValueError is for an invalid path
        raise InvalidArgument(f"{where}: cannot load the library: {error}") from error


def _symbol(where: str, library: Any, symbol: str) -> Any:
    loaded = _library(where, library)
    try:
        return loaded[symbol]
    except (AttributeError, ValueError) as error:
        raise InvalidArgument(f"{where}: {loaded._name or 'the process'} has no symbol {symbol!r}") from error


_capsule_name = c.PYFUNCTYPE(c.c_void_p, c.py_object)(("PyCapsule_GetName", c.pythonapi))
_capsule_pointer = c.PYFUNCTYPE(c.c_void_p, c.py_object, c.c_void_p)(("PyCapsule_GetPointer", c.pythonapi))


def address_of(target: Any) -> int | None:
    """The address of a native function or object; None for any other object."""
    if isinstance(target, int) and not isinstance(target, bool):
        return target
    if isinstance(target, c._CFuncPtr | c.c_void_p):  # type: ignore[attr-defined]
        return c.cast(target, c.c_void_p).value or 0
    if type(target).__name__ == "PyCapsule":
        return _capsule_pointer(target, _capsule_name(target))
    backend = sys.modules.get("_cffi_backend")
    if backend is not None and isinstance(target, backend._CDataBase):
        return int(backend.FFI().cast("uintptr_t", target))
    address = getattr(target, "address", None)  # Numba's cfunc
    return address if callable(target) and isinstance(address, int) else None


def find_target(site: CallSite) -> CallTarget:
    """Finds the target of a call, and checks that it supports calls of this kind. UnsupportedError, with the
    reason, if there is none.
    """
    found = _targets.get(site.target)
    if found is None and site.target in BUILT_IN:
        return CallTarget(site.target, PYTHON, function=BUILT_IN[site.target])
    if found is None:
        from axla.custom.routines import TARGETS

        if site.target in TARGETS:
            return CallTarget(site.target, LIBRARY)
        found = in_libraries(site.target)
    if found is None:
        raise UnsupportedError(f"{site}: {_unknown(site.target)}")
    if found.api == PYTHON:
        _check_python(site, found)
    elif found.api != AXLA:
        wanted = _VERSIONS[site.version]
        if found.api == UNTYPED and wanted != FFI:
            return replace(found, api=wanted)
        if wanted != found.api:
            raise UnsupportedError(
                f"{site}: the call has {site.version}, {_SIGNATURES[wanted]}, but the target was "
                f"registered with api={found.api!r}, {_SIGNATURES[found.api]}"
            )
    return found


def in_libraries(name: str) -> CallTarget | None:
    """Finds the target of a name in the libraries registered by `register_custom_calls`; None if none has
    it.
    """
    for library, api in tuple(_libraries):
        with suppress(InvalidArgument):
            return _target(name, library, None, api)
    return None


def _unknown(name: str) -> str:
    from axla.custom.routines import TARGETS

    if name.startswith("interpreter."):
        return "only the interpreter supports it: backend='interpreter'"
    if "callback" in name:
        return "it is a Python function of the process that traced the program: use axla.jax.jit there"
    own = sorted(_targets)
    text = "no such target is registered: use axla.register_custom_call, or, for programs compiled ahead "
    text += "of time, declare with `externals` a function that is linked to the library"
    listed = ", ".join(own[:8]) + (", ..." if len(own) > 8 else "")
    return text + (did_you_mean(name, [*own, *TARGETS]) or f" (registered: {listed or 'none'})")


def _check_python(site: CallSite, target: CallTarget) -> None:
    """Refuses a Python function whose signature does not fit the operands and attributes of a call."""
    assert target.function is not None
    try:
        signature = inspect.signature(target.function)
    except (TypeError, ValueError):
        return  # a builtin has no signature to check
    try:
        signature.bind(*site.operands, **keywords_of(target.function, site))
    except TypeError as error:
        name = getattr(target.function, "__qualname__", type(target.function).__qualname__)
        raise UnsupportedError(f"{site}: {name}{signature} cannot be called so: {error}") from error


def keywords_of(function: Callable[..., Any], site: CallSite) -> dict[str, Any]:
    """The keyword arguments for a Python function. For a typed call they are its attributes. For other calls,
    the configuration as bytes is the argument `opaque`, if the function has this parameter; otherwise there
    are none.
    """
    if function in BUILT_IN.values():
        return {"site": site}
    if site.version == "API_VERSION_TYPED_FFI":
        try:
            return parse_attributes(site.config)
        except AxlaError as error:
            raise UnsupportedError(f"{site}: {error}") from error
    try:
        parameters: Sequence[inspect.Parameter] = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return {}
    wanted = any(
        p.name == "opaque" and p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters
    )
    return {"opaque": site.config.encode("utf-8", "surrogateescape")} if wanted else {}
