"""Functions that lowerings of several families share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np

import axla.ops as ops
from axla.builder.iteration import combiner
from axla.builder.records import GatherDimensionNumbers
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import BF16, F16, F32, S32, U32, DType
from axla.core.shape import TOKEN
from axla.custom.site import CHECK
from axla.tensorflow.scope import OpCall


def widened(value: XlaOp) -> XlaOp:
    """Numbers converted to the type in which they are summed: at least 32 bits."""
    if value.dtype in (F16, BF16):
        return ops.ConvertElementType(value, F32)
    if value.dtype.is_integer and value.dtype.bits < 32:
        return ops.ConvertElementType(value, S32 if value.dtype.is_signed else U32)
    return value


def reduced(x: XlaOp, dims: Sequence[int], opcode: str) -> XlaOp:
    """Reduces an array over the dimensions `dims` by Add, Mul, Max, Min, And or Or. Without elements, the
    result is the neutral element.
    """
    start = x.builder.constant(neutral(opcode, x.dtype))
    return ops.Reduce(x, start, combiner(opcode, x.dtype), list(dims))


def neutral(opcode: str, dtype: DType) -> np.ndarray:
    """The neutral element of Add, Mul, Max, Min, And or Or for a type."""
    if opcode in ("Add", "Or"):
        return np.zeros((), dtype.numpy)
    if opcode in ("Mul", "And"):
        return np.ones((), dtype.numpy)
    sign = -1 if opcode == "Max" else 1
    if dtype.is_float:
        return np.asarray(sign * math.inf).astype(dtype.numpy)
    if dtype.is_pred:
        return np.asarray(sign > 0)
    limits = ml_dtypes.iinfo(dtype.numpy)
    return np.asarray(limits.min if sign < 0 else limits.max, dtype.numpy)


def summed(value: XlaOp, dims: Sequence[int]) -> XlaOp:
    """The sums along dimensions, in the type of the array."""
    return ops.ConvertElementType(reduced(widened(value), dims, "Add"), value.dtype)


def taken(value: XlaOp, dim: int, places: np.ndarray) -> XlaOp:
    """The slices of an array at the known positions `places` along a dimension, like `numpy.take`."""
    places = np.ascontiguousarray(places, np.int32)
    if len(places) == value.dims[dim] and np.array_equal(places, np.arange(len(places))):
        return value
    others = [d for d in range(len(value.dims)) if d != dim]
    numbers = GatherDimensionNumbers(others, [dim], [dim], 1)
    sizes = [1 if d == dim else size for d, size in enumerate(value.dims)]
    return ops.Gather(value, places, numbers, sizes, bool(np.all(places[1:] >= places[:-1])))


def require(call: OpCall, truth: XlaOp, message: str) -> None:
    """Raises VerifyError if the condition `truth` is known to be false. If its value is not known, adds a
    check to the program: a run in which the condition is false fails with the message.
    """
    known = call.scope.known(truth)
    if known is not None:
        return None if known else call.fail(message)
    message = f"{call.node}: {message}"
    ops.CustomCall(truth.builder, CHECK, [truth], TOKEN, message, True)


def lowest(like: XlaOp) -> XlaOp:
    """The lowest number of the type of `like`: -infinity where there is one."""
    return like.builder.constant(neutral("Max", like.dtype))


_RANKS = {0: "a scalar", 1: "a vector", 2: "a matrix"}


def of_rank(call: OpCall, value: XlaOp, rank: int, what: str) -> None:
    """Raises VerifyError unless an array has the rank `rank`; `what` is its name in the message."""
    if len(value.dims) != rank:
        call.fail(f"{what} has shape {list(value.dims)}, wanted {_RANKS.get(rank, f'{rank} dimensions')}")


def of_dims(call: OpCall, value: XlaOp, dims: Sequence[int], what: str) -> None:
    """Raises VerifyError unless an array has the sizes `dims`; `what` is its name in the message."""
    if value.dims != tuple(dims):
        call.fail(f"{what} has shape {list(value.dims)}, wanted {list(dims)}")


def check_same_dims(call: OpCall, *values: XlaOp) -> None:
    """Raises VerifyError unless all arrays have the same sizes."""
    if len({value.dims for value in values}) > 1:
        call.fail(f"operands of one shape are wanted, found {', '.join(str(list(v.dims)) for v in values)}")
