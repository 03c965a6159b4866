"""Random numbers that follow from a key and a counter: the generators and distributions of TensorFlow's XLA.

`Stateless...` operations are given a seed or a key and a counter, `Stateful...` and `Rng...` have them in a
variable of s64: the counter, then the key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, prod, sqrt

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import BF16, F16, F32, S32, S64, U16, U32, U64, DType
from axla.core.shape import Shape
from axla.tensorflow.ops import folded
from axla.tensorflow.ops.control import assign
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import Call, spread
from axla.tensorflow.values import Variable

RECORDS = """
StatelessRandomGetAlg: -> alg:DT_INT32
StatelessRandomGetKeyCounter: seed:Tseed Tseed=type?DT_INT64 -> key:DT_UINT64 counter:DT_UINT64
StatelessRandomGetKeyCounterAlg: seed:Tseed Tseed=type?DT_INT64 -> key:DT_UINT64 counter:DT_UINT64
    alg:DT_INT32
StatelessRandomNormal StatelessRandomUniform StatelessTruncatedNormal: shape:T seed:Tseed
    dtype=type?DT_FLOAT T=type?DT_INT32 Tseed=type?DT_INT64 -> output:dtype
StatelessRandomNormalV2 StatelessRandomUniformV2 StatelessTruncatedNormalV2: shape:Tshape key:DT_UINT64
    counter:DT_UINT64 alg:DT_INT32 dtype=type?DT_FLOAT Tshape=type?DT_INT32 -> output:dtype
StatelessRandomUniformFullInt: shape:T seed:Tseed dtype=type?DT_UINT64 T=type?DT_INT32
    Tseed=type?DT_INT64 -> output:dtype
StatelessRandomUniformFullIntV2: shape:Tshape key:DT_UINT64 counter:DT_UINT64 alg:DT_INT32
    dtype=type?DT_UINT64 Tshape=type?DT_INT32 -> output:dtype
StatelessRandomUniformInt: shape:T seed:Tseed minval:dtype maxval:dtype dtype=type T=type
    Tseed=type?DT_INT64 -> output:dtype
StatelessRandomUniformIntV2: shape:Tshape key:DT_UINT64 counter:DT_UINT64 alg:DT_INT32 minval:dtype
    maxval:dtype dtype=type Tshape=type?DT_INT32 -> output:dtype
StatelessParameterizedTruncatedNormal: shape:S seed:Tseed means:dtype stddevs:dtype minvals:dtype
    maxvals:dtype S=type Tseed=type?DT_INT64 dtype=type -> output:dtype
StochasticCastToInt: input:Tin key:DT_UINT64 counter:DT_UINT64 alg:DT_INT32 Tin=type Tout=type ->
    output:Tout
StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform: resource:DT_RESOURCE algorithm:DT_INT64
    shape:shape_dtype dtype=type?DT_FLOAT shape_dtype=type?DT_INT64 -> output:dtype
StatefulUniformFullInt: resource:DT_RESOURCE algorithm:DT_INT64 shape:shape_dtype dtype=type?DT_UINT64
    shape_dtype=type?DT_INT64 -> output:dtype
StatefulUniformInt: resource:DT_RESOURCE algorithm:DT_INT64 shape:shape_dtype minval:dtype maxval:dtype
    dtype=type?DT_INT64 shape_dtype=type?DT_INT64 -> output:dtype
