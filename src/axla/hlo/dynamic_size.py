"""Ops that read and set the sizes of dynamic dimensions."""

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
    """The size of dimension `dimensions[0]` of the operand, as s32[]. For a dynamic dimension this is the
    size at run time, not the bound.
    """

    dimensions: tuple[int, ...]

    def infer(self, operand: AnyShape) -> Shape:
        """Returns s32[]; `dimensions` must hold one dimension of the operand."""
        (source,) = arrays(self, operand)
        _one_dimension(self, self.dimensions, source)
        return Shape(S32)

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """Returns the size at run time: in the interpreter, dynamic arrays have their actual sizes."""
        return np.asarray(operand.shape[self.dimensions[0]], np.int32)

    examples = [example(Shape(F32, (2, 3)), dimensions=(1,))]


@op("set-dimension-size", operands="operand size")
class SetDimensionSize(Op):
    """Sets the size of dimension `dimensions[0]`. The result has a dynamic dimension with the operand's size
    as bound, or a static one if the size is the bound.

    Elements beyond the size are not part of the value; later ops do not read them. A size above the bound is
    clamped to the bound, a negative size to 0. If the dimension becomes longer, the new elements are
    undefined.
    """

    shape: Shape
    dimensions: tuple[int, ...] = attr(required=True, default=())

    def infer(self, operand: AnyShape, size: AnyShape) -> Shape:
        """Returns the declared shape, which must have the operand's dims as bounds. The size must be
        s32[].
        """
        source, scalar = arrays(self, operand, size)
        _one_dimension(self, self.dimensions, source)
        if scalar.logical is not Shape(S32):
            self.reject("c2", f"the size must be s32[], found {show(scalar)}")
        if self.shape.dims != source.dims or self.shape.dtype is not source.dtype:
            wanted = show(source)
            self.reject("c3", f"the result must have the bounds of {wanted}, found {show(self.shape)}")
        return self.shape

    def evaluate(self, operand: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Clamps the size to the bound, then drops the elements beyond it, or appends zeros up to it."""
        at = self.dimensions[0]
        count = max(0, min(int(size), self.shape.dims[at]))
        if count > operand.shape[at]:
            # Elements beyond the actual size are undefined; zeros are as good as any values.
            widths = [(0, count - n if d == at else 0) for d, n in enumerate(operand.shape)]
            return np.pad(operand, widths)
        return operand[(slice(None),) * at + (slice(0, count),)]

    examples = [
        example(Shape(F32, (2, 3)), Shape(S32), shape=Shape(F32, (2, 3), (False, True)), dimensions=(1,))
    ]
