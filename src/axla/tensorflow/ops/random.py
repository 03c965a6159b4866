"""Random numbers from a key and a counter: the generators and distributions of TensorFlow's XLA kernels.

`Stateless...` operations take a seed, or a key and a counter. `Stateful...` and `Rng...` operations keep the
counter, then the key, in a variable of s64.
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
from axla.tensorflow.ops.arrays import shape_operand
from axla.tensorflow.ops.common import of_dims, of_rank
from axla.tensorflow.ops.variables import assign
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall, spread
from axla.tensorflow.values import Variable

RECORDS = """
StatelessRandomGetAlg: -> alg:i32
StatelessRandomGetKeyCounter: seed:Tseed Tseed=type?DT_INT64 -> key:DT_UINT64 counter:DT_UINT64
StatelessRandomGetKeyCounterAlg: seed:Tseed Tseed=type?DT_INT64 -> key:DT_UINT64 counter:DT_UINT64 alg:i32
StatelessRandomNormal StatelessRandomUniform StatelessTruncatedNormal: shape:T seed:Tseed dtype=type?DT_FLOAT
    T=type?DT_INT32 Tseed=type?DT_INT64 -> output:dtype
StatelessRandomNormalV2 StatelessRandomUniformV2 StatelessTruncatedNormalV2: shape:Tshape key:DT_UINT64
    counter:DT_UINT64 alg:i32 dtype=type?DT_FLOAT Tshape=type?DT_INT32 -> output:dtype
StatelessRandomUniformFullInt: shape:T seed:Tseed dtype=type?DT_UINT64 T=type?DT_INT32 Tseed=type?DT_INT64 ->
    output:dtype
StatelessRandomUniformFullIntV2: shape:Tshape key:DT_UINT64 counter:DT_UINT64 alg:i32 dtype=type?DT_UINT64
    Tshape=type?DT_INT32 -> output:dtype
StatelessRandomUniformInt: shape:T seed:Tseed minval:dtype maxval:dtype Tseed=type?DT_INT64 -> output:dtype
StatelessRandomUniformIntV2: shape:Tshape key:DT_UINT64 counter:DT_UINT64 alg:i32 minval:dtype maxval:dtype
    Tshape=type?DT_INT32 -> output:dtype
StatelessParameterizedTruncatedNormal: shape:S seed:Tseed means:dtype stddevs:dtype minvals:dtype
    maxvals:dtype Tseed=type?DT_INT64 -> output:dtype
StochasticCastToInt: input:Tin key:DT_UINT64 counter:DT_UINT64 alg:i32 -> output:Tout
StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform: resource:resource algorithm:i64
    shape:shape_dtype dtype=type?DT_FLOAT shape_dtype=type?DT_INT64 -> output:dtype
StatefulUniformFullInt: resource:resource algorithm:i64 shape:shape_dtype dtype=type?DT_UINT64
    shape_dtype=type?DT_INT64 -> output:dtype
StatefulUniformInt: resource:resource algorithm:i64 shape:shape_dtype minval:dtype maxval:dtype
    dtype=type?DT_INT64 shape_dtype=type?DT_INT64 -> output:dtype
