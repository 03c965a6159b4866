"""Shapes of arrays, tuples, tokens and buffers. They are immutable, and equal shapes are one object: compare
with `is`.

    Shape(F32, (2, 3))                  f32[2,3]{1,0}
    TupleShape((a, b))                  (f32[2,3]{1,0}, s32[])
    TOKEN, OPAQUE                       token[], opaque[]
    BufferShape(a)                      b(f32[2,3]{1,0})
An array shape always has a layout. `shape.logical` is the shape with the default layout (in a tuple, for
every leaf). So `a.logical is b.logical` tests whether element types, sizes and dynamic bounds are equal.

A size may be unknown and unbounded, as in `f32[?,4]`. Such shapes can be read and printed, but not compiled.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from itertools import accumulate
from math import prod
from operator import index
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.dtypes import DType
from axla.core.errors import ShapeError, UnsupportedError

UNBOUNDED = -(1 << 63)
"""The size of a dynamic dimension without a bound, in memory and in XLA's protos; `?` in texts."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The memory layout of an array: its dimensions from minor (fastest varying) to major, tiles, padding,
    memory space.
    """

    minor_to_major: tuple[int, ...]
    tiles: tuple[tuple[int | None, ...], ...] = ()  # None is a combined dimension, printed as *
    element_bits: int = 0
    memory_space: int = 0
    tail_padding: int = 1
    dim_types: tuple[str, ...] = ()
    index_type: str = ""
    pointer_type: str = ""
    split_configs: tuple[tuple[int, tuple[int, ...]], ...] = ()
    physical_shape: str = ""
    metadata_prefix: int = 0

    @property
    def is_descending(self) -> bool:
        """Whether the dimensions are in row-major order, the last one varying fastest. Tiles and other fields
        are ignored.
        """
        return self.minor_to_major == tuple(range(len(self.minor_to_major) - 1, -1, -1))

    @property
    def is_default(self) -> bool:
        """Whether the layout is row-major and has no tiles, padding or other fields."""
        default = default_layout(len(self.minor_to_major))
        return self is default or self == default

    def __str__(self) -> str:
        return "{" + ",".join(map(str, self.minor_to_major)) + self._suffix() + "}"

    def _suffix(self) -> str:
        parts = []
        for key, name in LAYOUT_KEYS.items():
            value = getattr(self, name)
            if value == getattr(_PLAIN, name):
                continue
            if key == "T":
                tiles = (",".join("*" if d is None else str(d) for d in tile) for tile in value)
                parts.append("T" + "".join(f"({tile})" for tile in tiles))
            elif key == "SC":
                parts.append("SC" + "".join(f"({d}:{','.join(map(str, at))})" for d, at in value))
            else:
                parts.append(f"{key}({','.join(value) if key == 'D' else value})")
        return ":" + "".join(parts) if parts else ""


_PLAIN = Layout(())
LAYOUT_KEYS = {
    "D": "dim_types", "T": "tiles", "L": "tail_padding", "#": "index_type", "*": "pointer_type",
    "E": "element_bits", "S": "memory_space", "SC": "split_configs", "P": "physical_shape",
    "M": "metadata_prefix",
}  # fmt: skip
"""The fields of a layout by the letters that introduce them in its text. They follow the dimensions in this
order.
"""

_DEFAULT_LAYOUTS: dict[int, Layout] = {}


def default_layout(rank: int) -> Layout:
    """The row-major layout {rank-1,...,0}."""
    found = _DEFAULT_LAYOUTS.get(rank)
    if found is None:
        found = _DEFAULT_LAYOUTS.setdefault(rank, Layout(tuple(range(rank - 1, -1, -1))))
    return found


_INTERNED: weakref.WeakValueDictionary[tuple, Any] = weakref.WeakValueDictionary()


class AnyShape:
    """The base class of all kinds of shapes."""

    __slots__ = ("__weakref__",)

    is_array = False
    is_tuple = False
    is_token = False
    is_opaque = False
    is_unbounded = False  # whether a dimension has an unknown, unbounded size
    leaf_count = 1  # a shape that is not a tuple is its own only leaf

    # Arrays have these attributes, and tuples have `elements`; reading another one raises AttributeError.
    # They are declared here, in the base class, since most code works on arrays: the verifier checks operands
    # when an instruction is made.
    dtype: DType
    dims: tuple[int, ...]
    dynamic: tuple[bool, ...]
    layout: Layout
    rank: int
    size: int
    byte_size: int
    elements: tuple[AnyShape, ...]

    @property
    def logical(self) -> AnyShape:
        """The shape with row-major layouts, for comparisons."""
        return self

    def leaves(self) -> Iterator[AnyShape]:
        """Yields the shapes inside a tuple shape that are not tuples, depth first; for other shapes, the
        shape itself.
        """
        yield self

    def arrays(self) -> Iterator[Shape]:
        """Yields the array shapes among the leaves."""
        return (leaf for leaf in self.leaves() if isinstance(leaf, Shape))

    @property
    def array_bytes(self) -> int:
        """The total bytes of all arrays in the shape."""
        return sum(shape.byte_size for shape in self.arrays())

    @property
    def parts(self) -> tuple[AnyShape, ...]:
        """The elements of a tuple shape; for other shapes, a tuple of the shape itself."""
        return self.elements if self.is_tuple else (self,)

    def to_string(self, *, layout: bool = True) -> str:
        """The HLO text of the shape."""
        raise AssertionError

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return self.to_string()


class Shape(AnyShape):
    """The shape of an array: element type, sizes of the dimensions, which of them are dynamic (sizes are then
    upper bounds), and layout.
    """

    __slots__ = ("dtype", "dims", "dynamic", "layout", "is_unbounded", "_logical")

    dtype: DType
    dims: tuple[int, ...]
    dynamic: tuple[bool, ...]
    layout: Layout
    is_array = True

    def __new__(
        cls,
        dtype: DType,
        dims: Sequence[int] = (),
        dynamic: Sequence[bool] = (),
        layout: Layout | None = None,
    ) -> Shape:
        """Returns the one object of this shape: equal shapes are identical. Raises ShapeError for sizes that
        are not integers of at least 0, or a layout that does not fit the rank.
        """
        try:
            dims = tuple(dims)
        except TypeError:
            raise ShapeError(f"{dtype}: found {dims!r} as the sizes, wanted a sequence of integers") from None
        dynamic = tuple(dynamic) if any(dynamic) else ()
        if layout is None:
            layout = default_layout(len(dims))
        key = (dtype, dims, dynamic, layout)
        found = _INTERNED.get(key)
        if found is not None:
            return found
        _check(dtype, dims, dynamic, layout)
        dims = tuple(map(index, dims))  # as Python ints, since NumPy's can overflow
        is_unbounded = UNBOUNDED in dims
        if is_unbounded:
            marks = tuple(d == UNBOUNDED or n < len(dynamic) and dynamic[n] for n, d in enumerate(dims))
            if marks != dynamic:  # dimensions of unknown size are dynamic
                return Shape(dtype, dims, marks, layout)
        self = object.__new__(cls)
        self.is_unbounded = is_unbounded
        self.dtype = dtype
        self.dims = dims
        self.dynamic = dynamic or (False,) * len(dims)
        self.layout = layout
        self._logical = self if layout.is_default else Shape(dtype, dims, dynamic)
        return _INTERNED.setdefault(key, self)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def true_rank(self) -> int:
        """The number of dimensions whose size is greater than 1 or unknown."""
        return sum(1 for d in self.dims if d > 1 or d == UNBOUNDED)

    @property
    def size(self) -> int:
        """The number of elements. For dynamic dimensions their bounds count."""
        if self.is_unbounded:
            raise UnsupportedError(f"{self.to_string(layout=False)}: the number of elements is not known")
        return prod(self.dims)

    @property
    def byte_size(self) -> int:
        """The number of bytes in memory, without padding. An element narrower than a byte takes one byte."""
        return self.size * self.dtype.itemsize

    @property
    def is_scalar(self) -> bool:
        """Whether the rank is 0."""
        return not self.dims

    @property
    def is_dynamic(self) -> bool:
        """Whether any dimension is dynamic: its size is only bounded, or unknown."""
        return any(self.dynamic)

    @property
    def logical(self) -> Shape:
        """The same shape with a row-major layout."""
        return self._logical

    def admits(self, dims: Sequence[int]) -> bool:
        """Whether an array of sizes `dims` can have this shape. The size of a dynamic dimension may be less
        than its bound.
        """
        if len(dims) != self.rank:
            return False
        bounds = zip(dims, self.dims, self.dynamic, strict=True)
        return all(n <= bound if dynamic else n == bound for n, bound, dynamic in bounds)

    def with_dims(self, dims: Sequence[int], dynamic: Sequence[bool] = ()) -> Shape:
        """A shape of the same element type with the sizes `dims`, in the default layout; `dynamic` says which
        dimensions are dynamic.
        """
        return Shape(self.dtype, dims, dynamic)

    def with_dtype(self, dtype: DType) -> Shape:
        """A shape of another element type with the same sizes and order of dimensions."""
        layout = self.layout
        if layout.element_bits:
            layout = replace(layout, element_bits=dtype.bits if dtype.bits < 8 else 0)
        return Shape(dtype, self.dims, self.dynamic, layout)

    def with_layout(self, layout: Layout | None) -> Shape:
        """Returns the shape with another layout; None means row-major."""
        return Shape(self.dtype, self.dims, self.dynamic, layout)

    def to_string(self, *, layout: bool = True) -> str:
        """The HLO text of the shape, such as `f32[2,<=3]{1,0}`."""
        bounds = zip(self.dims, self.dynamic, strict=True)
        sizes = ",".join(("?" if d == UNBOUNDED else f"<={d}") if dyn else str(d) for d, dyn in bounds)
        text = f"{self.dtype.name}[{sizes}]"
        if layout and (self.dims or not self.layout.is_default):
            text += str(self.layout)
        return text

    def __reduce__(self):
        return (Shape, (self.dtype, self.dims, self.dynamic, self.layout))


def _check(dtype: DType, dims: tuple[int, ...], dynamic: tuple[bool, ...], layout: Layout) -> None:
    if not isinstance(dtype, DType):
        raise ShapeError(f"an array shape needs an element type of axla.core.dtypes, found {dtype!r}")
    for d in dims:
        if not hasattr(d, "__index__") or isinstance(d, bool):
            raise ShapeError(f"{dtype}: found {d!r} as a size, wanted an integer")
        if d < 0 and d != UNBOUNDED:
            raise ShapeError(f"{dtype}{list(dims)}: a dimension has size {d}; sizes are at least 0")
    if dynamic and len(dynamic) != len(dims):
        raise ShapeError(f"{dtype}{list(dims)}: dynamic has {len(dynamic)} entries, wanted {len(dims)}")
    if any(size is not None and size < 1 for tile in layout.tiles for size in tile):
        raise ShapeError(f"{dtype}{list(dims)}: layout {layout} has a tile that is not positive")
    if sorted(layout.minor_to_major) != list(range(len(dims))):
        raise ShapeError(
            f"{dtype}{list(dims)}: layout {layout} is not a permutation of the dimensions 0..{len(dims) - 1}"
        )


MAX_LEAVES, MAX_DEPTH = 1 << 16, 100
"""Limits of a tuple shape. Each tuple that holds one value twice doubles the number of leaves: nested ones
could make a shape too large for memory in a short program.
"""


class TupleShape(AnyShape):
    """The shape of a tuple. Its elements are shapes, which may be tuple shapes."""

    __slots__ = ("elements", "leaf_starts", "leaf_count", "depth", "is_unbounded", "_logical")

    elements: tuple[AnyShape, ...]
    leaf_starts: tuple[int, ...]  # for each element, the number of its first leaf
    leaf_count: int
    depth: int
    is_tuple = True

    def __new__(cls, elements: Sequence[AnyShape] = ()) -> TupleShape:
        """Returns the one object of this shape; ShapeError for too many leaves or levels of nesting."""
        elements = tuple(elements)
        key = (cls, elements)
        found = _INTERNED.get(key)
        if found is not None:
            return found
        self = object.__new__(cls)
        self.elements = elements
        counts = (e.leaf_count for e in elements)
        *starts, self.leaf_count = accumulate(counts, initial=0)
        self.leaf_starts = tuple(starts)
        self.is_unbounded = any(e.is_unbounded for e in elements)
        self.depth = 1 + max((e.depth for e in elements if isinstance(e, TupleShape)), default=0)
        if self.leaf_count > MAX_LEAVES or self.depth > MAX_DEPTH:
            found = f"{self.leaf_count} leaves and {self.depth} levels"
            message = f"a tuple shape has at most {MAX_LEAVES} leaves and {MAX_DEPTH} levels, found {found}"
            raise ShapeError(message)
        logical = tuple(e.logical for e in elements)
        same = all(a is b for a, b in zip(logical, elements, strict=True))
        self._logical = None if same else TupleShape(logical)
        return _INTERNED.setdefault(key, self)

    @property
    def logical(self) -> TupleShape:
        """The tuple of the logical shapes of the elements."""
        return self._logical or self

    def leaves(self) -> Iterator[AnyShape]:
        """Yields the shapes inside that are not tuples, depth first."""
        stack = list(reversed(self.elements))
        while stack:
            shape = stack.pop()
            if isinstance(shape, TupleShape):
                stack.extend(reversed(shape.elements))
            else:
                yield shape

    def to_string(self, *, layout: bool = True) -> str:
        """The HLO text of the shape, such as `(f32[2], s32[])`. Every fifth element has a comment with its
        index.
        """
        # XLA marks every fifth element so.
        parts = [
            (f"/*index={i}*/" if i and i % 5 == 0 else "") + e.to_string(layout=layout)
            for i, e in enumerate(self.elements)
        ]
        return "(" + ", ".join(parts) + ")"

    def __reduce__(self):
        return (TupleShape, (self.elements,))


class TokenShape(AnyShape):
    """The shape of a token: a value without data that only orders ops."""

    __slots__ = ()
    is_token = True

    def to_string(self, *, layout: bool = True) -> str:
        """The HLO text: `token[]`."""
        return "token[]"

    def __reduce__(self):
        return "TOKEN"


class OpaqueShape(AnyShape):
    """The shape of a value that only a custom call understands."""

    __slots__ = ()
    is_opaque = True

    def to_string(self, *, layout: bool = True) -> str:
        """The HLO text: `opaque[]`."""
        return "opaque[]"

    def __reduce__(self):
        return "OPAQUE"


class BufferShape(AnyShape):
    """The shape of a buffer: memory that holds an array, and that custom calls write in place."""

    __slots__ = ("array", "is_unbounded", "_logical")

    array: Shape

    def __new__(cls, array: Shape) -> BufferShape:
        """Returns the one object of this shape; equal shapes are identical."""
        key = (cls, array)
        found = _INTERNED.get(key)
        if found is not None:
            return found
        self = object.__new__(cls)
        self.array = array
        self.is_unbounded = array.is_unbounded
        self._logical = self if array.logical is array else BufferShape(array.logical)
        return _INTERNED.setdefault(key, self)

    @property
    def logical(self) -> BufferShape:
        """The buffer of an array with a row-major layout."""
        return self._logical

    def to_string(self, *, layout: bool = True) -> str:
        """The HLO text: `b(f32[2])`."""
        return f"b({self.array.to_string(layout=layout)})"

    def __reduce__(self):
        return (BufferShape, (self.array,))


TOKEN = TokenShape()
OPAQUE = OpaqueShape()


@dataclass(frozen=True, slots=True)
class ProgramShape:
    """The shapes of the parameters and of the result of a computation, and the parameters' names."""

    parameters: tuple[AnyShape, ...]
    result: AnyShape
    names: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        names = self.names or tuple(f"p{i}" for i in range(len(self.parameters)))
        named = zip(names, self.parameters, strict=True)
        listed = ", ".join(f"{n}: {s.to_string(layout=False)}" for n, s in named)
        return f"({listed}) -> {self.result.to_string(layout=False)}"


def show(shapes: Sequence[AnyShape] | AnyShape) -> str:
    """The text of one or more shapes for messages, without layouts."""
    if isinstance(shapes, AnyShape):
        return shapes.to_string(layout=False)
    return "(" + ", ".join(s.to_string(layout=False) for s in shapes) + ")"


def array(shape: AnyShape, what: str = "operand") -> Shape:
    """Returns `shape` if it is an array shape; ShapeError if not. `what` names the value in the message."""
    if not isinstance(shape, Shape):
        raise ShapeError(f"{what} must be an array, found {shape.to_string(layout=False)}")
    return shape


def strides(dims: Sequence[int]) -> tuple[int, ...]:
    """The row-major strides of an array of sizes `dims`, counted in elements."""
    result = [1] * len(dims)
    for i in range(len(dims) - 2, -1, -1):
        result[i] = result[i + 1] * dims[i + 1]
    return tuple(result)
