"""Handlers of XLA's FFI that JAX brings: those that users register with `jax.ffi`, and jaxlib's own."""

from __future__ import annotations

from functools import cache
from typing import Any

from axla.core.errors import InvalidArgument
from axla.custom.built_in import BUILT_IN
from axla.custom.registry import register_custom_call, registered
from axla.custom.routines import TARGETS
from axla.custom.site import FFI, UNTYPED

_APIS = {0: UNTYPED, 1: FFI}


def register_handler(name: str, handler: Any, api_version: int = 0, traits: Any = 0) -> None:
    """What `jax.ffi.register_ffi_target` registers for CPUs, as a target of axla's programs.

    `handler` is a PyCapsule, or a dictionary of them by stage; `api_version` is 0 for untyped functions and 1
    for handlers of the typed FFI. Traits matter on other platforms only. What axla has itself stays its own.
    """
    if api_version not in _APIS:
        raise InvalidArgument(f"register_handler({name!r}): api_version={api_version}; there are 0 and 1")
    if name not in TARGETS and name not in BUILT_IN:
        register_custom_call(name, handler, api=_APIS[api_version])


@cache
def register_jaxlib_handlers() -> None:
    """Makes the handlers that jaxlib has for CPUs known, where nothing of their names is."""
    from jaxlib import cpu_sparse, lapack

    for module in (lapack, cpu_sparse):
        for name, handler, api_version in module.registrations()["cpu"]:
            if registered(name) is None:
                register_handler(name, handler, api_version)
