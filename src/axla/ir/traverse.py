"""Orders of instructions and computations. No function is recursive, since modules can be nested more deeply
than Python's stack allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from axla.ir.graph import Computation, Instruction, Module

T = TypeVar("T")


def run_nested(walk: Iterator[Any]) -> None:
    """Runs the generator `walk`. Each generator that it yields is run to its end before it continues, nested
    to any depth.
    """
    stack = [walk]
    while stack:
        nested = next(stack[-1], None)
        if nested is None:
            stack.pop()
        else:
            stack.append(nested)


def post_order(computation: Computation) -> tuple[Instruction, ...]:
    """All instructions, each after its operands and control predecessors; cached until the computation
    changes.
    """
    if computation.cached_order_version != computation.version:
        order = tuple(_depth_first(computation.instructions))
        computation.cached_order = order
        computation.cached_order_version = computation.version
    return computation.cached_order


def _depth_first(roots: Iterable[Instruction]) -> Iterator[Instruction]:
    done: set[Instruction] = set()
    for root in roots:
        if root in done or root.users:
            continue  # comes before one of its users
        yield from below(root, done)
    for root in roots:  # the rest: reached by control edges, or in cycles, which the verifier reports
        if root not in done:
            yield from below(root, done)


def below(root: Instruction, done: set[Instruction]) -> Iterator[Instruction]:
    """Yields the instructions that a root needs, directly or not, and the root, each after its operands and
    control predecessors. Skips those in `done`, and adds the others to it.
    """
    open_: set[Instruction] = set()
    stack = [root]
    while stack:
        inst = stack[-1]
        if inst in done:
            stack.pop()
            continue
        if inst in open_:
            stack.pop()
            done.add(inst)
            yield inst
            continue
        open_.add(inst)
        predecessors = inst.extra.control_predecessors
        for operand in reversed((*predecessors, *inst.operands) if predecessors else inst.operands):
            if operand not in done and operand not in open_:
                stack.append(operand)


def needed_first(roots: Iterable[T], needs: Callable[[T], Iterable[T]]) -> list[T]:
    """The roots and everything that they need, directly or not. Each entry comes after those that `needs`
    returns for it. Cycles, which the verifier reports, are cut.
    """
    done: dict[T, None] = {}
    for root in roots:
        seen = {root}
        stack = [(root, iter(needs(root)))] if root not in done else []
        while stack:
            one, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                stack.pop()
                done[one] = None
            elif following not in seen and following not in done:
                seen.add(following)
                stack.append((following, iter(needs(following))))
    return list(done)


def schedule_of(computation: Computation) -> tuple[Instruction, ...]:
    """The order in which to run a computation: its schedule if it has one, else post order."""
    schedule = computation.module.schedule
    found = schedule.get(computation) if schedule is not None else None
    return found if found is not None else post_order(computation)


def text_order(computation: Computation) -> tuple[Instruction, ...]:
    """The instructions in the order of the text, if each comes after its operands and control predecessors;
    else post order.
    """
    seen: set[Instruction] = set()
    for inst in computation.instructions:
        if not seen.issuperset(inst.operands) or not seen.issuperset(inst.extra.control_predecessors):
            return post_order(computation)
        seen.add(inst)
    return tuple(computation.instructions)


def running_order(computation: Computation) -> tuple[Instruction, ...]:
    """The order in which side effects happen: the schedule if there is one, else the order of
    `text_order`.
    """
    schedule = computation.module.schedule or {}
    return schedule.get(computation) or text_order(computation)


def callers(module: Module) -> dict[Computation, list[Instruction]]:
    """For each computation, the instructions that call it."""
    found: dict[Computation, list[Instruction]] = {c: [] for c in module.computations}
    for computation in module.computations:
        for inst in computation.instructions:
            if inst.op.computation_fields:
                for called in inst.op.computations():
                    found[called].append(inst)
    return found


def computations_callees_first(module: Module) -> tuple[Computation, ...]:
    """All computations, each after those that it calls, in the order in which XLA prints them; cached until
    the module changes.

    The order is depth first, from the computations that no other calls, through the calls of each in the
    order of its instructions.
    """
    version, found = module.cached_order
    if version != module.version:
        called = {c for computation in module.computations for c in _calls(computation)}
        roots = [c for c in module.computations if c not in called]
        found = tuple(needed_first((*roots, *module.computations), _calls))  # all: cycles have no root
        module.cached_order = module.version, found
    return found


def _calls(computation: Computation) -> Iterator[Computation]:
    """Yields the computations that a computation calls; the body of a loop comes before its condition."""
    for inst in schedule_of(computation):
        if inst.op.computation_fields:
            found = inst.op.computations()
            yield from found[::-1] if inst.op.opcode == "while" else found
