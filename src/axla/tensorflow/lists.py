"""Lists of tensors. A list is an array of fixed capacity (`capacity`) and the current length.

The length is known at compile time, or is an array; then the type's `length` is None. If a list is not
sealed, pushing an element enlarges its array. A list in a loop gets the capacity for all iterations and is
sealed. The elements of a list may be lists themselves: their arrays have one more dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

import axla.ops as ops
from axla.analysis.trip_count import sum_behind
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dataclass import dataclass
from axla.core.dtypes import S32
from axla.core.errors import UnsupportedError
from axla.core.shape import Shape


def shown(found: object) -> str:
    """The text of a shape or of the type of a list, for messages."""
    return found.to_string(layout=False) if isinstance(found, Shape) else str(found)


@dataclass(frozen=True, slots=True)
class ListType:
    """The type of a list. `capacity`: in elements; `element`: the type of an element, None while the
    list has none; `length`: None if it is not known at compile time; `same`: the bytes of an element, if all
    are known to be equal.
    """

    capacity: int
    element: Shape | ListType | None
    length: int | None
    sealed: bool
    same: bytes | None = None

    def __str__(self) -> str:
        length = "some" if self.length is None else self.length
        return f"a list of {length} elements ({self.element}) with capacity {self.capacity}"

    def buffers(self) -> list[Shape]:
        """The shapes of the arrays that hold the elements; their first dimension is the capacity."""
        if self.element is None:
            return []
        inner = self.element.shapes() if isinstance(self.element, ListType) else [self.element]
        return [Shape(shape.dtype, (self.capacity, *shape.dims)) for shape in inner]

    def shapes(self) -> list[Shape]:
        """The shapes of all arrays: those that hold the elements, then the length if it is an array."""
        return self.buffers() + ([Shape(S32, ())] if self.length is None else [])

    def joined(self, other: ListType) -> ListType:
        """The common type of two lists, to which `TensorList.fitted` can convert both."""
        return ListType(
            max(self.capacity, other.capacity), _joined(self.element, other.element),
            self.length if self.length == other.length else None, self.sealed and other.sealed,
            self._joined_same(other),
        )  # fmt: skip

    def _joined_same(self, other: ListType) -> bytes | None:
        if self.length == 0 or other.length == 0:
            return other.same if self.length == 0 else self.same
        return self.same if self.same == other.same else None


def _joined(one: Shape | ListType | None, other: Shape | ListType | None) -> Shape | ListType | None:
    if one is None or other is None:
        return one if other is None else other
    if isinstance(one, ListType) and isinstance(other, ListType):
        return one.joined(other)
    if one != other:
        raise UnsupportedError(f"the elements of a list have two types, {shown(one)} and {shown(other)}")
    return one


@dataclass(slots=True, eq=False)
class TensorList:
    """A list: its type, and arrays of the shapes `type.shapes()`."""

    type: ListType
    arrays: list[XlaOp]

    def rebuilt(self, arrays: Iterator[XlaOp]) -> TensorList:
        """A list of the same type, made of the next items of `arrays`."""
        return TensorList(self.type, [next(arrays) for _ in self.arrays])

    def fitted(self, builder: XlaBuilder, type_: ListType) -> TensorList:
        """The same list converted to a type that `joined` or `repeated` has returned."""
        if type_ == self.type:
            return self
        return TensorList(type_, _fitted(builder, self.arrays, self.type, type_, ()))

    def repeated(self, behind: TensorList, trips: int | None) -> ListType | None:
        """The type that this list needs in a loop of at most `trips` iterations, if the first iteration
        leaves it as `behind`. None if the type depends on an unknown number of iterations.
        """
        one, other = self.type, behind.type
        if one.sealed or one.capacity >= other.capacity:
            return replace(one.joined(other), sealed=one.sealed)
        if trips is None:
            return None
        capacity = one.capacity + trips * (other.capacity - one.capacity)
        return replace(one.joined(other), capacity=max(capacity, other.capacity), sealed=True)

    def at_end(
        self, before: TensorList, entered: TensorList, behind: TensorList, trips: int | None
    ) -> TensorList:
        """This list as the result of a loop, with a known length if possible. The list was `before` at the
        start of the loop; an iteration changes `entered` to `behind`; `trips` is the exact number of
        iterations, or None.
        """
        found = TensorList(replace(self.type, sealed=before.type.sealed), self.arrays)
        if self.type.length is not None or trips is None:
            return found
        step = sum_behind(entered.arrays[-1].instruction, behind.arrays[-1].instruction)
        if step is None:
            return found
        if before.type.length is not None:
            return found.of_length(before.type.length + trips * step)
        builder = self.arrays[-1].builder
        return found.of_length(ops.Add(before.arrays[-1], builder.constant(np.int32(trips * step))))

    def zeros(self) -> TensorList:
        """A list of the same type and length whose elements are zero."""
        if isinstance(self.type.element, ListType):
            raise UnsupportedError(f"zeros like {self.type} are not supported: its elements are lists")
        found = [_zeros(array.builder, Shape(array.dtype, array.dims), ()) for array in self.buffers()]
        return TensorList(replace(self.type, same=None), [*found, *self.arrays[len(found) :]])

    def plus(self, other: TensorList) -> TensorList:
        """The element-wise sums of two lists."""
        common = replace(self.type.joined(other.type), same=None)
        if common.element is None:
            return self
        if isinstance(common.element, ListType):
            raise UnsupportedError(f"{common} cannot be added to another: its elements are lists")
        builder = [*self.arrays, *other.arrays][0].builder
        one, two = self.fitted(builder, common), other.fitted(builder, common)
        sums = [ops.Add(a, b) for a, b in zip(one.buffers(), two.buffers(), strict=True)]
        return TensorList(common, [*sums, *one.arrays[len(sums) :]])

    # The elements.

    def sealed(self) -> TensorList:
        """The same list, marked as one that can no longer be enlarged."""
        return TensorList(replace(self.type, sealed=True), self.arrays)

    def length(self, builder: XlaBuilder) -> XlaOp:
        """The number of elements, an s32 scalar."""
        known = self.type.length
        return self.arrays[-1] if known is None else builder.constant(np.int32(known))

    def buffers(self) -> list[XlaOp]:
        """The arrays that hold the elements, without the length."""
        return self.arrays[:-1] if self.type.length is None else self.arrays

    def of_length(self, length: int | XlaOp) -> TensorList:
        """The same arrays as a list of another length."""
        if isinstance(length, int):
            return TensorList(replace(self.type, length=length), self.buffers())
        return TensorList(replace(self.type, length=None), [*self.buffers(), length])

    def at(self, builder: XlaBuilder, index: int | XlaOp) -> XlaOp | TensorList:
        """The element at `index`; the type of the elements must be known."""
        same, element = self.type.same, self.type.element
        if same is not None and isinstance(element, Shape):
            return builder.constant(np.frombuffer(same, element.dtype.numpy).reshape(element.dims))
        found = [
            ops.Reshape(ops.DynamicSliceInDim(buffer, index, 1, 0), buffer.dims[1:])
            for buffer in self.buffers()
        ]
        return TensorList(element, found) if isinstance(element, ListType) else found[0]

    def with_at(self, builder: XlaBuilder, index: int | XlaOp, value: XlaOp | TensorList) -> TensorList:
        """The list with `value` as the element at `index`."""
        element = value.type if isinstance(value, TensorList) else Shape(value.dtype, value.dims)
        fitted = self.fitted(builder, replace(self.type, element=_joined(self.type.element, element)))
        kind = fitted.type.element
        if isinstance(value, TensorList) and isinstance(kind, ListType):
            value = value.fitted(builder, kind)
        found = []
        parts = value.arrays if isinstance(value, TensorList) else [value]
        for buffer, part in zip(fitted.buffers(), parts, strict=True):
            row = ops.Reshape(part, (1, *part.dims))
            found.append(ops.DynamicUpdateSlice(buffer, row, [index, *[0] * len(part.dims)]))
        return TensorList(replace(fitted.type, same=None), [*found, *fitted.arrays[len(found) :]])

    def all_same(self, same: bytes | None) -> TensorList:
        """The list, marked as one whose elements all have the bytes `same`, or may differ for None."""
        return TensorList(replace(self.type, same=same), self.arrays)

    def with_capacity(self, builder: XlaBuilder, capacity: int) -> TensorList:
        """The list with a capacity of at least `capacity` elements."""
        return self.fitted(builder, replace(self.type, capacity=max(capacity, self.type.capacity)))


def empty(builder: XlaBuilder, type_: ListType) -> TensorList:
    """A list of the type `type_` whose elements are zero."""
    bare = replace(type_, element=None)
    return TensorList(bare, [_zeros(builder, shape, ()) for shape in bare.shapes()]).fitted(builder, type_)


def _zeros(builder: XlaBuilder, shape: Shape, batch: Sequence[int]) -> XlaOp:
    return ops.Broadcast(ops.Zero(builder, shape.dtype), (*batch, *shape.dims))


def _fitted(
    builder: XlaBuilder, arrays: Sequence[XlaOp], old: ListType, new: ListType, batch: tuple[int, ...]
) -> list[XlaOp]:
    """Converts the arrays of a list from the type `old` to the type `new`. `batch` has the sizes of their
    leading dimensions, which are those of the lists that contain this list.
    """
    buffers = list(arrays[: len(old.buffers())])
    if old.element is None:
        found = [_zeros(builder, shape, batch) for shape in new.buffers()]
    else:
        if isinstance(old.element, ListType) and isinstance(new.element, ListType):
            buffers = _fitted(builder, buffers, old.element, new.element, (*batch, old.capacity))
        found = [_padded(buffer, len(batch), new.capacity) for buffer in buffers]
    if new.length is not None:
        return found
    known = old.length
    if known is None:
        return [*found, arrays[-1]]
    return [*found, ops.Broadcast(builder.constant(np.int32(known)), batch)]


def _padded(value: XlaOp, dim: int, size: int) -> XlaOp:
    """An array padded with zeros at the end of a dimension, or cut there, to the size `size`."""
    missing = size - value.dims[dim]
    return ops.PadInDim(value, ops.Zero(value.builder, value.dtype), dim, 0, missing) if missing else value
