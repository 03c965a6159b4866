"""Discrete Fourier transforms of a few values in registers: sum over k of x[k] * exp(-2 pi i j k / r) for j <
r.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

from axla.codegen.arithmetic import Arithmetic, Reg

Complex = tuple[Reg, Reg]


def times(m: Arithmetic, a: Complex, b: Complex) -> Complex:
    """The product of complex numbers, each part rounded twice at most."""
    (x, y), (u, v) = a, b
    return m.fma(x, u, -(y * v)), m.fma(x, v, y * u)


def plus(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def minus(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def turned(a: Complex) -> Complex:
    """a * -i."""
    return a[1], -a[0]


def butterfly(m: Arithmetic, x: Sequence[Complex]) -> list[Complex]:
    """The transform of as many values as there are."""
    if len(x) == 2:
        return [plus(x[0], x[1]), minus(x[0], x[1])]
    if len(x) == 4:
        even, odd = plus(x[0], x[2]), plus(x[1], x[3])
        difference, other = minus(x[0], x[2]), turned(minus(x[1], x[3]))
        return [plus(even, odd), plus(difference, other), minus(even, odd), minus(difference, other)]
    return _odd(m, x)


def _odd(m: Arithmetic, x: Sequence[Complex]) -> list[Complex]:
    """Of an odd number: x[k] and x[r - k] meet conjugate factors."""
    r = len(x)
    half = (r - 1) // 2
    sums = [plus(x[k], x[r - k]) for k in range(1, half + 1)]
    differences = [minus(x[k], x[r - k]) for k in range(1, half + 1)]
    total = x[0]
    for s in sums:
        total = plus(total, s)
    found: list[Complex] = [total] * r
    for j in range(1, half + 1):
        even, odd = x[0], None
        for k in range(1, half + 1):
            angle = 2 * pi * (j * k % r) / r
            c, s = cos(angle), sin(angle)
            a, b = sums[k - 1], differences[k - 1]
            even = m.fma(a[0], c, even[0]), m.fma(a[1], c, even[1])
            odd = (b[0] * s, b[1] * s) if odd is None else (m.fma(b[0], s, odd[0]), m.fma(b[1], s, odd[1]))
        assert odd is not None
        found[j] = plus(even, turned(odd))
        found[r - j] = minus(even, turned(odd))
    return found
