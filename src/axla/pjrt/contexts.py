"""The FFI extension: data that the client passes to the custom calls of a run."""

from __future__ import annotations

import ctypes as c
from typing import Any

from axla.pjrt.structs import CONTEXT
from axla.pjrt.table import text_at

_types: dict[str, int] = {}
_LIST: Any = type("List", (c.Structure,), {"_fields_": [("items", c.c_void_p), ("count", c.c_size_t)]})


def functions_of(context: int | None) -> list[Any]:
    """The Python functions for the callbacks of a run, from its context."""
    data = CONTEXT.ctypes().from_address(context).data if context else None
    if not data:
        return []
    held = _LIST.from_address(data)
    items = (c.c_void_p * held.count).from_address(held.items)
    return [c.cast(item, c.py_object).value for item in items]


def type_register(args: Any) -> None:
    """Registers a type of user data by name; it gets a number unless the caller has set one."""
    name = text_at(args.type_name, args.type_name_size)
    args.type_id = _types.setdefault(name, args.type_id or len(_types) + 1)


def register_handler(args: Any) -> None:
    """Raises NotImplementedError: handlers are registered only through `axla.jax`."""
    raise NotImplementedError("PJRT_FFI_Register_Handler")
