"""The function atan2, and asin, acos and atan, which are computed by it."""

from __future__ import annotations

from axla.codegen.arithmetic import Reg
from axla.codegen.math.tables import on_floats

# Coefficients of (atan(t) - t) / t**3 as polynomials in t**2: for |t| <= 1, and for |t| <= tan(pi / 8).
_ATAN_F32 = (
    0.0029745924, -0.016581194, 0.043553565, -0.075805806, 0.10678942, -0.1421421, 0.19994137, -0.33333167,
)  # fmt: skip
_ATAN_F64 = (
    -0.01789240507065881, 0.03805157152368911, -0.05038814913015145, 0.058477854773455455,
    -0.06663090458745452,
    0.07692059079234731, -0.09090897697249645, 0.11111110781473889, -0.14285714280159184, 0.1999999999995324,
    -0.333333333333332,
)  # fmt: skip

_HALF_PI = {
    "float": (1.5707963705062866, -4.3711390001862426e-08),
    "double": (1.5707963267948966, 6.123233995736766e-17),
}
_QUARTER_PI = 0.7853981633974483


def _atan_unit(q: Reg) -> Reg:
    """The inverse tangent of q, which is in [0, 1]."""
    m = q.m
    if q.element == "float":
        z = q * q
        return m.fma(z * q, m.horner(z, _ATAN_F32), q)
    # For q > tan(pi / 8), atan(q) = pi / 4 + atan((q - 1) / (q + 1)).
    large = q > 0.41421356237309503
    t = m.select(large, (q - 1.0) / (q + 1.0), q)
    z = t * t
    tail = z * t * m.horner(z, _ATAN_F64)
    base = m.select(large, m.number(q, _QUARTER_PI), 0.0)
    low = m.select(large, m.number(q, _HALF_PI["double"][1] / 2), 0.0)
    return base + (t + (tail + low))


@on_floats("atan2")
def atan2(y: Reg, x: Reg) -> Reg:
    """The angle of the point (x, y), in [-pi, pi]; signed zeros and infinities count as in C."""
    m = x.m
    a, b = m.abs(y), m.abs(x)
    swap = a > b
    small, large = m.select(swap, b, a), m.select(swap, a, b)
    quotient = small / large
    quotient = m.select(large.eq(0.0), 0.0, m.select(small.eq(float("inf")), m.number(x, 1.0), quotient))
    angle = _atan_unit(quotient)
    high, low = _HALF_PI[x.element]
    left = x.bits() < 0
    steep = high - (m.select(left, -angle, angle) - low)
    angle = m.select(swap, steep, m.select(left, 2.0 * high - (angle - 2.0 * low), angle))
    return m.select(x.is_nan() | y.is_nan(), float("nan"), m.copysign(angle, y))


def atan(x: Reg) -> Reg:
    """The inverse tangent, as `atan2(x, 1)`."""
    return atan2(x, x.m.number(x, 1.0))


def _cosine_of(sine: Reg) -> Reg:
    """The cosine sqrt(1 - s**2) for a sine s; NaN for |s| > 1."""
    return sine.m.sqrt((1.0 - sine) * (sine + 1.0))


@on_floats("asin")
def asin(x: Reg) -> Reg:
    """The inverse sine, as `atan2(x, sqrt(1 - x^2))`."""
    return atan2(x, _cosine_of(x))


@on_floats("acos")
def acos(x: Reg) -> Reg:
    """The inverse cosine, as `atan2(sqrt(1 - x^2), x)`."""
    return atan2(_cosine_of(x), x)
