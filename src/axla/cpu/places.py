"""The places of an entry function's values: registers, or slices of the frame's memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from axla.codegen.array import DenseArray
from axla.codegen.element import Elements, Indices
from axla.codegen.function import LlvmFunction, LlvmModule, Ssa
from axla.codegen.index import Index, index_key
from axla.codegen.value import Value, Values, register_types
from axla.core.errors import InternalError
from axla.core.shape import Shape, strides
from axla.program.interface import array_numbers
from axla.program.memory import AllocationKind, BufferSlice
from axla.program.program import Program
from axla.program.steps import ArrayValue
from axla.target.machine import Target

FEW = 4
"""The highest number of parameters, or results, whose addresses are worth a register each in loops: they are
loaded before.
"""

Read = Callable[[Indices], Value]


class ElementReader:
    """An array that is read element by element. `whole`, if known: one vector of all elements, or one
    register that every element equals.
    """

    __slots__ = ("shape", "read", "whole")

    def __init__(self, shape: Shape, read: Read, whole: Value | None = None):
        self.shape = shape
        self.read = read
        self.whole = whole

    def elements(self) -> list[Value]:
        """Reads all elements, in row-major order."""
        return [self.read(index) for index in indices(self.shape)]


class ValuePlaces:
    """An entry function that is being written: its frame, and the place of each value."""

    def __init__(self, module: LlvmModule, program: Program, target: Target, name: str):
        self.program = program
        self.target = target
        self.pointer_bytes = target.form.pointer_bytes
        self.f = LlvmFunction(module, name, "i32", [("ptr", "frame")], attributes='nounwind "no-builtins"')
        self.f.polls = True
        self.values = Values(self.f, target, straight=True)
        self.e = Elements(self.values, 1, scalar=True)
        self.polled = 0  # instructions of the function before the last poll
        self._registers: dict[str, list[Value]] = {}  # elements of values in registers, in row-major order
        self._leaves: dict[ArrayValue, ElementReader] = {}  # readers of values in memory
        self._numbers = {
            AllocationKind.PARAMETER: array_numbers(program.parameters),
            AllocationKind.RESULT: array_numbers(program.results),
        }

    # -- frame -------------------------------------------------------------------------------------------

    def field(self, name: str, type_: str = "ptr") -> Ssa:
        """Loads a field of the frame."""
        return self.f.frame_field(name, type_)

    def pointer(self, place: BufferSlice) -> Ssa:
        """Computes the address of a slice."""
        f, allocation = self.f, place.allocation
        if allocation.kind in (AllocationKind.PARAMETER, AllocationKind.RESULT):
            table = self.field("arguments" if allocation.kind is AllocationKind.PARAMETER else "results")
            number = self._numbers[allocation.kind][allocation.number]
            few = len(self._numbers[allocation.kind]) <= FEW
            base = f.load("ptr", f.gep("ptr", table, f.const("i64", number)), 8, readonly=True, exists=few)
        else:
            base = self.field("constants" if allocation.kind is AllocationKind.CONSTANTS else "workspace")
        return f.gep("i8", base, f.const("i64", place.offset))

    def pointers(self, values: Sequence[Ssa], slot: int = 0) -> Ssa:
        """An array of pointers on the stack; calls with the same `slot` use the same memory."""
        f = self.f
        array = f.stack("ptr", len(values), slot=slot)
        for number, value in enumerate(values):
            f.store(value, f.gep("ptr", array, f.const("i64", number)), 8)
        return array

    def function(self, number: int) -> Ssa:
        """Loads the address of function `number` from the function table."""
        f = self.f
        place = f.gep("ptr", self.field("functions"), f.const("i64", number))
        return f.load("ptr", place, 8, readonly=True)

    def array(self, place: BufferSlice, shape: Shape) -> DenseArray:
        """A view of a slice as an array in row-major order."""
        return DenseArray(self.values, self.pointer(place), shape.dtype, shape.dims, readonly=False)

    def pause(self) -> None:
        """Polls for cancellation if many instructions were written since the last poll; this also begins a
        new basic block.
        """
        if self.f.made - self.polled > self.target.limits.line_block:
            self.f.poll()
            self.polled = self.f.made

    # -- values ------------------------------------------------------------------------------------------

    def leaf(self, value: ArrayValue) -> ElementReader:
        """A reader of a value: of its registers, if it has any that can be used here, else of its slice."""
        held = self._registers.get(value.name)
        if held is not None and (value.place is None or all(map(_is_open, held))):
            return self.held(value.shape, held)
        found = self._leaves.get(value)
        if found is None:
            found = self._leaves[value] = self.memory(value)
        return found

    def elements(self, value: ArrayValue) -> list[Value]:
        """Reads all elements of a value, in row-major order."""
        return self.leaf(value).elements()

    def scalar(self, value: ArrayValue) -> Value:
        """Reads the only element of a value of rank 0."""
        return self.leaf(value).read(())

    def define(self, value: ArrayValue, elements: list[Value]) -> None:
        """Records that a value is in registers, which are its `elements` in row-major order."""
        self._registers[value.name] = elements

    def memory(self, value: ArrayValue) -> ElementReader:
        """A reader of a value in memory that loads each element at its first read."""
        # The address is computed at each read: a program may have many parameters that it hardly uses.
        known: dict[tuple, Value] = {}

        def read(index: Indices) -> Value:
            key = index_key(index)
            found = known.get(key)
            if found is None or not _is_open(found):
                found = known[key] = self.array(value.memory, value.shape).load(index, 1)
            return found

        return ElementReader(value.shape, read)

    def held(self, shape: Shape, elements: Sequence[Value]) -> ElementReader:
        """A reader of elements in registers, which are in row-major order."""
        table: dict[Indices, Value] = dict(zip(indices(shape), elements, strict=True))

        def read(index: Indices) -> Value:
            if all(isinstance(i, int) for i in index):
                return table[index]
            return self.e.pick(shape.dims, lambda at: (table[at],), index)[0]

        return ElementReader(shape, read)

    def packed(self, shape: Shape, whole: Value) -> ElementReader:
        """A reader of elements in one vector, in row-major order, or in one register that every element
        equals.
        """
        if whole.lanes == 1:
            return ElementReader(shape, self.held(shape, [whole] * shape.size).read, whole)

        def element(at: Indices) -> Value:
            lane = sum(
                i * step for i, step in zip(at, strides(shape.dims), strict=True) if isinstance(i, int)
            )
            return Value(whole.dtype, 1, tuple(self.f.extract(part, lane) for part in whole.parts))

        def read(index: Indices) -> Value:
            if all(isinstance(i, int) for i in index):
                return element(index)
            return self.e.pick(shape.dims, lambda at: (element(at),), index)[0]

        return ElementReader(shape, read, whole)

    def vector(self, leaf: ElementReader) -> Value:
        """The elements of an array in one vector."""
        f, lanes = self.f, leaf.shape.size
        if leaf.whole is not None:
            return Value(leaf.whole.dtype, lanes, tuple(f.splat(part, lanes) for part in leaf.whole.parts))
        found = [f.undef(type_) for type_ in register_types(leaf.shape.dtype, lanes)]
        for lane, element in enumerate(leaf.elements()):
            found = [f.insert(v, part, lane) for v, part in zip(found, element.parts, strict=True)]
        return Value(leaf.shape.dtype, lanes, tuple(found))

    def write(self, place: BufferSlice, shape: Shape, elements: Sequence[Value]) -> None:
        """Stores elements into a slice."""
        array = self.writable(place, shape)
        for index, element in zip(indices(shape), elements, strict=True):
            array.store(index, element)

    def writable(self, place: BufferSlice, shape: Shape) -> DenseArray:
        """A view of a slice for writing; InternalError if the allocation is read only."""
        if not place.allocation.writable:
            raise InternalError(f"cpu: {place} is to be written, but is read only")
        return self.array(place, shape)

    def copy_bytes(self, target: Ssa, source: Ssa, count: int) -> None:
        """Writes a copy of bytes between addresses that do not overlap."""
        f = self.f

        def copy(at: Ssa, kind: str) -> None:
            f.store(f.load(kind, f.gep("i8", source, at), 1), f.gep("i8", target, at), 1)

        self.by_vectors(count, copy)

    def clear_bytes(self, target: Ssa, count: int) -> None:
        """Writes zeros to `count` bytes."""
        f = self.f
        self.by_vectors(count, lambda at, kind: f.store(f.zero(kind), f.gep("i8", target, at), 1))

    def by_vectors(self, count: int, body: Callable[[Ssa, str], None]) -> None:
        """Calls `body(offset, type)` for whole vectors of bytes in a loop, then for each remaining byte of
        `count`.
        """
        f, width = self.f, min(self.target.vector_bytes, 64)
        whole = count // width * width
        if whole:
            with f.loop(0, whole, width) as loop:
                body(loop.index, f"<{width} x i8>")
        for at in range(whole, count):
            body(f.index(at), "i8")

    # -- control -----------------------------------------------------------------------------------------

    def loop(
        self, initial: Sequence[Ssa], enter: Callable[[Sequence[Ssa]], None],
        condition: Callable[[], Value], body: Callable[[], list[Ssa]], is_short: bool = False,
    ) -> Sequence[Ssa]:  # fmt: skip
        """Writes a loop that carries registers, and returns them as they are at its end. `enter` receives
        them before condition and body are written. A short condition is written twice: before the loop and at
        its end.
        """
        if is_short:
            enter(initial)
            with self.f.guarded_loop(initial, condition().ssa) as guarded:
                enter(guarded.carried)
                self.f.poll()
                guarded.yield_(body())
                enter(guarded.next)
                guarded.test(condition().ssa)
            return guarded.results
        with self.f.while_loop(initial) as loop:
            enter(loop.carried)
            loop.test(condition().ssa)
            self.f.poll()
            loop.yield_(body())
        return loop.results

    def choose(self, selector: Value, sides: Sequence[Callable[[], list[Ssa]]]) -> list[Ssa]:
        """Writes a branch for each side, selected by a binary search; returns the merged registers of the
        sides.
        """
        f = self.f
        position = None if selector.dtype.is_pred else self._position(selector, len(sides))

        def among(first: int, last: int) -> list[Ssa]:
            if first == last:
                return sides[first]()
            middle = (first + last) // 2
            if position is None:
                condition = selector.ssa  # side 0 runs if the pred is true
            else:
                condition = f.icmp("sle", position, f.const(position.type, middle))
            branch = f.branch(condition)
            with branch.then():
                a = among(first, middle)
            with branch.otherwise():
                b = among(middle + 1, last)
            return branch.merge(list(zip(a, b, strict=True)))

        return among(0, len(sides) - 1)

    def _position(self, selector: Value, count: int) -> Ssa:
        """The number of the selected branch; one out of range, or negative, means the last branch."""
        inside = self.e.in_range(Index(self.f, self.values.to_index(selector)), 0, count)
        last = self.f.index(count - 1)
        known = self.values.to_index(selector)
        if isinstance(inside, Value):
            return self.f.select(inside.ssa, known, last)
        return known if inside else last


def _is_open(element: Value) -> bool:
    """Whether the loop or branch in which an element was computed is still being written."""
    return all(part.region.open for part in element.parts)


def indices(shape: Shape) -> list[tuple[int, ...]]:
    """All indices of an array, in row-major order."""
    return list(itertools.product(*map(range, shape.dims))) if shape.size else []


def registers_of(elements: Sequence[Value]) -> list[Ssa]:
    """The LLVM values of elements, in order; a complex element has two."""
    return [part for element in elements for part in element.parts]


def from_registers(shapes: Sequence[Shape], parts: Sequence[Ssa]) -> list[list[Value]]:
    """The elements of arrays of these shapes, for each array. `parts` lists the LLVM values of all elements,
    in order.
    """
    rest = iter(parts)
    return [
        [Value(s.dtype, 1, tuple(next(rest) for _ in register_types(s.dtype, 1))) for _ in range(s.size)]
        for s in shapes
    ]
