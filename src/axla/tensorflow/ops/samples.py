"""Random numbers that differ from run to run, regardless of seeds in attributes, as in XLA; and sampling."""

from __future__ import annotations

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import BF16, F32, F64, S32, U64, DType
from axla.core.shape import Shape
from axla.tensorflow.ops.arrays import shape_operand
from axla.tensorflow.ops.indexing import take
from axla.tensorflow.ops.random import above_zero, seeded, truncated
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall, spread

RECORDS = """
RandomUniform RandomStandardNormal TruncatedNormal: shape:T -> output:dtype
RandomUniformInt: shape:T minval:Tout maxval:Tout -> output:Tout
ParameterizedTruncatedNormal: shape:T means:dtype stdevs:dtype minvals:dtype maxvals:dtype -> output:dtype
RandomShuffle: value:T -> output:T
Multinomial: logits:T num_samples:i32 output_dtype=type?DT_INT64 -> output:output_dtype
StatelessMultinomial: logits:T num_samples:i32 seed:Tseed Tseed=type?DT_INT64 output_dtype=type?DT_INT64 ->
    output:output_dtype
"""


@lowering("RandomUniform", "RandomStandardNormal")
def _usual(call: OpCall, shape: XlaOp) -> XlaOp:
    """Random numbers: uniform in [0, 1) for RandomUniform, standard normal for RandomStandardNormal."""
    dtype, draw = call.dtype("dtype"), ops.RngUniform if call.node.op == "RandomUniform" else ops.RngNormal
    zero, one = ops.Zero(call.builder, dtype), ops.One(call.builder, dtype)
    return draw(zero, one, Shape(dtype, shape_operand(call, shape)))


def _unit(call: OpCall, dtype: DType, dims: tuple[int, ...], least: float = 0) -> XlaOp:
    """Uniform numbers from `least` (inclusive) to 1 (exclusive)."""
    low = call.builder.constant(dtype.numpy.type(least))
    return ops.RngUniform(low, ops.One(call.builder, dtype), Shape(dtype, dims))


@lowering("TruncatedNormal", "ParameterizedTruncatedNormal")
def _truncated(call: OpCall, shape: XlaOp, *given: XlaOp) -> XlaOp:
    """Truncated normal numbers. `given` has mean, deviation and limits if they are operands: scalars, or
    vectors with a number for each index of the first dimension of the result.
    """
    dims, dtype = shape_operand(call, shape), call.dtype("dtype")
    wide = dtype if dtype is F64 else F32
    parameters = []
    for value in given:
        if value.dims not in ((), (1,), dims[:1]) or len(value.dims) > len(dims):
            call.fail(f"a parameter of shape {list(value.dims)} does not fit the shape {list(dims)}")
        column = ops.Reshape(value, [*value.dims, *[1] * (len(dims) - len(value.dims))])
        parameters.append(ops.ConvertElementType(spread(column, dims), wide))
    units = _unit(call, wide, dims, float(wide.finfo.smallest_normal))
    return ops.ConvertElementType(truncated(units, *parameters), dtype)


@lowering("RandomUniformInt")
def _integers(call: OpCall, shape: XlaOp, low: XlaOp, high: XlaOp) -> XlaOp:
    if low.dims or high.dims:
        call.fail(f"the limits have shapes {list(low.dims)} and {list(high.dims)}, wanted scalars")
    return ops.RngUniform(low, high, Shape(call.dtype("Tout"), shape_operand(call, shape)))


@lowering("RandomShuffle")
def _shuffle(call: OpCall, value: XlaOp) -> XlaOp:
    """The slices along the first dimension in random order."""
    if not value.dims or value.dims[0] < 2:
        return value
    size, builder = value.dims[0], call.builder
    last = builder.constant(np.uint64(np.iinfo(np.uint64).max))
    keys = ops.RngUniform(ops.Zero(builder, U64), last, Shape(U64, (size,)))
    order = ops.GetTupleElement(ops.Sort(builder, [keys, ops.Iota(builder, Shape(S32, (size,)), 0)]), 1)
    return take(value, order, 0)


@lowering("Multinomial", "StatelessMultinomial")
def _multinomial(call: OpCall, logits: XlaOp, count: XlaOp, *seed: XlaOp) -> XlaOp:
    """Draws class numbers with the probabilities that the logits of each row define. A sample is the class
    with the largest sum of its logit and a random number of the Gumbel distribution.
    """
    number = call.integer(count, "num_samples")
    if len(logits.dims) != 2 or number < 0:
        call.fail(f"wanted a matrix of logits and a count, found {list(logits.dims)} and {number}")
    rows, classes = logits.dims
    dims = (rows, number, classes) if number != 1 else (rows, classes)
    if seed:
        wide = F32 if logits.dtype is BF16 else logits.dtype
        units = above_zero(seeded(call, seed[0]), wide, dims)
    else:
        if not logits.dtype.is_float or logits.dtype.bits == 16:
            logits = ops.ConvertElementType(logits, F32)
        units = _unit(call, logits.dtype, dims, float(logits.dtype.finfo.smallest_normal))
    noise = ops.ConvertElementType(ops.Log(ops.Neg(ops.Log(units))), logits.dtype)
    likely = ops.BroadcastInDim(logits, dims, [0, len(dims) - 1])
    best = ops.GetTupleElement(ops.TopK(likely - noise, 1), 1)
    return ops.ConvertElementType(ops.Reshape(best, [rows, number]), call.dtype("output_dtype"))
