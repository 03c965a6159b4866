"""Passes for conditionals: they remove operands and results, and compute cheap branches with select."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import replace

import numpy as np

import axla.hlo as hlo
from axla.core.dtypes import PRED, S32
from axla.core.literal import Literal
from axla.core.shape import Shape, TupleShape
from axla.hlo import Conditional
from axla.ir.attributes import Direction
from axla.ir.clone import copy_instructions, inline
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.structure import Constant, GetTupleElement, Parameter, Tuple
from axla.ir.traverse import computations_callees_first, needed_first
from axla.ir.typed import op_of, shape_of, tuple_of
from axla.passes import rewrite
from axla.passes.simplify.carries import (
    copy_constant,
    elements_of,
    equal_constants,
    only_elements,
    stand_ins,
)
from axla.passes.simplify.dce import effectful_computations, has_effect, remove_dead_computations
from axla.passes.simplify.match import constant, is_constant

CHEAP = 1024
"""The most operations on elements, in all branches, that take no longer than choosing a branch and storing
its result.
"""
FUNCTION = 12  # operations that take as long as a transcendental function
LONGEST = 64  # the most instructions of all branches together
MOST_BRANCHES = 4


def conditional_simplifier(module: Module) -> None:
    """Removes operands that no branch reads, results that are unused or equal in all branches, and
    conditionals with equal branches.
    """
    session = rewrite.current_session()
    for computation in computations_callees_first(module):
        for inst in _conditionals(computation):
            _forward_common(inst, session)
            unread = _unread(inst)
            if unread and session.may_fire("conditional-simplifier", inst):
                inst = _return_less(inst, unread)
            _take_less(inst, session)
    remove_dead_computations(module)


def conditional_to_select(module: Module) -> None:
    """Replaces conditionals by select where computing all branches is cheaper than running one."""
    session = rewrite.current_session()
    changed = False
    for computation in computations_callees_first(module):
        for inst in _conditionals(computation):
            if why_not_select(inst) is None and session.may_fire("conditional-to-select", inst):
                _select(inst)
                changed = True
    if changed:
        remove_dead_computations(module)


def conditional_code_motion(module: Module) -> None:
    """Moves instructions into a branch if only that branch needs them."""
    session = rewrite.current_session()
    effectful: set[Computation] | None = None
    for computation in computations_callees_first(module):
        found = _conditionals(computation)
        if effectful is None:
            effectful = set(effectful_computations(module)) if found else None
        bound = rewrite.control_bound(computation) if found else frozenset()
        for inst in found:
            for number in range(len(op_of(inst, Conditional).branches)):
                moved = _of_one_branch(inst, number, effectful or (), bound)
                if moved and session.may_fire("conditional-code-motion", inst):
                    before, after = _move_in(inst, number, moved)
                    if effectful and before in effectful:
                        effectful.add(after)
    remove_dead_computations(module)


def _of_one_branch(
    inst: Instruction, number: int, effectful: Container[Computation], bound: Container[Instruction]
) -> list[Instruction]:
    """Instructions before a conditional that only the branch with the given number needs, each after its
    users.
    """
    operand = inst.operands[1 + number]
    parameter = op_of(inst, Conditional).branches[number].parameters[0]
    whole = parameter.computation.root is parameter or not only_elements(parameter)
    if whole or type(operand.op) is not Tuple or operand in bound:
        return []
    if list(operand.users) != [inst] or inst.operands.count(operand) > 1:
        return []
    moved: list[Instruction] = []
    # for each instruction, the number of its users that move
    stack, moving = [operand], Counter[Instruction]()
    while stack:
        for one in dict.fromkeys(stack.pop().operands):
            moving[one] += 1
            stays = one in bound or one.op.structural or type(one.op) is Constant or not one.shape.is_array
            stays = stays or one.op.ends is not None  # a done instruction stays with its start
            if stays or moving[one] < len(one.users) or one is one.computation.root:
                continue
            if not has_effect(one, effectful):
                moved.append(one)
                stack.append(one)
    return moved if any(not one.op.free for one in moved) else []


def _move_in(inst: Instruction, number: int, moved: list[Instruction]) -> tuple[Computation, Computation]:
    """Moves the instructions `moved` into branch `number` of a conditional, which becomes a new computation.
    Returns the old and the new branch.
    """
    computation, op = inst.computation, op_of(inst, Conditional)
    operand, branch = inst.operands[1 + number], op.branches[number]
    inside = set(moved)
    needed = (o for one in (operand, *moved) for o in one.operands)
    given = [o for o in dict.fromkeys(needed) if o not in inside]
    target = computation.module.add_computation(branch.name)
    parameter = target.add(Parameter(TupleShape([o.shape for o in given]), 0))
    values = {o: target.add(GetTupleElement(n), (parameter,)) for n, o in enumerate(given)}
    for one in needed_first(moved, lambda one: [o for o in one.operands if o in inside]):
        operands = [values[o] for o in one.operands]
        values[one] = target.add(one.op, operands, one.shape, name=one.name, extra=one.extra)
    old = branch.parameters[0]
    stands = {user: values[operand.operands[n]] for n, user in elements_of(old)}
    wanted = set(branch.instructions) - {old}
    target.set_root(copy_instructions(branch, target, stands, wanted)[branch.root])
    new = iter([target if n == number else b for n, b in enumerate(op.branches)])
    computation.set_op(inst, op.with_computations(lambda _: next(new)))
    computation.set_operand(inst, 1 + number, computation.add(Tuple(), given))
    for one in (operand, *moved):
        if not one.users:
            computation.remove(one)
    return branch, target


def _conditionals(computation: Computation) -> list[Instruction]:
    """The conditionals of a computation that may be changed: without control edges, and either used or the
    root.
    """
    found = [i for i in computation.instructions if type(i.op) is Conditional]
    bound = rewrite.control_bound(computation) if found else frozenset()
    return [i for i in found if i not in bound and (i.users or i is computation.root)]


def why_not_select(inst: Instruction) -> str | None:
    """The reason not to compute all branches; None if all are cheap."""
    branches = op_of(inst, Conditional).branches
    if len(branches) > MOST_BRANCHES or sum(len(b.instructions) for b in branches) > LONGEST:
        return "it has too many branches, or they are too long"
    if not all(isinstance(part, Shape) for part in inst.shape.parts):
        return "its result has elements that are not arrays"
    work = sum(part.size for part in inst.shape.parts)
    for branch in branches:
        for one in branch.instructions:
            op = one.op
            if op.structural or op.free and not op.passes_on or type(op) is Constant:
                continue
            if not (op.elementwise or op.moves) or op.side_effect or not isinstance(one.shape, Shape):
                return f"{op.opcode} is not cheap"
            if one.extra.control_predecessors or one.shape.is_dynamic:
                return "a branch has control edges or dynamic sizes"
            work += one.shape.size * (FUNCTION if op.transcendental or op.expensive else 1)
    return None if work <= CHEAP else f"its branches have {work} operations, more than {CHEAP}"


def _select(inst: Instruction) -> None:
    computation, (index, *operands) = inst.computation, inst.operands
    branches = op_of(inst, Conditional).branches
    values = [inline(inst, b, [operand]) for b, operand in zip(branches, operands, strict=True)]
    by_number = shape_of(index).dtype is S32

    def chosen(values: list[Instruction]) -> Instruction:
        result = values[-1]
        for number, value in reversed(list(enumerate(values[:-1]))):
            test = index
            if by_number:
                wanted = constant(computation, Literal(Shape(S32), np.array(number, np.int32)))
                test = hlo.Compare(Direction.EQ)(index, wanted)
            shape = shape_of(value)
            wide = hlo.Broadcast(shape.with_dtype(PRED).logical, ())(test) if shape.rank else test
            result = hlo.Select()(wide, value, result)
        return result

    if inst.shape.is_array:
        new = chosen(values)
    else:
        parts = range(len(tuple_of(inst).elements))
        new = Tuple()(*[chosen([GetTupleElement(n)(value) for value in values]) for n in parts])
    computation.replace(inst, new)
    computation.remove(inst)


def _forward_common(inst: Instruction, session: rewrite.RuleSession) -> None:
    """Replaces results of a conditional that are the same in every branch by their value."""
    computation = inst.computation
    if inst.shape.is_array:
        found = [(inst, [b.root for b in op_of(inst, Conditional).branches])]
    elif all(type(b.root.op) is Tuple for b in op_of(inst, Conditional).branches):
        found = [
            (user, [b.root.operands[n] for b in op_of(inst, Conditional).branches])
            for n, user in elements_of(inst)
            if user.users or user is computation.root  # others have only control edges
        ]
    else:
        return
    for user, given in found:
        common = _common(inst, given)
        if common is None or common.shape is not user.shape:
            continue
        if session.may_fire("conditional-common", user):
            own = common.computation is computation
            computation.replace(user, common if own else copy_constant(common, computation))


def _common(inst: Instruction, given: list[Instruction]) -> Instruction | None:
    """The value that all branches return as one result, if it is a constant or a value outside of the
    conditional; else None. `given` has the result of each branch.
    """
    if all(is_constant(value) for value in given):
        return given[0] if all(equal_constants(given[0], value) for value in given[1:]) else None
    found: set[Instruction] = set()
    for value, operand in zip(given, inst.operands[1:], strict=True):
        if type(value.op) is Parameter:
            found.add(operand)
        elif isinstance(value.op, GetTupleElement) and type(value.operands[0].op) is Parameter:
            if type(operand.op) is not Tuple:
                return None
            found.add(operand.operands[value.op.index])
        else:
            return None
    return found.pop() if len(found) == 1 else None


def _take_less(inst: Instruction, session: rewrite.RuleSession) -> None:
    """Removes elements of operands that a branch does not read, and creates constants inside the branch."""
    computation, module = inst.computation, inst.computation.module
    op, operands = op_of(inst, Conditional), list(inst.operands)
    changed: dict[int, Computation] = {}
    for number, branch in enumerate(op.branches):
        operand, parameter = operands[1 + number], branch.parameters[0]
        if type(operand.op) is not Tuple or parameter is branch.root or not only_elements(parameter):
            continue
        read = {index for index, _ in elements_of(parameter)}
        constants = {n: operand.operands[n] for n in read if is_constant(operand.operands[n])}
        kept = [n for n in range(len(operand.operands)) if n in read and n not in constants]
        if len(kept) == len(operand.operands) or not session.may_fire("conditional-operands", inst):
            continue
        target = module.add_computation(branch.name)
        shape = TupleShape([operand.operands[n].shape for n in kept])
        values = stand_ins(branch, target, shape, {n: k for k, n in enumerate(kept)}, constants)
        target.set_root(copy_instructions(branch, target, values)[branch.root])
        operands[1 + number] = computation.add(Tuple(), [operand.operands[n] for n in kept])
        changed[number] = target
    if changed:
        new = iter([changed.get(n, b) for n, b in enumerate(op.branches)])
        computation.set_op(inst, op.with_computations(lambda _: next(new)))
        before = inst.operands
        computation.set_operands(inst, operands)
        rewrite.sweep(computation, before[1:])


def _unread(inst: Instruction) -> set[int]:
    """The numbers of unused elements of a conditional's result."""
    op, shape = op_of(inst, Conditional), inst.shape
    if not isinstance(shape, TupleShape) or inst is inst.computation.root or not inst.users:
        return set()
    if any(type(branch.root.op) is not Tuple for branch in op.branches) or not only_elements(inst):
        return set()
    return set(range(len(shape.elements))) - {index for index, _ in elements_of(inst)}


def _return_less(inst: Instruction, unread: Iterable[int]) -> Instruction:
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
    for index, user in elements_of(inst):
        computation.replace(user, computation.add(GetTupleElement(kept.index(index)), (new,), user.shape))
        computation.remove(user)
    computation.remove(inst)
    return new
