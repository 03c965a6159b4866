"""Inserts the constants into an object that LLVM has finished, so that LLVM never processes them.

In an ELF object, the module has a section of 64 bytes, which is enlarged: the constants go to the end of the
file, so that neither LLVM nor the pipe carries them. Objects of other formats have space for all of them.
"""

from __future__ import annotations

import struct

from axla.aot.exported_functions import SPACE, mark_of
from axla.codegen.child import CHILD
from axla.codegen.elf import Elf
from axla.core.errors import CompileError
from axla.target.machine import CpuTarget

_OBJECT = 1
_ALIGNMENT = 64


def emit_with_constants(
    text: str, target: CpuTarget, symbol: str, constants: bytes, *, level: int = 2
) -> bytes:
    """The object of an LLVM module, with the constants in the space at the symbol `symbol`. `level` is LLVM's
    optimization level.
    """
    mark = mark_of(symbol, len(constants))
    if target.form.format != "elf":
        return CHILD.emit_filled(text, target, mark, constants, level=level)
    return _grown(CHILD.emit_object(text, target, level=level), mark, constants)


def _grown(image: bytes, mark: bytes, constants: bytes) -> bytes:
    """The ELF object `image`, changed so that the section that begins with `mark`, and the symbol of this
    section, contain the constants.
    """
    elf = Elf(image)
    at = image.find(mark)
    found = [k for k, section in enumerate(elf.sections) if section.offset == at and section.size == SPACE]
    if len(found) != 1 or image.find(mark, at + 1) >= 0:
        raise CompileError("the object does not have the section for constants exactly once")
    [number] = found
    changed = bytearray(image)
    gap = bytes(-len(image) % _ALIGNMENT)
    word = "Q" if elf.wide else "I"
    place = (len(image) + len(gap), len(constants))
    struct.pack_into(
        f"{elf.order}2{word}", changed, elf.sections[number].row + (24 if elf.wide else 16), *place
    )
    for symbol in elf.symbols:
        if symbol.section == number and symbol.info & 15 == _OBJECT:
            struct.pack_into(
                f"{elf.order}{word}", changed, symbol.row + (16 if elf.wide else 8), len(constants)
            )
    return b"".join((changed, gap, constants))
