"""Moves loop invariants out of loops: values that are the same in every trip.

A value of the body is invariant if it depends only on constants and on elements that the loop passes on
unchanged. It is computed before the loop and carried, if computing it in each trip costs more than reading
it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import field

import axla.hlo as hlo
from axla.analysis.trip_count import trip_count
from axla.core.dataclass import dataclass
from axla.core.shape import Shape
from axla.ir.clone import called_first
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.structure import Constant, GetTupleElement, Parameter
from axla.ir.traverse import computations_callees_first, post_order
from axla.passes import rewrite
from axla.passes.simplify.carries import Loop, rebuilt
from axla.passes.simplify.dce import effectful_computations, has_effect, remove_dead_computations

INFLATION = 8
"""The fewest operations per element for which an invariant array is moved although it is larger than every
array that it is computed from.
"""
MOST_INFLATED = 1 << 26
"""The most bytes of an invariant array that is larger than every array that it is computed from."""
SMALL = 256  # the most bytes of an array that is always worth carrying
_FUNCTION = 12  # operations that take as long as a transcendental function
_ALWAYS = 1 << 62  # as many operations as make any instruction worth moving


def while_loop_invariant_code_motion(module: Module) -> None:
    """Computes invariant values before a loop if computing them in every trip costs more than reading
    them.
    """
    session = rewrite.current_session()
    effectful = set(effectful_computations(module))
    changed = False
    for computation in computations_callees_first(module):
        loops = [i for i in computation.instructions if isinstance(i.op, hlo.While)]
        bound = rewrite.control_bound(computation) if loops else frozenset()
        for inst in loops:
            loop = Loop.of(inst) if inst not in bound else None
            if loop is not None and (moved := _moved(loop, effectful, session)):
                carried(loop, moved, effectful)
                changed = True
    if changed:
        remove_dead_computations(module)


def carried(loop: Loop, moved: list[Instruction], effectful: set[Computation]) -> None:
    """Replaces a loop by one that carries the invariant values `moved`, which are computed before it."""
    made = rebuilt(loop, added=copied(loop, moved, loop.inst.computation, {}))
    for new, old in ((made.condition, loop.condition), (made.body, loop.body)):
        if old in effectful:
            effectful.add(new)


@dataclass(slots=True)
class Invariants:
    """The invariant values of a loop body with their costs. For each value, `work` is the number of
    operations on elements that compute it, and `largest` the size in bytes of the largest array that is read
    for that.
    """

    work: dict[Instruction, int] = field(default_factory=dict)
    largest: dict[Instruction, int] = field(default_factory=dict)

    def add(self, inst: Instruction) -> None:
        """Records an instruction whose operands are already recorded."""
        operands = dict.fromkeys(inst.operands)
        own = _work(inst)
        self.work[inst] = min(_ALWAYS, own + sum(self.work[o] for o in operands))
        read = max((self.largest[o] for o in operands), default=0)
        self.largest[inst] = max(read, inst.shape.array_bytes) if own == _ALWAYS else read

    def why_stay(self, inst: Instruction) -> str | None:
        """The reason not to carry an invariant value; None if carrying it pays."""
        shape = inst.shape
        if not isinstance(shape, Shape):
            return "it is not an array"
        work, size = self.work[inst], shape.array_bytes
        if not work:
            return "computing it takes no operations"
        if size > self.largest[inst] and size > SMALL:
            if work < INFLATION * shape.size:
                return "it is larger than its inputs, and cheap to compute"
            if size > MOST_INFLATED:
                return "it is large, and its inputs are small"
        return None


def _work(inst: Instruction) -> int:
    """The approximate number of operations on elements of an instruction."""
    op, shape = inst.op, inst.shape
    if isinstance(op, hlo.Concatenate | hlo.Slice | hlo.Pad) and any(
        type(u.op) is hlo.Dot for u in inst.users
    ):
        return _ALWAYS  # a dot would read this value from memory anyway
    if op.structural or op.free or op.moves or op.passes_on or type(op) is Constant:
        return 0
    if op.elementwise and isinstance(shape, Shape):
        return shape.size * (_FUNCTION if op.transcendental or op.expensive else 1)
    if isinstance(op, hlo.Gather | hlo.DynamicSlice | hlo.Iota | hlo.Broadcast):
        return 0
    return _ALWAYS


def invariants(loop: Loop, effectful: Container[Computation]) -> Invariants:
    """The values of a loop body that do not depend on elements that the loop changes, with their costs."""
    body, passed = loop.body, set(loop.unchanged)
    bound = rewrite.control_bound(body)
    runs = bool(trip_count(loop.inst))
    found = Invariants()
    for inst in post_order(body):
        if isinstance(inst.op, GetTupleElement) and inst.operands[0] is body.parameters[0]:
            if inst.op.index in passed:
                found.work[inst], found.largest[inst] = 0, inst.shape.array_bytes
        elif inst in bound or any(o not in found.work for o in inst.operands):
            continue
        elif _may_move(inst, runs, effectful):
            found.add(inst)
    return found


def _moved(loop: Loop, effectful: Container[Computation], session: rewrite.RuleSession) -> list[Instruction]:
    """The invariant values of the body that are worth carrying."""
    body, found = loop.body, invariants(loop, effectful)
    effects = (inst for inst in body.instructions if has_effect(inst, effectful))
    wanted = {body.root, *rewrite.control_bound(body), *effects}
    moved: list[Instruction] = []
    # From the end: an instruction that does not move needs its operands in the body.
    for inst in reversed(post_order(body)):
        if inst in wanted or not any(user in wanted for user in inst.users):
            continue
        if inst in found.work and found.why_stay(inst) is None:
            moved.append(inst)
        else:
            wanted.add(inst)
    moved.reverse()
    fires = moved and session.may_fire("while-loop-invariant-code-motion", loop.inst)
    return moved if fires else []


def _may_move(inst: Instruction, runs: bool, effectful: Container[Computation]) -> bool:
    """Whether an instruction may run before the loop, if its operands are available. `runs`: the loop makes
    at least one trip.
    """
    op = inst.op
    if type(op) is Parameter or isinstance(op, hlo.OptBarrier) or has_effect(inst, effectful):
        return False
    if op.collective is not None or op.ends is not None or op.ended_by is not None:
        return False
    if any(array.is_dynamic for array in inst.shape.arrays()) or not all(
        s.is_array for s in inst.shape.parts
    ):
        return False
    return runs or not any(_may_not_end(i) for i in _within(inst))


def _may_not_end(inst: Instruction) -> bool:
    """Whether an instruction may fail or not terminate. It must not move before a loop that might make no
    trip.
    """
    return isinstance(inst.op, hlo.CustomCall) or (
        isinstance(inst.op, hlo.While) and trip_count(inst) is None
    )


def _within(inst: Instruction) -> Iterator[Instruction]:
    """Yields an instruction, and all instructions of the computations that it calls."""
    yield inst
    for computation in {c for root in inst.op.computations() for c in called_first(root)}:
        yield from computation.instructions


def copied(
    loop: Loop, wanted: list[Instruction], computation: Computation, known: Mapping[Instruction, Instruction]
) -> dict[Instruction, Instruction]:
    """Copies instructions of a loop body, with everything that they depend on, to the computation of the
    loop. Returns the copies. `known` has replacements for instructions of the body.
    """
    parameter = loop.body.parameters[0]
    copies = dict(known)
    stack = list(reversed(wanted))
    while stack:
        inst = stack[-1]
        if inst in copies:
            stack.pop()
        elif isinstance(inst.op, GetTupleElement) and inst.operands[0] is parameter:
            copies[inst] = loop.init[inst.op.index]
        elif missing := [o for o in inst.operands if o not in copies]:
            stack += missing
        else:
            operands = [copies[o] for o in inst.operands]
            copies[inst] = computation.add(inst.op, operands, inst.shape, name=inst.name, extra=inst.extra)
    return {inst: copies[inst] for inst in wanted}
