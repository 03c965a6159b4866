"""Chooses the order in which every computation runs: it needs little memory, keeps effects in program order,
and has readers of an array before the instruction that overwrites the array.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

import axla.hlo as hlo
from axla.analysis.dataflow import in_place_operands
from axla.core.dataclass import dataclass
from axla.core.shape import Shape
from axla.ir.collectives import is_asynchronous
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.traverse import below, computations_callees_first, post_order, text_order
from axla.ir.typed import tuple_of
from axla.passes.simplify.dce import effectful_computations, has_effect
from axla.target.machine import Limits, Target

Leaf = tuple[Instruction, int]  # an instruction that computes an array, and the number of the leaf


def schedule(module: Module, target: Target) -> None:
    """Schedules the entry and the computations that loops, branches and calls run."""
    effectful = effectful_computations(module)
    found = {c: order(c, target.limits, effectful) for c in running_computations(module)}
    module.set_schedule(found)
    module.set_config(is_scheduled=True)


def running_computations(module: Module) -> list[Computation]:
    """The entry and the computations that loops, branches and calls run, callees first. Computations of
    kernels, reducers and comparators are not among them.
    """
    running = {module.entry}
    for computation in reversed(computations_callees_first(module)):
        if computation in running:
            for inst in computation.instructions:
                if inst.op.control:
                    running.update(inst.op.computations())
    return [c for c in computations_callees_first(module) if c in running]


def order(
    comp: Computation, limits: Limits, effectful: Iterable[Computation] = ()
) -> tuple[Instruction, ...]:
    """The order of execution of one computation. Operands of asynchronous collectives come early, so that
    other work runs during the collectives.
    """
    first = [operand for inst in filter(is_asynchronous, post_order(comp)) for operand in inst.operands]
    done: set[Instruction] = set()
    instructions = [one for root in (*first, *post_order(comp)) for one in below(root, done)]
    graph = _graph(comp, limits, frozenset(effectful), instructions)
    small = _list_schedule(graph, lambda inst, bytes_: bytes_)
    plain = _list_schedule(graph, lambda inst, bytes_: 0)
    return small if not first and _peak(graph, small) < _peak(graph, plain) else plain


@dataclass(slots=True)
class _Graph:
    limits: Limits
    position: dict[Instruction, int] = field(default_factory=dict)
    successors: dict[Instruction, list[Instruction]] = field(default_factory=dict)
    waiting: dict[Instruction, int] = field(default_factory=dict)
    # instruction -> arrays that it reads
    reads: dict[Instruction, tuple[Leaf, ...]] = field(default_factory=dict)
    readers: dict[Leaf, list[Instruction]] = field(default_factory=dict)
    # instruction -> bytes of the new arrays of its result
    made: dict[Instruction, int] = field(default_factory=dict)
    kept: set[Leaf] = field(default_factory=set)  # parameters and leaves of the root: never freed
    overwrites: dict[Instruction, list[Leaf]] = field(default_factory=dict)

    def bytes(self, leaf: Leaf) -> int:
        """The number of bytes of an array; 0 if it is held in registers."""
        inst, number = leaf
        shape = inst.shape
        if not isinstance(shape, Shape):
            shape = list(shape.leaves())[number]
        return shape.byte_size if isinstance(shape, Shape) and shape.size > self.limits.tiny else 0


def _graph(
    computation: Computation, limits: Limits, effectful: frozenset[Computation],
    instructions: Sequence[Instruction],
) -> _Graph:  # fmt: skip
    graph = _Graph(limits)
    leaves: dict[Instruction, tuple[Leaf, ...]] = {}
    graph.position = {inst: n for n, inst in enumerate(instructions)}
    for inst in instructions:
        before = dict.fromkeys((*inst.operands, *inst.extra.control_predecessors))
        graph.waiting[inst] = len(before)
        for one in before:
            graph.successors.setdefault(one, []).append(inst)
        leaves[inst] = _leaves(inst, leaves)
        if inst.op.passes_on or inst.op.structural:
            continue
        read = dict.fromkeys(leaf for o in inst.operands for leaf in leaves[o])
        graph.reads[inst] = tuple(read)
        for leaf in read:
            graph.readers.setdefault(leaf, []).append(inst)
        graph.made[inst] = sum(map(graph.bytes, leaves[inst]))
        for number, source in in_place_operands(inst, limits).values():
            graph.overwrites.setdefault(inst, []).append(leaves[inst.operands[number]][source])
    for parameter in computation.parameters:
        graph.kept.update(leaves[parameter])
    graph.kept.update(leaves[computation.root])
    _chain_effects(computation, graph, effectful)
    _carried(computation, graph, leaves)
    return graph


def _leaves(inst: Instruction, leaves: dict[Instruction, tuple[Leaf, ...]]) -> tuple[Leaf, ...]:
    op = inst.op
    if isinstance(op, hlo.Tuple):
        return tuple(leaf for o in inst.operands for leaf in leaves[o])
    if op.passes_on:
        return leaves[inst.operands[0]]
    if isinstance(op, hlo.GetTupleElement):
        shape = tuple_of(inst.operands[0])
        first = shape.leaf_starts[op.index]
        return leaves[inst.operands[0]][first : first + inst.shape.leaf_count]
    return tuple((inst, n) for n in range(inst.shape.leaf_count))


def _chain_effects(computation: Computation, graph: _Graph, effectful: frozenset[Computation]) -> None:
    """Adds dependences between instructions with effects, so that they run in the order of the text."""
    last: Instruction | None = None
    for inst in text_order(computation):
        if has_effect(inst, effectful):
            if last is not None:
                graph.successors.setdefault(last, []).append(inst)
                graph.waiting[inst] += 1
            last = inst


def _carried(computation: Computation, graph: _Graph, leaves: dict[Instruction, tuple[Leaf, ...]]) -> None:
    """Makes the new value of a carried array overwrite the old one, so that it comes after the readers of the
    old one.
    """
    if len(computation.parameters) != 1:
        return
    old, new = leaves[computation.parameters[0]], leaves[computation.root]
    if computation.parameters[0].shape.logical is not computation.root.shape.logical:
        return
    for before, after in zip(old, new, strict=True):
        if after[0] in graph.made and before != after and graph.bytes(after):
            graph.overwrites.setdefault(after[0], []).append(before)


def _overwriters(graph: _Graph) -> tuple[dict[Instruction, int], dict[Leaf, list[Instruction]]]:
    """For each instruction that overwrites arrays, the number of other readers of these arrays, which must
    run before it; for each array, the instructions that overwrite it.
    """
    blocked: dict[Instruction, int] = {}
    overwriters: dict[Leaf, list[Instruction]] = {}
    for inst, over in graph.overwrites.items():
        blocked[inst] = sum(len(graph.readers.get(leaf, ())) - (leaf in graph.reads[inst]) for leaf in over)
        for leaf in over:
            overwriters.setdefault(leaf, []).append(inst)
    return blocked, overwriters


def _list_schedule(graph: _Graph, weight: Callable[[Instruction, int], int]) -> tuple[Instruction, ...]:
    """A list schedule: of the ready instructions, the one of the lowest weight is next, then the one of the
    lowest position. `weight` is called with an instruction and the bytes that it allocates less those that it
    frees.

    An instruction that overwrites an array another one still reads, or that waits for a collective, is taken
    only when nothing else can run.
    """
    waiting = dict(graph.waiting)
    left = {leaf: len(readers) for leaf, readers in graph.readers.items()}
    blocked, overwriters = _overwriters(graph)
    done: set[Instruction] = set()
    ready: list[tuple[int, int, Instruction]] = []
    held: list[tuple[bool, int, Instruction]] = []
    result: list[Instruction] = []

    def push(inst: Instruction) -> None:
        if blocked.get(inst, 0) > 0 or is_asynchronous(inst):
            heapq.heappush(held, (blocked.get(inst, 0) > 0, graph.position[inst], inst))
            return
        last = (leaf for leaf in graph.reads.get(inst, ()) if left[leaf] == 1 and leaf not in graph.kept)
        freed = sum(map(graph.bytes, last))
        heapq.heappush(ready, (weight(inst, graph.made.get(inst, 0) - freed), graph.position[inst], inst))

    for inst, count in waiting.items():
        if not count:
            push(inst)
    while ready or held:
        inst = heapq.heappop(ready)[2] if ready else heapq.heappop(held)[2]
        if inst in done:
            continue
        done.add(inst)
        result.append(inst)
        for leaf in graph.reads.get(inst, ()):
            left[leaf] -= 1
            if left[leaf] == 1:  # its last reader frees it, so the reader's weight changes
                last = next(r for r in graph.readers[leaf] if r not in done)
                if not waiting[last] and not blocked.get(last, 0):
                    push(last)
            for other in overwriters.get(leaf, ()):
                if other is not inst:
                    blocked[other] -= 1
                    if not blocked[other] and not waiting[other] and other not in done:
                        push(other)
        for user in graph.successors.get(inst, ()):
            waiting[user] -= 1
            if not waiting[user]:
                push(user)
    return tuple(result)


def _peak(graph: _Graph, instructions: Iterable[Instruction]) -> int:
    """The largest number of bytes that are live at the same time if `instructions` run in this order."""
    left = {leaf: len(readers) for leaf, readers in graph.readers.items()}
    live = most = 0
    for inst in instructions:
        live += graph.made.get(inst, 0)
        most = max(most, live)
        for leaf in graph.reads.get(inst, ()):
            left[leaf] -= 1
            if not left[leaf] and leaf not in graph.kept:
                live -= graph.bytes(leaf)
    return most
