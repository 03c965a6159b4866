"""Functions of CPython's C API.

All modules of a process share the functions of `ctypes.pythonapi`, and some change their argument types, as
`jax.ffi.pycapsule` does. The functions made here have types of their own.
"""

from __future__ import annotations

import ctypes as c
from typing import Any


def python_function(name: str, result: Any, *parameters: Any) -> Any:
    """Returns a function of the C API with these ctypes for its result and parameters. It is called while
    holding the GIL.
    """
    return c.PYFUNCTYPE(result, *parameters)((name, c.pythonapi))


incref = python_function("Py_IncRef", None, c.py_object)
