"""Puts the constants into an object that LLVM has finished: it never sees them.

In an ELF object the room is a section of 64 bytes that is made longer: the contents go to the end of the
file, so that neither LLVM nor the pipe carries them. Objects of other formats have room for all of them.
"""

from __future__ import annotations

import struct

from axla.aot.door import ROOM, mark_of
from axla.codegen.child import CHILD
from axla.core.errors import CompileError
from axla.target.machine import CpuTarget

_SYMTAB = 2
_OBJECT = 1
_ALIGNMENT = 64


def emit_with_constants(
    text: str, target: CpuTarget, symbol: str, constants: bytes, *, level: int = 2
) -> bytes:
    """The object of an LLVM module that has room for the constants under a symbol, with them in it."""
    mark = mark_of(symbol, len(constants))
    if target.form.format != "elf":
        return CHILD.emit_filled(text, target, mark, constants, level=level)
    return _grown(CHILD.emit_object(text, target, level=level), mark, constants)


def _grown(image: bytes, mark: bytes, constants: bytes) -> bytes:
    """An ELF object in which the section that begins with the mark, and its symbol, have the constants."""
    wide = image[4] == 2
    row, entry = ("<IIQQQQIIQQ", "<IBBHQQ") if wide else ("<10I", "<IIIBBH")
    table_at, counts_at, step = (40, 58, 24) if wide else (32, 46, 16)
    (table,) = struct.unpack_from("<Q" if wide else "<I", image, table_at)
    size, count = struct.unpack_from("<HH", image, counts_at)
    sections = [list(struct.unpack_from(row, image, table + k * size)) for k in range(count)]
    at = image.find(mark)
    found = [k for k, section in enumerate(sections) if section[4] == at and section[5] == ROOM]
    if len(found) != 1 or image.find(mark, at + 1) >= 0:
        raise CompileError("the room for constants is not in the object once")
    [number] = found
    changed = bytearray(image)
    gap = bytes(-len(image) % _ALIGNMENT)
    sections[number][4:6] = len(image) + len(gap), len(constants)
    struct.pack_into(row, changed, table + number * size, *sections[number])
    for section in sections:
        if section[1] != _SYMTAB:
            continue
        for place in range(section[4], section[4] + section[5], step):
            fields = list(struct.unpack_from(entry, image, place))
            info, home, length = (1, 3, 5) if wide else (3, 5, 2)
            if fields[home] == number and fields[info] & 15 == _OBJECT:
                fields[length] = len(constants)
                struct.pack_into(entry, changed, place, *fields)
    return b"".join((changed, gap, constants))
