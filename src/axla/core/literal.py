"""Literals: the values of constants. The literal of an array holds a row-major NumPy array that is
read-only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from math import prod
from typing import NoReturn

import numpy as np

from axla.core.dtypes import DType, from_numpy
from axla.core.errors import ShapeError, UnsupportedError
from axla.core.shape import TOKEN, AnyShape, Shape, TupleShape

SAMPLE = 256
"""The number of elements on which the hash of a large array depends; it may depend on up to twice as many."""

LINE = 64
"""The bytes of a cache line."""


class Literal:
    """The value of a constant: its `shape`, and `array` (a read-only NumPy array) or, for a tuple,
    `elements`. A token has neither.

    Equality compares bits, so NaN equals the same NaN and 0.0 differs from -0.0.
    """

    __slots__ = ("shape", "array", "elements", "_hash", "_digest")

    shape: AnyShape
    array: np.ndarray
    elements: tuple[Literal, ...]

    def __init__(self, shape: AnyShape, array: np.ndarray | None = None, elements: Sequence[Literal] = ()):
        self.shape = shape
        self.elements = tuple(elements)
        self._hash: int | None = None
        self._digest: str | None = None
        if isinstance(shape, Shape):
            if array is None:
                raise ShapeError(f"a literal of {shape} needs an array")
            if array.shape != shape.dims or array.dtype != shape.dtype.numpy:
                raise ShapeError(f"literal of {shape}: found an array {array.dtype}{list(array.shape)}")
            if array.flags.writeable or not array.flags.c_contiguous:
                array = np.array(array, order="C")
                array.flags.writeable = False
            self.array = array
        else:
            self.array = _NO_ARRAY

    @classmethod
    def of(cls, value: object, dtype: DType | None = None) -> Literal:
        """Makes a literal of a NumPy array or any value that NumPy converts to one. Tuples become tuple
        literals. Writable memory is copied.
        """
        if isinstance(value, Literal):
            return value
        if isinstance(value, tuple):
            parts = [cls.of(v) for v in value]
            return cls(TupleShape([p.shape for p in parts]), elements=parts)
        array = np.asarray(value, None if dtype is None else dtype.numpy)
        return cls(Shape(from_numpy(array.dtype), array.shape), unwritable(array))

    @classmethod
    def scalar(cls, dtype: DType, value: object) -> Literal:
        """Makes a literal of rank 0. The value is cast to the dtype."""
        return cls(Shape(dtype), np.asarray(value).astype(dtype.numpy))

    @classmethod
    def full(cls, shape: Shape, value: object) -> Literal:
        """Makes an array literal in which every element is `value`, cast to the dtype."""
        return cls(shape, np.full(shape.dims, np.asarray(value).astype(shape.dtype.numpy)))

    @classmethod
    def token(cls) -> Literal:
        """Returns the literal of a token."""
        return cls(TOKEN)

    @property
    def values(self) -> np.ndarray:
        """The elements as an array of the literal's sizes. Their order in memory may differ from
        row-major.
        """
        return self.array

    def leaves(self) -> Iterator[Literal]:
        """Yields the array and token literals inside a tuple literal, depth first; for others, the literal
        itself.
        """
        if not self.shape.is_tuple:
            yield self
            return
        stack = list(reversed(self.elements))
        while stack:
            literal = stack.pop()
            if literal.shape.is_tuple:
                stack.extend(reversed(literal.elements))
            else:
                yield literal

    def item(self) -> object:
        """The Python value of the only element of an array literal."""
        return self.array.reshape(()).item() if self.array.dtype.kind != "V" else self.array.reshape(())[()]

    def is_uniform(self) -> bool:
        """Whether all elements have the same bits; False if there are no elements."""
        if not isinstance(self.shape, Shape) or self.array.size == 0:
            return False
        raw = np.ascontiguousarray(self.array).reshape(-1).view(np.uint8).reshape(self.array.size, -1)
        return bool((raw[:64] == raw[0]).all() and (raw == raw[0]).all())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Literal) or self.shape is not other.shape or hash(self) != hash(other):
            return False
        return self.elements == other.elements and np.array_equal(_raw(self.array), _raw(other.array))

    def __hash__(self) -> int:
        """Depends only on a sample of the elements of a large array, since large arrays that differ do so
        nearly everywhere.
        """
        if self._hash is None:
            values = self.values
            seen = values.flat[:: values.size // SAMPLE | 1 if values.size > SAMPLE else 1]
            self._hash = hash((self.shape, seen.tobytes(), self.elements))
        return self._hash

    @property
    def digest(self) -> str:
        """The digest of the bytes of the array, as `digest_of` computes it."""
        if self._digest is None:
            self._digest = digest_of(_raw(self.array).data)
        return self._digest

    def __repr__(self) -> str:
        return f"Literal({self.shape}, {self.array if self.shape.is_array else self.elements})"


class MovedLiteral(Literal):
    """A constant whose elements are in another order in memory, such as those of a transposed array. They are
    put in order when they are stored (`constants_memory`) or when `array` is read.

    If `lent`, the memory may be overwritten after compilation; the elements must be copied or moved out of it
    before.
    """

    __slots__ = ("lent", "_values", "_ordered")

    def __init__(self, shape: Shape, values: np.ndarray, *, lent: bool = False) -> None:
        self.shape = shape
        self._hash = self._digest = None
        self._values, self._ordered, self.lent = values, None, lent

    def move_to(self, values: np.ndarray) -> None:
        """Replaces the memory of the elements with `values`: the same elements in the same order, in memory
        that is never written to.
        """
        self._values, self._ordered, self.lent = values, None, False

    def keep(self) -> None:
        """Copies the elements if their memory is `lent`."""
        if self.lent:
            self.move_to(self._values.copy())

    @property
    def values(self) -> np.ndarray:
        """The elements, without a copy if the memory has the literal's sizes; else `array`."""
        return self._values if self._values.shape == self._dims else self.array

    @property
    def array(self) -> np.ndarray:
        """The elements in row-major order. They are copied when this is first read."""
        if self._ordered is None:
            ordered = self._values.view()
            if not ordered.flags.c_contiguous:
                ordered = np.empty(ordered.shape, ordered.dtype)
                copy_in_order(self._values, ordered)
            self._ordered = ordered.reshape(self._dims)
            self._ordered.flags.writeable = False
        return self._ordered

    @property
    def _dims(self) -> tuple[int, ...]:
        assert isinstance(self.shape, Shape)
        return self.shape.dims

    @property
    def elements(self) -> tuple[Literal, ...]:
        """Returns an empty tuple, since the literal is an array."""
        return ()

    def __reduce__(self):
        return Literal, (self.shape, self.array)


