"""Elementwise functions with approximate results, for floats and complex numbers.

For infinities and NaN the complex functions follow XLA:CPU, where NumPy differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from axla.hlo.complex import divide, joined
from axla.hlo.family import ARITHMETIC, FLOAT, INEXACT, binary, transcendental
from axla.hlo.numeric import AnyArray, ArrayFunction, by_kind, rounded


def _poisoned(x: AnyArray, result: AnyArray) -> AnyArray:
    """`result` with both parts NaN wherever a part of `x` is NaN."""
    return np.where(np.isnan(x.real) | np.isnan(x.imag), np.asarray(complex(np.nan, np.nan), x.dtype), result)


# Roots


def _complex_sqrt(x: AnyArray) -> AnyArray:
    return _poisoned(x, np.sqrt(x))


def _reciprocal_sqrt(x: AnyArray) -> AnyArray:
    return np.ones((), x.dtype) / np.sqrt(x)


def _complex_rsqrt(x: AnyArray) -> AnyArray:
    """1 / sqrt(x); zero if a part of x is infinite, even if the other part is NaN."""
    far = np.isinf(x.real) | np.isinf(x.imag)
    zeros = joined(np.zeros_like(x.real), np.copysign(np.zeros_like(x.imag), -x.imag))
    return np.where(far, zeros, _reciprocal_sqrt(x))


def _complex_cbrt(x: AnyArray) -> AnyArray:
    """The cube root whose angle is a third of that of x; for a zero x, zero with the imaginary part of x."""
    size, angle = np.cbrt(np.abs(x)), np.angle(x) / 3
    zero = size == 0
    return joined(np.where(zero, 0, size * np.cos(angle)), np.where(zero, x.imag, size * np.sin(angle)))


Sqrt = transcendental(
    "sqrt", by_kind(complex=_complex_sqrt, other=np.sqrt), "The square root; -0 for -0, NaN for x < 0."
)
Rsqrt = transcendental(
    "rsqrt",
    by_kind(complex=_complex_rsqrt, other=_reciprocal_sqrt),
    "1 / sqrt(x); infinity with the sign of x for zeros, NaN for x < 0.",
)
Cbrt = transcendental(
    "cbrt",
    by_kind(complex=_complex_cbrt, other=np.cbrt),
    "The cube root, also of negative numbers; for a complex x, the root whose angle is a third of that of x.",
)

# Exponentials and logarithms


def _complex_exp(x: AnyArray) -> AnyArray:
    """exp(x); NaN if the real part is -inf and the imaginary part is not finite, where NumPy returns 0."""
    lost = np.isneginf(x.real) & ~np.isfinite(x.imag)
    return np.where(lost, np.asarray(complex(np.nan, np.nan), x.dtype), np.exp(x))


def _complex_expm1(x: AnyArray) -> AnyArray:
    """exp(x) - 1; for a real x, the imaginary part is 0 even if the real part overflows."""
    result: AnyArray = np.expm1(x)
    return joined(result.real, np.where(x.imag == 0, x.imag, result.imag))


def _complex_log(x: AnyArray) -> AnyArray:
    return _poisoned(x, np.log(x))


def _complex_log1p(x: AnyArray) -> AnyArray:
    """log(1 + x). For small x the real part is computed from the parts of x in extended precision, since 1 +
    x rounds to 1.
    """
    with np.errstate(all="ignore"):
        far = np.log1p(x)
        re, im = x.real.astype(np.longdouble), x.imag.astype(np.longdouble)
        near = (np.log1p(re * (2 + re) + im * im) / 2).astype(x.real.dtype)
    small = np.maximum(np.abs(x.real), np.abs(x.imag)) < 0.5
    return _poisoned(x, joined(np.where(small, near, far.real), far.imag))


def _logistic(x: AnyArray) -> AnyArray:
    one = np.ones((), x.dtype)
    return one / (one + np.exp(-x))


def _complex_logistic(x: AnyArray) -> AnyArray:
    one = np.ones((), x.dtype)
    return divide(one, one + _complex_exp(-x))


Exponential = transcendental("exponential", by_kind(complex=_complex_exp, other=np.exp), "e to the power x.")
ExponentialMinusOne = transcendental(
    "exponential-minus-one",
    by_kind(complex=_complex_expm1, other=np.expm1),
    "e^x - 1, accurate near 0, where e^x would round to 1.",
)
Log = transcendental(
    "log", by_kind(complex=_complex_log, other=np.log), "The natural logarithm; -inf for 0, NaN for x < 0."
)
LogPlusOne = transcendental(
    "log-plus-one",
    by_kind(complex=_complex_log1p, other=np.log1p),
    "log(1 + x), accurate near 0, where 1 + x would round to 1; -inf for x = -1.",
)
Logistic = transcendental(
    "logistic", by_kind(complex=_complex_logistic, other=_logistic), "1 / (1 + e^-x), from 0 to 1."
)

# Trigonometry


def _beside_cut(function: Callable[[AnyArray], AnyArray], part: str) -> ArrayFunction:
    """A version of `function` that treats -0 as +0 in one part of a complex x: `part` is "real" or "imag". On
    the branch cut, where this part is 0, it returns the value of the side where the part is positive.
    """

    def evaluate(x: AnyArray) -> AnyArray:
        x = np.array(x)
        setattr(x, part, getattr(x, part) + 0)  # -0 + 0 is 0
        return function(x)

    return by_kind(complex=evaluate, other=function)


Tanh = transcendental("tanh", rounded(np.tanh), "The hyperbolic tangent, from -1 to 1.")
Sine = transcendental("sine", rounded(np.sin), "sin(x), x in radians of any magnitude.")
Cosine = transcendental("cosine", rounded(np.cos), "cos(x), x in radians of any magnitude.")
Tan = transcendental("tan", rounded(np.tan), "tan(x), x in radians of any magnitude.")
Acos = transcendental(
    "acos", _beside_cut(np.arccos, "imag"), "The inverse cosine, from 0 to pi; NaN for real |x| > 1."
)
Acosh = transcendental(
    "acosh", _beside_cut(np.arccosh, "imag"), "The inverse hyperbolic cosine; NaN for real x < 1."
)
Asin = transcendental(
    "asin", _beside_cut(np.arcsin, "imag"), "The inverse sine, from -pi/2 to pi/2; NaN for real |x| > 1."
)
Asinh = transcendental("asinh", _beside_cut(np.arcsinh, "real"), "The inverse hyperbolic sine.")
Atanh = transcendental(
    "atanh", rounded(np.arctanh), "The inverse hyperbolic tangent; infinite at -1 and 1, NaN if real |x| > 1."
)
Sinh = transcendental("sinh", rounded(np.sinh), "The hyperbolic sine.")
Cosh = transcendental("cosh", rounded(np.cosh), "The hyperbolic cosine.")


def _square(x: AnyArray) -> AnyArray:
    """The square of x by fused multiply-add, as in XLA: if both squares in the real part overflow, it is
    -inf, not NaN.
    """
    a, b = x.real, x.imag
    lost = np.isinf(b * b) & np.isfinite(a)
    return joined(np.where(lost, -a.dtype.type(np.inf), a * a - b * b), a * b + a * b)


def _complex_atan2(y: AnyArray, x: AnyArray) -> AnyArray:
    """-i log((x + iy) / sqrt(x^2 + y^2)); NaN if a part of the logarithm is infinite."""
    total = _square(x) + _square(y)
    root = _complex_sqrt(joined(np.where(np.isinf(total.imag), 0, total.real), total.imag))
    found = _complex_log(divide(joined(x.real - y.imag, x.imag + y.real), root))
    return joined(found.imag + found.real * 0, found.imag * 0 - found.real)


def _atan2(y: AnyArray, x: AnyArray) -> AnyArray:
    """atan2 computed in f64: the single-precision function of some C libraries is not correctly rounded."""
    return np.arctan2(y.astype("f8"), x.astype("f8")).astype(y.dtype)


Atan2 = binary(
    "atan2",
    by_kind(complex=_complex_atan2, other=_atan2),
    INEXACT,
    "The angle of the point (x, y) = (rhs, lhs), from -pi to pi.",
    expensive=True,
    transcendental=True,
)

# The error function

_ERF = np.frompyfunc(math.erf, 1, 1)


def _erf(x: AnyArray) -> AnyArray:
    return np.asarray(_ERF(x.astype(np.float64)), np.float64).astype(x.dtype)


Erf = transcendental(
    "erf",
    rounded(_erf),
    "The error function, 2/sqrt(pi) times the integral of e^-t^2 from 0 to x.",
    accepts=FLOAT,
)

# Powers


def _power_signed(x: AnyArray, y: AnyArray) -> AnyArray:
    """x^y for signed integers, wrapped. For a negative exponent the power is 0, except for the bases 1 and
    -1.

    As on XLA:CPU, only the low six bits of the exponent count: for higher powers, all other bases overflow
    anyway.
    """
    exponent = (y & y.dtype.type(63)).astype(np.uint8)
    base, result = x, np.ones(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    for bit in range(6):
        result = np.where((exponent >> bit) & 1, result * base, result).astype(x.dtype)
        base = base * base
    odd = np.where(y & 1, x, np.ones((), x.dtype))
    return np.where(y < 0, np.where(x == 1, 1, np.where(x == -1, odd, 0)), result).astype(x.dtype)


def _power_unsigned(x: AnyArray, y: AnyArray) -> AnyArray:
    """x^y for unsigned integers, computed on signed integers with the same bits, as on XLA:CPU."""
    signed = x.dtype.str.replace("u", "i")
    return _power_signed(x.view(signed), y.view(signed)).view(x.dtype)


def _complex_power(x: AnyArray, y: AnyArray) -> AnyArray:
    """x^y = |x|^c e^(-d arg x) (cos q + i sin q), where y = c + id and q = c arg x + d log |x|."""
    size, angle, c, d = np.abs(x), np.angle(x), y.real, y.imag
    scale = np.power(size, c) * np.exp(-d * angle)
    wide = np.float64 if x.dtype == np.complex64 else np.longdouble  # the sum is rounded once, as in XLA
    turn = (c.astype(wide) * angle + (d * np.log(size)).astype(wide)).astype(c.dtype)
    result = joined(np.asarray(scale * np.cos(turn)), np.asarray(scale * np.sin(turn)))
    one = np.ones((), x.dtype)
    far = (x.real == np.inf) & (x.imag == 0) & ~np.isnan(c)
    on_axis = (d == 0) & (((x == 0) & (c > 0)) | far)
    result = np.where(on_axis, joined(np.asarray(np.power(size, c)), np.zeros_like(d)), result)
    return np.where((y == 0) | (x == 1), one, result)


Power = binary(
    "power",
    by_kind(signed=_power_signed, unsigned=_power_unsigned, complex=_complex_power, other=np.power),
    ARITHMETIC,
    "x to the power y; 1 for y = 0; NaN for x < 0 if y is not whole. Integers wrap; for y < 0 the result is "
    "0, except for x = 1 and -1.",
    expensive=True,
    transcendental=True,
)
