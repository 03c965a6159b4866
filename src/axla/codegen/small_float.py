"""Floats of less than 32 bits: their formats, rounding, and bits.

In registers such a value is the equal f32. `round_to` rounds any f32 to a representable one, by integer
arithmetic; `encode` and `decode` convert between representable f32 and bits, without rounding.
"""

from __future__ import annotations

from axla.codegen import avx512
from axla.codegen.arithmetic import Reg
from axla.core.dataclass import dataclass
from axla.core.dtypes import F32, DType

IEEE, FINITE, UNSIGNED_ZERO, FINITE_ONLY, SCALE = "ieee", "fn", "fnuz", "no nan", "e8m0"


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A float format: its numbers of exponent and fraction bits, exponent bias, and kind of special values.

    ieee: infinities and NaNs. fn: one NaN per sign, no infinity. fnuz: one NaN (the bits of -0), no infinity,
    no -0. no nan: neither. e8m0: a power of two, no sign, no zero, one NaN.
    """

    exponent: int
    fraction: int
    bias: int
    kind: str

    @property
    def least_normal(self) -> float:
        """The smallest positive normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def largest(self) -> float:
        """The largest finite value."""
        top = (1 << self.exponent) - 1 - self.bias
        if self.kind == IEEE:
            top -= 1
        fraction = 2.0 - 2.0**-self.fraction
        if self.kind == FINITE:
            fraction -= 2.0**-self.fraction
        return fraction * 2.0**top


FORMATS = {
    "f16": FloatFormat(5, 10, 15, IEEE),
    "bf16": FloatFormat(8, 7, 127, IEEE),
    "f8e5m2": FloatFormat(5, 2, 15, IEEE),
    "f8e4m3": FloatFormat(4, 3, 7, IEEE),
    "f8e3m4": FloatFormat(3, 4, 3, IEEE),
    "f8e4m3fn": FloatFormat(4, 3, 7, FINITE),
    "f8e4m3b11fnuz": FloatFormat(4, 3, 11, UNSIGNED_ZERO),
    "f8e5m2fnuz": FloatFormat(5, 2, 16, UNSIGNED_ZERO),
    "f8e4m3fnuz": FloatFormat(4, 3, 8, UNSIGNED_ZERO),
    "f8e8m0fnu": FloatFormat(8, 0, 127, SCALE),
    "f6e2m3fn": FloatFormat(2, 3, 1, FINITE_ONLY),
    "f6e3m2fn": FloatFormat(3, 2, 3, FINITE_ONLY),
    "f4e2m1fn": FloatFormat(2, 1, 1, FINITE_ONLY),
}

_INFINITY = 0x7F800000
_QUIET = 0x00400000


def _round_fraction(bits: Reg, drop: int) -> Reg:
    """The bits of a float rounded to nearest even after dropping `drop` low bits of the fraction."""
    odd = bits.lshr(drop) & 1
    return (bits + (odd + ((1 << (drop - 1)) - 1))) & -(1 << drop)


def round_to(x: Reg, dtype: DType, plain: bool = False) -> Reg:
    """Rounds the f32 x to the nearest value of the type, ties to even; overflow and NaN have the results that
    the type defines. `plain`: x is the result of a machine instruction on values of the type.
    """
    m = x.m
    form = FORMATS[dtype.name]
    if dtype.name == "f16" and m.target.has_half_conversion:
        return x.cast("fptrunc", "half").cast("fpext", "float")
    if dtype.name == "bf16" and avx512.rounds(x):
        return decode(avx512.bfloat(x), dtype)
    if form.kind == SCALE:
        return _round_scale(x)
    rounded = _round_fraction(x.bits(), 23 - form.fraction).floats()
    if form.exponent == 8:  # bf16: the exponents are f32's, overflow carries into infinity by itself
        if plain and m.target.keeps_nan:  # the lower half of a NaN is 0: rounding does not change it
            return rounded
        return m.select(x.is_nan(), (x.bits() | _QUIET).floats(), rounded)
    size = m.abs(x)
    # Below the least normal the spacing is fixed: an addition rounds to it.
    anchor = form.least_normal * 2.0 ** (23 - form.fraction)
    small = m.copysign((size + anchor) - anchor, x)
    rounded = m.select(size < form.least_normal, small, rounded)
    if form.kind == FINITE_ONLY:
        # As in ml_dtypes, NaN becomes the zero of the other sign.
        clamped = m.copysign(m.least(m.abs(rounded), form.largest), x)
        return m.select(x.is_nan(), m.copysign(0.0, -x), clamped)
    if form.kind == UNSIGNED_ZERO:
        rounded = rounded + 0.0  # -0 becomes +0
    infinite = m.copysign(float("inf") if form.kind == IEEE else float("nan"), x)
    rounded = m.select(m.abs(rounded) > form.largest, infinite, rounded)
    return m.select(x.is_nan(), x, rounded)


