"""Makes the plugin: the function table that the client receives."""

from __future__ import annotations

import atexit
import ctypes as c
import time
from typing import Any

from axla.codegen.native.structs import READY, RECORD
from axla.core.python_api import incref, python_function
from axla.pjrt import buffers, client, layouts, native, programs, structs, transfers  # noqa: F401  (functions)
from axla.pjrt.extensions import chain
from axla.pjrt.functions import addresses_of_python, error_new, raised
from axla.pjrt.table import API, FUNCTIONS, STRUCTS, VERSION
from axla.runtime.native import native as runtime

NAME = b"pjrt_c_api"
"""The name that the client expects the capsule to have."""
_keep: list[Any] = []


def capsule(attributes: dict[str, Any]) -> object:
    """A capsule with the address of PJRT_Api, for the only client of this process. `attributes` are those of
    the plugin.
    """
    client.say_attributes(attributes)
    glue = runtime().glue
    at = glue.extended(native.emit)
    _set_variables(at)
    table = API.ctypes()()
    table.struct_size, table.version_size = API.size, 24
    extensions = chain(at)
    table.extension_start = c.addressof(extensions[0])
    table.major_version, table.minor_version = VERSION
    for name in FUNCTIONS:
        setattr(table, name, at[f"pjrt_{name}"])
    # Destructors of the client call functions after the interpreter has ended: nothing here is freed.
    for kept in (table, extensions, _keep, at):
        incref(kept)
    counts = [c.c_int32.from_address(at[f"pjrt_{name}"]) for name in ("ending", "letting_go")]
    atexit.register(_end, *counts)
    make = python_function("PyCapsule_New", c.py_object, c.c_void_p, c.c_char_p, c.c_void_p)
    return make(c.addressof(table), NAME, None)


def _end(ending: Any, letting_go: Any) -> None:
    """Waits for threads of the client that release objects; later releases have no effect."""
    ending.value = 1
    while letting_go.value:
        time.sleep(0.001)


def _set_variables(at: dict[str, int]) -> None:
    functions = addresses_of_python()
    (c.c_void_p * len(functions)).from_address(at["pjrt_python"])[:] = functions
    for name, value in {"raised": raised(), "deleter": client.NOTHING}.items():
        c.c_void_p.from_address(at[f"pjrt_{name}"]).value = value
    client.variables.update(at)
    table = (structs.LAYOUT.ctypes() * (structs.MOST_DIMENSIONS + 1)).from_address(at["pjrt_layouts"])
    for rank, layout in enumerate(table):
        text = c.create_string_buffer(f"{{{','.join(map(str, reversed(range(rank))))}}}".encode())
        _keep.append(text)
        layout.text, layout.size = c.addressof(text), len(text) - 1
    ready = RECORD.ctypes().from_address(at["pjrt_ready"])
    ready.refs, ready.ready = 1, READY
    buffers.event_ready[:] = [at["pjrt_ready"]]
    errors = STRUCTS["ErrorFunctions"].ctypes().from_address(at["pjrt_error_functions"])
    errors.struct_size, errors.instance_size = STRUCTS["ErrorFunctions"].size, structs.ERROR.size
    errors.destroy, errors.message = at["pjrt_error_destroy"], at["pjrt_error_message"]
    errors.get_code, errors.for_each_payload = at["pjrt_error_code"], at["pjrt_error_payloads"]
    error_new[:] = [c.PYFUNCTYPE(c.c_void_p, c.c_int32, c.c_char_p, c.c_int64)(at["pjrt_error_new"])]
    kinds = (c.c_void_p,) * 4
    buffers.native_view[:] = [c.PYFUNCTYPE(None, *kinds)(at["pjrt_view"])]
    buffers.native_watched[:] = [c.PYFUNCTYPE(c.c_void_p, c.c_void_p)(at["pjrt_watched"])]
