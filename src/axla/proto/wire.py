"""The wire format: converts bytes to messages and back, with the tables of `schema`.

A message is a dict from field names to values: int, bool, float, str, bytes, the name of an enumeration value
(a number if it has no name), a message, a list of these, or a NumPy array. The key "" has the bytes of
unknown fields, which are written again unchanged. Repeated numbers may be packed or not.

The input is not trusted: a length must not exceed the enclosing message, messages are nested at most
MAX_DEPTH levels deep, and the memory for the result is at most a fixed multiple of the input. Equal shapes,
and equal metadata, of one input are read once and share a dict, which must not be changed.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from axla.core.errors import InvalidArgument, ParseError
from axla.proto.schema import TABLES, Field, MessageType

MAX_DEPTH = 100
UNKNOWN = ""
SHARED = frozenset(["ShapeProto", "OpMetadata"])
ARRAY_TYPES = {
    "i32": "<i4",
    "i64": "<i8",
    "u32": "<u4",
    "u64": "<u8",
    "f32": "<f4",
    "f64": "<f8",
    "bool": "?",
}

# The ways to read the bytes after a tag.
_MESSAGE, _INT, _UNSIGNED, _BOOL, _ENUM, _STRING, _BYTES, _F32, _F64, _PACKED, _ARRAY = range(11)
_HOW = {
    "i32": _INT, "i64": _INT, "u32": _UNSIGNED, "u64": _UNSIGNED, "bool": _BOOL, "enum": _ENUM, "f32": _F32,
    "f64": _F64, "str": _STRING, "bytes": _BYTES, "message": _MESSAGE,
}  # fmt: skip
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_WIRE = {"f32": _FIXED32, "f64": _FIXED64, "str": _LENGTH, "bytes": _LENGTH, "message": _LENGTH}


class BadProto(Exception):
    """An error in the bytes of a message, with the offset of the byte."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message, self.at, self.path = message, at, []


def decode(data: bytes, name: str | MessageType) -> dict[str, Any]:
    """Reads a message of the type `name` from bytes. ParseError, with the path of the field and the byte, for
    malformed bytes.
    """
    table = TABLES[name] if isinstance(name, str) else name
    try:
        return _Reader(data).message(0, len(data), table, 0)
    except BadProto as error:
        path = ".".join([table.name, *reversed(error.path)])
        raise ParseError(f"{path}: {error.message}, at byte {error.at}") from None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.shared: dict[tuple[str, bytes], dict[str, Any]] = {}

    def message(self, pos: int, end: int, table: MessageType, depth: int) -> dict[str, Any]:
        """Reads the message of the type `table` between the offsets `pos` and `end`. `depth` is the number of
        messages around it.
        """
        if depth > MAX_DEPTH:
            raise BadProto(f"messages are nested more than {MAX_DEPTH} levels deep", pos)
        message: dict[str, Any] = {}
        data, by_tag = self.data, table.by_tag or _fill(table)
        field: Field | None = None
        try:
            while pos < end:
                begin = pos
                tag = data[pos]
                pos += 1
                if tag >= 128:
                    tag, pos = varint(data, begin, end)
                field, how = by_tag.get(tag, _NOT_THERE)
                if field is None:
                    pos = _skipped(data, tag, pos, end)
                    message.setdefault(UNKNOWN, bytearray()).extend(data[begin:pos])
                    continue
                wire = tag & 7
                if wire == _LENGTH:
                    length, pos = varint(data, pos, end)
                    if length > end - pos:
                        raise BadProto(f"the length is {length} bytes, but {end - pos} bytes are left", begin)
                    value = self.delimited(pos, pos + length, field, how, depth, message)
                    pos += length
                elif wire == _VARINT:
                    value, pos = varint(data, pos, end)
                    if how != _UNSIGNED and (how != _INT or value >> 63):
                        value = _plain(value, field)
                else:
                    value, pos = _fixed(data, pos, end, field)
                if not field.repeated:
                    message[field.name] = value
                elif value is not None:
                    message.setdefault(field.name, []).append(value)
        except BadProto as error:
            if field is not None:
                number = f"[{len(message.get(field.name, ()))}]" if field.repeated else ""
                error.path.append(field.name + number)
            raise
        for name in table.arrays:
            if name in message:
                message[name] = _joined(message[name], table.fields[name])
        return message

    def delimited(self, pos: int, end: int, field: Field, how: int, depth: int, outer: dict[str, Any]) -> Any:
        """Reads the content of a field that begins with its length: the bytes from `pos` to `end`, without
        the length. `how` is the kind of content (`_MESSAGE`, `_STRING`...), `depth` the number of messages
        around it. Returns the value; the numbers of a packed field are appended to its list in `outer`
        instead, and None is returned.
        """
        if how == _MESSAGE:
            return self._inner(pos, end, field, depth, outer)
        if how == _STRING:
            return str(self.data[pos:end], "utf-8", "surrogateescape")
        if how == _BYTES:
            return self.data[pos:end]
        if how == _ARRAY:
            return _array(self.data, pos, end, field)
        outer.setdefault(field.name, []).extend(_unpacked(self.data, pos, end, field))
        return None

    def _inner(self, pos: int, end: int, field: Field, depth: int, outer: dict[str, Any]) -> dict[str, Any]:
        table = field.message
        assert table is not None
        if not field.repeated and field.name in outer:
            # Protobuf allows this and merges the two messages, but no known writer does it.
            raise BadProto("the field is given twice", pos)
        if table.name not in SHARED:
            return self.message(pos, end, table, depth + 1)
        key = (table.name, self.data[pos:end])
        found = self.shared.get(key)
        if found is None:
            found = self.message(pos, end, table, depth + 1)
            if depth <= 6:  # deeper messages are not shared, which limits the memory for keys
                self.shared[key] = found
        return found


