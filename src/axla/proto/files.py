"""Reads and writes files with protos of modules: the module itself, an HloProto, a module with a
configuration, or a snapshot.

The type of a message follows from its fields: an HloModuleProto has computations; the others contain an
HloModuleProto.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Any

from axla.core.collector import collector_paused
from axla.core.dataclass import dataclass
from axla.core.errors import AxlaError, InvalidArgument, ParseError, choices
from axla.core.literal import Literal
from axla.core.regex import ascii_regex
from axla.ir.graph import Module
from axla.proto.reader import read_module
from axla.proto.schema import TABLES
from axla.proto.text_format import from_text, to_text
from axla.proto.values import ShapeReader, ShapeWriter, literal_message, read_literal
from axla.proto.wire import decode, encode, unknown_fields
from axla.proto.writer import module_message

Proto = dict[str, Any]

FORMS = {
    "module": "HloModuleProto", "hlo": "HloProto", "config": "HloModuleProtoWithConfig",
    "snapshot": "HloSnapshot",
}  # fmt: skip
"""The forms that `to_proto` can write: the name of the form, and of XLA's message."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A program, and the arguments and the result of one run of it."""

    module: Module
    arguments: tuple[Literal, ...] = ()
    result: Literal | None = None
    platform: str = ""
    buffer_assignment: Proto = field(default_factory=dict)  # XLA's message, which is kept as it is

    def to_proto(self) -> bytes:
        """The snapshot as an HloSnapshot in the wire format."""
        return encode(_snapshot_message(self), "HloSnapshot")

    def to_text(self) -> str:
        """The snapshot as an HloSnapshot in the text format."""
        return to_text(_snapshot_message(self), "HloSnapshot")


def read(data: bytes | str) -> Module:
    """Reads the module in an HloModuleProto, HloProto, HloModuleProtoWithConfig or HloSnapshot.

    Bytes are in the wire format (or text in UTF-8), a `str` is in the text format. ParseError names the field
    and the position of an error.
    """
    return read_snapshot(data).module


def read_snapshot(data: bytes | str) -> Snapshot:
    """Reads a module as `read` does, and, from an HloSnapshot, the arguments and the result."""
    with collector_paused():
        message, name = _message(data)
        if name == "HloModuleProto":
            return Snapshot(read_module(message))
        if name == "HloModuleProtoWithConfig":
            config = message.get("config", {})
            module = message.get("hlo_module", {})
            if config:
                module = module | {"axla_config": config}
            return Snapshot(read_module(module))
        outer = message if name == "HloProto" else message.get("hlo", {})
        module = read_module(outer.get("hlo_module", {}))
        assignment = outer.get("buffer_assignment", {})
        if name == "HloProto":
            return Snapshot(module, buffer_assignment=assignment)
        shapes = ShapeReader()
        arguments = tuple(
            _literal(m, shapes, f"arguments[{n}]") for n, m in enumerate(message.get("arguments", ()))
        )
        result = _literal(message["result"], shapes, "result") if "result" in message else None
        return Snapshot(module, arguments, result, message.get("execution_platform", ""), assignment)


def _literal(message: Proto, shapes: ShapeReader, where: str) -> Literal:
    try:
        return read_literal(message, shapes.shape)
    except AxlaError as error:
        raise ParseError(f"HloSnapshot.{where}: {error.message}") from None


def to_proto(module: Module, form: str = "module", *, buffer_assignment: Proto | None = None) -> bytes:
    """The module in the wire format, in one of FORMS. An HloProto stores `buffer_assignment` unchanged."""
    with collector_paused():
        return encode(_form(module, form, buffer_assignment), FORMS[form])


def to_text_proto(module: Module, form: str = "module", *, buffer_assignment: Proto | None = None) -> str:
    """The module in the text format, in one of FORMS. `buffer_assignment` is stored in an HloProto
    unchanged.
    """
    with collector_paused():
        return to_text(_form(module, form, buffer_assignment), FORMS[form])


