"""Bytes that threads read and write: one array, of which every access is checked as a GPU would, and more.

A global address is the number that the host would use for the same byte. Shared and local memory have windows
of generic addresses; a thread sees there what is its own.
"""

from __future__ import annotations

import bisect

import numpy as np

from ptx.text import PtxError
from ptx.traffic import Traffic

SHARED, LOCAL = 1 << 60, 1 << 61
"""Where the windows of generic addresses begin."""
_FRESH = 0xA5
"""What memory holds that nobody has written."""


class Memory:
    """Global memory of so many bytes, and room for the shared and local memory of one launch."""

    def __init__(self, size: int, room: int) -> None:
        self._whole = np.empty(size + room + 256, np.uint8)
        first = -self._whole.ctypes.data % 256
        self.bytes = self._whole[first : first + size + room]
        self.base = self.bytes.ctypes.data
        self.size, self.room = size, room
        self._words = {width: self.bytes.view(f"u{width}") for width in (1, 2, 4, 8)}
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._reads = np.zeros(size // 4, bool)  # of words that this launch takes for constant
        self._writes = np.zeros(size // 4, bool)
        self._marked: list[tuple[int, int]] = []
        self._apart = {SHARED: (0, 0), LOCAL: (0, 0)}
        self.traffic: Traffic | None = None
        """Where accesses are counted, if anywhere."""

    # -- what the host does --------------------------------------------------------------------------------

    def allocate(self, size: int) -> int | None:
        """The address of fresh bytes, aligned to 256; None where there is no room."""
        place = self.base
        for number, begin in enumerate([*self._begins, self.base + self.size]):
            if place + max(size, 1) <= begin:
                self._begins.insert(number, place)
                self._ends.insert(number, place + size)
                self.bytes[place - self.base : place - self.base + size] = _FRESH
                return place
            if number < len(self._ends):
                place = -(-max(self._ends[number], begin + 1) // 256) * 256
        return None

    def free(self, address: int) -> None:
        number = bisect.bisect_left(self._begins, address)
        if number == len(self._begins) or self._begins[number] != address:
            raise PtxError(f"no memory begins at {address:#x}")
        del self._begins[number], self._ends[number]

    @property
    def allocations(self) -> int:
        return len(self._begins)

    def view(self, address: int, size: int) -> np.ndarray:
        """Bytes of global memory, to read and write; PtxError unless they are one allocation's."""
        self._check(address, address, size)
        return self.bytes[address - self.base : address - self.base + size]

    # -- what threads do -----------------------------------------------------------------------------------

    def begin(self, blocks: int, threads: int, shared: int, local: int) -> None:
        """Makes shared memory for blocks and local memory for threads, for a launch."""
        shared, local = (-(-size // 16) * 16 for size in (shared, local))  # each begins where 16 bytes do
        first = self.size
        second = first + blocks * shared
        if second + blocks * threads * local > len(self.bytes):
            raise PtxError(f"{blocks} blocks: no room for {shared} bytes each and {local} for each thread")
        self.bytes[first : second + blocks * threads * local] = _FRESH
        self._apart = {SHARED: (first, shared), LOCAL: (second, local)}

    def finish(self) -> None:
        """Ends a launch; PtxError where something was written that was read as a constant."""
        marked, self._marked = self._marked, []
        wrong = -1
        for first, last in marked:
            both = self._reads[first:last] & self._writes[first:last]
            if both.any():
                wrong = first + int(np.argmax(both))
            self._reads[first:last] = False
            self._writes[first:last] = False
        if wrong >= 0:
            raise PtxError(f"{self.base + 4 * wrong:#x} is read by ld.global.nc and written in one launch")

    def load(self, index: np.ndarray, width: int) -> np.ndarray:
        return self._words[width][index >> (width.bit_length() - 1)]

    def store(self, index: np.ndarray, value: np.ndarray) -> None:
        width = value.dtype.itemsize
        self._words[width][index >> (width.bit_length() - 1)] = value

    def mark(self, index: np.ndarray, width: int, *, write: bool) -> None:
        """Notes what global memory is written, or read as constant."""
        words = index[index < self.size] >> 2
        if not words.size:
            return
        marks = self._writes if write else self._reads
        for offset in range(-(-width // 4)):
            marks[words + offset] = True
        self._marked.append((int(words.min()), int(words.max()) - (-width // 4)))

    def place(
        self, space: str, address: np.ndarray, size: int, align: int, blocks: np.ndarray, threads: np.ndarray
    ) -> np.ndarray:
        """Where in `bytes` the addresses of threads lie."""
        if not address.size:
            return address.astype(np.int64)
        if space == "shared":
            address = address + np.uint64(SHARED)
        elif space == "local":
            address = address + np.uint64(LOCAL)
        lowest, highest = int(address.min()), int(address.max())
        if align > 1 and (address & np.uint64(align - 1)).any():
            where = int(address[(address & np.uint64(align - 1)) != 0][0])
            raise PtxError(f"an access of {align} bytes at {where:#x}, which is not aligned")
        if highest < SHARED:
            self._check(lowest, highest, size, address)
            return (address - np.uint64(self.base)).astype(np.int64)
        if lowest >= LOCAL:
            return self._own(LOCAL, address, size, threads)
        if lowest >= SHARED and highest < LOCAL:
            return self._own(SHARED, address, size, blocks)
        raise PtxError("threads access several kinds of memory in one instruction: split the access")

    def _own(self, window: int, address: np.ndarray, size: int, numbers: np.ndarray) -> np.ndarray:
        first, each = self._apart[window]
        offset = (address - np.uint64(window)).astype(np.int64)
        if int(offset.max()) + size > each:
            kind = "shared" if window == SHARED else "local"
            raise PtxError(f"an access to {kind} memory at {int(offset.max())}, of {each} bytes")
        return offset + first + numbers * each

    def _check(self, lowest: int, highest: int, size: int, addresses: np.ndarray | None = None) -> None:
        number = bisect.bisect_right(self._begins, lowest) - 1
        if number >= 0 and highest + size <= self._ends[number]:
            return
        if addresses is None:
            raise PtxError(f"{size} bytes at {lowest:#x} are not allocated")
        begins, ends = np.array(self._begins, np.uint64), np.array(self._ends, np.uint64)
        numbers = np.searchsorted(begins, addresses, "right").astype(np.int64) - 1
        wrong = (numbers < 0) | (addresses + np.uint64(size) > ends[np.maximum(numbers, 0)])
        if wrong.any():
            raise PtxError(f"{size} bytes at {int(addresses[wrong][0]):#x} are not allocated")