_NOT_THERE: tuple[Any, int] = (None, 0)


def _fill(table: MessageType) -> dict[int, tuple[Field, int]]:
    """Makes the table of a message's fields by tag, and returns it: each field and the kind of its content. A
    repeated number has two tags: packed and not.
    """
    for number, field in table.by_number.items():
        wire = _WIRE.get(field.scalar, _VARINT)
        table.by_tag[number << 3 | wire] = (field, _HOW[field.scalar])
        if field.repeated and wire != _LENGTH:
            table.by_tag[number << 3 | _LENGTH] = (field, _ARRAY if field.array else _PACKED)
    return table.by_tag


def varint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Reads a number in groups of seven bits, between the offsets `pos` and `end`. Returns (number, offset
    after it). BadProto for an invalid number.
    """
    value = shift = 0
    while pos < end:
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, pos
        shift += 7
        if shift > 63:
            raise BadProto("a number has more than ten bytes", pos - 10)
    raise BadProto("a number does not end", pos)


def _skipped(data: bytes, tag: int, pos: int, end: int) -> int:
    """The offset after a field that the table of the message does not have; `pos` is the offset after its
    `tag`.
    """
    number, wire = tag >> 3, tag & 7
    if number == 0 or number >> 29:
        raise BadProto(f"the field number {number} is not valid", pos - 1)
    if wire == _VARINT:
        return varint(data, pos, end)[1]
    if wire == _LENGTH:
        length, pos = varint(data, pos, end)
    elif wire in (_FIXED32, _FIXED64):
        length = 4 if wire == _FIXED32 else 8
    else:
        raise BadProto(f"field {number} is of wire type {wire}, which protobuf does not define", pos)
    if length > end - pos:
        raise BadProto(f"field {number} has {length} bytes, but {end - pos} bytes are left", pos)
    return pos + length


def _fixed(data: bytes, pos: int, end: int, field: Field) -> tuple[Any, int]:
    """Reads a float of 4 or 8 bytes at the offset `pos`; the data ends at `end`. Returns (number, offset
    after it).
    """
    size = 4 if field.scalar == "f32" else 8
    if size > end - pos:
        raise BadProto(f"a number of {size} bytes is wanted, but {end - pos} bytes are left", pos)
    if field.array:
        return np.frombuffer(data, ARRAY_TYPES[field.scalar], 1, pos), pos + size
    return struct.unpack_from("<f" if size == 4 else "<d", data, pos)[0], pos + size


def _plain(value: int, field: Field) -> Any:
    if field.scalar == "bool":
        return value != 0
    if field.enum is not None:
        value = value - (1 << 64) if value >> 63 else value
        return field.enum.names.get(value, value)
    if field.array:
        signed = value - (1 << 64) if value >> 63 and field.scalar[0] == "i" else value
        return np.array([signed & (1 << 32) - 1 if field.scalar[1:] == "32" else signed]).astype(
            ARRAY_TYPES[field.scalar]
        )
    return value - (1 << 64) if value >> 63 and field.scalar[0] == "i" else value


def _unpacked(data: bytes, pos: int, end: int, field: Field) -> list[Any]:
    """Reads the packed numbers between the offsets `pos` and `end` as a list."""
    if field.scalar in ("f32", "f64"):
        return _array(data, pos, end, field).tolist()
    if field.scalar in ("i64", "i32", "u32", "u64") and data[pos:end].isascii():
        return list(data[pos:end])  # each byte is a number, as most sizes and dimensions are
    if end - pos > 100:
        values = _varints(data, pos, end).tolist()
    else:  # reading a few one by one is faster
        values = []
        while pos < end:
            value, pos = varint(data, pos, end)
            values.append(value)
    return [_plain(v, field) for v in values]


def _array(data: bytes, pos: int, end: int, field: Field) -> np.ndarray:
    """Reads the packed numbers between the offsets `pos` and `end` as an array."""
    kind = np.dtype(ARRAY_TYPES[field.scalar])
    if kind.kind != "f":
        return _varints(data, pos, end).astype(kind)
    if (end - pos) % kind.itemsize:
        raise BadProto(f"{end - pos} bytes do not divide into numbers of {kind.itemsize}", pos)
    return np.frombuffer(data, kind, (end - pos) // kind.itemsize, pos)


def _varints(data: bytes, pos: int, end: int) -> np.ndarray:
    """Reads packed numbers of one to ten bytes each, between the offsets `pos` and `end`, all at once."""
    raw = np.frombuffer(data, np.uint8, end - pos, pos)
    if not raw.size or raw.max() < 128:
        return raw.astype(np.uint64)
    ends = np.flatnonzero(raw < 128)
    if not ends.size or ends[-1] != raw.size - 1:
        raise BadProto("a number does not end", end)
    starts = np.concatenate([[0], ends[:-1] + 1])
    longest = int((ends - starts).max()) + 1
    if longest > 10:
        raise BadProto("a number has more than ten bytes", pos)
    values = np.zeros(ends.size, np.uint64)
    for n in range(longest):
        there = starts + n <= ends
        values[there] |= (raw[starts[there] + n].astype(np.uint64) & np.uint64(127)) << np.uint64(7 * n)
    return values


def _joined(parts: Any, field: Field) -> np.ndarray:
    parts = parts if isinstance(parts, list) else [parts]
    flat = [np.atleast_1d(np.asarray(p, ARRAY_TYPES[field.scalar])) for p in parts]
    return flat[0] if len(flat) == 1 else np.concatenate(flat)


def unknown_fields(data: bytes) -> list[tuple[int, int, Any]]:
    """Reads the fields of a message of unknown type: (number, wire type, bytes or a number) of each."""
    found, pos, end = [], 0, len(data)
    try:
        while pos < end:
            tag, begin = varint(data, pos, end)
            pos = _skipped(data, tag, begin, end)
            if tag & 7 == _VARINT:
                value: Any = varint(data, begin, end)[0]
            else:
                value = data[varint(data, begin, end)[1] if tag & 7 == _LENGTH else begin : pos]
            found.append((tag >> 3, tag & 7, value))
    except BadProto as error:
        raise ParseError(f"{error.message}, at byte {error.at}") from None
    return found


# Writing.


def encode(message: dict[str, Any], name: str | MessageType) -> bytes:
    """The bytes of a message of the type `name`."""
    return bytes(_Writer().message(message, TABLES[name] if isinstance(name, str) else name))


class _Writer:
    def __init__(self) -> None:
        self.shared: dict[int, bytes] = {}  # by id of the dict, which the message keeps alive

    def message(self, message: dict[str, Any], table: MessageType) -> bytearray:
        out = bytearray()
        for name, value in message.items():
            if name == UNKNOWN:
                out += value
                continue
            field = table.fields[name]
            if field.scalar == "message":
                for item in value if field.repeated else (value,):
                    inner = self._inner(item, field)
                    out += number_bytes(field.number << 3 | _LENGTH) + number_bytes(len(inner)) + inner
            elif not field.repeated:
                if value or field.present:
                    out += _scalar(value, field)
            elif len(value):
                if field.scalar in ("str", "bytes"):
                    for item in value:
                        out += _scalar(item, field)
                else:
                    packed = _packed(value, field)
                    out += number_bytes(field.number << 3 | _LENGTH) + number_bytes(len(packed)) + packed
        return out

    def _inner(self, value: dict[str, Any], field: Field) -> bytes | bytearray:
        table = field.message
        assert table is not None
        if table.name not in SHARED:
            return self.message(value, table)
        found = self.shared.get(id(value))
        if found is None:
            found = self.shared[id(value)] = bytes(self.message(value, table))
        return found


_SMALL = tuple(bytes([n]) for n in range(128))


def number_bytes(value: int) -> bytes:
    """A number in groups of seven bits, as bytes."""
    if 0 <= value < 128:
        return _SMALL[value]
    if not -(1 << 63) <= value < 1 << 64:
        raise InvalidArgument(f"proto: {value} does not fit in 64 bits")
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _scalar(value: Any, field: Field) -> bytes:
    """The bytes of a field that is not packed, with its tag."""
    tag, kind = field.number << 3, field.scalar
    if kind in ("str", "bytes"):
        raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        return number_bytes(tag | _LENGTH) + number_bytes(len(raw)) + raw
    if kind in ("f32", "f64"):
        return number_bytes(tag | _WIRE[kind]) + _float(value, kind)
    return number_bytes(tag) + number_bytes(_as_number(value, field))


def _float(value: float, kind: str) -> bytes:
    if kind == "f64":
        return struct.pack("<d", value)
    with np.errstate(all="ignore"):
        return np.float32(value).tobytes()


def _as_number(value: Any, field: Field) -> int:
    if field.enum is not None and isinstance(value, str):
        return field.enum.numbers[value]
    return int(value)


def _packed(values: Any, field: Field) -> bytes:
    if field.scalar in ("f32", "f64"):
        return np.asarray(values, ARRAY_TYPES[field.scalar]).tobytes()
    if not field.array:
        return b"".join([number_bytes(_as_number(v, field)) for v in values])
    wide = np.asarray(values).astype(np.int64 if field.scalar[0] == "i" else np.uint64).view(np.uint64)
    return _packed_varints(wide)


def _packed_varints(values: np.ndarray) -> bytes:
    """The bytes of packed numbers of one to ten bytes each, all at once."""
    if not values.size or values.max() < 128:
        return values.astype(np.uint8).tobytes()
    lengths = np.ones(values.size, np.int64)
    for n in range(1, 10):
        lengths += (values >> np.uint64(7 * n)) != 0
    starts = np.concatenate([[0], np.cumsum(lengths)])
    out = np.zeros(starts[-1], np.uint8)
    for n in range(int(lengths.max())):
        there = lengths > n
        part = (values[there] >> np.uint64(7 * n)).astype(np.uint64) & np.uint64(127)
        more = (lengths[there] > n + 1).astype(np.uint64) << np.uint64(7)
        out[starts[:-1][there] + n] = (part | more).astype(np.uint8)
    return out.tobytes()
