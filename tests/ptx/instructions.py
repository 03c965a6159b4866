"""The meaning of instructions: a table from opcodes to functions of arrays, one element per thread.

Everything about threads together (memory, branches, barriers, shuffles) is in machine.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptx.floats import (
    BF16,
    F16,
    F32,
    F64,
    canonical,
    directed,
    fma,
    larger,
    narrowed,
    rounded,
    smaller,
    to_integer,
)

PREDICATE = np.dtype(bool)
TYPES = {
    "pred": PREDICATE, "f16": F16, "bf16": BF16, "f32": F32, "f64": F64,
    **{f"{k}{8 * w}": np.dtype(f"{n}{w}") for w in (1, 2, 4, 8) for k, n in zip("sub", "iuu", strict=True)},
}  # fmt: skip
Array = np.ndarray


@dataclass(frozen=True)
class Meaning:
    """The types of results and operands, and the function from these to those."""

    results: tuple[np.dtype, ...]
    operands: tuple[np.dtype, ...]
    compute: Callable[..., Any]


def meaning(opcode: str) -> Meaning | None:
    """The function of an opcode; None if it is not in the table."""
    for pattern, make in _RULES:
        found = pattern.fullmatch(opcode)
        if found is not None:
            return make(*found.groups())
    return None


def _same(compute: Callable[..., Array], count: int) -> Callable[[str], Meaning]:
    """An operation whose operands and result have the one type of its name."""

    def make(kind: str) -> Meaning:
        dtype = TYPES[kind]
        return Meaning((dtype,), (dtype,) * count, compute)

    return make


def _float(compute: Callable[..., Array], count: int) -> Callable[[str], Meaning]:
    """The same, of floats."""

    def rounded_once(*operands: Array) -> Array:
        return canonical(np.asarray(compute(*operands)))

    return _same(rounded_once, count)


def _approximate(compute: Callable[[Array], Array]) -> Callable[[str], Meaning]:
    """A function that the hardware approximates: here it is exact to the last place."""
    return _float(lambda x: compute(x.astype(F64)).astype(x.dtype), 1)


# -- integers ------------------------------------------------------------------------------------------------


def _wide_type(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")


def _high(a: Array, b: Array) -> Array:
    """The upper half of a product."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = _wide_type(a.dtype)
        return (a.astype(wide) * b.astype(wide) >> wide.type(bits)).astype(a.dtype)
    product = np.frompyfunc(lambda x, y: (int(x) * int(y) >> 64) & ((1 << 64) - 1), 2, 1)(a, b)
    return np.asarray(product).astype(np.uint64).view(a.dtype)


def _mad(kind: str, form: str, dtype: str) -> Meaning:
    """mul and mad: the lower half, the upper half or all of a product, and a number added to it."""
    one = TYPES[dtype]
    result = _wide_type(one) if form == "wide" else one

    def product(a: Array, b: Array) -> Array:
        if form == "hi":
            return _high(a, b)
        return a.astype(result) * b.astype(result)

    if kind == "mul":
        return Meaning((result,), (one, one), product)
    return Meaning((result,), (one, one, result), lambda a, b, c: product(a, b) + c)


