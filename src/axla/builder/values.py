"""Checks and converts Python values given to builder functions: numbers, names, sequences, records.

Every function raises InvalidArgument with the purpose of the value (`what`), the value found, and what was
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
    """Raises InvalidArgument: the function or argument, what was found, what was wanted."""
    raise InvalidArgument(f"{what}: found {reprlib.repr(found)}, wanted {wanted}") from None


def integer(value: Any, what: str) -> int:
    """A Python int of 64 bits; floats are refused, even with integral values."""
    try:
        number = operator.index(value)
    except TypeError:
        refuse(what, value, "an integer")
    if not -_LIMIT <= number < _LIMIT:
        refuse(what, value, "an integer of 64 bits")
    return int(number)


def real(value: Any, what: str) -> float:
    """A Python float."""
    try:
        if isinstance(value, (str, bytes)) or np.iscomplexobj(value):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        refuse(what, value, "a real number")


def boolean(value: object, what: str) -> bool:
    """True or False; 1 and 0 stand for them."""
    if isinstance(value, (bool, np.bool_)) or type(value) is int and value in (0, 1):
        return bool(value)
    refuse(what, value, "True or False")


def text(value: object, what: str) -> str:
    """A str; bytes are decoded as UTF-8, with invalid bytes preserved."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return instance(str, value, what, "a string")


def instance(kind: type[T], value: object, what: str, wanted: str = "") -> T:
    """A value of a class: a shape, a record, a builder."""
    if isinstance(value, kind):
        return value
    refuse(what, value, wanted or f"a value of type {kind.__name__}")


def member(kind: type[E], value: object, what: str) -> E:
    """A member of an enumeration, given as itself, by name or by value."""
    if isinstance(value, kind):
        return value
    for one in kind:
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value in (one.name, one.value):
            return one
    refuse(what, value, f"one of {', '.join(kind.__members__)}")


def items(value: Any, what: str, wanted: str = "a sequence") -> tuple[Any, ...]:
    """The elements of a list, tuple, range, array or iterator. Sets are refused, since they have no order,
    and so is a single op.
    """
    if type(value) not in (list, tuple):
        kinds = (Sequence, np.ndarray, Iterator, KeysView, ValuesView)
        if not isinstance(value, kinds) or isinstance(value, (str, bytes)) or getattr(value, "ndim", 1) == 0:
            refuse(what, value, wanted)
    return tuple(value)


def integers(value: object, what: str) -> tuple[int, ...]:
    """A tuple of Python ints."""
    return tuple(integer(v, what) for v in items(value, what, "a sequence of integers"))


def booleans(value: object, what: str) -> tuple[bool, ...]:
    """A tuple of True and False."""
    return tuple(boolean(v, what) for v in items(value, what, "a sequence of True and False"))


def tuples(value: object, what: str, wanted: str, *kinds: Callable[[Any, str], Any]) -> list[tuple]:
    """Tuples with an entry of each kind, such as (low, high) of padding."""
    rows = [items(row, what, wanted) for row in items(value, what, wanted)]
    if any(len(row) != len(kinds) for row in rows):
        refuse(what, value, wanted)
    return [tuple(kind(entry, what) for kind, entry in zip(kinds, row, strict=True)) for row in rows]


def dimension(shape: Shape, value: object, what: str) -> int:
    """A dimension of a shape; negative numbers count from the last."""
    return dimension_number(shape, integer(value, what))


def element_type(value: object, what: str = "element type") -> DType:
    """The element type given by an HLO name, a NumPy type or an element type."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value.lower() in BY_NAME:
        return BY_NAME[value.lower()]
    try:
        return from_numpy(value)
    except (TypeError, ValueError, AttributeError):
        refuse(what, value, "an element type such as 'f32' or np.float32")
