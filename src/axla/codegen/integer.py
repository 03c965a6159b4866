"""Integer and pred arithmetic with HLO's edge cases: division by zero, overflow, shifts by more than the
width.
"""

from __future__ import annotations

from collections.abc import Callable

from axla.codegen.arithmetic import Reg
from axla.codegen.convert import resize, wrap
from axla.core.dtypes import DType
from axla.core.tables import by_name


def _magnitude(x: Reg, dtype: DType) -> Reg:
    """The bits of `x` without sign extension, if its type has less than 8 bits."""
    return x & ((1 << dtype.bits) - 1) if dtype.bits < 8 else x


def _quotient(a: Reg, b: Reg, dtype: DType) -> Reg:
    """Computes a / b rounded towards zero, for b not zero and no overflow."""
    if a.lanes > 1 and dtype.bits <= 32:
        # Vectors have no integer division. f32 is exact for 16 bits, f64 for 32: the true quotient is
        # further from the next integer than the rounding error.
        element = "float" if dtype.bits <= 16 else "double"
        to, back = ("sitofp", "fptosi") if dtype.is_signed else ("uitofp", "fptoui")
        quotient = (a.cast(to, element) / b.cast(to, element)).cast(back, f"i{max(dtype.bits, 32)}")
        return resize(quotient, dtype, a.element)
    return a / b if dtype.is_signed else a.udiv(b)


def divide(a: Reg, b: Reg, dtype: DType) -> Reg:
    """Divides and rounds towards zero. A quotient by zero has all bits set; the smallest number divided by -1
    is itself.
    """
    m = a.m
    zero = b.eq(0)
    if _branches(a, b):
        return _apart(
            b, dtype,
            lambda: m.select(zero, wrap(m.number(a, -1), dtype), wrap(0 - a, dtype)),
            lambda: _quotient(a, b, dtype),
        )  # fmt: skip
    special = zero
    if dtype.is_signed:
        special = zero | (a.eq(-(1 << (dtype.bits - 1))) & b.eq(-1))
    quotient = _quotient(a, m.select(special, 1, b), dtype)
    return m.select(zero, wrap(m.number(a, -1), dtype), quotient)


def _branches(a: Reg, b: Reg) -> bool:
    return a.lanes == b.lanes == 1 and not b.known and jumps(a, b)


def jumps(*operands: Reg) -> bool:
    """Whether a scalar division handles unusual operands by a jump: on a CPU, if an operand is computed in
    the current region. Code that could be hoisted stays free of jumps.
    """
    m = operands[0].m
    here = m.lowering is None and not m.target.launched
    return here and any(x.ssa.region is m.f.region for x in operands)


def _apart(b: Reg, dtype: DType, unusual: Callable[[], Reg], usual: Callable[[], Reg]) -> Reg:
    """Runs `unusual` where b is 0 or, for signed numbers, -1; else `usual`. Branch prediction lets the
    division start at once, which a select of the divisor would delay.
    """
    m = b.m
    rare = (b + 1).ult(2) if dtype.is_signed else b.eq(0)
    branch = m.f.branch(rare.ssa, likely=False)
    with branch.then():
        other = unusual()
    with branch.otherwise():
        found = usual()
    return m.reg(*branch.merge([(other.ssa, found.ssa)]))


def remainder(a: Reg, b: Reg, dtype: DType) -> Reg:
    """The remainder with the sign of the dividend. The remainder by zero is the dividend; that of the
    smallest number by -1 is 0.
    """
    m = a.m
    zero = b.eq(0)
    if _branches(a, b):
        return _apart(
            b, dtype, lambda: m.select(zero, a, 0), lambda: a.srem(b) if dtype.is_signed else a.urem(b)
        )
    # The remainder by -1 is 0, as is that by 1; the division by 1 cannot overflow.
    divisor = m.select(zero | b.eq(-1) if dtype.is_signed else zero, 1, b)
    if a.lanes > 1:
        rest = a - _quotient(a, divisor, dtype) * divisor
    else:
        rest = a.srem(divisor) if dtype.is_signed else a.urem(divisor)
    return m.select(zero, a, rest)


def maximum(a: Reg, b: Reg, dtype: DType) -> Reg:
    """The larger of two integers, compared as signed or unsigned by their type."""
    return a.m.intrinsic("smax" if dtype.is_signed else "umax", a, b)


def minimum(a: Reg, b: Reg, dtype: DType) -> Reg:
    """The smaller of two integers, compared as signed or unsigned by their type."""
    return a.m.intrinsic("smin" if dtype.is_signed else "umin", a, b)


def multiply_high(a: Reg, b: Reg, dtype: DType) -> Reg:
    """The upper half of the double-width product."""
    bits = dtype.bits
    if bits < 64:
        wide = f"i{2 * max(8, bits)}"
        product = resize(a, dtype, wide) * resize(b, dtype, wide)
        high = product >> bits if dtype.is_signed else product.lshr(bits)
        return wrap(high.cast("trunc", a.element), dtype)
    high = a.m.multiply_high(a, b)
    # The value of a negative number is 2**64 less than that of its bits as an unsigned number.
    return high if dtype.is_unsigned else high - ((a >> 63) & b) - ((b >> 63) & a)


