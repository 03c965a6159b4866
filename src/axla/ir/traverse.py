"""Orders and reachability. Iterative throughout: modules are deeper than Python's stack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from axla.ir.graph import Computation, Instruction, Module


def post_order(computation: Computation) -> tuple[Instruction, ...]:
    """Every instruction after its operands and control predecessors; deterministic; cached until the graph changes."""
    if computation.cached_order_version != computation.version:
        order = tuple(_depth_first(computation.instructions))
        computation.cached_order = order
        computation.cached_order_version = computation.version
    return computation.cached_order


def _depth_first(roots: Iterable[Instruction]) -> Iterator[Instruction]:
    done: set[Instruction] = set()
    for root in roots:
        if root in done or root.users:
            continue  # reached from a user
        yield from _below(root, done)
    for root in roots:  # what only control edges or cycles (which the verifier reports) reach
        if root not in done:
            yield from _below(root, done)


def _below(root: Instruction, done: set[Instruction]) -> Iterator[Instruction]:
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


def schedule_of(computation: Computation) -> tuple[Instruction, ...]:
    """The order in which to run a computation: its schedule where there is one, else post order."""
    schedule = computation.module.schedule
    found = schedule.get(computation) if schedule is not None else None
    return found if found is not None else post_order(computation)


def callers(module: Module) -> dict[Computation, list[Instruction]]:
    """The instructions that call each computation."""
    found: dict[Computation, list[Instruction]] = {c: [] for c in module.computations}
    for computation in module.computations:
        for inst in computation.instructions:
            if inst.op.computation_fields:
                for called in inst.op.computations():
                    found[called].append(inst)
    return found


def computations_callees_first(module: Module) -> tuple[Computation, ...]:
    """All computations, each after those it calls."""
    done: dict[Computation, None] = {}
    for root in module.computations:
        stack: list[tuple[Computation, bool]] = [(root, False)]
        on_path: set[Computation] = set()
        while stack:
            computation, left = stack.pop()
            if left:
                on_path.discard(computation)
                done.setdefault(computation)
                continue
            if computation in done or computation in on_path:
                continue
            on_path.add(computation)
            stack.append((computation, True))
            for inst in computation.instructions:
                if inst.op.computation_fields:
                    stack.extend((c, False) for c in reversed(inst.op.computations()))
    return tuple(done)
