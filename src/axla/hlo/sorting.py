"""The op topk, and functions that find the order of elements, for topk and for custom calls that sort."""

from __future__ import annotations

import numpy as np

from axla.core.dtypes import F32, S32
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo import numeric
from axla.hlo.family import REAL, arrays, same_dtype, show
from axla.ir.op import Op, attr, example, op


def _key(x: np.ndarray) -> np.ndarray:
    return numeric.total_order_key(x) if numeric.kind(x) == "float" else numeric.widened(x)


def largest_first(x: np.ndarray) -> np.ndarray:
    """Indices that sort `x` along the last axis in descending order. Floats are compared in total order,
    where NaN is larger than infinity; equal elements stay in order.
    """
    key = _key(x)
    key = key.astype(np.uint8) if key.dtype == np.bool_ else key
    return np.argsort(np.invert(key), axis=-1, kind="stable")  # ~key is descending in key


def smallest_first(x: np.ndarray) -> np.ndarray:
    """Indices that sort `x` along the last axis in ascending order. Floats are compared in total order, where
    NaN is larger than infinity; equal elements stay in order.
    """
    return np.argsort(_key(x), axis=-1, kind="stable")


@op("topk", operands="operand", expensive=True)
class TopK(Op):
    """The k largest (or smallest) elements along the last dimension, sorted, and the indices of these
    elements along the dimension as s32.

    Equal elements keep their order. NaN counts as larger than all numbers, and -0 as smaller than 0.
    """

    k: int
    largest: bool = attr(always=True, default=True)

    def infer(self, operand: AnyShape) -> TupleShape:
        """Returns the tuple of two shapes with k as the size of the last dimension: of the operand's dtype,
        and of s32.
        """
        (source,) = arrays(self, operand)
        same_dtype(self, (source,), REAL)
        if not source.rank or not 0 <= self.k <= source.dims[-1]:
            self.reject("c1", f"k={self.k} is larger than the last dimension of {show(source)}, or negative")
        dims = (*source.dims[:-1], self.k)
        dynamic = (*source.dynamic[:-1], False)
        return TupleShape((Shape(source.dtype, dims, dynamic), Shape(S32, dims, dynamic)))

    def evaluate(self, operand: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Takes the first k elements in sorted order; equal elements keep their order."""
        order = (largest_first if self.largest else smallest_first)(operand)[..., : self.k]
        return np.take_along_axis(operand, order, -1), order.astype(np.int32)

    examples = [example(Shape(F32, (3, 5)), k=2), example(Shape(S32, (4,)), k=3, largest=False)]
