"""The functions tanh, sinh, cosh and their inverses; also sin, cos and tan of complex numbers, which need
trigonometric and hyperbolic functions.
"""

from __future__ import annotations

from axla.codegen.arithmetic import Reg
from axla.codegen.math.complex import INFINITY
from axla.codegen.math.exponential import exp, expm1, half_exp
from axla.codegen.math.logarithm import log1p
from axla.codegen.math.rational import odd_rational
from axla.codegen.math.tables import Pair, on_complex, on_floats
from axla.codegen.math.trigonometry import sincos, tan

LN2 = 0.6931471805599453

# tanh(x) = x P(x**2) / Q(x**2) up to 8, where it is 1 - 1.7 ulp.
_P = (2.9769613e-08, 4.279538e-05, 0.0069810287, 0.26278502, 1.9545904)
_Q = (1.665805e-06, 0.0006667707, 0.051140837, 0.91431504, 1.9545904)


@on_floats("tanh")
def tanh(x: Reg) -> Reg:
    """The hyperbolic tangent: an odd rational approximation for f32, `expm1` for f64."""
    if x.element == "float":
        return odd_rational(x, _P, _Q, 8.0)
    # expm1(2 |x|) / (expm1(2 |x|) + 2); from 20 on it is 1.
    m = x.m
    e = expm1(m.least(m.abs(x), 20.0) * 2.0)
    return m.copysign(e / (e + 2.0), x)


@on_floats("sinh")
def sinh(x: Reg) -> Reg:
    """The hyperbolic sine: with `expm1` near 0, else from half of exp(|x|)."""
    m = x.m
    size = m.abs(x)
    e = expm1(m.least(size, 1.0))
    near = (e + e / (e + 1.0)) * 0.5
    half = half_exp(size)
    return m.copysign(m.select(size < 1.0, near, half - 0.25 / half), x)


@on_floats("cosh")
def cosh(x: Reg) -> Reg:
    """The hyperbolic cosine, from half of exp(|x|)."""
    half = half_exp(x.m.abs(x))
    return half + 0.25 / half


def _log1p_far(x: Reg, near: Reg) -> Reg:
    """Computes log1p(near) or, for large x, log(2 x): there the square of x is not needed, and might
    overflow.
    """
    m = x.m
    far = x > 2.0**28
    return log1p(m.select(far, x - 1.0, near)) + m.select(far, m.number(x, LN2), 0.0)


@on_floats("asinh")
def asinh(x: Reg) -> Reg:
    """The inverse hyperbolic sine, by `log1p`."""
    m = x.m
    size = m.abs(x)
    square = size * size
    return m.copysign(_log1p_far(size, size + square / (m.sqrt(square + 1.0) + 1.0)), x)


@on_floats("acosh")
def acosh(x: Reg) -> Reg:
    """The inverse hyperbolic cosine; NaN below 1."""
    m = x.m
    t = x - 1.0
    result = _log1p_far(x, t + m.sqrt(t * (t + 2.0)))
    return m.select(x < 1.0, float("nan"), result)


@on_floats("atanh")
def atanh(x: Reg) -> Reg:
    """The inverse hyperbolic tangent, by `log1p`."""
    m = x.m
    size = m.abs(x)
    return m.copysign(log1p((size + size) / (1.0 - size)) * 0.5, x)


@on_complex("sine")
def complex_sin(re: Reg, im: Reg) -> Pair:
    """Computes sin(re) cosh(im) + i cos(re) sinh(im), with exact zeros on the axes."""
    m = re.m
    s, c = sincos(re)
    b = c * sinh(im)
    a = s * cosh(im)
    # On the axes, the product of an infinite factor and an exact zero would be NaN.
    return m.select(re.eq(0.0), re, a), m.select(im.eq(0.0), c * im, b)


@on_complex("cosine")
def complex_cos(re: Reg, im: Reg) -> Pair:
    """Computes cos(re) cosh(im) - i sin(re) sinh(im), with the signs of zeros on the axes."""
    m = re.m
    s, c = sincos(re)
    a = c * cosh(im)
    b = -s * sinh(im)
    # On the axes the imaginary part is a zero with a sign: its product with an infinite factor would be NaN.
    return a, m.select(re.eq(0.0), -s * m.copysign(1.0, im), m.select(im.eq(0.0), -s * im, b))


@on_complex("sinh")
def complex_sinh(re: Reg, im: Reg) -> Pair:
    """Computes sinh z = -i sin(i z)."""
    a, b = complex_sin(-im, re)
    return b, -a


@on_complex("cosh")
def complex_cosh(re: Reg, im: Reg) -> Pair:
    """Computes cosh z = cos(i z)."""
    return complex_cos(-im, re)


@on_complex("tanh")
def complex_tanh(re: Reg, im: Reg) -> Pair:
    """Computes (s sqrt(1 + s**2) (1 + t**2) + i t) / (1 + (1 + t**2) s**2) with t = tan y and s = sinh x, for
    z = x + i y (Kahan).
    """
    m = re.m
    size = m.abs(re)
    limit = 15.0 if re.element == "float" else 25.0
    t = tan(im)
    s = sinh(m.most(m.least(re, limit), -limit))
    beta = m.fma(t, t, 1.0)
    scale = m.fma(beta, s * s, 1.0)
    a = beta * m.sqrt(m.fma(s, s, 1.0)) * s / scale
    b = t / scale
    # At poles of the tangent beta is huge: the limits of the two parts are coth x and 0. For large |x| they
    # are 1 and 4 sin y cos y exp(-2 |x|).
    sine, cosine = sincos(im)
    decay = exp(-size)
    far = size > limit
    tail = sine * cosine * 4.0 * decay * decay
    tail = m.select(m.abs(im) < INFINITY, tail, m.select(size.eq(INFINITY), 0.0, tail))
    known = (m.abs(im) < INFINITY) | size.eq(INFINITY)
    a = m.select(far & known, m.copysign(1.0, re), a)
    b = m.select(far, tail, b)
    return a, m.select(im.eq(0.0), im, b)


@on_complex("tan")
def complex_tan(re: Reg, im: Reg) -> Pair:
    """Computes tan z = -i tanh(i z)."""
    a, b = complex_tanh(-im, re)
    return b, -a
