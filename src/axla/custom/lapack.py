"""The LAPACK and BLAS routines of SciPy: their addresses, and calls of them through ctypes.

SciPy exports them in capsules. All arguments are pointers, as in Fortran, but without the hidden lengths of
strings.
"""

from __future__ import annotations

import ctypes as c
import functools
import importlib
from collections.abc import Callable
from typing import Any

from axla.core.errors import UnsupportedError, missing
from axla.core.python_api import python_function

_BLAS = ("trsm",)


def is_installed() -> bool:
    """Whether SciPy is installed."""
    try:
        routine_address("spotrf")
    except UnsupportedError:
        return False
    return True


def routine_address(symbol: str) -> int:
    """The address of a routine, such as `spotrf`. UnsupportedError if SciPy is not installed or has no such
    routine.
    """
    return _capsule(symbol)[0]


@functools.cache
def routine(symbol: str, count: int) -> Callable[..., None]:
    """A routine with `count` arguments, all of which are pointers, as a Python function. Calls release the
    GIL.
    """
    return c.CFUNCTYPE(None, *[c.c_void_p] * count)(routine_address(symbol))


@functools.cache
def _capsule(symbol: str) -> tuple[int, object]:
    """Returns (the address of a routine, the capsule that keeps it in memory)."""
    part = "cython_blas" if symbol[1:] in _BLAS else "cython_lapack"
    try:
        module: Any = importlib.import_module(f"scipy.linalg.{part}")
    except ImportError as error:
        raise UnsupportedError(missing(f"the LAPACK routine {symbol}", "SciPy", "linalg")) from error
    capsule = module.__pyx_capi__.get(symbol)
    if capsule is None:
        raise UnsupportedError(f"SciPy's {part} has no routine {symbol}")
    name = python_function("PyCapsule_GetName", c.c_char_p, c.py_object)
    pointer = python_function("PyCapsule_GetPointer", c.c_void_p, c.py_object, c.c_char_p)
    return pointer(capsule, name(capsule)), capsule
