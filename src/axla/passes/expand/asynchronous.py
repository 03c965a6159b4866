"""Asynchronous calls on a device that does one thing at a time: calls where they start."""

from __future__ import annotations

from dataclasses import replace

from axla.core.shape import Shape
from axla.hlo import AsyncDone, AsyncStart, AsyncUpdate, Call, GetTupleElement, Tuple
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import expand, full


def async_unwrapper(module: Module) -> None:
    """Writes every asynchronous call as a call."""
    kinds = {AsyncStart: _start, AsyncUpdate: _update, AsyncDone: _done}
    expand(module, "async-unwrapper", kinds)
    if any(_is_asynchronous(inst) for c in module.computations for inst in c.instructions):
        return
    for computation in module.computations:
        if computation.extra.more:  # nothing runs on a thread of its own any more
            kept = tuple(item for item in computation.extra.more if item[0] != "execution_thread")
            computation.set_own_extra(replace(computation.extra, more=kept))


def _start(inst: Instruction[AsyncStart]) -> Instruction | None:
    op, computation = inst.op, inst.computation
    contexts = inst.shape.elements[2:]
    whole = inst.shape.elements[1].logical is op.calls.root.shape.logical
    if not whole or not all(isinstance(s, Shape) for s in contexts):
        return None
    operands = computation.add(Tuple(), inst.operands)
    result = computation.add(Call(op.calls), inst.operands)
    zeros = [full(computation, s, 0) for s in contexts if isinstance(s, Shape)]
    return computation.add(Tuple(), [operands, result, *zeros])


def _is_asynchronous(inst: Instruction) -> bool:
    return isinstance(inst.op, AsyncStart | AsyncUpdate | AsyncDone)


def _update(inst: Instruction) -> Instruction | None:
    return None if _is_asynchronous(inst.operands[0]) else inst.operands[0]


def _done(inst: Instruction) -> Instruction | None:
    return None if _is_asynchronous(inst.operands[0]) else GetTupleElement(1)(inst.operands[0])
