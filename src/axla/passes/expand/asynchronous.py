"""Asynchronous calls on a device that does one thing at a time: calls where they start."""

from __future__ import annotations

from axla.core.shape import Shape, TupleShape
from axla.hlo import AsyncDone, AsyncStart, AsyncUpdate, Call, GetTupleElement, Tuple
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import expand, full


def async_unwrapper(module: Module) -> None:
    """Writes every asynchronous call as a call."""
    kinds = {AsyncStart: _start, AsyncUpdate: _update, AsyncDone: _done}
    expand(module, "async-unwrapper", kinds)


def _start(inst: Instruction) -> Instruction | None:
    op, computation = inst.op, inst.computation
    assert isinstance(op, AsyncStart) and isinstance(inst.shape, TupleShape)
    contexts = inst.shape.elements[2:]
    if not all(isinstance(s, Shape) for s in contexts):
        return None
    operands = computation.add(Tuple(), inst.operands)
    result = computation.add(Call(op.calls), inst.operands)
    zeros = [full(computation, s, 0) for s in contexts if isinstance(s, Shape)]
    return computation.add(Tuple(), [operands, result, *zeros])


def _update(inst: Instruction) -> Instruction:
    return inst.operands[0]


def _done(inst: Instruction) -> Instruction:
    return GetTupleElement(1)(inst.operands[0])
