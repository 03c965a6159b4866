"""Functions that compiled programs call by name: the targets of custom calls, at addresses in this process.

A function has the C type `axla_function` of the ABI header. One that calls Python must take the interpreter
lock itself, as ctypes callbacks do.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Mapping, Sequence
from typing import Any

from axla.core.errors import InvalidArgument, UnsupportedError

_registered: dict[str, tuple[int, Any]] = {}


def register_function(name: str, function: Any) -> None:
    """Makes a function known to programs loaded from now on: a ctypes function (kept alive) or an address."""
    if isinstance(function, int):
        address = function
    else:
        try:
            address = c.cast(function, c.c_void_p).value or 0
        except c.ArgumentError as error:
            raise InvalidArgument(
                f"register_function({name!r}): wanted an address or a ctypes function, found {function!r}"
            ) from error
    if not address:
        raise InvalidArgument(f"register_function({name!r}): the address is null")
    _registered[name] = (address, function)


def resolve_functions(names: Sequence[str], given: Mapping[str, int] | None) -> list[int]:
    """The addresses of a program's function table; UnsupportedError names what is missing."""
    addresses = []
    for name in names:
        if given is not None and name in given:
            addresses.append(given[name])
        elif name in _registered:
            addresses.append(_registered[name][0])
        else:
            known = ", ".join(sorted({*_registered, *(given or ())})) or "none"
            raise UnsupportedError(
                f"custom call target {name!r} is not known: register_function makes it so (known: {known})"
            )
    return addresses
