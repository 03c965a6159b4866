"""Complex functions where XLA:CPU and NumPy differ on infinities and NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # numpy.ndarray, whose stubs have no real and imag for an unknown element type


def joined(real: Array, imag: Array) -> Array:
    """real + i imag, without arithmetic that would make NaN of infinities."""
    dims = np.broadcast_shapes(real.shape, imag.shape)
    result: Array = np.empty(dims, np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imag
    return result


def divide(x: Array, y: Array) -> Array:
    """As annex G of C11: infinities and zeros give infinities and zeros rather than NaN."""
    a, b, c, d = x.real, x.imag, y.real, y.imag
    quotient: Array = np.asarray(np.divide(x, y))
    # Of a division by zero NumPy does not look at the zero's sign.
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


def _directions(a: Array, b: Array) -> tuple[Array, Array]:
    """1 for an infinity, 0 for what is finite, with the signs kept."""
    return np.copysign(np.isinf(a).astype(a.dtype), a), np.copysign(np.isinf(b).astype(b.dtype), b)


def _poisoned(x: Array, result: Array) -> Array:
    """A NaN in either part makes both parts NaN."""
    return np.where(np.isnan(x.real) | np.isnan(x.imag), np.asarray(complex(np.nan, np.nan), x.dtype), result)


def log(x: Array) -> Array:
    return _poisoned(x, np.log(x))


def log1p(x: Array) -> Array:
    """Near 0 the modulus of 1 + x is 1 to the last bit: what is beside the 1 is taken by itself."""
    with np.errstate(all="ignore"):
        far = np.log1p(x)
        re, im = x.real.astype(np.longdouble), x.imag.astype(np.longdouble)
        near = (np.log1p(re * (2 + re) + im * im) / 2).astype(x.real.dtype)
    small = np.maximum(np.abs(x.real), np.abs(x.imag)) < 0.5
    return _poisoned(x, joined(np.where(small, near, far.real), far.imag))


def sqrt(x: Array) -> Array:
    return _poisoned(x, np.sqrt(x))


def reciprocal_sqrt(x: Array) -> Array:
    """1 / sqrt(x); zeros for infinities, even beside NaN."""
    far = np.isinf(x.real) | np.isinf(x.imag)
    zeros = joined(np.zeros_like(x.real), np.copysign(np.zeros_like(x.imag), -x.imag))
    return np.where(far, zeros, np.ones((), x.dtype) / np.sqrt(x))


def exp(x: Array) -> Array:
    """NaN where the angle is not finite, whatever the size."""
    lost = np.isneginf(x.real) & ~np.isfinite(x.imag)
    return np.where(lost, np.asarray(complex(np.nan, np.nan), x.dtype), np.exp(x))


def expm1(x: Array) -> Array:
    """The imaginary part of a real number stays 0 where the real part overflows."""
    result: Array = np.expm1(x)
    return joined(result.real, np.where(x.imag == 0, x.imag, result.imag))


def sign(x: Array) -> Array:
    """x / |x|, part by part; x itself where it is 0."""
    size = np.abs(x)
    safe = np.where(size == 0, size.dtype.type(1), size)
    return np.where(size == 0, x, joined(x.real / safe, x.imag / safe))


def power(x: Array, y: Array) -> Array:
    """|x|^c e^(-d arg x) (cos q + i sin q), q = c arg x + d log |x|, for y = c + id."""
    size, angle, c, d = np.abs(x), np.angle(x), y.real, y.imag
    scale = np.power(size, c) * np.exp(-d * angle)
    wide = np.float64 if x.dtype == np.complex64 else np.longdouble  # one rounding, as in XLA
    turn = (c.astype(wide) * angle + (d * np.log(size)).astype(wide)).astype(c.dtype)
    result = joined(np.asarray(scale * np.cos(turn)), np.asarray(scale * np.sin(turn)))
    one = np.ones((), x.dtype)
    far = (x.real == np.inf) & (x.imag == 0) & ~np.isnan(c)
    on_axis = (d == 0) & (((x == 0) & (c > 0)) | far)
    result = np.where(on_axis, joined(np.asarray(np.power(size, c)), np.zeros_like(d)), result)
    return np.where((y == 0) | (x == 1), one, result)


def _square(x: Array) -> Array:
    """Fused, as in XLA: where both squares overflow the real part is -inf, not NaN."""
    a, b = x.real, x.imag
    lost = np.isinf(b * b) & np.isfinite(a)
    return joined(np.where(lost, -a.dtype.type(np.inf), a * a - b * b), a * b + a * b)


def arctan2(y: Array, x: Array) -> Array:
    """-i log((x + iy) / sqrt(x^2 + y^2)); an infinite logarithm has no angle."""
    total = _square(x) + _square(y)
    root = sqrt(joined(np.where(np.isinf(total.imag), 0, total.real), total.imag))
    found = log(divide(joined(x.real - y.imag, x.imag + y.real), root))
    return joined(found.imag + found.real * 0, found.imag * 0 - found.real)


def cbrt(x: Array) -> Array:
    """The root whose angle is a third; zeros keep the sign of their imaginary part."""
    size, angle = np.cbrt(np.abs(x)), np.angle(x) / 3
    zero = size == 0
    return joined(np.where(zero, 0, size * np.cos(angle)), np.where(zero, x.imag, size * np.sin(angle)))


def logistic(x: Array) -> Array:
    one = np.ones((), x.dtype)
    return divide(one, one + exp(-x))
