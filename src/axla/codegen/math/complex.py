"""Complex arithmetic on pairs of registers."""

from __future__ import annotations

from collections.abc import Callable

from axla.codegen.arithmetic import Reg

Pair = tuple[Reg, Reg]


def absolute(re: Reg, im: Reg) -> Reg:
    """The modulus, without overflow on the way."""
    m = re.m
    a, b = m.abs(re), m.abs(im)
    large, small = m.select(a > b, a, b), m.select(a > b, b, a)
    ratio = small / large
    size = large * m.sqrt(m.fma(ratio, ratio, 1.0))
    size = m.select(small.eq(0.0), large, size)
    return m.select(a.eq(float("inf")) | b.eq(float("inf")), float("inf"), size)


def multiply(a: Reg, b: Reg, c: Reg, d: Reg) -> Pair:
    return a * c - b * d, a * d + b * c


UNARY: dict[str, Callable[[Reg, Reg], Pair]] = {
    "negate": lambda re, im: (-re, -im),
}

BINARY: dict[str, Callable[[Reg, Reg, Reg, Reg], Pair]] = {
    "add": lambda a, b, c, d: (a + c, b + d),
    "subtract": lambda a, b, c, d: (a - c, b - d),
    "multiply": multiply,
}
