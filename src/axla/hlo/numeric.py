"""Arithmetic on NumPy arrays with HLO's semantics, where NumPy's own functions differ.

Narrow floats (f16, bf16, f8...) are computed in f32 and rounded once per operation. Integers of less than 8
bits are computed in 8 bits, and wrap. Integer division by zero returns -1 (all bits set); the remainder of a
division by zero is the dividend. Callers must silence floating-point warnings with `numpy.errstate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from axla.core.dtypes import DType, from_numpy
from axla.hlo import complex as complex_functions

AnyArray = Any  # numpy.ndarray, whose stubs have no real and imag for an unknown element type


def kind(a: AnyArray) -> str:
    """The kind of the element type: pred, signed, unsigned, float or complex."""
    return from_numpy(a.dtype).kind


def _wide(dtype: np.dtype) -> np.dtype | None:
    """The wider type in which to compute with elements of `dtype`; None if NumPy should compute in `dtype`
    itself.
    """
    return _WIDE[dtype] if dtype in _WIDE else _WIDE.setdefault(dtype, _find_wide(from_numpy(dtype)))


def _find_wide(dtype: DType) -> np.dtype | None:
    if dtype.is_float and dtype.bits <= 16:
        return np.dtype(np.float32)
    if dtype.is_integer and dtype.bits < 8:
        return np.dtype(np.int8 if dtype.is_signed else np.uint8)
    return None


_WIDE: dict[np.dtype, np.dtype | None] = {}


class ArrayFunction:
    """A function of arrays that may have a different version for each kind of element type. Operands of
    narrow types are computed in a wider type, and the result is rounded.
    """

    __slots__ = ("table",)

    def __init__(self, table: dict[str, Callable[..., AnyArray]]) -> None:
        self.table = table

    def of(self, dtype: np.dtype) -> Callable[..., AnyArray]:
        """The version for operands of this type, without rounding."""
        return self.table.get(from_numpy(dtype).kind) or self.table["other"]

    def native(self, dtype: np.dtype) -> Callable[..., AnyArray] | None:
        """The version for operands of this type if it computes in this type itself; None if it computes in a
        wider one.
        """
        return self.of(dtype) if _wide(dtype) is None else None

    def __call__(self, *operands: AnyArray) -> AnyArray:
        """Computes the function in the wide type of the first operand's dtype, then rounds the result to that
        dtype.
        """
        dtype = operands[0].dtype
        wide, function = _wide(dtype), self.of(dtype)
        if wide is None:
            return np.asarray(function(*operands), dtype)
        return np.asarray(function(*[o.astype(wide) for o in operands])).astype(dtype)


def rounded(function: Callable[..., AnyArray]) -> ArrayFunction:
    """An ArrayFunction with one version for all kinds of element types."""
    return ArrayFunction({"other": function})


def by_kind(**functions: Callable[..., AnyArray]) -> ArrayFunction:
    """An ArrayFunction with a version for each kind of element type; `other` is the version for kinds that
    are not given.
    """
    return ArrayFunction(functions)


# Sign and magnitude


def absolute(x: AnyArray) -> AnyArray:
    """The absolute value of each element; for complex elements, a real number."""
    return np.abs(x) if kind(x) == "complex" else rounded(np.abs)(x)


def _sign_float(x: AnyArray) -> AnyArray:
    return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones((), x.dtype), x))


sign = by_kind(float=_sign_float, complex=complex_functions.sign, other=np.sign)


def _negate(x: AnyArray) -> AnyArray:
    return np.negative(x) if x.dtype.kind != "b" else x


negate = rounded(_negate)

# Rounding


def _round_away(x: AnyArray) -> AnyArray:
    # Not trunc(x + 0.5): 0.49999997 + 0.5 rounds up to 1.
    whole = np.trunc(x)
    return np.where(
        np.abs(x - whole) >= 0.5, whole + np.copysign(np.ones((), x.dtype), x), np.copysign(whole, x)
    )


round_away = rounded(_round_away)

# Arithmetic


def _divide_integers(x: AnyArray, y: AnyArray) -> AnyArray:
    """The quotient, truncated; -1 (all bits set) for a zero divisor. The smallest number divided by -1 is
    itself.
    """
    if x.dtype.kind == "u":
        return np.where(y == 0, np.iinfo(x.dtype).max, x // np.where(y == 0, 1, y)).astype(x.dtype)
    safe = np.where((y == 0) | (y == -1), 1, y).astype(x.dtype)
    floor, rest = np.divmod(x, safe)
    quotient = floor + ((rest != 0) & ((x < 0) != (safe < 0)))
    return np.where(y == 0, -1, np.where(y == -1, np.negative(x), quotient)).astype(x.dtype)


def _remainder_integers(x: AnyArray, y: AnyArray) -> AnyArray:
    """The remainder, with the sign of the dividend; the dividend itself for a zero divisor."""
    if x.dtype.kind == "u":
        return np.where(y == 0, x, x % np.where(y == 0, 1, y)).astype(x.dtype)
    safe = np.where((y == 0) | (y == -1), 1, y).astype(x.dtype)
    return np.where(y == 0, x, np.where(y == -1, 0, np.fmod(x, safe))).astype(x.dtype)


multiply = by_kind(complex=complex_functions.multiply, other=np.multiply)
divide = by_kind(
    signed=_divide_integers, unsigned=_divide_integers, complex=complex_functions.divide, other=np.divide
)
remainder = by_kind(signed=_remainder_integers, unsigned=_remainder_integers, other=np.fmod)


def _maximum_float(x: AnyArray, y: AnyArray) -> AnyArray:
    # +0 is larger than -0, whichever operand it is; a NaN operand gives NaN.
    return np.where((x == 0) & (y == 0), x + y, np.maximum(x, y))


def _minimum_float(x: AnyArray, y: AnyArray) -> AnyArray:
    return np.where((x == 0) & (y == 0), -(-x - y), np.minimum(x, y))


maximum = by_kind(float=_maximum_float, other=np.maximum)
minimum = by_kind(float=_minimum_float, other=np.minimum)


def clamp(low: AnyArray, x: AnyArray, high: AnyArray) -> AnyArray:
    """`x` limited to [low, high]; NaN in any operand gives NaN."""
    return minimum(maximum(low, x), high)


def is_finite(x: AnyArray) -> AnyArray:
    """Whether each element is neither infinite nor NaN."""
    return np.isfinite(x.astype(_wide(x.dtype) or x.dtype))


def real(x: AnyArray) -> AnyArray:
    """The real part of each element; a real array is returned as it is."""
    return x.real.copy() if kind(x) == "complex" else x


def imag(x: AnyArray) -> AnyArray:
    """The imaginary part of each element; zeros for a real array."""
    return x.imag.copy() if kind(x) == "complex" else np.zeros(x.shape).astype(x.dtype)


def widened(x: AnyArray) -> AnyArray:
    """The values in a type that NumPy compares natively: a wider type for narrow element types."""
    wide = _wide(x.dtype)
    return x if wide is None else x.astype(wide)


def total_order_key(x: AnyArray) -> AnyArray:
    """Signed integers that are ordered as the floats are in total order: -NaN < -inf < -0 < +0 < inf <
    NaN.
    """
    if x.dtype.name.endswith(("fnu", "fnuz")) or x.dtype.name[:7] in ("float4_", "float6_"):
        x = x.astype(np.float32)  # its sign is not the highest bit of the byte, or its NaN has no sign
    bits = np.ascontiguousarray(x).reshape(-1).view(f"i{x.dtype.itemsize}").reshape(x.shape)
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
