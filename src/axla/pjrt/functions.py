"""The registry of functions of the C API in Python, which emitted functions (native.py) call."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable
from typing import Any, TypeVar

from axla.pjrt.errors import status_of
from axla.pjrt.table import FUNCTIONS, view
from axla.program.abi import Struct

Body = TypeVar("Body", bound=Callable[[Any], None])
IMPLEMENTED: dict[str, Callable[[Any], None]] = {}
"""The functions by name. Each takes the struct of arguments; an exception that it raises becomes a
PJRT_Error.
"""
_FUNCTION = c.PYFUNCTYPE(c.c_void_p, c.c_void_p)
_keep: list[Any] = []
error_new: list[Callable[[int, bytes, int], int]] = []
"""The native function that makes a PJRT_Error; filled when the plugin is made."""


def implements(name: str) -> Callable[[Body], Body]:
    """Registers the decorated function as the API function `name`."""

    def add(body: Body) -> Body:
        IMPLEMENTED[name] = body
        return body

    return add


def error_of(error: BaseException) -> int:
    """A PJRT_Error for an exception."""
    code, text = status_of(error)
    data = text.encode("utf-8", "replace")
    return error_new[0](code, data, len(data))


def callback(body: Callable[[Any], None], struct: Struct) -> int:
    """The address of a native function that calls `body` with a view of its argument, a struct of the type
    `struct`. An exception of `body` becomes a PJRT_Error.
    """

    def call(address: int) -> int | None:
        try:
            with view(struct, address) as arguments:
                body(arguments)
        except BaseException as error:
            return error_of(error)
        return None

    _keep.append(_FUNCTION(call))
    return c.cast(_keep[-1], c.c_void_p).value or 0


def unimplemented(name: str) -> Callable[[Any], None]:
    """A function for the API table that fails with UNIMPLEMENTED and the name of the API function."""

    def refuse(arguments: Any) -> None:
        raise NotImplementedError(f"PJRT_{name}")

    return refuse


def addresses_of_python() -> list[int]:
    """The native addresses of the API functions implemented in Python, in order."""
    return [callback(IMPLEMENTED.get(name) or unimplemented(name), s) for name, s in FUNCTIONS.items()]


def raised() -> int:
    """The address of a native function that creates a PJRT_Error for an exception."""
    function = c.PYFUNCTYPE(c.c_void_p, c.py_object)(error_of)
    _keep.append(function)
    return c.cast(function, c.c_void_p).value or 0
