"""Expands asynchronous calls. Collectives of several participants stay asynchronous; any other call runs
where it starts, since a device does one thing at a time.
"""

from __future__ import annotations

from dataclasses import replace

import axla.hlo as hlo
from axla.core.shape import Shape
from axla.hlo import AsyncDone, AsyncStart, AsyncUpdate, Call, GetTupleElement, Tuple
from axla.ir.collectives import ASYNCHRONOUS
from axla.ir.graph import Instruction, Module
from axla.ir.op import OPS
from axla.passes.expand.expander import expand, full
from axla.passes.expand.single_replica import at_once


def async_unwrapper(module: Module) -> None:
    """Writes asynchronous calls as plain calls. A collective with a start and a done instruction becomes one
    instruction that is marked as asynchronous.
    """
    if module.config.replica_count * module.config.num_partitions > 1:
        _join_halves(module)
    kinds = {AsyncStart: _start, AsyncUpdate: _update, AsyncDone: _done}
    expand(module, "async-unwrapper", kinds)
    if any(_is_asynchronous(inst) for c in module.computations for inst in c.instructions):
        return
    for computation in module.computations:
        if computation.extra.more:  # no computation runs on a thread of its own any more
            kept = tuple(item for item in computation.extra.more if item[0] != "execution_thread")
            computation.set_own_extra(replace(computation.extra, more=kept))


def _join_halves(module: Module) -> None:
    """Replaces the `done` of a collective by the whole collective, if nothing else uses its `start`."""
    every = [inst for computation in module.computations for inst in computation.instructions]
    awaited = {before for inst in every for before in inst.extra.control_predecessors}
    joined: dict[Instruction, None] = {}

    def done(inst: Instruction) -> Instruction | None:
        chain = [inst.operands[0]]
        while isinstance(chain[-1].op, AsyncUpdate):
            chain.append(chain[-1].operands[0])
        begun = chain[-1].extra.control_predecessors
        if begun or any(len(one.users) > 1 or one.computation.root is one or one in awaited for one in chain):
            return None
        found = _collective(chain[-1])
        joined.update(dict.fromkeys(chain if found is not None else ()))
        return found

    ends = AsyncDone, hlo.AllReduceDone, hlo.AllGatherDone, hlo.CollectivePermuteDone
    expand(module, "async-unwrapper", dict.fromkeys(ends, done))
    for inst in joined:
        inst.computation.remove(inst)


def _collective(start: Instruction) -> Instruction | None:
    """The collective that an instruction starts, as one synchronous instruction; None if it does not start a
    collective.
    """
    op, marked = start.op, (*start.extra.frontend_attributes, ASYNCHRONOUS)
    extra = replace(start.extra, frontend_attributes=marked, control_predecessors=())
    if op.collective is not None:
        shape = start.shape.elements[1] if isinstance(op, hlo.AllGatherStart) else None
        return at_once(start, OPS[op.opcode.removesuffix("-start")], shape, extra)
    root = op.calls.root if isinstance(op, AsyncStart) else start
    if root.op.collective is None or root.operands != (*root.computation.parameters,):
        return None
    return start.computation.add(root.op, start.operands, extra=extra)


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
