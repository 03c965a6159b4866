"""Transposes square blocks of elements in vector registers."""

from __future__ import annotations

from collections.abc import Sequence

from axla.codegen.function import LlvmFunction, Ssa
from axla.codegen.types import element_type, lane_count, mangle
from axla.codegen.value import Value

_BYTES = {"half": 2, "bfloat": 2, "float": 4, "double": 8}

# x86 and NEON interleave two registers within blocks of so many bytes in one instruction; between blocks,
# elements are moved by whole blocks.
_BLOCK = 16


def transpose_block(f: LlvmFunction, rows: Sequence[Ssa]) -> list[Ssa]:
    """The transpose of n vectors of n lanes, n a power of two: lane r of result c is lane c of row r.

    It takes n * log2(n) shuffles, each a single instruction on SSE, AVX, AVX-512 and NEON.
    """
    count = len(rows)
    if any(lane_count(row.type) != count for row in rows) or count & (count - 1):
        raise AssertionError(f"{f.name}: transpose_block of {count} rows of type {rows[0].type}")
    element = element_type(rows[0].type)
    size = _BYTES.get(element) or max(1, int(element[1:]) // 8)
    inside = min(count, max(1, _BLOCK // size))
    # The bits of row and lane numbers are exchanged one by one. A first kind of stage interleaves two rows
    # whose numbers differ in bit x, within blocks of lanes: the old row bit x becomes the lowest lane bit in
    # a block, and the old highest lane bit in a block becomes row bit x. Such stages, for the bits x from
    # high to low, transpose within blocks. A second kind collects the even and the odd blocks of two rows:
    # the old row bit x becomes the highest lane bit, and the lowest bit of block numbers becomes row bit x.
    found = list(rows)
    bit = inside // 2
    while bit:
        found = _stage(f, found, bit, _interleave(count, inside))
        bit //= 2
    bit = inside
    while bit < count:
        found = _stage(f, found, bit, _alternate(count, inside))
        bit *= 2
    return found


def transposed(f: LlvmFunction, rows: Sequence[Value]) -> list[Value]:
    """The transpose of n `Value`s of n lanes, as by `transpose_block`."""
    parts = [transpose_block(f, [row.parts[n] for row in rows]) for n in range(len(rows[0].parts))]
    return [Value(rows[0].dtype, len(rows), column) for column in zip(*parts, strict=True)]


def _stage(f: LlvmFunction, rows: list[Ssa], bit: int, masks: tuple[list[int], list[int]]) -> list[Ssa]:
    """Replaces each pair of rows whose numbers differ in `bit` by two shuffles of them, with these masks."""
    found = list(rows)
    for low in range(len(rows)):
        if not low & bit:
            high = low | bit
            found[low] = _fenced(f, f.shuffle(rows[low], rows[high], masks[0]))
            found[high] = _fenced(f, f.shuffle(rows[low], rows[high], masks[1]))
    return found


def _fenced(f: LlvmFunction, row: Ssa) -> Ssa:
    """Returns `row` unchanged, but hidden from LLVM. Otherwise LLVM would search it for shuffles to combine,
    find none, and spend two thirds of the compile time of the kernel on it.
    """
    # LLVM's back end for s390x, which is big-endian, fails on fences.
    floats = f.module.byte_order == "little" and element_type(row.type) in ("float", "double")
    return f.call(row.type, f"llvm.arithmetic.fence.{mangle(row.type)}", row) if floats else row


def _interleave(lanes: int, inside: int) -> tuple[list[int], list[int]]:
    """Two shuffle masks that interleave rows a and b (a0 b0 a1 b1...) within each block of `inside` lanes:
    one for the low halves of the blocks, one for the high halves.
    """
    low, high = [], []
    for block in range(0, lanes, inside):
        for lane in range(inside // 2):
            low += [block + lane, lanes + block + lane]
            high += [block + inside // 2 + lane, lanes + block + inside // 2 + lane]
    return low, high


def _alternate(lanes: int, inside: int) -> tuple[list[int], list[int]]:
    """Two shuffle masks: one selects the even blocks of `inside` lanes of row a, then those of row b; the
    other selects the odd blocks.
    """
    pair = range(0, 2 * lanes, 2 * inside)
    even = [block + lane for block in pair for lane in range(inside)]
    return even, [lane + inside for lane in even]
