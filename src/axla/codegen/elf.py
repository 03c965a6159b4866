"""Reads sections and symbols of ELF objects: to link them, to insert constants, to verify that they need no
other code.

Everything is checked before it is used; malformed input raises ValueError, or the error of a subclass's
`refuse`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, NoReturn

from axla.core.dataclass import dataclass

PROGBITS, SYMTAB, RELA, NOBITS = 1, 2, 4, 8
WRITABLE, ALLOC, EXECUTABLE = 1, 2, 4
ABSOLUTE = 0xFFF1
"""The section number of a symbol whose value is a constant, not an address."""


@dataclass(slots=True)
class Section:
    """A row of the section table, at offset `row` of the file."""

    row: int
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    step: int  # bytes of an entry, where it has entries
    at: int = -1  # its address, once the linker has set it


class Symbol(NamedTuple):
    """A row of the symbol table, at offset `row` of the file."""

    row: int
    name: str
    info: int
    other: int
    section: int  # 0: the symbol is not in this object
    value: int

    @property
    def is_global(self) -> bool:
        """Whether the binding is not local, so that linkers see the symbol."""
        return self.info >> 4 != 0


class Elf:
    """Sections and symbols of an ELF object, 64-bit (`wide`) or 32-bit, with the byte order `order` in the
    notation of `struct`.
    """

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        if data[:4] != b"\x7fELF" or data[5:7] not in (b"\x01\x01", b"\x02\x01") or len(data) < 64:
            self.refuse("not an ELF object")
        self.wide, self.order = data[4] == 2, "<>"[data[5] - 1]
        self.kind, self.machine = struct.unpack_from(f"{self.order}HH", data, 16)
        row = self.order + ("IIQQQQIIQQ" if self.wide else "IIIIIIIIII")
        word, at = ("Q", 40) if self.wide else ("I", 32)
        (table,) = struct.unpack_from(self.order + word, data, at)
        size, count = struct.unpack_from(f"{self.order}HH", data, 58 if self.wide else 46)
        if size != struct.calcsize(row) or table + size * count > len(data):
            self.refuse("the section table lies outside the file")
        self.sections: list[Section] = []
        for at in range(table, table + size * count, size):
            _, kind, flags, _, offset, length, link, info, align, step = struct.unpack_from(row, data, at)
            if kind != NOBITS and kind != 0 and offset + length > len(data):
                self.refuse("a section lies outside the file")
            if align & (align - 1):
                self.refuse(f"a section is aligned to {align} bytes, which is no power of two")
            found = Section(at, kind, flags, offset, length, link, info, max(align, 1), step)
            self.sections.append(found)
        self.symbols: list[Symbol] = []
        for section in self.sections:
            if section.kind == SYMTAB:
                self._read_symbols(section)

    def refuse(self, what: str) -> NoReturn:
        """Raises an error that says what is wrong with the object."""
        raise ValueError(what)

    def _read_symbols(self, table: Section) -> None:
        step = 24 if self.wide else 16
        if self.symbols or table.link >= len(self.sections) or table.size % step:
            self.refuse("the symbol table is not valid ELF")
        strings = self.sections[table.link]
        names = bytes(self.data[strings.offset : strings.offset + strings.size])
        for at in range(table.offset, table.offset + table.size, step):
            if self.wide:
                name, info, other, home, value, _ = struct.unpack_from(f"{self.order}IBBHQQ", self.data, at)
            else:
                name, value, _, info, other, home = struct.unpack_from(f"{self.order}IIIBBH", self.data, at)
            end = names.find(b"\0", name)
            if end < 0:
                self.refuse("the name of a symbol has no end")
            if home != ABSOLUTE and home >= len(self.sections):
                self.refuse(f"a symbol is in section {home}, which does not exist")
            if 0 < home < len(self.sections) and value > self.sections[home].size:
                self.refuse("a symbol lies outside of its section")
            text = names[name:end].decode("utf-8", "replace")
            self.symbols.append(Symbol(at, text, info, other, home, value))
