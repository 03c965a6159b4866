"""Bit operations on integer arrays with HLO's semantics: shift amounts may be larger than the width, and
types may be narrower than a byte.
"""

from __future__ import annotations

import numpy as np

from axla.core.dtypes import from_numpy


def width(x: np.ndarray) -> int:
    """The number of bits of an element type: 4 for s4, although NumPy stores such an element in a byte."""
    return from_numpy(x.dtype).bits


def unsigned(x: np.ndarray) -> np.ndarray:
    """Returns the bits of the elements as unsigned integers of at least 8 bits, zero-extended."""
    if x.dtype in _SIGNED:
        return x
    if width(x) < 8:
        return x.astype(np.int8).view(np.uint8) & np.uint8((1 << width(x)) - 1)
    return x.view(_UNSIGNED[x.dtype]) if x.dtype.kind == "i" else x


_UNSIGNED = {np.dtype(f"i{n}"): np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
_SIGNED = {u: i for i, u in _UNSIGNED.items()}


def signed(x: np.ndarray) -> np.ndarray:
    """Returns the bits of the elements as signed integers of at least 8 bits, sign-extended."""
    if width(x) < 8:
        top = 1 << (width(x) - 1)
        return (
            ((unsigned(x).astype(np.int8) ^ np.int8(top)) - np.int8(top)).astype(np.int8) if top < 128 else x
        )
    return x.view(_SIGNED[x.dtype]) if x.dtype.kind == "u" else x


def as_type(bits: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Converts the result of `unsigned` or `signed` back to `dtype`; bits above the width of `dtype` are
    dropped.
    """
    if bits.dtype == dtype:
        return bits
    if from_numpy(dtype).bits < 8:
        return bits.view(np.int8).astype(dtype)
    return bits.view(dtype)


def shift_left(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`x << y`; 0 where y, as an unsigned number, is at least the width."""
    # NumPy returns 0 where the amount is at least the width of the array's type. A type of less than 8 bits
    # is stored in a byte; `as_type` drops the bits above its width.
    amount = unsigned(y)
    result = np.left_shift(unsigned(x), amount)
    return as_type(np.asarray(result), x.dtype)


def shift_right_logical(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`x >> y`, filled with zeros from the left; 0 where y, as an unsigned number, is at least the width."""
    return as_type(np.asarray(np.right_shift(unsigned(x), unsigned(y))), x.dtype)


def shift_right_arithmetic(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`x >> y`, filled with copies of the highest bit from the left, also for unsigned types."""
    value = signed(x)
    amount = np.minimum(unsigned(y), unsigned(y).dtype.type(8 * value.itemsize - 1)).astype(value.dtype)
    return as_type(np.asarray(np.right_shift(value, amount)), x.dtype)


def population_count(x: np.ndarray) -> np.ndarray:
    """The number of one bits of each element."""
    # Signed elements of less than 8 bits are sign-extended to a byte first, and the bits of the byte are
    # counted, as XLA:CPU does.
    small = width(x) < 8 and from_numpy(x.dtype).is_signed
    return np.bitwise_count(signed(x).view(np.uint8) if small else unsigned(x)).astype(x.dtype)


def count_leading_zeros(x: np.ndarray) -> np.ndarray:
    """The number of zero bits above the highest one bit of each element; for 0, the width."""
    smeared = unsigned(x)
    step = 1
    while step < width(x):
        smeared = smeared | (smeared >> smeared.dtype.type(step))
        step *= 2
    return (width(x) - np.bitwise_count(smeared).astype(np.int64)).astype(x.dtype)


def multiply_high(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The upper half of the product, which has twice the width of the operands. Computed with Python
    integers, which is exact for every width, but slow.
    """
    bits = width(x)
    product = x.astype(object) * y.astype(object)
    wrapped = np.asarray((product >> bits) & ((1 << bits) - 1), object)
    if from_numpy(x.dtype).is_signed:
        wrapped = np.asarray(wrapped - ((wrapped >> (bits - 1)) << bits), object)
        return wrapped.astype(np.int64).astype(x.dtype)
    return wrapped.astype(np.uint64).astype(x.dtype)
