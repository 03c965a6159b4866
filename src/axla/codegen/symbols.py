"""The names that an object file defines for others and those it needs, whatever its format.

Enough of ELF, COFF, Mach-O and WebAssembly to prove that generated code stands alone. Files come from LLVM:
a damaged one is a ValueError, no more is promised.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from axla.codegen import elf

LINKER_PROVIDES = frozenset({"__stack_pointer", "__indirect_function_table", "__memory_base", "__table_base"})
"""What every WebAssembly linker makes itself."""


@dataclass(frozen=True, slots=True)
class Symbols:
    """`defined` for other objects, and `needed` from them; without the underscore that Mach-O puts before."""

    defined: frozenset[str]
    needed: frozenset[str]


def symbols(image: bytes) -> Symbols:
    """The symbols of an object file; ValueError for what is none."""
    try:
        if image[:4] == b"\x7fELF":
            found = _elf(image)
        elif image[:4] == b"\0asm":
            found = _wasm(image)
        elif image[:4] == b"\xcf\xfa\xed\xfe":
            found = _macho(image)
        elif image[:2] in (b"\x64\x86", b"\x64\xaa"):
            found = _coff(image)
        else:
            raise ValueError("not an object file of a known format")
        rows = list(found)
    except (struct.error, IndexError) as error:
        raise ValueError(f"a damaged object file: {error}") from error
    defined = frozenset(name for name, is_defined in rows if is_defined)
    return Symbols(defined, frozenset(name for name, is_defined in rows if not is_defined) - defined)


def _text(image: bytes, at: int) -> str:
    return image[at : image.index(b"\0", at)].decode()


def _elf(image: bytes) -> Iterator[tuple[str, bool]]:
    for symbol in elf.symbols(image):
        if symbol.section == 0 and symbol.name:
            yield symbol.name, False
        elif symbol.is_global:
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


def macho_commands(image: bytes) -> Iterator[tuple[int, int]]:
    """The load commands of a Mach-O file: kind and offset."""
    (commands,) = struct.unpack_from("<I", image, 16)
    at = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", image, at)
        yield command, at
        at += size


def _macho(image: bytes) -> Iterator[tuple[str, bool]]:
    for command, at in macho_commands(image):
        if command == 2:  # LC_SYMTAB
            table, count, strings, _ = struct.unpack_from("<IIII", image, at + 8)
            for number in range(count):
                name, kind = struct.unpack_from("<IB", image, table + 16 * number)
                if kind & 0xE0 == 0 and kind & 1:  # no debugger's symbol, external
                    yield _text(image, strings + name).removeprefix("_"), kind & 0x0E != 0


class WasmReader:
    """WebAssembly's numbers and names, in order."""

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
    """From the symbol table of the linking section; a symbol without a name has that of its import."""
    imports: dict[int, list[str]] = {}
    reader = WasmReader(image, 8)
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


def _wasm_imports(reader: WasmReader) -> dict[int, list[str]]:
    """Names by kind: functions, tables, memories, globals, tags."""
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
        else:  # a type; of a global, with whether it changes; of a tag, behind a byte
            reader.number()
            if kind != 0:
                reader.number()
    return found


def _wasm_symbols(reader: WasmReader, imports: dict[int, list[str]]) -> Iterator[tuple[str, bool]]:
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
