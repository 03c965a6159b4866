"""Expands instructions that a small machine lacks to those that it has, so that none becomes a library call.

These are divisions of 64-bit integers (of 32-bit ones too where there is none), conversions between 64-bit
integers and floats, and the f64 arithmetic inside functions of f32. All are functions of the module, written
once, correctly rounded to nearest even; NaNs are quiet and positive. Machines that lack nothing do not use
this file.
"""

from __future__ import annotations

from collections.abc import Callable

from axla.codegen.arithmetic import Arithmetic, Reg
from axla.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class _Form:
    """A binary float format: fraction bits, exponent bias, and the integer type of its width."""

    fraction: int
    bias: int
    integer: str

    @property
    def top(self) -> int:
        """The biased exponent of infinities."""
        return 2 * self.bias + 1

    @property
    def infinity(self) -> int:
        return self.top << self.fraction

    @property
    def nan(self) -> int:
        return self.infinity | 1 << (self.fraction - 1)

    @property
    def sign(self) -> int:
        """The number of the sign bit."""
        return int(self.integer[1:]) - 1


_SINGLE, _DOUBLE = _Form(23, 127, "i32"), _Form(52, 1023, "i64")
_FORMS = {"float": _SINGLE, "double": _DOUBLE}
_HIDDEN = 62
"""The number of the bit to which `_pack` shifts the leading bit of a significand. At least ten bits are then
below the last bit of the result; they decide how it is rounded.
"""

_DIVISIONS = {"sdiv": (True, 0), "udiv": (False, 0), "srem": (True, 1), "urem": (False, 1)}


class Lowering:
    """Replacements for the instructions that the target of an `Arithmetic` lacks; a method returns None where
    the machine has the instruction.
    """

    def __init__(self, m: Arithmetic):
        self.m = m

    def binary(self, opcode: str, a: Reg, b: Reg) -> Reg | None:
        """Computes divisions and remainders of integers, and arithmetic of doubles, in software. None where
        the machine has an instruction.
        """
        target = self.m.target
        if opcode in _DIVISIONS:
            wide = a.element == "i64"
            if target.has_wide_division if wide else target.has_division:
                return None
            if not wide and a.element != "i32":
                return self._narrow(opcode, a, b)
            return self._lanes(lambda x, y: _divide(opcode, x, y), a, b)
        if a.element == "double" and not target.has_double and opcode in _BINARY:
            body = _BINARY[opcode]
            return self._lanes(lambda x, y: _outlined(f"soft.{opcode}", body, x, y), a, b)
        return None

    def compare(self, predicate: str, a: Reg, b: Reg) -> Reg | None:
        """Compares doubles by their bits, as integers. None where the machine has an instruction."""
        if a.element != "double" or self.m.target.has_double:
            return None
        return self._lanes(lambda x, y: _compare(predicate, x, y), a, b)

    def negate(self, a: Reg) -> Reg | None:
        """Negates a double by flipping its sign bit. None where the machine has an instruction."""
        if a.element != "double" or self.m.target.has_double:
            return None
        return (a.bits() ^ -(1 << 63)).floats()

    def cast(self, opcode: str, a: Reg, element: str) -> Reg | None:
        """Converts from or to doubles or 64-bit integers in software. None where the machine has an
        instruction.
        """
        target = self.m.target
        soft = "double" in (a.element, element) and not target.has_double
        wide = "i64" in (a.element, element) and not target.has_wide_division
        if opcode not in _CASTS or not (soft or wide) or a.element == element:
            return None
        return self._lanes(lambda x: _CASTS[opcode](x, element), a)

    def intrinsic(self, name: str, *args: Reg) -> Reg | None:
        """Computes fabs and copysign of f64, square roots, and maximum and minimum, which LLVM does not
        support on all machines. None for other intrinsics, and where the machine has an instruction.
        """
        if name in ("maximum", "minimum"):
            return _extreme(name == "maximum", *args)
        hard = args[0].element != "double" or self.m.target.has_double
        if name == "sqrt" and not (hard and self.m.target.has_square_root):
            return self._lanes(_square_root, *args)
        if hard:
            return None
        sign, size = -(1 << 63), (1 << 63) - 1
        if name == "fabs":
            return (args[0].bits() & size).floats()
        if name == "copysign":
            x, y = args
            return ((x.bits() & size) | (y.bits() & sign)).floats()
        return None

    def leading_zeros(self, x: Reg) -> Reg | None:
        """Counts leading zeros: sets all bits below the highest one, then counts the bits that are zero. None
        where the machine has an instruction.
        """
        if self.m.target.has_leading_zeros:
            return None
        for place in range(int(x.element[1:]).bit_length() - 1):
            x = x | x.lshr(1 << place)
        return self.m.intrinsic("ctpop", ~x)

    def _narrow(self, opcode: str, a: Reg, b: Reg) -> Reg:
        """Divides integers of less than 32 bits as 32-bit integers."""
        extend = "sext" if _DIVISIONS[opcode][0] else "zext"
        wide = self.binary(opcode, a.cast(extend, "i32"), b.cast(extend, "i32"))
        assert wide is not None
        return wide.cast("trunc", a.element)

    def _lanes(self, one: Callable[..., Reg], *args: Reg) -> Reg:
        """Applies `one` to each lane of the operands, and joins the results."""
        m, f, lanes = self.m, self.m.f, args[0].lanes
        if lanes == 1:
            return one(*args)
        parts = [one(*(m.reg(f.extract(arg.ssa, lane)) for arg in args)) for lane in range(lanes)]
        whole = f.undef(f"<{lanes} x {parts[0].type}>")
        for lane, part in enumerate(parts):
            whole = f.insert(whole, part.ssa, lane)
        return m.reg(whole)


