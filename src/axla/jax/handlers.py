"""Registers XLA's FFI handlers from JAX with axla: those that users register with `jax.ffi`, and jaxlib's
own.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from axla.core.errors import InvalidArgument
from axla.custom.built_in import BUILT_IN
from axla.custom.registry import register_custom_call, registered
from axla.custom.routines import TARGETS
from axla.custom.site import FFI, UNTYPED
from axla.hlo.control import CustomCall
from axla.ir.graph import Module
from axla.jax import private
from axla.runtime.ffi import register_ffi_type

_APIS = {0: UNTYPED, 1: FFI}
# Handlers of XLA itself: they need structures that only XLA's runtime has.
_INTERNAL = {"xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback"}


def register_handler(name: str, handler: Any, api_version: int = 0, traits: Any = 0) -> None:
    """Registers a handler that `jax.ffi.register_ffi_target` registers for CPUs as a custom-call target of
    axla.

    `handler` is a PyCapsule, or a dictionary of them by stage; `api_version` is 0 for untyped functions and 1
    for handlers of the typed FFI. `traits` matter on other platforms only. A target that axla implements
    itself is not replaced.
    """
    if api_version not in _APIS:
        raise InvalidArgument(f"register_handler({name!r}): api_version={api_version}, wanted 0 or 1")
    if name not in TARGETS and name not in BUILT_IN:
        register_custom_call(name, handler, api=_APIS[api_version])


@cache
def register_jaxlib_handlers() -> None:
    """Registers jaxlib's handlers for CPUs, except under names that are registered already."""
    from jaxlib import cpu_sparse, lapack

    for module in (lapack, cpu_sparse):
        _register_new(module.registrations()["cpu"])


def _register_new(handlers: Iterable[tuple[str, Any, int]]) -> None:
    for name, handler, api_version in handlers:
        if registered(name) is None:
            register_handler(name, handler, api_version)


def register_type(name: str, type_: dict[str, Any]) -> None:
    """Registers a type that `jax.ffi.register_ffi_type` has for CPUs: its capsule `type_id` and, if there is
    one, `type_info`.
    """
    register_ffi_type(name, type_.get("type_id"), type_.get("type_info"))


def follow() -> None:
    """Registers all handlers and types that `jax.ffi` has for CPUs, those that it will get, and the handlers
    in jaxlib's core that do not need XLA's runtime.
    """
    private.follow(register_handler, register_type)
    known = private.handlers()
    _register_new((name, *known[name]) for name in known.keys() - _INTERNAL)


def register_handlers_of(module: Module) -> None:
    """Registers the custom-call targets of a module that JAX has and axla does not have."""
    ops = (inst.op for computation in module.computations for inst in computation.instructions)
    names = {op.custom_call_target for op in ops if isinstance(op, CustomCall)}
    unknown = {name for name in names - {*TARGETS, *BUILT_IN, *_INTERNAL} if registered(name) is None}
    if not unknown:
        return
    register_jaxlib_handlers()
    known = private.handlers()
    _register_new((name, *known[name]) for name in unknown & known.keys())
