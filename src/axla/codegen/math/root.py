"""Roots: rsqrt and cbrt of floats, and sqrt, rsqrt and cbrt of complex numbers."""

from __future__ import annotations

from axla.codegen import avx512
from axla.codegen.arithmetic import BIAS, FRACTION, Reg
from axla.codegen.math.complex import INFINITY, absolute, sorted_parts, unless_nan
from axla.codegen.math.inverse_trigonometry import atan2
from axla.codegen.math.tables import Pair, on_complex, on_floats
from axla.codegen.math.trigonometry import sincos


@on_floats("rsqrt")
def rsqrt(x: Reg) -> Reg:
    """Computes 1 / sqrt(x); with AVX-512, by `vrsqrt14` and one Newton step for f32."""
    m = x.m
    if x.element != "float" or not avx512.applies(x):
        return 1.0 / m.sqrt(x)
    # The instruction is exact to 14 bits, also for denormals; then one Newton step.
    y = avx512.rsqrt14(x)
    product = x * y
    better = m.fma(m.fma(product, y * -0.5, 0.5), y, y)
    # 0 and infinity: y is right, x * y is NaN.
    return m.select(product.is_nan(), y, better)


@on_floats("cbrt")
def cbrt(x: Reg) -> Reg:
    """The cube root, through r = |x|**(-1/3).

    The bits of x give an estimate of r; two iterations without division improve it; a last one improves the
    cube root itself.
    """
    m = x.m
    single = x.element == "float"
    fraction = FRACTION[x.element]
    size = m.abs(x)
    # Denormals grow to normal numbers. Near the largest number the cube below might overflow before it is
    # subtracted.
    shift = 24 if single else 54
    tiny, huge = size < 2.0 ** (1 - BIAS[x.element]), size > 2.0 ** (BIAS[x.element] - 10)
    factor = m.select(tiny, m.number(x, 2.0**shift), m.select(huge, m.number(x, 2.0**-shift), 1.0))
    back = m.select(
        tiny, m.number(x, 2.0 ** -(shift // 3)), m.select(huge, m.number(x, 2.0 ** (shift // 3)), 1.0)
    )
    a = size * factor
    # The exponent bits are divided by -3, as a float: the estimate has an error of at most 4 %.
    top = a.bits() if single else a.bits().lshr(32)
    upper = fraction if single else fraction - 32
    start = (4.0 / 3.0 * BIAS[x.element] - 0.0585) * 2.0**upper
    guess = m.fma(m.small_integer(top), -1.0 / 3.0, start)
    bits = m.to_small_integer(guess)
    r = (bits if single else bits << 32).floats()
    for _ in range(2):
        h = 1.0 - (a * r) * (r * r)
        r = m.fma(r * h, m.fma(h, m.fma(h, 14.0 / 81.0, 2.0 / 9.0), 1.0 / 3.0), r)
    y = a * (r * r)
    square, low = m.two_product(y, y)
    cube = m.fma(square, -y, a) - low * y
    y = m.fma(cube * (r * r), 1.0 / 3.0, y) * back
    return m.copysign(m.select(x.eq(0.0) | size.eq(float("inf")) | x.is_nan(), size, y), x)


@on_complex("sqrt")
def complex_sqrt(re: Reg, im: Reg) -> Pair:
    """The square root with non-negative real part."""
    m = re.m
    # Scaled so that the modulus neither overflows nor loses bits; the factors are squares.
    large, _ = sorted_parts(re, im)
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
    # Infinite real or imaginary parts.
    flat = m.abs(re).eq(INFINITY) & ~im.is_nan()
    a = m.select(flat, m.select(right, m.number(re, INFINITY), 0.0), a)
    b = m.select(flat, m.copysign(m.select(right, m.number(re, 0.0), INFINITY), im), b)
    tall = m.abs(im).eq(INFINITY)
    a, b = m.select(tall, INFINITY, a), m.select(tall, im, b)
    return unless_nan(re, im, a), unless_nan(re, im, b)


@on_complex("rsqrt")
def complex_rsqrt(re: Reg, im: Reg) -> Pair:
    """Computes 1 / sqrt(z) = conj(sqrt(z)) / |sqrt(z)|**2."""
    m = re.m
    a, b = complex_sqrt(re, im)
    large, small = sorted_parts(a, b)
    ratio = small / large
    scale = m.fma(small, ratio, large)  # |w|**2 / large
    x, y = a / large / scale, -b / large / scale
    zero, infinite = large.eq(0.0), large.eq(INFINITY)
    x = m.select(zero, INFINITY, m.select(infinite, 0.0, x))
    y = m.select(zero, float("nan"), m.select(infinite, m.copysign(0.0, -b), y))
    x = m.select(re.is_nan() | im.is_nan(), float("nan"), x)
    far = m.abs(re).eq(INFINITY) | m.abs(im).eq(INFINITY)  # in XLA also where the other part is NaN
    return m.select(far, 0.0, x), m.select(far, m.copysign(0.0, -im), y)


@on_complex("cbrt")
def complex_cbrt(re: Reg, im: Reg) -> Pair:
    """The principal cube root: the cube root of the modulus, at a third of the angle."""
    m = re.m
    size = cbrt(absolute(re, im))
    sine, cosine = sincos(atan2(im, re) * (1.0 / 3.0))
    zero = size.eq(0.0)
    return m.select(zero, 0.0, size * cosine), m.select(zero, im, size * sine)
