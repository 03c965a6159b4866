"""Counts the work of launches on a GPU: warp instructions, sectors of memory, wavefronts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

SECTOR = 32
"""Bytes of global memory that are moved together."""
_BANKS = 32


@dataclass
class Traffic:
    """Counts of the launches since it was made, for a memory of so many bytes."""

    size: int
    instructions: int = 0
    """That warps issue."""
    asked: int = 0
    """Bytes of global memory that threads read or write."""
    sectors: int = 0
    """That the accesses of warps touch, each access for itself."""
    wavefronts: int = 0
    """Of shared memory: an access takes as many as words lie in one bank."""
    loads: int = 0
    """Basic blocks that load from global memory, for each warp that runs one."""
    loaded: int = 0
    """Bytes that they load."""
    touched: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.touched = {kind: np.zeros(self.size // SECTOR + 1, bool) for kind in ("ld", "st")}

    def footprint(self, kind: str) -> int:
        """Bytes of all sectors that are read (ld) or written (st), each once."""
        return int(self.touched[kind].sum()) * SECTOR

    def access(self, kind: str, index: np.ndarray, size: int, warps: np.ndarray) -> None:
        """Threads of warps access `size` bytes each, at places in memory."""
        if index.size and int(index.min()) >= self.size:
            self._shared(index, size, warps)
            return
        self.asked += index.size * size
        sector = index // SECTOR
        self.touched[kind][sector] = True
        self.sectors += len(np.unique(warps * (self.size // SECTOR + 1) + sector))

    def _shared(self, index: np.ndarray, size: int, warps: np.ndarray) -> None:
        for offset in range(0, size, 4):
            words = np.unique(np.stack([warps, (index + offset) >> 2], 1), axis=0)
            banks, counts = np.unique(
                np.stack([words[:, 0], words[:, 1] % _BANKS], 1), axis=0, return_counts=True
            )
            most = np.zeros(int(banks[:, 0].max()) + 1, np.int64)
            np.maximum.at(most, banks[:, 0], counts)
            self.wavefronts += int(most.sum())

    def block(self, warps: np.ndarray, instructions: int, loaded: int) -> None:
        """Warps run a basic block of so many instructions, which loads so many bytes for each thread."""
        count = len(np.unique(warps))
        self.instructions += count * instructions
        if loaded:
            self.loads += count
            self.loaded += len(warps) * loaded
