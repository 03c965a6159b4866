"""Reads sections and symbols of ELF objects: enough to prove that generated code stands alone."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

SYMTAB = 2
_UNDEFINED = 0
_HIDDEN = 2


@dataclass(frozen=True, slots=True)
class Symbol:
    """A row of a symbol table. Section 0: it is not in this object. `is_global`: other objects may use it."""

    name: str
    section: int
    is_global: bool


def section_table(image: bytes) -> tuple[str, dict[int, tuple[int, ...]]]:
    """The format of a row of the section table, and the rows by their offsets in a little-endian ELF object:
    name, type, flags, address, offset, size, link, info, alignment, bytes of an entry. ValueError for another
    file.
    """
    if image[:4] != b"\x7fELF" or image[5] != 1:
        raise ValueError("not a little-endian ELF object")
    wide = image[4] == 2
    header, row = ("<QIHHHHHH", "<IIQQQQIIQQ") if wide else ("<IIHHHHHH", "<IIIIIIIIII")
    table, _, _, _, _, entry, count, _ = struct.unpack_from(header, image, 40 if wide else 32)
    offsets = range(table, table + count * entry, entry)
    return row, {at: struct.unpack_from(row, image, at) for at in offsets}


def symbols(image: bytes) -> Iterator[Symbol]:
    """The symbols of a little-endian ELF object, the null symbol left out; ValueError for another file."""
    sections = list(section_table(image)[1].values())
    wide = image[4] == 2
    for _, kind, _, _, offset, size, link, _, _, step in sections:
        if kind != SYMTAB:
            continue
        strings = sections[link][4]
        for at in range(offset + step, offset + size, step):
            (name,) = struct.unpack_from("<I", image, at)
            info, other, home = struct.unpack_from("<BBH", image, at + (4 if wide else 12))
            text = image[strings + name : image.index(b"\0", strings + name)].decode()
            yield Symbol(text, home, info >> 4 != 0 and other & 3 != _HIDDEN)


def undefined_symbols(image: bytes) -> list[str]:
    """Names that an ELF object uses but does not define, sorted; ValueError for another file."""
    return sorted({s.name for s in symbols(image) if s.section == _UNDEFINED and s.name})
