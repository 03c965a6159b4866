"""Copy insertion: afterwards, every op that must write in place can do so.

A loop keeps each carried array in one buffer, updates write in place, and results are written to their final
memory. Where two values that are live at the same time would share memory, a copy is added, outside of as
many loops as possible. The schedule is updated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from axla.analysis.coalesce import Coalesced, coalesce
from axla.analysis.dataflow import CopyPlace, Edge, dataflow
from axla.core.errors import InternalError
from axla.core.shape import AnyShape, TupleShape
from axla.custom.site import nest
from axla.hlo import Copy, GetTupleElement, Tuple, While
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.traverse import schedule_of
from axla.passes.rewrite import control_bound
from axla.passes.schedule.order import running_computations
from axla.target.machine import Target

ROUNDS = 4  # the first round makes the copies, the second finds that no more are needed


def copy_insertion(module: Module, target: Target) -> None:
    """Adds copies so that no two arrays that are live at the same time have to share memory."""
    for _ in range(ROUNDS):
        places = coalesce(dataflow(module, target.limits), reuse=False)
        if not places.failed:
            return
        _Inserter(module, places).run()
    edge = places.failed[0]
    message = f"copy-insertion: {edge.at!r}, leaf {edge.leaf}, still needs a copy after {ROUNDS} rounds"
    raise InternalError(message)


class _Inserter:
    def __init__(self, module: Module, places: Coalesced):
        self.module = module
        self.places = places
        self.orders: dict[Computation, tuple[Instruction, ...]] = {
            c: schedule_of(c) for c in running_computations(module)
        }
        # Instructions to schedule before an instruction, or at the end of a computation.
        self.before: dict[Instruction | Computation, list[Instruction]] = {}

    def run(self) -> None:
        groups: dict[tuple[CopyPlace, Instruction], list[Edge]] = {}
        for edge in self.places.failed:
            groups.setdefault((edge.place, edge.at), []).append(edge)
        for (place, at), edges in groups.items():
            if place is CopyPlace.OPERAND:
                for edge in edges:
                    self.copy_operand(edge)
            elif place is CopyPlace.INIT:
                operand = at.operands[0]
                new, made = self.copied(operand, edges)
                at.computation.set_operand(at, 0, new)
                self.before.setdefault(at, []).extend(made)
                self.drop(operand)
            else:
                computation = (
                    at.op.body if place is CopyPlace.BACK and isinstance(at.op, While) else at.computation
                )
                root = computation.root
                new, made = self.copied(root, edges)
                computation.set_root(new)
                self.before.setdefault(computation, []).extend(made)
                self.drop(root)
        self.write_schedule()

    def copy_operand(self, edge: Edge) -> None:
        inst = edge.at
        operand = inst.operands[edge.operand]
        new, made = self.copied(operand, [edge])
        inst.computation.set_operand(inst, edge.operand, new)
        self.before.setdefault(inst, []).extend(made)
        self.drop(operand)

    def drop(self, inst: Instruction) -> None:
        """Removes a tuple that has no users any more."""
        computation = inst.computation
        unused = isinstance(inst.op, Tuple) and not inst.users and computation.root is not inst
        if unused and inst not in control_bound(computation):
            computation.remove(inst)

    def copied(self, inst: Instruction, edges: Iterable[Edge]) -> tuple[Instruction, list[Instruction]]:
        """A copy of `inst` with copy instructions at the leaves of `edges`, and the new instructions in
        order.

        The copies have the results of copies that are made at the same time: a copy that overwrites an array
        comes after the copy that reads it, and a cycle of such copies is broken by an additional copy.
        """
        made: list[Instruction] = []
        leaves = list(explode(inst, made))
        computation = inst.computation
        wanted = {edge.leaf: edge for edge in edges}
        place = self.places.place
        by_target = {place(edge.target): leaf for leaf, edge in wanted.items()}
        # key: the copy that reads; value: the copy that overwrites what it reads
        spoils = {
            leaf: by_target[place(edge.source)]
            for leaf, edge in wanted.items()
            if place(edge.source) in by_target and by_target[place(edge.source)] != leaf
        }
        for leaf in in_order(list(wanted), spoils):
            if leaf < 0:  # breaks a cycle: copies the value before it is overwritten
                leaf = ~leaf
            leaves[leaf] = computation.add(Copy(), [leaves[leaf]])
            made.append(leaves[leaf])
        return assemble(computation, inst.shape, leaves, made), made

    def write_schedule(self) -> None:
        found: dict[Computation, tuple[Instruction, ...]] = {}
        for computation, order in self.orders.items():
            new: list[Instruction] = []
            for inst in order:
                new.extend(self.before.get(inst, ()))
                if inst in computation.instructions:
                    new.append(inst)
            new.extend(self.before.get(computation, ()))
            found[computation] = tuple(new)
        self.module.set_schedule(found)


def in_order(copies: list[int], spoils: dict[int, int]) -> list[int]:
    """The copies in an order in which none overwrites what a later one reads. `spoils` maps a copy to the one
    that overwrites what it reads. `~n` in the result is an early copy of what n reads, which breaks a cycle.
    """
    spoilers: dict[int, list[int]] = {}
    for reader, spoiler in spoils.items():
        spoilers.setdefault(spoiler, []).append(reader)
    waiting = {n: len(spoilers.get(n, ())) for n in copies}
    ready = [n for n in copies if not waiting[n]]
    result: list[int] = []
    left = dict.fromkeys(copies)
    while left:
        if not ready:  # only cycles are left
            first = next(n for n in left if n in spoils)
            result.append(~first)
            spoiler = spoils.pop(first)
            waiting[spoiler] -= 1
            if not waiting[spoiler]:
                ready.append(spoiler)
            continue
        n = ready.pop(0)
        del left[n]
        result.append(n)
        spoiler = spoils.get(n)
        if spoiler is not None:
            waiting[spoiler] -= 1
            if not waiting[spoiler]:
                ready.append(spoiler)
    return result


def explode(inst: Instruction, made: list[Instruction]) -> Iterator[Instruction]:
    """The leaves of a value, one instruction each; appends new get-tuple-elements to `made`."""
    stack = [inst]
    while stack:
        one = stack.pop()
        if not isinstance(one.shape, TupleShape):
            yield one
        elif isinstance(one.op, Tuple):
            stack.extend(reversed(one.operands))
        else:
            parts = [one.computation.add(GetTupleElement(n), [one]) for n in range(len(one.shape.elements))]
            made.extend(parts)
            stack.extend(reversed(parts))


def assemble(
    computation: Computation, shape: AnyShape, leaves: list[Instruction], made: list[Instruction]
) -> Instruction:
    """A value of `shape` built from its leaves; appends new tuples to `made`."""

    def tuple_of(parts: list[Instruction]) -> Instruction:
        made.append(computation.add(Tuple(), parts))
        return made[-1]

    return nest(shape, iter(leaves), tuple_of)
