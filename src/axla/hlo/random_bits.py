"""The op rng-bit-generator: ThreeFry 2x32 and Philox 4x32 (Salmon et al., 2011), with the bits in the order
of XLA:CPU.

The state u64[2] is a key and a counter; for Philox it may be u64[3]: a key and a counter of 128 bits, low
word first. With u64[2], the counter of Philox also has 128 bits, and the key is its high word.
"""

from __future__ import annotations

from math import prod

import numpy as np

from axla.core.dtypes import BY_NAME, F32, PRED, S16, U8, U32, U64
from axla.core.errors import UnsupportedError
from axla.core.shape import AnyShape, Shape, TupleShape, array
from axla.hlo.bits import as_type
from axla.hlo.family import arrays, show
from axla.ir.attributes import RandomAlgorithm
from axla.ir.op import Op, attr, example, op

Words = np.ndarray

PARITY = 0x1BD11BDA
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PHILOX_FACTORS = (0xD2511F53, 0xCD9E8D57)
PHILOX_STEPS = (0x9E3779B9, 0xBB67AE85)
THREE_FRY_GROUPS = 5  # groups of four rounds each, 20 rounds in total
PHILOX_ROUNDS = 10


@op("rng-bit-generator", operands="state", expensive=True)
class RngBitGenerator(Op):
    """Computes random bits from a state. The value is a tuple: the next state, and the bits.

    rng_three_fry takes u64[2] (key, counter); rng_philox takes u64[3] (key, counter of 128 bits, low word
    first) or u64[2]. Both return the bits that XLA:CPU returns. rng_default is Philox.
    """

    shape: AnyShape
    algorithm: RandomAlgorithm = attr(required=True, default=RandomAlgorithm.DEFAULT, proto="rng_algorithm")

    def infer(self, state: AnyShape) -> AnyShape:
        """Returns the declared shape (state, bits). The state must have a shape that the algorithm takes."""
        (source,) = arrays(self, state)
        parts = self.shape.elements if isinstance(self.shape, TupleShape) else ()
        if len(parts) != 2 or parts[0].logical is not source.logical or not isinstance(parts[1], Shape):
            self.reject("c1", f"({show(state)}, bits) is wanted, found {show(self.shape)}")
        wanted = None if self.algorithm is RandomAlgorithm.DEFAULT else self.why_not(source)
        if wanted or source.rank != 1 or not source.size:
            wanted = wanted or f"the state must be a vector that is not empty, found {show(state)}"
            self.reject("c4", f"{wanted}")
        if parts[1].dtype is PRED or parts[1].dtype.is_complex:
            found = show(parts[1])
            self.reject("c2", f"the element type of the bits must be an integer or a float, found {found}")
        if f"u{parts[1].dtype.bits}" not in BY_NAME:
            found = show(parts[1])
            self.reject("c3", f"there is no integer type as wide as the elements of {found}")
        return self.shape

    @property
    def data(self) -> Shape:
        """The shape of the random bits, element 1 of the result."""
        return array(self.shape.elements[1])

    def why_not(self, state: AnyShape) -> str | None:
        """The reason why the algorithm does not take a state of this shape, or None if it takes it. A program
        may contain the op with such a state as long as it does not use its result.
        """
        lengths = (2,) if self.algorithm is RandomAlgorithm.THREE_FRY else (2, 3)
        if state.dtype is not U64 or state.rank != 1 or state.dims[0] not in lengths:
            wanted = " or ".join(f"u64[{n}]" for n in lengths)
            return f"the state of {self.algorithm} must be {wanted}, found {show(state)}"
        return None

    def evaluate(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the next state and the bits; UnsupportedError for a state that the algorithm does not
        take.
        """
        shape = self.shape.elements[0]
        why = self.why_not(shape)
        if why:
            raise UnsupportedError(f"rng-bit-generator: {why}")
        data = self.data
        wide = data.dtype.bits == 64
        generator = _three_fry if self.algorithm is RandomAlgorithm.THREE_FRY else _philox
        words, following = generator(state, data.dims, wide)
        if data.dtype.bits < 8:
            bits = words.astype(np.uint8) & np.uint8((1 << data.dtype.bits) - 1)
            return following, bits.view(data.dtype.numpy) if data.dtype.is_float else as_type(
                bits, data.dtype.numpy
            )
        return following, words.astype(f"u{data.dtype.bits // 8}").view(data.dtype.numpy)

    examples = [
        example(Shape(U64, (words,)), shape=TupleShape((Shape(U64, (words,)), made)), algorithm=algorithm)
        for algorithm, words, made in [
            (RandomAlgorithm.THREE_FRY, 2, Shape(U32, (3, 5))),
            (RandomAlgorithm.THREE_FRY, 2, Shape(F32, (4, 2))),
            (RandomAlgorithm.PHILOX, 2, Shape(U64, (5,))),
            (RandomAlgorithm.DEFAULT, 3, Shape(S16, (7,))),
            (RandomAlgorithm.PHILOX, 3, Shape(U8)),
        ]
    ]


def halved_dimension(dims: tuple[int, ...]) -> int:
    """The dimension along which elements take the first and the second word of ThreeFry in turn: the first
    dimension of even size, or the longest if there is none.
    """
    even = [d for d, n in enumerate(dims) if n % 2 == 0]
    return even[0] if even else max(range(len(dims)), key=lambda d: dims[d])


def _halves(x: Words) -> tuple[Words, Words]:
    """The low and the high 32 bits of each element."""
    return x.astype(np.uint32), (x >> np.uint64(32)).astype(np.uint32)


def _whole(low: Words, high: Words) -> Words:
    return low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)


def _three_fry(state: Words, dims: tuple[int, ...], wide: bool) -> tuple[Words, Words]:
    key = _halves(state[:1])
    half = dims
    if not wide:
        at = halved_dimension(dims) if dims else 0
        half = tuple(-(-n // 2) if d == at else n for d, n in enumerate(dims))
    count = prod(half)
    counters = state[1] + np.arange(count, dtype=np.uint64)
    low, high = (x.reshape(half) for x in three_fry(_halves(counters), key))
    following = np.array([state[0], state[1] + np.uint64(count)])
    if wide:
        return _whole(low, high), following
    if not dims:
        return low, following
    both = np.stack([low, high], at + 1)
    joined = both.reshape([2 * n if d == at else n for d, n in enumerate(half)])
    return joined[tuple(map(slice, dims))], following


def three_fry(counter: tuple[Words, Words], key: tuple[Words, Words]) -> tuple[Words, Words]:
    """The two random words that ThreeFry 2x32 with 20 rounds computes from each counter."""
    keys = (*key, key[0] ^ key[1] ^ np.uint32(PARITY))
    x, y = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(THREE_FRY_GROUPS):
        for by in ROTATIONS[group % 2]:
            x = x + y
            y = (y << np.uint32(by) | y >> np.uint32(32 - by)) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def _philox(state: Words, dims: tuple[int, ...], wide: bool) -> tuple[Words, Words]:
    low, high = (state[1], state[2]) if len(state) == 3 else (state[1], state[0])
    size = prod(dims)
    count = -(-size * (2 if wide else 1) // 4)

    def advanced(by: Words) -> tuple[Words, Words]:
        moved = low + by
        return moved, high + (moved < low).astype(np.uint64)

    counters = advanced(np.arange(count, dtype=np.uint64))
    words = philox((*_halves(counters[0]), *_halves(counters[1])), _halves(state[:1]))
    if wide:
        words = (_whole(*words[:2]), _whole(*words[2:]))
    last = [x.reshape(()) for x in advanced(np.full(1, count, np.uint64))]
    following = np.stack([state[0], *last]) if len(state) == 3 else np.stack([state[0], last[0]])
    return np.stack(words, 1).reshape(-1)[:size].reshape(dims), following


def philox(counter: tuple[Words, ...], key: tuple[Words, ...]) -> tuple[Words, ...]:
    """The four random words that Philox 4x32 with 10 rounds computes from each counter."""
    words, keys = counter, key
    for _ in range(PHILOX_ROUNDS):
        factors = zip((0, 2), PHILOX_FACTORS, strict=True)
        first, second = (_halves(words[n].astype(np.uint64) * np.uint64(factor)) for n, factor in factors)
        words = (second[1] ^ words[1] ^ keys[0], second[0], first[1] ^ words[3] ^ keys[1], first[0])
        keys = tuple(k + np.uint32(step) for k, step in zip(keys, PHILOX_STEPS, strict=True))
    return words
