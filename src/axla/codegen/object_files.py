"""The symbols that an object file defines and needs, and the sizes of its sections, for all formats of object
files.

Reads as much of ELF, COFF, Mach-O and WebAssembly as is needed to verify that generated code is
self-contained. Files come from LLVM: for a damaged one a ValueError is raised, no more is promised.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from axla.codegen.elf import ALLOC, EXECUTABLE, PROGBITS, Elf
from axla.core.dataclass import dataclass

LINKER_PROVIDES = frozenset({
    "__stack_pointer", "__indirect_function_table", "__memory_base", "__table_base", "_GLOBAL_OFFSET_TABLE_",
    "_gp_disp", ".TOC.",
})  # fmt: skip
"""The symbols that linkers define: those of WebAssembly, and those of ELF."""
_HIDDEN = 2  # visibility of an ELF symbol
_COFF_CODE, _COFF_DATA = 0x20, 0x40
_MACHO_CODE = 0x80000000
_WASM_CODE, _WASM_DATA = 10, 11


@dataclass(frozen=True, slots=True)
class Symbols:
    """The symbols of an object file: `defined` are exported, `needed` are undefined. Names do not have the
    leading underscore of Mach-O.
    """

    defined: frozenset[str]
    needed: frozenset[str]


@dataclass(frozen=True, slots=True)
class CodeSizes:
    """Sizes in bytes of loaded sections: code, and tables with constants."""

    code: int
    data: int


def symbols(image: bytes) -> Symbols:
    """The symbols of an object file; ValueError if it is not one."""
    rows = _rows(image, 0)
    defined = frozenset(name for name, is_defined in rows if is_defined)
    return Symbols(defined, frozenset(name for name, is_defined in rows if not is_defined) - defined)


def sizes(image: bytes) -> CodeSizes:
    """The sizes of the loaded sections of an object file; ValueError if it is not one."""
    rows = _rows(image, 1)
    return CodeSizes(*(sum(size for size, is_code in rows if is_code is wanted) for wanted in (True, False)))


def _rows(image: bytes, which: int) -> list:
    """The rows that a reader for the file's format yields: `which` is 0 for symbols, 1 for sizes."""
    for magic, readers in _FORMATS.items():
        if image.startswith(magic):
            try:
                return list(readers[which](image))
            except (struct.error, IndexError, ValueError) as error:
                raise ValueError(f"the object file is damaged: {error}") from error
    raise ValueError("not an object file of a known format")


def _text(image: bytes, at: int) -> str:
    return image[at : image.index(b"\0", at)].decode()


def _elf(image: bytes) -> Iterator[tuple[str, bool]]:
    for symbol in Elf(image).symbols:
        if symbol.name and symbol.section == 0:
            if symbol.name not in LINKER_PROVIDES:
                yield symbol.name, False
        elif symbol.is_global and symbol.other & 3 != _HIDDEN:
            yield symbol.name, True


def _coff(image: bytes) -> Iterator[tuple[str, bool]]:
    table, count = struct.unpack_from("<II", image, 8)
    strings, number = table + 18 * count, 0
    while number < count:
        at = table + 18 * number
        value, section, _, storage, extra = struct.unpack_from("<IhHBB", image, at + 8)
        number += 1 + extra
        if storage != 2:  # external
            continue
        zeros, place = struct.unpack_from("<II", image, at)
        name = image[at : at + 8].rstrip(b"\0").decode() if zeros else _text(image, strings + place)
        yield name, section != 0 or value != 0


def _macho_commands(image: bytes) -> Iterator[tuple[int, int]]:
    """Yields (kind, offset) of each load command of a Mach-O file."""
    (commands,) = struct.unpack_from("<I", image, 16)
    at = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", image, at)
        yield command, at
        at += size


def _macho(image: bytes) -> Iterator[tuple[str, bool]]:
    for command, at in _macho_commands(image):
        if command == 2:  # LC_SYMTAB
            table, count, strings, _ = struct.unpack_from("<IIII", image, at + 8)
            for number in range(count):
                name, kind = struct.unpack_from("<IB", image, table + 16 * number)
                if kind & 0xE0 == 0 and kind & 1:  # external, not for debuggers
                    yield _text(image, strings + name).removeprefix("_"), kind & 0x0E != 0


