"""Decides which values share memory: values that an edge joins get one `PlaceOf` if they are never live
together.

Edges are tried in such an order that copies that cannot be avoided end up where they run least often. Edges
that cannot be joined are in `Coalesced.failed`; they need a real copy.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import field

from axla.analysis.dataflow import CopyPlace, Dataflow, Edge, LiveArray, find
from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo import Copy
from axla.ir.graph import Module
from axla.ir.structure import Constant
from axla.target.machine import ALIGNMENT


class PlaceOf:
    """A range of memory that several values share: its values, sorted by the first tick at which they live,
    and the constraints on the memory.
    """

    __slots__ = (
        "values", "size", "alignment", "promised", "parameter", "result", "constant", "merged", "writable",
    )  # fmt: skip

    def __init__(self, value: LiveArray):
        self.values: list[LiveArray] = [value]
        self.size = value.shape.byte_size
        self.alignment = element_alignment(value.shape)  # the alignment in bytes that its values need
        # The alignment in bytes of its memory: callers align parameters and results only to their elements.
        self.promised = ALIGNMENT
        self.parameter = -1  # the leaf number if it is a parameter of the entry, else -1
        self.result = -1  # the leaf number if it is a result of the entry, else -1
        self.constant = False
        self.writable = True
        self.merged: PlaceOf | None = None

    @property
    def start(self) -> int:
        """The first tick at which a value of the place lives."""
        return self.values[0].start

    @property
    def end(self) -> int:
        """The last tick at which a value of the place lives."""
        return max(v.end for v in self.values)

    @property
    def in_memory(self) -> bool:
        """Whether one of the values must be in memory, not in registers."""
        return any(v.in_memory for v in self.values)


@dataclass(slots=True)
class Coalesced:
    """The assignment of values to shared memory, and the edges that need a copy."""

    flow: Dataflow
    of: dict[LiveArray, PlaceOf]
    failed: list[Edge] = field(default_factory=list)
    donated: dict[int, int] = field(default_factory=dict)  # result leaf -> parameter leaf

    def place(self, value: LiveArray) -> PlaceOf:
        """The memory of a value, after all merges."""
        return root_of(self.of[find(value)])

    def places(self) -> list[PlaceOf]:
        """All memory ranges, sorted by the first definition of a value in them."""
        found = dict.fromkeys(root_of(p) for p in self.of.values())
        return sorted(found, key=lambda p: (p.start, p.values[0].number))


def element_alignment(shape: Shape) -> int:
    """The alignment in bytes that generated code expects of an array's address: that of an element, for
    complex numbers that of the real part.
    """
    return shape.dtype.real.itemsize


def root_of(place: PlaceOf) -> PlaceOf:
    """The representative of a `PlaceOf` after merges: union-find with path compression."""
    while place.merged is not None:
        if place.merged.merged is not None:
            place.merged = place.merged.merged
        place = place.merged
    return place


def coalesce(flow: Dataflow, *, reuse: bool = True) -> Coalesced:
    """Merges the memory of values that edges join, where that is possible. With `reuse`, an elementwise
    result also takes the memory of an operand that is not used afterwards.
    """
    done = Coalesced(flow, {v: PlaceOf(v) for v in flow.values if v.same_as is None})
    _fix_memory(done)
    for group in flow.groups:
        for value in group[1:]:
            _merge(done.place(group[0]), done.place(value))
    order = sorted(range(len(flow.edges)), key=lambda n: (*_rank(flow.edges[n]), n))
    for number in order:
        edge = flow.edges[number]
        joined = try_join(done.place(edge.source), done.place(edge.target))
        if not joined and (edge.place is CopyPlace.OPERAND or not edge.target.is_tiny):
            done.failed.append(edge)
    for value in flow.values if reuse else ():  # not needed for correctness, but it saves memory and traffic
        if value.over and value.same_as is None:
            for other in value.over:
                if find(other).end == value.start and try_join(done.place(other), done.place(value)):
                    break
    return done


def _rank(edge: Edge) -> tuple[int, int]:
    # Edges from existing copies first, as such a copy vanishes if it is joined; then those of inner loops.
    return (0 if isinstance(find(edge.source).inst.op, Copy) else 1, -edge.depth)


def _fix_memory(done: Coalesced) -> None:
    """Marks the memory of parameters, results and constants, and merges donated parameters with their
    results.
    """
    flow = done.flow
    for leaf, value in enumerate(flow.parameters):
        if value is not None:
            place = done.place(value)
            place.parameter, place.writable, place.promised = leaf, False, place.alignment
    for leaf, slot in enumerate(flow.slots):
        if slot is not None:
            place = done.place(slot)
            place.result, place.promised = leaf, place.alignment
    for value, place in done.of.items():
        if isinstance(value.inst.op, Constant):
            place.constant, place.writable = True, False
    for result, parameter in alias_leaves(flow.module):
        source, slot = flow.parameters[parameter], flow.slots[result]
        if source is not None and slot is not None:
            done.donated[result] = parameter
            place = done.place(source)
            place.writable = True
            _merge(place, done.place(slot))


def alias_leaves(module: Module) -> list[tuple[int, int]]:
    """The module's input_output_alias as pairs (result leaf, parameter leaf). Pairs of unequal byte size are
    left out; InvalidArgument if such a pair is a must-alias.
    """
    entry = module.entry
    starts = [0]
    for parameter in entry.parameters:
        starts.append(starts[-1] + parameter.shape.leaf_count)
    found: dict[int, int] = {}
    for alias in module.config.aliases:
        if not 0 <= alias.parameter < len(entry.parameters):
            raise InvalidArgument(f"input_output_alias: there is no parameter {alias.parameter}")
        result = leaf_number(entry.root.shape, alias.output, "input_output_alias: result")
        parameter = entry.parameters[alias.parameter]
        leaf = leaf_number(parameter.shape, alias.index, f"input_output_alias: parameter {alias.parameter}")
        sizes = [
            getattr(list(s.leaves())[n], "byte_size", -1)
            for s, n in ((entry.root.shape, result), (parameter.shape, leaf))
        ]
        if (
            sizes[0] == sizes[1]
            and result not in found
            and starts[alias.parameter] + leaf not in found.values()
        ):
            found[result] = starts[alias.parameter] + leaf
        elif alias.must:
            message = f"input_output_alias: result {alias.output} cannot lie in parameter {alias.parameter}"
            raise InvalidArgument(message)
    return list(found.items())


def leaf_number(shape: AnyShape, index: tuple[int, ...], what: str) -> int:
    """The leaf number of the array at a tuple index of `shape`; raises InvalidArgument if there is none.
    `what` names the shape in messages.
    """
    first = 0
    for i in index:
        if not isinstance(shape, TupleShape) or not 0 <= i < len(shape.elements):
            raise InvalidArgument(f"{what} has no element {index}")
        first += sum(s.leaf_count for s in shape.elements[:i])
        shape = shape.elements[i]
    if isinstance(shape, TupleShape):
        raise InvalidArgument(f"{what}{index} is a tuple; an array is wanted")
    return first


def try_join(a: PlaceOf, b: PlaceOf) -> bool:
    """Merges two memory ranges if no two of their values are live together and their constraints agree.
    Returns whether the two are one range now.
    """
    if a is b:
        return True
    if a.size != b.size or not (a.writable and b.writable):
        return False
    if max(a.alignment, b.alignment) > min(a.promised, b.promised):
        return False
    if a.parameter >= 0 and b.parameter >= 0 or a.result >= 0 and b.result >= 0:
        return False
    # Only donation makes a parameter and a result one memory, and donated pairs were merged before.
    if (a.parameter >= 0 and b.result >= 0) or (b.parameter >= 0 and a.result >= 0):
        return False
    if len(a.values) > len(b.values):
        a, b = b, a
    if any(_in_the_way(value, b.values) for value in a.values):
        return False
    _merge(b, a)
    return True


def _start(value: LiveArray) -> int:
    return value.start


def _in_the_way(value: LiveArray, values: list[LiveArray]) -> bool:
    """Whether a value is live together with one of `values`. These are sorted by start, and no two of them
    are live together.
    """
    at = bisect_left(values, value.start, key=_start)
    for other in values[max(0, at - 2) : at]:
        if other.end > value.start or other.end == value.start and not _may_overwrite(value, other):
            return True
    for number in range(at, len(values)):
        other = values[number]
        if other.start > value.end:
            break
        if other.start < value.end or not _may_overwrite(other, value):
            return True
    return False


def _may_overwrite(new: LiveArray, old: LiveArray) -> bool:
    return new.start == old.end and any(find(v) is old for v in new.over)


def _merge(into: PlaceOf, other: PlaceOf) -> None:
    if into is other:
        return
    for value in other.values:
        insort(into.values, value, key=_start)
    other.merged = into
    other.values = []
    into.parameter = max(into.parameter, other.parameter)
    into.result = max(into.result, other.result)
    into.alignment = max(into.alignment, other.alignment)
    into.promised = min(into.promised, other.promised)
    into.constant = into.constant or other.constant
