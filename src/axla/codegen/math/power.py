"""Powers x ** y of floats and of complex numbers."""

from __future__ import annotations

from axla.codegen.arithmetic import FRACTION, Reg
from axla.codegen.math import power_lookup
from axla.codegen.math.complex import INFINITY, absolute
from axla.codegen.math.exponent import split_exponent
from axla.codegen.math.exponential import exp
from axla.codegen.math.inverse_trigonometry import atan2
from axla.codegen.math.logarithm import log
from axla.codegen.math.tables import Pair, on_complex, on_floats
from axla.codegen.math.trigonometry import sincos

# Polynomials for f32 results: log2((1 + s) / (1 - s)) / s, in s**2; and 2**r for |r| <= 1/2.
_LOG2 = (
    0.2511496650024523, 0.2606557576171814, 0.32064469482659624, 0.41219793471708455, 0.5770780207171621,
    0.961796693914985, 2.885390081777931,
)  # fmt: skip
_EXP2 = (
    1.5316719106164942e-05, 0.00015469997220461654, 0.0013333421548903988, 0.00961802477261339,
    0.05550410977442752,
    0.24022651219832983, 0.693147180534621, 0.9999999999588977,
)  # fmt: skip
# Coefficients of (2 atanh(s) - 2 s - 2/3 s**3) / s**5 as a polynomial in s**2.
_TAIL = (
    0.12576844793328387, 0.11591478863199166, 0.1334120313112233, 0.15384404584062264, 0.18181821567132483,
    0.22222222190791893, 0.28571428571579877, 0.3999999999999972,
)  # fmt: skip
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
_LN2 = (0.6931471805599453, 2.3190468138462996e-17)


@on_floats("power")
def power(x: Reg, y: Reg) -> Reg:
    """The power x ** y as pow in C: 1 for y = 0 and for x = 1, even where the other operand is NaN; NaN for
    negative x and fractional y.
    """
    body = _power_single if x.element == "float" else _power_double
    (result,) = x.m.outlined("power", body, x, y)
    return result


def _power_single(x: Reg, y: Reg) -> tuple[Reg, ...]:
    """Computes the power in f64, where the logarithm of an f32 needs no second part."""
    m = x.m
    size = m.abs(x).cast("fpext", "double")
    e, fraction = split_exponent(size)
    s = (fraction - 1.0) / (fraction + 1.0)
    logarithm = m.fma(s, m.horner(s * s, _LOG2), e)
    logarithm = m.select(size.eq(0.0), -INFINITY, m.select(size.eq(INFINITY), INFINITY, logarithm))
    product = m.most(m.least(logarithm * y.cast("fpext", "double"), 200.0), -200.0)
    shifted = product + m.magic(product)
    n = shifted - m.magic(product)
    p = m.horner(product - n, _EXP2)
    result = (p.bits() + (shifted.bits() << FRACTION["double"])).floats().cast("fptrunc", "float")
    return (_special(x, y, result),)


def _special(x: Reg, y: Reg, result: Reg) -> Reg:
    """Computes x ** y from `result`, which is |x| ** y, with C's results for zeros, infinities and NaN."""
    m = x.m
    whole = m.rint(y).eq(y)
    half = y * 0.5
    odd = whole & m.rint(half).ne(half)
    negative = x.bits() < 0
    result = m.select(m.abs(x).eq(1.0), 1.0, result)  # also for infinite y
    result = m.select(negative & odd, -result, result)
    lost = (x < 0.0) & (x > -INFINITY) & ~whole
    lost = lost | x.is_nan() | y.is_nan()
    result = m.select(lost, float("nan"), result)
    return m.select(x.eq(1.0) | y.eq(0.0), 1.0, result)


