"""Computes odd functions with the limits 1 and -1, as quotients of polynomials."""

from __future__ import annotations

from collections.abc import Sequence

from axla.codegen.arithmetic import Reg


def odd_rational(x: Reg, p: Sequence[float], q: Sequence[float], end: float) -> Reg:
    """Computes x P(z) / Q(z) with z = min(x**2, end**2), clamped to [-1, 1].

    Beyond `end` the quotient is constant, so the product grows past 1 and is clamped: infinities need no
    special case.
    """
    m = x.m
    z = m.least(x * x, end * end)
    ratio = x * m.horner(z, p) / m.horner(z, q)
    return m.most(m.least(ratio, 1.0), -1.0)
