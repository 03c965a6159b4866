"""`P.a`: the objects of a library in one archive, as written by `ar`, with a symbol table for the linker.

There are two formats: System V's (GNU's), which linkers accept for ELF, COFF and WebAssembly, and BSD's for
Mach-O. For COFF a second symbol table for Microsoft's linkers is added. Times, owners and modes are fixed, so
that archives of equal objects are equal.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from axla.aot.library import CompiledLibrary, Weights
from axla.codegen.object_files import symbols
from axla.core.dataclass import dataclass
from axla.core.errors import UnsupportedError

_MAGIC = b"!<arch>\n"
_MOST = 1 << 32  # the tables have offsets of 32 bits
_SHORT = 15  # the longest name, in bytes, that a member's header holds together with a slash


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive: its name, its contents, and the symbols that it exports, spelled as in its object
    format.
    """

    name: str
    data: bytes
    symbols: tuple[str, ...]


def write(library: CompiledLibrary) -> dict[str, str | bytes]:
    """The archive `P.a`, by name. It contains P.o, and P_weights.o if the constants are in an object of their
    own.
    """
    under = "_" if library.target.form.format == "macho" else ""
    defined = sorted(under + name for name in symbols(library.image).defined)
    members = [Member(f"{library.prefix}.o", library.image, tuple(defined))]
    if library.weights is Weights.SEPARATE:
        # The symbol is hidden from dynamic linkers, but the static linker must find it.
        found = (under + library.weights_symbol,)
        members.append(Member(f"{library.prefix}_weights.o", library.constants_image, found))
    return {f"{library.prefix}.a": archive(members, library.target.form.format)}


def archive(members: Sequence[Member], form: str) -> bytes:
    """The bytes of an archive of object files, whose format is `form` (`elf`, `coff`, `macho`, `wasm`)."""
    return _bsd(members) if form == "macho" else _gnu(members, second=form == "coff")


def _header(name: str, size: int) -> bytes:
    line = f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{size:<10}"
    if len(line) != 58:
        raise UnsupportedError(f"archive: member {name} of {size} bytes is larger than the format allows")
    return line.encode() + b"`\n"


def _padded(data: bytes, to: int = 2, fill: bytes = b"\n") -> bytes:
    return data + fill * (-len(data) % to)


def _offsets(members: Sequence[Member], start: int, sizes: Sequence[int]) -> list[int]:
    """The offsets in the archive of the members' headers. The first one is `start`; `sizes` has the bytes
    that each member takes. UnsupportedError for an offset of more than 32 bits.
    """
    found = []
    for member, size in zip(members, sizes, strict=True):
        if start >= _MOST:
            raise UnsupportedError(f"archive: {member.name} begins after 4 GiB, where no symbol can be found")
        found.append(start)
        start += size
    return found


def _gnu(members: Sequence[Member], *, second: bool) -> bytes:
    """An archive in the GNU format; with `second`, Microsoft's symbol table is added, and long names end with
    a zero.
    """
    names, long_names = [], b""
    for member in members:
        if len(member.name.encode()) > _SHORT:
            names.append(f"/{len(long_names)}")
            long_names += member.name.encode() + (b"\0" if second else b"/\n")
        else:
            names.append(f"{member.name}/")
    count = sum(len(m.symbols) for m in members)
    strings = b"".join(s.encode() + b"\0" for m in members for s in m.symbols)
    table_size = 4 + 4 * count + len(strings)
    # Microsoft's table has sorted symbols, with member numbers from 1.
    ordered = sorted((s.encode(), k) for k, m in enumerate(members, 1) for s in m.symbols)
    second_size = 4 + 4 * len(members) + 4 + 2 * count + len(strings) if second else 0
    start = len(_MAGIC) + 60 + table_size + table_size % 2
    start += 60 + second_size + second_size % 2 if second else 0
    start += 60 + len(long_names) + len(long_names) % 2 if long_names else 0
    offsets = _offsets(members, start, [60 + len(m.data) + len(m.data) % 2 for m in members])
    owners = [offset for offset, m in zip(offsets, members, strict=True) for _ in m.symbols]
    parts = [_MAGIC, _header("/", table_size), _padded(struct.pack(f">I{count}I", count, *owners) + strings)]
    if second:
        table = struct.pack(f"<I{len(offsets)}II", len(offsets), *offsets, count)
        table += struct.pack(f"<{count}H", *(k for _, k in ordered))
        table += b"".join(s + b"\0" for s, _ in ordered)
        parts += [_header("/", second_size), _padded(table)]
    if long_names:
        parts += [_header("//", len(long_names)), _padded(long_names)]
    for name, member in zip(names, members, strict=True):
        parts += [_header(name, len(member.data)), member.data, b"\n" * (len(member.data) % 2)]
    return b"".join(parts)


def _bsd(members: Sequence[Member]) -> bytes:
    """An archive in the BSD format: names precede the data, padded so that data begins at a multiple of 8, as
    Apple's linker requires.
    """
    names = [_padded(m.name.encode() + b"\0", 8, b"\0") for m in members]
    names = [name + b"\0" * 4 for name in names]  # 68 bytes come before the name: 4 mod 8
    sizes = [len(n) + len(m.data) + -len(m.data) % 8 for n, m in zip(names, members, strict=True)]
    strings = _padded(b"".join(s.encode() + b"\0" for m in members for s in m.symbols), 8, b"\0")
    count = sum(len(m.symbols) for m in members)
    title = b"__.SYMDEF\0\0\0"
    table_size = len(title) + 4 + 8 * count + 4 + len(strings)
    offsets = _offsets(members, len(_MAGIC) + 60 + table_size, [60 + size for size in sizes])
    entries, at = [], 0
    for offset, member in zip(offsets, members, strict=True):
        for symbol in member.symbols:
            entries += [at, offset]
            at += len(symbol.encode()) + 1
    table = title + struct.pack(f"<I{2 * count}I", 8 * count, *entries)
    table += struct.pack("<I", len(strings)) + strings
    parts = [_MAGIC, _header(f"#1/{len(title)}", table_size), table]
    for name, size, member in zip(names, sizes, members, strict=True):
        parts += [_header(f"#1/{len(name)}", size), name, member.data, b"\n" * (-len(member.data) % 8)]
    return b"".join(parts)
