"""Tracks which values exist and where they are in memory, step by step through a program.

For every allocation it records the values in each byte range; a write removes the values that it overlaps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any, NoReturn

from axla.core.dataclass import dataclass
from axla.core.errors import VerifyError
from axla.core.shape import AnyShape, Shape
from axla.program.memory import AllocationKind, BufferSlice
from axla.program.program import Program
from axla.program.steps import ArrayValue
from axla.target.machine import ALIGNMENT, Limits

MOST_REGISTERS = Limits().tiny  # elements of an array in registers
WORKSPACE = AllocationKind.WORKSPACE, 0


@dataclass(slots=True, eq=False)
class LiveValue:
    """A value that exists: in registers if `register` is true, in memory, or in both."""

    shape: Shape
    register: bool


@dataclass(slots=True)
class AllocationContents:
    """The values in one allocation, by disjoint byte ranges."""

    size: int
    alignment: int
    writable: bool
    starts: list[int] = field(default_factory=list)
    held: dict[int, tuple[int, set[LiveValue]]] = field(default_factory=dict)  # start -> (end, values)

    def at(self, start: int, end: int) -> set[LiveValue] | None:
        """The set of values in exactly this range, to which the caller may add; None if there is no such
        range.
        """
        found = self.held.get(start)
        return found[1] if found is not None and found[0] == end else None

    def kill(self, start: int, end: int) -> list[tuple[int, tuple[int, set[LiveValue]]]]:
        """Removes the ranges that overlap this range; returns them as (start, (end, values))."""
        first = bisect_right(self.starts, start)
        if first and self.held[self.starts[first - 1]][0] > start:
            first -= 1
        last = bisect_left(self.starts, end, first)
        gone = [(at, self.held.pop(at)) for at in self.starts[first:last]]
        del self.starts[first:last]
        return gone

    def put(self, start: int, what: tuple[int, set[LiveValue]]) -> None:
        """Records that the range from `start` holds `what`, a pair of its end and its values. The range must
        be free.
        """
        insort(self.starts, start)
        self.held[start] = what


class Contents:
    """The values of a program and their memory, at the current step. VerifyError, with the step, for an
    inconsistent program.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.values: dict[str, LiveValue] = {}
        self.names: set[str] = set()  # of all values so far, also those whose scope has ended
        self.undo: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []  # calls that end the scope
        self.where = "the interface"
        code = program.interface.of_code()
        self.segment = AllocationContents(code.constants_bytes, ALIGNMENT, False)
        self.constants = {(c.offset, c.shape.byte_size): c.shape for c in program.constants}
        self.memory = {
            (AllocationKind.CONSTANTS, 0): self.segment,
            WORKSPACE: AllocationContents(code.workspace_bytes, ALIGNMENT, True),
        }

    def fail(self, problem: str) -> NoReturn:
        """Raises VerifyError with the name of the program, the current step and the problem."""
        raise VerifyError(f"program {self.program.name}: {self.where}: {problem}")

    def require(self, holds: bool, problem: str) -> None:
        """Raises VerifyError with the problem unless the condition holds."""
        if not holds:
            self.fail(problem)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A scope: what is recorded in the `with` block about values and memory is undone at its end."""
        mark = len(self.undo)
        yield
        while len(self.undo) > mark:
            function, arguments = self.undo.pop()
            function(*arguments)

    def kill(self, *places: BufferSlice) -> None:
        """Removes all values that overlap these slices, until the scope ends."""
        for place in places:
            memory = self.of(place)
            for gone in memory.kill(place.offset, place.offset + place.size):
                self.undo.append((memory.put, gone))

    def hold(self, place: BufferSlice, known: LiveValue, *, keep: bool = False) -> None:
        """Records that the value `known` is in a slice. It replaces overlapping values; with `keep`, the
        values of exactly the same range remain.
        """
        if not place.size:
            return
        memory, end = self.of(place), place.offset + place.size
        found = memory.at(place.offset, end) if keep else None
        if found is None:
            self.kill(place)
            memory.put(place.offset, (end, {known}))
            self.undo.append((memory.kill, (place.offset, end)))
        else:
            found.add(known)
            self.undo.append((found.discard, (known,)))

    def of(self, place: BufferSlice) -> AllocationContents:
        """The contents of the allocation of a slice; fails if the slice is not within it."""
        memory = self.memory.get((place.allocation.kind, place.allocation.number))
        if memory is None or not 0 <= place.offset <= place.offset + place.size <= memory.size:
            self.fail(f"{place} is not within its allocation")
        return memory

    def placed(self, value: ArrayValue) -> AllocationContents:
        """The contents of the allocation of a value that must be in memory. Fails if the value's slice does
        not have the size and alignment of the value.
        """
        place, alignment = value.place, value.shape.dtype.real.itemsize
        if place is None:
            self.fail(f"{value.name} must be in memory")
        memory = self.of(place)
        if place.size != value.shape.byte_size:
            self.fail(f"{value.name} is {value.shape}, but {place} has another size")
        if place.offset % alignment or memory.alignment % alignment:
            self.fail(f"{value.name} in {place} is not aligned to {alignment} bytes")
        return memory

    def define(self, value: ArrayValue, *, keep: bool = False) -> None:
        """Records that a step produces a value; `keep` as for `hold`."""
        if value.name in self.names or value.shape.is_dynamic:
            self.fail(f"{value.name} is written twice, or has a dynamic size: {value.shape}")
        self.names.add(value.name)
        if value.place is None:
            self.small(value)
        known = self.values[value.name] = LiveValue(value.shape, value.place is None)
        self.undo.append((self.values.pop, (value.name,)))
        if value.place is not None:
            self.put(value, known, keep=keep)

    def small(self, value: ArrayValue) -> None:
        """Fails if an array has too many elements for registers."""
        self.require(value.shape.size <= MOST_REGISTERS, f"{value.name} is too large for registers")

    def put(self, value: ArrayValue, known: LiveValue, *, keep: bool = False) -> None:
        """Records that `value`, which is `known` to the contents, is in its slice. The slice must be
        writable, unless `keep`; `keep` as for `hold`.
        """
        if not (self.placed(value).writable or keep):
            self.fail(f"{value.place} is read only")
        self.hold(value.memory, known, keep=keep)

    def use(self, *values: ArrayValue) -> None:
        """Records that a step reads values; fails if they are not where the step reads them. A constant is
        defined by its first use.
        """
        for value in values:
            known, place = self.values.get(value.name), value.place
            memory, constant = None if place is None else self.placed(value), None
            if place is not None and memory is self.segment:
                constant = self.constants.get((place.offset, place.size))
            if known is None and constant is not None:
                self.names.discard(value.name)  # several scopes may read it, one after the other
                self.define(ArrayValue(value.name, constant, place), keep=True)
                known = self.values[value.name]
            if known is None:
                self.fail(f"{value.name} is read before it is written")
            if known.shape is not value.shape and not _same_elements(known.shape, value.shape):
                self.fail(f"{value.name} is {known.shape}, but is read as {value.shape}")
            if place is None or memory is None:
                self.require(known.register, f"{value.name} is read in registers, but is in memory")
            elif place.size and known not in (memory.at(place.offset, place.offset + place.size) or ()):
                both = constant is not None and known.register  # lowering reads small constants both ways
                self.require(both, f"{value.name} is read in {place}, which holds another value")

    def typed(self, value: ArrayValue, shape: AnyShape) -> None:
        """Fails if a value does not have this shape, except for its layout."""
        if value.shape.logical is not shape.logical:
            self.fail(f"{value.name} is {value.shape}, wanted {shape}")


def _same_elements(a: Shape, b: Shape) -> bool:
    """Whether an array of shape `a`, in registers or memory, may be read as one of shape `b`."""
    return a.dtype is b.dtype and a.size == b.size and not b.is_dynamic
