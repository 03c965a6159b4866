"""Functions of CPython's C API.

Those of `ctypes.pythonapi` are shared by all modules of a process, and some modules change their types, as
`jax.ffi.pycapsule` does. The functions here have types of their own.
"""

from __future__ import annotations

import ctypes as c
from typing import Any


def python_function(name: str, result: Any, *parameters: Any) -> Any:
    """A function of the C API with these ctypes, called with the interpreter lock."""
    return c.PYFUNCTYPE(result, *parameters)((name, c.pythonapi))


incref = python_function("Py_IncRef", None, c.py_object)
