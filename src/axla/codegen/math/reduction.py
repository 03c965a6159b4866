"""Argument reduction for trigonometric functions: x = q pi / 2 + r with |r| <= pi / 4, for every finite x.

For small arguments, multiples of pi / 2, written as a sum of three or four numbers, are subtracted. If a lane
is too large for that, a function of the module multiplies the integer fraction of x exactly with those bits
of 2 / pi that matter for its exponent, and takes the product modulo 4.
"""

from __future__ import annotations

from axla.codegen.arithmetic import Reg

_TWO_OVER_PI = 0.6366197723675814
_PI_OVER_2 = 1.5707963267948966

# pi / 2 as sums. Without fused multiply-add the parts have so few bits that their products with q are exact.
_FUSED = {
    "float": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "double": (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21),
}
_SPLIT = {
    "float": (1.5703125, 0.0004837512969970703, 7.549533620476723e-08, 2.5633440682570896e-12),
    "double": _FUSED["double"],
}
# The largest |x| for which these products are exact and the result is right to an ulp.
_LIMIT_FUSED = {"float": 100000.0, "double": 1000000.0}
_LIMIT_SPLIT = {"float": 6000.0, "double": 1000000.0}

# The bits of 2 / pi, 32 to a word, after 64 zero bits.
_BITS = (
    0x00000000, 0x00000000, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041,
    0xFE5163AB, 0xDEBBC561, 0xB7246E3A, 0x424DD2E0, 0x06492EEA, 0x09D1921C, 0xFE1DEB1C, 0xB129A73E,
    0xE88235F5, 0x2EBB4484, 0xE99C7026, 0xB45F7E41, 0x3991D639, 0x835339F4, 0x9C845F8B, 0xBDF9283B,
    0x1FF897FF, 0xDE05980F, 0xEF2F118B, 0x5A0A6D1F, 0x6D367ECF, 0x27CB09B7, 0x4F463F66, 0x9E5FEA2D,
    0x7527BAC7, 0xEBE5F17B, 0x3D0739F7, 0x8A5292EA, 0x6BFB5FB1, 0x1F8D5D08, 0x56033046, 0xFC7B6BAB,
    0xF0CFBC20,
)  # fmt: skip
_LOW = 0xFFFFFFFF


_NO_TURN = 0.785
"""For |x| up to this number, just below pi / 4, q is 0 and r is x."""


def reduce(x: Reg) -> tuple[Reg, Reg]:
    """(r, q) with x = q pi / 2 + r; q is an integer register of the width of x, of which the low two bits are
    right.
    """
    m = x.m
    if x.lanes > 1 or m.target.launched:
        return _reduced(x)
    # A scalar often depends on the scalar before it: a branch is faster than 19 cycles of reduction.
    branch = m.f.branch((m.abs(x) > _NO_TURN).ssa)
    with branch.then():
        r, q = _reduced(x)
    merged = branch.merge([(r.ssa, x.ssa), (q.ssa, m.number(q, 0).ssa)])
    return m.reg(merged[0]), m.reg(merged[1])


def _reduced(x: Reg) -> tuple[Reg, Reg]:
    m = x.m
    fused = m.target.has_fma
    shifted = m.fma(x, _TWO_OVER_PI, m.magic(x))
    n = shifted - m.magic(x)
    r = x
    for part in (_FUSED if fused else _SPLIT)[x.element]:
        r = m.fma(n, -part, r)
    limit = (_LIMIT_FUSED if fused else _LIMIT_SPLIT)[x.element]
    quotient = shifted.bits()
    large = m.abs(x) > limit
    branch = m.f.branch(m.any(large).ssa)
    with branch.then():
        far_r, far_q = m.outlined(
            "reduce_large", _reduce_single if x.element == "float" else _reduce_double, x
        )
        far_r, far_q = m.select(large, far_r, r), m.select(large, far_q, quotient)
    merged = branch.merge([(far_r.ssa, r.ssa), (far_q.ssa, quotient.ssa)])
    return m.reg(merged[0]), m.reg(merged[1])


