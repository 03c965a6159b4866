"""The functions sin, cos and tan."""

from __future__ import annotations

from axla.codegen.arithmetic import Reg
from axla.codegen.math.reduction import reduce
from axla.codegen.math.tables import on_floats

# Coefficients of (sin(r) - r) / r**3 and (cos(r) - 1 + r**2 / 2) / r**4 as polynomials in r**2, for |r| <= pi
# / 4.
_SIN = {
    "float": (-0.00019516656, 0.008332173, -0.16666655),
    "double": (
        1.5896504914295736e-10, -2.5050753263997933e-08, 2.7557313662054396e-06, -0.00019841269829725197,
        0.008333333333322316, -0.16666666666666632,
    ),
}  # fmt: skip
_COS = {
    "float": (2.443773e-05, -0.0013887362, 0.041666646),
    "double": (
        -1.1359448652710992e-11, 2.0875719558168133e-09, -2.75573143260267e-07, 2.4801587289394913e-05,
        -0.001388888888887399, 0.0416666666666666,
    ),
}  # fmt: skip


def _both(r: Reg) -> tuple[Reg, Reg]:
    """(sin(r), cos(r)) of a reduced argument r."""
    m = r.m
    z = r * r
    sine = m.fma(z * r, m.horner(z, _SIN[r.element]), r)
    cosine = m.fma(z * z, m.horner(z, _COS[r.element]), m.fma(z, -0.5, 1.0))
    return sine, cosine


def _in_quadrant(r: Reg, q: Reg) -> Reg:
    """Computes sin(q pi / 2 + r) for a reduced argument r."""
    m = r.m
    sine, cosine = _both(r)
    value = m.select((q & 1).ne(0), cosine, sine)
    sign_bit = 31 if r.element == "float" else 63
    return (value.bits() ^ ((q & 2) << (sign_bit - 1))).floats()


@on_floats("sine")
def sin(x: Reg) -> Reg:
    """The sine, after a reduction of x to at most pi / 4."""
    m = x.m
    r, q = reduce(x)
    # sin(-0) is -0; the reduction returns +0 for it.
    return m.select(x.eq(0.0), x, _in_quadrant(r, q))


@on_floats("cosine")
def cos(x: Reg) -> Reg:
    """The cosine, computed as sin(x + pi / 2)."""
    r, q = reduce(x)
    return _in_quadrant(r, q + 1)


def sincos(x: Reg) -> tuple[Reg, Reg]:
    """(sin(x), cos(x)), with one argument reduction for both."""
    m = x.m
    r, q = reduce(x)
    return m.select(x.eq(0.0), x, _in_quadrant(r, q)), _in_quadrant(r, q + 1)


@on_floats("tan")
def tan(x: Reg) -> Reg:
    """The tangent: with the sine s and cosine c of the reduced angle, s / c in even quadrants and -c / s in
    odd ones.
    """
    m = x.m
    r, q = reduce(x)
    sine, cosine = _both(r)
    odd = (q & 1).ne(0)
    value = m.select(odd, -cosine, sine) / m.select(odd, sine, cosine)
    return m.select(x.eq(0.0), x, value)