def lowering(m: Arithmetic) -> Lowering | None:
    """The replacements for the target of `m`; None where it lacks nothing."""
    target = m.target
    complete = target.has_double and target.has_division and target.has_wide_division and target.has_maximum
    return None if complete and target.has_square_root and target.has_leading_zeros else Lowering(m)


def _outlined(name: str, body: Callable[..., tuple[Reg, ...]], *args: Reg) -> Reg:
    return args[0].m.outlined(name, body, *args)[0]


def _not_less(a: Reg, b: Reg) -> Reg:
    """Whether a >= b, as unsigned integers."""
    return ~a.ult(b)


# -- division ------------------------------------------------------------------------------------------------


def _divide(opcode: str, a: Reg, b: Reg) -> Reg:
    signed, part = _DIVISIONS[opcode]
    if not signed:
        return a.m.outlined("soft.divide", _long_division, a, b)[part]
    top = int(a.element[1:]) - 1
    negative, other = a >> top, b >> top
    parts = a.m.outlined("soft.divide", _long_division, (a ^ negative) - negative, (b ^ other) - other)
    flip = negative if part else negative ^ other  # a remainder has the sign of the dividend
    return (parts[part] ^ flip) - flip


def _long_division(n: Reg, d: Reg) -> tuple[Reg, ...]:
    """(quotient, remainder) of unsigned integers, for d > 0; computed bit by bit, from the first bit of the
    quotient that may be set.
    """
    m = n.m
    steps = m.leading_zeros(d) - m.leading_zeros(n | 1)
    steps = m.select(steps < 0, m.number(n, 0), steps)
    carry = [m.number(n, 0).ssa, n.ssa, (d << steps).ssa, steps.ssa]
    with m.f.while_loop(carry) as loop:
        quotient, rest, divisor, left = (m.reg(v) for v in loop.carried)
        loop.test((left >= 0).ssa)
        fits = _not_less(rest, divisor)
        quotient = (quotient << 1) | fits.cast("zext", n.element)
        rest = rest - m.select(fits, divisor, 0)
        loop.yield_([quotient.ssa, rest.ssa, divisor.lshr(1).ssa, (left - 1).ssa])
    return m.reg(loop.results[0]), m.reg(loop.results[1])


# -- floats: taken apart and put together --------------------------------------------------------------------


def _fields(x: Reg, form: _Form) -> tuple[Reg, Reg, Reg]:
    """(sign, exponent, significand), in i64, of the bits of a finite float: the value is sign * significand *
    2**exponent up to a constant factor. The exponent of denormals is 1.
    """
    m = x.m
    exponent = x.lshr(form.fraction) & form.top
    fraction = x & ((1 << form.fraction) - 1)
    significand = fraction | m.select(exponent.eq(0), m.number(x, 0), 1 << form.fraction)
    return x.lshr(form.sign), m.select(exponent.eq(0), m.number(x, 1), exponent), significand


