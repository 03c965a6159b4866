"""Dataflow of array values: their live intervals, and which of them should share memory.

A `LiveArray` is one array leaf that an instruction computes. Tuples, get-tuple-element, reshape, bitcast,
parameters and roots only pass values on. Time is linear: every instruction of every scheduled computation
gets a tick; the instructions of a called computation come right before the caller (condition before body,
branch after branch).

An `Edge` joins two values that must or may share memory: a conceptual copy `source -> target`. It vanishes
when both can share memory; otherwise the pass copy-insertion makes it a real copy. Tiny values
(`Limits.tiny`) live in registers and have no edges, except where an instruction writes over an operand or a
result of the entry is stored.

Requires a schedule, and that each called computation has only one caller (`flatten-call-graph`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import field

import axla.hlo as hlo
from axla.analysis.inplace import overwritable
from axla.analysis.regions import is_tiny, is_tiny_store
from axla.core.dataclass import dataclass
from axla.core.errors import InternalError
from axla.core.shape import Shape
from axla.custom.site import leaf_number
from axla.ir.collectives import is_asynchronous
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.structure import Constant, GetTupleElement, Parameter, Tuple
from axla.ir.traverse import run_nested, schedule_of
from axla.ir.typed import op_of, tuple_of
from axla.kernels.access import kernel_roots
from axla.kernels.kinds import kernel_kind, kinds_of
from axla.target.machine import Limits


class LiveArray:
    """An array leaf of an instruction's result, and its live interval: the ticks from its definition
    (`start`) to its last use (`end`).
    """

    __slots__ = ("number", "inst", "leaf", "shape", "start", "end", "over", "same_as", "is_tiny", "in_memory")

    def __init__(self, number: int, inst: Instruction, leaf: int, shape: Shape, start: int, limits: Limits):
        self.number = number
        self.inst = inst
        self.leaf = leaf
        self.shape = shape
        self.start = start
        self.end = start
        # Values that the instruction reads element by element: its result may overwrite them.
        self.over: tuple[LiveArray, ...] = ()
        self.same_as: LiveArray | None = None  # a loop passes this value on unchanged
        self.is_tiny = shape.size <= limits.tiny
        self.in_memory = not self.is_tiny  # large, or a kernel reads or writes it

    def __repr__(self) -> str:
        return f"<{self.inst.name}#{self.leaf} {self.start}..{self.end}>"


class CopyPlace(enum.IntEnum):
    """The point of the program at which the copy of an edge would run."""

    OPERAND = 1  # before an instruction: a copy of an operand that it overwrites
    INIT = 2  # before a loop: a copy of an initial value
    BACK = 3  # at the end of a loop's body: a copy of the next value
    BRANCH = 4  # at the end of a branch: a copy of a result
    RESULT = 5  # at the end of the entry: a copy of a result


@dataclass(slots=True, eq=False)
class Edge:
    """A conceptual copy of `source` to `target`. If it becomes a real copy, it copies leaf `leaf` of operand
    number `operand` of `at`. If `operand` is -1, it copies that leaf of a root: the root of the body if `at`
    is a loop, else `at` itself.
    """

    place: CopyPlace
    source: LiveArray
    target: LiveArray
    at: Instruction
    operand: int
    leaf: int  # the leaf of the operand or root that is copied
    depth: int  # the number of loops that contain the copy


@dataclass(slots=True)
class Dataflow:
    """The array values of a module with live intervals, and the edges between values that must or may share
    memory.
    """

    module: Module
    limits: Limits
    values: list[LiveArray] = field(default_factory=list)
    leaves: dict[Instruction, tuple[LiveArray | None, ...]] = field(default_factory=dict)  # None: a token
    edges: list[Edge] = field(default_factory=list)
    groups: list[tuple[LiveArray, ...]] = field(default_factory=list)  # values that share memory in any case
    parameters: list[LiveArray | None] = field(default_factory=list)  # by leaf of the entry's parameters
    results: list[LiveArray | None] = field(default_factory=list)  # by leaf: the values of the entry's root
    slots: list[LiveArray | None] = field(default_factory=list)  # by leaf: the result's memory, as a value
    time: dict[Instruction, int] = field(default_factory=dict)
    end: int = 0


def find(value: LiveArray) -> LiveArray:
    """The value before all loops that pass `value` on unchanged; `value` itself if there is no such loop."""
    while value.same_as is not None:
        if value.same_as.same_as is not None:
            value.same_as = value.same_as.same_as
        value = value.same_as
    return value


def dataflow(module: Module, limits: Limits) -> Dataflow:
    """Computes the values, live intervals and edges of a module."""
    walk = _Walk(module, limits)
    walk.run()
    return walk.flow


class _Walk:
    def __init__(self, module: Module, limits: Limits):
        self.module = module
        self.limits = limits
        self.flow = Dataflow(module, limits)
        self.tick = 0
        self.seen: dict[Computation, Instruction | None] = {}

    def run(self) -> None:
        flow, entry = self.flow, self.module.entry
        self.enter(entry, None)
        for parameter in entry.parameters:
            made = self.define(parameter)
            flow.parameters.extend(made)
            for value in made:
                if value is not None:
                    value.in_memory = True
        run_nested(self.computation(entry, 0))
        self.finish()

    def finish(self) -> None:
        flow, entry = self.flow, self.module.entry
        self.tick += 1
        read = self.tick
        flow.results = list(flow.leaves[entry.root])
        self.tick += 1
        for leaf, value in enumerate(flow.results):
            if value is None:
                flow.slots.append(None)
                continue
            self.use(value, read)
            slot = self.value(entry.root, leaf, value.shape)
            slot.in_memory = True
            flow.slots.append(slot)
            flow.edges.append(Edge(CopyPlace.RESULT, value, slot, entry.root, -1, leaf, 0))
        self.tick += 1
        flow.end = self.tick
        for slot in flow.slots:
            if slot is not None:
                slot.end = flow.end
        for value in flow.values:
            if value.same_as is not None:
                target = find(value)
                target.end = max(target.end, value.end)
                target.in_memory = target.in_memory or value.in_memory
        flow.results = [v and find(v) for v in flow.results]

    def enter(self, computation: Computation, caller: Instruction | None) -> None:
        if computation in self.seen:
            raise InternalError(
                f"buffers: computation {computation.name} has several callers; run flatten-call-graph first"
            )
        self.seen[computation] = caller

    def computation(self, computation: Computation, depth: int) -> Iterator[Iterator]:
        """Walks a computation whose parameters already have values; yields the walks of the computations that
        it calls. `depth` is the number of loops around it.
        """
        flow = self.flow
        for inst in schedule_of(computation):
            self.tick += 1
            op = inst.op
            cls = type(op)
            if cls is Parameter:
                pass
            elif cls is Tuple:
                flow.leaves[inst] = tuple(v for o in inst.operands for v in flow.leaves[o])
            elif cls is GetTupleElement:
                flow.leaves[inst] = self.element(inst)
            elif cls.passes_on and self.forwards(inst):
                flow.leaves[inst] = flow.leaves[inst.operands[0]]
            elif cls is hlo.AfterAll:
                flow.leaves[inst] = (None,)
            elif cls is hlo.While:
                yield from self.loop(inst, depth)
            elif cls is hlo.Conditional:
                yield from self.conditional(inst, depth)
            elif cls is hlo.Call:
                yield from self.call(inst, depth)
            else:
                self.plain(inst, depth)
            flow.time[inst] = self.tick

    def value(self, inst: Instruction, leaf: int, shape: Shape) -> LiveArray:
        made = LiveArray(len(self.flow.values), inst, leaf, shape, self.tick, self.limits)
        self.flow.values.append(made)
        return made

    def define(self, inst: Instruction) -> tuple[LiveArray | None, ...]:
        """Creates values for the leaves of an instruction's result."""
        leaves = tuple(
            self.value(inst, leaf, shape) if isinstance(shape, Shape) else None
            for leaf, shape in enumerate(inst.shape.leaves())
        )
        self.flow.leaves[inst] = leaves
        return leaves

    def use(self, value: LiveArray | None, tick: int) -> None:
        if value is not None and value.end < tick:
            value.end = tick

    def element(self, inst: Instruction) -> tuple[LiveArray | None, ...]:
        tuple_ = inst.operands[0]
        first = tuple_of(tuple_).leaf_starts[op_of(inst, GetTupleElement).index]
        return self.flow.leaves[tuple_][first : first + inst.shape.leaf_count]

    def forwards(self, inst: Instruction) -> bool:
        of, to = inst.operands[0].shape, inst.shape
        if isinstance(of, Shape) and isinstance(to, Shape):
            return of.byte_size == to.byte_size
        return of.logical is to.logical

    def plain(self, inst: Instruction, depth: int) -> None:
        """Handles an instruction that is neither structural nor a call: it uses its operands and defines its
        results.
        """
        flow, op, limits = self.flow, inst.op, self.limits
        in_place = in_place_operands(inst, limits)
        guarded = {operand for operand, _ in in_place.values()}
        self.tick += 3  # leaves ticks for copies of operands that are overwritten
        now = self.tick
        kernel = not is_tiny(inst, limits)
        read_in_memory = kernel and not is_tiny_store(inst, limits)
        for number, operand in enumerate(inst.operands):
            for value in flow.leaves[operand]:
                if value is not None:
                    self.use(value, now - 2 if number in guarded else now)
                    value.in_memory = value.in_memory or read_in_memory
        made = self.define(inst)
        begun = max(map(flow.time.__getitem__, inst.operands)) if is_asynchronous(inst) else now
        for value in made:
            if value is not None and kernel:
                value.in_memory, value.start = True, begun
        for leaf, (number, source_leaf) in in_place.items():
            value, source = made[leaf], flow.leaves[inst.operands[number]][source_leaf]
            if value is None or source is None or not kernel:
                if source is not None:
                    self.use(source, now)
                continue
            copy = self.value(inst, leaf, value.shape)
            copy.start = now - 1
            value.over = (copy,)
            flow.groups.append((copy, value))
            flow.edges.append(Edge(CopyPlace.OPERAND, source, copy, inst, number, source_leaf, depth))
        if not in_place and not isinstance(op, Constant):
            for leaf, numbers in overwritable(inst, limits).items():
                value = made[leaf]
                if value is not None and not value.is_tiny:
                    value.over = self.elementwise_operands(inst, numbers)

    def elementwise_operands(self, inst: Instruction, numbers: Sequence[int]) -> tuple[LiveArray, ...]:
        """The values of the operands with these numbers, without the values that other operands read too."""
        leaves = self.flow.leaves
        others = {v for n, o in enumerate(inst.operands) if n not in numbers for v in leaves[o]}
        found = dict.fromkeys(v for n in numbers for v in leaves[inst.operands[n]])
        return tuple(v for v in found if v is not None and v not in others)

    def loop(self, inst: Instruction, depth: int) -> Iterator[Iterator]:
        flow, op = self.flow, op_of(inst, hlo.While)
        init = flow.leaves[inst.operands[0]]
        read = self.tick
        for value in init:
            self.use(value, read)
        self.tick += 2  # leaves a tick for copies of the initial values
        copies = self.placeholders(inst, init)
        self.tick += 1
        carried = tuple(v and self.value(op.body.parameters[0], n, v.shape) for n, v in enumerate(init))
        for computation in (op.condition, op.body):
            self.enter(computation, inst)
            flow.leaves[computation.parameters[0]] = carried
        yield self.computation(op.condition, depth + 1)
        self.tick += 1
        for value in (*carried, *flow.leaves[op.condition.root]):
            self.use(value, self.tick)
        yield self.computation(op.body, depth + 1)
        self.tick += 1
        back_read = self.tick
        root = flow.leaves[op.body.root]
        self.tick += 1
        backs = self.placeholders(inst, root)
        self.tick += 1
        results: list[LiveArray | None] = []
        for n, (first, parameter, last) in enumerate(zip(init, carried, root, strict=True)):
            if first is None or parameter is None or last is None:
                results.append(None)
                continue
            copy, back = copies[n], backs[n]
            assert copy is not None and back is not None
            if find(last) is parameter:  # the body passes the value on unchanged
                parameter.same_as = first
                self.use(first, self.tick)
                results.append(first)
                continue
            self.use(last, back_read)
            back.end = self.tick
            copy.end = parameter.start
            result = self.value(inst, n, last.shape)
            results.append(result)
            if not result.is_tiny:
                parameter.over, result.over = (copy,), (back,)
                self.adopt(copy)
                self.adopt(back)
                flow.groups.append((copy, parameter, back, result))
                flow.edges.append(Edge(CopyPlace.INIT, first, copy, inst, 0, n, depth))
                flow.edges.append(Edge(CopyPlace.BACK, last, back, inst, -1, n, depth + 1))
        flow.leaves[inst] = tuple(results)

    def placeholders(self, inst: Instruction, leaves: Sequence[LiveArray | None]) -> list[LiveArray | None]:
        """Creates the values of copies that may become necessary: one for each value in `leaves`, the leaves
        of `inst`, and None for each None. A new value is not in the list of values until `adopt` adds it.
        """
        return [v and LiveArray(-1, inst, n, v.shape, self.tick, self.limits) for n, v in enumerate(leaves)]

    def adopt(self, value: LiveArray) -> None:
        value.number = len(self.flow.values)
        self.flow.values.append(value)

    def conditional(self, inst: Instruction, depth: int) -> Iterator[Iterator]:
        flow, op = self.flow, op_of(inst, hlo.Conditional)
        self.use(flow.leaves[inst.operands[0]][0], self.tick)
        ends: list[tuple[Computation, Sequence[LiveArray | None], list[LiveArray | None]]] = []
        for branch, operand in zip(op.branches, inst.operands[1:], strict=True):
            self.enter(branch, inst)
            flow.leaves[branch.parameters[0]] = flow.leaves[operand]
            yield self.computation(branch, depth)
            self.tick += 1
            root = flow.leaves[branch.root]
            for value in root:
                self.use(value, self.tick)
            self.tick += 1
            copies = self.placeholders(inst, root)
            ends.append((branch, root, copies))
            self.tick += 1
        results: list[LiveArray | None] = []
        for n, shape in enumerate(inst.shape.leaves()):
            sources = [root[n] for _, root, _ in ends]
            if sources[0] is None or not isinstance(shape, Shape):
                results.append(None)
                continue
            if all(v is not None and find(v) is find(sources[0]) for v in sources):
                self.use(sources[0], self.tick)
                results.append(sources[0])
                continue
            result = self.value(inst, n, shape)
            results.append(result)
            if result.is_tiny:
                continue
            flow.groups.append((*(c for _, _, copies in ends if (c := copies[n]) is not None), result))
            for branch, root, copies in ends:
                copy, source = copies[n], root[n]
                assert copy is not None and source is not None
                self.adopt(copy)
                flow.edges.append(Edge(CopyPlace.BRANCH, source, copy, branch.root, -1, n, depth))
        flow.leaves[inst] = tuple(results)

    def call(self, inst: Instruction, depth: int) -> Iterator[Iterator]:
        flow, op = self.flow, op_of(inst, hlo.Call)
        self.enter(op.to_apply, inst)
        for parameter, operand in zip(op.to_apply.parameters, inst.operands, strict=True):
            flow.leaves[parameter] = flow.leaves[operand]
        yield self.computation(op.to_apply, depth)
        flow.leaves[inst] = flow.leaves[op.to_apply.root]