def _form(module: Module, form: str, buffer_assignment: Proto | None) -> Proto:
    if form not in FORMS:
        raise InvalidArgument(f"to_proto: form={form!r}; {choices(FORMS, form)}")
    if form == "snapshot":
        return _snapshot_message(Snapshot(module, buffer_assignment=buffer_assignment or {}))
    message = module_message(module)
    if form == "module":
        return message
    if form == "hlo":
        assignment = {"buffer_assignment": buffer_assignment} if buffer_assignment else {}
        return {"hlo_module": message} | assignment
    layout = message["host_program_shape"]
    config = {"entry_computation_layout": layout, "replica_count": 1, "num_partitions": 1}
    return {"hlo_module": message, "config": config | message.pop("axla_config", {})}


def _snapshot_message(snapshot: Snapshot) -> Proto:
    shapes = ShapeWriter()
    hlo: Proto = {"hlo_module": module_message(snapshot.module)}
    if snapshot.buffer_assignment:
        hlo["buffer_assignment"] = snapshot.buffer_assignment
    message: Proto = {
        "hlo": hlo, "arguments": [literal_message(a, shapes.shape) for a in snapshot.arguments],
    }  # fmt: skip
    if snapshot.result is not None:
        message["result"] = literal_message(snapshot.result, shapes.shape)
    if snapshot.platform:
        message["execution_platform"] = snapshot.platform
    return message


# Detection of the type of a message.

_TEXT = ascii_regex(
    r"(?:\s++|#[^\n]*+)*+(?:(?P<HloSnapshot>hlo)\s*+:?\s*+[{<]|(?P<outer>hlo_module)\s*+:?\s*+[{<]"
    r"|(?P<HloModuleProto>(?:name|entry_computation_name)\s*+:\s*+[\"']|(?:entry_computation_id|id)\s*+:\s*+\d"
    r"|computations\s*+[{<]\s*+name\s*+:))"
)


def looks_like_proto(content: bytes | str) -> bool:
    """Whether bytes are one of the messages of FORMS in the wire format, or a text begins like one."""
    if isinstance(content, str):
        return _TEXT.match(content) is not None
    return content[:1] in _FIRST_TAGS and _name_of(content) is not None


_FIRST_TAGS = (b"\n", b"\x12", b"\x1a")  # fields 1 to 3, of type string or message


def _message(data: bytes | str) -> tuple[Proto, str]:
    if isinstance(data, bytes):
        name = _name_of(data)
        if name is not None:
            return decode(data, name), name
        try:
            data = data.decode()
        except UnicodeDecodeError:
            message = f"the bytes are not an HloModuleProto, HloProto or HloSnapshot{_broken(data)}"
            raise ParseError(message) from None
    found = _TEXT.match(data)
    if found is None:
        raise ParseError("the text is not an HloModuleProto, HloProto or HloSnapshot")
    name = found.lastgroup or ""
    if name == "outer":
        config = re.search(r"^config\s*+:?\s*+[{<]", data, re.M)
        name = "HloProto" if config is None else "HloModuleProtoWithConfig"
    return from_text(data, name), name


def _name_of(data: bytes) -> str | None:
    """The name of the type of message in `data`, found by the position of the module's computations in it;
    None if it is none of FORMS.
    """
    try:
        fields = _fields(data)
        if _is_module(fields):
            return "HloModuleProto"
        inner = _first(fields)
        if _is_module(_fields(inner)):
            return "HloModuleProtoWithConfig" if any(number == 2 for number, _ in fields) else "HloProto"
        if _is_module(_fields(_first(_fields(inner)))):
            return "HloSnapshot"
    except ParseError:
        pass
    return None


def _broken(data: bytes) -> str:
    """The reason why bytes are not a message at all, as a suffix for an error message; "" if they are a
    message.
    """
    try:
        unknown_fields(data)
    except ParseError as error:
        return f": {error.message}"
    return ""


def _fields(data: bytes) -> list[tuple[int, Any]]:
    return [(number, value) for number, _, value in unknown_fields(data)]


def _first(fields: list[tuple[int, Any]]) -> bytes:
    return next((value for number, value in fields if number == 1 and isinstance(value, bytes)), b"")


def _is_module(fields: list[tuple[int, Any]]) -> bool:
    """Whether these are the fields of an HloModuleProto: field 3 must be a computation with instructions."""
    known = TABLES["HloModuleProto"].by_number
    if not fields or fields[0][0] not in known:
        return False
    computation = next((value for number, value in fields if number == 3 and isinstance(value, bytes)), b"")
    try:
        inside = _fields(computation)
    except ParseError:
        return False
    return any(number == 2 and isinstance(value, bytes) for number, value in inside)