def _round_scale(x: Reg) -> Reg:
    """Rounds to the nearest value of f8e8m0fnu, a power of two, ties to the larger; NaN where there is
    none.
    """
    m = x.m
    rounded = ((x.bits() + (1 << 22)) & -(1 << 23)).floats()
    # The smallest value, 2**-127, is a denormal f32, with its bit in the fraction. Numbers between it and
    # 2**-126 are rounded up, as in ml_dtypes.
    rounded = m.select(x <= 2.0**-127, 2.0**-127, rounded)
    return m.select((x > 0.0) & (x < 1.5 * 2.0**127), rounded, float("nan"))


def encode(x: Reg, dtype: DType) -> Reg:
    """The bits, in i8 or i16, of an f32 that the type can represent."""
    m = x.m
    form = FORMATS[dtype.name]
    narrow = "i16" if dtype.itemsize == 2 else "i8"
    if dtype.name == "f16" and m.target.has_half_conversion:
        return x.cast("fptrunc", "half").bits()
    bits = x.bits()
    if dtype.name == "bf16":
        return bits.lshr(16).cast("trunc", narrow)
    if form.kind == SCALE:
        exponent = m.select(x.is_nan(), m.number(bits, 255), bits.lshr(23))
        return exponent.cast("trunc", narrow)
    width = 1 + form.exponent + form.fraction
    # Scaled so that denormals of the type are denormals of f32: then all exponents differ by the same shift.
    size = (m.abs(x) * 2.0 ** (form.bias - 127)).bits().lshr(23 - form.fraction)
    sign = bits.lshr(31) << (width - 1)
    exponents = ((1 << form.exponent) - 1) << form.fraction
    magnitude = bits & 0x7FFFFFFF
    if form.kind == IEEE:
        # A NaN keeps the upper bits of its payload and is quiet.
        payload = m.number(bits, 1 << (form.fraction - 1)) | (
            magnitude.lshr(23 - form.fraction) & ((1 << form.fraction) - 1)
        )
        special = m.select(magnitude > _INFINITY, payload | exponents, exponents)
        size = m.select(magnitude >= _INFINITY, special, size)
    elif form.kind == FINITE:
        size = m.select(magnitude > _INFINITY, (1 << (width - 1)) - 1, size)
    elif form.kind == UNSIGNED_ZERO:
        return m.select(magnitude > _INFINITY, 1 << (width - 1), size | sign).cast("trunc", narrow)
    return (size | sign).cast("trunc", narrow)


