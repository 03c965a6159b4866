"""Computes x ** y of a scalar f64 by table lookup, for ordinary operands: the chain of dependent operations
is half as long as with polynomials alone.

log(x) = k ln 2 + log(c) + log(1 + r), where 1 / c is a multiple of 1/128 and r = z / c - 1 is exact; the
first bits of x = 2**k z choose c. exp(u) = 2**k 2**(i / 128) exp(r).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import cache
from typing import Literal

from axla.codegen.arithmetic import Reg

_BITS = 7  # bits of a table index
_SHIFT = 52 - _BITS  # position of the last bit of an index in a fraction
_LEAST = 0x3FE6800000000000  # 0.703125 <= z < 1.40625, so that c near 1 is exactly 1
_LN2 = (0.6931471805601177, -1.7239444525614835e-13)  # a multiple of 2**-40, and the rest
_STEP = (0.6931471805599453 / 128, 2.3190468138462996e-17 / 128)  # ln 2 / 128 in two parts
_USUAL = 708.0  # |y log(x)| below which the result is a normal number


def applies(x: Reg) -> bool:
    """Whether tables can be used for x: a scalar on a 64-bit CPU with fused multiply-add."""
    target = x.m.target
    return x.lanes == 1 and target.has_fma and not target.launched and target.form.pointer_bytes == 8


def usual_power(x: Reg, y: Reg) -> tuple[Reg, Reg]:
    """(x ** y, whether it is valid): it is for a normal positive x and a result far from overflow and
    underflow.
    """
    m, order = x.m, x.m.target.form.byte_order
    bits = x.bits()
    offset = bits - _LEAST
    inverse, log_c, log_c_low = _row(x, _logarithms(order), (offset >> _SHIFT) & 127, 3)
    k = m.small_integer(offset >> 52)
    r = m.fma((bits - (offset & -(1 << 52))).floats(), inverse, -1.0)
    # k ln 2 + log(c) is exact; then r and -r**2 / 2 with their errors, and the rest of the series.
    total, low = m.fast_two_sum(m.fma(k, _LN2[0], log_c), r)
    half = r * -0.5
    square = r * r
    total, low2 = m.fast_two_sum(total, half * r)
    low3 = m.fma(half, r, -(half * r))
    # Terms that are available early are added first: a loop waits for the longest chain of dependent
    # operations.
    tail = m.fma(square * square, m.fma(square, 1 / 9, m.fma(r, -1 / 8, 1 / 7)),
                 m.fma(square, m.fma(r, -1 / 6, 0.2), m.fma(r, -0.25, 1 / 3)))  # fmt: skip
    low = m.fma(r * square, tail, m.fma(k, _LN2[1], log_c_low) + low) + (low2 + low3)
    high, low = m.fast_two_sum(total, low)
    product, error = m.two_product(y, high)
    return _exp(product, m.fma(y, low, error), order), _is_normal(bits) & (m.abs(product) < _USUAL)


def _is_normal(bits: Reg) -> Reg:
    """Whether a number is positive, normal and finite."""
    least = 1 << 52
    return (bits - least).ult(0x7FF0000000000000 - least)


def _exp(x: Reg, low: Reg, order: Literal["little", "big"]) -> Reg:
    """Computes exp(x + low) for |x| below `_USUAL`. `order` is the byte order of the machine."""
    m = x.m
    shifted = m.fma(x, 1 / sum(_STEP), m.magic(x))
    n, count = shifted - m.magic(x), shifted.bits()
    r = m.fma(n, -_STEP[0], x) + m.fma(n, -_STEP[1], low)
    root, root_low = _row(x, _roots(order), count & 127, 2)
    size = (root.bits() + ((count >> _BITS) << 52)).floats()
    square = r * r
    tail = m.fma(square, m.fma(r, 1 / 120, 1 / 24), m.fma(r, 1 / 6, 0.5))
    return m.fma(size, m.fma(square, tail, root_low + r), size)


def _row(x: Reg, content: bytes, number: Reg, width: int) -> Sequence[Reg]:
    """Loads row number `number` of a table with `width` f64 numbers per row. `content` has the bytes of the
    table; x is any register of the function.
    """
    f = x.m.f
    row = f.data(content).item(number.ssa, 8 * width)
    return [x.m.reg(f.load("double", row.at(8 * k), 8, readonly=True)) for k in range(width)]


@cache
def _logarithms(order: Literal["little", "big"]) -> bytes:
    """The table, as bytes, with rows of 1 / c, log(c) rounded to a multiple of 2**-40, and the remainder of
    log(c); `order` is the byte order.
    """
    rows: list[float] = []
    with localcontext(prec=50):
        for k in range(1 << _BITS):
            middle = struct.unpack("d", struct.pack("q", _LEAST + (2 * k + 1 << _SHIFT - 1)))[0]
            inverse = round(128 / middle) / 128
            log = -Decimal(inverse).ln()
            high = float(round(log * 2**40)) / 2**40
            rows += inverse, high, float(log - Decimal(high))
    return _packed(rows, order)


@cache
def _roots(order: Literal["little", "big"]) -> bytes:
    """The table, as bytes, with rows of 2 ** (i / 128) and its relative rounding error; `order` is the byte
    order.
    """
    rows: list[float] = []
    with localcontext(prec=50):
        for k in range(1 << _BITS):
            root = (Decimal(k) / 128 * Decimal(2).ln()).exp()
            rows += float(root), float(root / Decimal(float(root)) - 1)
    return _packed(rows, order)


def _packed(rows: Sequence[float], order: Literal["little", "big"]) -> bytes:
    return struct.pack(f"{'<' if order == 'little' else '>'}{len(rows)}d", *rows)
