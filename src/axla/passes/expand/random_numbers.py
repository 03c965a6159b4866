"""Expands rng to arithmetic on random words: from the state of the run, each instruction gets its own
counters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from axla.builder import ops
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dtypes import F32, F64, U64, DType
from axla.core.shape import Shape
from axla.hlo import Rng, RngGetAndUpdateState
from axla.ir.attributes import RandomDistribution
from axla.ir.graph import Instruction, Module
from axla.ir.typed import op_of, shape_of
from axla.passes.expand.expander import expand, typed, written
from axla.passes.expand.random_bits import as_dtype, halves, philox_counters, philox_line
from axla.passes.matrix import joined, zeros

KEY = (0x2C6FE96E, 0xE78B6955)
"""The key of every program; runs and instructions differ in their counters."""


def rng_expander(module: Module) -> None:
    """Replaces every rng by simpler ops: Philox, whose counter is the state of rng-get-and-update-state."""
    expand(module, "rng-expander", {Rng: lambda inst: written(inst, _random)})


def _random(inst: Instruction, *given: XlaOp) -> Sequence[XlaOp]:
    op, shape = op_of(inst, Rng), shape_of(inst)
    if not shape.size:
        return [zeros(given[0].builder, shape.dtype, shape.dims)]
    make = _normal if op.distribution is RandomDistribution.NORMAL else _uniform
    return [ops.Reshape(make(Shape(shape.dtype, (shape.size,)), *given), shape.dims)]


def _words(builder: XlaBuilder, count: int, wide: bool) -> XlaOp:
    """`count` random words, of 64 bits if `wide`, else of 32 bits."""
    state = builder.add(RngGetAndUpdateState(Shape(U64, (2,)), philox_counters(count, wide)))
    low, high = (halves(state[n]) for n in range(2))
    key = tuple(builder.constant(np.uint32(k)) for k in KEY)
    return philox_line((*low, *high), key, count, wide)


def _unit(words: XlaOp, dtype: DType) -> XlaOp:
    """Numbers of type `dtype` in [0, 1), made from the high bits of `words`. They are multiples of 2^-23
    (f64: 2^-52).
    """
    bits = 52 if dtype is F64 else 23
    high = ops.ShiftRightLogical(words, words.dtype.bits - bits)
    return typed(high, dtype) * 2.0**-bits


def _uniform(line: Shape, *ends: XlaOp) -> XlaOp:
    dtype = line.dtype
    low, high = (ops.Broadcast(x, line.dims) for x in ends)
    words = _words(low.builder, line.size, dtype.bits == 64)
    if dtype.is_pred:
        return ops.Select(typed(words & 1, dtype), high, low)
    if dtype.is_integer:
        return _uniform_integer(words, low, high)
    wide = F64 if dtype is F64 else F32
    first, last = typed(low, wide), typed(high, wide)
    # If high - low overflows, half of it is used, and the result is doubled.
    fits = ops.IsFinite(last - first)
    first, last = (ops.Select(fits, x, x * 0.5) for x in (first, last))
    found = first + _unit(words, wide) * (last - first)
    found = typed(ops.Select(fits, found, found * 2.0), dtype)
    # Rounding may return the end of the range, which is exclusive.
    return ops.Select(found < high, found, low)


def _uniform_integer(words: XlaOp, low: XlaOp, high: XlaOp) -> XlaOp:
    """Computes low + words mod (high - low), in unsigned integers as wide as the words."""
    first, last = (typed(x, words.dtype) for x in (low, high))
    return as_dtype(first + words % (last - first), low.dtype)


def _normal(line: Shape, *given: XlaOp) -> XlaOp:
    """Normally distributed numbers, two from each pair of words (Box and Muller). `line` is the shape of the
    result, with one dimension; `given` has the mean and the standard deviation.
    """
    wide = F64 if line.dtype is F64 else F32
    half = -(-line.size // 2)
    words = _words(given[0].builder, 2 * half, wide is F64)
    bits = words.dtype.bits
    # In (0, 1]: at least half a step above 0, so that the logarithm is finite.
    open_unit = typed(words[:half], wide) * 2.0**-bits + 2.0 ** -(bits + 1)
    radius = ops.Sqrt(ops.Log(open_unit) * -2.0)
    angle = _unit(words[half:], wide) * (2 * math.pi)
    numbers = joined([radius * turn(angle) for turn in (ops.Cos, ops.Sin)], 0)[: line.size]
    mean, deviation = (typed(x, wide) for x in given)
    return mean + deviation * numbers
