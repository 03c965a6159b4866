"""Values of a program: the values of dataflow with names and memory."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from axla.analysis.buffers import Buffers
from axla.analysis.dataflow import LiveArray, find
from axla.core.errors import InternalError
from axla.core.literal import Digest
from axla.core.shape import AnyShape, Shape, array
from axla.hlo import Constant
from axla.ir.graph import Instruction, NameTable
from axla.program.memory import AllocationKind, BufferSlice
from axla.program.program import ConstantSpec
from axla.program.steps import ArrayValue, CopyStep, Step


class DefinedValues:
    """The values that have been defined so far during lowering."""

    def __init__(self, buffers: Buffers):
        self.buffers = buffers
        self.flow = buffers.flow
        self.constants: dict[tuple[int, int], ConstantSpec] = {}  # key: offset and size in the segment
        self._known: dict[LiveArray, ArrayValue] = {}
        self._names = NameTable()
        # For each open scope, the names of values in registers that were also copied to memory.
        self._copied: list[set[str]] = [set()]

    def enter(self) -> None:
        """Opens the scope of a loop or branch: copies to memory that are made in it cannot be used after
        it.
        """
        self._copied.append(set())

    def leave(self) -> None:
        """Closes the innermost scope and forgets the copies that were made in it."""
        self._copied.pop()

    def define(self, inst: Instruction, leaf: int, shape: Shape, place: BufferSlice | None) -> ArrayValue:
        """Defines the value of leaf number `leaf` of `inst`: in the memory `place`, or in registers if that
        is None.
        """
        found = self.flow.leaves[inst][leaf]
        assert found is not None
        return self.define_flow(found, shape, place)

    def define_flow(self, found: LiveArray, shape: Shape, place: BufferSlice | None) -> ArrayValue:
        """Defines a value of dataflow: gives it a unique name, and the memory `place` (None: registers)."""
        name = found.inst.name if isinstance(found.inst.shape, Shape) else f"{found.inst.name}.{found.leaf}"
        value = self._known[find(found)] = ArrayValue(self._names.claim(name), shape, place)
        return value

    def define_leaves(self, inst: Instruction) -> tuple[ArrayValue | None, ...]:
        """Defines all leaves of a result in the slices that buffer assignment gave them; None stands for a
        token.
        """
        return tuple(
            self.define(inst, leaf, shape, self.buffers.slice(inst, leaf))
            if isinstance(shape, Shape)
            else None
            for leaf, shape in enumerate(leaf_shapes(inst.shape))
        )

    def knows(self, found: LiveArray) -> bool:
        """Whether a value of dataflow has been defined."""
        return find(found) in self._known

    def of(self, inst: Instruction, leaf: int = 0) -> ArrayValue:
        """The value of a leaf of `inst`, with the shape that the leaf has in `inst`."""
        found = self.flow.leaves[inst][leaf]
        assert found is not None
        value = self._known.get(find(found))
        if value is None:  # a large constant; anything else is an error
            place = self._constant(inst, leaf)
            value = self.define_flow(found, found.shape, place)
        shape = leaf_shapes(inst.shape)[leaf]
        return value if shape is value.shape else ArrayValue(value.name, array(shape), value.place)

    def in_memory(self, inst: Instruction, leaf: int, steps: list[Step]) -> ArrayValue:
        """The value of a leaf of `inst` in memory, where a kernel can read it. A value in registers is copied
        to its slice; the constants segment already contains constants.
        """
        value = self.of(inst, leaf)
        if value.place is not None:
            return value
        target = replace(value, place=self.buffers.slice(inst, leaf))
        if target.memory.allocation.kind is AllocationKind.CONSTANTS:
            self._constant(inst, leaf)
        elif not any(value.name in names for names in self._copied):
            self._copied[-1].add(value.name)
            steps.append(CopyStep(value, target))
        return target

    def at(self, inst: Instruction, leaf: int, place: BufferSlice | None, steps: list[Step]) -> ArrayValue:
        """The value of a leaf of `inst` in the memory `place`: adds a copy unless it is already in that
        memory. If `place` is None, returns the value as it is.
        """
        value = self.of(inst, leaf)
        if place is None or value.place == place:
            return value
        steps.append(CopyStep(value, replace(value, place=place)))
        return replace(value, place=place)

    def _constant(self, inst: Instruction, leaf: int) -> BufferSlice:
        """The slice of a constant in the constants segment; records that the program uses the constant."""
        value = self.flow.leaves[inst][leaf]
        found = None if value is None else find(value)
        if found is None or not isinstance(found.inst.op, Constant):
            raise InternalError(f"{inst!r}, leaf {leaf}, is used before it is computed")
        place = self.buffers.slice(inst, leaf)
        literal = list(found.inst.op.literal.leaves())[found.leaf]
        spec = ConstantSpec(place.offset, found.shape.logical, Digest(literal))
        self.constants[place.offset, place.size] = spec
        return place


@lru_cache
def leaf_shapes(shape: AnyShape) -> tuple[AnyShape, ...]:
    """The arrays and tokens of a shape, depth first."""
    return tuple(shape.leaves())
