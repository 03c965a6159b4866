"""Allocations of a program, and slices of them."""

from __future__ import annotations

import enum

from axla.core.dataclass import dataclass


class MemorySpace(enum.StrEnum):
    """The kind of memory that an allocation is in."""

    DEVICE = "device"  # memory of the device that runs the program
    HOST = "host"  # memory of the calling process


class AllocationKind(enum.StrEnum):
    """The contents of an allocation: a parameter, a result, constants or the workspace."""

    PARAMETER = "parameter"  # leaf `number` of the parameters
    RESULT = "result"  # leaf `number` of the results
    CONSTANTS = "constants"  # the constants segment, read only
    WORKSPACE = "workspace"  # one per call, contents undefined at its start


@dataclass(frozen=True, slots=True)
class Allocation:
    """A block of memory. A parameter is `writable` if it is donated; then `result` is the result leaf that
    reuses it. `size` is that of a parameter or result, in bytes; the sizes of constants and workspace are in
    the interface.
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
    """A range of an allocation: `size` bytes from byte `offset` on."""

    allocation: Allocation
    offset: int
    size: int

    @property
    def space(self) -> MemorySpace:
        """The memory space of the allocation."""
        return self.allocation.space

    def overlaps(self, other: BufferSlice) -> bool:
        """Whether two slices have a common byte. A result that reuses a parameter's memory is the same
        allocation.
        """
        same = self.allocation == other.allocation or (
            self.allocation.kind is AllocationKind.PARAMETER
            and other.allocation.kind is AllocationKind.RESULT
            and self.allocation.result == other.allocation.number
        )
        return same and self.offset < other.offset + other.size and other.offset < self.offset + self.size

    def __str__(self) -> str:
        return f"{self.allocation.name}[{self.offset}:{self.offset + self.size}]"
