"""Operations that are an op of HLO, field by field, as their records say: one line for both directions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

import axla.hlo as hlo
from axla.foreign.records import Attribute, Record
from axla.ir.op import Op


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an op, or of a value that is one (`padding.low`): what it is by its type, and the attribute
    that it is, or the number of the region. `name` is "" where a structure has the fields of the op itself.
    """

    name: str
    inner: str
    type: Any
    attribute: Attribute | None
    region: int


@dataclass(frozen=True, slots=True)
class Counterpart:
    """`parts` are the types of the fields whose own fields are attributes: `padding`."""

    record: Record
    op: type[Op]
    fields: tuple[Field, ...]
    parts: dict[str, type]


def _counterpart(record: Record) -> Counterpart:
    words = list(record.counterpart or ())
    named = bool(words) and words[0][0].isupper()
    name = words.pop(0) if named else "".join(word.capitalize() for word in record.short.split("_"))
    op = getattr(hlo, name)
    types = {attribute.name: attribute.type for attribute in op.attributes}
    attributes = {attribute.name: attribute for attribute in record.attributes}
    fields: list[Field] = []
    parts: dict[str, type] = {}
    for word in words:
        path, _, source = word.partition("=")
        attribute = attributes.get(source or path.strip("*"))
        region = -1 if attribute is not None else (record.regions or ()).index(source or path)
        outer, _, inner = path.partition(".")
        kind = types.get(outer)
        if inner:
            parts[outer] = types[outer]
            kind = get_type_hints(types[outer])[inner]
        fields.append(Field("" if path[0] == "*" else outer, inner, kind, attribute, region))
    return Counterpart(record, op, tuple(fields), parts)


def counterparts(records: Mapping[str, Record]) -> dict[str, Counterpart]:
    """The ops of HLO that records name, by the names of the operations."""
    return {name: _counterpart(record) for name, record in records.items() if record.counterpart is not None}
