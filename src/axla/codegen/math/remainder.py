"""The exact remainder of a division that rounds towards zero."""

from __future__ import annotations

from axla.codegen.arithmetic import FRACTION, Reg
from axla.codegen.math.tables import on_floats


@on_floats("remainder", exact=True)
def remainder(x: Reg, y: Reg) -> Reg:
    """Computes x - trunc(x / y) y: exact, with the sign of x; NaN for infinite x or zero y."""
    (result,) = x.m.outlined("remainder", _remainder, x, y)
    return result


def _remainder(x: Reg, y: Reg) -> tuple[Reg, ...]:
    if x.element == "float":
        # f64 holds products of 24-bit divisors with 29-bit quotients exactly; all denormals are normal there.
        rest = _long_division(x.cast("fpext", "double"), y.cast("fpext", "double"), 24)
        return (rest.cast("fptrunc", "float"),)
    return (_long_division(x, y, 53),)


def _long_division(x: Reg, y: Reg, digits: int) -> Reg:
    """The remainder of numbers with `digits` bits of significand by long division. Each step computes as many
    bits of the quotient as are exact.
    """
    m, f = x.m, x.m.f
    infinity = float("inf")
    size, divisor = m.abs(x), m.abs(y)
    bad = size.eq(infinity) | y.eq(0.0) | x.is_nan() | y.is_nan()
    size = m.select(bad, m.number(x, 0.0), size)
    divisor = m.select(bad, 1.0, divisor)
    with f.while_loop([size.ssa]) as loop:
        (rest,) = (m.reg(v) for v in loop.carried)
        loop.test(m.any(rest >= divisor).ssa)
        loop.yield_([_step(rest, divisor, digits).ssa])
    rest = m.reg(loop.results[0])
    return m.select(bad, float("nan"), m.copysign(rest, x))


def _step(rest: Reg, divisor: Reg, digits: int) -> Reg:
    """Subtracts a multiple of the divisor from `rest`: the result is less than the divisor, or at least 2**20
    times smaller than before.
    """
    m = rest.m
    # divisor * 2**k, k >= 0, whose exponent is 22 less than that of the rest.
    gap = _exponent(rest) - _exponent(divisor) - 22
    gap = m.select(gap < 0, m.number(gap, 0), gap)
    multiple = _times_power(divisor, gap)
    quotient = m.trunc(rest / multiple)
    # quotient is below 2**25. Splitting the divisor in two makes both products exact, so no fused
    # instruction is needed.
    high = (multiple.bits() & -(1 << 27)).floats()
    left = (rest - quotient * high) - quotient * (multiple - high)
    # If the quotient was rounded up, add the multiple back.
    left = m.select(left < 0.0, left + multiple, left)
    return m.select(rest >= divisor, left, rest)


def _exponent(x: Reg) -> Reg:
    """The biased exponent of a positive number; below 1 for denormals."""
    m = x.m
    tiny = x < 2.0**-1022
    found = m.select(tiny, x * 2.0**54, x).bits().lshr(FRACTION["double"])
    return m.select(tiny, found - 54, found)


def _times_power(x: Reg, k: Reg) -> Reg:
    """Computes x * 2**k for 0 <= k < 4000, where the result is finite."""
    m = x.m
    quarter = k.lshr(2)
    step = m.power_of_two(quarter)
    return x * step * step * step * m.power_of_two(k - quarter * 3)
