"""Tables of sorted strings (SSTables), the file format of checkpoint indexes.

A table consists of blocks, an index block with their positions, and a footer with the position of the index
block. A block consists of entries, and of restart offsets for searches. The key of an entry omits the prefix
that it shares with the previous key. After each block come a byte for its compression and a checksum.
"""

from __future__ import annotations

from collections.abc import Iterator

from axla.core.errors import ParseError
from axla.proto.wire import BadProto, varint
from axla.tensorflow.checksums import masked_crc32c

MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER, _TRAILER = 48, 5
_PLAIN, _SNAPPY = 0, 1
_SPREAD = 24
"""The largest factor by which compressed data, or a block with shared prefixes, may expand. Snappy's copies
expand at most 22 times.
"""


def entries(data: memoryview, what: str) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a table, as bytes. Raises ParseError, which begins with `what`, if the table is
    damaged.
    """
    if len(data) < _FOOTER or bytes(data[-8:]) != MAGIC:
        raise ParseError(f"{what}: this is not a table of strings: its last 8 bytes are wrong")
    footer = bytes(data[-_FOOTER:])
    at = number(footer, number(footer, 0, what)[1], what)[1]  # skips the handle of the meta block
    left = _SPREAD * len(data) + (1 << 20)
    for _, handle in _block(_contents(data, footer, at, what), what):
        for key, value in _block(_contents(data, handle, 0, what), what):
            left -= len(key)
            if left < 0:
                raise ParseError(f"{what}: the keys are longer than a file of this size can hold")
            yield key, value


def number(data: bytes, at: int, what: str) -> tuple[int, int]:
    """Reads a variable-length number at an offset; returns it and the offset after it. Error messages begin
    with `what`.
    """
    try:
        return varint(data, at, len(data))
    except BadProto:
        raise ParseError(f"{what}: a variable-length number has no end") from None


def _contents(data: memoryview, handle: bytes, at: int, what: str) -> bytes:
    """The decompressed contents of a block. Its handle, a pair of offset and size, begins at `handle[at]`.
    Error messages begin with `what`.
    """
    begin, at = number(handle, at, what)
    size, _ = number(handle, at, what)
    end = begin + size + _TRAILER
    if end > len(data):
        raise ParseError(f"{what}: a block ends at byte {end}, but the file has {len(data)} bytes")
    checksum = int.from_bytes(data[end - 4 : end], "little")
    if masked_crc32c(data[begin : end - 4]) != checksum:
        raise ParseError(f"{what}: the checksum of the block at byte {begin} is wrong")
    block, kind = bytes(data[begin : begin + size]), data[begin + size]
    if kind == _SNAPPY:
        return unpacked(block, what)
    if kind != _PLAIN:
        raise ParseError(f"{what}: the block at byte {begin} has the unknown compression {kind}")
    return block


def _block(block: bytes, what: str) -> Iterator[tuple[bytes, bytes]]:
    restarts = int.from_bytes(block[-4:], "little")
    end, at, key = len(block) - 4 * (restarts + 1), 0, b""
    if end < 0:
        raise ParseError(f"{what}: a block is too short for its {restarts} restart offsets")
    while at < end:
        shared, at = number(block, at, what)
        more, at = number(block, at, what)
        size, at = number(block, at, what)
        if shared > len(key) or at + more + size > end:
            raise ParseError(f"{what}: an entry is longer than its block")
        key = key[:shared] + block[at : at + more]
        at += more + size
        yield key, block[at - size : at]


def unpacked(data: bytes, what: str) -> bytes:
    """Decompresses Snappy data, which consists of literal bytes and copies of earlier output. Error messages
    begin with `what`.
    """
    size, at = number(data, 0, what)
    if size > _SPREAD * len(data):
        raise ParseError(f"{what}: {len(data)} compressed bytes cannot expand to {size}")
    found = bytearray()
    while at < len(data):
        tag = data[at]
        kind, length, at = tag & 3, (tag >> 2) + 1, at + 1
        if kind == 0:
            if length > 60:
                width = length - 60
                length, at = int.from_bytes(data[at : at + width], "little") + 1, at + width
            found += data[at : at + length]
            at += length
            continue
        if kind == 1:
            length, offset = (tag >> 2 & 7) + 4, tag >> 5 << 8 | int.from_bytes(data[at : at + 1], "little")
            at += 1
        else:
            width = 2 * kind - 2
            offset, at = int.from_bytes(data[at : at + width], "little"), at + width
        if not 0 < offset <= len(found):
            raise ParseError(f"{what}: a copy begins {offset} bytes back, after only {len(found)} bytes")
        piece = bytes(found[len(found) - offset : len(found) - offset + length])
        found += (piece * -(-length // offset))[:length]
        if len(found) > size:
            break
    if len(found) != size:
        raise ParseError(f"{what}: compressed data expands to {len(found)} bytes, its header says {size}")
    return bytes(found)