def in_place_operands(inst: Instruction, limits: Limits) -> dict[int, tuple[int, int]]:
    """For each result leaf that must be written in place, the operand whose memory it takes, as (operand
    number, leaf of the operand).
    """
    op = inst.op
    if isinstance(op, hlo.CustomCall) and op.output_to_operand_aliasing:
        shapes = [o.shape for o in inst.operands]
        return {
            leaf_number(inst.shape, a.output): (a.operand, leaf_number(shapes[a.operand], a.index))
            for a in op.output_to_operand_aliasing
        }
    if isinstance(op, hlo.Fusion):
        return {leaf: (number, 0) for leaf, number in in_place_parameters(op.calls, limits).items()}
    return {n: (n, 0) for kind in kinds_of(type(op)) for n, _ in enumerate(kind.written(inst))}


def in_place_parameters(kernel: Computation, limits: Limits) -> dict[int, int]:
    """For each result leaf that a kernel must write in place, the number of the parameter whose memory it
    takes.
    """
    written = kernel_kind(kernel, limits).written(kernel_roots(kernel)[0])
    return {n: _parameter_number(inst) for n, inst in enumerate(written)}


def _parameter_number(inst: Instruction) -> int:
    if not isinstance(inst.op, Parameter):
        raise InternalError(f"{inst!r} is updated in place and must be a parameter of its fusion")
    return inst.op.parameter_number
