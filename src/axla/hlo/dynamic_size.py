"""Sizes of dynamic dimensions as values."""

from __future__ import annotations

import numpy as np

from axla.core.dtypes import F32, S32
from axla.core.shape import AnyShape, Shape
from axla.hlo.family import arrays, show
from axla.ir.op import Op, attr, example, op


def _one_dimension(self: Op, dimensions: tuple[int, ...], source: Shape) -> int:
    if len(dimensions) != 1 or not 0 <= dimensions[0] < source.rank:
        self.reject("c1", f"dimensions={dimensions} must be one dimension of {show(source)}")
    return dimensions[0]


@op("get-dimension-size", operands="operand")
class GetDimensionSize(Op):
    """The size of a dimension, as s32: the actual one, where it is dynamic."""

    dimensions: tuple[int, ...]

    def infer(self, operand: AnyShape) -> Shape:
        """Returns s32[]; `dimensions` must name one dimension of the operand."""
        (source,) = arrays(self, operand)
        _one_dimension(self, self.dimensions, source)
        return Shape(S32)

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """Returns the actual size, which the operand has in the interpreter."""
        return np.asarray(operand.shape[self.dimensions[0]], np.int32)

    examples = [example(Shape(F32, (2, 3)), dimensions=(1,))]


@op("set-dimension-size", operands="operand size")
class SetDimensionSize(Op):
    """The operand with a dimension's size set: dynamic, up to its bound, or static at its bound.

    Elements beyond the size are not part of the value: later ops do not see them. A size greater than the
    bound is the bound, a negative one is 0; a dimension made longer again has undefined elements there.
    """

    shape: Shape
    dimensions: tuple[int, ...] = attr(required=True, default=())

    def infer(self, operand: AnyShape, size: AnyShape) -> Shape:
        """Returns the declared shape, whose bounds must be the dims of the operand; the
        size must be s32[].
        """
        source, scalar = arrays(self, operand, size)
        _one_dimension(self, self.dimensions, source)
        if scalar.logical is not Shape(S32):
            self.reject("c2", f"the size must be s32[], found {show(scalar)}")
        if self.shape.dims != source.dims or self.shape.dtype is not source.dtype:
            wanted = show(source)
            self.reject("c3", f"the result is {show(self.shape)}, bounds {wanted} are wanted")
        return self.shape

    def evaluate(self, operand: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Cuts the operand at the size, clamped to the bound, or fills up with zeros."""
        at = self.dimensions[0]
        count = max(0, min(int(size), self.shape.dims[at]))
        if count > operand.shape[at]:
            # What lies behind the actual size is not defined; zeros are as good as anything.
            widths = [(0, count - n if d == at else 0) for d, n in enumerate(operand.shape)]
            return np.pad(operand, widths)
        return operand[(slice(None),) * at + (slice(0, count),)]

    examples = [
        example(Shape(F32, (2, 3)), Shape(S32), shape=Shape(F32, (2, 3), (False, True)), dimensions=(1,))
    ]
