"""Modified Bessel functions of the first kind, scaled by exp(-|x|).

They are computed with the Chebyshev series of Cephes: one in x for |x| up to 8, one in 1/x above. The
coefficients are those for f64; for f32 the last few of them suffice.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.builder import elementwise as e
from axla.builder.compositions import floats
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import F32

# Chebyshev coefficients of exp(-x) i0(x) for 0 <= x <= 8, in x / 2 - 2; the highest degree first.
_I0E_NEAR = (
    -4.4153416464793395e-18, 3.3307945188222384e-17, -2.431279846547955e-16, 1.715391285555133e-15,
    -1.1685332877993451e-14, 7.676185498604936e-14, -4.856446783111929e-13, 2.95505266312964e-12,
    -1.726826291441556e-11, 9.675809035373237e-11, -5.189795601635263e-10, 2.6598237246823866e-09,
    -1.300025009986248e-08, 6.046995022541919e-08, -2.670793853940612e-07, 1.1173875391201037e-06,
    -4.4167383584587505e-06, 1.6448448070728896e-05, -5.754195010082104e-05, 0.00018850288509584165,
    -0.0005763755745385824, 0.0016394756169413357, -0.004324309995050576, 0.010546460394594998,
    -0.02373741480589947, 0.04930528423967071, -0.09490109704804764, 0.17162090152220877,
    -0.3046826723431984, 0.6767952744094761,
)  # fmt: skip
# Chebyshev coefficients of exp(-x) i0(x) sqrt(x) for x >= 8, in 32 / x - 2.
_I0E_FAR = (
    -7.233180487874754e-18, -4.830504485944182e-18, 4.46562142029676e-17, 3.461222867697461e-17,
    -2.8276239805165836e-16, -3.425485619677219e-16, 1.7725601330565263e-15, 3.8116806693526224e-15,
    -9.554846698828307e-15, -4.150569347287222e-14, 1.54008621752141e-14, 3.8527783827421426e-13,
    7.180124451383666e-13, -1.7941785315068062e-12, -1.3215811840447713e-11, -3.1499165279632416e-11,
    1.1889147107846439e-11, 4.94060238822497e-10, 3.3962320257083865e-09, 2.266668990498178e-08,
    2.0489185894690638e-07, 2.8913705208347567e-06, 6.889758346916825e-05, 0.0033691164782556943,
    0.8044904110141088,
)  # fmt: skip
# Chebyshev coefficients of exp(-x) i1(x) / x for 0 <= x <= 8, in x / 2 - 2; the highest degree first.
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
# Chebyshev coefficients of exp(-x) i1(x) sqrt(x) for x >= 8, in 32 / x - 2.
_I1E_FAR = (
    7.5172963108421052e-18, 4.4143483230717077e-18, -4.6503053684893586e-17, -3.2095259219934238e-17,
    2.96262899764595e-16, 3.3082023109209285e-16, -1.8803547755107825e-15, -3.8144030724370075e-15,
    1.0420276984128802e-14, 4.272440016711951e-14, -2.1015418427726643e-14, -4.0835511110921974e-13,
    -7.1985517762459084e-13, 2.0356285441470896e-12, 1.4125807436613782e-11, 3.2526035830154884e-11,
    -1.8974958123505413e-11, -5.5897434621965838e-10, -3.835380385964237e-09, -2.6314688468895196e-08,
    -2.5122362378702088e-07, -3.8825648088776906e-06, -0.00011058893876262371, -0.0097610974913614687,
    0.77857623501828011,
)  # fmt: skip
_SINGLE = 18, 7  # the numbers of last terms, of the near and the far series, that suffice for f32


def _chebyshev(x: XlaOp, coefficients: Sequence[float]) -> XlaOp:
    """Sums a Chebyshev series with Clenshaw's recurrence. The last coefficient (of degree 0) counts half."""
    last = before = x * 0.0
    current = last + coefficients[0]
    for coefficient in coefficients[1:]:
        before, last = last, current
        current = x * last - before + coefficient
    return 0.5 * (current - before)


def _both_series(size: XlaOp, near: Sequence[float], far: Sequence[float]) -> tuple[XlaOp, XlaOp]:
    """Returns (value of the series `near`, value of the series `far`) for the absolute value `size` of x. The
    first is valid for sizes up to 8, the second for sizes of at least 8.
    """
    if size.dtype is F32:
        near, far = near[-_SINGLE[0] :], far[-_SINGLE[1] :]
    large = e.Max(size, 8.0)  # a NaN stays NaN
    return _chebyshev(0.5 * size - 2.0, near), _chebyshev(32.0 / large - 2.0, far) / e.Sqrt(large)


@floats
def BesselI0e(x: XlaOp) -> XlaOp:
    """exp(-|x|) times the modified Bessel function of the first kind of order 0."""
    size = abs(x)
    small, large = _both_series(size, _I0E_NEAR, _I0E_FAR)
    return e.Select(size <= 8.0, small, large)


@floats
def BesselI1e(x: XlaOp) -> XlaOp:
    """exp(-|x|) times the modified Bessel function of the first kind of order 1."""
    size = abs(x)
    small, large = _both_series(size, _I1E_NEAR, _I1E_FAR)
    return e.Select(size <= 8.0, x * small, e.Sign(x) * large)