def _window(exponent: Reg, words: int) -> list[Reg]:
    """Loads `words` 32-bit words (in i64) of 2 / pi, from the bit whose product with 2**exponent has weight
    2.

    More significant bits contribute only multiples of 4.
    """
    m = exponent.m
    # Bits are counted from the first of the zeros: that of weight 2**-k is number 63 + k. Lanes that are too
    # small for this function would start before the zeros; their results are not used.
    first = exponent + 62
    first = m.select(first < 0, m.number(first, 0), first)
    index, shift = first >> 5, (first & 31).cast("zext", "i64")
    raw = [m.table("axla.two_over_pi", _BITS, index + k).cast("zext", "i64") for k in range(words + 1)]
    return [(((raw[k] << 32) | raw[k + 1]) << shift).lshr(32) for k in range(words)]


def _signed(x: Reg, r: Reg, q: Reg) -> tuple[Reg, Reg]:
    """Computes (r, q) of x from those of |x|; r is NaN for infinities."""
    m = x.m
    negative = x.bits() < 0
    r = m.select(negative, -r, r)
    return m.select(m.abs(x) < float("inf"), r, float("nan")), m.select(negative, -q, q)


def _reduce_single(x: Reg) -> tuple[Reg, ...]:
    m = x.m
    bits = x.bits()
    exponent = (bits.lshr(23) & 255) - 150
    fraction = ((bits & 0x7FFFFF) | 0x800000).cast("zext", "i64")
    w0, w1, w2 = _window(exponent, 3)
    # The product modulo 2**96: two bits of the quotient, then its fraction. The lowest word contributes only
    # a carry.
    product = ((fraction * w0) << 32) + fraction * w1 + (fraction * w2).lshr(32)
    q = (product + (1 << 61)).lshr(62)
    rest = product << 2  # signed, in units of 2**-64 quarter turns: at most half a quarter
    high = (rest >> 32).cast("trunc", "i32").cast("sitofp", "double")
    low = (rest & _LOW).cast("trunc", "i32").cast("uitofp", "double")
    r = m.fma(low, 2.0**-32, high) * (_PI_OVER_2 * 2.0**-32)
    return _signed(x, r.cast("fptrunc", "float"), q.cast("trunc", "i32"))


def _reduce_double(x: Reg) -> tuple[Reg, ...]:
    m = x.m
    bits = x.bits()
    exponent = ((bits.lshr(52) & 2047) - 1075).cast("trunc", "i32")
    fraction = (bits & ((1 << 52) - 1)) | (1 << 52)
    low, high = fraction & _LOW, fraction.lshr(32)
    w = _window(exponent, 6)
    # The product modulo 2**192: sums of columns of partial products, from the lowest word on.
    carry = (low * w[5]).lshr(32) + ((high * w[5]) & _LOW)
    words = []
    carry = carry + ((low * w[4]) & _LOW)
    carry = carry.lshr(32)
    for k in (3, 2, 1, 0):
        column = carry + ((low * w[k]) & _LOW) + (low * w[k + 1]).lshr(32) + ((high * w[k + 1]) & _LOW)
        column = column + (high * w[k + 2]).lshr(32)
        words.append(column & _LOW)
        carry = column.lshr(32)
    p3, p2, p1, p0 = words
    top = (p0 << 32) | p1
    bottom = (p2 << 32) | p3
    q = (top + (1 << 61)).lshr(62)
    rest = (top << 2) | bottom.lshr(62)
    negative = rest < 0
    # The magnitude as 128 bits, then its three upper words as exact floats, added from the smallest on.
    below = bottom << 2
    flipped = 0 - below
    magnitude = m.select(negative, ~rest + m.select(below.eq(0), m.number(rest, 1), 0), rest)
    below = m.select(negative, flipped, below)
    parts = [magnitude.lshr(32), magnitude & _LOW, below.lshr(32)]
    f0, f1, f2 = (m.small_integer(part) for part in parts)
    total = f0 * 2.0**-32 + (f1 * 2.0**-64 + f2 * 2.0**-96)
    r = total * _PI_OVER_2
    return _signed(x, m.select(negative, -r, r), q)