RngSkip: resource:resource algorithm:i64 delta:i64 ->
RngReadAndSkip: resource:resource alg:i32 delta:DT_UINT64 -> value:i64
"""
PHILOX, THREE_FRY = ops.RandomAlgorithm.RNG_PHILOX, ops.RandomAlgorithm.RNG_THREE_FRY
_DEFAULT = 1
"""The number of the default algorithm, Philox."""
_MIXING_KEY = np.array([0x02461E293EC8F720], np.uint64)
_PER_SKIP = 256
"""The number that a skip of 1 adds to a counter."""


class RandomSource:
    """A generator of random bits. `key` is u64[1]; `counter`, u64[2] for Philox, u64[1] for ThreeFry,
    advances with the bits taken.
    """

    def __init__(self, algorithm: ops.RandomAlgorithm, key: XlaOp, counter: XlaOp) -> None:
        self.algorithm = algorithm
        self.key, self.counter = key, counter

    def bits(self, dtype: DType, dims: Sequence[int]) -> XlaOp:
        """Random integers of an unsigned type; advances the counter."""
        state = ops.ConcatInDim(self.key.builder, [self.key, self.counter], 0)
        after, bits = ops.RngBitGenerator(self.algorithm, state, Shape(dtype, tuple(dims)))
        self.counter = after[1:]
        return bits


def seeded(call: OpCall, seed: XlaOp, signed: bool = False) -> RandomSource:
    """A generator whose key and counter are mixed from the two numbers of `seed`. 32-bit seeds are
    zero-extended, or sign-extended if `signed`, as TensorFlow's CPU kernels do.
    """
    of_dims(call, seed, (2,), "the seed")
    signed = signed or seed.dtype.bits == 64
    words = ops.ConvertElementType(seed, S64) if signed else ops.BitcastConvertType(seed, U32)
    key = call.scope.constant(_MIXING_KEY)
    mixed = RandomSource(PHILOX, key, ops.ConvertElementType(words, U64)).bits(U64, (2,))
    return RandomSource(PHILOX, mixed[:1], ops.PadInDim(mixed[1:], ops.Zero(call.builder, U64), 0, 1, 0))


def keyed(call: OpCall, key: XlaOp, counter: XlaOp, algorithm: XlaOp) -> RandomSource:
    """The generator with this key and counter; VerifyError if their shapes do not fit the algorithm."""
    chosen = algorithm_of(call, algorithm)
    size = _counter_size(chosen)
    if key.dims != (1,) or len(counter.dims) != 1 or counter.dims[0] < size:
        found = f"{list(key.dims)} and {list(counter.dims)}"
        call.fail(f"key and counter have shapes {found}, wanted [1] and [{size}]")
    return RandomSource(chosen, key, counter[:size])


def algorithm_of(call: OpCall, algorithm: XlaOp) -> ops.RandomAlgorithm:
    """The algorithm that an operand selects: 1 is Philox, 2 is ThreeFry, and 3 leaves the choice to the
    compiler.
    """
    found = call.integer(algorithm, "the algorithm")
    if found not in (1, 2, 3):
        call.fail(f"the algorithm is {found}, wanted 1 (Philox), 2 (ThreeFry) or 3 (either)")
    return THREE_FRY if found == 2 else PHILOX


def _counter_size(algorithm: ops.RandomAlgorithm) -> int:
    return 1 if algorithm is THREE_FRY else 2


# Distributions: each takes the generator, and the type and sizes of the result.


def _unit(source: RandomSource, dtype: DType, dims: Sequence[int]) -> XlaOp:
    """Numbers in [0, 1), in f16, f32 or f64. Random bits are the mantissa."""
    mantissa = {16: 10, 32: 23, 64: 52}[dtype.bits]
    if dtype is F16:
        bits = ops.And(source.bits(U16, dims), np.uint16((1 << mantissa) - 1))
    else:
        words = source.bits(U32 if dtype is F32 else U64, dims)
        bits = ops.ShiftRightLogical(words, words.dtype.numpy.type(dtype.bits - mantissa))
    return ops.ConvertElementType(bits, dtype) * 2.0**-mantissa


def above_zero(source: RandomSource, dtype: DType, dims: Sequence[int]) -> XlaOp:
    """Numbers in (0, 1); for f16 [0, 1)."""
    least = float(dtype.finfo.smallest_normal) if dtype is not F16 else 0.0
    return _unit(source, dtype, dims) * (1 - least) + least


def _box_muller(source: RandomSource, dtype: DType, dims: Sequence[int]) -> XlaOp:
    """Normally distributed numbers from pairs of uniform ones. The two numbers of a pair are adjacent in the
    first dimension of even size or, if there is none, in the longest dimension.
    """
    sizes = list(dims) or [1]
    even = [d for d, size in enumerate(sizes) if size % 2 == 0]
    place = even[0] if even else sizes.index(max(sizes))
    half = -(-sizes[place] // 2)
    units = _unit(source, dtype, [*sizes[:place], half, 2, *sizes[place + 1 :]])
    first, second = (ops.SliceInDim(units, n, n + 1, 1, place + 1) for n in range(2))
    radius = ops.Sqrt(-2 * ops.Log(ops.Max(first, float(np.float32(1e-7)))))
    angle = 2 * pi * second
    found = ops.ConcatInDim(units.builder, [ops.Sin(angle) * radius, ops.Cos(angle) * radius], place + 1)
    found = ops.Reshape(found, [*sizes[:place], 2 * half, *sizes[place + 1 :]])
    return ops.Reshape(ops.SliceInDim(found, 0, sizes[place], 1, place), dims)


def _truncated_numbers(source: RandomSource, dtype: DType, dims: Sequence[int]) -> XlaOp:
    return truncated(above_zero(source, dtype, dims))


def truncated(units: XlaOp, *given: XlaOp) -> XlaOp:
    """Numbers of a truncated normal distribution, made of the uniform numbers `units` by the inverse of the
    distribution function. `given` has mean, deviation, and lower and upper limit, by default 0, 1, -2 and 2.
    """
    usual = (units.builder.constant(units.dtype.numpy.type(number)) for number in (0, 1, -2, 2))
    mean, deviation, low, high = given or usual
    first, last = ((1 + ops.Erf((limit - mean) / deviation / sqrt(2))) / 2 for limit in (low, high))
    place = 2 * (first + (last - first) * units) - 1
    most = 1 - float(units.dtype.finfo.eps)
    place = ops.Max(-most, ops.Min(place, most))
    return ops.Clamp(low, mean + deviation * sqrt(2) * ops.ErfInv(place), high)


def _integers(call: OpCall, source: RandomSource, dims: Sequence[int], *limits: XlaOp) -> XlaOp:
    """Random integers: of all values of the type, or in the half-open range `limits`, by random bits modulo
    its size.
    """
    dtype = call.dtype("dtype")
    if not dtype.is_integer or dtype.bits < 32:
        call.fail(f"random integers of type {dtype.name} are not supported")
    unsigned = U32 if dtype.bits == 32 else U64
    if not limits:
        return ops.BitcastConvertType(source.bits(unsigned, dims), dtype)
    low, high = limits
    if low.dims or high.dims:
        call.fail(f"the limits have shapes {list(low.dims)} and {list(high.dims)}, wanted scalars")
    least, most = (call.scope.known(limit) for limit in limits)
    if least is not None and most is not None and least >= most:
        call.fail(f"the limits are {least} and {most}, wanted a range that is not empty")
    span = ops.BitcastConvertType(high, unsigned) - ops.BitcastConvertType(low, unsigned)
    found = ops.Rem(source.bits(unsigned, dims), span)
    half = ops.ShiftRightLogical(found, unsigned.numpy.type(1))
    return low + ops.BitcastConvertType(half, dtype) + ops.BitcastConvertType(found - half, dtype)


# Operations.

_FLOATS: dict[str, Callable[..., XlaOp]] = {
    "RandomUniform": _unit, "RandomNormal": _box_muller, "TruncatedNormal": _truncated_numbers,
    "Uniform": _unit, "StandardNormal": _box_muller,
}  # fmt: skip
_STATELESS = (
    "RandomUniform", "RandomNormal", "TruncatedNormal", "RandomUniformInt", "RandomUniformFullInt"
)  # fmt: skip
_STATEFUL = ("Uniform", "StandardNormalV2", "TruncatedNormal", "UniformInt", "UniformFullInt")


def _name(call: OpCall) -> str:
    """The name of the distribution in the name of the operation."""
    return call.node.op.removeprefix("Stateless").removeprefix("Stateful").removesuffix("V2")


def _draw(call: OpCall, source: RandomSource, dims: Sequence[int], limits: Sequence[XlaOp]) -> XlaOp:
    """Random numbers of the node's distribution. Numbers in bf16 are f32 numbers with the low bits cut off,
    since rounding could reach the upper limit, which is exclusive.
    """
    draw, dtype = _FLOATS.get(_name(call)), call.dtype("dtype")
    if draw is None:
        return _integers(call, source, dims, *limits)
    if dtype is not BF16:
        return draw(source, dtype, dims)
    words = ops.BitcastConvertType(draw(source, F32, dims), U32)
    kept = ops.BitcastConvertType(ops.And(words, np.uint32(0xFFFF0000)), F32)
    return ops.ConvertElementType(kept, BF16)


def _is_folded(call: OpCall, value: XlaOp) -> bool:
    """Whether TensorFlow folds a seed or key before XLA sees it: it is constant, and not itself random."""
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


@lowering(*(f"Stateless{name}{version}" for name in _STATELESS for version in ("", "V2")))
def _stateless(call: OpCall, shape: XlaOp, *given: XlaOp) -> XlaOp | np.ndarray:
    """The random numbers for a seed, or for a key, counter and algorithm. Where TensorFlow folds the
    operation to a constant, floats are computed by `folded`, with the bits of TensorFlow's CPU kernel. The
    last operands are limits.
    """
    dims, dtype = shape_operand(call, shape), call.dtype("dtype")
    count = 3 if call.node.op.endswith("V2") else 1
    if count == 3:
        folds = _is_folded(call, given[0]) and _is_folded(call, given[1])
        source = keyed(call, *given[:3])
    else:  # unsigned: as TensorFlow's CPU kernel, which extends the sign; XLA has none
        folds = _is_folded(call, given[0])
        source = seeded(call, given[0], folds or call["dtype"] in ("DT_UINT32", "DT_UINT64"))
    folds = folds and source.algorithm is PHILOX and prod(dims) * dtype.itemsize <= folded.MOST_BYTES
    if folds and dtype.is_float:
        words = [call.constant(value, "the generator") for value in (source.key, source.counter)]
        return folded.numbers(_name(call), dtype, dims, *words)
    found = _draw(call, source, dims, given[count:])
    known = call.scope.known(found) if folds else None
    return found if known is None else known


@lowering("StatelessRandomGetAlg", "StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg")
def _key_and_counter(call: OpCall, *seed: XlaOp) -> list[XlaOp | np.ndarray]:
    algorithm = np.array(_DEFAULT, np.int32)
    if not seed:
        return [algorithm]
    source = seeded(call, ops.ConvertElementType(seed[0], S32))
    return [source.key, source.counter, algorithm][: len(call.node.types or ())]


@lowering("StatelessParameterizedTruncatedNormal")
def _stateless_truncated(call: OpCall, shape: XlaOp, seed: XlaOp, *given: XlaOp) -> XlaOp:
    dims, dtype = shape_operand(call, shape), call.dtype("dtype")
    wide = F32 if dtype is BF16 else dtype
    parameters = [ops.ConvertElementType(spread(value, dims), wide) for value in given]
    units = above_zero(seeded(call, seed), wide, dims)
    return ops.ConvertElementType(truncated(units, *parameters), dtype)


@lowering("StochasticCastToInt")
def _stochastic_cast(call: OpCall, value: XlaOp, key: XlaOp, counter: XlaOp, algorithm: XlaOp) -> XlaOp:
    """Rounds up with a probability equal to the fraction, else down; values beyond the limits of the type are
    clamped.
    """
    dtype = call.dtype("Tout")
    wide = ops.ConvertElementType(value, F32) if value.dtype.bits == 16 else value
    units = _unit(keyed(call, key, counter, algorithm), wide.dtype, wide.dims)
    whole = ops.Floor(wide)
    found = ops.Select(ops.Lt(units, wide - whole), whole + 1, whole)
    found = ops.ConvertElementType(ops.Select(ops.Ne(wide, wide), ops.ZerosLike(wide), found), S64)
    limits = np.iinfo(dtype.numpy)
    return ops.ConvertElementType(ops.Max(limits.min, ops.Min(found, limits.max)), dtype)


# Generators in variables.


def _stored(call: OpCall, variable: Variable, algorithm: XlaOp) -> tuple[XlaOp, RandomSource]:
    """The contents of a variable, and the generator whose key and counter they are."""
    chosen = algorithm_of(call, algorithm)
    value = call.scope.read(variable)
    size = _counter_size(chosen)
    if value.dtype is not S64 or len(value.dims) != 1 or value.dims[0] <= size:
        found = f"{value.dtype.name} of shape {list(value.dims)}"
        call.fail(f"'{variable.name}' is {found}, wanted s64 of at least {size + 1} elements")
    words = ops.BitcastConvertType(value, U64)
    return value, RandomSource(chosen, words[size : size + 1], words[:size])


def _store(call: OpCall, variable: Variable, before: XlaOp, source: RandomSource) -> None:
    counter = ops.BitcastConvertType(source.counter, S64)
    assign(call, variable, ops.DynamicUpdateSlice(before, counter, [ops.Zero(call.builder, S32)]))


@lowering(*(f"Stateful{name}" for name in _STATEFUL))
def _stateful(call: OpCall, variable: Variable, algorithm: XlaOp, shape: XlaOp, *limits: XlaOp) -> XlaOp:
    before, source = _stored(call, variable, algorithm)
    found = _draw(call, source, shape_operand(call, shape), limits)
    _store(call, variable, before, source)
    return found


@lowering("RngSkip", "RngReadAndSkip")
def _skip(call: OpCall, variable: Variable, algorithm: XlaOp, delta: XlaOp) -> XlaOp | None:
    """Advances the counter in a variable by `delta` steps of 256. Returns the old contents of the variable,
    as three elements; None for RngSkip, which has no result.
    """
    before, source = _stored(call, variable, algorithm)
    of_rank(call, delta, 0, "delta")
    step = ops.Reshape(ops.BitcastConvertType(delta, U64) * np.uint64(_PER_SKIP), [1])
    low = source.counter[:1]
    parts = [low + step]
    if source.counter.dims[0] == 2:
        carry = ops.ConvertElementType(ops.Lt(parts[0], low), U64)
        parts.append(source.counter[1:] + carry)
    source.counter = ops.ConcatInDim(call.builder, parts, 0)
    _store(call, variable, before, source)
    if call.node.op == "RngSkip":
        return None
    return ops.PadInDim(before, 0, 0, 0, 2 - source.counter.dims[0])
