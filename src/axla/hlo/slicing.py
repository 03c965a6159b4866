"""Ops that read or write parts of arrays: slice, dynamic-slice, dynamic-update-slice, pad, concatenate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from axla.core.dtypes import BF16, F32, S32
from axla.core.shape import UNBOUNDED, AnyShape, Shape
from axla.hlo.family import PartOfOperand, arrays, fits_in, same_dtype, show
from axla.ir.attributes import PaddingConfig, SliceDims
from axla.ir.op import Op, attr, example, op


@op("slice", operands="operand", moves=True)
class Slice(PartOfOperand):
    """Every stride-th element from start up to, but not including, limit, in each dimension.

    The ranges `[start:limit:stride]`, one per dimension, must lie within the operand.
    """

    slice: SliceDims = attr(proto="slice_dimensions")

    def infer(self, operand: AnyShape) -> Shape:
        """Returns the number of elements of each range; the ranges must lie within the operand."""
        (source,) = arrays(self, operand)
        wanted = self.slice
        if wanted.rank != source.rank:
            self.reject("c1", f"one range per dimension of {show(source)} is wanted, found {wanted.rank}")
        dims = []
        for d, (start, limit, stride) in enumerate(
            zip(wanted.starts, wanted.limits, wanted.strides, strict=True)
        ):
            if not 0 <= start <= limit <= source.dims[d]:
                self.reject("c2", f"range [{start}:{limit}] is not within dimension {d} of {show(source)}")
            if stride < 1:
                self.reject("c3", f"the stride of dimension {d} must be at least 1, found {stride}")
            dims.append(-((start - limit) // stride))
        whole = zip(dims, source.dims, source.dynamic, strict=True)
        return source.with_dims(dims, [dynamic and n == size for n, size, dynamic in whole])

    def source(self, index: Sequence[Any], operand: Shape) -> tuple[Any, ...]:
        """Index i of the result is index start + i * stride of the operand, in each dimension."""
        return tuple(
            (i * stride if stride != 1 else i) + start if start else (i * stride if stride != 1 else i)
            for i, start, stride in zip(index, self.slice.starts, self.slice.strides, strict=True)
        )

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """Returns a view of the ranges."""
        ranges = zip(self.slice.starts, self.slice.limits, self.slice.strides, strict=True)
        return operand[tuple(slice(*r) for r in ranges)]

    examples = [
        example(Shape(F32, (8,)), slice=SliceDims((1,), (5,))),
        example(Shape(F32, (2, 7)), slice=SliceDims((0, 1), (2, 7), (1, 3))),
        example(Shape(S32, (4,)), slice=SliceDims((3,), (3,))),
    ]


def start_indices(self: Op, operand: Shape, indices: Sequence[AnyShape]) -> None:
    """Rejects index operands of dynamic-slice or dynamic-update-slice unless they are one integer scalar per
    dimension, all of the same type, or one vector of integers.
    """
    shapes = arrays(self, *indices)
    vector = len(shapes) == 1 and shapes[0].rank == 1
    if not vector and len(shapes) != operand.rank or vector and shapes[0].dims != (operand.rank,):
        message = f"{operand.rank} start indices are wanted for {show(operand)}, found {show(shapes)}"
        self.reject("indices", message)
    for s in shapes:
        if not s.dtype.is_integer or (s.rank and not vector):
            self.reject("indices", f"start indices must be integer scalars, found {show(shapes)}")
        if s.dtype is not shapes[0].dtype:
            self.reject("indices", f"start indices must have the same type, found {show(shapes)}")


def clamped_starts(indices: Sequence[np.ndarray], dims: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The start indices, clamped so that a window of `sizes` lies within an array of sizes `dims`."""
    starts = indices[0].tolist() if len(indices) == 1 and indices[0].ndim else [int(i) for i in indices]
    return [max(0, min(int(start), dim - size)) for start, dim, size in zip(starts, dims, sizes, strict=True)]


