"""The text format of messages (.pbtxt, .textproto), with the same tables as the wire format.

A field that is not in the tables is written under its number, as protocol buffers do, and can be read again.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from axla.core.cursor import Cursor, always
from axla.core.regex import ascii_regex
from axla.proto.schema import TABLES, Field, MessageType
from axla.proto.wire import ARRAY_TYPES, MAX_DEPTH, UNKNOWN, number_bytes, unknown_fields
from axla.text.lexer import unescaped
from axla.text.strings import quote

# Writing.


def to_text(message: dict[str, Any], name: str) -> str:
    """The text of a message of the type `name`."""
    lines: list[str] = []
    _write(message, TABLES[name], "", lines)
    return "\n".join(lines) + "\n" if lines else ""


def _write(message: dict[str, Any], table: MessageType, indent: str, lines: list[str]) -> None:
    for name, value in message.items():
        if name == UNKNOWN:
            lines += [
                f"{indent}{number}: {text}"
                for number, text in map(_unknown_text, unknown_fields(bytes(value)))
            ]
            continue
        field = table.fields[name]
        if field.array and isinstance(value, np.ndarray):
            value = value.tolist()
        for item in value if field.repeated else (value,):
            if field.message is not None:
                lines.append(f"{indent}{name} {{")
                _write(item, field.message, indent + "  ", lines)
                lines.append(indent + "}")
            elif item or field.repeated or field.present:
                lines.append(f"{indent}{name}: {_scalar_text(item, field)}")


def _scalar_text(value: Any, field: Field) -> str:
    if field.scalar in ("str", "bytes"):
        return quote(value if isinstance(value, str) else value.decode("utf-8", "surrogateescape"))
    if field.scalar == "bool":
        return "true" if value else "false"
    if field.scalar in ("f32", "f64"):
        text = repr(float(np.float32(value))) if field.scalar == "f32" else repr(float(value))
        return f"{value:.9g}" if field.scalar == "f32" and np.isfinite(value) else text
    return str(value)


def _unknown_text(found: tuple[int, int, bytes | int]) -> tuple[int, str]:
    number, wire, value = found
    if isinstance(value, bytes):
        if wire == 2:
            return number, quote(value.decode("utf-8", "surrogateescape"))
        return number, "0x" + value[::-1].hex()
    return number, str(value)


# Reading.

_BLANK = r"(?:\s++|#[^\n]*+)*+"
_NAME = ascii_regex(_BLANK + r"([A-Za-z_]\w*+|\d++)")
_VALUE = ascii_regex(
    _BLANK + r"(-?(?:0[xX][0-9a-fA-F]++|(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?\d++)?+f?|[A-Za-z_]\w*+))"
)
_STRING = ascii_regex(_BLANK + r"""("(?:[^"\\\n]|\\[\s\S])*+"|'(?:[^'\\\n]|\\[\s\S])*+')""")
_MARK = ascii_regex(_BLANK + r"([:{}<>\[\],;])")
_ESCAPE = ascii_regex(r"\\([0-7]{1,3}|[xX][0-9a-fA-F]{1,2}|[\s\S])")
_CLOSING = {"{": "}", "<": ">"}
_ANY = MessageType("a message", skips=True)


def from_text(text: str, name: str | MessageType) -> dict[str, Any]:
    """Reads a message of the type `name` from its text. ParseError, with line and column, for a malformed
    text.
    """
    return _Reader(text).message(TABLES[name] if isinstance(name, str) else name, "")


