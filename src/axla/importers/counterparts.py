"""Operations that are an op of HLO, field by field, as their records say: one line for both directions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any, get_args, get_type_hints

import axla.hlo as hlo
from axla.core.dataclass import dataclass
from axla.importers.records import AttributeRecord, Record
from axla.ir.op import Op


@dataclass(frozen=True, slots=True)
class OpField:
    """A field of an op, or of a value that is one (`padding.low`): what it is by its type, its default or
    that of the whole value (MISSING without one), and the attribute that it is, or the number of the region.

    `column` is its place in an attribute that is several fields. `name` is "" where a structure has the
    fields of the op itself.
    """

    name: str
    inner: str
    type: Any
    default: Any
    attribute: AttributeRecord | None
    column: int
    region: int


@dataclass(frozen=True, slots=True)
class Counterpart:
    """`parts` are the types of the fields whose own fields are attributes: `padding`. `combines` says whether
    operands have the element types that the last region computes with.
    """

    record: Record
    op: type[Op]
    fields: tuple[OpField, ...]
    parts: dict[str, type]
    combines: bool


def counterpart(record: Record) -> Counterpart:
    """The op of HLO that the words of a record name."""
    words = list(record.counterpart or ())
    named = bool(words) and words[0][0].isupper()
    name = words.pop(0) if named else "".join(word.capitalize() for word in record.short.split("_"))
    op = getattr(hlo, name)
    outer_fields = {attribute.name: (attribute.type, attribute.default) for attribute in op.attributes}
    attributes = {attribute.name: attribute for attribute in record.attributes}
    fields: list[OpField] = []
    parts: dict[str, type] = {}
    for word in words:
        path, _, source = word.rstrip("+").partition("=")
        attribute = attributes.get(source or path.strip("*"))
        region = -1 if attribute is not None else (record.regions or ()).index(source or path)
        outer, _, inner = path.partition(".")
        kind, default = outer_fields.get(outer, (None, MISSING))
        if inner:
            part = parts[outer] = next(iter(get_args(kind)), kind)
            kind = get_type_hints(part)[inner]
            own = {field.name: field.default for field in dataclasses.fields(part)}[inner]
            default = default if own is MISSING else own
        column = sum(field.attribute is attribute for field in fields)
        outer = "" if path[0] == "*" else outer
        fields.append(OpField(outer, inner, kind, default, attribute, column, region))
    return Counterpart(record, op, tuple(fields), parts, any(word[-1] == "+" for word in words))


def counterparts(records: Mapping[str, Record]) -> dict[str, Counterpart]:
    """The ops of HLO that records name, by the names of the operations."""
    return {name: counterpart(record) for name, record in records.items() if record.counterpart is not None}
