"""rng as arithmetic on random words: the state of the run gives each instruction counters of its own."""

from __future__ import annotations

import math

from axla.core.dtypes import F32, F64, U32, U64, DType
from axla.core.shape import Shape
from axla.hlo import (
    Add,
    And,
    BitcastConvert,
    Compare,
    Concatenate,
    Convert,
    Cosine,
    IsFinite,
    Log,
    Multiply,
    Remainder,
    Rng,
    RngGetAndUpdateState,
    Select,
    ShiftRightLogical,
    Sine,
    Slice,
    Sqrt,
    Subtract,
)
from axla.ir.attributes import Direction, RandomDistribution, SliceDims
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import converted, expand, full, scalar, shape_of, spread
from axla.passes.expand.matrices import reshaped
from axla.passes.expand.random_bits import element, halves, philox_counters, philox_line

KEY = (0x2C6FE96E, 0xE78B6955)
"""Of every program; runs and instructions differ in their counters."""


def rng_expander(module: Module) -> None:
    """Writes every rng as arithmetic on the state of the run."""
    expand(module, "rng-expander", {Rng: _random})


def _random(inst: Instruction) -> Instruction:
    op = inst.op
    assert isinstance(op, Rng)
    shape = op.shape.logical
    if not shape.size:
        return full(inst.computation, shape, 0)
    make = _normal if op.distribution is RandomDistribution.NORMAL else _uniform
    return reshaped(make(inst, Shape(shape.dtype, (shape.size,))), shape.dims)


def _words(inst: Instruction, count: int, wide: bool) -> Instruction:
    """So many random words of 32 or 64 bits."""
    computation = inst.computation
    take = RngGetAndUpdateState(Shape(U64, (2,)), philox_counters(count, wide))
    state = computation.add(take)
    low, high = (halves(element(state, n)) for n in range(2))
    key = tuple(scalar(computation, U32, k) for k in KEY)
    return philox_line((*low, *high), key, count, wide)


def _unit(words: Instruction, dtype: DType, bits: int) -> Instruction:
    """Numbers in [0, 1): multiples of 2**-bits."""
    width = shape_of(words).dtype.bits
    high = ShiftRightLogical()(words, full(words.computation, shape_of(words), width - bits))
    numbers = converted(high, dtype)
    return Multiply()(numbers, full(words.computation, shape_of(numbers), 2.0**-bits))


def _uniform(inst: Instruction, line: Shape) -> Instruction:
    dtype = line.dtype
    low, high = (spread(x, line) for x in inst.operands)
    words = _words(inst, line.size, dtype.bits == 64)
    if dtype.is_pred:
        odd = And()(words, full(words.computation, shape_of(words), 1))
        return Select()(converted(odd, dtype), high, low)
    if dtype.is_integer:
        return _uniform_integer(words, low, high)
    wide = F64 if dtype is F64 else F32
    first, last = converted(low, wide), converted(high, wide)
    unit = _unit(words, wide, 52 if wide is F64 else 23)
    # Half the numbers, twice, where the range is too large for its type.
    one, half, two = (full(words.computation, shape_of(first), n) for n in (1.0, 0.5, 2.0))
    fits = IsFinite()(Subtract()(last, first))
    first, last = (Multiply()(x, Select()(fits, one, half)) for x in (first, last))
    found = Add()(first, Multiply()(unit, Subtract()(last, first)))
    found = converted(Multiply()(found, Select()(fits, one, two)), dtype)
    # Rounding may reach the end, which is left out.
    return Select()(Compare(Direction.LT)(found, high), found, low)


def _uniform_integer(words: Instruction, low: Instruction, high: Instruction) -> Instruction:
    """low + words mod (high - low), in the width of the words."""
    dtype, word = shape_of(low).dtype, shape_of(words).dtype
    first, last = (_as_words(x, word) for x in (low, high))
    found = Add()(first, Remainder()(words, Subtract()(last, first)))
    return converted(found, dtype) if dtype.bits < word.bits else _same_bits(found, dtype)


def _as_words(x: Instruction, word: DType) -> Instruction:
    """Integers as words of their value modulo the word's range."""
    if shape_of(x).dtype.bits < word.bits:
        return Convert(shape_of(x).with_dtype(word).logical)(x)
    return _same_bits(x, word)


def _same_bits(x: Instruction, dtype: DType) -> Instruction:
    shape = shape_of(x)
    return x if shape.dtype is dtype else BitcastConvert(shape.with_dtype(dtype).logical)(x)


def _normal(inst: Instruction, line: Shape) -> Instruction:
    """Two numbers from two words each (Box and Muller)."""
    wide = F64 if line.dtype is F64 else F32
    half = -(-line.size // 2)
    words = _words(inst, 2 * half, wide is F64)
    radius_words, angle_words = (Slice(SliceDims((n * half,), ((n + 1) * half,)))(words) for n in range(2))
    bits = shape_of(words).dtype.bits
    numbers = converted(radius_words, wide)
    shape, computation = shape_of(numbers), inst.computation
    # In (0, 1]: half a step above 0 at least, so that the logarithm is finite.
    step = full(computation, shape, 2.0**-bits)
    open_unit = Add()(Multiply()(numbers, step), full(computation, shape, 2.0 ** -(bits + 1)))
    radius = Sqrt()(Multiply()(Log()(open_unit), full(computation, shape, -2.0)))
    unit = _unit(angle_words, wide, 52 if wide is F64 else 23)
    angle = Multiply()(unit, full(computation, shape, 2 * math.pi))
    both = [Multiply()(radius, turn()(angle)) for turn in (Cosine, Sine)]
    joined = computation.add(Concatenate((0,)), both)
    if line.size % 2:
        joined = Slice(SliceDims((0,), (line.size,)))(joined)
    mean, deviation = (spread(converted(x, wide), line.with_dtype(wide)) for x in inst.operands)
    return converted(Add()(mean, Multiply()(deviation, joined)), line.dtype)
