"""Complex arithmetic on pairs of registers.

Results agree with XLA's for finite numbers; for infinities and NaN they follow C's annex G where that is
cheap.
"""

from __future__ import annotations

from collections.abc import Callable

from axla.codegen.arithmetic import BIAS, Reg
from axla.codegen.math.exponential import exp, expm1
from axla.codegen.math.hyperbolic import cosh, sinh
from axla.codegen.math.inverse_trigonometry import atan2
from axla.codegen.math.logarithm import log, log1p
from axla.codegen.math.power import power as real_power
from axla.codegen.math.root import cbrt
from axla.codegen.math.trigonometry import sincos, tan

Pair = tuple[Reg, Reg]
INFINITY = float("inf")


def _sorted(re: Reg, im: Reg) -> Pair:
    """The larger and the smaller of the sizes of the parts."""
    m = re.m
    a, b = m.abs(re), m.abs(im)
    return m.select(a > b, a, b), m.select(a > b, b, a)


def absolute(re: Reg, im: Reg) -> Reg:
    """The modulus, without overflow on the way."""
    m = re.m
    large, small = _sorted(re, im)
    ratio = small / large
    size = large * m.sqrt(m.fma(ratio, ratio, 1.0))
    size = m.select(small.eq(0.0), large, size)
    return m.select(m.abs(re).eq(INFINITY) | m.abs(im).eq(INFINITY), INFINITY, size)


def multiply(a: Reg, b: Reg, c: Reg, d: Reg) -> Pair:
    return a * c - b * d, a * d + b * c


def divide(a: Reg, b: Reg, c: Reg, d: Reg) -> Pair:
    """Smith's division: by the larger part of the divisor first, so that nothing overflows without need."""
    m = a.m
    by_real = m.abs(c) >= m.abs(d)
    large, small = m.select(by_real, c, d), m.select(by_real, d, c)
    ratio = small / large
    scale = m.fma(small, ratio, large)
    re = m.select(by_real, m.fma(b, ratio, a), m.fma(a, ratio, b)) / scale
    im = m.select(by_real, m.fma(a, -ratio, b), m.fma(b, ratio, -a)) / scale
    lost = re.is_nan() & im.is_nan()
    # By zero: infinities, unless the dividend is zero or NaN too.
    zero = c.eq(0.0) & d.eq(0.0)
    pole = m.copysign(INFINITY, c)
    re, im = m.select(lost & zero, pole * a, re), m.select(lost & zero, pole * b, im)
    # An infinite dividend keeps its direction; an infinite divisor gives zero.
    finite_divisor = (m.abs(c) < INFINITY) & (m.abs(d) < INFINITY)
    finite_dividend = (m.abs(a) < INFINITY) & (m.abs(b) < INFINITY)
    infinite_dividend = m.abs(a).eq(INFINITY) | m.abs(b).eq(INFINITY)
    infinite_divisor = m.abs(c).eq(INFINITY) | m.abs(d).eq(INFINITY)
    a1, b1, c1, d1 = (_boxed(x) for x in (a, b, c, d))
    grows = lost & ~zero & infinite_dividend & finite_divisor
    re = m.select(grows, (a1 * c + b1 * d) * INFINITY, re)
    im = m.select(grows, (b1 * c - a1 * d) * INFINITY, im)
    vanishes = lost & infinite_divisor & finite_dividend
    re = m.select(vanishes, (a * c1 + b * d1) * 0.0, re)
    im = m.select(vanishes, (b * c1 - a * d1) * 0.0, im)
    return re, im


def _boxed(x: Reg) -> Reg:
    """1 for infinities, 0 for other numbers, with the sign of x."""
    m = x.m
    return m.copysign(m.select(m.abs(x).eq(INFINITY), m.number(x, 1.0), 0.0), x)


def sign(re: Reg, im: Reg) -> Pair:
    """z / |z|, and z for zero."""
    m = re.m
    size = absolute(re, im)
    zero = size.eq(0.0)
    return m.select(zero, re, re / size), m.select(zero, im, im / size)


