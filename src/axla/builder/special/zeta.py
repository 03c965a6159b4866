"""The Hurwitz zeta function, by the Euler-Maclaurin formula, and the polygamma functions."""

from __future__ import annotations

import math

from axla.builder import elementwise as e
from axla.builder.broadcasting import full
from axla.builder.compositions import Digamma, Lgamma, floats
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import F32

# The coefficients B(2k) / (2k)! for k = 12 to 1; B are the Bernoulli numbers.
_BERNOULLI = (
    -236364091 / 1693824136731743669452800000, 77683 / 14101100039391805440000,
    -174611 / 802857662698291200000, 43867 / 5109094217170944000, -3617 / 10670622842880000,
    1 / 74724249600, -691 / 1307674368000, 1 / 47900160, -1 / 1209600, 1 / 30240, -1 / 720, 1 / 12,
)  # fmt: skip
_TERMS = 10  # terms that are added up; the remainder of the sum is estimated
_BEHIND = 5.0  # from here on the estimate of a remainder is exact enough


@floats
def Zeta(x: XlaOp, q: XlaOp) -> XlaOp:
    """The Hurwitz zeta function, the sum of (q + k)^-x over k >= 0.

    For q far below 0 (and integer x) this sum has too many large terms. It is then computed as the sum over
    all integers k, of which only those near 0 matter, minus the sum over k < 0, whose terms are small.
    """
    far = q < 1.0 - _BEHIND
    part = q - e.Floor(q)
    place = e.Select(far, part - _BEHIND, q)
    total = e.Pow(place, -x)
    for _ in range(_TERMS - 1):
        place = place + 1.0
        total = total + e.Pow(place, -x)
    place = place + 1.0
    term = e.Pow(place, -x)
    sign = 1.0 - 2.0 * abs(e.Rem(x, 2.0))
    below = _rest(x, _BEHIND + 1.0 - part) - _rest(x, e.Select(far, 1.0 - q, 1.0))
    estimate = total + _rest(x, place) + e.Select(far, sign * below, 0.0)
    tiny = 1.4013e-45 if x.dtype is F32 else 4.9406564584124654e-324
    found = e.Select(~far & (abs(term) < abs(total) * tiny), total, estimate)
    found = e.Select(q == math.inf, 0.0, found)
    found = e.Select((x < 1.0) | (x != x), math.nan, found)
    found = e.Select((q <= 0.0) & (x != e.Floor(x)), math.nan, found)
    even = (x == e.Floor(x)) & (e.Rem(x, 2.0) == 0.0)
    pole = e.Select(even, full(x, math.inf), math.nan)
    found = e.Select((q <= 0.0) & (q == e.Floor(q)), pole, found)
    return e.Select(x == 1.0, math.inf, found)


def _rest(x: XlaOp, place: XlaOp) -> XlaOp:
    """The sum of (place + k)^-x over k >= 0, by the Euler-Maclaurin formula. `place` must not be small."""
    term, inverse = e.Pow(place, -x), 1.0 / (place * place)
    rest = 0.0 * x
    # Each coefficient belongs to a derivative of t^-x; two orders more multiply it by two more factors x + k.
    for number, coefficient in enumerate(_BERNOULLI):
        k = 2.0 * (len(_BERNOULLI) - 1 - number)
        factor = x / place if k == 0 else (x + k) * (x + (k - 1.0)) * inverse
        rest = factor * (coefficient + rest)
    return term * place / (x - 1.0) + term * (0.5 + rest)


@floats
def Polygamma(n: XlaOp, x: XlaOp) -> XlaOp:
    """The polygamma function: the derivative of order n of digamma, at x."""
    sign = 2.0 * e.Rem(n, 2.0) - 1.0
    found = sign * e.Exp(Lgamma(n + 1.0)) * Zeta(n + 1.0, x)
    found = e.Select(n == 0.0, Digamma(x), found)
    return e.Select((n < 0.0) | (n != e.Floor(n)), math.nan, found)
