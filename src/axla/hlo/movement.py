"""Ops that move elements without computing: result[i] = operand[source(i)].

`source(index, operand)` maps an index of the result to one of the operand, whose shape is given. It uses `+ - * // %` with
integer constants only, so that it serves Python ints, NumPy index arrays and emitted values.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from axla.core.dtypes import BF16, F32, F64, PRED, S8, S32
from axla.core.shape import AnyShape, Layout, Shape, strides
from axla.ir.attributes import PaddingConfig, SliceDims
from axla.ir.op import Op, attr, op, reject
from axla.hlo.family import arrays, same_dtype, show


@op("broadcast", operands="operand")
class Broadcast(Op):
    """Adds dimensions: dimension k of the operand becomes dimension `dimensions[k]` of the result; others repeat it."""

    shape: Shape
    dimensions: tuple[int, ...] = attr(always=True, default=())

    def infer(self, operand: AnyShape) -> Shape:
        (source,) = arrays(self, operand)
        shape, dimensions = self.shape, self.dimensions
        if source.dtype is not shape.dtype:
            reject("broadcast_c1", f"broadcast: {show(source)} cannot become {show(shape)}: element types differ")
        if len(dimensions) != source.rank:
            reject("broadcast_c2", f"broadcast: dimensions={dimensions} must name one for each of the {source.rank} of {show(source)}")
        last = -1
        for at, size in zip(dimensions, source.dims, strict=True):
            if not last < at < shape.rank and (not 0 <= at < shape.rank or dimensions.count(at) > 1):
                reject("broadcast_c3", f"broadcast: dimensions={dimensions} are not different dimensions of {show(shape)}")
            if shape.dims[at] != size:
                reject("broadcast_c4", f"broadcast: dimension {at} of {show(shape)} must have the size {size} of {show(source)}")
            last = at
        return shape

    def source(self, index: Sequence[Any], operand: Shape) -> tuple[Any, ...]:
        return tuple(index[d] for d in self.dimensions)

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        # The operand's own sizes: a dynamic dimension may be shorter than its bound.
        order = sorted(range(operand.ndim), key=self.dimensions.__getitem__)
        sizes, expanded = list(self.shape.dims), [1] * self.shape.rank
        for k in order:
            sizes[self.dimensions[k]] = expanded[self.dimensions[k]] = operand.shape[k]
        return np.broadcast_to(operand.transpose(order).reshape(expanded), sizes)

    @classmethod
    def samples(cls):
        return [(cls(Shape(F32, (2, 3)), ()), (Shape(F32),)), (cls(Shape(S32, (4, 2, 3)), (0, 2)), (Shape(S32, (4, 3)),)),
                (cls(Shape(F32, (3, 2)), (1, 0)), (Shape(F32, (2, 3)),)), (cls(Shape(PRED), ()), (Shape(PRED),))]  # fmt: skip


def regroup(from_dims: Sequence[int], to_dims: Sequence[int]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Cuts two shapes of equal size into the smallest runs of equal size: pairs of dimension numbers.

    Dimensions of size one are in no run: their index is 0.
    """
    left = [d for d, n in enumerate(from_dims) if n != 1]
    right = [d for d, n in enumerate(to_dims) if n != 1]
    runs: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        first, second = [left[i]], [right[j]]
        a, b = from_dims[left[i]], to_dims[right[j]]
        while a != b:
            if a < b:
                i += 1
                first.append(left[i])
                a *= from_dims[left[i]]
            else:
                j += 1
                second.append(right[j])
                b *= to_dims[right[j]]
        runs.append((tuple(first), tuple(second)))
        i, j = i + 1, j + 1
    return runs


