"""The regularized incomplete gamma functions, P(a, x) and Q(a, x) = 1 - P(a, x), and the derivatives of P
with respect to a.

Three methods: the power series of P for x below a; Legendre's continued fraction of Q above; for large a, the
uniform expansion of N. M. Temme (DLMF 8.12), whose cost does not grow with a. Their common factor, x^a
exp(-x) / gamma(a + 1), is computed from (x - a) / a unless a is small, since large logarithms would cancel.

If x > a and x > 1, Q is computed, and P is 1 - Q; else P is computed, and Q is 1 - P.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from axla.builder import elementwise as e
from axla.builder.broadcasting import full
from axla.builder.compositions import Digamma, Erfc, Lgamma, floats, polynomial
from axla.builder.iteration import iterated
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import F32

# log gamma(a) = (a - 1/2) log a - a + log(2 pi) / 2 + the sum of these coefficients times a^-1, a^-3...; the
# coefficient of a^-1 is the last.
_STIRLING = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_LEAST = 10.0  # the smallest a for Stirling's series
# The power series of Temme's functions c0 to c3; the highest degree first.
_TEMME = (
    (
        9.14769958223679e-10, -4.382036018453353e-09, 1.0261809784240309e-08, 6.707853543401498e-09,
        -1.7665952736826078e-07, 8.296711340953087e-07, -1.85406221071516e-06, -2.185448510679992e-06,
        3.919263178522438e-05, -0.0001787551440329218, 0.0003527336860670194, 0.0011574074074074073,
        -0.014814814814814815, 0.08333333333333333, -0.3333333333333333,
    ),
    (
        1.378633446915721e-07, 4.647127802807434e-09, -1.6120900894563446e-06, 7.64916091608111e-06,
        -1.8098550334489977e-05, -4.018775720164609e-07, 0.00020576131687242798, -0.0009902263374485596,
        0.0026455026455026454, -0.003472222222222222, -0.001851851851851852,
    ),
    (
        -1.2760635188618728e-05, 5.2923448829120125e-05, -0.0001073665322636516, 2.0093878600823047e-06,
        0.0007716049382716049, -0.0026813271604938273, 0.004133597883597883,
    ),
    (-7.561801671883977e-05, 0.00026772063206283885, -0.0004691894943952557, 0.00022947209362139917,
     0.0006494341563786008),
)  # fmt: skip
_LARGE_SINGLE, _LARGE_DOUBLE = 200.0, 1e4  # the smallest a for Temme's expansion
_NEAR = 0.4  # Temme's expansion is used if |x / a - 1| is less: beyond, the others take few steps
_MOST = 2000  # the limit of steps; about sqrt(2 a log(1 / eps)) are needed


class _Sums(NamedTuple):
    """A sum proportional to P or Q, and its derivative with respect to a."""

    value: XlaOp
    slope: XlaOp


def log1p_minus(x: XlaOp) -> XlaOp:
    """Returns log(1 + x) - x. For small x, where log1p(x) - x would cancel, a series is used."""
    r = x / (x + 2.0)
    square = r * r
    terms = 8 if x.dtype is F32 else 18
    series = polynomial(square, [1.0 / (2 * k + 3) for k in reversed(range(terms))])
    return e.Select(abs(x) < 0.5, r * (2.0 * square * series - x), e.Log1p(x) - x)


def stirling(a: XlaOp) -> XlaOp:
    """Returns log gamma(a) - ((a - 1/2) log a - a + log(2 pi) / 2), for a of at least 10."""
    inverse = 1.0 / a
    return inverse * polynomial(inverse * inverse, _STIRLING)


def _factor(a: XlaOp, x: XlaOp) -> XlaOp:
    """Returns x^a exp(-x) / gamma(a + 1)."""
    large = e.Max(a, _LEAST)
    exponent = large * log1p_minus((x - large) / large) - stirling(large)
    found = e.Exp(exponent) / e.Sqrt((2.0 * math.pi) * large)
    return e.Select(a < _LEAST, e.Exp(a * e.Log(x) - x - Lgamma(a + 1.0)), found)


def _epsilon(x: XlaOp) -> float:
    return float(x.dtype.finfo.eps)


def _series(a: XlaOp, x: XlaOp, active: XlaOp) -> _Sums:
    """P(a, x) / _factor(a, x): the sum of x^n / ((a + 1)...(a + n)) over n >= 0, for the elements marked in
    `active`.
    """
    epsilon = _epsilon(x)

    def step(n: XlaOp, fixed: Sequence[XlaOp], state: Sequence[XlaOp]) -> tuple[XlaOp, Sequence[XlaOp]]:
        (a, x), (term, total, slope, total_slope) = fixed, state
        place = a + n
        next_slope = (slope - term / place) * (x / place)
        next_term = term * (x / place)
        total, total_slope = total + next_term, total_slope + next_slope
        more = (next_term > epsilon * total) | (abs(next_slope) > epsilon * abs(total_slope))
        return more, (next_term, total, next_slope, total_slope)

    one, zero = full(x, 1.0), full(x, 0.0)
    _, total, _, slope = iterated("igamma_series", step, active, (a, x), (one, one, zero, zero), _MOST)
    return _Sums(total, slope)


def _fraction(a: XlaOp, x: XlaOp, active: XlaOp) -> _Sums:
    """Returns Q(a, x) gamma(a) / (x^a exp(-x)) = 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...)).
    The convergents p / q and the derivatives of p and q with respect to a are computed by recurrences, for
    the elements marked in `active`.
    """
    epsilon = _epsilon(x)

    def step(n: XlaOp, fixed: Sequence[XlaOp], state: Sequence[XlaOp]) -> tuple[XlaOp, Sequence[XlaOp]]:
        (a, x), (p, q, p_slope, q_slope, old_p, old_q, old_p_slope, old_q_slope, _, _) = fixed, state
        numerator, denominator = n * (a - n), x + (2.0 * n + 1.0) - a
        new_p, new_q = denominator * p + numerator * old_p, denominator * q + numerator * old_q
        p_next = denominator * p_slope - p + numerator * old_p_slope + n * old_p
        q_next = denominator * q_slope - q + numerator * old_q_slope + n * old_q
        found = new_p / new_q
        slope = (p_next - found * q_next) / new_q
        before, slope_before = state[8:]
        more = (abs(found - before) > epsilon * abs(found)) | (
            abs(slope - slope_before) > epsilon * abs(slope)
        )
        # Only ratios matter, so all numbers are scaled down before they overflow.
        scale = e.Select(abs(new_q) > 1.0 / epsilon, full(x, epsilon), 1.0)
        carried = (new_p, new_q, p_next, q_next, p, q, p_slope, q_slope)
        return more, (*[v * scale for v in carried], found, slope)

    one, zero = full(x, 1.0), full(x, 0.0)
    first = 1.0 / (x + 1.0 - a)  # p / q. All values are divided by q, as its square may overflow.
    start = (first, one, zero, -first, zero, first, zero, zero, first, first * first)
    *_, value, slope = iterated("igamma_fraction", step, active, (a, x), start, _MOST)
    return _Sums(value, slope)


class _Uniform(NamedTuple):
    """Temme's expansion for x = a (1 + mu): Q(a, x) is `leading` + `rest` * `density`."""

    leading: XlaOp  # erfc(eta sqrt(a / 2)) / 2
    density: XlaOp  # exp(-a eta^2 / 2) / sqrt(2 pi a)
    rest: XlaOp  # the remainder, divided by `density`
    slope: XlaOp  # dQ/da, divided by `density`


