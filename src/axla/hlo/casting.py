"""Conversions of NumPy arrays between element types with HLO's semantics: conversion of values, bitcasts, and
rounding to reduced precision.
"""

from __future__ import annotations

import numpy as np

from axla.core.dtypes import DType, from_numpy
from axla.core.errors import UnsupportedError
from axla.core.shape import Shape
from axla.hlo.numeric import widened


def convert(x: np.ndarray, to: DType) -> np.ndarray:
    """Converts the values to the type `to`. Float to integer truncates and saturates (NaN becomes 0), integer
    to integer wraps, and conversion to pred tests for `!= 0`.
    """
    of = from_numpy(x.dtype)
    if of is to:
        return x
    if to.is_pred:
        return np.asarray(widened(x) != 0)
    if of.is_float and to.is_integer:
        return saturate(x, to)
    if of.bits < 8 and of.is_integer or of.bits <= 8 and of.is_float:
        x = widened(x)  # exact, and needed: ml_dtypes cannot convert between all pairs of its types
    if to.is_float and to.bits == 16 and of.is_integer and to.numpy == np.float16:
        x = x.astype(np.float64)  # otherwise NumPy rounds twice: to f32, then to f16
    if to.is_complex and of.is_float:
        x = x.astype(to.real.numpy)
    return x.astype(to.numpy)


def keeps_values(of: DType, to: DType) -> bool:
    """Whether `to` can represent every value of `of`."""
    if of is to or of.is_pred:
        return True
    if to.is_pred or (of.is_inexact and to.is_integer) or (of.is_complex and not to.is_complex):
        return False
    if of.is_integer:
        digits = of.bits - of.is_signed
        if to.is_integer:
            return digits <= to.bits - to.is_signed and (to.is_signed or not of.is_signed)
        return digits <= to.real.finfo.nmant + 1
    small, large = of.real.finfo, to.real.finfo
    return small.nmant <= large.nmant and small.maxexp <= large.maxexp and small.minexp >= large.minexp


def saturate(x: np.ndarray, to: DType) -> np.ndarray:
    """Converts floats to integers of type `to`: rounds towards zero; values out of range become the nearest
    integer in range, and NaN becomes 0.
    """
    values = np.trunc(x.astype(np.float64))
    low, high = (-(1 << (to.bits - 1)), 1 << (to.bits - 1)) if to.is_signed else (0, 1 << to.bits)
    inside = (values >= low) & (values < float(high))
    wide = np.int64 if to.is_signed else np.uint64
    result = np.where(inside, values, 0).astype(wide)
    result = np.where(values >= float(high), wide(high - 1), np.where(values < low, wide(low), result))
    return result.astype(to.numpy)


def to_bits(x: np.ndarray) -> np.ndarray:
    """The bits of each element along a new last dimension, lowest bit first: shape (*x.shape, number of
    bits).
    """
    of = from_numpy(x.dtype)
    raw = np.ascontiguousarray(x).reshape(*x.shape, 1).view(np.uint8)
    return np.unpackbits(raw, axis=-1, bitorder="little")[..., : of.bits]


def from_bits(bits: np.ndarray, to: DType) -> np.ndarray:
    """The inverse of `to_bits`: elements of type `to` from bits along the last dimension. Missing high bits
    are sign bits if `to` is signed, else 0.
    """
    missing = to.itemsize * 8 - bits.shape[-1]
    if missing:
        # NumPy types of less than 8 bits store a signed number sign-extended, so that equal values have equal
        # bytes.
        top = bits[..., -1:] if to.is_signed else np.zeros_like(bits[..., -1:])
        bits = np.concatenate([bits, np.repeat(top, missing, -1)], -1)
    raw = np.packbits(bits, axis=-1, bitorder="little")
    return np.ascontiguousarray(raw).view(to.numpy).reshape(raw.shape[:-1])