@op("reshape", operands="operand")
class Reshape(Op):
    """The same elements in row-major order, with other dimensions."""

    shape: Shape
    inferred_dimension: int = -1

    def infer(self, operand: AnyShape) -> Shape:
        (source,) = arrays(self, operand)
        if source.dtype is not self.shape.dtype:
            reject("reshape_c1", f"reshape: {show(source)} cannot become {show(self.shape)}: element types differ")
        if source.size != self.shape.size:
            reject("reshape_c2", f"reshape: {show(source)} has {source.size} elements, {show(self.shape)} has {self.shape.size}")
        return self.shape

    def source(self, index: Sequence[Any], operand: Shape) -> tuple[Any, ...]:
        if not operand.size:
            return tuple(0 for _ in operand.dims)  # no element is ever asked for
        result: list[Any] = [0] * operand.rank
        for to_dims, from_dims in regroup(self.shape.dims, operand.dims):
            sizes = [self.shape.dims[d] for d in to_dims]
            linear = index[to_dims[0]]
            for d, size in zip(to_dims[1:], sizes[1:], strict=True):
                linear = linear * size + index[d]
            steps = strides([operand.dims[d] for d in from_dims])
            for number, (d, step) in enumerate(zip(from_dims, steps, strict=True)):
                quotient = linear if step == 1 else linear // step
                result[d] = quotient if number == 0 else quotient % operand.dims[d]
        return tuple(result)

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        if operand.size == self.shape.size:
            return operand.reshape(self.shape.dims)
        return operand.reshape(self._actual_dims(operand))

    def _actual_dims(self, operand: np.ndarray) -> list[int]:
        """Dimensions for an operand that is smaller than its bound: the dynamic one takes what is left."""
        dims = list(self.shape.dims)
        at = self.shape.dynamic.index(True) if self.shape.is_dynamic else int(np.argmax(dims))
        rest = prod(dims[:at] + dims[at + 1 :])
        dims[at] = operand.size // rest if rest else 0
        return dims

    @classmethod
    def samples(cls):
        cases = [((2, 3), (6,)), ((6,), (3, 2)), ((4, 6), (2, 12)), ((2, 1, 3), (1, 6)), ((), (1, 1)), ((2, 3, 5), (6, 5)), ((0, 3), (0,))]
        return [(cls(Shape(F32, to)), (Shape(F32, of),)) for of, to in cases]


@op("dynamic-reshape", operands="operand *sizes")
class DynamicReshape(Op):
    """Reshapes a dynamic array to the sizes given as scalars, one per dimension, within the bounds of `shape`."""

    shape: Shape

    def infer(self, operand: AnyShape, *sizes: AnyShape) -> Shape:
        (source,) = arrays(self, operand)
        if source.dtype is not self.shape.dtype:
            reject("dynamic_reshape_c1", f"dynamic-reshape: {show(source)} cannot become {show(self.shape)}: element types differ")
        if len(sizes) != self.shape.rank or any(s.logical is not Shape(S32) for s in sizes):
            reject("dynamic_reshape_c2", f"dynamic-reshape: {self.shape.rank} sizes s32[] are wanted, found {show(sizes)}")
        return self.shape

    def evaluate(self, operand: np.ndarray, *sizes: np.ndarray) -> np.ndarray:
        return operand.reshape([int(s) for s in sizes])

    @classmethod
    def samples(cls):
        return [(cls(Shape(F32, (3, 2))), (Shape(F32, (6,)), Shape(S32), Shape(S32)))]


@op("transpose", operands="operand")
class Transpose(Op):
    """Permutes dimensions: dimension k of the result is dimension `dimensions[k]` of the operand."""

    dimensions: tuple[int, ...]

    def infer(self, operand: AnyShape) -> Shape:
        (source,) = arrays(self, operand)
        if sorted(self.dimensions) != list(range(source.rank)):
            reject(
                "transpose_c1",
                f"transpose: dimensions={self.dimensions} is not a permutation of the {source.rank} dimensions of {show(source)}",
            )
        return source.with_dims([source.dims[d] for d in self.dimensions], [source.dynamic[d] for d in self.dimensions])

    def source(self, index: Sequence[Any], operand: Shape) -> tuple[Any, ...]:
        return tuple(index[self.dimensions.index(d)] for d in range(len(self.dimensions)))

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        return operand.transpose(self.dimensions)

    @classmethod
    def samples(cls):
        return [(cls((1, 0)), (Shape(F32, (2, 3)),)), (cls((2, 0, 1)), (Shape(BF16, (2, 3, 4)),)), (cls(()), (Shape(F32),))]


