"""Odd functions that tend to 1, as quotients of polynomials."""

from __future__ import annotations

from collections.abc import Sequence

from axla.codegen.arithmetic import Reg


def odd_rational(x: Reg, p: Sequence[float], q: Sequence[float], end: float) -> Reg:
    """x P(z) / Q(z), z = x**2 at most end**2, and no further from 0 than 1.

    Beyond `end` the quotient is a constant, so the product grows past 1 and is cut there: infinities need
    no care.
    """
    m = x.m
    z = m.least(x * x, end * end)
    ratio = x * m.horner(z, p) / m.horner(z, q)
    return m.most(m.least(ratio, 1.0), -1.0)