def _normal(exponent: Reg, significand: Reg) -> tuple[Reg, Reg]:
    """(exponent, significand) of the same number, shifted so that bit 52 of the significand is set (unless it
    is zero).
    """
    gap = exponent.m.leading_zeros(significand | 1) - 11
    return exponent - gap, significand << gap


def _shift_sticky(x: Reg, count: Reg) -> Reg:
    """Computes x >> count, with bit 0 set if a bit was lost."""
    m = x.m
    count = m.select(count > 63, m.number(count, 63), count)
    shifted = x.lshr(count)
    return shifted | (shifted << count).ne(x).cast("zext", "i64")


def _pack(sign: Reg, exponent: Reg, significand: Reg, form: _Form) -> Reg:
    """The bits, in i64, of sign * significand * 2**(exponent - bias - 62), rounded to the format `form`; 0 <=
    significand < 2**63.

    Bit 0 may be a sticky bit for all lower bits.
    """
    m = sign.m
    gap = m.leading_zeros(significand) - (63 - _HIDDEN)
    scaled = significand << m.select(significand.eq(0), m.number(gap, 0), gap)
    exponent = exponent - gap
    low = exponent < 1
    scaled = _shift_sticky(scaled, m.select(low, 1 - exponent, 0))
    exponent = m.select(low, m.number(exponent, 1), exponent)
    drop = _HIDDEN - form.fraction
    rest, kept = scaled & ((1 << drop) - 1), scaled.lshr(drop)
    half = 1 << (drop - 1)
    up = (rest > half) | (rest.eq(half) & (kept & 1).ne(0))
    # The leading bit itself adds 1 to the exponent, and so does a significand rounded up to 2.
    bits = ((exponent - 1) << form.fraction) + kept + up.cast("zext", "i64")
    bits = m.select((exponent >= form.top) | (bits > form.infinity), form.infinity, bits)
    bits = m.select(significand.eq(0), m.number(bits, 0), bits)
    return bits | (sign << form.sign)


def _magnitude(bits: Reg) -> Reg:
    return bits & ((1 << 63) - 1)


# -- arithmetic of f64 ---------------------------------------------------------------------------------------


def _add(x: Reg, y: Reg) -> tuple[Reg, ...]:
    m, a, b = x.m, x.bits(), y.bits()
    swap = _magnitude(a) < _magnitude(b)
    a, b = m.select(swap, b, a), m.select(swap, a, b)
    sign, exponent, large = _fields(a, _DOUBLE)
    _, lower, small = _fields(b, _DOUBLE)
    small = _shift_sticky(small << 9, exponent - lower)
    large = large << 9
    same = (a ^ b) >= 0
    total = m.select(same, large + small, large - small)
    sign = m.select(total.eq(0) & ~same, m.number(sign, 0), sign)
    bits = _pack(sign, exponent + 1, total, _DOUBLE)
    infinity = _DOUBLE.infinity
    bits = m.select(_magnitude(a) >= infinity, a, bits)
    nan = (_magnitude(a) > infinity) | (_magnitude(b).eq(infinity) & ~same)
    return (m.select(nan, _DOUBLE.nan, bits).floats(),)


def _subtract(x: Reg, y: Reg) -> tuple[Reg, ...]:
    return (x + (y.bits() ^ -(1 << 63)).floats(),)


def _multiply(x: Reg, y: Reg) -> tuple[Reg, ...]:
    m, a, b = x.m, x.bits(), y.bits()
    first, second = _fields(a, _DOUBLE), _fields(b, _DOUBLE)
    (e, left), (g, right) = _normal(*first[1:]), _normal(*second[1:])
    left, right = left << 11, right << 11
    high = m.multiply_high(left, right)
    lost = ((left * right) | (high & 1)).ne(0).cast("zext", "i64")
    sign = first[0] ^ second[0]
    bits = _pack(sign, e + g - (_DOUBLE.bias - 1), high.lshr(1) | lost, _DOUBLE)
    # Infinity times zero is NaN.
    size, by, infinity = _magnitude(a), _magnitude(b), _DOUBLE.infinity
    infinite = size.eq(infinity) | by.eq(infinity)
    bits = m.select(infinite, (sign << 63) | infinity, bits)
    nan = (size > infinity) | (by > infinity) | (infinite & (size.eq(0) | by.eq(0)))
    return (m.select(nan, _DOUBLE.nan, bits).floats(),)


