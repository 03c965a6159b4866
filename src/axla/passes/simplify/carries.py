"""The elements of a loop's tuple: reads a while as a list of elements, and rebuilds it with other
elements.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from axla.core.dataclass import dataclass
from axla.core.shape import TupleShape
from axla.hlo import Broadcast, While
from axla.ir.clone import copy_instructions
from axla.ir.graph import Computation, Instruction
from axla.ir.structure import Constant, GetTupleElement, Parameter, Tuple
from axla.ir.traverse import needed_first
from axla.ir.typed import op_of, tuple_of
from axla.passes import rewrite

_NOTHING: Mapping[int, Instruction] = {}
_NONE: Mapping[Instruction, Instruction] = {}
_SAME: Mapping[int, int] = {}


@dataclass(slots=True)
class Loop:
    """A while over a tuple that is only read by get-tuple-element. `init` has the initial values of the
    `size` elements; `unchanged` has the numbers of the elements that the body passes on unchanged.
    """

    inst: Instruction
    condition: Computation
    body: Computation
    init: tuple[Instruction, ...]
    size: int
    unchanged: tuple[int, ...]

    @property
    def next(self) -> tuple[Instruction, ...]:
        """For each element, its value at the end of the body."""
        return self.body.root.operands

    @classmethod
    def of(cls, inst: Instruction) -> Loop | None:
        """Reads a while instruction as a Loop. Returns None if the initial value or the root of the body is
        not a tuple, if the loop is the root of its computation, or if its result or a parameter has users
        other than get-tuple-elements.
        """
        op = op_of(inst, While)
        start, root = inst.operands[0], op.body.root
        if type(start.op) is not Tuple or type(root.op) is not Tuple or inst is inst.computation.root:
            return None
        if not is_taken_apart(inst):
            return None
        same = tuple(n for n in range(len(root.operands)) if is_passed(inst, n))
        return cls(inst, op.condition, op.body, start.operands, len(root.operands), same)


def is_taken_apart(inst: Instruction) -> bool:
    """Whether only get-tuple-elements read the tuple of a while, after the loop and inside it."""
    op = op_of(inst, While)
    return all(map(only_elements, (inst, op.body.parameters[0], op.condition.parameters[0])))


def only_elements(value: Instruction) -> bool:
    """Whether only get-tuple-elements use a value, and neither the value nor these users have control
    edges.
    """
    bound = rewrite.control_bound(value.computation)
    return all(type(u.op) is GetTupleElement for u in value.users) and bound.isdisjoint((value, *value.users))


def is_passed(inst: Instruction, number: int) -> bool:
    """Whether the body of the while `inst` passes element number `number` on unchanged."""
    op = op_of(inst, While)
    value, first = op.body.root.operands[number], inst.operands[0].operands[number]
    if type(value.op) is GetTupleElement:
        return value.operands[0] is op.body.parameters[0] and value.op.index == number
    return equal_constants(value, first)


def equal_constants(a: Instruction, b: Instruction) -> bool:
    """Whether two values, possibly of different computations, are equal constants or equal broadcast
    constants.
    """
    if type(a.op) is Broadcast and a.op == b.op:
        a, b = a.operands[0], b.operands[0]
    return type(a.op) is Constant and a.shape is b.shape and a.op == b.op


def elements_of(of: Instruction) -> list[tuple[int, Instruction]]:
    """Pairs (index, get-tuple-element) for the elements of a tuple that are read."""
    return [(u.op.index, u) for u in of.users if isinstance(u.op, GetTupleElement)]


def rebuilt(
    loop: Loop, *, dropped: Container[int] = (), constants: Mapping[int, Instruction] = _NOTHING,
    wanted: Container[Instruction] | None = None, added: Mapping[Instruction, Instruction] = _NONE,
    equal: Mapping[int, int] = _SAME, after: Mapping[Instruction, Instruction] = _NONE,
) -> While:  # fmt: skip
    """Replaces a loop by one with other elements, and returns the new op. Added elements come last.

    `dropped`: numbers of elements to remove; those in `constants` are created in condition and body instead.
    `added` maps instructions of the body to their values in the first trip; `after` maps them to their values
    after each trip, by default unchanged. `wanted`: instructions of the body to keep, by default all. `equal`
    maps dropped elements to kept elements that always have the same value.
    """
    computation = loop.inst.computation
    module = computation.module
    kept = [i for i in range(loop.size) if i not in dropped]
    old_shape = tuple_of(loop.inst.operands[0])
    shape = TupleShape([*(old_shape.elements[i] for i in kept), *(value.shape for value in added.values())])
    place = {index: number for number, index in enumerate(kept)}
    place |= {index: place[other] for index, other in equal.items()}

    body = module.add_computation(loop.body.name)
    values = stand_ins(loop.body, body, shape, place, constants)
    more = [
        body.add(GetTupleElement(number), (body.parameters[0],), inst.shape, extra=inst.extra)
        for number, inst in enumerate(added, len(kept))
    ]
    values |= zip(added, more, strict=True)
    copies = copy_instructions(loop.body, body, values, wanted)
    ends = [copies[after.get(inst, inst)] for inst in added]
    body.set_root(body.add(Tuple(), [*(copies[loop.next[i]] for i in kept), *ends]))

    condition = module.add_computation(loop.condition.name)
    values = stand_ins(loop.condition, condition, shape, place, constants)
    copies = copy_instructions(loop.condition, condition, values)
    condition.set_root(copies[loop.condition.root])

    extra = loop.inst.extra
    start = computation.add(Tuple(), [*(loop.init[i] for i in kept), *added.values()], extra=extra)
    op = While(condition=condition, body=body)
    new = computation.add(op, (start,), name=loop.inst.name, extra=replace(extra, sharding=None))
    for index, user in elements_of(loop.inst):
        if index in place:
            computation.replace(user, computation.add(GetTupleElement(place[index]), (new,), user.shape))
        else:  # only if a constant was not forwarded because of its layout
            computation.replace(user, constants[index])
        computation.remove(user)
    computation.remove(loop.inst)
    rewrite.sweep(computation, (*loop.init,))
    return op


def stand_ins(
    source: Computation, target: Computation, shape: TupleShape, place: Mapping[int, int],
    constants: Mapping[int, Instruction],
) -> dict[Instruction, Instruction]:  # fmt: skip
    """Adds a parameter of `shape` and its elements to `target`, a copy of `source`. Returns a map from the
    old parameter and its elements to the new ones. `place` maps old element numbers to new ones; elements
    whose numbers are in `constants` become copies of these constants.
    """
    old = source.parameters[0]
    parameter = target.add(Parameter(shape, 0), name=old.name, extra=replace(old.extra, sharding=None))
    values = {old: parameter}
    for index, user in elements_of(old):
        if index in place:
            op = GetTupleElement(place[index])
            values[user] = target.add(op, (parameter,), user.shape, name=user.name, extra=user.extra)
        elif index in constants:
            values[user] = copy_constant(constants[index], target)
    return values


def copy_constant(inst: Instruction, target: Computation) -> Instruction:
    """Copies a constant, or a value computed from constants, to another computation."""
    copies: dict[Instruction, Instruction] = {}
    for one in needed_first((inst,), lambda made: made.operands):
        copies[one] = target.add(one.op, [copies[o] for o in one.operands], one.shape)
    return copies[inst]
