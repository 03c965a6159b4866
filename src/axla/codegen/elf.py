"""Reads what an ELF object asks of a linker: enough to prove that generated code stands alone."""

from __future__ import annotations

import struct

_SYMTAB = 2
_UNDEFINED = 0


def undefined_symbols(image: bytes) -> list[str]:
    """Names that a little-endian ELF object uses but does not define, sorted; ValueError for another file."""
    if image[:4] != b"\x7fELF" or image[5] != 1:
        raise ValueError("not a little-endian ELF object")
    wide = image[4] == 2
    header, section = ("<QIHHHHHH", "<IIQQQQIIQQ") if wide else ("<IIHHHHHH", "<IIIIIIIIII")
    table, _, _, _, _, entry, count, _ = struct.unpack_from(header, image, 40 if wide else 32)
    sections = [struct.unpack_from(section, image, table + k * entry) for k in range(count)]
    names: set[str] = set()
    for _, kind, _, _, offset, size, link, _, _, step in sections:
        if kind != _SYMTAB:
            continue
        strings = sections[link][4]
        for at in range(offset, offset + size, step):
            # Symbol 0 is the null symbol: it has no name.
            name, home = (
                struct.unpack_from("<I", image, at)[0],
                struct.unpack_from("<H", image, at + (6 if wide else 14))[0],
            )
            if home == _UNDEFINED and name:
                names.add(image[strings + name : image.index(b"\0", strings + name)].decode())
    return sorted(names)