def _in_range(amount: Reg, dtype: DType) -> Reg:
    return amount.ult(dtype.bits)


def shift_left(a: Reg, b: Reg, dtype: DType) -> Reg:
    """Computes `a << b`; 0 where b is not below the width."""
    return a.m.select(_in_range(b, dtype), wrap(a << b, dtype), 0)


def shift_right_logical(a: Reg, b: Reg, dtype: DType) -> Reg:
    """Computes `a >> b` with zeros shifted in; 0 where b is not below the width."""
    return a.m.select(_in_range(b, dtype), wrap(_magnitude(a, dtype).lshr(b), dtype), 0)


def shift_right_arithmetic(a: Reg, b: Reg, dtype: DType) -> Reg:
    """Computes `a >> b` with the sign bit shifted in, for unsigned types too."""
    m = a.m
    extended = (a << (8 - dtype.bits)) >> (8 - dtype.bits) if dtype.bits < 8 else a
    amount = m.select(_in_range(b, dtype), b, dtype.bits - 1)
    return wrap(extended >> amount, dtype)


def absolute(x: Reg, dtype: DType) -> Reg:
    """The absolute value; that of the smallest signed integer is itself."""
    return x if dtype.is_unsigned else wrap(x.m.select(x < 0, -x, x), dtype)


def sign(x: Reg, dtype: DType) -> Reg:
    """The sign of each integer: -1, 0 or 1."""
    m = x.m
    if dtype.is_unsigned:
        return m.select(x.eq(0), m.number(x, 0), 1)
    return m.select(x > 0, m.number(x, 1), x >> (max(8, dtype.bits) - 1))


def population_count(x: Reg, dtype: DType) -> Reg:
    """The number of bits that are set."""
    # XLA counts the sign-extended bits of s2 and s4: -1 has eight.
    return wrap(x.m.intrinsic("ctpop", x), dtype)


def count_leading_zeros(x: Reg, dtype: DType) -> Reg:
    """The number of zeros above the highest bit that is set."""
    count = x.m.leading_zeros(_magnitude(x, dtype))
    return wrap(count - (8 - dtype.bits), dtype) if dtype.bits < 8 else count


def power(a: Reg, b: Reg, dtype: DType) -> Reg:
    """Computes a ** b by repeated squaring, wrapping around. For a negative exponent the result is 0, except
    for bases 1 and -1.

    XLA uses only six bits of the exponent, and takes an unsigned one of a byte or more with its highest bit
    set as negative. Larger exponents overflow for every base but 0, 1 and -1, so programs cannot rely on the
    difference; agreeing with XLA costs nothing.
    """
    m = a.m
    result, base = m.number(a, 1), a
    exponent = _magnitude(b, dtype)
    for bit in range(min(6, dtype.bits)):
        used = ((exponent >> bit) & 1).ne(0) if bit else (exponent & 1).ne(0)
        result = m.select(used, wrap(result * base, dtype), result)
        base = base * base
    if dtype.bits < 8 and not dtype.is_signed:
        return result
    minus_one = wrap(m.number(a, -1), dtype)
    sign = m.select((b & 1).ne(0), minus_one, 1)
    inverse = m.select(a.eq(1), m.number(a, 1), m.select(a.eq(minus_one), sign, 0))
    top = ((b << (8 - dtype.bits)) if dtype.bits < 8 else b) < 0
    return m.select(top, inverse, result)


INTEGERS: dict[str, Callable[..., Reg]] = {
    **by_name(
        "", count_leading_zeros, divide, maximum, minimum, power, remainder, shift_left,
        shift_right_arithmetic, shift_right_logical, sign, between="-",
    ),
    "abs": absolute,
    "negate": lambda x, dtype: wrap(-x, dtype),
    "not": lambda x, dtype: wrap(~x, dtype),
    "popcnt": population_count,
    "add": lambda a, b, dtype: wrap(a + b, dtype),
    "subtract": lambda a, b, dtype: wrap(a - b, dtype),
    "multiply": lambda a, b, dtype: wrap(a * b, dtype),
    "mulhi": multiply_high,
    "and": lambda a, b, dtype: a & b,
    "or": lambda a, b, dtype: a | b,
    "xor": lambda a, b, dtype: a ^ b,
}  # fmt: skip

# For pred, a sum is an `or` and a product an `and`, as for numbers that saturate at 1.
PRED: dict[str, Callable[..., Reg]] = {
    "not": lambda a: ~a,
    "add": lambda a, b: a | b,
    "multiply": lambda a, b: a & b,
    "maximum": lambda a, b: a | b,
    "minimum": lambda a, b: a & b,
    "subtract": lambda a, b: a ^ b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
