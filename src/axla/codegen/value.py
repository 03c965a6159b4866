"""The values of HLO in generated code: an element type, a number of lanes, and LLVM registers.

Representation of a type in registers and in memory:

    pred                 i1             one byte, 0 or 1
    s2 s4 u2 u4          i8, extended   one byte, the high bits are ignored (written as zero)
    s8 .. u64            i8 .. i64      the same
    f16 bf16 f8* f6* f4  float          its bits; every register value is one that the type can represent
    f32 f64              float double   the same
    c64 c128             two of them    interleaved

`Values` writes operations on values into one function. An operand of one lane is splatted when it is combined
with one of many, as late as possible: uniform values stay scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from axla.codegen import avx512, integer, small_float, soft
from axla.codegen.arithmetic import Arithmetic, Reg
from axla.codegen.convert import convert, memory_element, register_element, resize, wrap
from axla.codegen.function import IfElse, LlvmFunction, Ssa
from axla.codegen.math import complex as complex_math
from axla.codegen.math import tables
from axla.codegen.types import lane_count, mangle, vector
from axla.core.dataclass import dataclass
from axla.core.dtypes import BF16, C64, C128, F16, F32, PRED, S32, S64, DType
from axla.core.errors import UnsupportedError
from axla.target.machine import Target

# Intrinsics that every LLVM back end turns into instructions on all machines (fences only for vectors).
_PORTABLE = frozenset({
    "fabs", "copysign", "sqrt", "ctpop", "ctlz", "smin", "smax", "umin", "umax", "maximum", "minimum",
    "prefetch", "expect", "arithmetic.fence",
})  # fmt: skip
# Ops that are machine instructions. An f32 result that is rounded to f16 has the bits of the f16 result.
_PLAIN = frozenset({"add", "subtract", "multiply", "divide"})
_ORDERING = frozenset({"maximum", "minimum"})
_ROUNDING = frozenset({"roundeven", "floor", "ceil", "trunc"})


def allowed_intrinsics(target: Target) -> frozenset[str]:
    """The intrinsics, without `llvm.` and type suffix, that a target implements by instructions."""
    allowed = set(_PORTABLE | target.intrinsics)
    if target.has_fma:
        allowed.add("fma")
    if target.has_rounding:
        allowed |= _ROUNDING
    if target.has_fast_gather:
        allowed.add("masked.gather")
    if target.has_masked:
        allowed |= {"masked.load", "masked.store"}
    if target.math.avx512:
        own = "mask.scalef", "mask.getexp", "mask.getmant", "mask.cvtps2dq", "mask.cvttps2dq", "rsqrt14"
        allowed |= {f"x86.avx512.{name}" for name in own}
    return frozenset(allowed)


def forbidden_intrinsics(declared: Sequence[str], target: Target) -> list[str]:
    """The declared intrinsics (`llvm.fma.v16f32`) that may become library calls on a target."""
    allowed = allowed_intrinsics(target)
    names = (name.removeprefix("llvm.") for name in declared if name.startswith("llvm."))
    return sorted(name for name in names if not any(name == a or name.startswith(a + ".") for a in allowed))


@dataclass(frozen=True, slots=True)
class Value:
    """A value: `lanes` elements of a type, in one LLVM register, or two (real, imaginary) for a complex
    type.
    """

    dtype: DType
    lanes: int
    parts: tuple[Ssa, ...]

    @property
    def ssa(self) -> Ssa:
        """The register of a value that is not complex."""
        (part,) = self.parts
        return part


ValueGroup = tuple[Value, ...]
Join = Callable[[ValueGroup, ValueGroup], ValueGroup]


def parts_of(values: Iterable[Value]) -> list[Ssa]:
    """All registers of the values in one list, as a loop carries them."""
    return [part for value in values for part in value.parts]


def rebuilt(like: Iterable[Value], parts: Iterable[Ssa]) -> tuple[Value, ...]:
    """Makes values with the types and lane counts of `like` from the list of all their registers."""
    rest = iter(parts)
    return tuple(Value(v.dtype, v.lanes, tuple(next(rest) for _ in v.parts)) for v in like)


def merged(branch: IfElse, a: Sequence[Value], b: Sequence[Value]) -> tuple[Value, ...]:
    """The values after a branch: `a` if its first side ran, `b` if its second did."""
    return rebuilt(a, branch.merge(list(zip(parts_of(a), parts_of(b), strict=True))))


def register_types(dtype: DType, lanes: int) -> tuple[str, ...]:
    """The LLVM types of the registers of a value."""
    kind = vector(register_element(dtype.real), lanes)
    return (kind, kind) if dtype.is_complex else (kind,)


INDEX_TYPES = {"i32": S32, "i64": S64}
"""The dtype of an index register, by its LLVM type."""

_SIGNED_PREDICATE = {"EQ": "eq", "NE": "ne", "GE": "sge", "GT": "sgt", "LE": "sle", "LT": "slt"}
_PRED_ORDER: dict[str, Callable[[Reg, Reg], Reg]] = {  # not every LLVM compares i1 vectors by order
    "GT": lambda a, b: a & ~b, "GE": lambda a, b: a | ~b,
    "LT": lambda a, b: ~a & b, "LE": lambda a, b: ~a | b,
}  # fmt: skip
_UNSIGNED_PREDICATE = {"EQ": "eq", "NE": "ne", "GE": "uge", "GT": "ugt", "LE": "ule", "LT": "ult"}
_FLOAT_PREDICATE = {"EQ": "oeq", "NE": "une", "GE": "oge", "GT": "ogt", "LE": "ole", "LT": "olt"}


class Values:
    """Writes operations on values into one function, for one target. `straight` marks code that runs only a
    few times and may be long: in it, math functions that were written out often enough become calls.
    """

    def __init__(self, f: LlvmFunction, target: Target, *, straight: bool = False):
        self.f = f
        self.straight = straight
        self._written: dict[tuple[str, str], int] = {}  # function and type -> instructions written for it
        self.target = target
        self.m = Arithmetic(f, target, soft.lowering)
        # Register -> the bits it was decoded from, for stores that only move data.
        self._bits: dict[str, Reg] = {}
        # Rounded register -> the register before it was rounded: to bf16 by an instruction, and to whole
        # numbers.
        self._unrounded: dict[str, Reg] = {}
        self._fractions: dict[str, Reg] = {}

    # -- making values -----------------------------------------------------------------------------------

    def constant(self, dtype: DType, number: Any, lanes: int = 1) -> Value:
        """A constant: `number` (of Python, NumPy or ml_dtypes) in every lane, converted to `dtype` as NumPy
        converts.
        """
        if dtype.is_complex:
            part = dtype.real
            both = complex(number)
            return Value(dtype, lanes, tuple(self._number(part, x, lanes) for x in (both.real, both.imag)))
        return Value(dtype, lanes, (self._number(dtype, number, lanes),))

    def _number(self, dtype: DType, number: Any, lanes: int) -> Ssa:
        kind = vector(register_element(dtype), lanes)
        if dtype.is_float:
            if dtype.bits < 32:
                with np.errstate(over="ignore", invalid="ignore"):
                    number = np.asarray(float(number)).astype(dtype.numpy)
            return self.f.const(kind, float(number))
        if dtype.is_pred:
            return self.f.const(kind, bool(number))
        whole = int(number) & ((1 << dtype.bits) - 1)
        # LLVM reads a constant as a signed number of the register's width. Only unsigned types of less than a
        # byte never use the sign bit.
        if dtype.is_signed or dtype.bits >= 8:
            whole -= (whole >> (dtype.bits - 1)) << dtype.bits
        return self.f.const(kind, whole)

    def wrap(self, dtype: DType, parts: Sequence[Ssa]) -> Value:
        """Makes a value from registers that already have the form of its type."""
        return Value(dtype, lane_count(parts[0].type), tuple(parts))

    def splat(self, value: Value, lanes: int) -> Value:
        """Repeats a value of one lane in all `lanes` lanes; a value that has so many lanes is returned as it
        is.
        """
        if value.lanes == lanes:
            return value
        assert value.lanes == 1, f"splat of {value.lanes} lanes to {lanes}"
        return Value(value.dtype, lanes, tuple(self.f.splat(part, lanes) for part in value.parts))

    def together(self, *values: Value) -> tuple[Value, ...]:
        """The values with a common lane count: single lanes are splatted."""
        lanes = max(value.lanes for value in values)
        return tuple(self.splat(value, lanes) for value in values)

    def complex(self, re: Value, im: Value) -> Value:
        """A complex value from its real and imaginary parts."""
        re, im = self.together(re, im)
        return Value(C64 if re.dtype is F32 else C128, re.lanes, (*re.parts, *im.parts))

    def to_index(self, value: Value) -> Ssa:
        """Converts an integer value to the index type of the target; unsigned types are extended with
        zeros.
        """
        return resize(self.m.reg(value.ssa), value.dtype, self.f.module.index_type).ssa

    def from_index(self, index: Ssa, dtype: DType) -> Value:
        """Converts an index to any real type."""
        wide = self.m.reg(index)
        signed = INDEX_TYPES[wide.element]
        return Value(dtype, wide.lanes, (convert(wide, signed, dtype).ssa,))

    # -- lanes -------------------------------------------------------------------------------------------

    def lane(self, value: Value, number: int) -> Value:
        """Lane `number` of a value, as a value of one lane."""
        return Value(value.dtype, 1, tuple(self.f.extract(part, number) for part in value.parts))

    def shuffle(self, a: Value, b: Value, order: Sequence[int]) -> Value:
        """Selects lanes of two values by `order`: numbers 0 to n-1 are the lanes of `a`, n to 2n-1 those of
        `b`.
        """
        parts = zip(a.parts, b.parts, strict=True)
        return Value(a.dtype, len(order), tuple(self.f.shuffle(x, y, order) for x, y in parts))

    def join(self, lanes: Sequence[Value]) -> Value:
        """Combines values of one lane each into one value that has them as lanes."""
        count = len(lanes)
        if count == 1:
            return lanes[0]
        parts = []
        for position, first in enumerate(lanes[0].parts):
            whole = self.f.undef(vector(first.type, count))
            for number, one in enumerate(lanes):
                whole = self.f.insert(whole, one.parts[position], number)
            parts.append(whole)
        return Value(lanes[0].dtype, count, tuple(parts))

    def across_lanes(self, values: ValueGroup, join: Join) -> ValueGroup:
        """Combines all lanes of a group of values into one lane: repeatedly applies `join` to the lower and
        the upper half of the lanes, so the order is always the same.
        """
        while values[0].lanes > 1:
            half = values[0].lanes // 2
            low, high = (
                tuple(
                    self.shuffle(v, v, range(at, at + half)) if half > 1 else self.lane(v, at) for v in values
                )
                for at in (0, half)
            )
            values = join(low, high)
        return values

    # -- memory ------------------------------------------------------------------------------------------

    def load(
        self, dtype: DType, pointer: Ssa, lanes: int, readonly: bool = False, *, align: int = 0
    ) -> Value:
        """Loads `lanes` contiguous elements. `readonly`: nothing writes to them while the function runs.
        `align`: the alignment of the first one in bytes, if more than an element's.
        """
        kind = memory_element(dtype.real)
        count = 2 * lanes if dtype.is_complex else lanes
        raw = self.f.load(vector(kind, count), pointer, align or dtype.real.itemsize, readonly=readonly)
        if dtype.is_complex:
            if lanes == 1:
                return Value(dtype, 1, (self.f.extract(raw, 0), self.f.extract(raw, 1)))
            even, odd = range(0, count, 2), range(1, count, 2)
            return Value(dtype, lanes, (self.f.shuffle(raw, raw, even), self.f.shuffle(raw, raw, odd)))
        return self._from_memory(dtype, raw)

    def _from_memory(self, dtype: DType, raw: Ssa) -> Value:
        """Converts a loaded register to a value of a real type."""
        bits = self.m.reg(raw)
        if dtype.is_pred:
            bits = bits.ne(0)
        elif dtype.is_float and dtype.bits < 32:
            decoded = small_float.decode(bits, dtype)
            self._bits[decoded.ssa.text + dtype.name] = bits
            bits = decoded
        elif dtype.bits < 8:
            bits = wrap(bits, dtype)
        return Value(dtype, bits.lanes, (bits.ssa,))

    def _to_memory(self, value: Value) -> Ssa:
        """Converts a value of a real type to the register that is stored for it."""
        dtype, x = value.dtype, self.m.reg(value.ssa)
        if dtype.is_pred:
            return x.cast("zext", "i8").ssa
        if dtype.is_float and dtype.bits < 32:
            return self._encode(x, dtype).ssa
        if dtype.is_signed and dtype.bits < 8:
            return (x & ((1 << dtype.bits) - 1)).ssa
        return x.ssa

    def stored(self, x: Value) -> Value:
        """The value that a load returns after a store of `x`: where a type has a single NaN, all NaNs get the
        sign of that NaN's bits.
        """
        return self._from_memory(x.dtype, self._to_memory(x)) if x.dtype.bits == 8 and x.dtype.is_float else x

    def _encode(self, x: Reg, dtype: DType) -> Reg:
        known = self._bits.get(x.ssa.text + dtype.name)
        if known is None and dtype is BF16 and avx512.rounds(x):
            return avx512.bfloat(x)
        return known if known is not None else small_float.encode(x, dtype)

    def store(self, value: Value, pointer: Ssa, nontemporal: bool = False, *, align: int = 0) -> None:
        """Stores the lanes to contiguous elements; `align` as for `load`."""
        dtype = value.dtype
        if not dtype.is_complex:
            raw = self._to_memory(value)
        elif value.lanes == 1:
            pair = self.f.undef(vector(value.parts[0].type, 2))
            raw = self.f.insert(self.f.insert(pair, value.parts[0], 0), value.parts[1], 1)
        else:
            order = [k for lane in range(value.lanes) for k in (lane, lane + value.lanes)]
            raw = self.f.shuffle(value.parts[0], value.parts[1], order)
        self.f.store(raw, pointer, align or dtype.real.itemsize, nontemporal=nontemporal)

    def gather(self, dtype: DType, pointer: Ssa, index: Ssa, readonly: bool = False) -> Value:
        """The elements at `index` (one element number per lane) of the array at `pointer`."""
        lanes = lane_count(index.type)
        if lanes == 1 or not self._gathers(dtype):
            one = [self._element(dtype, pointer, self.f.extract(index, k), readonly) for k in range(lanes)]
            return self.join(one)
        kind = vector(memory_element(dtype), lanes)
        addresses = self.f.gep(memory_element(dtype), pointer, index)
        name = f"llvm.masked.gather.{mangle(kind)}.v{lanes}p0"
        mask, pointers = vector("i1", lanes), addresses.type
        self.f.module.declare(name, f"declare {kind} @{name}({pointers}, {mask}, {kind})")
        text = (
            f"call {kind} @{name}({pointers} align {dtype.itemsize} {addresses.text}, "
            f"{mask} splat (i1 true), {kind} poison)"
        )
        return self._from_memory(dtype, self.f.read(kind, text, (addresses,), readonly=readonly))

    def _gathers(self, dtype: DType) -> bool:
        return self.target.has_fast_gather and not dtype.is_complex and dtype.itemsize in (4, 8)

    def _element(self, dtype: DType, pointer: Ssa, index: Ssa, readonly: bool) -> Value:
        step = f"[2 x {memory_element(dtype.real)}]" if dtype.is_complex else memory_element(dtype)
        return self.load(dtype, self.f.gep(step, pointer, index), 1, readonly)

    # -- conversions -------------------------------------------------------------------------------------

    def convert(self, x: Value, dtype: DType) -> Value:
        """Converts a value as HLO's convert does.

        Conversions to integers saturate (NaN becomes 0), those to pred test for != 0, those to smaller floats
        round to nearest even.
        """
        if x.dtype is dtype:
            return x
        if x.dtype.is_complex and dtype.is_pred:
            re, im = self.regs(x)
            return Value(dtype, x.lanes, ((re.ne(0) | im.ne(0)).ssa,))
        source, part = x.dtype.real, dtype.real
        count = 2 if x.dtype.is_complex and dtype.is_complex else 1
        regs = self.regs(x)[:count]
        if source is F32 and part is BF16:
            return Value(dtype, x.lanes, (self._rounded(regs[0], part).ssa,))
        parts = [convert(reg, source, part, self._fractions.get(reg.ssa.text)).ssa for reg in regs]
        if dtype.is_complex and count == 1:
            parts.append(self._number(part, 0, x.lanes))
        return Value(dtype, x.lanes, tuple(parts))

    def factor(self, x: Value, result: DType, accumulator: DType) -> Value:
        """Converts a factor of a product to the type of the sums. If the result is pred, or an integer while
        the factor is a float, the factor is first converted to the type of the result.
        """
        narrow = result.is_pred or (x.dtype.is_float and result.is_integer)
        return self.convert(self.convert(x, result) if narrow else x, accumulator)

    def bitcast_convert(self, x: Value, dtype: DType) -> Value:
        """Reinterprets the bits of `x` as another type of the same width."""
        if x.dtype is dtype:
            return x
        if x.dtype.bits != dtype.bits or x.dtype.is_complex or dtype.is_complex:
            why = "changes the width of elements; only equal widths are elementwise"
            raise UnsupportedError(f"bitcast-convert: {x.dtype} to {dtype} {why}")
        raw = self.m.reg(self._to_memory(x))
        bits = raw.cast("bitcast", f"i{8 * x.dtype.itemsize}")
        return self._from_memory(dtype, bits.cast("bitcast", memory_element(dtype)).ssa)

    def reduce_precision(self, x: Value, exponent_bits: int, mantissa_bits: int) -> Value:
        """Rounds floats to `exponent_bits` of exponent and `mantissa_bits` of mantissa; the element type
        stays the same.
        """
        reduced = small_float.reduce_precision(self.m.reg(x.ssa), x.dtype, exponent_bits, mantissa_bits)
        return Value(x.dtype, x.lanes, (reduced.ssa,))

    # -- operations --------------------------------------------------------------------------------------

    def regs(self, x: Value) -> list[Reg]:
        """The registers of a value's parts, as operands of arithmetic."""
        return [self.m.reg(part) for part in x.parts]

    def _real(self, dtype: DType, result: Reg, exact: bool = False, plain: bool = False) -> Value:
        """Makes a value of a real type from the result of an operation. It is rounded if the type is a float
        of less than 32 bits, unless the operation is exact. `plain`: a machine instruction computed the
        result.
        """
        # Exact results of types under 16 bits are rounded too: the type may lack -0, or the next integer
        # above its largest number.
        if dtype.is_float and dtype.bits < 32 and not (exact and dtype.bits == 16):
            result = self._rounded(result, dtype, plain)
        return Value(dtype, result.lanes, (result.ssa,))

    def _rounded(self, x: Reg, dtype: DType, plain: bool = False) -> Reg:
        """Rounds an f32 to a float type of less than 32 bits; `plain`: a machine instruction computed it."""
        if dtype is not BF16 or not avx512.rounds(x):
            return small_float.round_to(x, dtype, plain)
        found = self._from_memory(dtype, avx512.bfloat(x).ssa).ssa
        self._unrounded[found.text] = x
        return self.m.reg(found)

    def _function(self, opcode: str, body: Callable[..., Reg], *regs: Reg) -> Reg:
        """Writes `body(*regs)` for the HLO op `opcode`. If it has already been written out often enough in
        `straight` code, writes a call of a shared function instead.
        """
        key = (opcode, regs[0].type)
        if self.straight and self._written.get(key, 0) > self.target.limits.line:
            return self.m.outlined(f"math.{opcode}", lambda *args: (body(*args),), *regs)[0]
        before = self.f.made
        found = body(*regs)
        made = self.f.made - before
        if made > self.target.limits.line_call:
            self._written[key] = self._written.get(key, 0) + made
        return found

    def unary(self, opcode: str, x: Value) -> Value:
        """Applies the elementwise op with this HLO opcode to a value."""
        if opcode in _SHAPED:
            return _SHAPED[opcode](self, x)
        return self._computed(opcode, x)

    def binary(self, opcode: str, a: Value, b: Value) -> Value:
        """Applies the elementwise op with this HLO opcode to two values of one type."""
        if a.dtype is not b.dtype:
            message = f"{opcode}: operands of types {a.dtype} and {b.dtype}; both must have the same type"
            raise UnsupportedError(message)
        if opcode == "complex":
            return self.complex(a, b)
        if opcode == "divide" and a.dtype is BF16 and b.lanes < a.lanes:
            return self._real(
                BF16, small_float.divide_by_one(self.m.reg(a.ssa), self.m.reg(b.ssa)), plain=True
            )
        return self._computed(opcode, *self.together(a, b))

    def _computed(self, opcode: str, *values: Value) -> Value:
        """Applies the HLO op with this opcode, by its function in the table for the element type of the
        operands.
        """
        dtype, lanes = values[0].dtype, values[0].lanes
        regs = [reg for value in values for reg in self.regs(value)]
        if dtype.is_complex:
            if opcode in tables.COMPLEX:
                re, im = tables.COMPLEX[opcode](*regs)
                return Value(dtype, lanes, (re.ssa, im.ssa))
        elif dtype.is_float:
            if dtype is F16 and opcode in _PLAIN and self.target.has_half:
                halves = [reg.cast("fptrunc", "half") for reg in regs]
                return self._real(dtype, tables.FLOATS[opcode](*halves).cast("fpext", "float"), exact=True)
            if opcode in tables.FLOATS:
                if dtype is BF16 and opcode in _ORDERING:  # compares unrounded values
                    wide = [self._unrounded.get(reg.ssa.text, reg) for reg in regs]
                    if wide != regs:
                        return Value(dtype, lanes, (self._rounded(tables.FLOATS[opcode](*wide), dtype).ssa,))
                result = self._function(opcode, tables.FLOATS[opcode], *regs)
                if opcode == "round-nearest-even":
                    self._fractions[result.ssa.text] = regs[0]
                return self._real(dtype, result, opcode in tables.EXACT, opcode in _PLAIN)
        elif dtype.is_pred:
            if opcode in integer.PRED:
                return Value(dtype, lanes, (integer.PRED[opcode](*regs).ssa,))
        elif opcode in integer.INTEGERS:
            return Value(dtype, lanes, (integer.INTEGERS[opcode](*regs, dtype).ssa,))
        raise UnsupportedError(f"{opcode}: not defined for elements of type {dtype}")

    def multiply_add(self, a: Value, b: Value, total: Value, *, fused: bool = True) -> Value:
        """Returns total + a * b; floats with one rounding where the machine supports it, complex numbers only
        if `fused`.
        """
        a, b, total = self.together(a, b, total)
        m, x, y, z = self.m, self.regs(a), self.regs(b), self.regs(total)
        if a.dtype.is_float:
            parts = (m.fma(x[0], y[0], z[0]),)
        elif a.dtype.is_complex and fused:
            parts = (
                m.fma(-x[1], y[1], m.fma(x[0], y[0], z[0])),
                m.fma(x[1], y[0], m.fma(x[0], y[1], z[1])),
            )
        else:
            return self.binary("add", total, self.binary("multiply", a, b))
        return Value(total.dtype, total.lanes, tuple(part.ssa for part in parts))

    def compare(self, direction: str, a: Value, b: Value, total_order: bool = False) -> Value:
        """Compares by `direction`, which is EQ, NE, GE, GT, LE or LT; the result is a pred. The total order
        is -NaN < -inf < ... < -0 < +0 < ... < inf < NaN.
        """
        a, b = self.together(a, b)
        dtype = a.dtype
        if dtype.is_complex:
            if direction not in ("EQ", "NE"):
                message = f"compare: direction {direction} is not defined for {dtype}; EQ and NE are"
                raise UnsupportedError(message)
            parts = zip(a.parts, b.parts, strict=True)
            re, im = (self._ordered(direction, x, y, dtype.real) for x, y in parts)
            both = re & im if direction == "EQ" else re | im
            return Value(PRED, a.lanes, (both.ssa,))
        if total_order and dtype.is_float:
            x, y = (self._rank(self.m.reg(self.stored(v).ssa)).ssa for v in (a, b))
            return Value(PRED, a.lanes, (self.f.icmp(_SIGNED_PREDICATE[direction], x, y),))
        return Value(PRED, a.lanes, (self._ordered(direction, a.ssa, b.ssa, dtype).ssa,))

    def _ordered(self, direction: str, x: Ssa, y: Ssa, dtype: DType) -> Reg:
        if dtype.is_float:
            return self.m.compare(_FLOAT_PREDICATE[direction], self.m.reg(x), self.m.reg(y))
        if dtype.is_pred and direction in _PRED_ORDER:
            return _PRED_ORDER[direction](self.m.reg(x), self.m.reg(y))
        predicates = _SIGNED_PREDICATE if dtype.is_signed else _UNSIGNED_PREDICATE
        return self.m.reg(self.f.icmp(predicates[direction], x, y))

    def _rank(self, x: Reg) -> Reg:
        """Maps floats to signed integers that have the total order of the floats."""
        bits = x.bits()
        width = int(bits.element[1:])
        return bits ^ (bits >> (width - 1)).lshr(1)

    def select(self, pred: Value, a: Value, b: Value) -> Value:
        """Selects `a` where `pred` holds, else `b`. A pred of one lane selects whole values."""
        a, b = self.together(a, b)
        if pred.lanes > a.lanes:
            a, b = self.splat(a, pred.lanes), self.splat(b, pred.lanes)
        pairs = zip(a.parts, b.parts, strict=True)
        return Value(a.dtype, a.lanes, tuple(self.f.select(pred.ssa, x, y) for x, y in pairs))

    def clamp(self, low: Value, x: Value, high: Value) -> Value:
        """Returns minimum(maximum(low, x), high)."""
        return self.binary("minimum", self.binary("maximum", low, x), high)

    def _is_finite(self, x: Value) -> Value:
        if not x.dtype.is_float:
            return self.constant(PRED, True, x.lanes)
        return Value(PRED, x.lanes, ((self.m.abs(self.m.reg(x.ssa)) < float("inf")).ssa,))

    def _part(self, x: Value, number: int) -> Value:
        if x.dtype.is_complex:
            return Value(x.dtype.real, x.lanes, (x.parts[number],))
        return self.constant(x.dtype, 0, x.lanes) if number else x

    def _abs(self, x: Value) -> Value:
        if x.dtype.is_complex:
            return Value(x.dtype.real, x.lanes, (complex_math.absolute(*self.regs(x)).ssa,))
        if x.dtype.is_float:
            return Value(x.dtype, x.lanes, (self.m.abs(self.m.reg(x.ssa)).ssa,))
        if x.dtype.is_pred:
            return x
        return Value(x.dtype, x.lanes, (integer.absolute(self.m.reg(x.ssa), x.dtype).ssa,))


# Ops whose result has another type than their operand, or that handle element types themselves.
_SHAPED: dict[str, Callable[[Values, Value], Value]] = {
    "copy": lambda values, x: x,
    "is-finite": Values._is_finite,
    "real": lambda values, x: values._part(x, 0),
    "imag": lambda values, x: values._part(x, 1),
    "abs": Values._abs,
}
