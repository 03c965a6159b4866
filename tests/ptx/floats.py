"""Arithmetic of floats as the hardware rounds it, on arrays."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, F64 = (np.dtype(f"f{size}") for size in (2, 4, 8))
_libm = ctypes.CDLL("libm.so.6")
_libm.fma.restype = ctypes.c_double
_libm.fma.argtypes = [ctypes.c_double] * 3
_fma = np.frompyfunc(_libm.fma, 3, 1)
_QUIET = {F16: 0x7FFF, BF16: 0x7FFF, F32: 0x7FFFFFFF}


def canonical(x: np.ndarray) -> np.ndarray:
    """The result of an instruction on floats of 32 bits or less, whose NaNs are all the same; in place."""
    if x.dtype in _QUIET and (nans := x != x).any():
        x.view(f"u{x.dtype.itemsize}")[nans] = _QUIET[x.dtype]
    return x


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c, rounded once."""
    a, b, c = np.broadcast_arrays(a, b, c)
    if a.dtype == F64:
        return _fma(a, b, c).astype(F64)
    return narrowed(_odd_sum(a.astype(F64) * b.astype(F64), c.astype(F64)), a.dtype)


def _odd_sum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y rounded to odd: a second rounding, to half as many bits or fewer, gives what one would."""
    total = x + y
    back = total - x
    error = (x - (total - back)) + (y - back)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + step, bits).view(F64)


def narrowed(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Doubles rounded to the nearest of another type, ties to even."""
    if dtype != BF16:
        return x.astype(dtype)
    return _odd_f32(x).astype(BF16)


def _odd_f32(x: np.ndarray) -> np.ndarray:
    """Doubles rounded to odd floats."""
    near = x.astype(F32)
    bits = near.view(np.int32)
    off = np.isfinite(x) & (near.astype(F64) != x) & (bits & 1 == 0)
    step = np.where(np.abs(near.astype(F64)) > np.abs(x), -1, 1).astype(np.int32)
    return np.where(off, bits + step, bits).view(F32)


def directed(x: np.ndarray, dtype: np.dtype, mode: str) -> np.ndarray:
    """Doubles rounded toward zero (rz), down (rm) or up (rp)."""
    near = narrowed(x, dtype)
    wide = near.astype(F64)
    low, high = np.array(-np.inf, dtype), np.array(np.inf, dtype)
    up = (mode == "rp") | ((mode == "rz") & (x < 0))
    away = np.where(up, wide < x, wide > x)
    return np.where(away, np.nextafter(near, np.where(up, high, low)), near).astype(dtype)


def rounded(x: np.ndarray, mode: str) -> np.ndarray:
    """To an integral value, in the same type."""
    return {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode](x)


def smaller(a: np.ndarray, b: np.ndarray, *, nan: bool) -> np.ndarray:
    """The minimum: -0 is less than +0; a NaN is the result (`nan`), or the other operand is."""
    least = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    if nan:
        return np.where(a != a, a, np.where(b != b, b, least))
    return np.where(a != a, b, np.where(b != b, a, least))


def larger(a: np.ndarray, b: np.ndarray, *, nan: bool) -> np.ndarray:
    return -smaller(-a, -b, nan=nan)


def to_integer(x: np.ndarray, dtype: np.dtype, mode: str) -> np.ndarray:
    """Floats as integers of the type, the nearest one where they are outside. NaN is 0; between 64 bits on
    either side it is the integer with the highest bit alone.
    """
    info = np.iinfo(dtype)
    wide = rounded(x.astype(F64), mode)
    top = 2.0 ** (info.bits - (info.min < 0))
    inside = np.where((wide >= float(info.min)) & (wide < top), wide, 0.0).astype(dtype)
    found = np.where(
        wide >= top, dtype.type(info.max), np.where(wide < float(info.min), dtype.type(info.min), inside)
    )
    odd = 1 << (info.bits - 1) if x.dtype == F64 or info.bits == 64 else 0
    return np.where(wide != wide, np.array(odd, f"u{dtype.itemsize}").view(dtype), found)