class _Reader(Cursor):
    blanks = always(ascii_regex(_BLANK))
    next_token = _MARK.match
    most_levels = MAX_DEPTH

    def mark(self, *wanted: str) -> str:
        """Reads the next mark if it is one of `wanted`, and returns it; else returns ""."""
        found = _MARK.match(self.text, self.pos)
        if found is None or found[1] not in wanted:
            return ""
        self.pos = found.end()
        return found[1]

    def message(self, table: MessageType, closing: str) -> dict[str, Any]:
        message: dict[str, Any] = {}
        while not (closing and self.mark(closing)):
            found = _NAME.match(self.text, self.pos)
            if found is None:
                if self.at_end() and not closing:
                    break
                self.fail(f"expected a field of {table.name}" + (f" or '{closing}'" if closing else ""))
            self.pos = found.end()
            if found[1][0].isdigit():
                self.unknown(message, int(found[1][:20]), found.start(1))
                continue
            field = table.fields.get(found[1])
            if field is not None:
                self.field(message, field, found.start(1))
            elif table.skips:
                self.leave_out()
            else:
                self.fail(f"{table.name} has no field '{found[1][:60]}'", found.start(1))
            self.mark(",", ";")
        for name in table.arrays:
            if name in message:
                message[name] = self.array(message[name], table.fields[name])
        return message

    def field(self, message: dict[str, Any], field: Field, at: int) -> None:
        if not self.mark(":") and field.message is None:
            self.fail(f"expected ':' after {field.name}")
        if field.repeated:
            values = message.setdefault(field.name, [])
            if not self.mark("["):
                values.append(self.value(field))
            elif not self.mark("]"):
                values.append(self.value(field))
                while self.mark(","):
                    values.append(self.value(field))
                if not self.mark("]"):
                    self.fail(f"expected ',' or ']' in {field.name}")
        elif field.name in message:
            self.fail(f"the field {field.name} is given twice", at)
        else:
            message[field.name] = self.value(field)

    def value(self, field: Field) -> Any:
        if field.message is not None:
            opening = self.mark("{", "<")
            if not opening:
                self.fail(f"expected '{{' to begin {field.name}")
            with self.inside("messages"):
                return self.message(field.message, _CLOSING[opening])
        if field.scalar in ("str", "bytes"):
            raw = self.string(field.name)
            return raw if field.scalar == "bytes" else raw.decode("utf-8", "surrogateescape")
        found = _VALUE.match(self.text, self.pos)
        if found is None:
            self.fail(f"expected a value of {field.name}")
        self.pos = found.end()
        try:
            return _scalar(found[1], field)
        except (ValueError, KeyError, OverflowError):
            self.fail(f"{found[1][:40]!r} is not a value of {field.name}", found.start(1))

    def leave_out(self) -> None:
        """Skips the value of an unknown field: a scalar, a message, or a list of these in brackets."""
        self.mark(":")
        brackets = bool(self.mark("["))
        while not (brackets and self.mark("]")):
            if opening := self.mark("{", "<"):
                with self.inside("messages"):
                    self.message(_ANY, _CLOSING[opening])
            elif (found := _VALUE.match(self.text, self.pos)) is not None:
                self.pos = found.end()
            else:
                self.string("the value of a field")
            if not brackets:
                break
            self.mark(",")

    def string(self, what: str) -> bytes:
        parts = []
        while (found := self.match(_STRING)) is not None:
            text = _ESCAPE.sub(unescaped, found[1][1:-1])
            parts.append(text.encode("utf-8", "surrogateescape"))
        if not parts:
            self.fail(f"expected a string in quotes as {what}")
        return b"".join(parts)

    def unknown(self, message: dict[str, Any], number: int, at: int) -> None:
        """Reads a field that is given by its number: a string, a number, or 4 or 8 bytes in hexadecimal."""
        if not self.mark(":") or not 0 < number < 1 << 29:
            self.fail("expected the number of a field, with ':' after it", at)
        if (found := self.match(_VALUE)) is not None:
            text = found[1]
            if not re.fullmatch(r"-?\d{1,20}|0x(?:[0-9a-f]{8}){1,2}", text):
                self.fail(f"{text[:40]!r} is not a value for a field given by its number", found.start(1))
            fixed = bytes.fromhex(text[2:])[::-1] if text.startswith("0x") else b""
            wire = {0: 0, 4: 5, 8: 1}[len(fixed)]
            behind = fixed or number_bytes(int(text))
        else:
            raw = self.string(f"field {number}")
            wire, behind = 2, number_bytes(len(raw)) + raw
        message.setdefault(UNKNOWN, bytearray()).extend(number_bytes(number << 3 | wire) + behind)

    def array(self, values: list[Any], field: Field) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.array(values, ARRAY_TYPES[field.scalar])


def _scalar(text: str, field: Field) -> Any:
    if field.enum is not None:
        if text.lstrip("-").isdigit():
            return field.enum.names.get(int(text[:12]), int(text[:12]))
        return text if field.enum.numbers[text] is not None else text
    if field.scalar == "bool":
        return {"true": True, "false": False, "1": True, "0": False, "t": True, "f": False}[text]
    if field.scalar in ("f32", "f64"):
        return float(text.removesuffix("f") if text[-2:-1].isdigit() else text)
    limits = np.iinfo(ARRAY_TYPES[field.scalar])
    value = int(text[:80], 0)
    if not limits.min <= value <= limits.max:
        raise OverflowError
    return value