RngSkip: resource:DT_RESOURCE algorithm:DT_INT64 delta:DT_INT64 ->
RngReadAndSkip: resource:DT_RESOURCE alg:DT_INT32 delta:DT_UINT64 -> value:DT_INT64
"""
PHILOX, THREE_FRY = ops.RandomAlgorithm.RNG_PHILOX, ops.RandomAlgorithm.RNG_THREE_FRY
_DEFAULT = 1
"""The number of Philox."""
_MIXING_KEY = np.array([0x02461E293EC8F720], np.uint64)
_PER_SKIP = 256
"""What a skip of 1 adds to a counter."""


class Source:
    """A generator of random bits. `key` is u64[1], `counter` u64[2] for Philox, u64[1] for ThreeFry, and
    grows with what is taken.
    """

    def __init__(self, algorithm: ops.RandomAlgorithm, key: XlaOp, counter: XlaOp) -> None:
        self.algorithm = algorithm
        self.key, self.counter = key, counter

    def bits(self, dtype: DType, dims: Sequence[int]) -> XlaOp:
        """Random integers of an unsigned type."""
        state = ops.ConcatInDim(self.key.builder, [self.key, self.counter], 0)
        found = ops.RngBitGenerator(self.algorithm, state, Shape(dtype, tuple(dims)))
        after = ops.GetTupleElement(found, 0)
        self.counter = ops.SliceInDim(after, 1, after.dims[0], 1, 0)
        return ops.GetTupleElement(found, 1)


def seeded(call: Call, seed: XlaOp, signed: bool = False) -> Source:
    """A generator whose key and counter are mixed from two numbers. Those of 32 bits become greater ones
    without their sign, which the kernels for the CPU, of `folded`, keep.
    """
    if seed.dims != (2,):
        call.fail(f"the seed has shape {list(seed.dims)}, wanted [2]")
    signed = signed or seed.dtype.bits == 64
    words = ops.ConvertElementType(seed, S64) if signed else ops.BitcastConvertType(seed, U32)
    key = call.scope.constant(_MIXING_KEY)
    mixed = Source(PHILOX, key, ops.ConvertElementType(words, U64)).bits(U64, (2,))
    first, second = (ops.SliceInDim(mixed, n, n + 1, 1, 0) for n in range(2))
    return Source(PHILOX, first, ops.PadInDim(second, ops.Zero(call.builder, U64), 0, 1, 0))


def keyed(call: Call, key: XlaOp, counter: XlaOp, algorithm: XlaOp) -> Source:
    chosen = algorithm_of(call, algorithm)
    size = _counter_size(chosen)
    if key.dims != (1,) or len(counter.dims) != 1 or counter.dims[0] < size:
        found = f"{list(key.dims)} and {list(counter.dims)}"
        call.fail(f"key and counter have shapes {found}, wanted [1] and [{size}]")
    return Source(chosen, key, ops.SliceInDim(counter, 0, size, 1, 0))


def algorithm_of(call: Call, algorithm: XlaOp) -> ops.RandomAlgorithm:
    """The generator that an operand names; 3 leaves the choice."""
    found = call.integer(algorithm, "the algorithm")
    if found not in (1, 2, 3):
        call.fail(f"the algorithm is {found}, wanted 1 (Philox), 2 (ThreeFry) or 3 (either)")
    return THREE_FRY if found == 2 else PHILOX


def _counter_size(algorithm: ops.RandomAlgorithm) -> int:
    return 1 if algorithm is THREE_FRY else 2


def dims_of(call: Call, shape: XlaOp) -> tuple[int, ...]:
    """The sizes that an operand of integers says."""
    sizes = call.integers(shape, "the shape")
    if len(shape.dims) != 1 or any(size < 0 for size in sizes):
        call.fail(f"the shape is {list(sizes)}, wanted a vector of sizes")
    return sizes


# Distributions: each takes the generator, the type and sizes of the result.


def _like(value: XlaOp, number: float) -> XlaOp:
    return value.builder.constant(value.dtype.numpy.type(number))


def _unit(source: Source, dtype: DType, dims: Sequence[int]) -> XlaOp:
    """Numbers from 0 up to, without, 1, in f16, f32 or f64: random bits are the mantissa."""
    mantissa = {16: 10, 32: 23, 64: 52}[dtype.bits]
    if dtype is F16:
        bits = ops.And(source.bits(U16, dims), np.uint16((1 << mantissa) - 1))
    else:
        words = source.bits(U32 if dtype is F32 else U64, dims)
        bits = ops.ShiftRightLogical(words, words.dtype.numpy.type(dtype.bits - mantissa))
    found = ops.ConvertElementType(bits, dtype)
    return found * _like(found, 2.0**-mantissa)


def _above_zero(source: Source, dtype: DType, dims: Sequence[int]) -> XlaOp:
    """Numbers between 0 and 1; f16 has 0 among them."""
    found = _unit(source, dtype, dims)
    least = _like(found, float(dtype.finfo.smallest_normal) if dtype is not F16 else 0)
    return found * (_like(found, 1) - least) + least


def _made(draw: Callable[..., XlaOp], source: Source, dtype: DType, dims: Sequence[int]) -> XlaOp:
    """Random floats; for bf16, those of f32 without the last bits, so that they stay below the limit."""
    if dtype is not BF16:
        return draw(source, dtype, dims)
    words = ops.BitcastConvertType(draw(source, F32, dims), U32)
    kept = ops.BitcastConvertType(ops.And(words, np.uint32(0xFFFF0000)), F32)
    return ops.ConvertElementType(kept, BF16)


def _uniform(call: Call, source: Source, dims: Sequence[int]) -> XlaOp:
    return _made(_unit, source, call.dtype("dtype"), dims)


def _normal(call: Call, source: Source, dims: Sequence[int]) -> XlaOp:
    return _made(_box_muller, source, call.dtype("dtype"), dims)


def _truncated(call: Call, source: Source, dims: Sequence[int]) -> XlaOp:
    return _made(_truncated_numbers, source, call.dtype("dtype"), dims)


def _full(call: Call, source: Source, dims: Sequence[int]) -> XlaOp:
    dtype = call.dtype("dtype")
    return ops.BitcastConvertType(source.bits(_unsigned(call, dtype), dims), dtype)


def _unsigned(call: Call, dtype: DType) -> DType:
    if not dtype.is_integer or dtype.bits < 32:
        call.fail(f"there are no random integers of {dtype.name}")
    return U32 if dtype.bits == 32 else U64


def _integers(call: Call, source: Source, dims: Sequence[int], low: XlaOp, high: XlaOp) -> XlaOp:
    """Integers from `low` up to, without, `high`: the bits modulo their difference."""
    if low.dims or high.dims:
        call.fail(f"the limits have shapes {list(low.dims)} and {list(high.dims)}, wanted scalars")
    first, last = (call.scope.known(limit) for limit in (low, high))
    if first is not None and last is not None and first >= last:
        call.fail(f"the limits are {first} and {last}, wanted a range that is not empty")
    unsigned = _unsigned(call, low.dtype)
    words = source.bits(unsigned, dims)
    span = ops.Sub(*(ops.BitcastConvertType(limit, unsigned) for limit in (high, low)))
    found = ops.Rem(words, span)
    half = ops.ShiftRightLogical(found, unsigned.numpy.type(1))
    first, second = (ops.BitcastConvertType(part, low.dtype) for part in (half, found - half))
    return low + first + second


def _box_muller(source: Source, dtype: DType, dims: Sequence[int]) -> XlaOp:
    """Normal numbers by pairs of uniform ones, which lie beside each other in the first even dimension, else
    in the longest one.
    """
    even = [d for d, size in enumerate(dims) if size % 2 == 0]
    longest = max(range(len(dims)), key=dims.__getitem__, default=0)
    place = even[0] if even else longest
    sizes = list(dims) or [1]
    half = -(-sizes[place] // 2)
    paired = [*sizes[:place], half, 2, *sizes[place + 1 :]]
    units = _unit(source, dtype, paired)
    first, second = (ops.SliceInDim(units, n, n + 1, 1, place + 1) for n in range(2))
    radius = ops.Sqrt(_like(units, -2) * ops.Log(ops.Max(first, _like(units, float(np.float32(1e-7))))))
    angle = _like(units, 2 * pi) * second
    found = ops.ConcatInDim(units.builder, [ops.Sin(angle) * radius, ops.Cos(angle) * radius], place + 1)
    found = ops.Reshape(found, [*sizes[:place], 2 * half, *sizes[place + 1 :]])
    return ops.Reshape(ops.SliceInDim(found, 0, sizes[place], 1, place), dims)


def _truncated_numbers(source: Source, dtype: DType, dims: Sequence[int]) -> XlaOp:
    units = _above_zero(source, dtype, dims)
    return truncated(units, *(_like(units, number) for number in (0, 1, -2, 2)))


def truncated(units: XlaOp, mean: XlaOp, deviation: XlaOp, low: XlaOp, high: XlaOp) -> XlaOp:
    """Numbers of a normal distribution between limits, by the inverse of its distribution function."""
    one, two, root = (_like(units, number) for number in (1, 2, sqrt(2)))
    first, last = ((one + ops.Erf((limit - mean) / deviation / root)) / two for limit in (low, high))
    place = two * (first + (last - first) * units) - one
    epsilon = _like(units, float(units.dtype.finfo.eps))
    place = ops.Clamp(epsilon - one, place, one - epsilon)
    return ops.Clamp(low, mean + deviation * root * ops.ErfInv(place), high)


# Operations.

_DRAWS: dict[str, Callable[..., XlaOp]] = {
    "RandomUniform": _uniform, "RandomNormal": _normal, "TruncatedNormal": _truncated,
    "RandomUniformInt": _integers, "RandomUniformFullInt": _full, "StandardNormal": _normal,
    "Uniform": _uniform, "UniformInt": _integers, "UniformFullInt": _full,
}  # fmt: skip


def _draw(call: Call, source: Source, shape: XlaOp, limits: Sequence[XlaOp]) -> XlaOp:
    """The numbers that an operation is named after."""
    name = call.node.op.removeprefix("Stateless").removeprefix("Stateful").removesuffix("V2")
    return _DRAWS[name](call, source, dims_of(call, shape), *limits)


def _draw_stateless(
    call: Call, source: Source, given: Sequence[XlaOp], shape: XlaOp, limits: Sequence[XlaOp]
) -> XlaOp | np.ndarray:
    """The numbers that follow from seeds or keys; folded, where TensorFlow does so."""
    name = call.node.op.removeprefix("Stateless").removesuffix("V2")
    dims, dtype = dims_of(call, shape), call.dtype("dtype")
    fits = prod(dims) * dtype.itemsize <= folded.MOST_BYTES
    if not fits or source.algorithm is not PHILOX or not all(_is_folded(call, value) for value in given):
        return _draw(call, source, shape, limits)
    if dtype.is_float:
        words = [call.constant(value, "the generator") for value in (source.key, source.counter)]
        return folded.numbers(name, dtype, dims, *words)
    found = _draw(call, source, shape, limits)
    known = call.scope.known(found)
    return found if known is None else known


def _is_folded(call: Call, value: XlaOp) -> bool:
    """Whether TensorFlow knows a seed or key before XLA does: it is a constant, but no random number."""
    if call.scope.known(value) is None:
        return False
    stack, seen = [value.instruction], set()
    while stack:
        found = stack.pop()
        if found.opcode == "rng-bit-generator":
            return False
        seen.add(found)
        stack += [operand for operand in found.operands if operand not in seen]
    return True


@lowering(
    "StatelessRandomNormal", "StatelessRandomUniform", "StatelessTruncatedNormal",
    "StatelessRandomUniformFullInt", "StatelessRandomUniformInt",
)  # fmt: skip
def _stateless(call: Call, shape: XlaOp, seed: XlaOp, *limits: XlaOp) -> XlaOp | np.ndarray:
    return _draw_stateless(call, seeded(call, seed, _is_folded(call, seed)), [seed], shape, limits)


@lowering(
    "StatelessRandomNormalV2", "StatelessRandomUniformV2", "StatelessTruncatedNormalV2",
    "StatelessRandomUniformFullIntV2", "StatelessRandomUniformIntV2",
)  # fmt: skip
def _stateless_v2(
    call: Call, shape: XlaOp, key: XlaOp, counter: XlaOp, algorithm: XlaOp, *limits: XlaOp
) -> XlaOp | np.ndarray:
    return _draw_stateless(call, keyed(call, key, counter, algorithm), [key, counter], shape, limits)


@lowering("StatelessRandomGetAlg")
def _default_algorithm(call: Call) -> np.ndarray:
    return np.array(_DEFAULT, np.int32)


@lowering("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg")
def _key_and_counter(call: Call, seed: XlaOp) -> list[XlaOp | np.ndarray]:
    source = seeded(call, ops.ConvertElementType(seed, S32))
    found = [source.key, source.counter, np.array(_DEFAULT, np.int32)]
    return found[: len(call.node.types or ())]


@lowering("StatelessParameterizedTruncatedNormal")
def _stateless_truncated(call: Call, shape: XlaOp, seed: XlaOp, *given: XlaOp) -> XlaOp:
    dims, dtype = dims_of(call, shape), call.dtype("dtype")
    wide = F32 if dtype is BF16 else dtype
    parameters = [ops.ConvertElementType(spread(value, dims), wide) for value in given]
    units = uniform_above_zero(call, seed, wide, dims)
    return ops.ConvertElementType(truncated(units, *parameters), dtype)


def uniform_above_zero(call: Call, seed: XlaOp, dtype: DType, dims: Sequence[int]) -> XlaOp:
    """Numbers between 0 and 1 that follow from a seed."""
    return _above_zero(seeded(call, seed), dtype, dims)


@lowering("StochasticCastToInt")
def _stochastic_cast(call: Call, value: XlaOp, key: XlaOp, counter: XlaOp, algorithm: XlaOp) -> XlaOp:
    """Rounds up or down, up as likely as the fraction is near 1; limits of the type hold what is beyond."""
    dtype = call.dtype("Tout")
    wide = ops.ConvertElementType(value, F32) if value.dtype.bits == 16 else value
    units = _unit(keyed(call, key, counter, algorithm), wide.dtype, wide.dims)
    whole = ops.Floor(wide)
    found = ops.Select(ops.Lt(units, wide - whole), whole + _like(wide, 1), whole)
    limits = np.iinfo(dtype.numpy)
    found = ops.ConvertElementType(ops.Select(ops.Ne(wide, wide), ops.ZerosLike(wide), found), S64)
    found = ops.Clamp(_like(found, limits.min), found, _like(found, limits.max))
    return ops.ConvertElementType(found, dtype)


# Generators in variables.


def _stored(call: Call, variable: Variable, algorithm: XlaOp) -> tuple[XlaOp, Source]:
    """The contents of a variable, and the generator that they are."""
    chosen = algorithm_of(call, algorithm)
    value = call.scope.read(variable)
    size = _counter_size(chosen)
    if value.dtype is not S64 or len(value.dims) != 1 or value.dims[0] <= size:
        found = f"{value.dtype.name} of shape {list(value.dims)}"
        call.fail(f"'{variable.name}' is {found}, wanted s64 of at least {size + 1} elements")
    words = ops.BitcastConvertType(value, U64)
    return value, Source(
        chosen, ops.SliceInDim(words, size, size + 1, 1, 0), ops.SliceInDim(words, 0, size, 1, 0)
    )


def _store(call: Call, variable: Variable, before: XlaOp, source: Source) -> None:
    counter = ops.BitcastConvertType(source.counter, S64)
    zero = ops.Zero(call.builder, S32)
    assign(call, variable, ops.DynamicUpdateSlice(before, counter, [zero]))


@lowering(
    "StatefulStandardNormalV2", "StatefulTruncatedNormal", "StatefulUniform", "StatefulUniformFullInt",
    "StatefulUniformInt",
)  # fmt: skip
def _stateful(call: Call, variable: Variable, algorithm: XlaOp, shape: XlaOp, *limits: XlaOp) -> XlaOp:
    before, source = _stored(call, variable, algorithm)
    found = _draw(call, source, shape, limits)
    _store(call, variable, before, source)
    return found


@lowering("RngSkip", "RngReadAndSkip")
def _skip(call: Call, variable: Variable, algorithm: XlaOp, delta: XlaOp) -> XlaOp | None:
    """Makes the counter greater; gives what the variable was, with three elements."""
    before, source = _stored(call, variable, algorithm)
    if delta.dims:
        call.fail(f"the delta has shape {list(delta.dims)}, wanted a scalar")
    step = ops.Reshape(ops.BitcastConvertType(delta, U64) * np.uint64(_PER_SKIP), [1])
    low = ops.SliceInDim(source.counter, 0, 1, 1, 0)
    parts = [low + step]
    if source.counter.dims[0] == 2:
        carry = ops.ConvertElementType(ops.Lt(parts[0], low), U64)
        parts.append(ops.SliceInDim(source.counter, 1, 2, 1, 0) + carry)
    source.counter = ops.ConcatInDim(call.builder, parts, 0)
    _store(call, variable, before, source)
    if call.node.op == "RngSkip":
        return None
    zero = ops.Zero(call.builder, S64)
    return ops.PadInDim(before, zero, 0, 0, 2 - source.counter.dims[0])
