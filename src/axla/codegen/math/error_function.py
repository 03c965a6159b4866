"""The error function, `erf`."""

from __future__ import annotations

from axla.codegen.arithmetic import Reg
from axla.codegen.math.exponential import exp
from axla.codegen.math.rational import odd_rational
from axla.codegen.math.tables import on_floats

# erf(x) = x P(x**2) / Q(x**2) up to 3.7.
_P = (3.720602e-06, 0.0004799365, 0.0058394824, 0.08647712, 0.30468255, 1.8755101)
_Q = (6.685239e-05, 0.0018589194, 0.024043802, 0.18511447, 0.82405996, 1.6621276)

# Coefficients of erf(x) / x as a polynomial in x**2, for |x| < 1.
_NEAR = (
    5.945259471283729e-11, -1.136566458166019e-09, 1.4657879477999462e-08, -1.6350025167744905e-07,
    1.6460972811809182e-06, -1.4925593506565148e-05, 0.00012055331036886179, -0.000854832697874184,
    0.00522397762478086,
    -0.026866170645072893, 0.11283791670954857, -0.3761263890318375, 1.1283791670955126,
)  # fmt: skip
# Coefficients of exp(x**2) erfc(x) as a polynomial in (x - 3) / (x + 3), for 1 <= x <= 5.95.
_FAR = (
    1.520329734732133e-05, 0.00010295186209078787, 7.639408909629045e-05, -0.0005810921200340671,
    0.000713175338287023, 0.004270353820642683, -0.024392327872431778, 0.07166585013110062,
    -0.150115936343673,
    0.24560380166430013, -0.326233560045902, 0.17900115118135376,
)  # fmt: skip


@on_floats("erf")
def erf(x: Reg) -> Reg:
    """The error function: an odd rational approximation for f32; a polynomial and exp(-x^2) for f64."""
    m = x.m
    if x.element == "float":
        return odd_rational(x, _P, _Q, 3.7)
    near = x * m.horner(x * x, _NEAR)
    size = m.least(m.abs(x), 5.95)  # from there on erf is 1
    tail = exp(-(size * size)) * m.horner((size - 3.0) / (size + 3.0), _FAR)
    return m.select(m.abs(x) < 1.0, near, m.copysign(1.0 - tail, x))
