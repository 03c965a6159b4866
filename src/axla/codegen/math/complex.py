"""Complex arithmetic on pairs of registers.

Results agree with XLA's for finite numbers; for infinities and NaN they follow annex G of the C standard
where that is cheap.
"""

from __future__ import annotations

from axla.codegen.arithmetic import Reg
from axla.codegen.math.tables import COMPLEX, Pair, on_complex

INFINITY = float("inf")


def sorted_parts(re: Reg, im: Reg) -> Pair:
    """(the larger, the smaller) of the magnitudes of the two parts."""
    m = re.m
    a, b = m.abs(re), m.abs(im)
    return m.select(a > b, a, b), m.select(a > b, b, a)


def absolute(re: Reg, im: Reg) -> Reg:
    """The modulus, without intermediate overflow."""
    m = re.m
    large, small = sorted_parts(re, im)
    ratio = small / large
    size = large * m.sqrt(m.fma(ratio, ratio, 1.0))
    size = m.select(small.eq(0.0), large, size)
    return m.select(m.abs(re).eq(INFINITY) | m.abs(im).eq(INFINITY), INFINITY, size)


def unless_nan(re: Reg, im: Reg, result: Reg) -> Reg:
    """Returns `result`, or NaN if the real or the imaginary part is NaN, even if the other part is infinite,
    as in XLA.
    """
    return re.m.select(re.is_nan() | im.is_nan(), float("nan"), result)


def multiply(a: Reg, b: Reg, c: Reg, d: Reg) -> Pair:
    """The product (a + bi)(c + di)."""
    return a * c - b * d, a * d + b * c


@on_complex("divide")
def divide(a: Reg, b: Reg, c: Reg, d: Reg) -> Pair:
    """Divides by Smith's method: first by the larger part of the divisor, which avoids needless overflow."""
    m = a.m
    by_real = m.abs(c) >= m.abs(d)
    large, small = m.select(by_real, c, d), m.select(by_real, d, c)
    ratio = small / large
    scale = m.fma(small, ratio, large)
    re = m.select(by_real, m.fma(b, ratio, a), m.fma(a, ratio, b)) / scale
    im = m.select(by_real, m.fma(a, -ratio, b), m.fma(b, ratio, -a)) / scale
    lost = re.is_nan() & im.is_nan()
    # A division by zero returns infinities, unless the dividend is zero or NaN too.
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
    """Returns 1 for infinities and 0 for other numbers, with the sign of x."""
    m = x.m
    return m.copysign(m.select(m.abs(x).eq(INFINITY), m.number(x, 1.0), 0.0), x)


def sign(re: Reg, im: Reg) -> Pair:
    """The sign of a complex number: z / |z|, or z if it is zero."""
    m = re.m
    size = absolute(re, im)
    zero = size.eq(0.0)
    return m.select(zero, re, re / size), m.select(zero, im, im / size)


COMPLEX |= {
    "add": lambda a, b, c, d: (a + c, b + d),
    "subtract": lambda a, b, c, d: (a - c, b - d),
    "multiply": multiply,
    "negate": lambda re, im: (-re, -im),
    "sign": sign,
}
