"""Where the values of an entry are: elements in registers, or slices of the frame's memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from axla.codegen.array import Array
from axla.codegen.element import Elements, Indices
from axla.codegen.function import Function, Module, Ssa
from axla.codegen.value import Value, Values
from axla.core.errors import InternalError
from axla.core.shape import Shape
from axla.ir.graph import Instruction
from axla.lowering.lower import leaf_numbers
from axla.program.graph_steps import Program
from axla.program.memory import AllocationKind, BufferSlice
from axla.target.machine import Target


class Leaf:
    """Where an array leaf of a value is: elements in registers, or a slice of memory."""

    __slots__ = ("shape", "read", "slice")

    def __init__(self, shape: Shape, read: Callable[[Indices], Value], slice_: BufferSlice | None = None):
        self.shape = shape
        self.read = read
        self.slice = slice_  # None: registers only

    @property
    def is_memory(self) -> bool:
        return self.slice is not None


class Places:
    """An entry function in the making: its frame, and where each value is."""

    def __init__(self, module: Module, program: Program, target: Target, name: str):
        self.program = program
        self.target, self.tiny = target, target.limits.tiny
        self.pointer_bytes = target.form.pointer_bytes
        self.f = Function(module, name, "i32", [("ptr", "frame")], attributes='nounwind "no-builtins"')
        self.f.polls = True
        self.values = Values(self.f, target, straight=True)
        self.e = Elements(self.values, 1, scalar=True)
        self.where: dict[Instruction, list[Leaf | None]] = {}  # leaves in order; None: a token
        self.polled = 0  # of the function's code, what is written up to the last poll
        self.spilled: dict[tuple[Instruction, int], object] = {}
        self.kernels = {k.name: k for k in program.kernels}
        self.buffers = program.source.buffers
        self.numbers = {
            AllocationKind.PARAMETER: leaf_numbers(self.buffers.parameters),
            AllocationKind.RESULT: leaf_numbers(self.buffers.results),
        }

    # -- frame -------------------------------------------------------------------------------------------

    def field(self, name: str, type_: str = "ptr") -> Ssa:
        """A field of the frame."""
        return self.f.frame_field(name, type_)

    def pointer(self, slice_: BufferSlice) -> Ssa:
        """The address of a slice."""
        f, allocation = self.f, slice_.allocation
        if allocation.kind in (AllocationKind.PARAMETER, AllocationKind.RESULT):
            table = self.field("arguments" if allocation.kind is AllocationKind.PARAMETER else "results")
            number = self.numbers[allocation.kind][allocation.number]
            base = f.load("ptr", f.gep("ptr", table, f.const("i64", number)), 8, readonly=True)
        else:
            base = self.field("constants" if allocation.kind is AllocationKind.CONSTANTS else "workspace")
        return f.gep("i8", base, f.const("i64", slice_.offset))

    def array(self, slice_: BufferSlice, shape: Shape) -> Array:
        return Array(self.values, self.pointer(slice_), shape.dtype, shape.dims, readonly=False)

    # -- places ------------------------------------------------------------------------------------------

    def bind(self, inst: Instruction, leaves: list[Leaf | None]) -> None:
        """Says where the leaves of a value are."""
        self.where[inst] = leaves
        if isinstance(inst.shape, Shape):
            leaf = leaves[0]
            assert leaf is not None
            self.e.bind(inst, leaf.read)

    def bind_memory(self, inst: Instruction) -> None:
        """The value of `inst` is in its slices."""
        leaves: list[Leaf | None] = []
        for number, shape in enumerate(inst.shape.leaves()):
            leaves.append(self.memory_leaf(inst, number, shape) if isinstance(shape, Shape) else None)
        self.bind(inst, leaves)

    def memory_leaf(self, inst: Instruction, number: int, shape: Shape) -> Leaf:
        # Its address is computed where it is read: a program may have many parameters that it hardly uses.
        place = self.buffers.slice(inst, number)
        return Leaf(shape, lambda index: self.array(place, shape).load(index, 1), place)

    def elements_of(self, leaf: Leaf) -> list[Value]:
        return [leaf.read(index) for index in indices(leaf.shape)]

    def held(self, shape: Shape, elements: Sequence[Value]) -> Leaf:
        """A leaf of known registers, in row-major order."""
        table = dict(zip(indices(shape), elements, strict=True))

        def read(index: Indices) -> Value:
            if all(isinstance(i, int) for i in index):
                return table[index]  # type: ignore[index]
            return self.e.pick(shape.dims, lambda at: (table[at],), index)[0]  # type: ignore[index]

        return Leaf(shape, read)

    def write(self, place: BufferSlice, leaf: Leaf) -> None:
        """Puts a leaf's elements into a slice."""
        if leaf.slice == place:
            return
        if not place.allocation.writable:
            raise InternalError(f"cpu: {place} is read only, and would be written")
        if leaf.slice is None or leaf.shape.size <= self.tiny:
            array = self.array(place, leaf.shape)
            elements = self.elements_of(leaf)
            for index, value in zip(indices(leaf.shape), elements, strict=True):
                array.store(index, value)
        else:
            self.copy_bytes(self.pointer(place), self.pointer(leaf.slice), leaf.shape.byte_size)

    def copy_bytes(self, target: Ssa, source: Ssa, count: int) -> None:
        """Copies bytes between slices that do not overlap."""
        f = self.f
        width = min(self.target.vector_bytes, 64)
        wide = f"<{width} x i8>"
        whole = count // width * width
        if whole:
            with f.loop(0, whole, width) as loop:
                value = f.load(wide, f.gep("i8", source, loop.index), 1)
                f.store(value, f.gep("i8", target, loop.index), 1)
        for at in range(whole, count):
            offset = f.index(at)
            f.store(f.load("i8", f.gep("i8", source, offset), 1), f.gep("i8", target, offset), 1)

    def in_memory(self, inst: Instruction, number: int, place: BufferSlice) -> Ssa:
        """The address of a leaf that a kernel reads; registers are written to `place` first. Constants, and
        parameters that are not donated, may be registers too (a loop carries them): their memory, which
        nobody writes to, has them already.
        """
        leaf = self.where[inst][number]
        assert leaf is not None
        if leaf.slice is not None:
            return self.pointer(leaf.slice)
        if not place.allocation.writable:
            return self.pointer(place)
        key = (inst, number)
        region = self.spilled.get(key)
        if region is None or not region.open:  # type: ignore[attr-defined]
            self.write(place, leaf)
            self.spilled[key] = self.f.region
        return self.pointer(place)


def indices(shape: Shape) -> list[tuple[int, ...]]:
    """All indices of an array, in row-major order."""
    return list(itertools.product(*map(range, shape.dims))) if shape.size else []
