"""While loops and conditionals: carrying less."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace

from axla.core.shape import TupleShape
from axla.hlo import Broadcast, Conditional, While
from axla.ir.clone import copy_instructions
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.structure import Constant, GetTupleElement, Parameter, Tuple
from axla.ir.traverse import computations_callees_first
from axla.ir.typed import op_of, tuple_of
from axla.passes import rewrite
from axla.passes.simplify.dce import effectful_computations, has_effect, remove_dead_computations


def while_loop_simplifier(module: Module) -> None:
    """Removes from loops the elements that are not needed or do not change, and constants that they carry."""
    session = rewrite.current_session()
    effectful = set(effectful_computations(module))
    for computation in computations_callees_first(module):
        loops = [i for i in computation.instructions if isinstance(i.op, While)]
        bound = rewrite.control_bound(computation) if loops else frozenset()
        for inst in loops:
            if inst in bound or _is_removed(inst, effectful, session):
                continue
            if inst is computation.root:
                _spread_root(inst, session)
            loop = _Loop.of(inst)
            if loop is None:
                continue
            _forward_unchanged(loop, session)
            elements, wanted = _needed(loop, effectful)
            dead = [i for i in range(loop.size) if i not in elements]
            constants = {i: loop.init[i] for i in loop.unchanged if _is_small_constant(loop.init[i])}
            if (dead or constants) and session.may_fire("while-loop-simplifier", inst):
                made = _carry_less(loop, {*dead, *constants}, constants, wanted)
                for new, old in ((made.condition, loop.condition), (made.body, loop.body)):
                    if old in effectful:
                        effectful.add(new)
    remove_dead_computations(module)


@dataclass(slots=True)
class _Loop:
    """A while over a tuple that is everywhere taken apart by get-tuple-element."""

    inst: Instruction
    condition: Computation
    body: Computation
    init: tuple[Instruction, ...]
    next: tuple[Instruction, ...]  # what the body makes of each element
    size: int
    unchanged: tuple[int, ...]

    @classmethod
    def of(cls, inst: Instruction) -> _Loop | None:
        op = op_of(inst, While)
        start, root = inst.operands[0], op.body.root
        if type(start.op) is not Tuple or type(root.op) is not Tuple or inst is inst.computation.root:
            return None
        users = (*inst.users, *op.body.parameters[0].users, *op.condition.parameters[0].users)
        if any(type(u.op) is not GetTupleElement for u in users):
            return None
        same = tuple(n for n in range(len(root.operands)) if _is_passed(inst, n))
        return cls(inst, op.condition, op.body, start.operands, root.operands, len(root.operands), same)


def _is_passed(inst: Instruction, number: int) -> bool:
    """Whether the body passes on an element of the tuple: it has after the loop the value of before."""
    op = op_of(inst, While)
    value, first = op.body.root.operands[number], inst.operands[0].operands[number]
    if type(value.op) is GetTupleElement:
        return value.operands[0] is op.body.parameters[0] and value.op.index == number
    return _equal_constants(value, first)


def _equal_constants(a: Instruction, b: Instruction) -> bool:
    """Whether two values, perhaps of two computations, are the same constant, or the same one repeated."""
    if type(a.op) is Broadcast and a.op == b.op:
        a, b = a.operands[0], b.operands[0]
    return type(a.op) is Constant and a.shape is b.shape and a.op == b.op


def _is_removed(inst: Instruction, effectful: Container[Computation], session: rewrite.Session) -> bool:
    """Replaces a loop whose body gives what it takes by that. As in XLA, a loop without effects ends."""
    op, (start,) = op_of(inst, While), inst.operands
    root = op.body.root
    if root is not op.body.parameters[0] and not _equal_constants(root, start):
        return False
    same = inst.shape is start.shape and not has_effect(inst, effectful)
    if not same or not session.may_fire("while-removed", inst):
        return False
    inst.computation.replace(inst, start)
    inst.computation.remove(inst)
    return True


def _spread_root(inst: Instruction, session: rewrite.Session) -> None:
    """Puts a tuple of its elements in the place of a loop that is a root, if one of them does not change."""
    op, (start,), shape = op_of(inst, While), inst.operands, inst.shape
    if type(start.op) is not Tuple or type(op.body.root.op) is not Tuple or shape is not start.shape:
        return
    places = range(len(shape.elements))
    if not any(_is_passed(inst, n) for n in places) or not session.may_fire("while-spread", inst):
        return
    parts = [GetTupleElement(n)(inst) for n in places]
    inst.computation.set_root(Tuple()(*parts))


def _elements(of: Instruction) -> list[tuple[int, Instruction]]:
    """(index, user) for the get-tuple-elements of a tuple."""
    return [(u.op.index, u) for u in of.users if isinstance(u.op, GetTupleElement)]


def _forward_unchanged(loop: _Loop, session: rewrite.Session) -> None:
    """What the loop does not change is, after it, what it was before."""
    computation = loop.inst.computation
    unchanged = set(loop.unchanged)
    for index, user in _elements(loop.inst):
        before = loop.init[index]
        if index in unchanged and before.shape is user.shape and session.may_fire("while-unchanged", user):
            computation.replace(user, before)
            rewrite.sweep(computation, (user,))


def _needed(loop: _Loop, effectful: Container[Computation]) -> tuple[set[int], set[Instruction]]:
    """Elements that are read by the condition or after the loop, or that those or effects depend on.

    With them the instructions of the body that make them, or have effects.
    """
    needed = {index for index, _ in _elements(loop.inst)}
    needed |= {index for index, _ in _elements(loop.condition.parameters[0])}
    parameter = loop.body.parameters[0]
    done: set[Instruction] = set()
    stack = [i for i in loop.body.instructions if has_effect(i, effectful)]
    stack += [p for i in loop.body.instructions for p in i.extra.control_predecessors]
    stack += [loop.next[index] for index in needed]
    while stack:
        inst = stack.pop()
        if inst in done:
            continue
        done.add(inst)
        if isinstance(inst.op, GetTupleElement) and inst.operands[0] is parameter:
            index = inst.op.index
            if index not in needed:
                needed.add(index)
                stack.append(loop.next[index])
        else:
            stack.extend(inst.operands)
    return needed, done


def _is_small_constant(inst: Instruction) -> bool:
    """Whether a value is as well made inside the loop: a scalar constant, or one repeated."""
    if type(inst.op) is Broadcast:
        inst = inst.operands[0]
    return type(inst.op) is Constant and inst.shape.is_array and inst.shape.size == 1


def _carry_less(
    loop: _Loop, dropped: set[int], constants: dict[int, Instruction], wanted: set[Instruction]
) -> While:
    """Rebuilds the loop without some elements, those in `constants` being made in condition and body."""
    computation = loop.inst.computation
    module = computation.module
    kept = [i for i in range(loop.size) if i not in dropped]
    old_shape = tuple_of(loop.inst.operands[0])
    shape = TupleShape([old_shape.elements[i] for i in kept])
    place = {index: number for number, index in enumerate(kept)}

    body = module.add_computation(loop.body.name)
    values = _stand_ins(loop.body, body, shape, place, constants)
    copies = copy_instructions(loop.body, body, values, wanted)
    body.set_root(body.add(Tuple(), [copies[loop.next[i]] for i in kept]))

    condition = module.add_computation(loop.condition.name)
    values = _stand_ins(loop.condition, condition, shape, place, constants)
    copies = copy_instructions(loop.condition, condition, values)
    condition.set_root(copies[loop.condition.root])

    extra = loop.inst.extra
    start = computation.add(Tuple(), [loop.init[i] for i in kept], extra=extra)
    op = While(condition=condition, body=body)
    new = computation.add(op, (start,), name=loop.inst.name, extra=replace(extra, sharding=None))
    for index, user in _elements(loop.inst):
        if index in place:
            computation.replace(user, computation.add(GetTupleElement(place[index]), (new,), user.shape))
        else:  # only in a loop whose constant was not forwarded, for its layout
            computation.replace(user, constants[index])
        computation.remove(user)
    computation.remove(loop.inst)
    rewrite.sweep(computation, (*loop.init,))
    return op


def _stand_ins(
    source: Computation, target: Computation, shape: TupleShape, place: dict[int, int],
    constants: dict[int, Instruction],
) -> dict[Instruction, Instruction]:  # fmt: skip
    """What stands in the copy of a computation for its parameter and the elements of it."""
    old = source.parameters[0]
    parameter = target.add(Parameter(shape, 0), name=old.name, extra=replace(old.extra, sharding=None))
    values = {old: parameter}
    for index, user in _elements(old):
        if index in place:
            op = GetTupleElement(place[index])
            values[user] = target.add(op, (parameter,), user.shape, name=user.name, extra=user.extra)
        elif index in constants:
            values[user] = _copy_constant(constants[index], target)
    return values


def _copy_constant(inst: Instruction, target: Computation) -> Instruction:
    if type(inst.op) is Broadcast:
        return target.add(inst.op, (target.add(inst.operands[0].op),), inst.shape)
    return target.add(inst.op, (), inst.shape)


def conditional_simplifier(module: Module) -> None:
    """Removes results of conditionals that nobody reads, and conditionals whose branches are all the same."""
    session = rewrite.current_session()
    for computation in computations_callees_first(module):
        found = [i for i in computation.instructions if isinstance(i.op, Conditional)]
        bound = rewrite.control_bound(computation) if found else frozenset()
        for inst in found:
            unread = set() if inst in bound else _unread(inst)
            if unread and session.may_fire("conditional-simplifier", inst):
                _return_less(inst, unread)
    remove_dead_computations(module)


def _unread(inst: Instruction) -> set[int]:
    """Elements of the result of a conditional that nobody reads."""
    op, shape = op_of(inst, Conditional), inst.shape
    if not isinstance(shape, TupleShape) or inst is inst.computation.root or not inst.users:
        return set()
    if any(type(u.op) is not GetTupleElement for u in inst.users):
        return set()
    if any(type(branch.root.op) is not Tuple for branch in op.branches):
        return set()
    return set(range(len(shape.elements))) - {index for index, _ in _elements(inst)}


def _return_less(inst: Instruction, unread: Iterable[int]) -> None:
    computation = inst.computation
    dropped = set(unread)
    shape = tuple_of(inst)
    kept = [i for i in range(len(shape.elements)) if i not in dropped]

    def smaller(branch: Computation) -> Computation:
        target = computation.module.add_computation(branch.name)
        copies = copy_instructions(branch, target, {})
        values = copies[branch.root].operands
        target.set_root(target.add(Tuple(), [values[i] for i in kept]))
        rewrite.sweep(target, (copies[branch.root],))
        return target

    op = inst.op.with_computations(smaller)
    new = computation.add(op, inst.operands, name=inst.name, extra=replace(inst.extra, sharding=None))
    for index, user in _elements(inst):
        computation.replace(user, computation.add(GetTupleElement(kept.index(index)), (new,), user.shape))
        computation.remove(user)
    computation.remove(inst)