def bitcast(x: np.ndarray, to: DType) -> np.ndarray:
    """Reads the bits of the elements as elements of type `to`. If the widths differ, an element of the wider
    type corresponds to several of the narrower type along the last dimension, lowest bits first.
    """
    of = from_numpy(x.dtype)
    if of.bits == to.bits and of.itemsize == to.itemsize and of.bits >= 8:
        return np.ascontiguousarray(x).view(to.numpy).reshape(x.shape)
    if of.bits >= 8 and to.bits >= 8:
        raw = np.ascontiguousarray(x).reshape(-1).view(to.numpy)
        return raw.reshape([*x.shape, of.bits // to.bits] if of.bits > to.bits else x.shape[:-1])
    bits = to_bits(x)
    if of.bits > to.bits:
        bits = bits.reshape(*x.shape, of.bits // to.bits, to.bits)
    elif of.bits < to.bits:
        bits = bits.reshape(*x.shape[:-1], to.bits)
    return from_bits(bits, to)


def reinterpret(x: np.ndarray, shape: Shape) -> np.ndarray:
    """Reads the bits of `x`, in row-major order, as the elements of an array of `shape`, in row-major
    order.
    """
    if from_numpy(x.dtype) is shape.dtype:
        return np.ascontiguousarray(x).reshape(shape.dims)
    if shape.dtype.bits == 8 * shape.dtype.itemsize and from_numpy(x.dtype).bits == 8 * x.dtype.itemsize:
        return np.ascontiguousarray(x).reshape(-1).view(np.uint8).view(shape.dtype.numpy).reshape(shape.dims)
    return from_bits(to_bits(x).reshape(-1, shape.dtype.bits), shape.dtype).reshape(shape.dims)


def reduce_precision(x: np.ndarray, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """Rounds to floats with the given numbers of bits, ties to even. Overflow becomes infinity, underflow a
    zero of the same sign; NaN stays NaN. The result has the type of `x`.
    """
    dtype = from_numpy(x.dtype)
    if not dtype.has_zero or dtype.bits < 8:  # the type has no zero for underflow, or too few bits
        return convert(reduce_precision(x.astype(np.float32), exponent_bits, mantissa_bits), dtype)
    finfo = dtype.finfo
    mantissa, exponent = finfo.nmant, finfo.nexp
    kind = np.dtype(f"u{x.dtype.itemsize}")
    bits = np.ascontiguousarray(x).reshape(-1).view(kind).reshape(x.shape)
    sign = bits & kind.type(1 << (mantissa + exponent))
    exponent_mask = kind.type(((1 << exponent) - 1) << mantissa)
    result = bits
    if mantissa_bits < mantissa:
        cut = mantissa - mantissa_bits
        last = (bits >> kind.type(cut)) & kind.type(1)
        half = kind.type((1 << (cut - 1)) - 1)
        everything = (1 << (8 * kind.itemsize)) - 1
        result = (bits + half + last) & kind.type(everything ^ ((1 << cut) - 1))
    if exponent_bits < exponent:
        bias, reach = (1 << (exponent - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        found = (result & exponent_mask) >> kind.type(mantissa)
        result = np.where(
            found > bias + reach, sign | exponent_mask, np.where(found <= bias - reach, sign, result)
        )
    nan = np.isnan(widened(x))
    result = np.where(nan, bits if mantissa_bits > 0 else sign | exponent_mask, result).astype(kind)
    return result.view(x.dtype).reshape(x.shape)


def stochastic_convert(x: np.ndarray, random: np.ndarray, to: DType) -> np.ndarray:
    """Converts floats to integers of type `to`. A number is rounded away from zero if its fraction, times
    2**(bits of x), is larger than the unsigned `random` bits, else towards zero. UnsupportedError if `to` is
    not an integer type.
    """
    if not to.is_integer:
        raise UnsupportedError(f"stochastic-convert to {to} is not implemented; integer types are")
    values = x.astype(np.float64)
    size = np.abs(values)
    whole = np.trunc(size)
    threshold = (size - whole) * 2.0 ** (8 * x.dtype.itemsize)
    up = random.astype(np.float64) < np.trunc(threshold)
    return saturate(np.copysign(np.where(np.isfinite(size) & up, whole + 1, size), values), to)
