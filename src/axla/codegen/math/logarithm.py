"""The functions log and log1p, and atan2 of complex numbers, which is computed by logarithms.

For x = 2**e m with 3/4 <= m < 3/2 and f = m - 1, log x = e ln 2 + log(1 + f).
"""

from __future__ import annotations

from axla.codegen import avx512
from axla.codegen.arithmetic import BIAS, Reg
from axla.codegen.math.complex import INFINITY, divide, sorted_parts, unless_nan
from axla.codegen.math.exponent import split_exponent
from axla.codegen.math.inverse_trigonometry import atan2
from axla.codegen.math.root import complex_sqrt
from axla.codegen.math.tables import Pair, on_complex, on_floats

# Coefficients of (log(1 + f) - f + f**2 / 2) / f**3 for f in [-1/4, 1/2], highest power first.
_LOG_F32 = (
    -0.04616747, 0.10582778, -0.13186891, 0.14467704, -0.16643743, 0.19991091, -0.25000194, 0.33333448,
)  # fmt: skip
# Coefficients of (2 atanh(s) - 2 s) / s**3 as a polynomial in z = s**2, for |s| <= 0.2.
_LOG_F64 = (
    0.13844270817613052, 0.13173413007844356, 0.15391123366898168, 0.18181665512309028, 0.2222222430284926,
    0.285714285557679, 0.4000000000005695, 0.666666666666666,
)  # fmt: skip
_LN2 = {
    "float": (0.693145751953125, 1.4286068203094173e-06),
    "double": (0.6931471803691238, 1.9082149292705877e-10),
}


def log_of_parts(e: Reg, f: Reg) -> Reg:
    """Computes e ln 2 + log(1 + f)."""
    m = e.m
    high, low = _LN2[f.element]
    if f.element == "float":
        square = f * f
        total = m.fma(square * f, m.horner(f, _LOG_F32), e * low)
        total = m.fma(square, -0.5, total) + f
        return m.fma(e, high, total)
    # With s = f / (2 + f): log(1 + f) = f - (h - s (h + R)), h = f**2 / 2, R = s**2 P(s**2).
    s = f / (f + 2.0)
    z = s * s
    h = f * f * 0.5
    tail = m.fma(s, m.fma(z, m.horner(z, _LOG_F64), h), e * low)
    return m.fma(e, high, -((h - tail) - f))


@on_floats("log")
def log(x: Reg) -> Reg:
    """The natural logarithm, from exponent and fraction; -inf for 0, NaN for negative numbers."""
    e, fraction = split_exponent(x)
    result = log_of_parts(e, fraction - 1.0)
    return result if avx512.applies(x) else _with_ends(x, 0.0, result)


def _with_ends(x: Reg, least: float, result: Reg) -> Reg:
    """Returns `result` for x in (least, infinity), -inf for x = least, infinity for infinite x, and NaN for
    all other x.
    """
    m = x.m
    result = m.select(x.eq(INFINITY), INFINITY, result)
    result = m.select(x.eq(least), -INFINITY, result)
    return m.select(~(x >= least), float("nan"), result)


@on_floats("log-plus-one")
def log1p(x: Reg) -> Reg:
    """Computes log(1 + x): the rounding error of 1 + x, scaled like the fraction, is added back."""
    m = x.m
    total, error = m.two_sum(m.number(x, 1.0), x)
    e, fraction = split_exponent(total)
    if avx512.applies(x):
        scaled = m.select(m.abs(e) < INFINITY, avx512.scalef(error, -e), 0.0)
        return m.copysign(log_of_parts(e, (fraction - 1.0) + scaled), x)
    # Past 2**(bias - 1) the error does not matter, and 2**-e would not be normal.
    inverse = m.power_of_two(-m.to_small_integer(m.least(e, float(BIAS[x.element] - 1))))
    return _with_ends(x, -1.0, m.copysign(log_of_parts(e, (fraction - 1.0) + error * inverse), x))


def _product_and_square(a: Reg, b: Reg, c: float, d: Reg) -> Reg:
    """Computes a (b + c) + d**2, corrected for all rounding errors, since the two terms may cancel."""
    m = a.m
    total, total_low = m.two_sum(b, m.number(b, c))
    p, p_low = m.two_product(a, total)
    q, q_low = m.two_product(d, d)
    result, low = m.two_sum(p, q)
    return result + (low + (p_low + q_low + a * total_low))


def _log_modulus(re: Reg, im: Reg) -> Reg:
    """Computes log |z|, without cancellation near |z| = 1."""
    m = re.m
    large, small = sorted_parts(re, im)
    near = (large > 0.5) & (large < 2.0)
    # |z|**2 - 1 = (large - 1)(large + 1) + small**2
    excess = _product_and_square(large - 1.0, large, 1.0, small)
    ratio = small / large
    ratio = m.select(large.eq(0.0) | large.eq(INFINITY), 0.0, ratio)
    tail = log1p(m.select(near, excess, ratio * ratio)) * 0.5
    result = tail + m.select(near, m.number(re, 0.0), log(large))
    return m.select(m.abs(re).eq(INFINITY) | m.abs(im).eq(INFINITY), INFINITY, result)


@on_complex("log")
def complex_log(re: Reg, im: Reg) -> Pair:
    """The complex logarithm: the logarithm of the modulus as real part, the angle as imaginary part."""
    return unless_nan(re, im, _log_modulus(re, im)), atan2(im, re)


@on_complex("log-plus-one")
def complex_log1p(re: Reg, im: Reg) -> Pair:
    """Computes log(1 + z); for small z, log |1 + z| is computed from |1 + z|**2 - 1 = x (x + 2) + y**2."""
    m = re.m
    near = (m.abs(re) < 0.5) & (m.abs(im) < 0.5)
    small = log1p(_product_and_square(re, re, 2.0, im)) * 0.5
    size = m.select(near, small, _log_modulus(re + 1.0, im))
    return unless_nan(re, im, size), atan2(im, re + 1.0)


def _square(re: Reg, im: Reg) -> Pair:
    """The square of a complex number by fused multiply-add, as in XLA: where both squares overflow the real
    part is -inf, not NaN.
    """
    return re.m.fma(re, re, -(im * im)), re * im + re * im


@on_complex("atan2")
def complex_atan2(a: Reg, b: Reg, c: Reg, d: Reg) -> Pair:
    """Computes -i log((x + i y) / sqrt(x**2 + y**2)) with y = a + b i, x = c + d i."""
    m = a.m
    xx, yy = _square(c, d), _square(a, b)
    x, y = xx[0] + yy[0], xx[1] + yy[1]
    root = complex_sqrt(m.select(m.abs(y).eq(INFINITY), 0.0, x), y)  # infinite if y is, even where x is NaN
    re, im = complex_log(*divide(c - b, d + a, *root))
    # The product with -i. If the logarithm is infinite, the angle becomes NaN.
    return im + re * 0.0, im * 0.0 - re
