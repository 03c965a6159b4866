"""Reads the symbol table of an ELF object image (64 bits, little endian)."""

from __future__ import annotations

import struct

_SYMTAB = 2


def symbols(image: bytes) -> tuple[set[str], set[str]]:
    """The names that an object defines for others, and those that it needs; ValueError for other images."""
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF image")
    defined: set[str] = set()
    needed: set[str] = set()
    try:
        (table,) = struct.unpack_from("<Q", image, 0x28)
        size, count = struct.unpack_from("<HH", image, 0x3A)
        sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * size) for i in range(count)]
        for _, kind, _, _, offset, length, link, _, _, entry in sections:
            if kind != _SYMTAB:
                continue
            names = sections[link][4]
            for at in range(offset + entry, offset + length, entry):  # the first entry is empty
                name, info, _, section = struct.unpack_from("<IBBH", image, at)
                text = image[names + name : image.index(b"\0", names + name)].decode()
                if section == 0:
                    needed.add(text)
                elif info >> 4:  # not local
                    defined.add(text)
    except (struct.error, IndexError, ValueError) as error:
        raise ValueError(f"a damaged ELF image: {error}") from error
    return defined, needed


def undefined_symbols(*images: bytes) -> set[str]:
    """What images linked together still need."""
    tables = [symbols(image) for image in images]
    return set().union(*(needed for _, needed in tables)) - set().union(*(defined for defined, _ in tables))