def _uniform(a: XlaOp, x: XlaOp) -> _Uniform:
    mu = (x - a) / a
    half_square = -log1p_minus(mu)  # eta^2 / 2
    eta = e.Sqrt(2.0 * half_square)
    eta = e.Select(mu < 0.0, -eta, eta)
    root = e.Sqrt(a * half_square)
    leading = 0.5 * Erfc(e.Select(mu < 0.0, -root, root))
    density = e.Exp(-a * half_square) / e.Sqrt((2.0 * math.pi) * a)
    ratio = e.Select(eta == 0.0, 1.0, mu / eta)
    inverse = 1.0 / a
    rest = rest_slope = full(x, 0.0)
    power = full(x, 1.0)
    for k, coefficients in enumerate(_TEMME):
        degree = len(coefficients) - 1
        derivative = [c * (degree - n) for n, c in enumerate(coefficients[:-1])]
        value = polynomial(eta, coefficients)
        rest = rest + value * power
        # d eta / da, for constant x, is -ratio / a.
        rest_slope = rest_slope - (float(k) * value + polynomial(eta, derivative) * ratio) * power * inverse
        power = power * inverse
    slope = ratio - 0.5 * eta + (e.Log1p(mu) - 0.5 * inverse) * rest + rest_slope
    return _Uniform(leading, density, rest, slope)


class _Region(NamedTuple):
    """Preds that select the method for each element."""

    invalid: XlaOp
    upper: XlaOp  # Q is computed by the fraction; else P by the series
    uniform: XlaOp
    iterated: XlaOp  # by the fraction or the series: neither uniform nor a limit


def _region(a: XlaOp, x: XlaOp, invalid: XlaOp) -> _Region:
    invalid = invalid | (a == math.inf) & (x == math.inf) | (a != a) | (x != x) | (x < 0.0) | (a < 0.0)
    large = a > (_LARGE_SINGLE if a.dtype is F32 else _LARGE_DOUBLE)
    uniform = large & (abs(x - a) < _NEAR * a)
    limit = (x == 0.0) | (x == math.inf) | (a == 0.0) | (a == math.inf)
    return _Region(invalid, (x > 1.0) & (x > a), uniform, ~(invalid | uniform | limit))