def exponential(re: Reg, im: Reg) -> Pair:
    m = re.m
    sine, cosine = sincos(im)
    # Far out in two halves: exp(re) may overflow where the product with a small cosine does not.
    whole, half = exp(re), exp(re * 0.5)
    near = m.abs(re) < (80.0 if re.element == "float" else 700.0)
    a = m.select(near, whole * cosine, half * cosine * half)
    b = m.select(near, whole * sine, half * sine * half)
    real_axis = im.eq(0.0)
    a, b = m.select(real_axis, whole, a), m.select(real_axis, im, b)
    return m.select(re.eq(INFINITY) & ~(m.abs(im) < INFINITY), INFINITY, a), b


def exponential_minus_one(re: Reg, im: Reg) -> Pair:
    """exp(x) cos(y) - 1 = expm1(x) cos(y) - 2 sin(y / 2)**2"""
    m = re.m
    sine, cosine = sincos(im)
    half, _ = sincos(im * 0.5)
    real_axis = im.eq(0.0)
    minus_one = expm1(re)
    a = m.fma(minus_one, cosine, half * half * -2.0)
    return m.select(real_axis, minus_one, a), m.select(real_axis, im, exp(re) * sine)


def _product_and_square(a: Reg, b: Reg, c: float, d: Reg) -> Reg:
    """a (b + c) + d**2, with all rounding errors made good: the two may cancel."""
    m = a.m
    total, total_low = m.two_sum(b, m.number(b, c))
    p, p_low = m.two_product(a, total)
    q, q_low = m.two_product(d, d)
    result, low = m.two_sum(p, q)
    return result + (low + (p_low + q_low + a * total_low))


def _log_modulus(re: Reg, im: Reg) -> Reg:
    """log |z|, without cancellation near |z| = 1."""
    m = re.m
    large, small = _sorted(re, im)
    near = (large > 0.5) & (large < 2.0)
    # |z|**2 - 1 = (large - 1)(large + 1) + small**2
    excess = _product_and_square(large - 1.0, large, 1.0, small)
    ratio = small / large
    ratio = m.select(large.eq(0.0) | large.eq(INFINITY), 0.0, ratio)
    tail = log1p(m.select(near, excess, ratio * ratio)) * 0.5
    result = tail + m.select(near, m.number(re, 0.0), log(large))
    return m.select(m.abs(re).eq(INFINITY) | m.abs(im).eq(INFINITY), INFINITY, result)


def _unless_nan(re: Reg, im: Reg, result: Reg) -> Reg:
    """The result, or NaN where a part is: XLA does not let an infinite part win."""
    return re.m.select(re.is_nan() | im.is_nan(), float("nan"), result)


def logarithm(re: Reg, im: Reg) -> Pair:
    return _unless_nan(re, im, _log_modulus(re, im)), atan2(im, re)


def log_plus_one(re: Reg, im: Reg) -> Pair:
    """log |1 + z| through |1 + z|**2 - 1 = x (x + 2) + y**2 for small z."""
    m = re.m
    near = (m.abs(re) < 0.5) & (m.abs(im) < 0.5)
    small = log1p(_product_and_square(re, re, 2.0, im)) * 0.5
    size = m.select(near, small, _log_modulus(re + 1.0, im))
    return _unless_nan(re, im, size), atan2(im, re + 1.0)


def logistic(re: Reg, im: Reg) -> Pair:
    a, b = exponential(-re, -im)
    one = re.m.number(re, 1.0)
    return divide(one, re.m.number(re, 0.0), a + 1.0, b)


