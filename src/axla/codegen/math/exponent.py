"""Splits floats into exponent and fraction, and scales them by powers of two."""

from __future__ import annotations

from axla.codegen import avx512
from axla.codegen.arithmetic import BIAS, FRACTION, Reg


def split_exponent(x: Reg) -> tuple[Reg, Reg]:
    """(e, f) as floats with x = f * 2**e and 3/4 <= f < 3/2, for positive finite x.

    Where `avx512.applies`, e and f are chosen such that arithmetic on them computes the right logarithm for
    every x, special values included.
    """
    m = x.m
    if avx512.applies(x):
        f = avx512.getmant(x)
        return avx512.getexp(x) - avx512.getexp(f), f
    fraction = FRACTION[x.element]
    tiny = x < 2.0 ** (1 - BIAS[x.element])
    bits = m.select(tiny, x * 2.0**fraction, x).bits()
    three_quarters = (BIAS[x.element] << fraction) - (1 << (fraction - 1))
    offset = bits - three_quarters
    f = (bits - (offset & -(1 << fraction))).floats()
    e = m.small_integer(offset >> fraction)
    return m.select(tiny, e - float(fraction), e), f


def scale(p: Reg, n: Reg, shifted: Reg) -> Reg:
    """Computes p * 2**n for p near 1 and integral n; right for denormals, infinities and NaN.

    n is a float; `shifted` is n + magic(p), whose low bits are the integer n. |n| stays below 1.25 times the
    exponent range.
    """
    m = p.m
    if avx512.applies(p):
        return avx512.scalef(p, n)
    # In two steps: an exact one that stays inside the range, then a multiplication that rounds once.
    fraction = FRACTION[p.element]
    shift = 64 if p.element == "float" else 512
    negative = n < 0.0
    step = m.select(negative, m.number(p.bits(), shift << fraction), -(shift << fraction))
    factor = m.select(negative, m.number(p, 2.0**-shift), 2.0**shift)
    scaled = (p.bits() + (shifted.bits() << fraction) + step).floats() * factor
    # Integer addition turns some NaNs into numbers.
    return m.select(p.is_nan(), p, scaled)
