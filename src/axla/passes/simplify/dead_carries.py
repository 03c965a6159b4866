"""Finds the elements of loops that matter, in nested loops together.

An element that an outer loop only passes to an inner loop and takes back keeps itself alive in both loops.
This file follows an element through all loops. If nothing else reads it, it is passed on unchanged, and then
both loops can drop it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from axla.hlo import While
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.structure import GetTupleElement, Tuple
from axla.ir.typed import op_of
from axla.passes import rewrite
from axla.passes.simplify.carries import Loop
from axla.passes.simplify.dce import has_effect


def cut_dead_carries(module: Module, effectful: Container[Computation]) -> None:
    """Makes nested loops pass elements on unchanged if only these loops read them."""
    whiles = [i for c in module.computations for i in c.instructions if type(i.op) is While]
    bodies = {op_of(i, While).body for i in whiles}
    if not any(i.computation in bodies for i in whiles):
        return
    session = rewrite.current_session()
    demand = _Demand(module, whiles, effectful)
    for body, loops in demand.loops.items():
        loop = loops[0]
        dead = {n for n in range(loop.size) if (body, n) not in demand.carries and not _is_passed_on(body, n)}
        if dead and body in demand.run and session.may_fire("while-dead-carries", loop.inst):
            parameter = body.parameters[0]
            new = [
                body.add(GetTupleElement(n), (parameter,), value.shape) if n in dead else value
                for n, value in enumerate(loop.next)
            ]
            body.set_root(body.add(Tuple(), new, body.root.shape))


def _is_passed_on(body: Computation, number: int) -> bool:
    value = body.root.operands[number]
    return value.op == GetTupleElement(number) and value.operands[0] is body.parameters[0]


class _Demand:
    """The values on which results and effects of a module depend. `carries` has the needed elements of loops,
    as pairs (body, element number); `run` has the computations that run.
    """

    def __init__(self, module: Module, whiles: list[Instruction], effectful: Container[Computation]) -> None:
        self.effectful = effectful
        self.loops = _loops(module, whiles)
        self.of = {loop.inst: loop for loops in self.loops.values() for loop in loops}
        # computation -> loop bodies whose elements its parameter has
        self.owners: dict[Computation, set[Computation]] = {}
        for body, loops in self.loops.items():
            for computation in (body, *(loop.condition for loop in loops)):
                self.owners.setdefault(computation, set()).add(body)
        self.carries: set[tuple[Computation, int]] = set()
        self.run: set[Computation] = set()
        self.seen: set[Instruction] = set()
        self.stack: list[Instruction] = []
        self.enter(module.entry)
        while self.stack:
            inst = self.stack.pop()
            if inst not in self.seen:
                self.seen.add(inst)
                self.stack += self.below(inst)

    def enter(self, computation: Computation) -> None:
        """Adds the values that a computation needs whenever it runs, even if its result is unused."""
        if computation in self.run:
            return
        self.run.add(computation)
        self.stack += rewrite.control_bound(computation)
        self.stack += [i for i in computation.instructions if has_effect(i, self.effectful)]
        if computation not in self.loops:
            self.stack.append(computation.root)

    def below(self, inst: Instruction) -> Iterator[Instruction]:
        """Yields the operands that an instruction needs."""
        op = inst.op
        if isinstance(op, GetTupleElement):
            (whole,) = inst.operands
            if whole in self.of:
                yield from self.element(self.of[whole].body, op.index)
                self.start(self.of[whole])
                return
            owners = self.owners.get(whole.computation)
            if owners and whole is whole.computation.parameters[0]:
                for body in owners:
                    yield from self.element(body, op.index)
                return
        if inst in self.of:  # a loop that runs for its effects, or because of control edges
            self.start(self.of[inst])
            return
        for computation in op.computations() if op.computation_fields else ():
            self.enter(computation)
        yield from inst.operands

    def start(self, loop: Loop) -> None:
        self.enter(loop.body)
        self.enter(loop.condition)

    def element(self, body: Computation, number: int) -> Iterator[Instruction]:
        """Yields the values that are needed for one element of the loops with this body."""
        if (body, number) not in self.carries:
            self.carries.add((body, number))
            for loop in self.loops[body]:
                yield loop.init[number]
            yield body.root.operands[number]


def _loops(module: Module, whiles: list[Instruction]) -> dict[Computation, list[Loop]]:
    """The loops that can be split into elements, grouped by body. Loops are left out if another instruction
    calls their body or condition.
    """
    found = {inst: loop for inst in whiles if (loop := Loop.of(inst)) is not None}
    others = {
        called
        for computation in module.computations
        for inst in computation.instructions
        if inst.op.computation_fields and inst not in found
        for called in inst.op.computations()
    }
    grouped: dict[Computation, list[Loop]] = {}
    # A loop that is left out counts as another caller of its body and condition; repeat until no loop shares
    # them.
    while shared := [o for o in found.values() if o.body in others or o.condition in others]:
        for loop in shared:
            del found[loop.inst]
            others |= {loop.body, loop.condition}
    for loop in found.values():
        grouped.setdefault(loop.body, []).append(loop)
    return grouped
