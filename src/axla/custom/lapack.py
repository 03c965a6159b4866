"""The routines of LAPACK and BLAS that SciPy carries: their addresses, and calls of them through ctypes.

SciPy exports them in capsules, as functions of pointers only: what Fortran takes, less the lengths of texts.
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
    """Whether there is a SciPy to bring the routines."""
    try:
        routine_address("spotrf")
    except UnsupportedError:
        return False
    return True


def routine_address(symbol: str) -> int:
    """The address of a routine (`spotrf`); UnsupportedError when there is no SciPy, or no such routine."""
    return _capsule(symbol)[0]


@functools.cache
def routine(symbol: str, count: int) -> Callable[..., None]:
    """A routine of `count` pointers, to be called from Python. Calls give up the interpreter lock."""
    return c.CFUNCTYPE(None, *[c.c_void_p] * count)(routine_address(symbol))


@functools.cache
def _capsule(symbol: str) -> tuple[int, object]:
    """The address of a routine, and the capsule that holds it."""
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
