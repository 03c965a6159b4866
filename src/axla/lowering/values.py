"""Values of a program: what dataflow found, with names and places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from axla.analysis.buffers import Buffers
from axla.analysis.dataflow import Value as FlowValue
from axla.analysis.dataflow import find
from axla.core.errors import InternalError
from axla.core.literal import Literal
from axla.core.shape import AnyShape, Shape
from axla.hlo import Constant as ConstantOp
from axla.ir.graph import Instruction, Names
from axla.lowering.computations import constants_step
from axla.program.memory import AllocationKind, BufferSlice
from axla.program.program import Constant
from axla.program.steps import CopyStep, Step, Value


class Values:
    """The values that are defined so far."""

    def __init__(self, buffers: Buffers):
        self.buffers = buffers
        self.flow = buffers.flow
        self.constants: dict[int, Constant] = {}  # by offset
        self._known: dict[FlowValue, Value] = {}
        self._names = Names()
        self._scopes: list[set[Value]] = [set()]  # what is there, of what may be made more than once

    def enter(self) -> None:
        """Begins a loop or branch: what is copied or made again in it is not there afterwards."""
        self._scopes.append(set())

    def leave(self) -> None:
        self._scopes.pop()

    def _is_new(self, value: Value) -> bool:
        """Whether `value` is not there yet; it is then."""
        if any(value in scope for scope in self._scopes):
            return False
        self._scopes[-1].add(value)
        return True

    def define(self, inst: Instruction, leaf: int, shape: Shape, place: BufferSlice | None) -> Value:
        """The value that dataflow has for a leaf of `inst`, from here on."""
        found = self.flow.leaves[inst][leaf]
        assert found is not None
        return self.define_flow(found, shape, place)

    def define_flow(self, found: FlowValue, shape: Shape, place: BufferSlice | None) -> Value:
        name = found.inst.name if isinstance(found.inst.shape, Shape) else f"{found.inst.name}.{found.leaf}"
        value = self._known[find(found)] = Value(self._names.claim(name), shape, place)
        return value

    def define_leaves(self, inst: Instruction) -> tuple[Value | None, ...]:
        """All leaves of a result, in their slices; None: tokens."""
        return tuple(
            self.define(inst, leaf, shape, self.buffers.slice(inst, leaf))
            if isinstance(shape, Shape)
            else None
            for leaf, shape in enumerate(leaf_shapes(inst.shape))
        )

    def knows(self, found: FlowValue) -> bool:
        return find(found) in self._known or literal_of(found) is not None

    def of(self, inst: Instruction, leaf: int = 0) -> Value:
        """A leaf of `inst`, in the shape that it has there."""
        found = self.flow.leaves[inst][leaf]
        assert found is not None
        value = self._known.get(find(found))
        if value is None:
            if literal_of(found) is None:
                raise InternalError(f"{inst!r}, leaf {leaf}, is used before it is there")
            place = None if find(found).is_tiny else self.buffers.slice(inst, leaf)
            value = self.define_flow(found, find(found).shape, place)
        if value.place is not None:
            self._note(value.place, found)
        shape = leaf_shapes(inst.shape)[leaf]
        return value if shape is value.shape else Value(value.name, shape, value.place)  # type: ignore[arg-type]

    def constant(self, inst: Instruction, leaf: int) -> Literal | None:
        """What a leaf of `inst` is, where it is a small constant."""
        found = self.flow.leaves[inst][leaf]
        return literal_of(found) if found is not None and find(found).is_tiny else None

    def read(self, leaves: Sequence[tuple[Instruction, int]], steps: list[Step]) -> list[Value]:
        """These leaves, wherever they are; small constants are made in registers first."""
        values = [self.of(*leaf) for leaf in leaves]
        constants = [
            (self._original(*leaf), literal)
            for leaf in leaves
            if (literal := self.constant(*leaf)) is not None
        ]
        new = [(value, literal) for value, literal in constants if self._is_new(value)]
        if new:
            steps.append(constants_step(new))
        return values

    def _original(self, inst: Instruction, leaf: int) -> Value:
        return self._known[find(self.flow.leaves[inst][leaf])]  # type: ignore[arg-type]

    def in_memory(self, inst: Instruction, leaf: int, steps: list[Step]) -> Value:
        """A leaf of `inst` where a kernel can read it. Registers are copied to their slice; the memory of
        constants has them already.
        """
        value = self.of(inst, leaf)
        if value.place is not None:
            return value
        place = self.buffers.slice(inst, leaf)
        if place.allocation.kind is AllocationKind.CONSTANTS:
            self._note(place, self.flow.leaves[inst][leaf])
        elif self._is_new(replace(self._original(inst, leaf), place=place)):
            return self.at(inst, leaf, place, steps)
        return replace(value, place=place)

    def at(self, inst: Instruction, leaf: int, place: BufferSlice, steps: list[Step]) -> Value:
        """A leaf of `inst` in `place`, copied there unless buffer assignment has put it there."""
        [value] = self.read([(inst, leaf)], steps)
        target = replace(value, place=place)
        if value.place != place:
            steps.append(CopyStep(value, target))
        return target

    def _note(self, place: BufferSlice, found: FlowValue | None) -> None:
        assert found is not None
        if place.allocation.kind is AllocationKind.CONSTANTS and place.offset not in self.constants:
            literal = literal_of(found)
            assert literal is not None and isinstance(literal.shape, Shape)
            self.constants[place.offset] = Constant(place.offset, literal.shape.logical, literal.digest)


@lru_cache
def leaf_shapes(shape: AnyShape) -> tuple[AnyShape, ...]:
    return tuple(shape.leaves())


def literal_of(value: FlowValue) -> Literal | None:
    """The literal that a value is."""
    value = find(value)
    op = value.inst.op
    return list(op.literal.leaves())[value.leaf] if isinstance(op, ConstantOp) else None
