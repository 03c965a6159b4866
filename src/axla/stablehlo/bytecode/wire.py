"""The encoding of integers in MLIR bytecode, a position in the bytes, and the error for malformed bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Kinds of sections.
STRINGS, DIALECTS, ENTRIES, ENTRY_SIZES, IR_SECTION = range(5)
RESOURCES, RESOURCE_SIZES, VERSIONS, PROPERTIES = range(5, 9)


class BadBytes(Exception):
    """The bytes are malformed. `read` adds the position and turns this into a ParseError."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Decodes the integer at position `at`; returns it and the position after it. The number of trailing
    zeros in the first byte is the number of bytes that follow; eight bytes follow a first byte of zero.
    Raises IndexError past the end.
    """
    first = data[at]
    if first & 1:
        return first >> 1, at + 1
    if first & 2:
        return (data[at + 1] << 8 | first) >> 2, at + 2
    if first:
        size = (first & -first).bit_length()
        end = at + size
        if end > len(data):
            raise IndexError
        return int.from_bytes(data[at:end], "little") >> size, end
    end = at + 9
    if end > len(data):
        raise IndexError
    return int.from_bytes(data[at + 1 : end], "little"), end


def bounded(count: int, budget: int, what: str) -> int:
    """Returns `count`, the number of things that `what` names. Raises BadBytes if it exceeds `budget`,
    usually the number of bytes left: each thing takes at least one byte.
    """
    if count > budget:
        raise BadBytes(f"{count} {what} do not fit in {budget} bytes")
    return count


class Bytes:
    """A position in the data, and the end of the part being read. Each method reads one value and moves the
    position; it raises IndexError past the end of the data.
    """

    __slots__ = ("data", "at", "end")

    def __init__(self, data: bytes, at: int = 0, end: int = -1):
        self.data = data
        self.at = at
        self.end = len(data) if end < 0 else end

    def byte(self) -> int:
        """Reads one byte."""
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        """Reads an unsigned integer of variable length, as MLIR's bytecode encodes it."""
        value, self.at = varint(self.data, self.at)
        return value

    def signed(self) -> int:
        """Reads a signed integer, with its sign in the lowest bit."""
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def double(self) -> float:
        """Reads a float of 64 bits, which is encoded as a signed integer with the same bits."""
        return struct.unpack("<d", (self.signed() & (1 << 64) - 1).to_bytes(8, "little"))[0]

    def flagged(self, has_flag: bool, otherwise: bool) -> tuple[int, bool]:
        """Reads an integer and a flag. With `has_flag`, the flag is the lowest bit of what is read; else it
        is `otherwise`.
        """
        value = self.varint()
        return (value >> 1, bool(value & 1)) if has_flag else (value, otherwise)

    def count(self, what: str) -> int:
        """Reads a count of things, which `what` names; each takes at least a byte."""
        return bounded(self.varint(), self.end - self.at, what)

    def several(self, read: Callable[[], T], what: str = "entries") -> tuple[T, ...]:
        """Reads a count, then that many entries with `read`; `what` names them in errors."""
        return tuple([read() for _ in range(self.count(what))])

    def blob(self) -> bytes:
        """Reads a size, then that many bytes."""
        size = self.count("bytes of data")
        self.at += size
        return self.data[self.at - size : self.at]

    def section(self) -> tuple[int, Bytes]:
        """Reads a section; returns its kind and its contents."""
        kind, size = self.byte(), self.varint()
        if kind & 128:
            alignment = self.varint()
            if alignment.bit_count() != 1:
                raise BadBytes(f"a section aligned to {alignment} bytes, wanted a power of 2")
            self.at += -self.at % alignment
        if self.at > self.end or size > self.end - self.at:
            raise BadBytes(f"a section of {size} bytes, but only {max(self.end - self.at, 0)} are left")
        self.at += size
        return kind & 127, Bytes(self.data, self.at - size, self.at)
