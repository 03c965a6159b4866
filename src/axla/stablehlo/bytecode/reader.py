"""Reads a bytecode file: sections, strings, dialects and operations by name, entries, properties,
resources.
"""

from __future__ import annotations

from axla.core.collector import collector_paused
from axla.core.errors import ParseError
from axla.stablehlo import mlir
from axla.stablehlo.bytecode import builtin, native, sharding, vhlo, wire
from axla.stablehlo.bytecode.entries import Dialects, Entries
from axla.stablehlo.bytecode.operations import BytecodeOperations
from axla.stablehlo.bytecode.wire import BadBytes, Bytes, bounded

MAGIC = b"ML\xefR"
NEWEST = 6  # the newest version of MLIR's bytecode that is read
DIALECT_VERSIONS, NAME_COUNT, REGISTERED = 1, 4, 5  # the versions that introduced them
ENCODINGS: Dialects = {
    "builtin": (builtin.ATTRIBUTES, builtin.TYPES), "vhlo": (vhlo.ATTRIBUTES, vhlo.TYPES),
    "stablehlo": (native.ATTRIBUTES, native.TYPES), "chlo": (native.CHLO_ATTRIBUTES, {}),
    "sdy": (sharding.ATTRIBUTES, {}), "quant": ({}, {4: vhlo.TYPES[24], 5: vhlo.TYPES[30]}),
}  # fmt: skip


def read(data: bytes) -> mlir.Source:
    """Reads a portable artifact (VHLO of any version) or plain bytecode; returns the module as current
    StableHLO. `version` of the result is the producer that the file names, such as `StableHLO_v1.9.0`.
    """
    reader = _Reader(bytes(data))
    try:
        with collector_paused():
            return reader.read()
    except BadBytes as error:
        message = str(error)[:400]
    except IndexError:
        message = "the file ends too early"
    raise ParseError(f"bytecode, at byte {reader.where()}: {message}")