def copy_in_order(values: np.ndarray, into: np.ndarray) -> None:
    """Copies the elements of `values` to the row-major array `into`, faster than NumPy for short rows (column
    by column) and for transposed matrices (tile by tile).
    """
    bits = np.dtype(f"u{values.itemsize}") if values.itemsize in (1, 2, 4, 8) else values.dtype
    values, into = values.view(bits), into.view(bits)  # NumPy copies elements of ml_dtypes types one by one
    if values.ndim > 1 and values.shape[-1] <= SHORT:
        for n in range(values.shape[-1]):
            into[..., n] = values[..., n]
    elif values.ndim == 2 and values.strides[0] < values.strides[1]:
        for row in range(0, len(values), TILE):
            for column in range(0, values.shape[1], TILE):
                tile = slice(row, row + TILE), slice(column, column + TILE)
                into[tile] = values[tile]
    else:
        into[...] = values


SHORT, TILE = 8, 256
"""The largest number of elements of a short row; the width and height of a tile."""


def unwritable(array: np.ndarray) -> np.ndarray:
    """Returns the array, or a copy if its memory may be written through an array that it is a view of."""
    base = array.base
    return array.copy() if isinstance(base, np.ndarray) and may_be_written(base) else array


def may_be_written(array: np.ndarray) -> bool:
    """Whether the memory of an array may be written, through itself or through an array that it is a view
    of.
    """
    memory: object = array
    while isinstance(memory, np.ndarray):
        if memory.flags.writeable:
            return True
        memory = memory.base
    return False


def _raw(array: np.ndarray) -> np.ndarray:
    """A view of the bytes of a row-major array."""
    return array.reshape(-1).view(np.uint8)


class Digest:
    """The digest of a literal, which is computed only when it is converted to text or compared."""

    __slots__ = ("literal",)

    def __init__(self, literal: Literal) -> None:
        self.literal = literal

    def __str__(self) -> str:
        return self.literal.digest

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return repr(str(self))


def bytes_in(array: np.ndarray, byte_order: str = sys.byteorder) -> memoryview:
    """The bytes of a row-major array in a byte order, "little" or "big"."""
    raw = np.ascontiguousarray(array).reshape(-1)
    if byte_order != sys.byteorder:
        raw = raw.view(f"u{raw.itemsize // (1 + np.iscomplexobj(raw))}").byteswap()
    return raw.view(np.uint8).data


def aligned_memory(size: int) -> memoryview:
    """Allocates `size` bytes of uninitialized memory that begin at a cache line."""
    memory = np.empty(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + size].data


def digest_of(data: bytes | memoryview) -> str:
    """The digest that identifies the bytes of a constant: blake2b of 16 bytes, as 32 hexadecimal digits."""
    return blake2b(data, digest_size=16).hexdigest()


def why_no_array(shape: Shape) -> str | None:
    """The reason why NumPy cannot have an array of a shape; None if it can. Literals and values of the
    interpreter are NumPy arrays.
    """
    if shape.rank > 64:
        return f"a NumPy array has at most 64 dimensions, found {shape.rank}"
    # For its limit on the array size, NumPy ignores dimensions of size 0.
    if prod(max(1, d) for d in shape.dims) * shape.dtype.itemsize >= 1 << 63:
        return f"a NumPy array has less than 2^63 bytes, sizes of 0 taken as 1, found {shape}"
    return None


class ElidedLiteral(Literal):
    """A constant whose values are left out of the HLO text, as `{...}`. It has a shape, and equals only
    itself. `place` is its position in the text, for messages.
    """

    __slots__ = ("place",)

    def __init__(self, shape: AnyShape, place: str = "") -> None:
        self.shape = shape
        self.place = place
        self._hash = id(self)

    def _refuse(self) -> NoReturn:
        raise UnsupportedError(
            f"{self.place}the text leaves out the values of {self.shape} constant({{...}}). To print them, "
            "set XLA_FLAGS=--xla_dump_large_constants (or --xla_dump_hlo_as_proto), or call to_string "
            "with print_large_constants=True. To run with made-up values: "
            'axla.parse(text, elided="fill"), axla run --fill-elided'
        )

    @property
    def array(self) -> np.ndarray:
        """Raises UnsupportedError, since the values are not known."""
        self._refuse()

    @property
    def elements(self) -> tuple[Literal, ...]:
        """Raises UnsupportedError, since the values are not known."""
        self._refuse()

    def leaves(self) -> Iterator[Literal]:
        """Raises UnsupportedError, since the values are not known."""
        self._refuse()

    def is_uniform(self) -> bool:
        """Returns False, since the values are not known."""
        return False

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"ElidedLiteral({self.shape})"

    def __reduce__(self):
        return (ElidedLiteral, (self.shape, self.place))


_NO_ARRAY = np.empty(0, np.uint8)
