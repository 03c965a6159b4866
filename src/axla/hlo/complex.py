"""Functions of complex arrays where NumPy differs from XLA:CPU for infinities and NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

AnyArray = Any  # numpy.ndarray, whose stubs have no real and imag for an unknown element type


def joined(real: AnyArray, imag: AnyArray) -> AnyArray:
    """The complex numbers real + i imag, put together without arithmetic, which would turn infinities into
    NaN.
    """
    dims = np.broadcast_shapes(real.shape, imag.shape)
    result: AnyArray = np.empty(dims, np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imag
    return result


def multiply(x: AnyArray, y: AnyArray) -> AnyArray:
    """The product, with each of the four products of parts rounded. NumPy's own result depends on the
    machine's vector instructions.
    """
    a, b, c, d = x.real, x.imag, y.real, y.imag
    return joined(a * c - b * d, a * d + b * c)


def divide(x: AnyArray, y: AnyArray) -> AnyArray:
    """The quotient as in annex G of C11: operands with infinities or zeros give infinities or zeros where
    NumPy gives NaN.
    """
    a, b, c, d = x.real, x.imag, y.real, y.imag
    # NumPy takes the reciprocal of the divisor, which overflows for denormals.
    power = np.where(np.maximum(np.abs(c), np.abs(d)) < np.finfo(c.dtype).tiny, 64, 0)
    quotient: AnyArray = np.asarray(np.divide(x, joined(np.ldexp(c, power), np.ldexp(d, power))))
    quotient = joined(np.ldexp(quotient.real, power), np.ldexp(quotient.imag, power))
    # NumPy ignores the sign of a zero divisor, so that its quotient is replaced there too.
    lost = (np.isnan(quotient.real) & np.isnan(quotient.imag)) | (y == 0)
    if not lost.any():
        return quotient
    zero = lost & (c == 0) & (d == 0) & ~(np.isnan(a) & np.isnan(b))
    infinite = lost & ~zero & (np.isinf(a) | np.isinf(b)) & np.isfinite(c) & np.isfinite(d)
    vanishing = lost & ~zero & (np.isinf(c) | np.isinf(d)) & np.isfinite(a) & np.isfinite(b)
    inf = a.dtype.type(np.inf)
    real, imag = quotient.real, quotient.imag
    real = np.where(zero, np.copysign(inf, c) * a, real)
    imag = np.where(zero, np.copysign(inf, c) * b, imag)
    u, v = _directions(a, b)
    real = np.where(infinite, inf * (u * c + v * d), real)
    imag = np.where(infinite, inf * (v * c - u * d), imag)
    u, v = _directions(c, d)
    real = np.where(vanishing, 0 * (a * u + b * v), real)
    imag = np.where(vanishing, 0 * (b * u - a * v), imag)
    return joined(real.astype(a.dtype), imag.astype(a.dtype))


def _directions(a: AnyArray, b: AnyArray) -> tuple[AnyArray, AnyArray]:
    """For complex numbers a + ib, the two arrays of parts with each infinite part replaced by 1 and each
    finite one by 0, signs kept.
    """
    return np.copysign(np.isinf(a).astype(a.dtype), a), np.copysign(np.isinf(b).astype(b.dtype), b)


def sign(x: AnyArray) -> AnyArray:
    """x / |x|, where each part is divided by the real |x|; x itself where it is 0."""
    size = np.abs(x)
    safe = np.where(size == 0, size.dtype.type(1), size)
    return np.where(size == 0, x, joined(x.real / safe, x.imag / safe))
