"""tanh, sinh, cosh and the inverses."""

from __future__ import annotations

from axla.codegen.arithmetic import Reg
from axla.codegen.math.exponential import expm1, half_exp
from axla.codegen.math.logarithm import log1p
from axla.codegen.math.rational import odd_rational

LN2 = 0.6931471805599453

# tanh(x) = x P(x**2) / Q(x**2) up to 8, where it is 1 - 1.7 ulp.
_P = (2.9769613e-08, 4.279538e-05, 0.0069810287, 0.26278502, 1.9545904)
_Q = (1.665805e-06, 0.0006667707, 0.051140837, 0.91431504, 1.9545904)


def tanh(x: Reg) -> Reg:
    if x.element == "float":
        return odd_rational(x, _P, _Q, 8.0)
    # expm1(2 |x|) / (expm1(2 |x|) + 2); from 20 on it is 1.
    m = x.m
    e = expm1(m.least(m.abs(x), 20.0) * 2.0)
    return m.copysign(e / (e + 2.0), x)


def sinh(x: Reg) -> Reg:
    m = x.m
    size = m.abs(x)
    e = expm1(m.least(size, 1.0))
    near = (e + e / (e + 1.0)) * 0.5
    half = half_exp(size)
    return m.copysign(m.select(size < 1.0, near, half - 0.25 / half), x)


def cosh(x: Reg) -> Reg:
    half = half_exp(x.m.abs(x))
    return half + 0.25 / half


def _log1p_far(x: Reg, near: Reg) -> Reg:
    """log1p(near), or log(2 x) for x so large that its square is not needed (and might overflow)."""
    m = x.m
    far = x > 2.0**28
    return log1p(m.select(far, x - 1.0, near)) + m.select(far, m.number(x, LN2), 0.0)


def asinh(x: Reg) -> Reg:
    m = x.m
    size = m.abs(x)
    square = size * size
    return m.copysign(_log1p_far(size, size + square / (m.sqrt(square + 1.0) + 1.0)), x)


def acosh(x: Reg) -> Reg:
    m = x.m
    t = x - 1.0
    result = _log1p_far(x, t + m.sqrt(t * (t + 2.0)))
    return m.select(x < 1.0, float("nan"), result)


def atanh(x: Reg) -> Reg:
    m = x.m
    size = m.abs(x)
    return m.copysign(log1p((size + size) / (1.0 - size)) * 0.5, x)
