"""Makes one register step of consecutive instructions that are computed in registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from axla.analysis.dataflow import LiveArray, find
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo import AfterAll, Constant, Parameter, Reshape, Tuple
from axla.ir.graph import Computation, Instruction
from axla.ir.typed import shape_of
from axla.lowering.computations import copy_instruction, finish, leaf_of, new_computation
from axla.lowering.values import DefinedValues
from axla.program.memory import BufferSlice
from axla.program.steps import ArrayValue, RegisterStep


def register_step(
    group: Sequence[Instruction], values: DefinedValues, wanted: Callable[[LiveArray], bool],
    ends: Mapping[LiveArray, BufferSlice]
) -> RegisterStep:  # fmt: skip
    """Makes the step that computes the instructions `group` in this order. `values` has the values that are
    defined before the step. `wanted` says whether a value is used outside of the step; `ends` has the memory
    of results that the step writes as soon as they are computed.
    """
    block = _Block(group[0].name, values)
    made = [found for inst in group for found in block.add(inst)]
    given = [found for found in made if wanted(found)]
    leaves = [leaf_of(*block.made[found]) for found in given]
    finish(block.computation, leaves)
    results = tuple(
        values.define_flow(found, shape_of(leaf), ends.get(found))
        for found, leaf in zip(given, leaves, strict=True)
    )
    location = next((i.extra.location for i in group if i.extra.location is not None), None)
    return RegisterStep(group[0].name, block.computation, tuple(block.operands), results, location)


class _Block:
    def __init__(self, name: str, values: DefinedValues):
        self.values = values
        self.leaves = values.flow.leaves
        self.computation = new_computation(name)
        self.operands: list[ArrayValue] = []
        # The values that instructions of this block compute: (instruction, leaf).
        self.made: dict[LiveArray, tuple[Instruction, int]] = {}
        self._found: dict[tuple[LiveArray, Shape], Instruction] = {}  # operands that are already in the block
        self._called: dict[Computation, Computation] = {}

    def add(self, inst: Instruction) -> list[LiveArray]:
        """Copies an instruction into the block; returns the values that it computes."""
        if isinstance(inst.op, Constant):
            return self._constants(inst, inst.op)
        operands = [self.operand(o) for o in inst.operands]
        copy = copy_instruction(inst, self.computation, operands, self._called)
        made: list[LiveArray] = []
        for leaf, value in enumerate(self.leaves[inst]):
            found = value and find(value)
            if found is None or found in self.made or self.values.knows(found):
                continue  # a token, or a value that a loop or branch passes on
            self.made[found] = copy, leaf
            made.append(found)
        return made

    def _constants(self, inst: Instruction, op: Constant) -> list[LiveArray]:
        """Copies the small leaves of a constant into the block and returns them; larger ones stay in
        memory.
        """
        found = {v: c for v, c in zip(self.leaves[inst], op.literal.leaves(), strict=True) if v and v.is_tiny}
        for value, literal in found.items():
            copy = self.computation.add(Constant(literal.shape, literal), name=inst.name)
            self.made[value] = copy, 0
        return list(found)

    def operand(self, inst: Instruction) -> Instruction:
        return self._tree(inst, inst.shape, 0)

    def _tree(self, inst: Instruction, shape: AnyShape, first: int) -> Instruction:
        """One value of `shape`, made of the leaves of `inst` from number `first` on."""
        if isinstance(shape, Shape):
            return self._leaf(inst, first, shape)
        if not isinstance(shape, TupleShape):
            return self.computation.add(AfterAll())
        elements = []
        for element in shape.elements:
            elements.append(self._tree(inst, element, first))
            first += element.leaf_count
        return self.computation.add(Tuple(), elements)

    def _leaf(self, inst: Instruction, leaf: int, shape: Shape) -> Instruction:
        value = self.leaves[inst][leaf]
        assert value is not None
        key = find(value), shape
        found = self._found.get(key)
        if found is None:
            made = self.made.get(key[0])
            found = leaf_of(*made) if made is not None else self._parameter(self.values.of(inst, leaf))
            if found.shape is not shape:
                found = self.computation.add(Reshape(shape), [found])
            self._found[key] = found
        return found

    def _parameter(self, value: ArrayValue) -> Instruction:
        self.operands.append(value)
        return self.computation.add(Parameter(value.shape, len(self.operands) - 1), name=value.name)