def _quotient(a: Array, b: Array) -> Array:
    """Toward zero; of zero as divisor the PTX manual says nothing, and the machine gives all ones."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "i":  # NumPy's goes down
        found = a // safe
        found = found + ((a - found * safe != 0) & ((a < 0) != (safe < 0)))
    else:
        found = a // safe
    return np.where(b == 0, ~np.zeros_like(a), found).astype(a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    return np.where(b == 0, a, a - _quotient(a, b) * b).astype(a.dtype)


def _shift(left: bool) -> Callable[[str], Meaning]:
    """Shifts of as many bits as there are or more give zeros, or the sign."""

    def make(kind: str) -> Meaning:
        dtype = TYPES[kind]
        bits = 8 * dtype.itemsize

        def compute(a: Array, count: Array) -> Array:
            if not left and dtype.kind == "i":
                return a >> np.minimum(count, bits - 1).astype(dtype)
            inside = count < bits
            amount = np.where(inside, count, 0).astype(dtype)
            return np.where(inside, a << amount if left else a >> amount, dtype.type(0))

        return Meaning((dtype,), (dtype, TYPES["u32"]), compute)

    return make


def _funnel(side: str, mode: str) -> Meaning:
    """shf: 32 of the 64 bits of two registers."""
    word = TYPES["b32"]

    def compute(a: Array, b: Array, count: Array) -> Array:
        n = (count & 31 if mode == "wrap" else np.minimum(count, 32)).astype(np.uint64)
        both = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
        if side == "r":
            return (both >> n).astype(word)
        return (both << n >> np.uint64(32)).astype(word)

    return Meaning((word,), (word, word, word), compute)


def _extract(kind: str) -> Meaning:
    """bfe: a field of bits, filled with its sign or zeros."""
    dtype = TYPES[kind]
    bits = 8 * dtype.itemsize

    def one(a: int, start: int, length: int) -> int:
        start, length = start & 255, length & 255
        a &= (1 << bits) - 1
        field = (a >> start) & ((1 << length) - 1)
        if dtype.kind == "i" and length:
            sign = a >> min(start + length - 1, bits - 1) & 1
            inside = max(0, min(length, bits - start))
            field &= (1 << inside) - 1
            field |= (-sign) << inside
        return field & ((1 << bits) - 1)

    def compute(a: Array, start: Array, length: Array) -> Array:
        return np.asarray(np.frompyfunc(one, 3, 1)(a, start, length)).astype(f"u{dtype.itemsize}").view(dtype)

    return Meaning((dtype,), (dtype, TYPES["u32"], TYPES["u32"]), compute)


def _insert(kind: str) -> Meaning:
    """bfi: a field of bits put into a register."""
    dtype = TYPES[kind]
    bits = 8 * dtype.itemsize

    def one(a: int, b: int, start: int, length: int) -> int:
        start, length = start & 255, length & 255
        mask = ((1 << length) - 1) << start & ((1 << bits) - 1)
        return b & ~mask | a << start & mask

    def compute(*operands: Array) -> Array:
        return np.asarray(np.frompyfunc(one, 4, 1)(*operands)).astype(dtype)

    return Meaning((dtype,), (dtype, dtype, TYPES["u32"], TYPES["u32"]), compute)


def _permute(a: Array, b: Array, selector: Array) -> Array:
    """prmt: four of the eight bytes of two registers, or their signs."""
    a, b, selector = np.broadcast_arrays(a, b, selector)
    both = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
    found = np.zeros(a.shape, np.uint32)
    for place in range(4):
        chosen = selector >> np.uint32(4 * place) & np.uint32(15)
        byte = (both >> (np.uint64(8) * (chosen & 7).astype(np.uint64)) & np.uint64(255)).astype(np.uint32)
        sign = np.where(byte & 128, np.uint32(255), np.uint32(0))
        found |= np.where(chosen & 8, sign, byte) << np.uint32(8 * place)
    return found


def _logic(a: Array, b: Array, c: Array, table: Array) -> Array:
    """lop3: any function of three bits."""
    found = np.zeros_like(np.broadcast_arrays(a, b, c)[0])
    for number in range(8):
        if int(np.ravel(table)[0]) >> number & 1:
            found = found | (
                (a if number & 4 else ~a) & (b if number & 2 else ~b) & (c if number & 1 else ~c)
            )
    return found


def _counted(one: Callable[[int, int], int]) -> Callable[[str], Meaning]:
    """popc, clz: a number about the bits of a register."""

    def make(kind: str) -> Meaning:
        dtype = TYPES[kind]
        count = np.frompyfunc(lambda x: one(int(x), 8 * dtype.itemsize), 1, 1)
        return Meaning((TYPES["u32"],), (dtype,), lambda x: np.asarray(count(x)).astype(np.uint32))

    return make


def _reversed(kind: str) -> Meaning:
    dtype = TYPES[kind]
    bits = 8 * dtype.itemsize
    turn = np.frompyfunc(lambda x: int(f"{int(x):0{bits}b}"[::-1], 2), 1, 1)
    return Meaning((dtype,), (dtype,), lambda x: np.asarray(turn(x)).astype(dtype))


# -- comparisons ---------------------------------------------------------------------------------------------

_COMPARED: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def _unordered(a: Array, b: Array) -> Array:
    return (a != a) | (b != b)


def _compared(how: str, dtype: np.dtype) -> Callable[[Array, Array], Array]:
    if how == "nan":
        return _unordered
    if how == "num":
        return lambda a, b: ~_unordered(a, b)
    if how == "ne" and _is_float(dtype):
        return lambda a, b: (a != b) & ~_unordered(a, b)
    if how.endswith("u") and len(how) > 2:
        return lambda a, b: _COMPARED[how[:-1]](a, b) | _unordered(a, b)
    return _COMPARED[how]


_JOINED: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip


def _setp(how: str, join: str | None, kind: str) -> Meaning:
    dtype = TYPES[kind]
    compare = _compared(how, dtype)
    if join is None:
        return Meaning((PREDICATE,), (dtype, dtype), compare)
    both = _JOINED[join]
    return Meaning((PREDICATE,), (dtype, dtype, PREDICATE), lambda a, b, p: both(compare(a, b), p))


def _set(how: str, to: str, kind: str) -> Meaning:
    result, dtype = TYPES[to], TYPES[kind]
    compare = _compared(how, dtype)
    yes = result.type(1) if result.kind == "f" else np.array(-1).astype(result)[()]
    return Meaning((result,), (dtype, dtype), lambda a, b: np.where(compare(a, b), yes, result.type(0)))


def _selp(kind: str) -> Meaning:
    dtype = TYPES[kind]
    return Meaning((dtype,), (dtype, dtype, PREDICATE), lambda a, b, p: np.where(p, a, b))


# -- conversions ---------------------------------------------------------------------------------------------


def _is_float(dtype: np.dtype) -> bool:
    return dtype in (F16, BF16, F32, F64)


def _cvt(mode: str | None, saturate: str | None, to: str, kind: str) -> Meaning:
    result, dtype = TYPES[to], TYPES[kind]
    if _is_float(result):
        convert = _to_float(mode, result, dtype)
        if saturate:
            plain = convert

            def convert(x: Array) -> Array:
                return np.nan_to_num(np.clip(plain(x), 0, 1), nan=0.0)
    elif _is_float(dtype):

        def convert(x: Array) -> Array:
            return to_integer(x, result, mode or "rzi")
    elif saturate:

        def convert(x: Array) -> Array:
            info = np.iinfo(result)
            clamp = np.frompyfunc(lambda n: min(max(int(n), info.min), info.max), 1, 1)
            return np.asarray(clamp(x)).astype(result)
    else:

        def convert(x: Array) -> Array:
            return x.astype(result)

    return Meaning((result,), (dtype,), convert)


def _to_float(mode: str | None, result: np.dtype, dtype: np.dtype) -> Callable[[Array], Array]:
    if mode is not None and mode.endswith("i"):
        return lambda x: canonical(rounded(x, mode).astype(result))
    if mode in ("rz", "rm", "rp"):
        if dtype.kind in "iu" and dtype.itemsize == 8:
            raise KeyError(f"{mode} of 64-bit integers")
        return lambda x: canonical(directed(x.astype(F64), result, mode))
    if result == BF16 and dtype != F32:
        return lambda x: canonical(narrowed(x.astype(F64), BF16))
    return lambda x: canonical(x.astype(result))


def _packed(kind: str) -> Meaning:
    """cvt.rn.f16x2.f32: the first operand is the upper half."""
    half = TYPES[kind]

    def compute(high: Array, low: Array) -> Array:
        parts = [canonical(x.astype(half)).view(np.uint16).astype(np.uint32) for x in (high, low)]
        return parts[0] << np.uint32(16) | parts[1]

    return Meaning((TYPES["b32"],), (F32, F32), compute)


# -- the table -----------------------------------------------------------------------------------------------


def _copysign(kind: str) -> Meaning:
    dtype = TYPES[kind]
    return Meaning((dtype,), (dtype, dtype), lambda sign, x: np.copysign(x, sign))


def _absolute(x: Array) -> Array:
    bits = np.dtype(f"u{x.dtype.itemsize}")
    return (x.view(bits) & bits.type((1 << 8 * bits.itemsize - 1) - 1)).view(x.dtype)


def _negated(x: Array) -> Array:
    bits = f"u{x.dtype.itemsize}"
    return (x.view(bits) ^ np.array(1 << 8 * x.dtype.itemsize - 1, bits)).view(x.dtype)


def _extreme(which: str, nan: str | None, kind: str) -> Meaning:
    choose = smaller if which == "min" else larger
    return _float(lambda a, b: choose(a, b, nan=bool(nan)), 2)(kind)


def _move(x: Array) -> Array:
    return x.copy()


_INTEGER, _FLOAT, _BITS = r"([su]\d+)", r"(f16|bf16|f32|f64)", r"(b\d+)"
_RULES: Sequence[tuple[re.Pattern[str], Callable[..., Meaning]]] = [
    (re.compile(pattern), make)
    for pattern, make in (
        (r"mov\.(\w+)", _same(_move, 1)),
        (r"cvta(?:\.to)?\.(?:global|const|param)\.(u64)", _same(_move, 1)),
        (rf"add\.{_INTEGER}", _same(np.add, 2)),
        (rf"sub\.{_INTEGER}", _same(np.subtract, 2)),
        (rf"(mul|mad)\.(lo|hi|wide)\.{_INTEGER}", _mad),
        (rf"div\.{_INTEGER}", _same(_quotient, 2)),
        (rf"rem\.{_INTEGER}", _same(_remainder, 2)),
        (rf"neg\.{_INTEGER}", _same(np.negative, 1)),
        (rf"abs\.{_INTEGER}", _same(np.abs, 1)),
        (rf"min\.{_INTEGER}", _same(np.minimum, 2)),
        (rf"max\.{_INTEGER}", _same(np.maximum, 2)),
        (rf"shl\.{_BITS}", _shift(True)),
        (r"shr\.([sub]\d+)", _shift(False)),
        (r"shf\.(l|r)\.(wrap|clamp)\.b32", _funnel),
        (r"and\.(pred|b\d+)", _same(np.bitwise_and, 2)),
        (r"or\.(pred|b\d+)", _same(np.bitwise_or, 2)),
        (r"xor\.(pred|b\d+)", _same(np.bitwise_xor, 2)),
        (r"not\.(pred|b\d+)", _same(np.invert, 1)),
        (r"lop3\.(b32)", _same(_logic, 4)),
        (rf"bfe\.{_INTEGER}", _extract),
        (rf"bfi\.{_BITS}", _insert),
        (r"prmt\.(b32)", _same(_permute, 3)),
        (rf"popc\.{_BITS}", _counted(lambda x, bits: x.bit_count())),
        (rf"clz\.{_BITS}", _counted(lambda x, bits: bits - x.bit_length())),
        (rf"brev\.{_BITS}", _reversed),
        (rf"add(?:\.rn)?\.{_FLOAT}", _float(np.add, 2)),
        (rf"sub(?:\.rn)?\.{_FLOAT}", _float(np.subtract, 2)),
        (rf"mul(?:\.rn)?\.{_FLOAT}", _float(np.multiply, 2)),
        (rf"div\.rn\.{_FLOAT}", _float(np.divide, 2)),
        (rf"rcp\.rn\.{_FLOAT}", _float(lambda x: x.dtype.type(1) / x, 1)),
        (rf"sqrt\.rn\.{_FLOAT}", _float(np.sqrt, 1)),
        (rf"fma\.rn\.{_FLOAT}", _float(fma, 3)),
        (rf"(min|max)(\.NaN)?\.{_FLOAT}", _extreme),
        (rf"abs\.{_FLOAT}", _same(_absolute, 1)),
        (rf"neg\.{_FLOAT}", _same(_negated, 1)),
        (r"copysign\.(f32|f64)", _copysign),
        (r"ex2\.approx\.(f32)", _approximate(np.exp2)),
        (r"lg2\.approx\.(f32)", _approximate(np.log2)),
        (r"rsqrt\.approx\.(f32|f64)", _approximate(lambda x: 1 / np.sqrt(x))),
        (r"rcp\.approx\.(f32|f64)", _approximate(lambda x: 1 / x)),
        (r"tanh\.approx\.(f32)", _approximate(np.tanh)),
        (r"sin\.approx\.(f32)", _approximate(np.sin)),
        (r"cos\.approx\.(f32)", _approximate(np.cos)),
        (r"setp\.(\w+?)(?:\.(and|or|xor))?\.(\w+)", _setp),
        (r"set\.(\w+)\.(\w+)\.(\w+)", _set),
        (r"selp\.(\w+)", _selp),
        (r"cvt\.rn\.(b?f16)x2\.f32", _packed),
        (r"cvt(?:\.(rni|rzi|rmi|rpi|rn|rz|rm|rp))?(?:\.(sat))?\.(\w+)\.(\w+)", _cvt),
    )
]