def square_root(re: Reg, im: Reg) -> Pair:
    """The root with a real part that is not negative."""
    m = re.m
    # Scaled so that the modulus neither overflows nor loses bits; the factors are squares.
    large, _ = _sorted(re, im)
    step = 2.0 ** (BIAS[re.element] // 4 * 2)
    up, down = large < 1.0 / step, large > step
    factor = m.select(up, m.number(re, step), m.select(down, m.number(re, 1.0 / step), 1.0))
    root = step**0.5
    back = m.select(up, m.number(re, 1.0 / root), m.select(down, m.number(re, root), 1.0))
    x, y = re * factor, im * factor
    t = m.sqrt((m.abs(x) + absolute(x, y)) * 0.5)
    other = m.abs(y) / (t + t) * back
    t = t * back
    right = re >= 0.0
    a, b = m.select(right, t, other), m.copysign(m.select(right, other, t), im)
    zero = large.eq(0.0)
    a, b = m.select(zero, 0.0, a), m.select(zero, im, b)
    # Infinite parts.
    flat = m.abs(re).eq(INFINITY) & ~im.is_nan()
    a = m.select(flat, m.select(right, m.number(re, INFINITY), 0.0), a)
    b = m.select(flat, m.copysign(m.select(right, m.number(re, 0.0), INFINITY), im), b)
    tall = m.abs(im).eq(INFINITY)
    a, b = m.select(tall, INFINITY, a), m.select(tall, im, b)
    return _unless_nan(re, im, a), _unless_nan(re, im, b)


def reciprocal_square_root(re: Reg, im: Reg) -> Pair:
    """1 / sqrt(z) = conj(sqrt(z)) / |sqrt(z)|**2"""
    m = re.m
    a, b = square_root(re, im)
    large, small = _sorted(a, b)
    ratio = small / large
    scale = m.fma(small, ratio, large)  # |w|**2 / large
    x, y = a / large / scale, -b / large / scale
    zero, infinite = large.eq(0.0), large.eq(INFINITY)
    x = m.select(zero, INFINITY, m.select(infinite, 0.0, x))
    y = m.select(zero, float("nan"), m.select(infinite, m.copysign(0.0, -b), y))
    x = m.select(re.is_nan() | im.is_nan(), float("nan"), x)
    far = m.abs(re).eq(INFINITY) | m.abs(im).eq(INFINITY)  # in XLA also where the other part is NaN
    return m.select(far, 0.0, x), m.select(far, m.copysign(0.0, -im), y)


def cube_root(re: Reg, im: Reg) -> Pair:
    m = re.m
    size = cbrt(absolute(re, im))
    sine, cosine = sincos(atan2(im, re) * (1.0 / 3.0))
    zero = size.eq(0.0)
    return m.select(zero, 0.0, size * cosine), m.select(zero, im, size * sine)


def sine(re: Reg, im: Reg) -> Pair:
    m = re.m
    s, c = sincos(re)
    b = c * sinh(im)
    a = s * cosh(im)
    # On the axes an infinite factor meets an exact zero.
    return m.select(re.eq(0.0), re, a), m.select(im.eq(0.0), c * im, b)


def cosine(re: Reg, im: Reg) -> Pair:
    m = re.m
    s, c = sincos(re)
    a = c * cosh(im)
    b = -s * sinh(im)
    # On the axes the sign of a zero is left: an infinite factor must not meet it.
    return a, m.select(re.eq(0.0), -s * m.copysign(1.0, im), m.select(im.eq(0.0), -s * im, b))


def hyperbolic_sine(re: Reg, im: Reg) -> Pair:
    """sinh z = -i sin iz"""
    a, b = sine(-im, re)
    return b, -a


def hyperbolic_cosine(re: Reg, im: Reg) -> Pair:
    """cosh z = cos iz"""
    return cosine(-im, re)


def hyperbolic_tangent(re: Reg, im: Reg) -> Pair:
    """With t = tan y, s = sinh x: (s sqrt(1 + s**2) (1 + t**2) + i t) / (1 + (1 + t**2) s**2) (Kahan)."""
    m = re.m
    size = m.abs(re)
    limit = 15.0 if re.element == "float" else 25.0
    t = tan(im)
    s = sinh(m.most(m.least(re, limit), -limit))
    beta = m.fma(t, t, 1.0)
    scale = m.fma(beta, s * s, 1.0)
    a = beta * m.sqrt(m.fma(s, s, 1.0)) * s / scale
    b = t / scale
    # At poles of the tangent beta is huge: the limits are coth x and 0.
    # For large x: 1, and 4 sin y cos y exp(-2 |x|).
    sine, cosine = sincos(im)
    decay = exp(-size)
    far = size > limit
    tail = sine * cosine * 4.0 * decay * decay
    tail = m.select(m.abs(im) < INFINITY, tail, m.select(size.eq(INFINITY), 0.0, tail))
    known = (m.abs(im) < INFINITY) | size.eq(INFINITY)
    a = m.select(far & known, m.copysign(1.0, re), a)
    b = m.select(far, tail, b)
    return a, m.select(im.eq(0.0), im, b)


def tangent(re: Reg, im: Reg) -> Pair:
    """tan z = -i tanh iz"""
    a, b = hyperbolic_tangent(-im, re)
    return b, -a


def power(a: Reg, b: Reg, c: Reg, d: Reg) -> Pair:
    """exp(w log z): with |z| = r and the angle t, r**c exp(-d t) at the angle c t + d log r; 0**0 is 1.

    The steps are XLA's, rounded as there: with large exponents the angle is all rounding.
    """
    m = a.m
    modulus, angle = absolute(a, b), atan2(b, a)
    sine, cosine = sincos(m.fma(c, angle, d * log(modulus)))
    size = real_power(modulus, c) * exp(-(d * angle))
    re, im = size * cosine, size * sine
    zero = a.eq(0.0) & b.eq(0.0)
    one = (c.eq(0.0) & d.eq(0.0)) | (a.eq(1.0) & b.eq(0.0))
    # 0**w is 0 for w > 0; elsewhere XLA says infinity or NaN.
    vanishes = zero & (c > 0.0) & d.eq(0.0)
    real_axis = vanishes | (a.eq(INFINITY) & b.eq(0.0) & d.eq(0.0) & ~c.is_nan())
    re, im = m.select(real_axis, real_power(modulus, c), re), m.select(real_axis, 0.0, im)
    return m.select(one, 1.0, re), m.select(one, 0.0, im)


def _square(re: Reg, im: Reg) -> Pair:
    """Fused, as in XLA: where both squares overflow the real part is -inf, not NaN."""
    return re.m.fma(re, re, -(im * im)), re * im + re * im


def atan2_complex(a: Reg, b: Reg, c: Reg, d: Reg) -> Pair:
    """-i log((x + i y) / sqrt(x**2 + y**2)) with y = a + b i, x = c + d i."""
    m = a.m
    xx, yy = _square(c, d), _square(a, b)
    x, y = xx[0] + yy[0], xx[1] + yy[1]
    root = square_root(m.select(m.abs(y).eq(INFINITY), 0.0, x), y)  # infinite, even where x is NaN
    re, im = logarithm(*divide(c - b, d + a, *root))
    # The product with -i: an infinite logarithm has no angle.
    return im + re * 0.0, im * 0.0 - re


def _outlined(name: str, body: Callable[..., Pair]) -> Callable[..., Pair]:
    def call(*parts: Reg) -> Pair:
        re, im = parts[0].m.outlined(f"complex.{name}", body, *parts)
        return re, im

    return call


_LONG_UNARY: dict[str, Callable[[Reg, Reg], Pair]] = {
    "exponential": exponential,
    "exponential-minus-one": exponential_minus_one,
    "log": logarithm,
    "log-plus-one": log_plus_one,
    "logistic": logistic,
    "sqrt": square_root,
    "rsqrt": reciprocal_square_root,
    "cbrt": cube_root,
    "sine": sine,
    "cosine": cosine,
    "tan": tangent,
    "sinh": hyperbolic_sine,
    "cosh": hyperbolic_cosine,
    "tanh": hyperbolic_tangent,
}

UNARY: dict[str, Callable[[Reg, Reg], Pair]] = {
    "negate": lambda re, im: (-re, -im),
    "sign": sign,
    **{name: _outlined(name.replace("-", "_"), body) for name, body in _LONG_UNARY.items()},
}

BINARY: dict[str, Callable[[Reg, Reg, Reg, Reg], Pair]] = {
    "add": lambda a, b, c, d: (a + c, b + d),
    "subtract": lambda a, b, c, d: (a - c, b - d),
    "multiply": multiply,
    "divide": _outlined("divide", divide),
    "power": _outlined("power", power),
    "atan2": _outlined("atan2", atan2_complex),
}
