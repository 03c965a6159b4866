"""Maps the attributes of ops to fields of HloInstructionProto.

`fields_of(op)` returns the functions that read and write all attributes of an op, made from the op's
declaration and the tables here; no op has code of its own. An attribute is stored in the field with its name
in HLO text, or in the one named by `attr(proto=...)`, and its type selects the codec. Attributes that XLA's
protos have no field for are stored as text in `axla_attributes`; so are all attributes of ops of other
packages.
"""

from __future__ import annotations

import types
import typing
from dataclasses import MISSING
from functools import cache
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.errors import ParseError, ShapeError
from axla.ir.attributes import PaddingConfig, Single, SliceDims, Window
from axla.ir.op import Attribute, Op, is_own
from axla.proto.attributes import WHOLE, Around, FieldCodec, Whole, codec_of
from axla.proto.schema import TABLES, Field
from axla.text.attributes import codec_of as text_codec
from axla.text.forms import implied_type
from axla.text.instructions import read_attribute

Proto = dict[str, Any]

BODY_FIRST = {"while": ("body", "condition")}
"""The order of an op's called computations, if it differs from the order of its fields."""

UNREAD = {"async-update", "async-done"}
"""Ops that repeat attributes of another op. The repeated attributes are neither read nor written."""


@dataclass(frozen=True, slots=True)
class FieldAccess:
    """The field in which an attribute is stored, and its codec."""

    name: str  # the field of the op's class
    path: tuple[str, ...]
    codec: FieldCodec
    one: bool  # whether the attribute is the only element of a list
    absent: Any  # the attribute if the field is missing; MISSING: that for `zero`
    zero: Any  # the name of the enumeration's value 0; None: the field is required


@dataclass(frozen=True, slots=True)
class OpFields:
    """The fields of an op's message that have attributes or called computations."""

    places: tuple[FieldAccess, ...]
    wholes: tuple[tuple[str, Whole], ...]
    other: tuple[Attribute, ...]
    called: tuple[str, ...]  # the op's fields with computations, in the message's order
    names: frozenset[str]  # the fields of the message that the reader knows


_COMMON = frozenset(
    """
    name opcode shape metadata id operand_ids control_predecessor_ids called_computation_ids sharding
    backend_config frontend_attributes axla_attributes parameter_replication result_accuracy statistics_viz
    original_value
    """.split()  # noqa: SIM905
)


@cache
def fields_of(op: type[Op]) -> OpFields:
    """The fields for the attributes of an op, derived from its declaration."""
    places: list[FieldAccess] = []
    wholes: list[tuple[str, Whole]] = []
    other: list[Attribute] = []
    own = _OWN.get(op.opcode)
    repeats = op.opcode in UNREAD or own is not None
    for attribute in () if repeats else op.attributes:
        if attribute.name in op.computation_fields:
            continue
        type_, optional = _plain_type(attribute.type)
        whole = WHOLE.get(attribute.text) or WHOLE.get(type_)
        if not is_own(op):
            other.append(attribute)  # also if XLA has a field of that name
        elif whole is not None:
            wholes.append((attribute.name, whole))
        elif (place := _place(op, attribute, type_, optional)) is not None:
            places.append(place)
        else:
            other.append(attribute)
    names = {*_COMMON, *(p.path[0] for p in places), *(n for _, w in wholes for n in w.fields)}
    names |= {own} if own else set()
    called = BODY_FIRST.get(op.opcode, op.computation_fields)
    return OpFields(tuple(places), tuple(wholes), tuple(other), called, frozenset(names))


_OWN = {"constant": "literal", "parameter": "parameter_number"}
"""Ops that `reader` and `writer` handle: the field with their data."""


def _plain_type(type_: Any) -> tuple[Any, bool]:
    """Splits a type into (the type without None, whether None is allowed)."""
    if not isinstance(type_, types.UnionType):
        return type_, False
    [plain] = [t for t in typing.get_args(type_) if t is not type(None)]
    return plain, True


