"""The integers of MLIR bytecode, and the error of bytes that mean nothing."""

from __future__ import annotations


class Malformed(Exception):
    """What is wrong with the bytes; `read` adds where and makes it a ParseError."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The integer at `at` and where the next thing is. The zeros below the lowest set bit of the first byte
    count the bytes that follow; a first byte of zero is followed by all eight. IndexError past the end.
    """
    first = data[at]
    if first & 1:
        return first >> 1, at + 1
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


def signed(value: int) -> int:
    """Zigzag: the sign is in the lowest bit."""
    return value >> 1 ^ -(value & 1)


def bounded(count: int, room: int, what: str) -> int:
    """`count` when as many things can still be in `room` bytes."""
    if count > room:
        raise Malformed(f"{count} {what} in {room} bytes")
    return count


def signed_list(data: bytes, at: int, end: int) -> tuple[tuple[int, ...], int]:
    values, at = varint_list(data, at, end, "integers")
    return tuple([value >> 1 ^ -(value & 1) for value in values]), at


def varint_list(data: bytes, at: int, end: int, what: str = "entries") -> tuple[tuple[int, ...], int]:
    count, at = varint(data, at)
    bounded(count, end - at, what)
    values = []
    for _ in range(count):
        value, at = varint(data, at)
        values.append(value)
    return tuple(values), at


# Kinds of sections.
STRINGS, DIALECTS, ENTRIES, ENTRY_SIZES, IR_SECTION, RESOURCES, RESOURCE_SIZES, VERSIONS, PROPERTIES = range(
    9
)


def section(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """The kind of the section at `at`, and where its contents begin and end."""
    kind = data[at]
    size, at = varint(data, at + 1)
    if kind & 128:
        alignment, at = varint(data, at)
        if alignment.bit_count() != 1:
            raise Malformed(f"a section aligned to {alignment} bytes")
        at += -at % alignment
    if at > end or size > end - at:
        raise Malformed(f"a section of {size} bytes where {max(end - at, 0)} are left")
    return kind & 127, at, at + size
