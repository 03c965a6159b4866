"""Copies programs for partitioning, so that each use of a value can be sharded differently."""

from __future__ import annotations

from collections.abc import Callable

from axla.core.shape import Shape
from axla.hlo import Broadcast, Call, Conditional, Constant, Iota, Reshape, Slice, While
from axla.ir.clone import called_first, clone_module, inline, own_computations
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.traverse import needed_first, post_order
from axla.ir.typed import applies

LARGEST = 1 << 18
"""The most instructions of a computation into which calls are still inlined."""


def flat_copy(module: Module) -> Module:
    """A copy of a module in which calls are inlined, loops and branches do not share computations, and each
    user has its own copy of values that are computed from constants or broadcast from scalars.
    """
    module = clone_module(module)
    inline_calls(module, lambda caller, _: len(caller.instructions) < LARGEST)
    for computation in own_computations(module, (While, Conditional)):
        _split_constants(computation)
    return module


def inline_calls(module: Module, is_wanted: Callable[[Computation, Computation], bool]) -> None:
    """Inlines the calls for which `is_wanted(caller, called)` holds."""
    for computation in called_first(module.entry):
        for call in list(computation.instructions):
            if applies(call, Call) and is_wanted(computation, call.op.to_apply):
                computation.replace(call, inline(call, call.op.to_apply, call.operands))
                computation.remove(call)
    for unused in module.computations.keys() - set(called_first(module.entry)):
        module.remove_computation(unused)


def _split_constants(computation: Computation) -> None:
    constant: dict[Instruction, None] = {}
    spread: dict[Instruction, None] = {}
    for inst in post_order(computation):
        op, operands = inst.op, inst.operands
        hands_on = op.elementwise or isinstance(op, Broadcast | Reshape | Slice)
        if isinstance(op, Constant | Iota) or (hands_on and all(o in constant for o in operands)):
            constant[inst] = None
        elif isinstance(op, Broadcast) and _is_scalar(operands[0]):
            spread[inst] = None
        else:
            for number, operand in enumerate(operands):
                if (operand in constant or operand in spread) and not _is_scalar(operand):
                    computation.set_operand(inst, number, _copy(operand))
    for inst in reversed([*constant, *spread]):
        if not inst.users and inst is not computation.root:
            computation.remove(inst)


def _is_scalar(inst: Instruction) -> bool:
    return isinstance(inst.shape, Shape) and inst.shape.rank == 0


def _copy(value: Instruction) -> Instruction:
    """Copies a value with everything from which it is computed, except scalars, which are not partitioned."""
    copies: dict[Instruction, Instruction] = {}
    for inst in needed_first((value,), lambda inst: [o for o in inst.operands if not _is_scalar(o)]):
        operands = [copies.get(o, o) for o in inst.operands]
        copies[inst] = inst.computation.add(inst.op, operands, inst.shape, stem=inst.name, extra=inst.extra)
    return copies[value]
