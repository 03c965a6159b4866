"""Writes computations in registers: HLO, instruction after instruction, with one register per element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import axla.hlo as hlo
from axla.codegen.element import Elements
from axla.codegen.function import Ssa
from axla.codegen.scatter import scatter_elements
from axla.codegen.value import Value, register_types
from axla.core.shape import Shape, TupleShape
from axla.cpu.places import ElementReader, ValuePlaces, from_registers, indices, registers_of
from axla.ir.graph import Computation, Instruction
from axla.ir.traverse import schedule_of
from axla.ir.typed import tuple_of
from axla.program import abi
from axla.program.steps import RegisterStep

SHORT = 8
"""The largest number of instructions of a loop condition that is written twice: before the loop and at its
end.
"""
WIDE = (8, 16)
"""The numbers of elements of arrays that a loop carries in a vector."""


def emit_registers(entry: ValuePlaces, step: RegisterStep) -> None:
    """Writes a register step. After it, its results are in registers; a result for which `step.results` names
    a slice is in this slice, too.
    """
    writer = _Registers(entry)
    computation = step.computation
    for parameter, value in zip(computation.parameters, step.operands, strict=True):
        writer.bind(parameter, [entry.leaf(value)])
    results = dict(zip(computation.root.operands, step.results, strict=True))
    for inst in schedule_of(computation):
        writer.instruction(inst)
        entry.pause()
        value = results.get(inst)
        if value is not None:
            [leaf] = writer.where[inst]
            assert leaf is not None
            entry.define(value, leaf.elements())
            if value.place is not None:  # now, so that its registers need not be kept to the end
                entry.write(value.place, value.shape, leaf.elements())


class _Registers:
    def __init__(self, entry: ValuePlaces):
        self.entry = entry
        self.f = entry.f
        self.e = entry.e
        self.where: dict[Instruction, list[ElementReader | None]] = {}  # leaves in order; None: a token

    def bind(self, inst: Instruction, leaves: Sequence[ElementReader | None]) -> None:
        """Records readers of the leaves of an instruction's value."""
        self.where[inst] = list(leaves)
        if isinstance(inst.shape, Shape):
            leaf = leaves[0]
            assert leaf is not None
            self.e.bind(inst, leaf.read)

    def held(self, inst: Instruction, elements: Sequence[Sequence[Value]]) -> None:
        """Records the elements of those leaves of an instruction's value that are arrays. `elements` has a
        row for each of these leaves, in row-major order.
        """
        rest = iter(elements)
        shapes = inst.shape.leaves()
        self.bind(inst, [self.entry.held(s, next(rest)) if isinstance(s, Shape) else None for s in shapes])

    def region(self, computation: Computation) -> list[ElementReader | None]:
        """Writes a computation whose parameters are bound; returns the leaves of its root."""
        for inst in schedule_of(computation):
            self.instruction(inst)
            self.entry.pause()
        return self.where[computation.root]

    def instruction(self, inst: Instruction) -> None:
        if isinstance(inst.op, hlo.Parameter):  # it is bound already
            return
        write = WRITERS.get(type(inst.op))
        if write is not None:
            write(self, inst)
        else:
            self.compute(inst)

    def compute(self, inst: Instruction) -> None:
        """Writes all elements of an instruction now, as the memory that it reads may be overwritten later."""
        if inst.op.elementwise and self._in_vectors(inst):
            return
        leaves = list(inst.shape.arrays())  # all have equal dims
        table = [self.e.all(inst, index) for index in indices(leaves[0])]
        self.held(inst, [[row[n] for row in table] for n in range(len(leaves))])

    def _in_vectors(self, inst: Instruction) -> bool:
        """Writes an elementwise instruction as one operation on vectors, if one of its operands is a vector;
        returns whether it did.
        """
        shape = inst.shape
        leaves = [self.where[o][0] for o in inst.operands]
        wholes = [leaf and leaf.whole for leaf in leaves]
        if not isinstance(shape, Shape) or not any(w and w.lanes == shape.size > 1 for w in wholes):
            return False
        e = Elements(self.entry.values, shape.size)
        for operand, leaf, whole in zip(inst.operands, leaves, wholes, strict=True):
            assert leaf is not None
            if whole is None:
                whole = self.entry.vector(leaf) if leaf.shape.size > 1 else leaf.elements()[0]
            e.bind(operand, whole)
        self.pack(inst, shape, e(inst, (0,) * shape.rank))
        return True

    def pack(self, inst: Instruction, shape: Shape, whole: Value) -> None:
        self.bind(inst, [self.entry.packed(shape, whole)])

    def broadcast(self, inst: Instruction) -> None:
        (leaf,), shape = self.where[inst.operands[0]], inst.shape
        assert leaf is not None and isinstance(shape, Shape)
        if leaf.shape.size == 1 and shape.size:
            self.pack(inst, shape, leaf.elements()[0])
        else:
            self.compute(inst)

    def reduce(self, inst: Instruction[hlo.Reduce]) -> None:
        """Writes a reduction of pred by `or` or `and`. If the operand is one vector, it is reduced at
        once.
        """
        op, (leaf, *_) = inst.op, self.where[inst.operands[0]]
        whole, root = leaf and leaf.whole, op.to_apply.root
        simple = type(root.op) in (hlo.Or, hlo.And) and set(root.operands) == set(op.to_apply.parameters)
        dims = inst.operands[0].shape.rank if inst.operands[0].shape.is_array else 0
        if (
            whole is None
            or whole.lanes == 1
            or not whole.dtype.is_pred
            or not simple
            or len(op.dimensions) < dims
        ):
            return self.compute(inst)
        values, opcode = self.entry.values, root.op.opcode
        if opcode == "and":
            whole = values.unary("not", whole)
        found = Value(whole.dtype, 1, (self.f.any_lane(whole.ssa),))
        if opcode == "and":
            found = values.unary("not", found)
        first = self.where[inst.operands[1]][0]
        assert first is not None
        self.held(inst, [[values.binary(opcode, first.read(()), found)]])
        return None

    # -- what passes values on ---------------------------------------------------------------------------

    def constant(self, inst: Instruction[hlo.Constant]) -> None:
        self.held(inst, [
            [self.entry.values.constant(s.dtype, literal.array[index]) for index in indices(s)]
            for literal in inst.op.literal.leaves()
            if isinstance(s := literal.shape, Shape)
        ])  # fmt: skip

    def tuple(self, inst: Instruction) -> None:
        self.bind(inst, [leaf for o in inst.operands for leaf in self.where[o]])

    def element(self, inst: Instruction[hlo.GetTupleElement]) -> None:
        first = tuple_of(inst.operands[0]).leaf_starts[inst.op.index]
        self.bind(inst, self.where[inst.operands[0]][first : first + inst.shape.leaf_count])

    def forward(self, inst: Instruction) -> None:
        if inst.shape.is_token:
            self.bind(inst, [None])
            return
        leaves = self.where[inst.operands[0]]
        if isinstance(inst.shape, Shape) and leaves[0] is not None and leaves[0].shape is not inst.shape:
            self.held(inst, [leaves[0].elements()])  # the same elements with another shape
        else:
            self.bind(inst, leaves)

    # -- control -----------------------------------------------------------------------------------------

    def call(self, inst: Instruction) -> None:
        (computation,) = inst.op.computations()
        for parameter, operand in zip(computation.parameters, inst.operands, strict=True):
            self.bind(parameter, self.where[operand])
        self.bind(inst, self.region(computation))

    def while_(self, inst: Instruction[hlo.While]) -> None:
        op, entry = inst.op, self.entry
        wide, passed = self._wide(inst), _passed(inst)
        first = [
            leaf and self._kept(leaf, w) for leaf, w in zip(self.where[inst.operands[0]], wide, strict=True)
        ]

        def parts(leaves: Sequence[ElementReader | None]) -> list[Ssa]:
            found: list[Ssa] = []
            for leaf, w, same in zip(leaves, wide, passed, strict=True):
                if leaf is not None and not same:
                    found += entry.vector(leaf).parts if w else registers_of(leaf.elements())
            return found

        def carried(parts: Sequence[Ssa]) -> list[ElementReader | None]:
            rest, leaves = iter(parts), []
            for leaf, w, same in zip(first, wide, passed, strict=True):
                if leaf is None or same:
                    leaves.append(leaf)
                elif w:
                    whole = Value(leaf.shape.dtype, leaf.shape.size, (next(rest),))
                    leaves.append(entry.packed(leaf.shape, whole))
                else:
                    own = list(islice(rest, leaf.shape.size * len(register_types(leaf.shape.dtype, 1))))
                    leaves.append(entry.held(leaf.shape, *from_registers([leaf.shape], own)))
            return leaves

        def enter(parts: Sequence[Ssa]) -> None:
            leaves = carried(parts)
            self.e.forget(op.condition.instructions)
            self.bind(op.condition.parameters[0], leaves)
            self.bind(op.body.parameters[0], leaves)

        def condition() -> Value:
            [leaf] = self.region(op.condition)
            assert leaf is not None
            return leaf.read(())

        def body() -> list[Ssa]:
            return parts(self.region(op.body))

        found = entry.loop(parts(first), enter, condition, body, _is_short(op.condition))
        self.bind(inst, carried(found))

    def _kept(self, leaf: ElementReader, is_wide: bool) -> ElementReader:
        """A reader of the elements of `leaf`, which are read into registers now: into one vector if
        `is_wide`.
        """
        if is_wide:
            return self.entry.packed(leaf.shape, self.entry.vector(leaf))
        return leaf if leaf.whole is not None else self.entry.held(leaf.shape, leaf.elements())

    def _wide(self, inst: Instruction[hlo.While]) -> list[bool]:
        """For each leaf that a loop carries: whether it is in a vector. It is if all instructions that read
        it are elementwise ops, reduces or tuples.
        """
        shapes = list(inst.shape.leaves())
        found = [False] * len(shapes)
        if self.entry.target.vector_bytes < 16 or not isinstance(inst.shape, TupleShape):
            return found
        read: list[list[Instruction]] = [[] for _ in shapes]
        for parameter in (inst.op.condition.parameters[0], inst.op.body.parameters[0]):
            for user in parameter.users:
                if isinstance(user.op, hlo.GetTupleElement):
                    read[inst.shape.leaf_starts[user.op.index]] += user.users
        for n, (shape, users) in enumerate(zip(shapes, read, strict=True)):
            if isinstance(shape, Shape) and shape.size in WIDE and not shape.dtype.is_complex:
                fits = all(u.op.elementwise or isinstance(u.op, hlo.Tuple | hlo.Reduce) for u in users)
                found[n] = fits and any(u.op.elementwise for u in users)
        return found

    def conditional(self, inst: Instruction) -> None:
        def side(computation: Computation, operand: Instruction) -> Callable[[], list[Ssa]]:
            def write() -> list[Ssa]:
                self.bind(computation.parameters[0], self.where[operand])
                return _parts(self.region(computation))

            return write

        branches = zip(inst.op.computations(), inst.operands[1:], strict=True)
        parts = self.entry.choose(self.e(inst.operands[0], ()), [side(*branch) for branch in branches])
        shapes = list(inst.shape.arrays())
        self.held(inst, from_registers(shapes, parts))

    # -- the rest ----------------------------------------------------------------------------------------

    def scatter(self, inst: Instruction[hlo.Scatter]) -> None:
        """Writes a scatter into a small array in registers: each element is compared with the index of each
        update.
        """
        self.held(inst, scatter_elements(self.e, inst))

    def random_state(self, inst: Instruction[hlo.RngGetAndUpdateState]) -> None:
        """Writes a read of the 128 bits of the frame's random state, which then advances."""
        f = self.f
        state = f.params["frame"].field(abi.FRAME, "rng_state")
        low, high = (state.at(8 * n).load("i64") for n in range(2))
        delta = inst.op.delta
        moved = f.add(low, f.const("i64", delta % (1 << 64)))
        carry = f.cast("zext", f.icmp("ult", moved, low), "i64")
        above = f.add(high, f.const("i64", (delta >> 64) % (1 << 64)))
        state.store(moved)
        state.at(8).store(f.add(above, carry))
        self.held(inst, [[Value(inst.shape.dtype, 1, (word,)) for word in (low, high)]])


