"""Links ELF objects for this machine into the memory of this process, without LLVM.

Supports as much of ELF as self-contained code needs: sections, symbols, the relocations of `relocations.py`.
Everything is checked before it is used; InvalidArgument says what is wrong with an object. Once an `Image`
exists, only its variables are writable.

All objects of an image, with their slots, are in one range of memory, so that their instructions can reach
each other wherever the system maps it. A *slot* is a jump to a symbol, followed by the symbol's address. It
is used where the symbol may be out of reach, or where instructions read its address.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from axla.codegen.elf import (
    ABSOLUTE,
    ALLOC,
    EXECUTABLE,
    NOBITS,
    PROGBITS,
    RELA,
    WRITABLE,
    Elf,
    Section,
    Symbol,
)
from axla.codegen.native import systems
from axla.codegen.native.relocations import MACHINES, Machine
from axla.core.errors import InvalidArgument, UnsupportedError, choices

_RELOCATABLE = 1
_LARGEST = 1 << 31  # relative addresses of 32 bits reach so far
_PAGE = mmap.PAGESIZE
_SLOT = 16


class _Object(Elf):
    """An ELF object that can be linked on a machine; raises InvalidArgument for any other file."""

    def __init__(self, name: str, data: bytes, machine: Machine) -> None:
        self.name = name
        self.slots: dict[int, int] = {}  # offsets of slots, by symbol number
        super().__init__(data)
        here = (_RELOCATABLE, machine.number, "<")
        if not self.wide or (self.kind, self.machine, self.order) != here:
            found = f"ELF type {self.kind} for machine {self.machine}"
            self.refuse(f"{found}, wanted a relocatable object for machine {machine.number}")
        for section in self.sections:
            if section.flags & ALLOC and section.align > _PAGE:
                self.refuse(f"a section is aligned to {section.align} bytes, more than a page")

    def refuse(self, what: str) -> NoReturn:
        raise InvalidArgument(f"{self.name}: {what}")

    def relocations(self) -> Iterator[tuple[Section, int, int, Symbol, int, int]]:
        """Yields the relocations of loaded sections: section, offset in it, type, symbol, symbol number,
        addend.
        """
        for section in self.sections:
            if section.kind != RELA:
                continue
            if section.info >= len(self.sections) or section.size % 24:
                self.refuse("the relocations are not valid ELF")
            place = self.sections[section.info]
            if place.at < 0:
                continue
            for at in range(section.offset, section.offset + section.size, 24):
                offset, info, addend = struct.unpack_from("<QQq", self.data, at)
                number = info >> 32
                if number >= len(self.symbols):
                    self.refuse(f"a relocation needs symbol {number}, which does not exist")
                yield place, offset, info & 0xFFFFFFFF, self.symbols[number], number, addend


class Image:
    """Objects that are linked with each other and with the addresses in `imports`. `addresses` has those of
    the exported symbols, valid as long as this object exists.
    """

    def __init__(
        self, images: Sequence[tuple[str, bytes]], exports: Sequence[str],
        imports: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        machine = MACHINES.get(systems.machine())
        if machine is None:
            raise UnsupportedError(f"cannot link objects for {systems.machine()}: {choices(MACHINES)}")
        imports = {**{name: systems.HERE.address(name) for name in systems.HERE.NEEDED}, **(imports or {})}
        objects = [_Object(name, data, machine) for name, data in images]
        code, constant, total = _layout(objects, machine)
        if total >= _LARGEST:
            raise UnsupportedError(f"{total} bytes of code and constants; the limit is {_LARGEST - 1}")
        self._pages = pages = systems.HERE.Pages(total)
        memory, base = pages.view, pages.address
        for found in objects:
            for section in found.sections:
                if section.at >= 0 and section.kind == PROGBITS:
                    memory[section.at : section.at + section.size] = found.data[
                        section.offset : section.offset + section.size
                    ]
        table = {**imports, **_globals(objects, base)}
        for found in objects:
            _relocate(found, memory, base, table, machine)
        missing = [name for name in exports if name not in table]
        if missing:
            raise InvalidArgument(f"{images[0][0]}: does not define {', '.join(missing)}")
        pages.protect(0, code, True)
        pages.protect(code, constant, False)
        if machine.flushes:
            systems.HERE.flush(base, code)
        self.addresses = {name: table[name] for name in exports}


def _layout(objects: Sequence[_Object], machine: Machine) -> tuple[int, ...]:
    """Assigns offsets to sections: code first, where the slots of each object follow its code; then constants
    and variables, each from the next page on. Returns the ends of all three.
    """
    at = 0
    ends = []
    defined = {s.name for found in objects for s in found.symbols if s.is_global and s.section}
    for wanted in (EXECUTABLE, 0, WRITABLE):
        for found in objects:
            for section in found.sections:
                if section.flags & ALLOC and section.flags & (EXECUTABLE | WRITABLE) == wanted:
                    if section.kind not in (PROGBITS, NOBITS) and section.size:
                        # Unwinding tables and notes are not needed to run.
                        continue
                    section.at = -(-at // section.align) * section.align
                    at = section.at + section.size
            outside = {s.name for s in found.symbols if s.name and s.section == 0} - defined
            if wanted == EXECUTABLE and (outside or machine.reads):
                at = _place_slots(found, -(-at // _SLOT) * _SLOT, machine, outside)
        at = -(-at // _PAGE) * _PAGE
        ends.append(at)
    return tuple(ends)


def _place_slots(found: _Object, at: int, machine: Machine, outside: set[str]) -> int:
    """Assigns offsets, from `at` on, to the slots that the code of an object may need; returns their end.
    `outside` has the names of symbols that may be out of reach.
    """
    for _, _, kind, symbol, number, _ in found.relocations():
        if kind in machine.reads or (kind in machine.calls and symbol.name in outside):
            found.slots.setdefault(number, at + _SLOT * len(found.slots))
    return at + _SLOT * len(found.slots)


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


def _relocate(found: _Object, memory: memoryview, base: int, table: dict[str, int], machine: Machine) -> None:
    for number, at in found.slots.items():
        slot = machine.slot + struct.pack("<Q", _value(found, found.symbols[number], base, table))
        memory[at : at + len(slot)] = slot
    for place, offset, kind, symbol, number, addend in found.relocations():
        size = machine.sizes.get(kind, 0)
        slot = found.slots.get(number) if kind in machine.reads or kind in machine.calls else None
        own = machine.calls.get(kind, 0)
        wrong = slot is not None and addend != own  # a slot has the symbol's own address
        if not size or wrong or place.kind != PROGBITS or offset + size > place.size:
            found.refuse(f"relocation of type {kind} at {offset} is not supported")
        if slot is None:
            value = _value(found, symbol, base, table) + addend
        else:
            value = base + slot + (len(machine.slot) if kind in machine.reads else 0) + own
        start = place.at + offset
        try:
            done = machine.patch(kind, bytes(memory[start : start + size]), value, base + start)
        except struct.error:
            found.refuse(f"relocation at {offset} is out of range")
        memory[start : start + size] = done


def _value(found: _Object, symbol: Symbol, base: int, table: dict[str, int]) -> int:
    """The address of a symbol that a relocation names. `table` has the addresses of the symbols that other
    objects define; `base` is the address of the image.
    """
    name, home = symbol.name, symbol.section
    if home == 0:
        if name not in table:
            found.refuse(f"needs {name}, which nothing defines")
        return table[name]
    if home == ABSOLUTE or found.sections[home].at < 0:
        found.refuse(f"a relocation needs {name or 'a section'}, which is not loaded")
    return base + found.sections[home].at + symbol.value
