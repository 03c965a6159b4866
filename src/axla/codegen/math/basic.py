"""Float operations that need no approximation."""

from __future__ import annotations

import math
import operator

from axla.codegen.arithmetic import Reg
from axla.codegen.math.tables import EXACT, FLOATS, on_floats


@on_floats("maximum", exact=True)
def maximum(a: Reg, b: Reg) -> Reg:
    """The larger operand; NaN if either is; +0 is larger than -0."""
    m = a.m
    if not m.target.has_ordered_maximum or a.known or b.known:
        return m.intrinsic("maximum", a, b)  # is short where an operand is constant
    # The two orders of operands differ for zeros, where `and` clears the sign, and for NaN.
    found = (m.most(a, b).bits() & m.most(b, a).bits()).floats()
    return m.select(a.unordered(b), math.nan, found)


@on_floats("minimum", exact=True)
def minimum(a: Reg, b: Reg) -> Reg:
    """The smaller operand; NaN if either is; -0 is smaller than +0."""
    m = a.m
    if not m.target.has_ordered_maximum or a.known or b.known:
        return m.intrinsic("minimum", a, b)
    # The two orders of operands differ for zeros, where `or` sets the sign, and for NaN, which stays a NaN
    # when bits of the other operand are added.
    return (m.least(a, b).bits() | m.least(b, a).bits()).floats()


@on_floats("sign", exact=True)
def sign(x: Reg) -> Reg:
    """The sign of x: -1 or 1, or x itself for zeros and NaN."""
    m = x.m
    return m.select(m.abs(x) > 0.0, m.copysign(1.0, x), x)


@on_floats("round-nearest-afz", exact=True)
def round_away(x: Reg) -> Reg:
    """Rounds to the nearest integer, ties away from zero."""
    m = x.m
    # The number before 0.5: adding 0.5 itself would round 0.49999997 up to 1.
    half = 0.5 - 2.0 ** (-25 if x.element == "float" else -54)
    return m.trunc(x + m.copysign(half, x))


FLOATS |= {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negate": operator.neg,
    "sqrt": lambda x: x.m.sqrt(x),
    "ceil": lambda x: x.m.ceil(x),
    "floor": lambda x: x.m.floor(x),
    "round-nearest-even": lambda x: x.m.rint(x),
}
EXACT.update(("negate", "ceil", "floor", "round-nearest-even"))
