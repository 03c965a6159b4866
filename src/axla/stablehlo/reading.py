"""Reading an operation's attributes as what they should be; VerifyError where they are something else."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np

from axla.core.errors import VerifyError
from axla.stablehlo import mlir
from axla.stablehlo.attributes import STRUCTURES
from axla.stablehlo.text.printer import type_text

REQUIRED: Any = object()
T = TypeVar("T")
LONGEST = 4096  # of a list that a file does not write out: many operations can have the same one


def reject(operation: mlir.Operation, name: str, wanted: str) -> NoReturn:
    """Says that an attribute is missing, or not what it should be."""
    found = operation.attributes.get(name, REQUIRED)
    said = "there is none" if found is REQUIRED else f"found {str(found)[:100]}"
    raise VerifyError(f"the attribute {name} must be {wanted}; {said}")


def _reader(wanted: str, as_wanted: Callable[[Any], T | None]) -> Callable[..., T]:
    """A function that reads an attribute of an operation as `as_wanted` gives it, which is None for what is
    something else; or gives the default.
    """

    def read(operation: mlir.Operation, name: str, default: Any = REQUIRED) -> T:
        found = operation.attributes.get(name)
        if found is None and default is not REQUIRED:
            return default
        value = as_wanted(found)
        if value is None:
            reject(operation, name, wanted)
        return value

    return read


def _value_of(kind: type) -> Callable[[Any], Any]:
    return lambda attribute: attribute.value if isinstance(attribute, kind) else None


def _flag(attribute: Any) -> bool | None:
    return True if attribute is mlir.UNIT else attribute if isinstance(attribute, bool) else None


def _values_of_enumerations(attribute: Any) -> tuple[str, ...] | None:
    if isinstance(attribute, tuple) and all(isinstance(item, mlir.EnumAttr) for item in attribute):
        return tuple(item.value for item in attribute)
    return None


integer: Callable[..., int] = _reader("an integer", _value_of(mlir.IntegerAttr))
number = _reader("a number", lambda a: float(a.value) if isinstance(a, mlir.FloatAttr) else None)
_boolean = _reader("a boolean", _flag)
text = _reader("a string", lambda attribute: attribute if isinstance(attribute, str) else None)
symbol: Callable[..., str] = _reader(
    "the name of a function", lambda a: a.root if isinstance(a, mlir.SymbolRef) and not a.nested else None
)
_dictionary = _reader("a dictionary", lambda attribute: attribute if isinstance(attribute, dict) else None)
_words = _reader("a list of values of an enumeration", _values_of_enumerations)
word: Callable[..., str] = _reader("a value of an enumeration", _value_of(mlir.EnumAttr))


def flag(operation: mlir.Operation, name: str, default: bool = False) -> bool:
    return _boolean(operation, name, default)


def words(operation: mlir.Operation, name: str) -> tuple[str, ...]:
    """The values of a list of enumerations; () when there is none."""
    return _words(operation, name, ())


def dictionary(operation: mlir.Operation, name: str) -> dict[str, Any]:
    """A dictionary; {} when there is none."""
    return _dictionary(operation, name, {})


def as_integers(attribute: Any) -> tuple[int, ...] | None:
    """A list of integers in any of its forms; None for anything else."""
    if isinstance(attribute, mlir.DenseArray):
        values = attribute.values
    elif isinstance(attribute, mlir.DenseElements):
        array = elements(attribute)
        values = array.tolist() if array.ndim == 1 and array.dtype.kind in "iub" else None
    elif isinstance(attribute, tuple):
        values = [a.value if isinstance(a, mlir.IntegerAttr) else a for a in attribute]
    else:
        values = None
    if values is None or not all(isinstance(v, int) for v in values):
        return None
    return tuple(int(v) for v in values)


def elements(attribute: mlir.DenseElements) -> np.ndarray:
    """All elements of a dense attribute, splats written out."""
    shape = tuple([d or 0 for d in attribute.type.shape or ()])
    if attribute.values.shape == shape and attribute.values.size:
        return attribute.values
    if max(math.prod(shape), *shape, 0) > LONGEST:  # rows without elements are rows
        raise VerifyError(f"{type_text(attribute.type)} as a list: at most {LONGEST} elements can be a splat")
    return np.broadcast_to(attribute.values, shape)


def _rows(attribute: Any) -> list[list[int]] | None:
    if not isinstance(attribute, mlir.DenseElements):
        return None
    array = elements(attribute)
    if array.dtype.kind not in "iub" or (array.ndim != 2 and array.size):
        return None
    return array.tolist() if array.ndim == 2 else []


integers: Callable[..., tuple[int, ...]] = _reader("a list of integers", as_integers)
matrix = _reader("rows of integers", _rows)
"""Padding, replica groups, pairs."""


def structure(operation: mlir.Operation, name: str, mnemonic: str, default: Any = REQUIRED) -> dict[str, Any]:
    """The fields of a structured attribute."""
    found = operation.attributes.get(name)
    if found is None and default is not REQUIRED:
        return default
    if not isinstance(found, mlir.StructAttr) or found.mnemonic != mnemonic:
        reject(operation, name, f"#stablehlo.{mnemonic}<...>")
    return found.fields


def window_numbers(operation: mlir.Operation, name: str, mnemonic: str) -> dict[str, Any]:
    """The dimension numbers of a gather or scatter, which have the same names in HLO."""
    fields, readers = structure(operation, name, mnemonic), {"l/": field_integers, "i/": field_integer}
    return {field: readers[kind](fields, field) for field, kind in STRUCTURES[mnemonic].items()}


def field_integers(fields: dict[str, Any], name: str) -> tuple[int, ...]:
    """A list of integers of a structured attribute; () when it is left out."""
    values = as_integers(fields.get(name, ()))
    if values is None:
        raise VerifyError(f"{name} must be a list of integers, found {str(fields[name])[:100]}")
    return values


def field_integer(fields: dict[str, Any], name: str, default: int = 0) -> int:
    value = fields.get(name, default)
    value = value.value if isinstance(value, mlir.IntegerAttr) else value
    if not isinstance(value, int):
        raise VerifyError(f"{name} must be an integer, found {str(value)[:100]}")
    return value