@op("dynamic-slice", operands="operand *start_indices", moves=True, in_line=True)
class DynamicSlice(PartOfOperand):
    """The window of `dynamic_slice_sizes` that begins at `start_indices`.

    The start indices are integer scalars, one per dimension. They are clamped so that the window lies within
    the operand; no start index is an error.
    """

    dynamic_slice_sizes: tuple[int, ...]

    def infer(self, operand: AnyShape, *indices: AnyShape) -> Shape:
        """Returns the operand's dtype with the dims `dynamic_slice_sizes`, which must not exceed those of the
        operand.
        """
        (source,) = arrays(self, operand)
        start_indices(self, source, indices)
        sizes = self.dynamic_slice_sizes
        if not fits_in(sizes, source.dims):
            self.reject("c1", f"dynamic_slice_sizes={sizes} do not lie within {show(source)}")
        whole = zip(sizes, source.dims, source.dynamic, strict=True)
        return source.with_dims(sizes, [dynamic and n == size for n, size, dynamic in whole])

    def evaluate(self, operand: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        """Returns a view of the window; start indices are clamped so that it lies within the operand."""
        sizes = [min(n, d) for n, d in zip(self.dynamic_slice_sizes, operand.shape, strict=True)]
        starts = clamped_starts(indices, operand.shape, sizes)
        return operand[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]

    examples = [
        example(Shape(F32, (5,)), Shape(S32), dynamic_slice_sizes=(2,)),
        example(Shape(F32, (4, 3)), Shape(S32), Shape(S32), dynamic_slice_sizes=(1, 3)),
        example(Shape(F32), dynamic_slice_sizes=()),
    ]


@op("dynamic-update-slice", operands="operand update *start_indices", updates=True, in_line=True)
class DynamicUpdateSlice(Op):
    """The operand with the window that begins at `start_indices` replaced by `update`.

    The start indices are integer scalars, one per dimension. They are clamped so that the window lies within
    the operand.
    """

    def infer(self, operand: AnyShape, update: AnyShape, *indices: AnyShape) -> Shape:
        """Returns the operand's shape. The update must have its dtype and rank, and must not be larger in any
        dimension.
        """
        target, window = arrays(self, operand, update)
        start_indices(self, target, indices)
        same_dtype(self, (target, window))
        if not fits_in(window.dims, target.dims):
            self.reject("c1", f"update {show(window)} does not fit in {show(target)}")
        return target.logical

    def accessed(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts the bytes of the update twice, since they are read and written, and those of the start
        indices.
        """
        _, update, *starts = operands
        return 2 * update.byte_size + sum(shape.byte_size for shape in starts)

    def evaluate(self, operand: np.ndarray, update: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        """Writes the update into a copy of the operand; start indices are clamped so that it lies within the
        operand.
        """
        starts = clamped_starts(indices, operand.shape, update.shape)
        result = operand.copy()
        result[tuple(slice(s, s + n) for s, n in zip(starts, update.shape, strict=True))] = update
        return result

    examples = [
        example(Shape(F32, (5,)), Shape(F32, (2,)), Shape(S32)),
        example(Shape(F32, (4, 3)), Shape(F32, (2, 3)), Shape(S32), Shape(S32)),
    ]


@op("pad", operands="operand padding_value", moves=True, in_line=True)
class Pad(Op):
    """Adds elements with the value `padding_value` at the edges of the operand and between its elements.

    `padding` has low, high and interior counts per dimension, written 1_2_1. Interior padding is applied
    first, between any two neighbours. Then low and high elements are added before and after; where negative,
    they are removed.
    """

    padding: PaddingConfig = attr(proto="padding_config")

    def infer(self, operand: AnyShape, value: AnyShape) -> Shape:
        """Returns the padded dims, none of which may be negative. The padding value must be a scalar of the
        operand's type.
        """
        source, fill = arrays(self, operand, value)
        config = self.padding
        same_dtype(self, (source, fill))
        if fill.rank:
            self.reject("c1", f"the padding value must be a scalar, found {show(fill)}")
        if config.rank != source.rank:
            self.reject("c2", f"one padding per dimension of {show(source)} is wanted, found {config.rank}")
        dims = []
        for d, n in enumerate(source.dims):
            if config.interior[d] < 0:
                message = f"interior padding must be at least 0, found {config.interior[d]} in dimension {d}"
                self.reject("c3", message)
            size = n + config.low[d] + config.high[d] + max(0, n - 1) * config.interior[d]
            if n == UNBOUNDED:
                size = n
            elif size < 0:
                self.reject("c4", f"dimension {d} of {show(source)} would have the size {size}")
            dims.append(size)
        return source.with_dims(dims, source.dynamic)

    def evaluate(self, operand: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Fills an array with the padding value, then writes those elements of the operand into it that are
        not removed.
        """
        config = self.padding
        spread = [n + max(0, n - 1) * step for n, step in zip(operand.shape, config.interior, strict=True)]
        dims = [max(0, n + low + high) for n, low, high in zip(spread, config.low, config.high, strict=True)]
        result = np.full(dims, value, operand.dtype)
        to, of = [], []
        for n, low, step, dim in zip(operand.shape, config.low, config.interior, dims, strict=True):
            first = max(0, -(low // (step + 1))) if low < 0 else 0
            last = min(n, -((low - dim) // (step + 1)))  # the first element beyond the high edge
            last = max(first, last)
            begin = low + first * (step + 1)
            to.append(
                slice(begin, begin + (last - first - 1) * (step + 1) + 1 if last > first else begin, step + 1)
            )
            of.append(slice(first, last))
        result[tuple(to)] = operand[tuple(of)]
        return result

    examples = [
        example(Shape(F32, (5,)), Shape(F32), padding=PaddingConfig((1,), (2,))),
        example(Shape(F32, (5,)), Shape(F32), padding=PaddingConfig((-1,), (-2,))),
        example(Shape(F32, (5,)), Shape(F32), padding=PaddingConfig((1,), (-3,), (2,))),
        example(Shape(F32, (5,)), Shape(F32), padding=PaddingConfig((-2,), (4,), (1,))),
        example(Shape(F32, (5,)), Shape(F32), padding=PaddingConfig((0,), (-12,), (2,))),
        example(Shape(S32, (3, 4)), Shape(S32), padding=PaddingConfig((1, 0), (-1, 2), (1, 0))),
    ]


@op("concatenate", operands="*operands", moves=True, in_line=True)
class Concatenate(Op):
    """Concatenates the operands along dimension `dimensions[0]`. They must have equal sizes in all other
    dimensions.
    """

    dimensions: tuple[int, ...]

    @property
    def dimension(self) -> int:
        """The dimension along which the operands are concatenated."""
        return self.dimensions[0]

    def infer(self, *operands: AnyShape) -> Shape:
        """Returns the operands' shape with the sum of their sizes in the dimension of concatenation."""
        shapes = arrays(self, *operands)
        if not shapes:
            self.reject("c1", "at least one operand is wanted, found none")
        dtype, first = same_dtype(self, shapes), shapes[0]
        if len(self.dimensions) != 1 or not 0 <= self.dimensions[0] < first.rank:
            self.reject("c2", f"dimensions={self.dimensions} must be one dimension of {show(first)}")
        at = self.dimensions[0]
        for s in shapes[1:]:
            if (
                s.rank != first.rank
                or s.dims[:at] != first.dims[:at]
                or s.dims[at + 1 :] != first.dims[at + 1 :]
            ):
                self.reject("c3", f"operands must agree in all dimensions but {at}, found {show(shapes)}")
        sizes = [s.dims[at] for s in shapes]
        whole = UNBOUNDED if UNBOUNDED in sizes else sum(sizes)
        dims = (*first.dims[:at], whole, *first.dims[at + 1 :])
        dynamic = [any(marks) for marks in zip(*[s.dynamic for s in shapes], strict=True)]
        return Shape(dtype, dims, dynamic)

    def evaluate(self, *operands: np.ndarray) -> np.ndarray:
        """Concatenates the operands along the dimension."""
        return np.concatenate(operands, self.dimensions[0])

    examples = [
        example(Shape(F32, (2,)), Shape(F32, (3,)), dimensions=(0,)),
        example(Shape(S32, (2, 1)), Shape(S32, (2, 0)), Shape(S32, (2, 4)), dimensions=(1,)),
        example(Shape(BF16, (2, 2)), dimensions=(0,)),
    ]
