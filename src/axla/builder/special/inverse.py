"""Inverse trigonometric and hyperbolic functions of complex numbers, composed of builder ops.

asin, acos, asinh and acosh follow T. E. Hull, T. F. Fairgrieve and P. T. P. Tang, Implementing the complex
arcsine and arccosine functions using exception handling (1997): r and s are the distances of z
from -1 and 1, a = (r + s) / 2, and all results are computed from a without cancellation. Large and small
arguments are treated separately, since their squares overflow or underflow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from axla.builder import elementwise as e
from axla.builder.broadcasting import full
from axla.builder.xla_builder import XlaOp


class _Limits(NamedTuple):
    """Limits for the arguments, for the float type of their real and imaginary parts."""

    small: float  # the square of a smaller number is not a normal number
    large: float  # the square of a larger number overflows
    inverse: float  # a little more than 1 / (the spacing of floats just below 1)


def _limits(part: XlaOp) -> _Limits:
    info = part.dtype.finfo
    digits = info.nmant + 1
    return _Limits(
        4 * math.sqrt(float(info.smallest_normal)), math.sqrt(float(info.max)) / 8, 2.0**digits + 2
    )


def _hypotenuse(x: XlaOp, y: XlaOp) -> XlaOp:
    """Returns sqrt(x^2 + y^2) without overflow."""
    long, short = e.Max(abs(x), abs(y)), e.Min(abs(x), abs(y))
    ratio = short / long
    square = ratio * ratio
    root = e.Sqrt(square + 1.0)
    # Where the root rounds to 1, only the first term of its series matters.
    found = e.Select((root == 1.0) & (square > 0.0), long + long * square / 2.0, long * root)
    return e.Select(long == short, long * math.sqrt(2.0), found)


def _parts(x: XlaOp, y: XlaOp) -> tuple[XlaOp, XlaOp]:
    """For z = x + iy in the first quadrant: returns (m, l) such that asin(z) = atan2(x, m) + i l."""
    small, large, _ = _limits(x)
    above, below = x + 1.0, x - 1.0
    r, s = _hypotenuse(above, y), _hypotenuse(below, y)
    a = 0.5 * (r + s)
    sum_above, sum_below, gap = r + above, s + below, s - below
    square = y * y
    half = 0.5 * (a + x)
    left = e.Sqrt(half * (square / sum_above + gap))
    right = y * e.Sqrt(half / sum_above + half / sum_below)
    m = e.Select(e.Max(x, y) >= large, y, e.Select(x <= 1.0, left, right))

    limit = e.Select(x < large * 1e12, full(x, large * 1e-6), large * 1e2)
    high = y >= limit
    size = e.Select(high, y, x)
    ratio = e.Select(high & (y != math.inf), x / y, 0.0)
    far = e.Log(size) + math.log(2.0) + 0.5 * e.Log1p(ratio * ratio)
    tiny = (y < small) & (x < 1.0)
    outside = 0.5 * square / sum_above + 0.5 * sum_below
    inside = 0.5 * square / sum_above + 0.5 * square / gap
    near = e.Select(x >= 1.0, outside, e.Select(a <= 1.5, inside, a - 1.0))
    excess = e.Select(tiny, -(above * below / (a + 1.0)), near)  # this is a - 1
    root = e.Sqrt(excess * (a + 1.0))
    found = e.Select(tiny, y / root, e.Log1p(excess + root))
    return m, e.Select(size >= e.Select(high, limit, full(x, large)), far, found)


def _signed(value: XlaOp, like: XlaOp) -> XlaOp:
    return e.Select(like < 0.0, -value, value)


def _split(z: XlaOp) -> tuple[XlaOp, XlaOp, XlaOp, XlaOp]:
    """For z = x + iy: returns (x, y, m, l), where m and l are `_parts(|x|, |y|)`."""
    x, y = e.Real(z), e.Imag(z)
    return x, y, *_parts(abs(x), abs(y))


def asin(z: XlaOp) -> XlaOp:
    """The inverse sine of complex numbers."""
    x, y, m, log = _split(z)
    return e.Complex(e.Atan2(x, m), _signed(log, y))


def acos(z: XlaOp) -> XlaOp:
    """The inverse cosine of complex numbers."""
    x, y, m, log = _split(z)
    return e.Complex(e.Atan2(m, x), e.Select(y < 0.0, log, -log))


def acosh(z: XlaOp) -> XlaOp:
    """The inverse hyperbolic cosine of complex numbers."""
    x, y, m, log = _split(z)
    return e.Complex(log, _signed(e.Atan2(m, x), y))


def asinh(z: XlaOp) -> XlaOp:
    """The inverse hyperbolic sine of complex numbers, -i asin(iz)."""
    x, y = e.Real(z), e.Imag(z)
    m, log = _parts(abs(y), abs(x))
    return e.Complex(_signed(log, x), e.Atan2(y, m))


def _atanh(x: XlaOp, y: XlaOp) -> tuple[XlaOp, XlaOp]:
    small, _, inverse = _limits(x)
    size, other = abs(x), abs(y)
    limit = inverse * inverse
    moderate = (size < limit) & (other < limit)
    below, above = 1.0 - size, 1.0 + size
    plain = size / (below * below + y * y)
    # For large |z|: x / |z|^2, computed without squares, which could overflow.
    scaled = 1.0 / (size / y + y / size) / y
    scaled = e.Select((size == math.inf) | (other == math.inf), 0.0, scaled)
    far = e.Select(other * inverse < size, 1.0 / size, scaled)
    real = 0.25 * e.Log1p(4.0 * e.Select(moderate, plain, far))
    # Next to a pole y * y would underflow to 0.
    real = e.Select((below == 0.0) & (other < small), 0.5 * (math.log(2.0) - e.Log(other)), real)
    angle = e.Select(
        moderate, e.Atan2(y + y, below * above - y * y), e.Select(y >= 0.0, full(y, math.pi), -math.pi)
    )
    return e.Select(x >= 0.0, real, -real), 0.5 * angle


def atanh(z: XlaOp) -> XlaOp:
    """The inverse hyperbolic tangent of complex numbers."""
    return e.Complex(*_atanh(e.Real(z), e.Imag(z)))


def atan(z: XlaOp) -> XlaOp:
    """The inverse tangent of complex numbers, -i atanh(iz)."""
    real, imaginary = _atanh(-e.Imag(z), e.Real(z))
    return e.Complex(imaginary, -real)