def _log_parts(size: Reg) -> tuple[Reg, Reg]:
    """The logarithm of `size` as a sum of two numbers, with a relative error of about 2**-67, for finite
    positive `size`.
    """
    m = size.m
    e, fraction = split_exponent(size)
    # s = (m - 1) / (m + 1) in two parts
    top, bottom = fraction - 1.0, fraction + 1.0
    bottom_low = fraction - (bottom - 1.0)
    s = top / bottom
    product, error = m.two_product(s, bottom)
    s_low = ((top - product) - error - s * bottom_low) / bottom
    # z = s**2 and s**3 in two parts
    z, z_low = m.two_product(s, s)
    z_low = m.fma(s * 2.0, s_low, z_low)
    # 2/3 + z P(z), in two parts
    rest = z * m.horner(z, _TAIL)
    c, c_low = m.fast_two_sum(m.number(z, _TWO_THIRDS[0]), rest)
    c_low = c_low + _TWO_THIRDS[1]
    cube, cube_low = m.two_product(s, z)
    cube_low = m.fma(s, z_low, m.fma(s_low, z, cube_low))
    term, term_low = m.two_product(cube, c)
    term_low = m.fma(cube, c_low, m.fma(cube_low, c, term_low))
    # e ln 2 + 2 s + s**3 (...), added from the largest term on
    head, head_low = m.two_product(e, m.number(e, _LN2[0]))
    head_low = m.fma(e, _LN2[1], head_low)
    total, low1 = m.two_sum(head, s + s)
    total, low2 = m.two_sum(total, term)
    return m.fast_two_sum(total, (low1 + low2) + (head_low + (term_low + (s_low + s_low))))


def _power_double(x: Reg, y: Reg) -> tuple[Reg, ...]:
    if not power_lookup.applies(x):
        return (_power_by_series(x, y),)
    m = x.m
    result, is_usual = power_lookup.usual_power(x, y)
    branch = m.f.branch(is_usual.ssa, likely=True)
    with branch.otherwise():
        other = _power_by_series(x, y)
    return (m.reg(*branch.merge([(result.ssa, other.ssa)])),)


def _power_by_series(x: Reg, y: Reg) -> Reg:
    m = x.m
    size = m.abs(x)
    usual = (size > 0.0) & (size < INFINITY)
    high, low = _log_parts(m.select(usual, size, 1.0))
    # y log(x): a y so large that the product is far out of range would give NaN parts.
    bounded = m.most(m.least(y, 2.0**80), -(2.0**80))
    product, error = m.two_product(high, bounded)
    error = m.fma(low, bounded, error)
    inside = m.abs(product) < 800.0
    error = m.select(inside, error, 0.0)
    product = m.select(inside, product, m.most(m.least(product, 800.0), -800.0))
    base = exp(product)
    result = m.fma(base, error, base)
    # The correction would make an infinite base NaN.
    result = m.select(base < INFINITY, result, base)
    grows = y > 0.0
    result = m.select(size.eq(0.0), m.select(grows, m.number(x, 0.0), INFINITY), result)
    result = m.select(size.eq(INFINITY), m.select(grows, m.number(x, INFINITY), 0.0), result)
    return _special(x, y, result)


@on_complex("power")
def complex_power(a: Reg, b: Reg, c: Reg, d: Reg) -> Pair:
    """Computes z ** w = exp(w log z), with z = a + b i and w = c + d i: for |z| = r and the angle t of z, the
    modulus is r**c exp(-d t) and the angle c t + d log r. 0**0 is 1.

    The steps, and so their roundings, are XLA's: for large exponents the angle is determined by rounding
    alone.
    """
    m = a.m
    modulus, angle = absolute(a, b), atan2(b, a)
    sine, cosine = sincos(m.fma(c, angle, d * log(modulus)))
    size = power(modulus, c) * exp(-(d * angle))
    re, im = size * cosine, size * sine
    zero = a.eq(0.0) & b.eq(0.0)
    one = (c.eq(0.0) & d.eq(0.0)) | (a.eq(1.0) & b.eq(0.0))
    # 0**w is 0 for w > 0; for other w XLA returns infinity or NaN.
    vanishes = zero & (c > 0.0) & d.eq(0.0)
    real_axis = vanishes | (a.eq(INFINITY) & b.eq(0.0) & d.eq(0.0) & ~c.is_nan())
    re, im = m.select(real_axis, power(modulus, c), re), m.select(real_axis, 0.0, im)
    return m.select(one, 1.0, re), m.select(one, 0.0, im)
