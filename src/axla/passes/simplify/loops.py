"""Simplifies while loops: removes elements that they carry."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from axla.hlo import And, Broadcast, Compare, While
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.structure import Constant, GetTupleElement, Tuple
from axla.ir.traverse import computations_callees_first
from axla.ir.typed import op_of
from axla.passes import rewrite
from axla.passes.simplify.algebra_logic import NEGATED
from axla.passes.simplify.carries import (
    Loop,
    elements_of,
    equal_constants,
    is_passed,
    is_taken_apart,
    rebuilt,
)
from axla.passes.simplify.dce import effectful_computations, has_effect, remove_dead_computations
from axla.passes.simplify.dead_carries import cut_dead_carries
from axla.passes.simplify.equal_carries import equal_carries
from axla.passes.simplify.match import full


def while_loop_simplifier(module: Module) -> None:
    """Removes elements of loops that are not needed, do not change, or are constant."""
    session = rewrite.current_session()
    effectful = set(effectful_computations(module))
    cut_dead_carries(module, effectful)
    for computation in computations_callees_first(module):
        loops = [i for i in computation.instructions if isinstance(i.op, While)]
        bound = rewrite.control_bound(computation) if loops else frozenset()
        for inst in loops:
            if inst in bound or _is_removed(inst, effectful, session):
                continue
            if inst is computation.root:
                _spread_root(inst, session)
            loop = Loop.of(inst)
            if loop is None:
                continue
            _forward_unchanged(loop, session)
            _decide_tests(loop, session)
            equal = equal_carries(loop)
            if equal and session.may_fire("while-equal-carries", inst):
                _keep_effects(loop, rebuilt(loop, dropped=equal, equal=equal), effectful)
                continue
            elements, wanted = _needed(loop, effectful)
            dead = [i for i in range(loop.size) if i not in elements]
            constants = {i: loop.init[i] for i in loop.unchanged if _is_small_constant(loop.init[i])}
            if (dead or constants) and session.may_fire("while-loop-simplifier", inst):
                dropped = {*dead, *constants}
                made = rebuilt(loop, dropped=dropped, constants=constants, wanted=wanted)
                _keep_effects(loop, made, effectful)
    remove_dead_computations(module)


def _keep_effects(loop: Loop, made: While, effectful: set[Computation]) -> None:
    for new, old in ((made.condition, loop.condition), (made.body, loop.body)):
        if old in effectful:
            effectful.add(new)


def _is_removed(inst: Instruction, effectful: Container[Computation], session: rewrite.RuleSession) -> bool:
    """Replaces a loop by its operand if the body returns its parameter; returns whether it did. As in XLA, a
    loop without side effects is assumed to end.
    """
    op, (start,) = op_of(inst, While), inst.operands
    root = op.body.root
    if root is not op.body.parameters[0] and not equal_constants(root, start):
        return False
    same = inst.shape is start.shape and not has_effect(inst, effectful)
    if not same or not session.may_fire("while-removed", inst):
        return False
    inst.computation.replace(inst, start)
    inst.computation.remove(inst)
    return True


def _spread_root(inst: Instruction, session: rewrite.RuleSession) -> None:
    """Replaces a root that is a loop by a tuple of the loop's elements, if one of them does not change."""
    op, (start,), shape = op_of(inst, While), inst.operands, inst.shape
    if type(start.op) is not Tuple or type(op.body.root.op) is not Tuple or shape is not start.shape:
        return
    places = range(len(shape.elements))
    is_cut = is_taken_apart(inst) and any(is_passed(inst, n) for n in places)
    if not is_cut or not session.may_fire("while-spread", inst):
        return
    parts = [GetTupleElement(n)(inst) for n in places]
    inst.computation.set_root(Tuple()(*parts))


def _forward_unchanged(loop: Loop, session: rewrite.RuleSession) -> None:
    """After a loop, replaces the elements that the loop does not change by their initial values."""
    computation = loop.inst.computation
    unchanged = set(loop.unchanged)
    for index, user in elements_of(loop.inst):
        before = loop.init[index]
        if index in unchanged and before.shape is user.shape and session.may_fire("while-unchanged", user):
            computation.replace(user, before)
            rewrite.sweep(computation, (user,))


def _decide_tests(loop: Loop, session: rewrite.RuleSession) -> None:
    """Replaces comparisons in the body whose result follows from the condition of the loop."""
    known: list[tuple[int, Compare, Instruction]] = []
    stack = [loop.condition.root]
    while stack:
        test = stack.pop()
        if isinstance(test.op, And):
            stack += test.operands
        elif found := _test_of_element(test, loop.condition.parameters[0]):
            known.append(found)
    bound = rewrite.control_bound(loop.body) if known else frozenset()
    for test in tuple(loop.body.instructions) if known else ():
        found = _test_of_element(test, loop.body.parameters[0])
        if found is None or test in bound:
            continue
        at, op, limit = found
        for index, true, its in known:
            same = at == index and equal_constants(limit, its)
            if not same or op.direction not in (true.direction, NEGATED[true.direction]):
                continue
            if op != replace(true, direction=op.direction) or not _is_own(loop):
                continue
            if session.may_fire("while-known-test", test):
                loop.body.replace(test, full(test, op.direction is true.direction))
                rewrite.sweep(loop.body, (test,), bound)
                break


def _test_of_element(test: Instruction, parameter: Instruction) -> tuple[int, Compare, Instruction] | None:
    """The comparison of a loop element with a constant, as (element number, op, constant); None for other
    instructions.
    """
    if not isinstance(test.op, Compare):
        return None
    left, right = test.operands
    if not isinstance(left.op, GetTupleElement) or left.operands[0] is not parameter:
        return None
    return (left.op.index, test.op, right) if isinstance(right.op, Constant) else None


def _is_own(loop: Loop) -> bool:
    """Whether no other instruction calls the loop's body."""
    everything = (i for c in loop.body.module.computations for i in c.instructions)
    return sum(loop.body in i.op.computations() for i in everything) == 1


def _needed(loop: Loop, effectful: Container[Computation]) -> tuple[set[int], set[Instruction]]:
    """The elements that a loop needs: those read by the condition or after the loop, and those on which these
    or effects depend.

    Also returns the instructions of the body that compute them, or have effects.
    """
    needed = {index for index, _ in elements_of(loop.inst)}
    needed |= {index for index, _ in elements_of(loop.condition.parameters[0])}
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
    """Whether a value is cheap to create inside the loop: a scalar constant, or a broadcast one."""
    if type(inst.op) is Broadcast:
        inst = inst.operands[0]
    return type(inst.op) is Constant and inst.shape.is_array and inst.shape.size == 1
