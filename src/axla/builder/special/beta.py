"""The regularized incomplete beta function, by the continued fraction DLMF 8.17.22."""

from __future__ import annotations

import math
from collections.abc import Sequence

from axla.builder import elementwise as e
from axla.builder.broadcasting import full
from axla.builder.compositions import Lgamma, floats
from axla.builder.iteration import iterated
from axla.builder.special.gamma import log1p_minus, stirling
from axla.builder.xla_builder import XlaOp

_LEAST = 10.0  # Stirling's series approximates log gamma from here on
_MOST = 5000  # the limit of steps; about sqrt(max(a, b)) are needed


def _factor(a: XlaOp, b: XlaOp, x: XlaOp, rest: XlaOp) -> XlaOp:
    """Returns x^a (1 - x)^b / (a B(a, b)), where `rest` is 1 - x. Computed so that no large logarithms
    cancel.
    """
    log_x = e.Select(x < 0.5, e.Log(x), e.Log1p(-rest))
    log_rest = e.Select(rest < 0.5, e.Log(rest), e.Log1p(-x))
    small = a * log_x + b * log_rest + Lgamma(a + b) - Lgamma(a + 1.0) - Lgamma(b)
    # If only a or only b is large: gamma(a + b) / gamma(a) is about (a + b)^b, so a + b joins the power with
    # exponent b. Likewise for gamma(b).
    total = a + b
    first = a * e.Log(x * total) + b * log_rest + _ratio(b, a) - Lgamma(a + 1.0)
    second = a * log_x + b * e.Log(rest * total) + _ratio(a, b) - Lgamma(b + 1.0)
    found = e.Select(b >= _LEAST, e.Exp(first), e.Exp(small))
    found = e.Select(a >= _LEAST, e.Exp(second) * (b / a), found)
    return e.Select((a >= _LEAST) & (b >= _LEAST), _factor_of_large(a, b, x, rest), found)


def _ratio(large: XlaOp, small: XlaOp) -> XlaOp:
    """Returns log(gamma(large + small) / gamma(large)) - small log(large + small)."""
    large = e.Max(large, _LEAST)
    part = small / large
    stirlings = stirling(large + small) - stirling(large)
    return large * log1p_minus(part) - 0.5 * e.Log1p(part) + stirlings


def _factor_of_large(a: XlaOp, b: XlaOp, x: XlaOp, rest: XlaOp) -> XlaOp:
    """The result of `_factor`, with the same arguments, for large a and b, from logarithms of the distance of
    x to the mean a / (a + b).
    """
    a, b = e.Max(a, _LEAST), e.Max(b, _LEAST)
    total = a + b
    # Computed from x or from 1 - x, whichever is smaller.
    distance = e.Select(x <= rest, x * total - a, b - rest * total)
    exponent = a * log1p_minus(distance / a) + b * log1p_minus(-distance / b)
    exponent = exponent + stirling(total) - stirling(a) - stirling(b)
    return e.Exp(exponent) * e.Sqrt(b / ((2.0 * math.pi) * a * total))


def _fraction(a: XlaOp, b: XlaOp, x: XlaOp, rest: XlaOp, active: XlaOp) -> XlaOp:
    """Returns I_x(a, b) / _factor(a, b, x, rest) for x up to the mean a / (a + b), where nothing cancels.
    Evaluates the continued fraction by Lentz's method, two terms per step, for the elements marked in
    `active`.
    """
    epsilon = float(x.dtype.finfo.eps)
    tiny = float(x.dtype.finfo.smallest_normal) / epsilon
    above_mean = a * rest - b * x + 1.0

    def nonzero(v: XlaOp) -> XlaOp:
        return e.Select(abs(v) < tiny, full(v, tiny), v)

    def step(m: XlaOp, fixed: Sequence[XlaOp], state: Sequence[XlaOp]) -> tuple[XlaOp, Sequence[XlaOp]]:
        (a, b, x, above_mean), (found, c, inverse) = fixed, state
        odd = a + 2.0 * m - 1.0
        part = m * (b - m) * x / odd
        # The first term has no factor a, since the whole fraction is divided by a.
        lead = e.Select(m == 1.0, 1.0, a + m - 1.0)
        numerator = lead * (a + b + m - 1.0) * part * (x / odd)
        denominator = m + part + (a + m) * (above_mean + m * (2.0 - x)) / (odd + 2.0)
        inverse = 1.0 / nonzero(denominator + numerator * inverse)
        c = nonzero(denominator + numerator / c)
        after = found * (c * inverse)
        return abs(after - found) > epsilon * abs(after), (after, c, inverse)

    start = nonzero(above_mean / (a + 1.0))
    fixed = (a, b, x, above_mean)
    found, _, _ = iterated("beta_fraction", step, active, fixed, (start, start, full(x, 0.0)), _MOST)
    return 1.0 / found


@floats
def RegularizedIncompleteBeta(a: XlaOp, b: XlaOp, x: XlaOp) -> XlaOp:
    """The regularized incomplete beta function I_x(a, b): the integral of t^(a-1) (1 - t)^(b-1) from 0 to x,
    divided by B(a, b).
    """
    # If a or b is 0 or infinite, the whole distribution is at x = 0 or at x = 1.
    at_zero, at_one = (a == 0.0) | (b == math.inf), (b == 0.0) | (a == math.inf)
    invalid = (a != a) | (b != b) | (x != x) | (a < 0.0) | (b < 0.0) | (x < 0.0) | (x > 1.0)
    invalid = invalid | (at_zero & at_one)
    is_zero = (x == 0.0) & ~at_one | at_one & (x != 1.0) | at_zero & (x == 0.0)
    is_one = (x == 1.0) | at_zero & (x != 0.0)
    active = ~(invalid | is_zero | is_one)
    p, q, y = (e.Select(active, v, 0.5) for v in (a, b, x))
    rest = 1.0 - y
    swapped = y * (p + q) > p  # I_x(a, b) is then 1 - I_(1-x)(b, a), whose fraction converges fast
    p, q = e.Select(swapped, q, p), e.Select(swapped, p, q)
    y, rest = e.Select(swapped, rest, y), e.Select(swapped, y, rest)
    found = _factor(p, q, y, rest) * _fraction(p, q, y, rest, active)
    found = e.Select(swapped, 1.0 - found, found)
    found = e.Select(is_one, 1.0, e.Select(is_zero, 0.0, found))
    return e.Select(invalid, math.nan, found)
