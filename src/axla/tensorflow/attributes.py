"""The kinds of attributes that records declare, and the values of attributes in Python.

    kind            value in Python
    type            the name of a type, "DT_FLOAT"
    int float bool  a number
    string          str (surrogates for bytes that are not UTF-8)
    shape           a tuple of sizes, -1 for an unknown one, or None for an unknown rank
    tensor          a NumPy array, read-only
    func            a `Callee`: the name of a function, and attributes
    list(KIND)      a tuple

After a kind, `>=2` is the smallest allowed number (or length of a list), and `{a,b}` are the allowed values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.errors import VerifyError, choices
from axla.importers.records import AttributeRecord
from axla.tensorflow.types import Proto, dims_of, entries, tensor_of, without_ref

_KIND = re.compile(r"(list\()?(\w+)\)?(?:>=(-?\d+))?(?:\{(.*)\})?$")
_FIELDS = {
    "type": "type", "int": "i", "float": "f", "bool": "b", "string": "s", "shape": "shape",
    "tensor": "tensor", "func": "func",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Callee:
    """A function that a node names, with values for attributes of its body."""

    name: str
    attributes: dict[str, Proto]


def called_by(attributes: Mapping[str, Any]) -> list[Callee]:
    """The functions that attributes refer to."""
    found: list[Any] = []
    for value in attributes.values():
        found += value if isinstance(value, tuple) else (value,)
    return [each for each in found if isinstance(each, Callee) and each.name]


@dataclass(frozen=True, slots=True)
class AttributeKind:
    """A kind, parsed: its `name` without `list()`, the `least` number or length, and the allowed values."""

    name: str
    is_list: bool
    least: int | None
    allowed: tuple[str, ...]


@cache
def kind_of(text: str) -> AttributeKind:
    """Parses the kind of an attribute in the notation of records, such as `list(int)>=2`."""
    found = _KIND.match(text)
    assert found is not None and found[2] in _FIELDS, text
    allowed = tuple(found[4].split(",")) if found[4] else ()
    return AttributeKind(found[2], found[1] is not None, int(found[3]) if found[3] else None, allowed)


def value_of(attribute: AttributeRecord, given: Proto | None, what: str) -> Any:
    """The value of an attribute in Python: that of the message, `given`, or the record's default if `given`
    is None. Raises VerifyError, which begins with `what`, for a missing attribute without a default, and for
    a value that the record forbids.
    """
    kind, what = kind_of(attribute.kind), f"{what}: attribute {attribute.name!r}"
    if given is None:
        if not attribute.optional:
            raise VerifyError(f"{what} is missing")
        return default_of(attribute)
    if "placeholder" in given:
        raise VerifyError(f"{what} needs the function's attribute {given['placeholder']!r}")
    field = "list" if kind.is_list else _FIELDS[kind.name]
    if field not in given:
        found = ", ".join(sorted(given)) or "nothing"
        raise VerifyError(f"{what} is of kind {attribute.kind}, found {found}")
    if kind.is_list:
        value: Any = tuple(_one(kind.name, item, what) for item in given["list"].get(_FIELDS[kind.name], ()))
    else:
        value = _one(kind.name, given[field], what)
    _check(kind, value, what)
    return value


def _check(kind: AttributeKind, value: Any, what: str) -> None:
    size = len(value) if kind.is_list else value
    if kind.least is not None and size < kind.least:
        of = "a length of " if kind.is_list else ""
        raise VerifyError(f"{what} is {value}, wanted {of}at least {kind.least}")
    for item in value if kind.is_list else (value,):
        if kind.allowed and item not in kind.allowed:
            raise VerifyError(f"{what} is {item!r}; {choices(kind.allowed)}")


def _one(kind: str, value: Any, what: str) -> Any:
    if kind == "type":
        return without_ref(value)
    if kind == "string":
        return value.decode("utf-8", "surrogateescape")
    if kind == "shape":
        return dims_of(value, what)
    if kind == "tensor":
        return tensor_of(value, what)
    if kind == "func":
        return Callee(value.get("name", ""), entries(value.get("attr", ())))
    return value


def default_of(attribute: AttributeRecord) -> Any:
    """The default value of an attribute, which its record states as text."""
    kind, text = kind_of(attribute.kind), attribute.default
    if kind.is_list:
        return tuple(_default(kind.name, item) for item in text.strip("[]").split(",") if item)
    return _default(kind.name, text)


def _default(kind: str, text: str) -> Any:
    if kind in ("int", "float"):
        return int(text) if kind == "int" else float(text)
    if kind == "bool":
        return text == "true"
    if kind == "shape":
        return None if text in ("", "?") else tuple(int(size) for size in text.strip("()").split("x") if size)
    return Callee(text, {}) if kind == "func" else text
