"""The table of attributes and types in bytecode. An entry is decoded at its first use, once, without
recursion.

A dialect has an encoding for each code: the kinds of the fields of an entry, and a function that makes the
value from the fields. The kinds are:

    v  integer               s  signed integer          y  byte             f  64-bit float
    V  integers              S  signed integers         F  64-bit floats
    a  attribute             A  attributes              P  pairs of attributes
    t  type                  T  types                   n  string           N  strings, up to the end
    o  attribute or None (a flag in the lowest bit)
    O  attribute or None (an integer before it)         B  attribute or None (a byte before it)
    b  blob                  r  the rest, as bytes      R  key of a resource
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from axla.stablehlo import mlir
from axla.stablehlo.bytecode.wire import BadBytes, Bytes, varint

PENDING: Any = object()
MAX_DEPTH = 100  # levels of nested attributes and types
MAX_CALLS = 1000  # levels of nested locations
MAX_WEIGHT = 1 << 18  # entries nested in one entry, counted as often as they are referred to

Encoding = tuple[str, Callable[..., Any]]
Dialects = dict[str, tuple[dict[int, Encoding], dict[int, Encoding]]]


class Entries(Bytes):
    """The table of entries: first attributes, then types, with one numbering. `values` is PENDING for entries
    that are not decoded yet.

    `dialects` has the encodings of attributes and types by dialect and code; `assembly(text, is_type)` parses
    entries that are stored as text. The position is that of the entry being decoded.
    """

    def __init__(
        self, data: bytes, strings: list[str], dialects: Dialects, assembly: Callable[[str, bool], Any]
    ):
        super().__init__(data)
        self.strings = strings
        self.dialects = dialects
        self.assembly = assembly
        self.resources: list[str] = []
        self.attributes = self.types = 0
        self.values: list[Any] = []
        # begin, end, dialect, whether it is encoded (else text)
        self.spans: list[tuple[int, int, str, bool]] = []
        self.depths: list[int] = []
        self.weights: list[int] = []
        self.budget = (1 << 20) + 16 * len(data)  # characters that the texts of entries can still have
        self.needs: list[int] = []  # entries that the entry being decoded refers to

    def grow(self, spans: list[tuple[int, int, str, bool]], attributes: int) -> None:
        """Starts a new table: removes all decoded values. `spans` has, for each entry, its begin and end in
        the data, its dialect, and whether it is encoded in bytes, not as text. The first `attributes` entries
        are attributes, the others types.
        """
        self.spans = spans
        self.attributes = attributes
        self.types = len(spans) - attributes
        self.values = [PENDING] * len(spans)
        self.depths = [0] * len(spans)
        self.weights = [1] * len(spans)

    def attribute(self, index: int) -> Any:
        """The attribute with this number, decoded at the first use. Raises BadBytes if the number is too
        large.
        """
        if index >= self.attributes:
            raise BadBytes(f"reference to attribute {index}, but there are only {self.attributes}")
        value = self.values[index]
        return self._resolve(index) if value is PENDING else value

    def type(self, index: int) -> Any:
        """The type with this number, decoded at the first use. Raises BadBytes if the number is too large."""
        if index >= self.types:
            raise BadBytes(f"reference to type {index}, but there are only {self.types}")
        index += self.attributes
        value = self.values[index]
        return self._resolve(index) if value is PENDING else value

    def string(self, index: int) -> str:
        """The string with this number. Raises BadBytes if the number is too large."""
        if index >= len(self.strings):
            raise BadBytes(f"reference to string {index}, but there are only {len(self.strings)}")
        return self.strings[index]

    def _resolve(self, wanted: int) -> Any:
        """Decodes an entry after all entries that it refers to. A waiting entry is on the path from `wanted`
        to the entry being decoded, so a reference to a waiting entry is a cycle.
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
                        raise BadBytes("an attribute or type that contains itself")
                    stack.extend(missing)
                    continue
            self.at = self.spans[current][0]
            values[current] = self._build(current, *parsed)
            stack.pop()
        return values[wanted]

    def _parse(self, entry: int) -> tuple[str, Callable[..., Any], list[Any], list[int]]:
        """Returns the kinds of an entry's fields, the function that decodes it, the fields, and the entries
        that they refer to.
        """
        self.at, self.end, dialect, encoded = self.spans[entry]
        is_type = entry >= self.attributes
        if not encoded:
            text = self.data[self.at : self.end]
            if not text or text.find(0) != len(text) - 1:
                raise BadBytes("an attribute or type in text form that does not end with a zero byte")
            value = self.assembly(text[:-1].decode("utf-8", "surrogateescape"), is_type)
            return "", lambda: value, [], []
        code = self.varint()
        encoding = self.dialects.get(dialect, ({}, {}))[is_type].get(code)
        if encoding is None:
            what = "type" if is_type else "attribute"
            raise BadBytes(f"{what} of dialect {dialect!r} with the code {code}, which is not known here")
        kinds, build = encoding
        needs = self.needs = []
        fields = [_READ[kind](self) for kind in kinds]
        if self.at != self.end:
            raise BadBytes(f"an entry that ends at byte {self.at} instead of byte {self.end}")
        return kinds, build, fields, needs

    # ---- Fields

    def _reference(self, index: int, is_type: bool = False) -> int:
        """Converts the number of an attribute, or of a type if `is_type`, to the common numbering. Adds the
        result to `needs`, the entries that the entry being decoded refers to.
        """
        if index >= (self.types if is_type else self.attributes):
            raise BadBytes(f"reference to {'type' if is_type else 'attribute'} {index}, which is missing")
        index += self.attributes * is_type
        self.needs.append(index)
        return index

    def _attribute(self) -> int:
        index, self.at = varint(self.data, self.at)
        return self._reference(index)

    def _type(self) -> int:
        return self._reference(self.varint(), True)

    def _pairs(self) -> tuple[int, ...]:
        return tuple([self._attribute() for _ in range(2 * self.count("references"))])

    def _optional(self) -> int | None:
        index, there = self.flagged(True, False)
        return self._reference(index) if there else None

    def _string(self) -> str:
        return self.string(self.varint())

    def _strings(self) -> tuple[str, ...]:
        found = []
        while self.at < self.end:
            found.append(self._string())
        return tuple(found)

    def _rest(self) -> bytes:
        begin, self.at = self.at, max(self.at, self.end)
        return self.data[begin : self.end]

    def _resource(self) -> str:
        index = self.varint()
        if index >= len(self.resources):
            raise BadBytes(f"reference to resource {index} of only {len(self.resources)}")
        return self.resources[index]

    def _build(
        self, entry: int, kinds: str, build: Callable[..., Any], fields: list[Any], needs: list[int]
    ) -> Any:
        values, depths, weights = self.values, self.depths, self.weights
        if needs:
            depth = 1 + max([depths[i] for i in needs])
            weight = 1 + sum([weights[i] for i in needs])
            if depth > MAX_CALLS or weight > MAX_WEIGHT:
                raise BadBytes(f"attributes or types nested {depth} deep with {weight} of them in all")
            depths[entry] = depth
            weights[entry] = weight
            for i, kind in enumerate(kinds):
                if kind in "atoOB" and fields[i] is not None:
                    fields[i] = values[fields[i]]
                elif kind in "ATP":
                    fields[i] = tuple([values[j] for j in fields[i]])
        value = build(*fields)
        if needs and depths[entry] > MAX_DEPTH and not isinstance(value, mlir.Location):
            raise BadBytes(f"attributes or types nested {depths[entry]} deep")
        if isinstance(value, mlir.OpaqueAttr):
            self.spend(len(value.text))
        return value

    def spend(self, characters: int) -> None:
        """Counts characters against the limit for all texts, since one long text can be referred to many
        times.
        """
        self.budget -= characters
        if self.budget < 0:
            raise BadBytes("its texts are much longer than the file")


_READ: dict[str, Callable[[Entries], Any]] = {
    "v": Entries.varint, "s": Entries.signed, "y": Entries.byte, "f": Entries.double,
    "V": lambda place: place.several(place.varint), "F": lambda place: place.several(place.double),
    "S": lambda place: place.several(place.signed, "integers"),
    "a": Entries._attribute, "A": lambda place: place.several(place._attribute, "references"),
    "t": Entries._type, "T": lambda place: place.several(place._type, "references"),
    "P": Entries._pairs, "n": Entries._string, "N": Entries._strings,
    "o": Entries._optional, "O": lambda place: place._attribute() if place.varint() else None,
    "B": lambda place: place._attribute() if place.byte() else None,
    "b": Entries.blob, "r": Entries._rest, "R": Entries._resource,
}  # fmt: skip
