"""Dead code elimination, and functions that find instructions with side effects."""

from __future__ import annotations

from collections.abc import Container

from axla.ir.graph import Computation, Instruction, Module
from axla.ir.traverse import computations_callees_first
from axla.passes import rewrite


def effectful_computations(module: Module) -> frozenset[Computation]:
    """The computations that have a side effect when they are called."""
    found: set[Computation] = set()
    for computation in computations_callees_first(module):
        if any(has_effect(inst, found) for inst in computation.instructions):
            found.add(computation)
    return frozenset(found)


def has_effect(inst: Instruction, effectful: Container[Computation]) -> bool:
    """Whether an instruction must run even if its value is unused, because it or a computation that it calls
    has a side effect.
    """
    op = inst.op
    if op.side_effect:
        return True
    return bool(op.computation_fields) and any(c in effectful for c in op.computations())


def dce(module: Module) -> None:
    """Removes unused instructions without effects, and computations that are not called."""
    effectful = effectful_computations(module)
    for computation in module.computations:
        unused = [i for i in reversed(computation.instructions) if not i.users]
        rewrite.sweep(computation, unused, rewrite.control_bound(computation), effectful=effectful)
    remove_dead_computations(module)


def remove_dead_computations(module: Module) -> None:
    """Removes computations that cannot be reached from the entry."""
    live: set[Computation] = {module.entry}
    stack = [module.entry]
    while stack:
        for inst in stack.pop().instructions:
            if inst.op.computation_fields:
                for called in inst.op.computations():
                    if called not in live:
                        live.add(called)
                        stack.append(called)
    for computation in [c for c in module.computations if c not in live]:
        module.remove_computation(computation)
