"""Checks and converts the arguments of builder functions: numbers, names, sequences, records.

The functions raise InvalidArgument with the name of the argument (`what`), the value found, and the value
wanted. Operands are converted by `coerce.py`.
"""

from __future__ import annotations

import enum
import operator
import reprlib
from collections.abc import Callable, Iterator, KeysView, Sequence, ValuesView
from typing import Any, NoReturn, TypeVar

import numpy as np

from axla.core.dtypes import BY_NAME, DType, from_numpy
from axla.core.errors import InvalidArgument
from axla.core.shape import Shape
from axla.core.shape_util import dimension_number

T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)
_LIMIT = 1 << 63  # XLA's integers have 64 bits


def refuse(what: str, found: object, wanted: str) -> NoReturn:
    """Raises InvalidArgument about the argument `what`: `found` is the value, `wanted` describes a valid
    one.
    """
    raise InvalidArgument(f"{what}: found {reprlib.repr(found)}, wanted {wanted}") from None


def integer(value: Any, what: str) -> int:
    """Converts a value to an int of at most 64 bits. Floats are refused, also whole ones."""
    try:
        number = operator.index(value)
    except TypeError:
        refuse(what, value, "an integer")
    if not -_LIMIT <= number < _LIMIT:
        refuse(what, value, "an integer of 64 bits")
    return int(number)


def real(value: Any, what: str) -> float:
    """Converts a real number to a Python float. Strings and complex numbers are refused."""
    try:
        if isinstance(value, (str, bytes)) or np.iscomplexobj(value):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        refuse(what, value, "a real number")


def boolean(value: object, what: str) -> bool:
    """Converts True, False, 1, 0 or a NumPy bool to a bool; refuses other values."""
    if isinstance(value, (bool, np.bool_)) or type(value) is int and value in (0, 1):
        return bool(value)
    refuse(what, value, "True or False")


def text(value: object, what: str) -> str:
    """Returns a str unchanged. Bytes are decoded as UTF-8, and invalid bytes become surrogates."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return instance(str, value, what, "a string")


def instance(kind: type[T], value: object, what: str, wanted: str = "") -> T:
    """Returns `value` if it is an instance of `kind`, else refuses it. `wanted` describes a valid value in
    the message.
    """
    if isinstance(value, kind):
        return value
    refuse(what, value, wanted or f"a value of type {kind.__name__}")


def member(kind: type[E], value: object, what: str) -> E:
    """Returns the member of the enumeration `kind` for `value`, which is the member itself, its name or its
    value.
    """
    if isinstance(value, kind):
        return value
    for one in kind:
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value in (one.name, one.value):
            return one
    refuse(what, value, f"one of {', '.join(kind.__members__)}")


def items(value: Any, what: str, wanted: str = "a sequence") -> tuple[Any, ...]:
    """The elements of a list, tuple, range, array or iterator. Refuses sets, since they have no order, and a
    single XlaOp.
    """
    if type(value) not in (list, tuple):
        kinds = (Sequence, np.ndarray, Iterator, KeysView, ValuesView)
        if not isinstance(value, kinds) or isinstance(value, (str, bytes)) or getattr(value, "ndim", 1) == 0:
            refuse(what, value, wanted)
    return tuple(value)


def integers(value: object, what: str) -> tuple[int, ...]:
    """Converts a sequence to a tuple of ints."""
    return tuple(integer(v, what) for v in items(value, what, "a sequence of integers"))


def booleans(value: object, what: str) -> tuple[bool, ...]:
    """Converts a sequence to a tuple of bools."""
    return tuple(boolean(v, what) for v in items(value, what, "a sequence of True and False"))


def tuples(value: object, what: str, wanted: str, *kinds: Callable[[Any, str], Any]) -> list[tuple]:
    """Converts a sequence of rows, such as (low, high) of padding, to tuples. `kinds` has a conversion
    function, such as `integer`, for each entry of a row.
    """
    rows = [items(row, what, wanted) for row in items(value, what, wanted)]
    if any(len(row) != len(kinds) for row in rows):
        refuse(what, value, wanted)
    return [tuple(kind(entry, what) for kind, entry in zip(kinds, row, strict=True)) for row in rows]


def dimension(shape: Shape, value: object, what: str) -> int:
    """Converts a dimension number; a negative one counts from the last dimension of `shape`. Refuses one out
    of range.
    """
    return dimension_number(shape, integer(value, what))


def element_type(value: object, what: str = "element type") -> DType:
    """Returns the dtype for an HLO name, a NumPy type or a dtype."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value.lower() in BY_NAME:
        return BY_NAME[value.lower()]
    try:
        return from_numpy(value)
    except (TypeError, ValueError, AttributeError):
        refuse(what, value, "an element type such as 'f32' or np.float32")
