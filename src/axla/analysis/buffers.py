"""Buffer assignment: gives every array of a scheduled module a slice of an allocation.

The allocations are the leaves of the entry's parameters and results, one segment of constants and one
workspace. Two arrays share bytes only if they are never live together. The pass `copy-insertion` must have
run before.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import field
from itertools import islice

from axla.analysis.coalesce import Coalesced, PlaceOf, coalesce
from axla.analysis.dataflow import Dataflow, LiveArray, dataflow
from axla.analysis.workspace import Interval, pack
from axla.core.dataclass import dataclass
from axla.core.errors import InternalError
from axla.core.literal import Literal
from axla.core.shape import array
from axla.hlo import Constant
from axla.ir.graph import Instruction, Module
from axla.ir.traverse import schedule_of
from axla.ir.typed import op_of
from axla.program.memory import Allocation, AllocationKind, BufferSlice
from axla.target.machine import Limits, aligned


@dataclass(slots=True)
class Buffers:
    """The slice of memory of every array of a module.

    Leaves count the arrays and tokens of a shape, depth first. A tiny value (`Limits.tiny`) that no kernel
    reads or writes has no slice: it lives in registers only. A tiny value of the root may have another slice
    than the result that it becomes; the entry copies it there at the end (compare `slice(root, leaf)` with
    `results[leaf]`).
    """

    module: Module
    parameters: tuple[BufferSlice | None, ...]  # by leaf of the entry's parameters, in order; None: a token
    results: tuple[BufferSlice | None, ...]  # by leaf of the entry's result; None: a token
    workspace_bytes: int
    constants_bytes: int
    constants: tuple[tuple[int, Literal], ...]  # (offset, literal): the contents of the constants segment
    aliases: tuple[tuple[int, int], ...]  # pairs (result leaf, parameter leaf) that share one allocation
    flow: Dataflow
    _slices: dict[PlaceOf, BufferSlice] = field(repr=False)
    _places: Coalesced = field(repr=False)

    def slices(self, inst: Instruction) -> tuple[BufferSlice | None, ...]:
        """The slice of every leaf of an instruction's result; None for tokens and for values that live in
        registers only.
        """
        return tuple(
            None if v is None else self._slices.get(self._places.place(v)) for v in self.flow.leaves[inst]
        )

    def slice(self, inst: Instruction, leaf: int = 0) -> BufferSlice:
        """The slice of one leaf; raises InternalError if the leaf has none."""
        value = self.flow.leaves[inst][leaf]
        found = None if value is None else self._slices.get(self._places.place(value))
        if found is None:
            raise InternalError(f"{inst!r}, leaf {leaf}, has no address in memory")
        return found

    def workspace_slices(self) -> Iterator[tuple[int, int, BufferSlice]]:
        """Pairs every slice of the workspace with the ticks in which it is used: (first tick, last tick,
        slice).
        """
        for place, found in self._slices.items():
            if found.allocation.kind is AllocationKind.WORKSPACE:
                yield place.start, place.end, found

    def to_text(self) -> str:
        """The slices of all instructions as text: computation by computation, one instruction a line."""
        lines = [f"buffers {self.module.name} {{"]
        lines += [f"  parameter {n} {s}" for n, s in enumerate(self.parameters)]
        lines += [f"  result {n} {s}" for n, s in enumerate(self.results)]
        lines += [
            f"  constant at {offset}: {c.shape.to_string(layout=False)}" for offset, c in self.constants
        ]
        lines.append(f"  workspace {self.workspace_bytes} bytes, constants {self.constants_bytes} bytes")
        for computation in self._computations():
            lines.append(f"  {computation.name} {{")
            for inst in schedule_of(computation):
                places = [str(s) if s is not None else "-" for s in self.slices(inst)]
                lines.append(f"    %{inst.name}: {', '.join(places)}")
            lines.append("  }")
        return "\n".join([*lines, "}"])

    __str__ = to_text

    def _computations(self) -> Iterator:
        return iter(dict.fromkeys(inst.computation for inst in self.flow.time))


def assign_buffers(module: Module, limits: Limits, pool: dict[Literal, int] | None = None) -> Buffers:
    """Gives every array a slice of an allocation; two arrays share bytes only if they are never live
    together. `pool` maps constants to their offsets in a segment that several programs share; this program's
    constants are added to it.
    """
    flow = dataflow(module, limits)
    places = coalesce(flow)
    if places.failed:
        edge = places.failed[0]
        where = f"{edge.at!r}, leaf {edge.leaf} ({edge.place.name})"
        raise InternalError(f"buffers: a copy is missing at {where}; run copy-insertion first")
    slices: dict[PlaceOf, BufferSlice] = {}
    parameters = tuple(None if v is None else _parameter(n, v, places) for n, v in enumerate(flow.parameters))
    results = tuple(None if v is None else _result(n, v, places) for n, v in enumerate(flow.slots))
    constants: dict[Literal, int] = {} if pool is None else pool
    constant_places: list[tuple[PlaceOf, Literal]] = []
    work: list[PlaceOf] = []
    for place in places.places():
        theirs = parameters[place.parameter] if place.parameter >= 0 else None
        if place.parameter < 0 <= place.result:
            theirs = results[place.result]
        if theirs is not None:
            slices[place] = theirs
        elif not place.in_memory:
            continue
        elif place.constant:
            literal = _literal(place.values[0])
            constants.setdefault(literal, 0)
            constant_places.append((place, literal))
        else:
            work.append(place)
    offset = 0
    for literal in constants:
        constants[literal] = offset
        offset += aligned(_bytes(literal))
    segment = Allocation(AllocationKind.CONSTANTS, 0, 0, writable=False)
    for place, literal in constant_places:
        slices[place] = BufferSlice(segment, constants[literal], _bytes(literal))
    lent = _lent(work, [p for p in places.places() if p.result >= 0 and p.parameter < 0])
    for place, (result, start) in lent.items():
        owner = results[result.result]
        assert owner is not None
        slices[place] = BufferSlice(owner.allocation, start, place.size)
    work = [place for place in work if place not in lent]
    offsets, total = pack([Interval(p.start, p.end, aligned(p.size)) for p in work])
    workspace = Allocation(AllocationKind.WORKSPACE, 0, 0)
    for place, start in zip(work, offsets, strict=True):
        slices[place] = BufferSlice(workspace, start, place.size)
    return Buffers(
        module, parameters, results, total, offset, tuple((o, c) for c, o in constants.items()),
        tuple(places.donated.items()), flow, slices, places,
    )  # fmt: skip


MOST_LENT = 64
"""The most values considered for the memory of one result, and the most results whose memory is lent."""


def _lent(work: list[PlaceOf], results: list[PlaceOf]) -> dict[PlaceOf, tuple[PlaceOf, int]]:
    """Memory ranges of the workspace that can be in the memory of a result instead: their last use is before
    the result is first written. Maps each range to the result and to a byte offset in the result's memory.
    """
    found: dict[PlaceOf, tuple[PlaceOf, int]] = {}
    # the latest first: fewer results can lend to them
    largest = sorted(work, key=lambda p: (-p.size, -p.start))
    for result in sorted(results, key=lambda p: (-p.size, p.start))[:MOST_LENT]:
        early = (p for p in largest if p not in found and p.end < result.start)
        fitting = (p for p in early if 0 < p.size <= result.size and p.alignment <= result.promised)
        placed: list[tuple[int, PlaceOf]] = []  # sorted by offset
        for place in islice(fitting, MOST_LENT):
            offset = 0
            for start, other in placed:
                apart = other.start > place.end or place.start > other.end
                if not apart and start < offset + place.size and offset < start + other.size:
                    offset = aligned(start + other.size)
            if offset + place.size <= result.size:
                found[place] = (result, offset)
                insort(placed, (offset, place), key=lambda entry: entry[0])
    return found


def _parameter(leaf: int, value: LiveArray, places: Coalesced) -> BufferSlice:
    place = places.place(value)
    size = value.shape.byte_size
    return BufferSlice(
        Allocation(AllocationKind.PARAMETER, leaf, size, place.writable, place.result), 0, size
    )


def _result(leaf: int, slot: LiveArray, places: Coalesced) -> BufferSlice:
    place = places.place(slot)
    size = slot.shape.byte_size
    if place.parameter >= 0:  # parameter and result share one memory, which is the parameter's allocation
        return BufferSlice(Allocation(AllocationKind.PARAMETER, place.parameter, size, True, leaf), 0, size)
    return BufferSlice(Allocation(AllocationKind.RESULT, leaf, size), 0, size)


def _bytes(literal: Literal) -> int:
    return array(literal.shape).byte_size


def _literal(value: LiveArray) -> Literal:
    op = op_of(value.inst, Constant)
    literal = list(op.literal.leaves())[value.leaf]
    shape = literal.shape
    # The literal's array is logical and row-major, so constants that differ only in layout are the same
    # bytes.
    return literal if shape.logical is shape else Literal(shape.logical, literal.array)