@op("reverse", operands="operand")
class Reverse(Op):
    """Turns the order of elements around along `dimensions`."""

    dimensions: tuple[int, ...]

    def infer(self, operand: AnyShape) -> Shape:
        (source,) = arrays(self, operand)
        if len(set(self.dimensions)) != len(self.dimensions) or not all(0 <= d < source.rank for d in self.dimensions):
            reject("reverse_c1", f"reverse: dimensions={self.dimensions} are not different dimensions of {show(source)}")
        return source.logical

    def source(self, index: Sequence[Any], operand: Shape) -> tuple[Any, ...]:
        return tuple((operand.dims[d] - 1) - i if d in self.dimensions else i for d, i in enumerate(index))

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        return np.flip(operand, self.dimensions)

    @classmethod
    def samples(cls):
        return [(cls((0,)), (Shape(F32, (5,)),)), (cls((0, 2)), (Shape(S8, (2, 3, 4)),)), (cls(()), (Shape(F32, (2,)),))]


@op("slice", operands="operand")
class Slice(Op):
    """The elements from start up to limit with a stride, per dimension."""

    slice: SliceDims

    def infer(self, operand: AnyShape) -> Shape:
        (source,) = arrays(self, operand)
        wanted = self.slice
        if wanted.rank != source.rank:
            reject("slice_c1", f"slice: {wanted.rank} ranges for the {source.rank} dimensions of {show(source)}")
        dims = []
        for d, (start, limit, stride) in enumerate(zip(wanted.starts, wanted.limits, wanted.strides, strict=True)):
            if not 0 <= start <= limit <= source.dims[d]:
                reject("slice_c2", f"slice: range [{start}:{limit}] is not within dimension {d} of {show(source)}")
            if stride < 1:
                reject("slice_c3", f"slice: the stride of dimension {d} is {stride}; strides are at least 1")
            dims.append(-((start - limit) // stride))
        whole = zip(dims, source.dims, source.dynamic, strict=True)
        return source.with_dims(dims, [dynamic and n == size for n, size, dynamic in whole])

    def source(self, index: Sequence[Any], operand: Shape) -> tuple[Any, ...]:
        return tuple(
            (i * stride if stride != 1 else i) + start if start else (i * stride if stride != 1 else i)
            for i, start, stride in zip(index, self.slice.starts, self.slice.strides, strict=True)
        )

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        ranges = zip(self.slice.starts, self.slice.limits, self.slice.strides, strict=True)
        return operand[tuple(slice(*r) for r in ranges)]

    @classmethod
    def samples(cls):
        return [
            (cls(SliceDims((1,), (5,))), (Shape(F32, (8,)),)),
            (cls(SliceDims((0, 1), (2, 7), (1, 3))), (Shape(F32, (2, 7)),)),
            (cls(SliceDims((3,), (3,))), (Shape(S32, (4,)),)),
        ]


def start_indices(self: Op, operand: Shape, indices: Sequence[AnyShape]) -> None:
    """Checks the index operands of dynamic-slice and dynamic-update-slice: scalars of one integer type (or one vector)."""
    name = self.opcode.replace("-", "_")
    shapes = arrays(self, *indices)
    vector = len(shapes) == 1 and shapes[0].rank == 1
    if not vector and len(shapes) != operand.rank or vector and shapes[0].dims != (operand.rank,):
        reject(f"{name}_indices", f"{self.opcode}: {operand.rank} start indices are wanted for {show(operand)}, found {show(shapes)}")
    for s in shapes:
        if not s.dtype.is_integer or (s.rank and not vector):
            reject(f"{name}_indices", f"{self.opcode}: start indices must be integer scalars, found {show(shapes)}")
        if s.dtype is not shapes[0].dtype:
            reject(f"{name}_indices", f"{self.opcode}: start indices must have one type, found {show(shapes)}")


def clamped_starts(indices: Sequence[np.ndarray], dims: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Start indices moved so that a window of `sizes` lies inside `dims`."""
    starts = indices[0].tolist() if len(indices) == 1 and indices[0].ndim else [int(i) for i in indices]
    return [max(0, min(int(start), dim - size)) for start, dim, size in zip(starts, dims, sizes, strict=True)]


@op("dynamic-slice", operands="operand *start_indices")
class DynamicSlice(Op):
    """The window of `dynamic_slice_sizes` at `start_indices`, which are clamped so that it lies inside."""

    dynamic_slice_sizes: tuple[int, ...]

    def infer(self, operand: AnyShape, *indices: AnyShape) -> Shape:
        (source,) = arrays(self, operand)
        start_indices(self, source, indices)
        sizes = self.dynamic_slice_sizes
        if len(sizes) != source.rank or not all(0 <= n <= d for n, d in zip(sizes, source.dims, strict=False)):
            reject("dynamic_slice_c1", f"dynamic-slice: dynamic_slice_sizes={sizes} do not lie within {show(source)}")
        whole = zip(sizes, source.dims, source.dynamic, strict=True)
        return source.with_dims(sizes, [dynamic and n == size for n, size, dynamic in whole])

    def evaluate(self, operand: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        sizes = [min(n, d) for n, d in zip(self.dynamic_slice_sizes, operand.shape, strict=True)]
        starts = clamped_starts(indices, operand.shape, sizes)
        return operand[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]

    @classmethod
    def samples(cls):
        return [(cls((2,)), (Shape(F32, (5,)), Shape(S32))), (cls((1, 3)), (Shape(F32, (4, 3)), Shape(S32), Shape(S32))),
                (cls(()), (Shape(F32),))]  # fmt: skip


@op("dynamic-update-slice", operands="operand update *start_indices")
class DynamicUpdateSlice(Op):
    """`operand` with the window at `start_indices` replaced by `update`; the start is clamped so that it fits."""

    def infer(self, operand: AnyShape, update: AnyShape, *indices: AnyShape) -> Shape:
        target, window = arrays(self, operand, update)
        start_indices(self, target, indices)
        same_dtype(self, (target, window))
        if window.rank != target.rank or not all(n <= d for n, d in zip(window.dims, target.dims, strict=True)):
            reject("dynamic_update_slice_c1", f"dynamic-update-slice: update {show(window)} does not fit in {show(target)}")
        return target.logical

    def evaluate(self, operand: np.ndarray, update: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        starts = clamped_starts(indices, operand.shape, update.shape)
        result = operand.copy()
        result[tuple(slice(s, s + n) for s, n in zip(starts, update.shape, strict=True))] = update
        return result

    @classmethod
    def samples(cls):
        return [(cls(), (Shape(F32, (5,)), Shape(F32, (2,)), Shape(S32))),
                (cls(), (Shape(F32, (4, 3)), Shape(F32, (2, 3)), Shape(S32), Shape(S32)))]  # fmt: skip


@op("pad", operands="operand padding_value")
class Pad(Op):
    """Puts `padding_value` around the operand and between its elements; negative edges cut off."""

    padding: PaddingConfig

    def infer(self, operand: AnyShape, value: AnyShape) -> Shape:
        source, fill = arrays(self, operand, value)
        config = self.padding
        same_dtype(self, (source, fill))
        if fill.rank:
            reject("pad_c1", f"pad: the padding value must be a scalar, found {show(fill)}")
        if config.rank != source.rank:
            reject("pad_c2", f"pad: {config.rank} paddings for the {source.rank} dimensions of {show(source)}")
        dims = []
        for d, n in enumerate(source.dims):
            if config.interior[d] < 0:
                reject("pad_c3", f"pad: the interior padding of dimension {d} is {config.interior[d]}; it is at least 0")
            size = n + config.low[d] + config.high[d] + max(0, n - 1) * config.interior[d]
            if size < 0:
                reject("pad_c4", f"pad: dimension {d} of {show(source)} would have the size {size}")
            dims.append(size)
        return source.with_dims(dims, source.dynamic)

    def evaluate(self, operand: np.ndarray, value: np.ndarray) -> np.ndarray:
        config = self.padding
        spread = [n + max(0, n - 1) * step for n, step in zip(operand.shape, config.interior, strict=True)]
        dims = [n + low + high for n, low, high in zip(spread, config.low, config.high, strict=True)]
        result = np.full(dims, value, operand.dtype)
        to, of = [], []
        for n, low, step, dim in zip(operand.shape, config.low, config.interior, dims, strict=True):
            first = max(0, -(low // (step + 1))) if low < 0 else 0
            last = min(n, -((low - dim) // (step + 1)))  # the first element that would lie behind the edge
            last = max(first, last)
            begin = low + first * (step + 1)
            to.append(slice(begin, begin + (last - first - 1) * (step + 1) + 1 if last > first else begin, step + 1))
            of.append(slice(first, last))
        result[tuple(to)] = operand[tuple(of)]
        return result

    @classmethod
    def samples(cls):
        configs = [((1,), (2,), (0,)), ((-1,), (-2,), (0,)), ((1,), (-3,), (2,)), ((-2,), (4,), (1,)), ((0,), (-12,), (2,))]
        return [(cls(PaddingConfig(*c)), (Shape(F32, (5,)), Shape(F32))) for c in configs] + [
            (cls(PaddingConfig((1, 0), (-1, 2), (1, 0))), (Shape(S32, (3, 4)), Shape(S32)))
        ]


@op("concatenate", operands="*operands")
class Concatenate(Op):
    """Its operands one behind the other along the dimension."""

    dimensions: tuple[int, ...]

    @property
    def dimension(self) -> int:
        return self.dimensions[0]

    def infer(self, *operands: AnyShape) -> Shape:
        shapes = arrays(self, *operands)
        if not shapes:
            reject("concatenate_c1", "concatenate: at least one operand is wanted, found none")
        dtype, first = same_dtype(self, shapes), shapes[0]
        if len(self.dimensions) != 1 or not 0 <= self.dimensions[0] < first.rank:
            reject("concatenate_c2", f"concatenate: dimensions={self.dimensions} must be one dimension of {show(first)}")
        at = self.dimensions[0]
        for s in shapes[1:]:
            if s.rank != first.rank or s.dims[:at] != first.dims[:at] or s.dims[at + 1 :] != first.dims[at + 1 :]:
                reject("concatenate_c3", f"concatenate: operands must agree in all dimensions but {at}, found {show(shapes)}")
        dims = (*first.dims[:at], sum(s.dims[at] for s in shapes), *first.dims[at + 1 :])
        dynamic = [any(marks) for marks in zip(*[s.dynamic for s in shapes], strict=True)]
        return Shape(dtype, dims, dynamic)

    def evaluate(self, *operands: np.ndarray) -> np.ndarray:
        return np.concatenate(operands, self.dimensions[0])

    @classmethod
    def samples(cls):
        return [(cls((0,)), (Shape(F32, (2,)), Shape(F32, (3,)))), (cls((1,)), (Shape(S32, (2, 1)), Shape(S32, (2, 0)), Shape(S32, (2, 4)))),
                (cls((0,)), (Shape(BF16, (2, 2)),))]  # fmt: skip


@op("iota")
class Iota(Op):
    """The index along `iota_dimension`."""

    shape: Shape
    iota_dimension: int = attr(always=True)

    def infer(self) -> Shape:
        if self.shape.rank and not 0 <= self.iota_dimension < self.shape.rank or not self.shape.rank:
            reject("iota_c1", f"iota: iota_dimension={self.iota_dimension} is not a dimension of {show(self.shape)}")
        if self.shape.dtype.is_pred:
            reject("iota_c2", f"iota: element types that hold numbers are wanted, found {show(self.shape)}")
        return self.shape

    def evaluate(self) -> np.ndarray:
        dims, at = self.shape.dims, self.iota_dimension
        if not self.shape.size:
            return np.zeros(dims, self.shape.dtype.numpy)
        line = np.arange(dims[at]).astype(self.shape.dtype.numpy)
        return np.broadcast_to(line.reshape([-1 if d == at else 1 for d in range(len(dims))]), dims)

    @classmethod
    def samples(cls):
        return [(cls(Shape(S32, (5,)), 0), ()), (cls(Shape(F32, (2, 3)), 1), ()), (cls(Shape(S8, (3, 2)), 0), ())]


@op("copy", operands="operand")
class Copy(Op):
    """The operand itself, in memory (and a layout) of its own."""

    def infer(self, operand: AnyShape) -> AnyShape:
        return operand.logical

    def source(self, index: Sequence[Any], operand: Shape) -> tuple[Any, ...]:
        return tuple(index)

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        return operand

    @classmethod
    def samples(cls):
        return [(cls(), (Shape(F32, (2, 3)),)), (cls(), (Shape(F64),))]


def physical_dims(shape: Shape, layout: Layout) -> tuple[int, ...]:
    """The dimensions from major to minor."""
    return tuple(shape.dims[d] for d in reversed(layout.minor_to_major))
