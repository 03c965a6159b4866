"""The messages of XLA's protocol buffers that axla knows, as tables read from messages.txt. tfcompile.txt has
those of the configuration of tfcompile.

Fields with names `axla_...` are axla's own: attributes of module headers and instructions that XLA has no
fields for. XLA ignores their numbers as unknown fields.
"""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from axla.core.dataclass import dataclass

SCALARS = ("i32", "i64", "u32", "u64", "bool", "f32", "f64", "str", "bytes")


@dataclass(slots=True)
class Enum:
    """An enumeration: its numbers by name, and its names by number."""

    name: str
    numbers: dict[str, int]
    names: dict[int, str]


@dataclass(slots=True, eq=False)
class Field:
    """A field of a message, as declared in its `.proto` file."""

    number: int
    name: str
    scalar: str  # one of SCALARS, "enum" or "message"
    repeated: bool
    array: bool  # whether a repeated field is a NumPy array
    present: bool  # whether a zero is written, too
    enum: Enum | None = None
    message: MessageType | None = None


@dataclass(slots=True, eq=False)
class MessageType:
    """A type of messages: its fields by name and by number."""

    name: str
    fields: dict[str, Field] = field(default_factory=dict)
    by_number: dict[int, Field] = field(default_factory=dict)
    arrays: tuple[str, ...] = ()
    by_tag: dict = field(default_factory=dict)  # filled by the wire reader
    skips: bool = False  # whether the text reader ignores unknown fields


def _entries(file: str | Path) -> dict[str, str]:
    """Reads the entries `name: text` of a file. An indented line continues the entry before it."""
    found: dict[str, str] = {}
    name = ""
    for line in (Path(__file__).parent / file).read_text("utf-8").splitlines():
        if line and line[0] not in " #":
            name, _, line = line.partition(":")
            found[name] = ""
        if line and line[0] != "#":
            found[name] += line
    return found


def _enum(name: str, text: str) -> Enum:
    numbers = {word.partition("=")[0]: int(word.partition("=")[2]) for word in text.split()}
    return Enum(name, numbers, {number: word for word, number in numbers.items()})


def _tables(entries: dict[str, str], enums: dict[str, Enum], skips: bool) -> dict[str, MessageType]:
    tables = {name: MessageType(name, skips=skips) for name in entries}
    for name, text in entries.items():
        table = tables[name]
        for line in text.split(","):
            number, field_name, type_ = line.split()
            kind = type_.rstrip("*[]?")
            repeated, array = type_.endswith(("*", "[]")), type_.endswith("[]")
            scalar = kind if kind in SCALARS else "enum" if kind in enums else "message"
            made = Field(
                int(number), field_name, scalar, repeated, array, type_.endswith("?"), enums.get(kind),
                tables[kind] if scalar == "message" else None,
            )  # fmt: skip
            table.fields[field_name] = table.by_number[made.number] = made
        table.arrays = tuple(f.name for f in table.fields.values() if f.array)
    return tables


def read(file: str | Path, skips: bool = False) -> tuple[dict[str, MessageType], dict[str, Enum]]:
    """Reads a file of declarations, given as a path or as a name in this folder. Returns (message types,
    enumerations) by name. If `skips`, the text reader ignores unknown fields of these messages.
    """
    entries = _entries(file)
    enums = {name: _enum(name, text) for name, text in entries.items() if "=" in text}
    messages = {name: text for name, text in entries.items() if name not in enums}
    return _tables(messages, enums, skips), enums


TABLES, ENUMS = read("messages.txt")
