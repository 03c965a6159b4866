"""Proves a buffer assignment right by playing it: no instruction may read memory that holds something else by
then.

Runs every loop zero and two times and every branch, and remembers for each slice of memory which value was
written last.
Knows nothing of live ranges. For tests: its time grows with the square of the number of slices in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from axla.analysis.buffers import Buffers
from axla.analysis.coalesce import element_alignment
from axla.analysis.dataflow import in_place_operands, leaf_count
from axla.analysis.inplace import overwritable
from axla.analysis.regions import is_tiny, is_tiny_store
from axla.core.errors import InternalError
from axla.core.shape import Shape, TupleShape
from axla.hlo import (
    AddDependency,
    AfterAll,
    Bitcast,
    Call,
    Conditional,
    Constant,
    GetTupleElement,
    OptBarrier,
    Parameter,
    Reshape,
    Tuple,
    While,
)  # fmt: skip
from axla.ir.graph import Computation, Instruction
from axla.ir.traverse import run_nested, schedule_of
from axla.program.memory import ALIGNMENT, AllocationKind, BufferSlice

Tag = int


def check(buffers: Buffers) -> None:
    """Raises InternalError naming the first instruction that would read or write the wrong memory."""
    _Play(buffers).run()


class _Play:
    def __init__(self, buffers: Buffers):
        self.buffers = buffers
        self.limits = buffers.flow.limits
        self.memory: list[tuple[BufferSlice, Tag]] = []
        self.tags: dict[Instruction, tuple[Tag, ...]] = {}
        self.next = 0

    def run(self) -> None:
        buffers, entry = self.buffers, self.buffers.module.entry
        self._distinct_results()
        self._aligned()
        for parameter in entry.parameters:
            self.tags[parameter] = self.new(parameter)
            for place, tag in zip(buffers.slices(parameter), self.tags[parameter], strict=True):
                if place is not None:
                    self.memory.append((place, tag))
        run_nested(self.computation(entry))
        for leaf, shape in enumerate(entry.root.shape.leaves()):
            if isinstance(shape, Shape) and shape.size > self.limits.tiny:
                place = buffers.results[leaf]
                assert place is not None
                self.read(entry.root, place, self.tags[entry.root][leaf], "the result")

    def _aligned(self) -> None:
        """Callers align parameters and results to their elements; all else is aligned to 64 bytes."""
        flow = self.buffers.flow
        owners = {AllocationKind.PARAMETER: flow.parameters, AllocationKind.RESULT: flow.slots}
        for inst, values in flow.leaves.items():
            for value, place in zip(values, self.buffers.slices(inst), strict=True):
                if value is None or place is None:
                    continue
                owner = owners.get(place.allocation.kind)
                border = owner[place.allocation.number] if owner else None
                promised = element_alignment(border.shape) if border else ALIGNMENT
                wanted = element_alignment(value.shape)
                if promised < wanted or place.offset % wanted:
                    raise InternalError(f"buffers: {inst!r} needs alignment {wanted}, {place} has {promised}")

    def _distinct_results(self) -> None:
        results = [r for r in self.buffers.results if r is not None and r.size]
        for n, one in enumerate(results):
            if any(one.overlaps(other) for other in results[:n]):
                raise InternalError(f"buffers: two results share {one}")

    def new(self, inst: Instruction) -> tuple[Tag, ...]:
        count = leaf_count(inst.shape)
        self.next += count
        return tuple(range(self.next - count, self.next))

    def computation(self, computation: Computation) -> Iterator[Iterator]:
        tags = self.tags
        for inst in schedule_of(computation):
            op = inst.op
            cls = type(op)
            if cls is Parameter:
                continue
            if cls is Tuple:
                tags[inst] = tuple(t for o in inst.operands for t in tags[o])
            elif cls is GetTupleElement:
                tuple_ = inst.operands[0].shape
                assert isinstance(tuple_, TupleShape)
                first = tuple_.leaf_starts[op.index]  # type: ignore[attr-defined]
                tags[inst] = tags[inst.operands[0]][first : first + leaf_count(inst.shape)]
            elif cls in (OptBarrier, AddDependency) or cls in (Reshape, Bitcast) and self._same_bytes(inst):
                tags[inst] = tags[inst.operands[0]]
            elif cls is AfterAll:
                tags[inst] = self.new(inst)
            elif cls is While:
                yield from self.loop(inst)
            elif cls is Conditional:
                yield from self.conditional(inst)
            elif cls is Call:
                called: Computation = op.to_apply  # type: ignore[attr-defined]
                for parameter, operand in zip(called.parameters, inst.operands, strict=True):
                    tags[parameter] = tags[operand]
                yield self.computation(called)
                tags[inst] = tags[called.root]
            else:
                self.plain(inst)

    def _same_bytes(self, inst: Instruction) -> bool:
        of, to = inst.operands[0].shape, inst.shape
        return not isinstance(of, Shape) or not isinstance(to, Shape) or of.byte_size == to.byte_size

    def read(self, inst: Instruction, place: BufferSlice, tag: Tag, what: str) -> None:
        if place.size and (place, tag) not in self.memory:
            held = [t for s, t in self.memory if s.overlaps(place)]
            raise InternalError(f"buffers: {inst!r} finds {held} and not {tag} in {place} ({what})")

    def write(self, inst: Instruction, place: BufferSlice, tag: Tag) -> None:
        kind = place.allocation.kind
        if (
            kind is AllocationKind.CONSTANTS
            or kind is AllocationKind.PARAMETER
            and not place.allocation.writable
        ):
            raise InternalError(f"buffers: {inst!r} writes {place}, which is read only")
        self.memory = [(s, t) for s, t in self.memory if not s.overlaps(place)]
        self.memory.append((place, tag))

    def plain(self, inst: Instruction) -> None:
        buffers = self.buffers
        made = self.tags[inst] = self.new(inst)
        outputs = buffers.slices(inst)
        if isinstance(inst.op, Constant):
            self.memory.extend((s, t) for s, t in zip(outputs, made, strict=True) if s is not None)
            return
        self.read_operands(inst)
        if not self.in_registers(inst):
            self.check_overlap(inst, outputs)
        for leaf, (number, source) in in_place_operands(inst, self.limits).items():
            place = outputs[leaf]
            elsewhere = place is not None and place != buffers.slices(inst.operands[number])[source]
            if elsewhere and not is_tiny(inst, self.limits):
                raise InternalError(f"buffers: {inst!r} must be in place, found {place}")
        for place, tag in zip(outputs, made, strict=True):
            if place is not None:
                self.write(inst, place, tag)

    def in_registers(self, inst: Instruction) -> bool:
        return is_tiny(inst, self.limits) or is_tiny_store(inst, self.limits)

    def read_operands(self, inst: Instruction) -> None:
        for operand in inst.operands:
            shapes = operand.shape.leaves()
            for shape, place, tag in zip(
                shapes, self.buffers.slices(operand), self.tags[operand], strict=True
            ):
                small = isinstance(shape, Shape) and shape.size <= self.limits.tiny
                if place is not None and not (small and self.in_registers(inst)):
                    self.read(inst, place, tag, f"operand %{operand.name}")

    def check_overlap(self, inst: Instruction, outputs: Sequence[BufferSlice | None]) -> None:
        """A kernel may write over an operand only exactly, and only where it reads it element by element."""
        forced = {(leaf, number) for leaf, (number, _) in in_place_operands(inst, self.limits).items()}
        may = overwritable(inst, self.limits)
        allowed = {(leaf, number) for leaf, numbers in may.items() for number in numbers}
        for leaf, out in enumerate(outputs):
            if out is None or not out.size:
                continue
            for number, operand in enumerate(inst.operands):
                for place in self.buffers.slices(operand):
                    if place is None or not place.overlaps(out):
                        continue
                    if place != out or (leaf, number) not in forced | allowed:
                        raise InternalError(
                            f"buffers: {inst!r} overwrites operand {number} in {place} with {out}"
                        )
            if any(
                other is not None and n != leaf and out.overlaps(other) for n, other in enumerate(outputs)
            ):
                raise InternalError(f"buffers: two results of {inst!r} share {out}")

    def store_registers(self, inst: Instruction, like: Instruction) -> None:
        """What lives in registers is written to its slot where it is defined."""
        for shape, place, tag in zip(
            like.shape.leaves(), self.buffers.slices(inst), self.tags[inst], strict=True
        ):
            if (
                isinstance(shape, Shape)
                and shape.size <= self.limits.tiny
                and place is not None
                and (place, tag) not in self.memory
            ):
                self.write(inst, place, tag)

    def expect(self, inst: Instruction, what: str) -> None:
        """All arrays of a value that crosses a border are in its slices."""
        for shape, place, tag in zip(
            inst.shape.leaves(), self.buffers.slices(inst), self.tags[inst], strict=True
        ):
            if place is not None and isinstance(shape, Shape) and shape.size > self.limits.tiny:
                self.read(inst, place, tag, what)

    def loop(self, inst: Instruction) -> Iterator[Iterator]:
        op, tags = inst.op, self.tags
        assert isinstance(op, While)
        state = tags[inst.operands[0]]
        for trip in range(3):
            for computation in (op.condition, op.body):
                parameter = computation.parameters[0]
                tags[parameter] = state
                self.expect(parameter, f"loop, trip {trip}")
                self.store_registers(parameter, inst)
                if computation is op.condition:
                    yield self.computation(computation)
                    tags[inst] = state
                    self.expect(inst, f"loop result after trip {trip}")
                elif trip < 2:
                    yield self.computation(computation)
                    state = tags[computation.root]
        self.store_registers(inst, inst)

    def conditional(self, inst: Instruction) -> Iterator[Iterator]:
        op, tags = inst.op, self.tags
        assert isinstance(op, Conditional)
        before = self.memory
        ends: list[list[tuple[BufferSlice, Tag]]] = []
        for branch, operand in zip(op.branches, inst.operands[1:], strict=True):
            self.memory = list(before)
            tags[branch.parameters[0]] = tags[operand]
            yield self.computation(branch)
            tags[inst] = tags[branch.root]
            self.expect(inst, f"branch {branch.name}")
            ends.append(self.memory)
        # From here on a result is known by one name, whichever branch ran, unless all branches pass on one
        # value.
        roots = [tags[b.root] for b in op.branches]
        made = self.new(inst)
        tags[inst] = tuple(r[0] if len(set(r)) == 1 else new for *r, new in zip(*roots, made, strict=True))
        for place, tag, new in zip(self.buffers.slices(inst), tags[inst], made, strict=True):
            if place is not None and tag == new:
                ends = [[*((s, t) for s, t in end if not s.overlaps(place)), (place, new)] for end in ends]
        self.memory = [item for item in ends[0] if all(item in end for end in ends[1:])]
        self.store_registers(inst, inst)
