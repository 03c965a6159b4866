"""The functions exp, expm1 and logistic, of floats and complex numbers.

With x = n ln 2 + r and |r| <= ln 2 / 2, exp(x) = 2**n exp(r). Adding the magic number rounds x / ln 2 to n
and leaves n in the low bits as an integer, which saves two conversions.
"""

from __future__ import annotations

from axla.codegen import avx512
from axla.codegen.arithmetic import FRACTION, Reg
from axla.codegen.math.complex import INFINITY, divide
from axla.codegen.math.exponent import scale
from axla.codegen.math.tables import Pair, on_complex, on_floats
from axla.codegen.math.trigonometry import sincos
from axla.core.dataclass import dataclass

LOG2_E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class _Constants:
    """Constants for one float type: ln 2 in two parts, the first with so few bits that n * high is exact, and
    coefficients of the polynomials for the exponential.
    """

    high: float
    low: float
    least: float  # below, exp is 0
    most: float  # above, exp is infinite
    exp: tuple[float, ...]  # (exp(r) - 1 - r) / r**2, highest power first; least error relative to exp(r)
    expm1: tuple[float, ...]  # the same polynomial; least error relative to expm1(r)
    minus_one: float  # below, expm1 is -1


_CONSTANTS = {
    "float": _Constants(
        high=0.693145751953125, low=1.4286068203094173e-06, least=-104.0, most=89.0,
        exp=(0.0013950727, 0.008369025, 0.041666202, 0.16666518, 0.5),
        expm1=(0.00019914447, 0.0013941206, 0.008333272, 0.04166635, 0.16666667, 0.5),
        minus_one=-20.0,
    ),
    "double": _Constants(
        high=0.6931471803691238, low=1.9082149292705877e-10, least=-746.0, most=710.0,
        exp=(
            2.5118111317017412e-08, 2.763156201214393e-07, 2.755721551598579e-06, 2.4801489199489947e-05,
            0.00019841269918256213, 0.0013888888947682257, 0.008333333333306804, 0.0416666666665131,
            0.166666666666667,
            0.5000000000000013,
        ),
        expm1=(
            2.092462490983233e-09, 2.5109261787585204e-08, 2.7557242176081677e-07, 2.755724360926027e-06,
            2.4801587361232875e-05, 0.000198412698866733, 0.0013888888888866498, 0.008333333333321436,
            0.0416666666666667, 0.16666666666666677, 0.5,
        ),
        minus_one=-40.0,
    ),
}  # fmt: skip


def reduce(x: Reg) -> tuple[Reg, Reg, Reg]:
    """(n, n + magic, r) with x = n ln 2 + r, for x in the range of exp."""
    m, k = x.m, _CONSTANTS[x.element]
    magic = m.magic(x)
    shifted = m.fma(x, LOG2_E, magic)
    n = shifted - magic
    r = m.fma(n, -k.low, m.fma(n, -k.high, x))
    return n, shifted, r


@on_floats("exponential")
def exp(x: Reg) -> Reg:
    """The exponential function. Where the result is certainly 0, as for masked scores of attention, no
    denormal is computed: instructions with denormal results take a hundred times as long.
    """
    m, k = x.m, _CONSTANTS[x.element]
    zero, nothing = x < k.least, m.number(x, 0.0)
    if avx512.applies(x):  # results that underflow take no longer
        n, _, r = reduce(m.least(m.select(zero, m.number(x, 10.0 * k.least), x), k.most))
        return avx512.scalef(m.horner(r, (*k.exp, 1.0, 1.0)), n)
    n, shifted, r = reduce(m.least(m.select(zero, nothing, x), k.most))
    return m.select(zero, nothing, scale(m.horner(r, (*k.exp, 1.0, 1.0)), n, shifted))


def half_exp(x: Reg) -> Reg:
    """Computes exp(x) / 2, which is finite wherever sinh and cosh are; for x >= 0."""
    m, k = x.m, _CONSTANTS[x.element]
    n, shifted, r = reduce(m.least(x, k.most + 0.8))
    return scale(m.horner(r, (*k.exp, 1.0, 1.0)), n - 1.0, shifted - 1.0)


@on_floats("exponential-minus-one")
def expm1(x: Reg) -> Reg:
    """Computes exp(x) - 1 without cancellation near 0."""
    m, k = x.m, _CONSTANTS[x.element]
    n, shifted, r = reduce(m.most(m.least(x, k.most), k.minus_one))
    p = m.fma(r * r, m.horner(r, k.expm1), r)
    # Computes 2**n p + (2**n - 1), with all terms halved so that 2**n does not overflow.
    half = m.number(x, 0.5)
    size = (half.bits() + (shifted.bits() << FRACTION[x.element])).floats()
    far = m.fma(size, p, size - 0.5)
    return m.copysign(m.select(n.eq(0.0), p, far + far), x)


@on_floats("logistic")
def logistic(x: Reg) -> Reg:
    """Computes 1 / (1 + exp(-x)); for negative x exp(x) / (1 + exp(x)), which keeps small results
    accurate.
    """
    m = x.m
    e = exp(-m.abs(x))
    return m.select(x < 0.0, e, m.number(x, 1.0)) / (e + 1.0)


@on_complex("exponential")
def complex_exp(re: Reg, im: Reg) -> Pair:
    """Computes exp(re) (cos(im) + i sin(im)), without intermediate overflow."""
    m = re.m
    sine, cosine = sincos(im)
    # For large |re|, multiply by exp(re / 2) twice: exp(re) may overflow where its product with a small
    # cosine does not.
    whole, half = exp(re), exp(re * 0.5)
    near = m.abs(re) < (80.0 if re.element == "float" else 700.0)
    a = m.select(near, whole * cosine, half * cosine * half)
    b = m.select(near, whole * sine, half * sine * half)
    real_axis = im.eq(0.0)
    a, b = m.select(real_axis, whole, a), m.select(real_axis, im, b)
    return m.select(re.eq(INFINITY) & ~(m.abs(im) < INFINITY), INFINITY, a), b


@on_complex("exponential-minus-one")
def complex_expm1(re: Reg, im: Reg) -> Pair:
    """Computes exp(z) - 1; its real part is exp(x) cos(y) - 1 = expm1(x) cos(y) - 2 sin(y / 2)**2 for z = x +
    i y.
    """
    m = re.m
    sine, cosine = sincos(im)
    half, _ = sincos(im * 0.5)
    real_axis = im.eq(0.0)
    minus_one = expm1(re)
    a = m.fma(minus_one, cosine, half * half * -2.0)
    return m.select(real_axis, minus_one, a), m.select(real_axis, im, exp(re) * sine)


@on_complex("logistic")
def complex_logistic(re: Reg, im: Reg) -> Pair:
    """Computes 1 / (1 + exp(-z)) of a complex number z."""
    a, b = complex_exp(-re, -im)
    one = re.m.number(re, 1.0)
    return divide(one, re.m.number(re, 0.0), a + 1.0, b)
