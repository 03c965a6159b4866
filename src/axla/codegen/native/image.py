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
from dataclasses import dataclass
from typing import NoReturn

from axla.core.errors import InvalidArgument, OutOfMemory, UnsupportedError

_RELOCATABLE, _X86_64 = 1, 62
_PROGBITS, _SYMTAB, _RELA, _NOBITS = 1, 2, 4, 8
_WRITABLE, _ALLOC, _EXECUTABLE = 1, 2, 4
_LARGEST = 1 << 31  # what relative addresses of 32 bits reach
_PAGE = 4096
_READ, _EXECUTE = 1, 4  # of mprotect
_ABSOLUTE = 0xFFF1
# Type of relocation: bytes, whether it is relative.
_KINDS = {1: (8, False), 2: (4, True), 4: (4, True), 24: (8, True)}


@dataclass(slots=True)
class _Section:
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    step: int
    at: int = -1  # where it is in the memory


class _Object:
    """Sections and symbols of a relocatable ELF object."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data = name, memoryview(data)
        if data[:7] != b"\x7fELF\x02\x01\x01" or len(data) < 64:
            self.refuse("not a 64-bit little-endian ELF object")
        kind, machine = struct.unpack_from("<HH", data, 16)
        if (kind, machine) != (_RELOCATABLE, _X86_64):
            self.refuse(f"ELF type {kind} for machine {machine}, wanted a relocatable object for x86-64")
        table, size, count = (*struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58))
        if size != 64 or table + 64 * count > len(data):
            self.refuse("the table of sections is not in the file")
        self.sections: list[_Section] = []
        for at in range(table, table + 64 * count, 64):
            _, kind, flags, _, offset, length, link, info, align, step = struct.unpack_from(
                "<IIQQQQIIQQ", data, at
            )
            if kind != _NOBITS and kind != 0 and offset + length > len(data):
                self.refuse("a section is not in the file")
            if align & (align - 1) or (flags & _ALLOC and align > _PAGE):
                self.refuse(f"a section is aligned to {align}")
            self.sections.append(_Section(kind, flags, offset, length, link, info, max(align, 1), step))
        self.symbols: list[tuple[str, bool, int, int]] = []  # name, is it global, section, value
        for section in self.sections:
            if section.kind == _SYMTAB:
                self._read_symbols(section)

    def refuse(self, what: str) -> NoReturn:
        raise InvalidArgument(f"{self.name}: {what}")

    def _read_symbols(self, table: _Section) -> None:
        if self.symbols or table.link >= len(self.sections) or table.size % 24:
            self.refuse("the symbols are not as ELF has them")
        strings = self.sections[table.link]
        names = bytes(self.data[strings.offset : strings.offset + strings.size])
        for at in range(table.offset, table.offset + table.size, 24):
            name, info, _, home, value, _ = struct.unpack_from("<IBBHQQ", self.data, at)
            end = names.find(b"\0", name)
            if end < 0:
                self.refuse("a symbol has no name")
            if home != _ABSOLUTE and home >= len(self.sections):
                self.refuse(f"a symbol is in section {home}, which is not there")
            if 0 < home < len(self.sections) and value > self.sections[home].size:
                self.refuse("a symbol lies outside of its section")
            text = names[name:end].decode("utf-8", "replace")
            self.symbols.append((text, info >> 4 != 0, home, value))


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
                if section.at >= 0 and section.kind == _PROGBITS:
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
    for wanted in (_EXECUTABLE, 0, _WRITABLE):
        for found in objects:
            for section in found.sections:
                if section.flags & _ALLOC and section.flags & (_EXECUTABLE | _WRITABLE) == wanted:
                    if section.kind not in (_PROGBITS, _NOBITS) and section.size:
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
        for name, is_global, home, value in found.symbols:
            if not is_global or home == 0:
                continue
            if name in table:
                found.refuse(f"{name} is defined twice")
            if home == _ABSOLUTE or found.sections[home].at < 0:
                found.refuse(f"{name} is not in a section that is loaded")
            table[name] = base + found.sections[home].at + value
    return table


def _relocate(found: _Object, memory: mmap.mmap, base: int, table: dict[str, int]) -> None:
    for section in found.sections:
        if section.kind != _RELA:
            continue
        if section.info >= len(found.sections) or section.size % 24:
            found.refuse("relocations are not as ELF has them")
        place = found.sections[section.info]
        if place.at < 0:
            continue
        for at in range(section.offset, section.offset + section.size, 24):
            offset, info, addend = struct.unpack_from("<QQq", found.data, at)
            size, relative = _KINDS.get(info & 0xFFFFFFFF, (0, False))
            if not size or place.kind != _PROGBITS or offset + size > place.size:
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
    name, _, home, value = found.symbols[number]
    if home == 0:
        if name not in table:
            found.refuse(f"needs {name}, which nothing defines")
        return table[name]
    if home == _ABSOLUTE or found.sections[home].at < 0:
        found.refuse(f"a relocation needs {name or 'a section'}, which is not loaded")
    return base + found.sections[home].at + value
