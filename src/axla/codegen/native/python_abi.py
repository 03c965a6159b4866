"""The layout of CPython and NumPy objects that the glue reads, and whether it applies to this process.

`why_not` returns the reason why the glue cannot be used here. `numpy_matches` checks the offsets on live
arrays: where they differ, NumPy arguments take the slower path through Python.
"""

from __future__ import annotations

import ctypes as c
import sys
import sysconfig
from functools import lru_cache

import numpy as np

from axla.codegen.native.structs import fields
from axla.codegen.native.systems import machine
from axla.program.abi import Struct

NDARRAY = Struct(
    "numpy_array",
    "The head of PyArrayObject (NumPy 1.26 to 2.x).",
    *fields(
        "refcount:i64, type:ptr, data:ptr, nd:i32, dims:ptr, strides:ptr, base:ptr, descr:ptr, flags:i32"
    ),
)

SYSTEMS = {"linux": ("x86_64", "aarch64"), "darwin": ("aarch64", "x86_64"), "win32": ("x86_64",)}
"""The machines on which compiled programs can be called, by Python's name of the system."""


@lru_cache
def why_not() -> str | None:
    """The reason why compiled programs cannot be called in this process, or None if they can."""
    if sys.implementation.name != "cpython":
        return f"calls of compiled programs need CPython, but this is {sys.implementation.name}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "calls of compiled programs need the interpreter lock; this CPython is free-threaded"
    if sys.platform not in SYSTEMS:
        known = ", ".join(SYSTEMS)
        return f"the cpu backend runs on {known} (this is {sys.platform}): use backend='interpreter'"
    if machine() not in SYSTEMS[sys.platform] or sys.maxsize < 2**62:
        found = f"{machine()}, {8 * c.sizeof(c.c_void_p)} bits"
        known = ", ".join(SYSTEMS[sys.platform])
        return f"the cpu backend runs on {known} (this is {found}): use backend='interpreter'"
    return None if object.__basicsize__ == 16 else "this CPython build has an unknown object layout"


def numpy_matches() -> bool:
    """Whether NumPy arrays have the memory layout of `NDARRAY`."""
    samples = [
        np.zeros((2, 3, 5), np.float32),
        np.zeros((7,), np.complex128),
        np.zeros((4, 6), np.int8)[::2, 1:],
        np.asfortranarray(np.zeros((3, 4), np.float64)),
    ]
    view = NDARRAY.ctypes()
    if np.ndarray.__basicsize__ < NDARRAY.size:
        return False
    for a in samples:
        head = view.from_address(id(a))
        if (head.type, head.data, head.nd) != (id(np.ndarray), a.ctypes.data, a.ndim):
            return False
        if (head.descr, head.base or 0) != (id(a.dtype), 0 if a.base is None else id(a.base)):
            return False
        if tuple((c.c_int64 * a.ndim).from_address(head.dims)) != a.shape:
            return False
        if tuple((c.c_int64 * a.ndim).from_address(head.strides)) != a.strides:
            return False
        plain = a.flags.c_contiguous | a.flags.aligned << 8
        if head.flags & 0x101 != plain:
            return False
    return True
