"""rng-bit-generator as arithmetic on 32-bit words: one counter per group of words."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from axla.core.dtypes import BY_NAME, U32, U64, DType
from axla.core.shape import Shape
from axla.hlo import (
    Add,
    And,
    BitcastConvert,
    Compare,
    Convert,
    Iota,
    Mulhi,
    Multiply,
    Or,
    Reshape,
    RngBitGenerator,
    ShiftLeft,
    ShiftRightLogical,
    Slice,
    Tuple,
    Xor,
)
from axla.hlo.random_bits import (
    PARITY,
    PHILOX_FACTORS,
    PHILOX_ROUNDS,
    PHILOX_STEPS,
    ROTATIONS,
    THREE_FRY_GROUPS,
    halved_dimension,
)
from axla.ir.attributes import Direction, RandomAlgorithm, SliceDims
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import converted, expand, full, scalar, shape_of, spread
from axla.passes.expand.matrices import reshaped, stacked

Words = tuple[Instruction, ...]


def rng_bit_generator_expander(module: Module) -> None:
    """Writes every rng-bit-generator as arithmetic."""
    expand(module, "rng-bit-generator-expander", {RngBitGenerator: _generator})


def _generator(inst: Instruction) -> Instruction | None:
    op, (state,) = inst.op, inst.operands
    assert isinstance(op, RngBitGenerator)
    data = op.data
    if op.why_not(shape_of(state)) or data.is_dynamic:
        return None
    make = three_fry_bits if op.algorithm is RandomAlgorithm.THREE_FRY else philox_bits
    bits, following = make(state, data.dims, data.dtype.bits == 64)
    return inst.computation.add(Tuple(), [following, as_dtype(bits, data.dtype)])


def as_dtype(bits: Instruction, dtype: DType) -> Instruction:
    """The low bits of words as another element type."""
    bits = converted(bits, BY_NAME[f"u{dtype.bits}"])
    shape = shape_of(bits)
    return bits if shape.dtype is dtype else BitcastConvert(shape.with_dtype(dtype).logical)(bits)


def element(state: Instruction, at: int) -> Instruction:
    """A word of the state, as a scalar."""
    return Reshape(Shape(U64))(Slice(SliceDims((at,), (at + 1,)))(state))


def halves(x: Instruction) -> Words:
    """The low and the high words."""
    high = ShiftRightLogical()(x, full(x.computation, shape_of(x), 32))
    return converted(x, U32), converted(high, U32)


def _whole(low: Instruction, high: Instruction) -> Instruction:
    high = converted(high, U64)
    return Or()(converted(low, U64), ShiftLeft()(high, full(high.computation, shape_of(high), 32)))


def _counters(first: Words, count: int) -> Words:
    """`first`, a number of several scalar words, and its successors."""
    line = Shape(U32, (count,))
    computation = first[0].computation
    if count < 1 << 32:
        places = computation.add(Iota(line, 0))
    else:
        places, more = halves(computation.add(Iota(line.with_dtype(U64), 0)))
        return _counters_of(places, more, first)
    return _counters_of(places, None, first)


def _counters_of(places: Instruction, more: Instruction | None, first: Words) -> Words:
    """The sums of a number of one or two words per element and a number of scalar words."""
    line, found = shape_of(places), []
    carry: Instruction | None = None
    for number, word in enumerate(first):
        start = spread(word, line)
        added = (places, more)[number] if number < 2 else None
        total = start if added is None else Add()(start, added)
        over = None if added is None else Compare(Direction.LT)(total, start)
        if carry is not None:
            total = Add()(total, Convert(line)(carry))
            # A carry comes out where it makes the word 0.
            wrapped = And()(carry, Compare(Direction.EQ)(total, full(total.computation, line, 0)))
            over = wrapped if over is None else Or()(over, wrapped)
        carry = over
        found.append(total)
    return tuple(found)


def three_fry_bits(state: Instruction, dims: Sequence[int], wide: bool) -> tuple[Instruction, Instruction]:
    """Words of 32 (or 64) bits of ThreeFry, and the next state."""
    key, counter = element(state, 0), element(state, 1)
    half, at = list(dims) or [1], 0
    if not wide:
        at = halved_dimension(tuple(half))
        half[at] = -(-half[at] // 2)
    low, high = _three_fry(_counters(halves(counter), prod(half)), halves(key))
    following = _advanced(state, [1], prod(half))
    if wide:
        return reshaped(_whole(low, high), dims), following
    if not dims:
        return reshaped(low, dims), following
    apart = [*half[: at + 1], 1, *half[at + 1 :]]
    both = stacked([reshaped(x, apart) for x in (low, high)], at + 1)
    joined = reshaped(both, [2 * n if d == at else n for d, n in enumerate(half)])
    whole = SliceDims((0,) * len(dims), tuple(dims))
    return (joined if shape_of(joined).dims == tuple(dims) else Slice(whole)(joined)), following


def _three_fry(counter: Words, key: Words) -> Words:
    x, y = counter
    line, computation = shape_of(x), x.computation
    parity = Xor()(Xor()(*key), scalar(computation, U32, PARITY))
    keys = [spread(k, line) for k in (*key, parity)]
    x, y = Add()(x, keys[0]), Add()(y, keys[1])
    for group in range(THREE_FRY_GROUPS):
        for by in ROTATIONS[group % 2]:
            x = Add()(x, y)
            left = ShiftLeft()(y, full(computation, line, by))
            y = Xor()(Or()(left, ShiftRightLogical()(y, full(computation, line, 32 - by))), x)
        x = Add()(x, keys[(group + 1) % 3])
        y = Add()(Add()(y, keys[(group + 2) % 3]), full(computation, line, group + 1))
    return x, y


def philox_bits(state: Instruction, dims: Sequence[int], wide: bool) -> tuple[Instruction, Instruction]:
    """Words of 32 (or 64) bits of Philox, and the next state."""
    long = shape_of(state).dims[0] == 3
    order = [1, 2] if long else [1, 0]
    counter = [word for n in order for word in halves(element(state, n))]
    key, size = halves(element(state, 0)), prod(dims)
    bits = reshaped(philox_line(tuple(counter), key, size, wide), dims)
    return bits, _advanced(state, order if long else [1], philox_counters(size, wide))


def philox_counters(size: int, wide: bool) -> int:
    """How many numbers of 128 bits so many words take."""
    return -(-size * (2 if wide else 1) // 4)


def philox_line(counter: Words, key: Words, size: int, wide: bool) -> Instruction:
    """So many words of Philox, from four scalar words of a counter on, the lowest first."""
    count = philox_counters(size, wide)
    words = _philox(_counters(counter, count), key)
    if wide:
        words = (_whole(*words[:2]), _whole(*words[2:]))
    both = stacked([reshaped(x, (count, 1)) for x in words], 1)
    line = reshaped(both, (count * len(words),))
    return line if size == count * len(words) else Slice(SliceDims((0,), (size,)))(line)


def _philox(words: Words, keys: Words) -> Words:
    line, computation = shape_of(words[0]), words[0].computation
    factors = [full(computation, line, factor) for factor in PHILOX_FACTORS]
    for _ in range(PHILOX_ROUNDS):
        low = [Multiply()(words[n], f) for n, f in zip((0, 2), factors, strict=True)]
        high = [Mulhi()(words[n], f) for n, f in zip((0, 2), factors, strict=True)]
        first, second = (spread(k, line) for k in keys)
        words = (
            Xor()(Xor()(high[1], words[1]), first), low[1], Xor()(Xor()(high[0], words[3]), second), low[0],
        )  # fmt: skip
        keys = tuple(
            Add()(k, scalar(computation, U32, step)) for k, step in zip(keys, PHILOX_STEPS, strict=True)
        )
    return words


def _advanced(state: Instruction, order: Sequence[int], by: int) -> Instruction:
    """The state with a number moved on, whose words are at `order`, the lowest first."""
    computation = state.computation
    parts = [element(state, n) for n in range(shape_of(state).dims[0])]
    old = parts[order[0]]
    parts[order[0]] = Add()(old, scalar(computation, U64, by))
    if len(order) > 1:
        carry = Convert(Shape(U64))(Compare(Direction.LT)(parts[order[0]], old))
        parts[order[1]] = Add()(parts[order[1]], carry)
    return stacked([reshaped(p, (1,)) for p in parts], 0)
