"""rsqrt and cbrt."""

from __future__ import annotations

from axla.codegen import avx512
from axla.codegen.arithmetic import BIAS, FRACTION, Reg


def rsqrt(x: Reg) -> Reg:
    m = x.m
    if x.element != "float" or not avx512.applies(x):
        return 1.0 / m.sqrt(x)
    # 14 bits, denormals right, and one Newton step.
    y = avx512.rsqrt14(x)
    product = x * y
    better = m.fma(m.fma(product, y * -0.5, 0.5), y, y)
    # 0 and infinity: y is right, x * y is NaN.
    return m.select(product.is_nan(), y, better)


def cbrt(x: Reg) -> Reg:
    """Through r = |x|**(-1/3).

    A guess from the bits, two steps without division, and one for the cube root itself.
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
    # The exponent bits over -3, computed as a float: the guess is good to 4 %.
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
