"""The table of attributes and types: decoded when asked for, each once, without recursion.

A dialect describes an entry by its code: the kinds of its fields and a function of their values.

    v  integer               s  signed integer          y  byte             f  64-bit float
    V  integers              S  signed integers         F  64-bit floats
    a  attribute             A  attributes              P  pairs of attributes
    t  type                  T  types                   n  string           N  strings, to the end
    o  attribute or None (flag in the lowest bit)       O, B  the same (an integer or a byte before it)
    b  blob                  r  the rest, as bytes      R  key of a resource
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from axla.stablehlo import mlir
from axla.stablehlo.bytecode.wire import Malformed, bounded, signed, signed_list, varint, varint_list

PENDING: Any = object()
MAX_DEPTH = 100  # of attributes and types within another
MAX_CALLS = 1000  # of locations within another
MAX_WEIGHT = 1 << 18  # entries within another, counted as often as they are referred to

Encoding = tuple[str, Callable[..., Any]]


class Entries:
    """Attributes first, then types, in one numbering; `values` has PENDING for those nobody asked for."""

    def __init__(self, data: bytes, strings: list[str]):
        self.data = data
        self.strings = strings
        self.resources: list[str] = []
        self.attributes = self.types = 0
        self.values: list[Any] = []
        self.spans: list[tuple[int, int, str, bool]] = []  # begin, end, dialect, whether encoded by it
        self.depths: list[int] = []
        self.weights: list[int] = []
        self.dialects: dict[str, tuple[dict[int, Encoding], dict[int, Encoding]]] = {}
        self.assembly: Callable[[str, bool], Any] | None = None
        self.room = (1 << 20) + 16 * len(data)  # characters that texts made of others can still have
        self.at = 0  # where the entry is that is being decoded, for messages

    def grow(self, spans: list[tuple[int, int, str, bool]], attributes: int) -> None:
        self.spans = spans
        self.attributes = attributes
        self.types = len(spans) - attributes
        self.values = [PENDING] * len(spans)
        self.depths = [0] * len(spans)
        self.weights = [1] * len(spans)

    def attribute(self, index: int) -> Any:
        if index >= self.attributes:
            raise Malformed(f"attribute {index} of {self.attributes}")
        value = self.values[index]
        return self._resolve(index) if value is PENDING else value

    def type(self, index: int) -> Any:
        if index >= self.types:
            raise Malformed(f"type {index} of {self.types}")
        index += self.attributes
        value = self.values[index]
        return self._resolve(index) if value is PENDING else value

    def string(self, index: int) -> str:
        if index >= len(self.strings):
            raise Malformed(f"string {index} of {len(self.strings)}")
        return self.strings[index]

    def _resolve(self, wanted: int) -> Any:
        """Decodes the entry after all that it refers to. An entry waits while it is on the path to what is
        being decoded: coming upon a waiting one means that it refers to itself.
        """
        values = self.values
        waiting: dict[int, tuple[str, Callable[..., Any], list[Any], list[int]]] = {}
        stack = [wanted]
        while stack:
            current = stack[-1]
            if values[current] is not PENDING:
                stack.pop()
                continue
            parsed = waiting.pop(current, None)
            if parsed is None:
                parsed = self._parse(current)
                missing = [i for i in parsed[3] if values[i] is PENDING]
                if missing:
                    waiting[current] = parsed
                    if any(i in waiting for i in missing):
                        raise Malformed("an attribute or type that contains itself")
                    stack.extend(missing)
                    continue
            self.at = self.spans[current][0]
            values[current] = self._build(current, *parsed)
            stack.pop()
        return values[wanted]

    def _parse(self, entry: int) -> tuple[str, Callable[..., Any], list[Any], list[int]]:
        begin, end, dialect, encoded = self.spans[entry]
        self.at = begin
        if not encoded:
            text = self.data[begin:end]
            if not text or text.find(0) != len(text) - 1:
                raise Malformed("an attribute or type in text form that does not end with a zero byte")
            assert self.assembly is not None
            value = self.assembly(text[:-1].decode("utf-8", "surrogateescape"), entry >= self.attributes)
            return "", lambda: value, [], []
        code, at = varint(self.data, begin)
        is_type = entry >= self.attributes
        encoding = self.dialects.get(dialect, ({}, {}))[is_type].get(code)
        if encoding is None:
            what = "type" if is_type else "attribute"
            raise Malformed(f"{what} of dialect {dialect!r} with the code {code}, which is not known here")
        kinds, build = encoding
        fields, at, needs = self._fields(kinds, at, end)
        if at != end:
            raise Malformed(f"an entry that ends at byte {at} instead of byte {end}")
        return kinds, build, fields, needs

    def _reference(self, index: int, is_type: bool) -> int:
        if index >= (self.types if is_type else self.attributes):
            raise Malformed(f"reference to {'type' if is_type else 'attribute'} {index}, which is not there")
        return index + self.attributes if is_type else index

    def _fields(self, kinds: str, at: int, end: int) -> tuple[list[Any], int, list[int]]:
        data = self.data
        fields: list[Any] = []
        needs: list[int] = []
        for kind in kinds:
            if kind in "at":
                value, at = varint(data, at)
                value = self._reference(value, kind == "t")
                needs.append(value)
            elif kind in "ATP":
                value, at = self._references(kind, at, end)
                needs.extend(value)
            elif kind == "v":
                value, at = varint(data, at)
            elif kind in "sf":
                value, at = varint(data, at)
                value = signed(value) if kind == "s" else _double(value)
            elif kind == "n":
                value, at = varint(data, at)
                value = self.string(value)
            elif kind in "oOB":
                value, at = self._optional(kind, at)
                if value is not None:
                    needs.append(value)
            else:
                value, at = self._plain(kind, at, end)
            if at > end:
                raise Malformed(f"an entry that goes on after its end at byte {end}")
            fields.append(value)
        return fields, at, needs

    def _optional(self, kind: str, at: int) -> tuple[int | None, int]:
        flag, after = (self.data[at], at + 1) if kind == "B" else varint(self.data, at)
        if kind == "o":
            return (self._reference(flag >> 1, False) if flag & 1 else None), after
        if not flag:
            return None, after
        index, after = varint(self.data, after)
        return self._reference(index, False), after

    def _references(self, kind: str, at: int, end: int) -> tuple[tuple[int, ...], int]:
        count, at = varint(self.data, at)
        if kind == "P":
            count *= 2
        bounded(count, end - at, "references")
        found = []
        for _ in range(count):
            value, at = varint(self.data, at)
            found.append(self._reference(value, kind == "T"))
        return tuple(found), at

    def _plain(self, kind: str, at: int, end: int) -> tuple[Any, int]:
        """Fields that are rarer and refer to no entries."""
        data = self.data
        if kind == "S":
            return signed_list(data, at, end)
        if kind == "V":
            return varint_list(data, at, end)
        if kind == "F":
            values, at = varint_list(data, at, end)
            return tuple(map(_double, values)), at
        if kind == "y":
            return data[at], at + 1
        if kind == "b":
            size, at = varint(data, at)
            bounded(size, end - at, "bytes of data")
            return data[at : at + size], at + size
        if kind == "r":
            return data[at:end], max(at, end)
        if kind == "R":
            index, at = varint(data, at)
            if index >= len(self.resources):
                raise Malformed(f"resource {index} of {len(self.resources)}")
            return self.resources[index], at
        assert kind == "N"
        found = []
        while at < end:
            index, at = varint(data, at)
            found.append(self.string(index))
        return tuple(found), at

    def _build(
        self, entry: int, kinds: str, build: Callable[..., Any], fields: list[Any], needs: list[int]
    ) -> Any:
        values, depths, weights = self.values, self.depths, self.weights
        if needs:
            depth = 1 + max([depths[i] for i in needs])
            weight = 1 + sum([weights[i] for i in needs])
            if depth > MAX_CALLS or weight > MAX_WEIGHT:
                raise Malformed(f"attributes or types nested {depth} deep with {weight} of them in all")
            depths[entry] = depth
            weights[entry] = weight
            for i, kind in enumerate(kinds):
                if kind in "atoOB":
                    if fields[i] is not None:
                        fields[i] = values[fields[i]]
                elif kind in "ATP":
                    fields[i] = tuple([values[j] for j in fields[i]])
        value = build(*fields)
        if needs and depths[entry] > MAX_DEPTH and not isinstance(value, mlir.Location):
            raise Malformed(f"attributes or types nested {depths[entry]} deep")
        if isinstance(value, mlir.OpaqueAttr):
            self.spend(len(value.text))
        return value

    def spend(self, characters: int) -> None:
        """Takes from the room for texts: many can be made of one long one."""
        self.room -= characters
        if self.room < 0:
            raise Malformed("texts that are much longer than the file")


def _double(zigzag: int) -> float:
    return struct.unpack("<d", (signed(zigzag) & (1 << 64) - 1).to_bytes(8, "little"))[0]
