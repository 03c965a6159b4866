"""Links objects for x86-64 Linux into memory of this process, without LLVM.

Enough of ELF for code that stands alone: sections, symbols of the objects, relative relocations. Everything
is checked before it is used; InvalidArgument says what is wrong with an object. When `Image` is there, only
variables can be written.
"""

from __future__ import annotations

import ctypes as c
import mmap
import platform
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from axla.codegen.elf import ABSOLUTE, ALLOC, EXECUTABLE, NOBITS, PROGBITS, RELA, WRITABLE, Elf
from axla.core.errors import InvalidArgument, OutOfMemory, UnsupportedError

_RELOCATABLE, _X86_64 = 1, 62
_LARGEST = 1 << 31  # what relative addresses of 32 bits reach
_PAGE = 4096
_READ, _EXECUTE = 1, 4  # of mprotect
# Type of relocation: bytes, whether it is relative.
_KINDS = {1: (8, False), 2: (4, True), 4: (4, True), 24: (8, True)}


class _Object(Elf):
    """A relocatable object for x86-64."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        super().__init__(data)
        if not self.wide or (self.kind, self.machine) != (_RELOCATABLE, _X86_64):
            found = f"ELF type {self.kind} for machine {self.machine}"
            self.refuse(f"{found}, wanted a relocatable object for x86-64")
        for section in self.sections:
            if section.flags & ALLOC and section.align > _PAGE:
                self.refuse(f"a section is aligned to {section.align}")

    def refuse(self, what: str) -> NoReturn:
        raise InvalidArgument(f"{self.name}: {what}")


class Image:
    """Objects linked with each other and with what is at the addresses `imports`. `addresses` are those of
    the exported symbols, valid as long as this object is there.
    """

    def __init__(
        self, images: Sequence[tuple[str, bytes]], exports: Sequence[str],
        imports: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        if sys.platform != "linux" or platform.machine() != "x86_64":
            raise UnsupportedError(
                f"objects for x86-64 Linux, on {sys.platform} {platform.machine()}: they run there only"
            )
        objects = [_Object(name, data) for name, data in images]
        code, constant, total = _layout(objects)
        if total >= _LARGEST:
            raise UnsupportedError(f"{total} bytes of code and constants; {_LARGEST - 1} can be linked")
        try:
            self._memory = mmap.mmap(-1, max(total, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise OutOfMemory(f"{total} bytes of code and constants: {error.strerror}") from error
        self._anchor = c.c_char.from_buffer(self._memory)
        base = c.addressof(self._anchor)
        for found in objects:
            for section in found.sections:
                if section.at >= 0 and section.kind == PROGBITS:
                    self._memory[section.at : section.at + section.size] = found.data[
                        section.offset : section.offset + section.size
                    ]
        table = {**(imports or {}), **_globals(objects, base)}
        for found in objects:
            _relocate(found, self._memory, base, table)
        missing = [name for name in exports if name not in table]
        if missing:
            raise InvalidArgument(f"{images[0][0]}: does not define {', '.join(missing)}")
        self._protect(base, code, constant)
        self.addresses = {name: table[name] for name in exports}

    def _protect(self, base: int, code: int, total: int) -> None:
        protect = c.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [c.c_void_p, c.c_size_t, c.c_int]
        for start, end, rights in ((0, code, _READ | _EXECUTE), (code, total, _READ)):
            if end > start and protect(base + start, end - start, rights):
                raise UnsupportedError(f"mprotect refuses code: error {c.get_errno()}")


def _layout(objects: Sequence[_Object]) -> tuple[int, ...]:
    """Gives sections their places: code first, then, each from the next page on, constants and variables. The
    ends of all three.
    """
    at = 0
    ends = []
    for wanted in (EXECUTABLE, 0, WRITABLE):
        for found in objects:
            for section in found.sections:
                if section.flags & ALLOC and section.flags & (EXECUTABLE | WRITABLE) == wanted:
                    if section.kind not in (PROGBITS, NOBITS) and section.size:
                        # Unwinding tables and notes are not needed to run.
                        continue
                    section.at = -(-at // section.align) * section.align
                    at = section.at + section.size
        at = -(-at // _PAGE) * _PAGE
        ends.append(at)
    return tuple(ends)


def _globals(objects: Sequence[_Object], base: int) -> dict[str, int]:
    table: dict[str, int] = {}
    for found in objects:
        for symbol in found.symbols:
            name, home = symbol.name, symbol.section
            if not symbol.is_global or home == 0:
                continue
            if name in table:
                found.refuse(f"{name} is defined twice")
            if home == ABSOLUTE or found.sections[home].at < 0:
                found.refuse(f"{name} is not in a section that is loaded")
            table[name] = base + found.sections[home].at + symbol.value
    return table


def _relocate(found: _Object, memory: mmap.mmap, base: int, table: dict[str, int]) -> None:
    for section in found.sections:
        if section.kind != RELA:
            continue
        if section.info >= len(found.sections) or section.size % 24:
            found.refuse("relocations are not as ELF has them")
        place = found.sections[section.info]
        if place.at < 0:
            continue
        for at in range(section.offset, section.offset + section.size, 24):
            offset, info, addend = struct.unpack_from("<QQq", found.data, at)
            size, relative = _KINDS.get(info & 0xFFFFFFFF, (0, False))
            if not size or place.kind != PROGBITS or offset + size > place.size:
                found.refuse(f"relocation of type {info & 0xFFFFFFFF} at {offset} cannot be done")
            value = _value(found, info >> 32, base, table) + addend
            if relative:
                value -= base + place.at + offset
            try:
                packed = struct.pack("<i" if size == 4 else "<q" if relative else "<Q", value)
            except struct.error:
                found.refuse(f"relocation at {offset} is out of range")
            memory[place.at + offset : place.at + offset + size] = packed


def _value(found: _Object, number: int, base: int, table: dict[str, int]) -> int:
    """The address of a symbol."""
    if number >= len(found.symbols):
        found.refuse(f"a relocation needs symbol {number}, which is not there")
    symbol = found.symbols[number]
    name, home = symbol.name, symbol.section
    if home == 0:
        if name not in table:
            found.refuse(f"needs {name}, which nothing defines")
        return table[name]
    if home == ABSOLUTE or found.sections[home].at < 0:
        found.refuse(f"a relocation needs {name or 'a section'}, which is not loaded")
    return base + found.sections[home].at + symbol.value
