"""How many bytes of an object are code and how many are read-only data, whatever its format."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from axla.codegen.elf import section_table
from axla.codegen.symbols import WasmReader, macho_commands

_ALLOC, _EXECUTABLE = 2, 4  # ELF
_COFF_CODE, _COFF_DATA = 0x20, 0x40
_MACHO_CODE = 0x80000000
_WASM_CODE, _WASM_DATA = 10, 11


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes that are loaded: of code, and of tables and constants."""

    code: int
    data: int


def sizes(image: bytes) -> Sizes:
    """The sizes of an object that LLVM wrote."""
    if image[:4] == b"\x7fELF":
        rows = list(_elf(image))
    elif image[:4] == b"\0asm":
        rows = list(_wasm(image))
    elif image[:4] == b"\xcf\xfa\xed\xfe":
        rows = list(_macho(image))
    else:
        rows = list(_coff(image))
    return Sizes(
        sum(size for is_code, size in rows if is_code), sum(size for is_code, size in rows if not is_code)
    )


def _elf(image: bytes) -> Iterator[tuple[bool, int]]:
    for _, kind, flags, _, _, size, *_ in section_table(image)[1].values():
        if flags & _ALLOC and kind == 1:  # PROGBITS: no unwinding tables, no notes
            yield bool(flags & _EXECUTABLE), size


def _coff(image: bytes) -> Iterator[tuple[bool, int]]:
    _, count, _, _, _, optional, _ = struct.unpack_from("<HHIIIHH", image)
    for at in range(20 + optional, 20 + optional + 40 * count, 40):
        (size,) = struct.unpack_from("<I", image, at + 16)
        (flags,) = struct.unpack_from("<I", image, at + 36)
        if flags & (_COFF_CODE | _COFF_DATA):
            yield bool(flags & _COFF_CODE), size


def _macho(image: bytes) -> Iterator[tuple[bool, int]]:
    for command, at in macho_commands(image):
        if command == 0x19:  # LC_SEGMENT_64
            (count,) = struct.unpack_from("<I", image, at + 64)
            for section in range(at + 72, at + 72 + 80 * count, 80):
                (size,) = struct.unpack_from("<Q", image, section + 40)
                (flags,) = struct.unpack_from("<I", image, section + 64)
                yield bool(flags & _MACHO_CODE), size


def _wasm(image: bytes) -> Iterator[tuple[bool, int]]:
    reader = WasmReader(image, 8)
    while reader.at < len(image):
        kind, size = reader.number(), reader.number()
        reader.at += size
        if kind in (_WASM_CODE, _WASM_DATA):
            yield kind == _WASM_CODE, size