def _quotient(x: Reg, y: Reg) -> tuple[Reg, ...]:
    m, a, b = x.m, x.bits(), y.bits()
    first, second = _fields(a, _DOUBLE), _fields(b, _DOUBLE)
    (e, rest), (g, divisor) = _normal(*first[1:]), _normal(*second[1:])
    with m.f.loop(0, 56, carry=[m.f.const("i64", 0), rest.ssa]) as loop:
        quotient, left = (m.reg(v) for v in loop.carried)
        fits = left >= divisor
        left = left - m.select(fits, divisor, 0)
        loop.yield_([((quotient << 1) | fits.cast("zext", "i64")).ssa, (left << 1).ssa])
    quotient, left = (m.reg(v) for v in loop.results)
    sign = first[0] ^ second[0]
    significand = (quotient << 7) | left.ne(0).cast("zext", "i64")
    bits = _pack(sign, e - g + _DOUBLE.bias, significand, _DOUBLE)
    # x / 0 is infinite, x / inf is zero; 0 / 0 and inf / inf are NaN.
    size, by, infinity = _magnitude(a), _magnitude(b), _DOUBLE.infinity
    bits = m.select(by.eq(0) | size.eq(infinity), (sign << 63) | infinity, bits)
    bits = m.select(by.eq(infinity) | size.eq(0), sign << 63, bits)
    nan = (size > infinity) | (by > infinity)
    nan = nan | (size.eq(0) & by.eq(0)) | (size.eq(infinity) & by.eq(infinity))
    return (m.select(nan, _DOUBLE.nan, bits).floats(),)


def _square_root(x: Reg) -> Reg:
    """The square root of an f32 or f64, computed in f64, which is so precise that rounding twice does no
    harm.
    """
    return _outlined("soft.sqrt", _root, x.cast("fpext", "double")).cast("fptrunc", x.element)


def _root(x: Reg) -> tuple[Reg, ...]:
    """The square root of an f64, computed bit by bit."""
    m, a = x.m, x.bits()
    exponent, significand = _normal(*_fields(a, _DOUBLE)[1:])
    exponent = exponent - _DOUBLE.bias
    odd = exponent & 1
    with m.f.loop(0, 55, carry=[m.f.const("i64", 0), m.f.const("i64", 0), (significand << odd).ssa]) as loop:
        root, rest, digits = (m.reg(v) for v in loop.carried)
        rest, trial = (rest << 2) | (digits.lshr(52) & 3), (root << 2) | 1
        fits = rest >= trial
        rest = rest - m.select(fits, trial, 0)
        loop.yield_([((root << 1) | fits.cast("zext", "i64")).ssa, rest.ssa, (digits << 2).ssa])
    root, rest = (m.reg(v) for v in loop.results[:2])
    significand = (root << 8) | rest.ne(0).cast("zext", "i64")
    half = ((exponent - odd) >> 1) + _DOUBLE.bias
    bits = _pack(m.number(a, 0), half, significand, _DOUBLE)
    size = _magnitude(a)
    bits = m.select(size.eq(0) | a.eq(_DOUBLE.infinity), a, bits)
    nan = (size > _DOUBLE.infinity) | ((a < 0) & size.ne(0))
    return (m.select(nan, _DOUBLE.nan, bits).floats(),)


_BINARY: dict[str, Callable[..., tuple[Reg, ...]]] = {
    "fadd": _add, "fsub": _subtract, "fmul": _multiply, "fdiv": _quotient,
}  # fmt: skip


