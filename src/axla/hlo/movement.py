"""Ops that move elements without arithmetic: result[i] = operand[source(i)].

`source(index, operand)` maps an index of the result to an index of the operand, whose shape is given. It uses
only `+ - * // %` with integer constants, so that it works on Python integers, on NumPy arrays of indices and
on values of emitted code.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from axla.core.dtypes import BF16, F32, F64, PRED, S8, S32
from axla.core.errors import UnsupportedError
from axla.core.shape import AnyShape, Shape, strides
from axla.hlo.family import Same, are_different, arrays, show
from axla.ir.op import Op, attr, example, op

SMALL = 64
"""The highest number of elements for which the broadcast of a scalar is a new array; a larger result is a
view.
"""


@op("broadcast", operands="operand", moves=True, free=True)
class Broadcast(Op):
    """Repeats the operand along new dimensions.

    Dimension k of the operand becomes dimension `dimensions[k]` of the result and must have the same size;
    along the other dimensions the operand is repeated. If `dimensions` is not ascending, the operand is
    transposed as well.
    """

    shape: Shape
    dimensions: tuple[int, ...] = attr(always=True, default=())

    def infer(self, operand: AnyShape) -> Shape:
        """Returns the declared shape, which must have the operand's sizes in the dimensions `dimensions`."""
        (source,) = arrays(self, operand)
        shape, dimensions = self.shape, self.dimensions
        if source.dtype is not shape.dtype:
            self.reject("c1", f"{show(source)} cannot become {show(shape)}: element types differ")
        if len(dimensions) != source.rank:
            message = f"dimensions={dimensions} must have an entry for each dimension of {show(source)}"
            self.reject("c2", message)
        if not are_different(dimensions, shape.rank):
            self.reject("c3", f"dimensions={dimensions} are not different dimensions of {show(shape)}")
        for at, size in zip(dimensions, source.dims, strict=True):
            if shape.dims[at] != size:
                message = f"dimension {at} of {show(shape)} must have the size {size} of {show(source)}"
                self.reject("c4", message)
        return shape

    def source(self, index: Sequence[Any], operand: Shape) -> tuple[Any, ...]:
        """Index k of the operand is index `dimensions[k]` of the result."""
        return tuple(index[d] for d in self.dimensions)

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """Returns a view with repeated elements. Dimensions of the operand keep their actual sizes, which may
        be below their bounds.
        """
        if not operand.ndim and self.shape.size <= SMALL:
            return np.full(self.shape.dims, operand)  # faster than a view
        # The operand's own sizes: a dynamic dimension may be shorter than its bound.
        order = sorted(range(operand.ndim), key=self.dimensions.__getitem__)
        sizes, expanded = list(self.shape.dims), [1] * self.shape.rank
        for k in order:
            sizes[self.dimensions[k]] = expanded[self.dimensions[k]] = operand.shape[k]
        return np.broadcast_to(operand.transpose(order).reshape(expanded), sizes)

    examples = [
        example(Shape(F32), shape=Shape(F32, (2, 3)), dimensions=()),
        example(Shape(S32, (4, 3)), shape=Shape(S32, (4, 2, 3)), dimensions=(0, 2)),
        example(Shape(F32, (2, 3)), shape=Shape(F32, (3, 2)), dimensions=(1, 0)),
        example(Shape(PRED), shape=Shape(PRED), dimensions=()),
    ]