class _Reader:
    def __init__(self, data: bytes):
        self.data = data
        self.place = Bytes(data, 4)
        self.version = 0
        self.sections: dict[int, Bytes] = {}
        self.entries: Entries | None = None
        self.operations: BytecodeOperations | None = None

    def where(self) -> int:
        """The position for error messages: that of the last entry decoded or, before the first one, that of
        the section being read.
        """
        if self.entries and self.entries.at:
            return self.entries.at
        return (self.operations or self.place).at

    def read(self) -> mlir.Source:
        data = self.data
        if data[:4] != MAGIC:
            raise BadBytes("not MLIR bytecode: the first bytes are not 'ML\\xefR'")
        self.version = self.place.varint()
        if self.version > NEWEST:
            raise BadBytes(f"bytecode of version {self.version}; the newest that is read is {NEWEST}")
        end = data.find(0, self.place.at)
        if end < 0:
            raise IndexError
        producer = data[self.place.at : end].decode("utf-8", "replace")
        self.place.at = end + 1
        self._sections()
        entries = self.entries = Entries(data, self._strings(), ENCODINGS, builtin.assembly)
        dialects, names = self._dialects(entries)
        resources = self._resources(entries)
        self._entry_spans(entries, dialects)
        properties = self._properties()
        self.operations = BytecodeOperations(
            self._section(wire.IR_SECTION), self.version, entries, names, properties
        )
        operations = self.operations.read()
        if len(operations) != 1 or operations[0].name != "builtin.module":
            raise BadBytes("operations other than one module at the top")
        module = operations[0]
        if len(module.regions) != 1 or len(module.regions[0].blocks) != 1:
            raise BadBytes("a module that is not one region of one block")
        return mlir.Source(module, resources, version=producer)

    def _sections(self) -> None:
        while self.place.at < len(self.data):
            kind, section = self.place.section()
            if kind in self.sections or kind > wire.PROPERTIES:
                why = "not known" if kind > wire.PROPERTIES else "present twice"
                raise BadBytes(f"section {kind}, which is {why}")
            self.sections[kind] = section
        for kind in (wire.STRINGS, wire.DIALECTS, wire.ENTRIES, wire.ENTRY_SIZES, wire.IR_SECTION):
            if kind not in self.sections:
                raise BadBytes(f"section {kind} is missing")

    def _section(self, kind: int) -> Bytes:
        """Starts reading a section; returns the position at its begin."""
        self.place = self.sections[kind]
        return self.place

    def _strings(self) -> list[str]:
        """Reads the strings. The section has their sizes with the final zero byte, the last string first,
        then all characters.
        """
        place = self._section(wire.STRINGS)
        sizes = place.several(place.varint, "strings")
        if place.at + sum(sizes) != place.end or 0 in sizes:
            raise BadBytes(f"strings of {sum(sizes)} bytes in a section with {place.end - place.at}")
        strings, at = [], place.at
        for size in reversed(sizes):
            strings.append(self.data[at : at + size - 1].decode("utf-8", "surrogateescape"))
            at += size
        return strings

    def _dialects(self, entries: Entries) -> tuple[list[str], list[tuple[str, bool]]]:
        """Reads the dialects, and the names of operations, each with whether the operation was registered."""
        place = self._section(wire.DIALECTS)
        dialects: list[str] = []
        for _ in range(place.count("dialects")):
            name, versioned = place.flagged(self.version >= DIALECT_VERSIONS, False)
            dialects.append(entries.string(name))
            if versioned:
                place.section()
        if self.version >= NAME_COUNT:
            place.varint()
        names: list[tuple[str, bool]] = []
        while place.at < place.end:
            dialect = self._dialect(dialects)
            for _ in range(place.count("names of operations")):
                name, registered = place.flagged(self.version >= REGISTERED, True)
                operation = entries.string(name)
                entries.spend(len(dialect) + len(operation))
                names.append((f"{dialect}.{operation}", registered))
        return dialects, names

    def _dialect(self, dialects: list[str]) -> str:
        index = self.place.varint()
        if index >= len(dialects):
            raise BadBytes(f"reference to dialect {index} of only {len(dialects)}")
        return dialects[index]

    def _entry_spans(self, entries: Entries, dialects: list[str]) -> None:
        """Finds the position of each attribute and type. The section has their sizes in groups by dialect,
        attributes before types.
        """
        place, contents = self._section(wire.ENTRY_SIZES), self.sections[wire.ENTRIES]
        attributes, types = place.varint(), place.varint()
        bounded(attributes + types, place.end - place.at, "attributes and types")
        at, spans = contents.at, []
        for wanted in (attributes, attributes + types):
            while len(spans) < wanted:
                dialect = self._dialect(dialects)
                for _ in range(bounded(place.varint(), wanted - len(spans), "entries of a group")):
                    size, encoded = place.flagged(True, True)
                    spans.append((at, at + size, dialect, encoded))
                    at += size
        if at > contents.end or place.at != place.end:
            raise BadBytes(f"attributes and types up to byte {at}, but their section ends at {contents.end}")
        entries.grow(spans, attributes)

    def _properties(self) -> list[Bytes]:
        if wire.PROPERTIES not in self.sections:
            return []
        place, found = self._section(wire.PROPERTIES), []
        if place.at == place.end:
            return []
        for _ in range(place.count("properties")):
            size = place.count("bytes of properties")
            found.append(Bytes(self.data, place.at, place.at + size))
            place.at += size
        return found

    def _resources(self, entries: Entries) -> dict[str, bytes]:
        """Reads the blobs of all resources; puts their keys, by number, into `entries`."""
        if wire.RESOURCE_SIZES not in self.sections or wire.RESOURCES not in self.sections:
            return {}
        place, contents = self._section(wire.RESOURCE_SIZES), self.sections[wire.RESOURCES]
        blobs: dict[str, bytes] = {}
        external = place.varint()
        while place.at < place.end:
            place.varint()  # the key of an external group, or a dialect
            for _ in range(place.count("resources")):
                key, size, kind = entries.string(place.varint()), place.varint(), place.byte()
                bounded(size, contents.end - contents.at, "bytes of a resource")
                if external <= 0:
                    entries.resources.append(key)
                    if kind == 0 and size:
                        blobs[key] = _blob(Bytes(self.data, contents.at, contents.at + size))
                contents.at += size
            external -= 1
        return blobs


def _blob(place: Bytes) -> bytes:
    """The bytes of a blob. They are the end of a resource, after the alignment, the size and padding."""
    place.varint()
    return place.data[place.end - place.count("bytes of a blob") : place.end]
