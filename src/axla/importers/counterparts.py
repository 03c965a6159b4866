"""Operations that correspond to an HLO op field by field. Their records declare this for import and
export.
"""

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
    """A field of an op, or of a structure in a field of the op (`padding.low`), and its source in the
    operation.

    `name` is the field of the op, `inner` that of the structure ("" without one). `type` is the field's type,
    `default` its default or that of the whole structure (MISSING without one). The source is `attribute`, or
    the region with the number `region`. If the attribute holds several fields, `column` is the number of this
    one. If `name` is "", the attribute is a structure whose fields are those of the op itself.
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
    """The HLO op that an operation corresponds to, with its fields. `parts` has the types of the fields that
    are structures, such as `padding`. If `combines`, the op's last region combines elements of the operands.
    """

    record: Record
    op: type[Op]
    fields: tuple[OpField, ...]
    parts: dict[str, type]
    combines: bool


def counterpart(record: Record) -> Counterpart:
    """The HLO op, with its fields, that a record names."""
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
    """The HLO ops that records name, by the names of the operations."""
    return {name: counterpart(record) for name, record in records.items() if record.counterpart is not None}