def _compare(predicate: str, x: Reg, y: Reg) -> Reg:
    a, b = x.bits(), y.bits()
    nan = (_magnitude(a) > _DOUBLE.infinity) | (_magnitude(b) > _DOUBLE.infinity)
    if predicate == "uno":
        return nan
    # Maps the floats to integers in the same order; both zeros become 0.
    p, q = (_magnitude(v).eq(0) for v in (a, b))
    m = x.m
    a, b = (m.select(z, m.number(v, 0), v ^ (v >> 63).lshr(1)) for v, z in ((a, p), (b, q)))
    if predicate == "une":
        return nan | a.ne(b)
    found = {"olt": a < b, "ole": a <= b, "ogt": a > b, "oge": a >= b, "oeq": a.eq(b)}
    return found[predicate] & ~nan


def _extreme(largest: bool, a: Reg, b: Reg) -> Reg:
    """The larger operand if `largest`, else the smaller; NaN if either is NaN. -0 is less than +0."""
    m = a.m
    found = m.select(a > b if largest else a < b, a, b)
    zero = (a.bits() & b.bits() if largest else a.bits() | b.bits()).floats()
    found = m.select(a.eq(b), zero, found)
    return m.select(a.is_nan() | b.is_nan(), float("nan"), found)


# -- conversions ---------------------------------------------------------------------------------------------


def _from_integer(signed: bool) -> Callable[[Reg, str], Reg]:
    def cast(x: Reg, element: str) -> Reg:
        wide = x.cast("sext" if signed else "zext", "i64")
        kind = "signed" if signed else "unsigned"
        return _outlined(f"soft.from.{kind}.{element}", lambda n: (_float_of(n, signed, element),), wide)

    return cast


def _float_of(n: Reg, signed: bool, element: str) -> Reg:
    form = _FORMS[element]
    size, sign = n, n.m.number(n, 0)
    if signed:
        negative = n >> 63
        size, sign = (n ^ negative) - negative, n.lshr(63)
    # A 64-bit magnitude is shifted right by one bit; the lost bit only decides a tie.
    long = size < 0
    exponent = n.m.select(long, n.m.number(n, form.bias + 63), form.bias + 62)
    bits = _pack(sign, exponent, n.m.select(long, size.lshr(1) | (size & 1), size), form)
    return bits.cast("trunc", form.integer).floats()


def _to_integer(signed: bool) -> Callable[[Reg, str], Reg]:
    def cast(x: Reg, element: str) -> Reg:
        kind = "signed" if signed else "unsigned"
        whole = _outlined(f"soft.to.{kind}", lambda v: (_integer_of(v, signed),), x)
        return whole.cast("trunc", element)

    return cast


def _integer_of(x: Reg, signed: bool) -> Reg:
    """Converts a float to an integer, towards zero; the result is unspecified where i64 cannot hold it, as in
    LLVM.
    """
    m, form = x.m, _FORMS[x.element]
    bits = x.bits().cast("sext", "i64")
    _, exponent, significand = _fields(bits, form)
    shift = exponent - (form.bias + form.fraction)
    left = m.select(shift < 0, m.number(shift, 0), shift) & 63
    right = m.select(shift < 0, -shift, 0)
    right = m.select(right > 63, m.number(right, 63), right)
    size = (significand << left).lshr(right)
    return m.select(bits < 0, -size, size) if signed else size


def _recast(x: Reg, source: _Form, form: _Form) -> tuple[Reg, ...]:
    """Converts a float from format `source` to format `form`."""
    m, bits = x.m, x.bits().cast("zext", "i64")
    sign, exponent, significand = _fields(bits, source)
    more = form.bias - source.bias
    exponent = exponent + more if more > 0 else exponent - -more
    found = _pack(sign, exponent, significand << (_HIDDEN - source.fraction), form)
    size = bits & ((1 << source.sign) - 1)
    found = m.select(size.eq(source.infinity), (sign << form.sign) | form.infinity, found)
    found = m.select(size > source.infinity, m.number(found, form.nan), found)
    return (found.cast("trunc", form.integer).floats(),)


_CASTS: dict[str, Callable[[Reg, str], Reg]] = {
    "sitofp": _from_integer(True),
    "uitofp": _from_integer(False),
    "fptosi": _to_integer(True),
    "fptoui": _to_integer(False),
    "fpext": lambda x, element: _outlined("soft.extend", lambda a: _recast(a, _SINGLE, _DOUBLE), x),
    "fptrunc": lambda x, element: _outlined("soft.shorten", lambda a: _recast(a, _DOUBLE, _SINGLE), x),
}
