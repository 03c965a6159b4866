"""Ops that read or write parts of arrays: slices, updates, padding, concatenation."""

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
    """The elements from start up to limit (exclusive), every stride-th one, per dimension.

    Ranges must lie inside the operand; they are written `[start:limit:stride]`.
    """

    slice: SliceDims = attr(proto="slice_dimensions")

    def infer(self, operand: AnyShape) -> Shape:
        """Returns the sizes of the ranges, which must lie within the operand."""
        (source,) = arrays(self, operand)
        wanted = self.slice
        if wanted.rank != source.rank:
            self.reject("c1", f"{wanted.rank} ranges for the {source.rank} dimensions of {show(source)}")
        dims = []
        for d, (start, limit, stride) in enumerate(
            zip(wanted.starts, wanted.limits, wanted.strides, strict=True)
        ):
            if not 0 <= start <= limit <= source.dims[d]:
                self.reject("c2", f"range [{start}:{limit}] is not within dimension {d} of {show(source)}")
            if stride < 1:
                self.reject("c3", f"the stride of dimension {d} is {stride}; strides are at least 1")
            dims.append(-((start - limit) // stride))
        whole = zip(dims, source.dims, source.dynamic, strict=True)
        return source.with_dims(dims, [dynamic and n == size for n, size, dynamic in whole])

    def source(self, index: Sequence[Any], operand: Shape) -> tuple[Any, ...]:
        """Index i is start + i * stride, per dimension."""
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
    """Checks the index operands of dynamic-slice and dynamic-update-slice: scalars of one integer type (or
    one vector).
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
            self.reject("indices", f"start indices must have one type, found {show(shapes)}")


def clamped_starts(indices: Sequence[np.ndarray], dims: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Start indices clamped so that a window of `sizes` is inside `dims`."""
    starts = indices[0].tolist() if len(indices) == 1 and indices[0].ndim else [int(i) for i in indices]
    return [max(0, min(int(start), dim - size)) for start, dim, size in zip(starts, dims, sizes, strict=True)]


@op("dynamic-slice", operands="operand *start_indices", moves=True, in_line=True)
class DynamicSlice(PartOfOperand):
    """The window of `dynamic_slice_sizes` at `start_indices`.

    The starts are integer scalars, one per dimension. They are clamped so that the window lies inside:
    nothing is read outside, and no start is an error.
    """

    dynamic_slice_sizes: tuple[int, ...]

    def infer(self, operand: AnyShape, *indices: AnyShape) -> Shape:
        """Returns the operand's dtype with `dynamic_slice_sizes`, which must fit its dims."""
        (source,) = arrays(self, operand)
        start_indices(self, source, indices)
        sizes = self.dynamic_slice_sizes
        if not fits_in(sizes, source.dims):
            self.reject("c1", f"dynamic_slice_sizes={sizes} do not lie within {show(source)}")
        whole = zip(sizes, source.dims, source.dynamic, strict=True)
        return source.with_dims(sizes, [dynamic and n == size for n, size, dynamic in whole])

    def evaluate(self, operand: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        """Returns a view of the window; starts are clamped so that it lies within the operand."""
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
    """`operand` with the window at `start_indices` replaced by `update`.

    The starts are clamped so that the update lies inside, as in dynamic-slice.
    """

    def infer(self, operand: AnyShape, update: AnyShape, *indices: AnyShape) -> Shape:
        """Returns the operand's shape; the update must have its dtype and fit its dims."""
        target, window = arrays(self, operand, update)
        start_indices(self, target, indices)
        same_dtype(self, (target, window))
        if not fits_in(window.dims, target.dims):
            self.reject("c1", f"update {show(window)} does not fit in {show(target)}")
        return target.logical

    def accessed(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """The bytes of the update twice, read and written, and those of the start indices."""
        _, update, *starts = operands
        return 2 * update.byte_size + sum(shape.byte_size for shape in starts)

    def evaluate(self, operand: np.ndarray, update: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        """Writes the update into a copy; starts are clamped so that it lies within the operand."""
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
    """Puts `padding_value` around the operand and between its elements.

    `low_high_interior` per dimension, as 1_2_1. Interior padding comes first, between any two elements; then
    edges are added, or cut off where they are negative.
    """

    padding: PaddingConfig = attr(proto="padding_config")

    def infer(self, operand: AnyShape, value: AnyShape) -> Shape:
        """Returns the padded dims, none of which may be negative; the padding value must be a scalar."""
        source, fill = arrays(self, operand, value)
        config = self.padding
        same_dtype(self, (source, fill))
        if fill.rank:
            self.reject("c1", f"the padding value must be a scalar, found {show(fill)}")
        if config.rank != source.rank:
            self.reject("c2", f"{config.rank} paddings for the {source.rank} dimensions of {show(source)}")
        dims = []
        for d, n in enumerate(source.dims):
            if config.interior[d] < 0:
                message = f"the interior padding of dimension {d} is {config.interior[d]}; it is at least 0"
                self.reject("c3", message)
            size = n + config.low[d] + config.high[d] + max(0, n - 1) * config.interior[d]
            if n == UNBOUNDED:
                size = n
            elif size < 0:
                self.reject("c4", f"dimension {d} of {show(source)} would have the size {size}")
            dims.append(size)
        return source.with_dims(dims, source.dynamic)

    def evaluate(self, operand: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Fills an array with the padding value and puts the elements of the operand that remain into it."""
        config = self.padding
        spread = [n + max(0, n - 1) * step for n, step in zip(operand.shape, config.interior, strict=True)]
        dims = [max(0, n + low + high) for n, low, high in zip(spread, config.low, config.high, strict=True)]
        result = np.full(dims, value, operand.dtype)
        to, of = [], []
        for n, low, step, dim in zip(operand.shape, config.low, config.interior, dims, strict=True):
            first = max(0, -(low // (step + 1))) if low < 0 else 0
            last = min(n, -((low - dim) // (step + 1)))  # the first element that would lie behind the edge
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
    """The operands, concatenated along the dimension; all other sizes must be equal."""

    dimensions: tuple[int, ...]

    @property
    def dimension(self) -> int:
        """The dimension along which operands are joined."""
        return self.dimensions[0]

    def infer(self, *operands: AnyShape) -> Shape:
        """Returns the operands' shape with the sum of their sizes in the dimension."""
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
        """Joins the operands along the dimension."""
        return np.concatenate(operands, self.dimensions[0])

    examples = [
        example(Shape(F32, (2,)), Shape(F32, (3,)), dimensions=(0,)),
        example(Shape(S32, (2, 1)), Shape(S32, (2, 0)), Shape(S32, (2, 4)), dimensions=(1,)),
        example(Shape(BF16, (2, 2)), dimensions=(0,)),
    ]