def _passed(inst: Instruction[hlo.While]) -> list[bool]:
    """For each leaf that a loop carries: whether its body returns it unchanged."""
    found = [False] * inst.shape.leaf_count
    root, parameter = inst.op.body.root, inst.op.body.parameters[0]
    if isinstance(root.op, hlo.Tuple) and isinstance(inst.shape, TupleShape):
        for n, (value, start) in enumerate(zip(root.operands, inst.shape.leaf_starts, strict=True)):
            is_element = isinstance(value.op, hlo.GetTupleElement) and value.op.index == n
            if is_element and value.operands[0] is parameter:
                found[start : start + value.shape.leaf_count] = [True] * value.shape.leaf_count
    return found


def _is_short(condition: Computation) -> bool:
    """Whether a condition consists of a few operations on scalars."""
    return len(condition.instructions) <= SHORT and not any(
        inst.op.computations() or (isinstance(inst.shape, Shape) and inst.shape.dims)
        for inst in condition.instructions
    )


def _parts(leaves: Sequence[ElementReader | None]) -> list[Ssa]:
    return [part for leaf in leaves if leaf is not None for part in registers_of(leaf.elements())]


WRITERS: dict[type, Callable[[_Registers, Instruction[Any]], None]] = {
    hlo.Constant: _Registers.constant,
    hlo.Tuple: _Registers.tuple,
    hlo.Broadcast: _Registers.broadcast,
    hlo.Reduce: _Registers.reduce,
    hlo.GetTupleElement: _Registers.element,
    **dict.fromkeys((hlo.Bitcast, hlo.OptBarrier, hlo.AfterAll, hlo.AddDependency), _Registers.forward),
    **dict.fromkeys((hlo.Call, hlo.Fusion), _Registers.call),
    hlo.While: _Registers.while_,
    hlo.Conditional: _Registers.conditional,
    hlo.Scatter: _Registers.scatter,
    hlo.RngGetAndUpdateState: _Registers.random_state,
}
