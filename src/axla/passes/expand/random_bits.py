"""Expands rng-bit-generator to arithmetic on 32-bit words: each counter value makes a block of words."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import BY_NAME, U32, U64, DType
from axla.core.errors import UnsupportedError
from axla.hlo import Mulhi, RngBitGenerator, random_bits
from axla.ir.attributes import RandomAlgorithm
from axla.ir.graph import Instruction, Module
from axla.ir.typed import op_of, shape_of
from axla.passes.expand.expander import expand, typed, written
from axla.passes.matrix import joined, number

Words = tuple[XlaOp, ...]


def rng_bit_generator_expander(module: Module) -> None:
    """Writes every rng-bit-generator with an implemented algorithm as arithmetic."""
    expand(module, "rng-bit-generator-expander", {RngBitGenerator: _generator})


def rng_bit_generator_check(module: Module) -> None:
    """Raises UnsupportedError for an rng-bit-generator that has not been expanded, since its algorithm is
    unknown.
    """
    for computation in module.computations:
        for inst in computation.instructions:
            if isinstance(inst.op, RngBitGenerator):
                raise UnsupportedError(f"{inst!r}: {inst.op.why_not(shape_of(inst.operands[0]))}")


def _generator(inst: Instruction) -> Instruction | None:
    op = op_of(inst, RngBitGenerator)
    if op.data.is_dynamic or op.why_not(shape_of(inst.operands[0])):
        return None
    return written(inst, _generated, op)


def _generated(inst: Instruction, op: RngBitGenerator, state: XlaOp) -> Sequence[XlaOp]:
    data = op.data
    make = three_fry_bits if op.algorithm is RandomAlgorithm.THREE_FRY else philox_bits
    bits, following = make(state, data.dims, data.dtype.bits == 64)
    return [following, as_dtype(bits, data.dtype)]


def as_dtype(bits: XlaOp, dtype: DType) -> XlaOp:
    """The low bits of each word in `bits`, as numbers of the element type `dtype`."""
    bits = typed(bits, BY_NAME[f"u{dtype.bits}"])
    return bits if bits.dtype is dtype else ops.BitcastConvertType(bits, dtype)


def halves(x: XlaOp) -> Words:
    """The low and the high 32 bits of each element, as (low, high)."""
    return typed(x, U32), typed(ops.ShiftRightLogical(x, 32), U32)


def _whole(low: XlaOp, high: XlaOp) -> XlaOp:
    return typed(low, U64) | typed(high, U64) << 32


def _counters(first: Words, count: int) -> Words:
    """Numbers of several 32-bit words, the lowest word first: `first` and the `count - 1` numbers after
    it.
    """
    builder = first[0].builder
    short = count < 1 << 32
    places = (ops.Iota(builder, U32, count),) if short else halves(ops.Iota(builder, U64, count))
    found = []
    carry: XlaOp | None = None
    for n, word in enumerate(first):
        total = start = ops.Broadcast(word, [count])
        over: XlaOp | None = None
        if n < len(places):
            total = start + places[n]
            over = total < start
        if carry is not None:
            total = total + typed(carry, U32)
            # adding a carry overflows only if the word becomes 0
            wrapped = carry & (total == 0)
            over = wrapped if over is None else over | wrapped
        carry = over
        found.append(total)
    return tuple(found)


def three_fry_bits(state: XlaOp, dims: Sequence[int], wide: bool) -> tuple[XlaOp, XlaOp]:
    """Random bits by ThreeFry, as words of 32 bits (64 bits if `wide`) in an array of `dims`, and the next
    state.
    """
    key, counter = state[0], state[1]
    half, at = list(dims) or [1], 0
    if not wide:
        at = random_bits.halved_dimension(tuple(half))
        half[at] = -(-half[at] // 2)
    low, high = _three_fry(_counters(halves(counter), prod(half)), halves(key))
    following = _advanced(state, [1], prod(half))
    if wide or not dims:
        return ops.Reshape(_whole(low, high) if wide else low, dims), following
    apart = [*half[: at + 1], 1, *half[at + 1 :]]
    both = joined([ops.Reshape(x, apart) for x in (low, high)], at + 1)
    whole = ops.Reshape(both, [2 * n if d == at else n for d, n in enumerate(half)])
    return whole[tuple(slice(n) for n in dims)], following


def _three_fry(counter: Words, key: Words) -> Words:
    x, y = counter
    keys = [ops.Broadcast(k, x.dims) for k in (*key, key[0] ^ key[1] ^ random_bits.PARITY)]
    x, y = x + keys[0], y + keys[1]
    for group in range(random_bits.THREE_FRY_GROUPS):
        for by in random_bits.ROTATIONS[group % 2]:
            x = x + y
            y = (y << by | ops.ShiftRightLogical(y, 32 - by)) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + (group + 1)
    return x, y


def philox_bits(state: XlaOp, dims: Sequence[int], wide: bool) -> tuple[XlaOp, XlaOp]:
    """Random bits by Philox, as words of 32 bits (64 bits if `wide`) in an array of `dims`, and the next
    state.
    """
    long = state.dims[0] == 3
    order = [1, 2] if long else [1, 0]
    counter = [word for n in order for word in halves(state[n])]
    size = prod(dims)
    bits = ops.Reshape(philox_line(tuple(counter), halves(state[0]), size, wide), dims)
    return bits, _advanced(state, order if long else [1], philox_counters(size, wide))


def philox_counters(size: int, wide: bool) -> int:
    """The number of 128-bit blocks that `size` words of 32 bits (64 bits if `wide`) take."""
    return -(-size * (2 if wide else 1) // 4)


def philox_line(counter: Words, key: Words, size: int, wide: bool) -> XlaOp:
    """`size` words of Philox, of 64 bits if `wide`, else of 32 bits. The counter consists of four scalar
    words, the lowest first, the key of two.
    """
    count = philox_counters(size, wide)
    words = _philox(_counters(counter, count), key)
    if wide:
        words = (_whole(*words[:2]), _whole(*words[2:]))
    both = joined([ops.Reshape(x, (count, 1)) for x in words], 1)
    return ops.Reshape(both, (count * len(words),))[:size]


def _philox(words: Words, keys: Words) -> Words:
    builder, dims = words[0].builder, words[0].dims
    factors = [ops.Broadcast(number(words[0], factor), dims) for factor in random_bits.PHILOX_FACTORS]
    for _ in range(random_bits.PHILOX_ROUNDS):
        pairs = list(zip((words[0], words[2]), factors, strict=True))
        low = [x * f for x, f in pairs]
        high = [builder.add(Mulhi(), pair) for pair in pairs]
        words = (high[1] ^ words[1] ^ keys[0], low[1], high[0] ^ words[3] ^ keys[1], low[0])
        keys = tuple(k + step for k, step in zip(keys, random_bits.PHILOX_STEPS, strict=True))
    return words


def _advanced(state: XlaOp, order: Sequence[int], by: int) -> XlaOp:
    """The state with its counter advanced by `by`; `order` lists the words of the counter, the lowest
    first.
    """
    parts = [state[n] for n in range(state.dims[0])]
    old = parts[order[0]]
    parts[order[0]] = old + by
    if len(order) > 1:
        parts[order[1]] = parts[order[1]] + typed(parts[order[0]] < old, U64)
    return joined([ops.Reshape(p, (1,)) for p in parts], 0)
