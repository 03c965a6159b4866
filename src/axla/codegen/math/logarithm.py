"""log and log1p.

x = 2**e m with 3/4 <= m < 3/2, f = m - 1: log x = e ln 2 + log(1 + f).
"""

from __future__ import annotations

from axla.codegen import avx512
from axla.codegen.arithmetic import BIAS, Reg
from axla.codegen.math.exponent import split_exponent

# (log(1 + f) - f + f**2 / 2) / f**3 on [-1/4, 1/2], highest power first
_LOG_F32 = (
    -0.04616747, 0.10582778, -0.13186891, 0.14467704, -0.16643743, 0.19991091, -0.25000194, 0.33333448,
)  # fmt: skip
# (2 atanh(s) - 2 s) / s**3 of z = s**2 for |s| <= 0.2
_LOG_F64 = (
    0.13844270817613052, 0.13173413007844356, 0.15391123366898168, 0.18181665512309028, 0.2222222430284926,
    0.285714285557679, 0.4000000000005695, 0.666666666666666,
)  # fmt: skip
_LN2 = {
    "float": (0.693145751953125, 1.4286068203094173e-06),
    "double": (0.6931471803691238, 1.9082149292705877e-10),
}


def log_of_parts(e: Reg, f: Reg) -> Reg:
    """e ln 2 + log(1 + f)."""
    m = e.m
    high, low = _LN2[f.element]
    if f.element == "float":
        square = f * f
        total = m.fma(square * f, m.horner(f, _LOG_F32), e * low)
        total = m.fma(square, -0.5, total) + f
        return m.fma(e, high, total)
    # With s = f / (2 + f): log(1 + f) = f - (h - s (h + R)), h = f**2 / 2, R = s**2 P(s**2).
    s = f / (f + 2.0)
    z = s * s
    h = f * f * 0.5
    tail = m.fma(s, m.fma(z, m.horner(z, _LOG_F64), h), e * low)
    return m.fma(e, high, -((h - tail) - f))


def log(x: Reg) -> Reg:
    m = x.m
    e, fraction = split_exponent(x)
    result = log_of_parts(e, fraction - 1.0)
    if avx512.applies(x):
        return result
    infinity = float("inf")
    result = m.select(x.eq(infinity), infinity, result)
    result = m.select(x.eq(0.0), -infinity, result)
    return m.select(~(x >= 0.0), float("nan"), result)


def log1p(x: Reg) -> Reg:
    """log(1 + x): the rounding error of 1 + x, scaled like its fraction, is added back."""
    m = x.m
    total, error = m.two_sum(m.number(x, 1.0), x)
    e, fraction = split_exponent(total)
    infinity = float("inf")
    if avx512.applies(x):
        scaled = m.select(m.abs(e) < infinity, avx512.scalef(error, -e), 0.0)
        return m.copysign(log_of_parts(e, (fraction - 1.0) + scaled), x)
    # Past 2**(bias - 1) the error does not matter, and 2**-e would not be normal.
    inverse = m.power_of_two(-m.to_small_integer(m.least(e, float(BIAS[x.element] - 1))))
    result = m.copysign(log_of_parts(e, (fraction - 1.0) + error * inverse), x)
    result = m.select(x.eq(infinity), infinity, result)
    result = m.select(x.eq(-1.0), -infinity, result)
    return m.select(~(x >= -1.0), float("nan"), result)
