"""Allocations of a program and slices of them: frozen data with a text form."""

from __future__ import annotations

import enum

from axla.core.dataclass import dataclass


class MemorySpace(enum.StrEnum):
    """The kind of memory that contains an allocation."""

    DEVICE = "device"  # of whoever runs the program: on a CPU, its memory
    HOST = "host"  # of the process that calls


class AllocationKind(enum.StrEnum):
    """The contents of an allocation: a parameter, a result, constants or the workspace."""

    PARAMETER = "parameter"  # leaf `number` of the parameters
    RESULT = "result"  # leaf `number` of the results
    CONSTANTS = "constants"  # the constants segment, read only
    WORKSPACE = "workspace"  # one per call, contents undefined at its start


@dataclass(frozen=True, slots=True)
class Allocation:
    """A piece of memory. A parameter is `writable` when it is donated: `result` is the leaf that reuses it.
    `size` is that of a parameter or result; the interface has those of constants and workspace.
    """

    kind: AllocationKind
    number: int
    size: int
    writable: bool = True
    result: int = -1
    space: MemorySpace = MemorySpace.DEVICE

    @property
    def name(self) -> str:
        """The name in the text of a program: `parameter3`, `workspace`, `host`."""
        if self.space is MemorySpace.HOST:
            return "host"
        if self.kind in (AllocationKind.CONSTANTS, AllocationKind.WORKSPACE):
            return str(self.kind)
        return f"{self.kind}{self.number}"

    def __str__(self) -> str:
        facts = [f"{self.size} bytes"]
        if not self.writable:
            facts.append("read only")
        if self.result >= 0:
            facts.append(f"becomes result{self.result}")
        if self.space is not MemorySpace.DEVICE:
            facts.append(f"in {self.space} memory")
        return f"{self.name}: {', '.join(facts)}"


@dataclass(frozen=True, slots=True)
class BufferSlice:
    """`size` bytes of an allocation from `offset` on."""

    allocation: Allocation
    offset: int
    size: int

    @property
    def space(self) -> MemorySpace:
        """The memory space of the allocation: of the host or of the device."""
        return self.allocation.space

    def overlaps(self, other: BufferSlice) -> bool:
        """Whether they have a common byte."""
        same = self.allocation == other.allocation or (
            self.allocation.kind is AllocationKind.PARAMETER
            and other.allocation.kind is AllocationKind.RESULT
            and self.allocation.result == other.allocation.number
        )
        return same and self.offset < other.offset + other.size and other.offset < self.offset + self.size

    def __str__(self) -> str:
        return f"{self.allocation.name}[{self.offset}:{self.offset + self.size}]"