class _WasmReader:
    """Reads numbers and names of a WebAssembly file, one after the other."""

    def __init__(self, image: bytes, at: int):
        self.image = image
        self.at = at

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.image[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def name(self) -> str:
        size = self.number()
        self.at += size
        return self.image[self.at - size : self.at].decode()

    def limits(self) -> None:
        for _ in range(2 if self.number() & 1 else 1):
            self.number()


_FUNCTION, _DATA, _SECTION = 0, 1, 3


def _wasm(image: bytes) -> Iterator[tuple[str, bool]]:
    """Yields the symbols in the symbol table of the linking section; a symbol without a name has that of its
    import.
    """
    imports: dict[int, list[str]] = {}
    reader = _WasmReader(image, 8)
    while reader.at < len(image):
        kind, size = reader.number(), reader.number()
        end = reader.at + size
        if kind == 2:
            imports = _wasm_imports(reader)
        elif kind == 0 and reader.name() == "linking":
            reader.number()  # the version
            while reader.at < end:
                part, length = reader.number(), reader.number()
                stop = reader.at + length
                if part == 8:
                    yield from _wasm_symbols(reader, imports)
                reader.at = stop
        reader.at = end


def _wasm_imports(reader: _WasmReader) -> dict[int, list[str]]:
    """The names of all imports, by kind: 0 functions, 1 tables, 2 memories, 3 globals, 4 tags."""
    found: dict[int, list[str]] = {}
    for _ in range(reader.number()):
        reader.name()
        name, kind = reader.name(), reader.number()
        found.setdefault(kind, []).append(name)
        if kind == 2:
            reader.limits()
        elif kind == 1:
            reader.number()
            reader.limits()
        else:  # a type: a global's has a flag after it, a tag's a byte before it
            reader.number()
            if kind != 0:
                reader.number()
    return found


def _wasm_symbols(reader: _WasmReader, imports: dict[int, list[str]]) -> Iterator[tuple[str, bool]]:
    imported = {0: 0, 2: 3, 4: 4, 5: 1}  # kind of symbol: kind of import
    for _ in range(reader.number()):
        kind, flags = reader.number(), reader.number()
        undefined, local, named = flags & 0x10, flags & 0x02, flags & 0x40
        name = ""
        if kind == _DATA:
            name = reader.name()
            if not undefined:
                for _ in range(3):
                    reader.number()
        elif kind == _SECTION:
            reader.number()
            continue
        else:
            number = reader.number()
            name = reader.name() if named or not undefined else imports[imported[kind]][number]
        if undefined and name not in LINKER_PROVIDES:
            yield name, False
        elif not undefined and not local and not flags & 0x04:  # not hidden
            yield name, True


def _elf_sizes(image: bytes) -> Iterator[tuple[int, bool]]:
    for section in Elf(image).sections:
        if section.flags & ALLOC and section.kind == PROGBITS:  # no unwinding tables, no notes
            yield section.size, bool(section.flags & EXECUTABLE)


def _coff_sizes(image: bytes) -> Iterator[tuple[int, bool]]:
    _, count, _, _, _, optional, _ = struct.unpack_from("<HHIIIHH", image)
    for at in range(20 + optional, 20 + optional + 40 * count, 40):
        size, flags = struct.unpack_from("<I16xI", image, at + 16)
        if flags & (_COFF_CODE | _COFF_DATA):
            yield size, bool(flags & _COFF_CODE)


def _macho_sizes(image: bytes) -> Iterator[tuple[int, bool]]:
    for command, at in _macho_commands(image):
        if command == 0x19:  # LC_SEGMENT_64
            (count,) = struct.unpack_from("<I", image, at + 64)
            for section in range(at + 72, at + 72 + 80 * count, 80):
                size, flags = struct.unpack_from("<Q16xI", image, section + 40)
                yield size, bool(flags & _MACHO_CODE)


def _wasm_sizes(image: bytes) -> Iterator[tuple[int, bool]]:
    reader = _WasmReader(image, 8)
    while reader.at < len(image):
        kind, size = reader.number(), reader.number()
        reader.at += size
        if kind in (_WASM_CODE, _WASM_DATA):
            yield size, kind == _WASM_CODE


_FORMATS: dict[bytes, tuple[Callable, Callable]] = {
    b"\x7fELF": (_elf, _elf_sizes),
    b"\0asm": (_wasm, _wasm_sizes),
    b"\xcf\xfa\xed\xfe": (_macho, _macho_sizes),
    b"\x64\x86": (_coff, _coff_sizes),
    b"\x64\xaa": (_coff, _coff_sizes),
}
"""Two readers by the first bytes of a file: one yields the name of each symbol and whether it is defined, the
other the size of each section and whether it is code.
"""