def _place(op: type[Op], attribute: Attribute, type_: Any, optional: bool) -> FieldAccess | None:
    """The access to an attribute that is stored in a single field of the message; None if the message has no
    such field. `optional`: the attribute may be None.
    """
    path = tuple(attribute.proto.split("."))
    field = _field((op.message, *path))
    if field is not None:
        path = (op.message, *path)
    elif (field := _field(path)) is None:
        return None
    stated = type_ in (int, str) and attribute.default is not MISSING
    absent = None if optional else attribute.default if stated else _zero(type_, field)
    zero = field.enum.names[0] if field.enum is not None else None
    return FieldAccess(
        attribute.name, path, codec_of(type_, field), field.repeated and type_ is int, absent, zero
    )


def _field(path: tuple[str, ...]) -> Field | None:
    """The field at the end of a path of field names that begins in HloInstructionProto; None if there is
    none.
    """
    table: Any = TABLES["HloInstructionProto"]
    for part in path[:-1]:
        if part not in table.fields:
            return None
        table = table.fields[part].message
    return table.fields.get(path[-1])


def _zero(type_: Any, field: Field) -> Any:
    """The value of an attribute of type `type_` for a message without the field. MISSING if the field is an
    enumeration; then the enumeration's value 0 is used.
    """
    if typing.get_origin(type_) is tuple:
        return ()
    if type_ in (Window, SliceDims, PaddingConfig):
        return type_(*[()] * (1 if type_ is Window else 2))
    if type_ in (int, bool, str):
        return type_()
    if type_ is Single:
        return 0.0
    return MISSING


def read_attributes(op: type[Op], message: Proto, around: Around) -> dict[str, Any]:
    """Reads the attributes of an op from its message, without called computations. ParseError for an invalid
    value.
    """
    fields: dict[str, Any] = {}
    known = fields_of(op)
    for place in known.places:
        try:
            fields[place.name] = _read_place(place, message, around)
        except (ShapeError, ValueError, TypeError, OverflowError) as error:
            raise ParseError(f"{'.'.join(place.path)}: {error}") from None
    for name, whole in known.wholes:
        fields[name] = whole.read(message, around)
    if known.other:
        texts = {e.get("key"): e.get("value", "") for e in message.get("axla_attributes", {}).get("map", ())}
        for attribute in known.other:
            if attribute.text in texts:
                fields[attribute.name] = read_attribute(attribute, texts[attribute.text])
    return fields


def _read_place(place: FieldAccess, message: Proto, around: Around) -> Any:
    value: Any = message
    for part in place.path:
        value = value.get(part)
        if value is None:
            if place.absent is not MISSING:
                return place.absent
            if place.zero is None:
                raise ParseError(f"the field {place.path[-1]} is missing")
            value = place.zero
            break
    if place.one:
        if len(value) > 1:
            raise ParseError(f"{place.path[-1]} has {len(value)} numbers, wanted 1")
        return value[0] if value else place.absent
    return place.codec.read(value, around)


def write_attributes(op: Op, message: Proto, around: Around) -> None:
    """Writes the attributes of an op to its message."""
    known = fields_of(type(op))
    for place in known.places:
        value = getattr(op, place.name)
        if value is None:
            continue
        inner = message
        for part in place.path[:-1]:
            inner = inner.setdefault(part, {})
        if place.one:
            inner[place.path[-1]] = [] if value == place.absent == -1 else [value]  # -1: none inferred
        else:
            inner[place.path[-1]] = place.codec.write(value, around)
    for name, whole in known.wholes:
        if (value := getattr(op, name)) is not None:
            whole.write(value, message, around)
    other = [(a, getattr(op, a.name)) for a in known.other]
    if texts := [{"key": a.text, "value": text_codec(a.type).encode(v)} for a, v in other if v != a.default]:
        message["axla_attributes"] = {"map": texts}
    if op.opcode == "compare" and "comparison_type" not in message:
        message["comparison_type"] = str(implied_type(around.operands[0].shape))