def _parts(a: XlaOp, x: XlaOp) -> tuple[XlaOp, XlaOp, _Region]:
    """Returns (part, is_upper, region): P or Q, whichever is computed directly; whether it is Q; and the
    regions.
    """
    region = _region(a, x, (a == 0.0) & (x == 0.0))
    # Elements that use another method get harmless arguments here.
    small_a, small_x = (e.Select(region.iterated, v, 1.0) for v in (a, x))
    large_a, large_x = (e.Select(region.uniform, v, 1e5) for v in (a, x))
    lower = _series(small_a, small_x, region.iterated & ~region.upper)
    upper = _fraction(small_a, small_x, region.iterated & region.upper)
    factor = _factor(small_a, small_x)
    u = _uniform(large_a, large_x)
    tail = u.rest * u.density
    above = large_x > large_a
    wide = e.Select(above, u.leading + tail, 1.0 - u.leading - tail)
    # Below a, 1 - erfc(-z) / 2 is computed as erfc(z) / 2, which does not round to 1.
    below = 0.5 * Erfc(e.Sqrt(-large_a * log1p_minus((large_x - large_a) / large_a))) - tail
    wide = e.Select(above, wide, below)
    small = e.Select(region.upper, factor * small_a * upper.value, factor * lower.value)
    part = e.Min(e.Select(region.uniform, wide, small), 1.0)
    is_upper = e.Select(region.uniform, above, region.upper)
    part = e.Select((x == math.inf) | (a == 0.0) | (x == 0.0) | (a == math.inf), 0.0, part)
    is_upper = e.Select((x == math.inf) | (a == 0.0), True, is_upper)
    is_upper = e.Select((x == 0.0) | (a == math.inf), False, is_upper)
    return part, is_upper, region


@floats
def Igamma(a: XlaOp, x: XlaOp) -> XlaOp:
    """The regularized lower incomplete gamma function P(a, x): the integral of t^(a-1) exp(-t) from 0 to x,
    divided by gamma(a).
    """
    part, is_upper, region = _parts(a, x)
    return e.Select(region.invalid, math.nan, e.Select(is_upper, 1.0 - part, part))


@floats
def Igammac(a: XlaOp, x: XlaOp) -> XlaOp:
    """The regularized upper incomplete gamma function Q(a, x): the integral of t^(a-1) exp(-t) from x on,
    divided by gamma(a).
    """
    part, is_upper, region = _parts(a, x)
    return e.Select(region.invalid, math.nan, e.Select(is_upper, part, 1.0 - part))


SeriesWeights = Callable[[XlaOp, XlaOp], tuple[XlaOp, XlaOp]]
"""A function (a, x) -> (factor for the slope by series or fraction, factor for the slope by the uniform
expansion).
"""


def _slope(a: XlaOp, x: XlaOp, weights: SeriesWeights) -> XlaOp:
    region = _region(a, x, a == 0.0)
    small_a, small_x = (e.Select(region.iterated, v, 1.0) for v in (a, x))
    large_a, large_x = (e.Select(region.uniform, v, 1e5) for v in (a, x))
    lower = _series(small_a, small_x, region.iterated & ~region.upper)
    upper = _fraction(small_a, small_x, region.iterated & region.upper)
    log = e.Log(small_x) - Digamma(small_a + 1.0)  # d log(_factor) / da
    below = log * lower.value + lower.slope
    above = (small_a * log + 1.0) * upper.value + small_a * upper.slope
    found = weights(small_a, small_x)[0] * e.Select(region.upper, -above, below)
    wide = -weights(large_a, large_x)[1] * _uniform(large_a, large_x).slope
    found = e.Select(region.uniform, wide, found)
    found = e.Select((x == 0.0) | (x == math.inf) | (a == math.inf), 0.0, found)
    return e.Select(region.invalid, math.nan, found)


@floats
def IgammaGradA(a: XlaOp, x: XlaOp) -> XlaOp:
    """The derivative of P(a, x) with respect to a."""

    def weights(a: XlaOp, x: XlaOp) -> tuple[XlaOp, XlaOp]:
        factor = _factor(a, x)
        return factor, factor * e.Exp(stirling(a))

    return _slope(a, x, weights)


@floats
def RandomGammaGrad(a: XlaOp, x: XlaOp) -> XlaOp:
    """The derivative of a sample x of the gamma distribution with respect to its parameter a: -(dP/da) /
    (dP/dx). It is finite also where both derivatives underflow to 0.
    """

    def weights(a: XlaOp, x: XlaOp) -> tuple[XlaOp, XlaOp]:
        ratio = -(x / a)
        return ratio, ratio * e.Exp(stirling(a))

    return _slope(a, x, weights)
