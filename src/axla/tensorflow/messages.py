"""The tables of TensorFlow's protocol buffer messages, read from protos.txt; see `axla.proto.schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from axla.proto import schema, text_format, wire
from axla.tensorflow.types import NAMES

TABLES, ENUMS = schema.read(Path(__file__).with_name("protos.txt"), skips=True)
NAMES.update(ENUMS["DataType"].names)


def decode(data: bytes, name: str) -> dict[str, Any]:
    """Decodes bytes as the named message; ParseError with the path of the field and the byte."""
    return wire.decode(data, TABLES[name])


def from_text(text: str, name: str) -> dict[str, Any]:
    """Parses text as the named message; ParseError with line and column."""
    return text_format.from_text(text, TABLES[name])


def encode(message: dict[str, Any], name: str) -> bytes:
    """Encodes a message as bytes; `name` is the name of its type."""
    return wire.encode(message, TABLES[name])
