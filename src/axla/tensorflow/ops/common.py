"""What lowerings of several families share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import axla.ops as ops
from axla.builder.iteration import combiner
from axla.builder.records import GatherDimensionNumbers
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import BF16, F16, F32


def widened(value: XlaOp) -> XlaOp:
    """An array in the type that it is summed in: f32 for f16 and bf16."""
    return ops.ConvertElementType(value, F32) if value.dtype in (F16, BF16) else value


def summed(value: XlaOp, dims: Sequence[int]) -> XlaOp:
    """The sums along dimensions, in the type of the array."""
    wide = widened(value)
    found = ops.Reduce(wide, ops.Zero(wide.builder, wide.dtype), combiner("Add", wide.dtype), dims)
    return ops.ConvertElementType(found, value.dtype)


def taken(value: XlaOp, dim: int, places: np.ndarray) -> XlaOp:
    """The parts of an array at places along a dimension that are known now: `numpy.take`."""
    places = np.ascontiguousarray(places, np.int32)
    if np.array_equal(places, np.arange(value.dims[dim])):
        return value
    others = [d for d in range(len(value.dims)) if d != dim]
    numbers = GatherDimensionNumbers(others, [dim], [dim], 1)
    sizes = [1 if d == dim else size for d, size in enumerate(value.dims)]
    return ops.Gather(value, places, numbers, sizes, bool(np.all(places[1:] >= places[:-1])))


def lowest(like: XlaOp) -> XlaOp:
    """The lowest number of a type: -infinity where there is one."""
    dtype = like.dtype
    least = -np.inf if dtype.is_float else np.iinfo(dtype.numpy).min
    return like.builder.constant(np.asarray(least, dtype.numpy))
