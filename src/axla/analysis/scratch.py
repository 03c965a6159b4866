"""Scratch memory: gives an instruction memory of the workspace that no live value uses while it runs."""

from __future__ import annotations

from axla.analysis.buffers import Buffers
from axla.ir.graph import Instruction
from axla.program.memory import Allocation, AllocationKind, BufferSlice
from axla.target.machine import aligned

SPAN = 512
"""Ticks per bucket of the index of live slices."""


class Scratch:
    """Gives scratch memory to instructions. `total` is the size in bytes that the workspace needs to contain
    all scratch memory.
    """

    def __init__(self, buffers: Buffers):
        self.flow = buffers.flow
        self.total = buffers.workspace_bytes
        self._living: dict[int, list[tuple[int, int, BufferSlice]]] = {}
        for start, end, place in buffers.workspace_slices():
            for span in range(start // SPAN, end // SPAN + 1):
                self._living.setdefault(span, []).append((start, end, place))

    def slice(self, inst: Instruction, size: int) -> BufferSlice:
        """The first slice of `size` bytes of the workspace that no value uses while `inst` runs."""
        now = self.flow.time[inst]
        living = self._living.get(now // SPAN, ())
        taken = sorted((p.offset, p.size) for start, end, p in living if start <= now <= end)
        offset = 0
        for start, held in taken:
            if offset + size <= start:
                break
            offset = max(offset, aligned(start + held))
        self.total = max(self.total, offset + size)
        return BufferSlice(Allocation(AllocationKind.WORKSPACE, 0, 0), offset, size)
