"""Relocations of ELF objects, for the machines whose objects `image.py` links.

`Machine.patch(kind, old, target, at)` returns the new value of the bytes `old` at address `at` that refer to
the address `target`; it raises struct.error where that is out of reach. Numbers and meanings are those of the
ELF supplements of the x86-64 and AArch64 ABIs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import field

from axla.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """The relocation types of a machine, and how they are applied."""

    number: int  # e_machine in the header of an ELF file
    sizes: Mapping[int, int]  # bytes that a type of relocation changes; other types are refused
    patch: Callable[[int, bytes, int, int], bytes]
    slot: bytes = b""  # code that jumps to the address that follows it
    calls: Mapping[int, int] = field(default_factory=dict)  # types for which a slot may be used: their addend
    reads: frozenset[int] = frozenset()  # types that refer to the address in a slot
    flushes: bool = False  # whether written code must be flushed to the instruction cache


def _x86_64(kind: int, old: bytes, target: int, at: int) -> bytes:
    if kind == 1:
        return struct.pack("<Q", target)
    return struct.pack("<q" if kind == 24 else "<i", target - at)


_GOT = 9, 41, 42  # the distance to a word that contains the address

# For types whose instruction has a field with the offset in a page: log2 of the field's unit in bytes.
_LOW = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4, 312: 3}
_MOVES = {264: 0, 266: 16, 268: 32, 269: 48}
_ABSOLUTE, _RELATIVE = {257: "<Q", 258: "<I"}, {260: "<q", 261: "<i"}


def _aarch64(kind: int, old: bytes, target: int, at: int) -> bytes:
    if kind in _ABSOLUTE:
        return struct.pack(_ABSOLUTE[kind], target)
    if kind in _RELATIVE:
        return struct.pack(_RELATIVE[kind], target - at)
    (word,) = struct.unpack("<I", old)
    if kind in _LOW:
        word |= ((target & 0xFFF) >> _LOW[kind]) << 10
    elif kind in _MOVES:
        word |= (target >> _MOVES[kind] & 0xFFFF) << 5
    elif kind in _BRANCHES:
        word |= _signed((target - at) >> 2, 26)
    else:  # adrp: a distance in pages
        pages = _signed((target >> 12) - (at >> 12), 21)
        word |= (pages & 3) << 29 | pages >> 2 << 5
    return struct.pack("<I", word)


def _signed(value: int, bits: int) -> int:
    """Returns `value` as a signed field of `bits` bits; raises struct.error if it does not fit."""
    if not -1 << bits - 1 <= value < 1 << bits - 1:
        raise struct.error(f"{value} does not fit {bits} bits")
    return value & (1 << bits) - 1


_BRANCHES = frozenset({282, 283})
_PAGES = frozenset({275, 311})
_WORDS = {*_LOW, *_MOVES, *_BRANCHES, *_PAGES, 258, 261}

MACHINES = {
    "x86_64": Machine(
        62, {1: 8, 2: 4, 4: 4, 24: 8, **dict.fromkeys(_GOT, 4)}, _x86_64,
        slot=b"\xff\x25\0\0\0\0",  # jmp to the address that follows
        calls=dict.fromkeys((4, *_GOT), -4),
        reads=frozenset(_GOT),
    ),
    "aarch64": Machine(
        183,
        {257: 8, 260: 8, **dict.fromkeys(_WORDS, 4)},
        _aarch64,
        slot=struct.pack("<II", 0x58000050, 0xD61F0200),  # ldr x16, from 8 bytes later; br x16
        calls=dict.fromkeys(_BRANCHES, 0),
        reads=frozenset({311, 312}),
        flushes=True,
    ),
}  # fmt: skip