def regroup(
    from_dims: Sequence[int], to_dims: Sequence[int]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Divides the dimensions of two shapes with equal numbers of elements into the smallest groups of
    consecutive dimensions with equal products: pairs of dimension numbers (in `from_dims`, in `to_dims`).

    Dimensions of size 1 are in no group; their index is 0.
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


def carried_sizes(source: Shape, result: Shape, inferred: int = -1) -> dict[int, tuple[list[int], int]]:
    """For each dynamic dimension of a reshape's result whose size depends on dynamic dimensions of the
    source: the source dimensions whose sizes are multiplied, and the number by which their product is
    divided, rounding up. The other dimensions of the result have the size of their bound.

    A dynamic dimension of bound 1 corresponds to a result dimension of bound 1; if there is none, its size
    becomes a factor of the first dynamic dimension. If a size could belong to two dimensions, `inferred`
    selects one of them; UnsupportedError if it does not.
    """
    found: dict[int, tuple[list[int], int]] = {}
    apart = [d for d, dynamic in enumerate(source.dynamic) if dynamic]
    runs = regroup(source.dims, result.dims) if source.size else []
    if source.dims == result.dims:
        runs = [((d,), (d,)) for d in range(source.rank)]
    for first, second in runs:
        taking = [d for d in second if result.dynamic[d]]
        if len(taking) > 1 and inferred in taking:
            taking = [inferred]
        if len(taking) > 1 and any(d in apart for d in first):
            raise UnsupportedError(
                f"reshape of {show(source)} to {show(result)}: the dynamic size may be that of any of the "
                f"dimensions {taking}; set inferred_dimension"
            )
        apart = [d for d in apart if d not in first]
        if len(taking) == 1:
            found[taking[0]] = ([*first], prod(result.dims[d] for d in second if d != taking[0]))
    ones = [d for d, n in enumerate(result.dims) if n == 1 and result.dynamic[d] and d not in found]
    for d in apart:
        if ones:
            found[ones.pop(0)] = ([d], 1)
        elif found:
            next(iter(found.values()))[0].append(d)
    return {at: (dims, rest) for at, (dims, rest) in found.items() if any(source.dynamic[d] for d in dims)}


def refilled(array: np.ndarray, dims: Sequence[int]) -> np.ndarray:
    """An array of sizes `dims` that begins with the elements of `array`, both in row-major order; elements
    that are missing are 0, and surplus ones are dropped.
    """
    found = np.zeros(prod(dims), array.dtype)
    count = min(array.size, found.size)
    found[:count] = array.reshape(-1)[:count]
    return found.reshape(dims)


@op("reshape", operands="operand", moves=True, passes_on=True, keeps_order=True, free=True)
class Reshape(Op):
    """Rearranges the elements, in row-major order, into other dimensions with the same product.

    `inferred_dimension` is the result dimension that takes the remaining size if several dynamic dimensions
    could. A result of static size begins with the elements that exist; those after them are undefined.
    """

    shape: Shape
    inferred_dimension: int = attr(default=-1, proto="dimensions")

    def infer(self, operand: AnyShape) -> Shape:
        """Returns the declared shape, which must have the operand's dtype and number of elements."""
        (source,) = arrays(self, operand)
        if source.dtype is not self.shape.dtype:
            self.reject("c1", f"{show(source)} cannot become {show(self.shape)}: element types differ")
        if source.size != self.shape.size:
            message = f"{show(source)} has {source.size} elements, {show(self.shape)} has {self.shape.size}"
            self.reject("c2", message)
        return self.shape

    def source(self, index: Sequence[Any], operand: Shape) -> tuple[Any, ...]:
        """The index of the operand with the same row-major position."""
        if not operand.size:
            return tuple(0 for _ in operand.dims)  # an empty array has no index
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
        """Returns the elements in the declared dims."""
        return operand.reshape(self.shape.dims)

    examples = [
        example(Shape(F32, (2, 3)), shape=Shape(F32, (6,))),
        example(Shape(F32, (6,)), shape=Shape(F32, (3, 2))),
        example(Shape(F32, (4, 6)), shape=Shape(F32, (2, 12))),
        example(Shape(F32, (2, 1, 3)), shape=Shape(F32, (1, 6))),
        example(Shape(F32), shape=Shape(F32, (1, 1))),
        example(Shape(F32, (2, 3, 5)), shape=Shape(F32, (6, 5))),
        example(Shape(F32, (0, 3)), shape=Shape(F32, (0,))),
    ]


@op("dynamic-reshape", operands="operand *sizes")
class DynamicReshape(Op):
    """Rearranges the elements of an array, in row-major order, into dimensions whose sizes are operands.

    There is one size, an s32 scalar, for each dimension of the result, whose declared dims are the bounds.
    The product of the sizes must be the actual number of elements.
    """

    shape: Shape

    def infer(self, operand: AnyShape, *sizes: AnyShape) -> Shape:
        """Returns the declared shape. There must be one size s32[] for each of its dimensions. If no
        dimension of operand and result is dynamic, the numbers of elements must be equal.
        """
        (source,) = arrays(self, operand)
        if source.dtype is not self.shape.dtype:
            self.reject("c1", f"{show(source)} cannot become {show(self.shape)}: element types differ")
        if len(sizes) != self.shape.rank or any(s.logical is not Shape(S32) for s in sizes):
            self.reject("c2", f"{self.shape.rank} sizes s32[] are wanted, found {show(sizes)}")
        if source.size != self.shape.size and not source.is_dynamic and not self.shape.is_dynamic:
            message = f"{show(source)} has {source.size} elements, {show(self.shape)} has {self.shape.size}"
            self.reject("c3", message)
        return self.shape

    def evaluate(self, operand: np.ndarray, *sizes: np.ndarray) -> np.ndarray:
        """Returns the elements in dims of the actual sizes, each clamped to its bound."""
        bounds = zip(sizes, self.shape.dims, self.shape.dynamic, strict=True)
        return refilled(operand, [max(0, min(int(s), n)) if dynamic else n for s, n, dynamic in bounds])

    examples = [example(Shape(F32, (6,)), Shape(S32), Shape(S32), shape=Shape(F32, (3, 2)))]


@op("transpose", operands="operand", moves=True)
class Transpose(Op):
    """Permutes dimensions: dimension k of the result is dimension `dimensions[k]` of the operand."""

    dimensions: tuple[int, ...]

    def infer(self, operand: AnyShape) -> Shape:
        """Returns the operand's dims in the order of `dimensions`, which must be a permutation."""
        (source,) = arrays(self, operand)
        if sorted(self.dimensions) != list(range(source.rank)):
            wanted = f"the {source.rank} dimensions of {show(source)}"
            self.reject("c1", f"dimensions={self.dimensions} is not a permutation of {wanted}")
        return source.with_dims(
            [source.dims[d] for d in self.dimensions], [source.dynamic[d] for d in self.dimensions]
        )

    def source(self, index: Sequence[Any], operand: Shape) -> tuple[Any, ...]:
        """Index `dimensions[k]` of the operand is index k of the result."""
        return tuple(index[self.dimensions.index(d)] for d in range(len(self.dimensions)))

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """Returns a view with permuted dimensions."""
        return operand.transpose(self.dimensions)

    examples = [
        example(Shape(F32, (2, 3)), dimensions=(1, 0)),
        example(Shape(BF16, (2, 3, 4)), dimensions=(2, 0, 1)),
        example(Shape(F32), dimensions=()),
    ]


@op("reverse", operands="operand", moves=True)
class Reverse(Op):
    """The operand with its elements reversed along `dimensions`."""

    dimensions: tuple[int, ...]

    def infer(self, operand: AnyShape) -> Shape:
        """Returns the operand's shape; `dimensions` must be distinct dimensions of the operand."""
        (source,) = arrays(self, operand)
        if not are_different(self.dimensions, source.rank):
            self.reject("c1", f"dimensions={self.dimensions} are not different dimensions of {show(source)}")
        return source.logical

    def source(self, index: Sequence[Any], operand: Shape) -> tuple[Any, ...]:
        """In reversed dimensions, the index is counted from the end."""
        return tuple((operand.dims[d] - 1) - i if d in self.dimensions else i for d, i in enumerate(index))

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """Returns a view with reversed dimensions."""
        return np.flip(operand, self.dimensions)

    examples = [
        example(Shape(F32, (5,)), dimensions=(0,)),
        example(Shape(S8, (2, 3, 4)), dimensions=(0, 2)),
        example(Shape(F32, (2,)), dimensions=()),
    ]


@op("iota", free=True, in_line=True)
class Iota(Op):
    """An array in which each element is its own index along `iota_dimension`.

    For a floating-point type it is the number nearest to the index; for a narrow integer type it wraps.
    """

    shape: Shape
    iota_dimension: int = attr(always=True, proto="dimensions")

    def infer(self) -> Shape:
        """Returns the declared shape, which must have `iota_dimension` and a numeric element type."""
        if self.shape.rank and not 0 <= self.iota_dimension < self.shape.rank or not self.shape.rank:
            message = f"iota_dimension={self.iota_dimension} is not a dimension of {show(self.shape)}"
            self.reject("c1", message)
        if self.shape.dtype.is_pred:
            self.reject("c2", f"a numeric element type is wanted, found {show(self.shape)}")
        return self.shape

    def evaluate(self) -> np.ndarray:
        """Counts from 0 along the dimension; the numbers are converted to the dtype."""
        dims, at = self.shape.dims, self.iota_dimension
        if not self.shape.size:
            return np.zeros(dims, self.shape.dtype.numpy)
        line = np.arange(dims[at]).astype(self.shape.dtype.numpy)
        return np.broadcast_to(line.reshape([-1 if d == at else 1 for d in range(len(dims))]), dims)

    examples = [
        example(shape=Shape(S32, (5,)), iota_dimension=0),
        example(shape=Shape(F32, (2, 3)), iota_dimension=1),
        example(shape=Shape(S8, (3, 2)), iota_dimension=0),
    ]


@op("copy", operands="operand", keeps_order=True)
class Copy(Same):
    """A copy of the operand in memory of its own, possibly with another layout."""

    def source(self, index: Sequence[Any], operand: Shape) -> tuple[Any, ...]:
        """Returns the index unchanged."""
        return tuple(index)

    examples = [example(Shape(F32, (2, 3))), example(Shape(F64))]
