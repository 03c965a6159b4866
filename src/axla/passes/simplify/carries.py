"""Values carried by loops: a while over a tuple as separate elements, and the same loop with other
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
    """A while over a tuple that is only read by get-tuple-element."""

    inst: Instruction
    condition: Computation
    body: Computation
    init: tuple[Instruction, ...]
    size: int
    unchanged: tuple[int, ...]

    @property
    def next(self) -> tuple[Instruction, ...]:
        """For each element, its value after a trip."""
        return self.body.root.operands

    @classmethod
    def of(cls, inst: Instruction) -> Loop | None:
        """Returns the loop of a while instruction, or None. It is None unless the initial value and the root
        of the body are tuples, the loop is not the root of its computation, and only get-tuple-elements use
        it, its parameters and its results.
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
    """Whether the tuple of a while is only read by get-tuple-elements, after the loop and inside it."""
    op = op_of(inst, While)
    return all(map(only_elements, (inst, op.body.parameters[0], op.condition.parameters[0])))


def only_elements(value: Instruction) -> bool:
    """Whether get-tuple-elements alone read a value, and no control edge binds it or them."""
    bound = rewrite.control_bound(value.computation)
    return all(type(u.op) is GetTupleElement for u in value.users) and bound.isdisjoint((value, *value.users))


def is_passed(inst: Instruction, number: int) -> bool:
    """Whether the body passes an element of the tuple on unchanged."""
    op = op_of(inst, While)
    value, first = op.body.root.operands[number], inst.operands[0].operands[number]
    if type(value.op) is GetTupleElement:
        return value.operands[0] is op.body.parameters[0] and value.op.index == number
    return equal_constants(value, first)


def equal_constants(a: Instruction, b: Instruction) -> bool:
    """Whether two values, perhaps in two computations, are the same constant or broadcast constant."""
    if type(a.op) is Broadcast and a.op == b.op:
        a, b = a.operands[0], b.operands[0]
    return type(a.op) is Constant and a.shape is b.shape and a.op == b.op


def elements_of(of: Instruction) -> list[tuple[int, Instruction]]:
    """(index, user) for the get-tuple-elements of a tuple."""
    return [(u.op.index, u) for u in of.users if isinstance(u.op, GetTupleElement)]


def rebuilt(
    loop: Loop, *, dropped: Container[int] = (), constants: Mapping[int, Instruction] = _NOTHING,
    wanted: Container[Instruction] | None = None, added: Mapping[Instruction, Instruction] = _NONE,
    equal: Mapping[int, int] = _SAME, after: Mapping[Instruction, Instruction] = _NONE,
) -> While:  # fmt: skip
    """Replaces a loop by one with other elements; elements added come last.

    `dropped`: elements to remove; those in `constants` are created in condition and body instead. `added`:
    for instructions of the body, their value in the first trip; `after`: their value after each trip, by
    default unchanged. `wanted`: instructions of the body to keep, by default all. `equal`: for dropped
    elements, others that always have the same value.
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
        else:  # only in a loop whose constant was not forwarded, for its layout
            computation.replace(user, constants[index])
        computation.remove(user)
    computation.remove(loop.inst)
    rewrite.sweep(computation, (*loop.init,))
    return op


def stand_ins(
    source: Computation, target: Computation, shape: TupleShape, place: Mapping[int, int],
    constants: Mapping[int, Instruction],
) -> dict[Instruction, Instruction]:  # fmt: skip
    """The replacements, in a copy of a computation, for its parameter and the elements of the parameter."""
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
    """A copy in another computation of a constant, or of a value computed from constants."""
    copies: dict[Instruction, Instruction] = {}
    for one in needed_first((inst,), lambda made: made.operands):
        copies[one] = target.add(one.op, [copies[o] for o in one.operands], one.shape)
    return copies[inst]