def decode(bits: Reg, dtype: DType) -> Reg:
    """The f32 equal to the value with these bits (i8 or i16)."""
    m = bits.m
    form = FORMATS[dtype.name]
    if dtype.name == "f16" and m.target.has_half_conversion:
        return bits.cast("bitcast", "half").cast("fpext", "float")
    wide = bits.cast("zext", "i32")
    if dtype.name == "bf16":
        return (wide << 16).floats()
    if form.kind == SCALE:
        normal = m.select(wide.eq(0), m.number(wide, 1 << 22), wide << 23).floats()
        return m.select(wide.eq(255), float("nan"), normal)
    width = 1 + form.exponent + form.fraction
    low = (1 << (width - 1)) - 1
    size = ((wide & low) << (23 - form.fraction)).floats() * 2.0 ** (127 - form.bias)
    signed = (size.bits() | (wide << (32 - width)) & -0x80000000).floats()
    if form.kind == IEEE:
        first = ((1 << form.exponent) - 1) << form.fraction
        payload = (wide << (23 - form.fraction)) & 0x007FFFFF
        special = (payload | _INFINITY | (wide << (32 - width)) & -0x80000000).floats()
        return m.select((wide & low) >= first, special, signed)
    if form.kind == FINITE:
        return m.select((wide & low).eq(low), m.copysign(float("nan"), signed), signed)
    if form.kind == UNSIGNED_ZERO:
        return m.select(
            (wide & ((1 << width) - 1)).eq(1 << (width - 1)), m.copysign(float("nan"), signed), signed
        )
    return signed


def divide_by_one(x: Reg, y: Reg) -> Reg:
    """Divides lanes of bf16 values x by one bf16 value y; the f32 results round to the right bf16 quotients.

    x is multiplied by the reciprocal of y, which is exact enough: a quotient of two 8-bit significands is
    never a 9-bit value, so none is nearer than 2**-17 to a rounding boundary. If the quotient of normal
    numbers is not a normal f32, its error is below half of the smallest f32. This was verified for all pairs
    of values. `y` is scaled so that the reciprocal is a normal number.
    """
    m = y.m
    size = m.abs(y)
    scale = m.select(size > 2.0**64, 2.0**-64, m.select(size < 2.0**-64, 2.0**64, m.number(y, 1.0)))
    return x * (1.0 / (y * scale)) * scale


def narrow_double(x: Reg) -> Reg:
    """Rounds f64 to f32 by rounding to odd: where x is not an f32, the result is the neighbour with an odd
    last bit. Numbers whose nearest f32 is 0 become 0, of which f8e8m0fnu makes NaN.

    Rounding the result to a shorter type equals rounding x.
    """
    m = x.m
    near = x.cast("fptrunc", "float")
    back = near.cast("fpext", "double")
    bits = near.bits()
    toward_zero = m.select(m.abs(back) > m.abs(x), bits - 1, bits)
    return m.select(back.ne(x) & (m.abs(near) > 0.0), toward_zero | 1, bits).floats()


def reduce_precision(x: Reg, dtype: DType, exponent_bits: int, fraction_bits: int) -> Reg:
    """Computes HLO's reduce-precision on the bits of the type: x with fewer exponent and fraction bits.

    Too small values become zero; a NaN that loses all fraction bits becomes infinity.
    """
    m, form = x.m, FORMATS.get(dtype.name)
    if form is not None and form.kind in (SCALE, FINITE_ONLY):  # these have no infinity
        return round_to(reduce_precision(x, F32, exponent_bits, fraction_bits), dtype)
    full, width = (form.fraction, form.exponent) if form else (23, 8) if dtype is F32 else (52, 11)
    own = encode(x, dtype).cast("zext", "i32") if form else x.bits()
    bits, bias = own, (1 << (width - 1)) - 1
    sign, exponents = own & -(1 << (full + width)), ((1 << width) - 1) << full
    if fraction_bits < full:
        bits = _round_fraction(bits, full - fraction_bits)
    if exponent_bits < width:
        top, exponent = (1 << (exponent_bits - 1)) - 1, bits & exponents
        bits = m.select(exponent <= ((bias - top) << full), sign, bits)
        bits = m.select(exponent > ((bias + top) << full), sign | exponents, bits)
    bits = m.select(x.is_nan(), own if fraction_bits > 0 else sign | exponents, bits)
    return decode(bits.cast("trunc", f"i{8 * dtype.itemsize}"), dtype) if form else bits.floats()
