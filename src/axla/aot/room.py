"""Puts the constants into an object that LLVM has finished: it never sees them.

In an ELF object the room is a section of 64 bytes that is made longer: the contents go to the end of the
file, so that neither LLVM nor the pipe carries them. Objects of other formats have room for all of them.
"""

from __future__ import annotations

import struct

from axla.aot.door import ROOM, mark_of
from axla.codegen.child import CHILD
from axla.codegen.elf import SYMTAB, section_table
from axla.core.errors import CompileError
from axla.target.machine import CpuTarget

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
    row, table = section_table(image)
    at = image.find(mark)
    found = [k for k, section in enumerate(table.values()) if section[4] == at and section[5] == ROOM]
    if len(found) != 1 or image.find(mark, at + 1) >= 0:
        raise CompileError("the room for constants is not in the object once")
    [number] = found
    changed = bytearray(image)
    gap = bytes(-len(image) % _ALIGNMENT)
    place, section = [*table.items()][number]
    struct.pack_into(row, changed, place, *section[:4], len(image) + len(gap), len(constants), *section[6:])
    entry, info, home, length = ("<IBBHQQ", 1, 3, 5) if image[4] == 2 else ("<IIIBBH", 3, 5, 2)
    for _, kind, _, _, offset, size, _, _, _, step in table.values():
        if kind != SYMTAB:
            continue
        for place in range(offset, offset + size, step):
            fields = list(struct.unpack_from(entry, image, place))
            if fields[home] == number and fields[info] & 15 == _OBJECT:
                fields[length] = len(constants)
                struct.pack_into(entry, changed, place, *fields)
    return b"".join((changed, gap, constants))
