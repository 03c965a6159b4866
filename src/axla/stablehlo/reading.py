"""Reads attributes of operations as Python values of the expected kind; raises VerifyError for other
kinds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np

from axla.core.errors import VerifyError
from axla.stablehlo import mlir
from axla.stablehlo.text.printer import type_text

REQUIRED: Any = object()
T = TypeVar("T")
Said = mlir.Operation | dict[str, Any]
"""A source of attributes: an operation, its attributes, or the fields of a structure."""
LONGEST = 4096  # the most elements of a list that a file writes as a splat: many operations can have it


def reject(said: Said, name: str, wanted: str) -> NoReturn:
    """Raises VerifyError for an attribute that is missing or of the wrong kind; `wanted` describes the right
    kind.
    """
    found = _attributes(said).get(name, REQUIRED)
    what = "there is none" if found is REQUIRED else f"found {str(found)[:100]}"
    raise VerifyError(f"the attribute {name} must be {wanted}; {what}")


def _attributes(said: Said) -> dict[str, Any]:
    return said.attributes if isinstance(said, mlir.Operation) else said


def _reader(wanted: str, as_wanted: Callable[[Any], T | None], usual: Any = REQUIRED) -> Callable[..., T]:
    """Returns a function that reads an attribute of an operation, or a field of a structure. `as_wanted`
    converts the attribute, and returns None for a wrong kind. `usual` is the default for a missing attribute.
    """

    def read(said: Said, name: str, default: Any = usual) -> T:
        found = _attributes(said).get(name)
        if found is None and default is not REQUIRED:
            return default
        value = as_wanted(found)
        if value is None:
            reject(said, name, wanted)
        return value

    return read


def _flag(attribute: Any) -> bool | None:
    return True if attribute is mlir.UNIT else attribute if isinstance(attribute, bool) else None


def _values_of_enumerations(attribute: Any) -> tuple[str, ...] | None:
    if isinstance(attribute, tuple) and all(isinstance(item, mlir.EnumAttr) for item in attribute):
        return tuple(item.value for item in attribute)
    return None


def _integer(attribute: Any) -> int | None:
    value = attribute.value if isinstance(attribute, mlir.IntegerAttr) else attribute
    return value if isinstance(value, int) and not isinstance(value, bool) else None


integer = _reader("an integer", _integer)
number = _reader("a number", lambda a: float(a.value) if isinstance(a, mlir.FloatAttr) else None)
flag = _reader("a boolean", _flag, False)
text = _reader("a string", lambda attribute: attribute if isinstance(attribute, str) else None)
symbol: Callable[..., str] = _reader(
    "the name of a function", lambda a: a.root if isinstance(a, mlir.SymbolRef) and not a.nested else None
)
words = _reader("a list of values of an enumeration", _values_of_enumerations, ())
word = _reader("a value of an enumeration", lambda a: a.value if isinstance(a, mlir.EnumAttr) else None)
dictionary: Callable[..., dict[str, Any]] = _reader(
    "a dictionary", lambda attribute: attribute if isinstance(attribute, dict) else None, {}
)


def as_integers(attribute: Any) -> tuple[int, ...] | None:
    """A list of integers as a tuple, from any of its representations; None for anything else."""
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
    """All elements of a dense attribute; a splat is expanded. Raises VerifyError if that is too large."""
    shape = tuple([d or 0 for d in attribute.type.shape or ()])
    if attribute.values.shape == shape and attribute.values.size:
        return attribute.values
    if max(math.prod(shape), *shape, 0) > LONGEST:  # rows without elements count, too
        raise VerifyError(f"{type_text(attribute.type)} as a list: at most {LONGEST} elements can be a splat")
    return np.broadcast_to(attribute.values, shape)


def _rows(attribute: Any) -> list[list[int]] | None:
    if not isinstance(attribute, mlir.DenseElements):
        return None
    array = elements(attribute)
    if array.dtype.kind not in "iub" or (array.ndim != 2 and array.size):
        return None
    return array.tolist() if array.ndim == 2 else []


integers = _reader("a list of integers", as_integers)
matrix = _reader("rows of integers", _rows)
"""Reads rows of integers: padding, replica groups, source-target pairs."""


def structure(said: Said, name: str, mnemonic: str, default: Any = REQUIRED) -> dict[str, Any]:
    """The fields of a structured attribute; they can be read like attributes."""
    found = _attributes(said).get(name)
    if found is None and default is not REQUIRED:
        return default
    if not isinstance(found, mlir.StructAttr) or found.mnemonic != mnemonic:
        reject(said, name, f"#stablehlo.{mnemonic}<...>")
    return found.fields


def is_structure(said: Said, name: str) -> bool:
    """Whether an attribute is a structured one."""
    return isinstance(_attributes(said).get(name), mlir.StructAttr)
