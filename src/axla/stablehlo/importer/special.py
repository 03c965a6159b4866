"""Functions of CHLO that neither HLO nor its builder has, composed of builder operations.

Bessel functions by Chebyshev series (after Cephes), the zeta function by Euler and Maclaurin's sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from axla.builder import compositions
from axla.builder import elementwise as e
from axla.builder.broadcasting import full
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import F32

# exp(-x) i1(x) / x for 0 <= x <= 8 in x / 2 - 2, the highest degree first.
_I1E_NEAR = (
    2.7779141127610464e-18, -2.111421214358166e-17, 1.5536319577362005e-16, -1.1055969477353862e-15,
    7.6006842947354077e-15, -5.0421855047279118e-14, 3.2237933659455748e-13, -1.9839743977649436e-12,
    1.1736186298890901e-11, -6.6634897235020271e-11, 3.6255902815521172e-10, -1.8872497517228294e-09,
    9.3815373864957726e-09, -4.4450591287963281e-08, 2.0032947535521353e-07, -8.5687202646954547e-07,
    3.4702513081376785e-06, -1.3273163656039436e-05, 4.7815651075500542e-05, -0.00016176081582589674,
    0.00051228595616857576, -0.0015135724506312532, 0.0041564229443128882, -0.010564084894626197,
    0.024726449030626516, -0.052945981208094989, 0.10264365868984709, -0.17641651835783406,
    0.25258718644363365,
)  # fmt: skip
# exp(-x) i1(x) sqrt(x) for x >= 8 in 32 / x - 2.
_I1E_FAR = (
    7.5172963108421052e-18, 4.4143483230717077e-18, -4.6503053684893586e-17, -3.2095259219934238e-17,
    2.96262899764595e-16, 3.3082023109209285e-16, -1.8803547755107825e-15, -3.8144030724370075e-15,
    1.0420276984128802e-14, 4.272440016711951e-14, -2.1015418427726643e-14, -4.0835511110921974e-13,
    -7.1985517762459084e-13, 2.0356285441470896e-12, 1.4125807436613782e-11, 3.2526035830154884e-11,
    -1.8974958123505413e-11, -5.5897434621965838e-10, -3.835380385964237e-09, -2.6314688468895196e-08,
    -2.5122362378702088e-07, -3.8825648088776906e-06, -0.00011058893876262371, -0.0097610974913614687,
    0.77857623501828011,
)  # fmt: skip
_SINGLE = 17, 7  # terms that count in f32


def _chebyshev(x: XlaOp, coefficients: Sequence[float]) -> XlaOp:
    """Clenshaw's recurrence; the last coefficient counts half."""
    last = before = x * 0.0
    current = last + coefficients[0]
    for coefficient in coefficients[1:]:
        before, last = last, current
        current = x * last - before + coefficient
    return 0.5 * (current - before)


def bessel_i1e(x: XlaOp) -> XlaOp:
    """exp(-|x|) times the modified Bessel function of the first kind of order 1."""
    near, far = _SINGLE if x.dtype is F32 else (len(_I1E_NEAR), len(_I1E_FAR))
    size = abs(x)
    small = size * _chebyshev(0.5 * size - 2.0, _I1E_NEAR[-near:])
    large = _chebyshev(32.0 / size - 2.0, _I1E_FAR[-far:]) / e.Sqrt(size)
    return e.Sign(x) * e.Select(size <= 8.0, small, large)


# Bernoulli's numbers B(2k) / (2k)!, k = 12 to 1.
_BERNOULLI = (
    -236364091 / 1693824136731743669452800000, 77683 / 14101100039391805440000,
    -174611 / 802857662698291200000, 43867 / 5109094217170944000, -3617 / 10670622842880000,
    1 / 74724249600, -691 / 1307674368000, 1 / 47900160, -1 / 1209600, 1 / 30240, -1 / 720, 1 / 12,
)  # fmt: skip
_TERMS = 10  # of the sum before its rest is estimated


def zeta(x: XlaOp, q: XlaOp) -> XlaOp:
    """The Hurwitz zeta function, the sum of (q + k)^-x over k >= 0."""
    total, place = e.Pow(q, -x), q
    for _ in range(_TERMS - 1):
        place = place + 1.0
        total = total + e.Pow(place, -x)
    place = place + 1.0
    term = e.Pow(place, -x)
    rest = 0.0 * x
    inverse = 1.0 / (place * place)
    # The derivatives of t^-x: each of higher order has two more factors x + k.
    for number, coefficient in enumerate(_BERNOULLI):
        k = 2.0 * (len(_BERNOULLI) - 1 - number)
        factor = x / place if k == 0 else (x + k) * (x + (k - 1.0)) * inverse
        rest = factor * (coefficient + rest)
    estimate = total + term * place / (x - 1.0) + term * (0.5 + rest)
    tiny = 1.4013e-45 if x.dtype is F32 else 4.9406564584124654e-324
    found = e.Select(abs(term) < abs(total) * tiny, total, estimate)
    found = e.Select(x < 1.0, math.nan, found)
    found = e.Select((q <= 0.0) & (x != e.Floor(x)), math.nan, found)
    even = (x == e.Floor(x)) & (e.Rem(x, 2.0) == 0.0)
    pole = e.Select(even, full(x, math.inf), math.nan)
    found = e.Select((q <= 0.0) & (q == e.Floor(q)), pole, found)
    return e.Select(x == 1.0, math.inf, found)


def polygamma(n: XlaOp, x: XlaOp) -> XlaOp:
    """The derivative of order n of digamma."""
    sign = 2.0 * e.Rem(n, 2.0) - 1.0
    found = sign * e.Exp(compositions.Lgamma(n + 1.0)) * zeta(n + 1.0, x)
    found = e.Select(n == 0.0, compositions.Digamma(x), found)
    return e.Select((n < 0.0) | (n != e.Floor(n)), math.nan, found)
