"""What crosses the border of a program: infeed and outfeed become calls of the host; a transfer between
replicas whose two halves are in one computation becomes the value itself, for one replica sends to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo import (
    AfterAll,
    CustomCall,
    GetTupleElement,
    Infeed,
    Outfeed,
    Recv,
    RecvDone,
    Send,
    SendDone,
    Tuple,
)
from axla.ir.graph import Computation, Instruction, Module
from axla.passes.expand.expander import expand, scalar


def transfer_rewriter(module: Module) -> None:
    """Leaves transfers with the host or another computation, for the code generator to refuse."""
    sources: dict[Instruction, Instruction] = {}
    for computation in module.computations:
        sources.update(_own_sends(computation))
    sends = {*sources.values(), *_lone_sends(module)}

    def send(inst: Instruction) -> Instruction | None:
        return _begun(inst, inst) if inst in sends else None

    def recv(inst: Instruction) -> Instruction | None:
        return _begun(inst, sources[inst]) if inst in sources else None

    kinds: dict[type, Callable[[Instruction], Instruction | None]] = {
        Infeed: _infeed, Outfeed: _outfeed, RecvDone: _received, SendDone: _sent,
    }  # fmt: skip
    # Sends last: until then their operands are what is received.
    for kind, expansion in ((Recv, recv), (Send, send)):
        expand(module, "transfer-rewriter", {kind: expansion})
    expand(module, "transfer-rewriter", kinds)


def _call(inst: Instruction, shape: AnyShape, target: str) -> Instruction:
    op = CustomCall(shape, custom_call_target=target, custom_call_has_side_effect=True)
    return inst.computation.add(op, inst.operands)


def _infeed(inst: Instruction) -> Instruction:
    return _call(inst, inst.shape.logical, "axla.infeed")


def _outfeed(inst: Instruction) -> Instruction:
    return _call(inst, inst.shape, "axla.outfeed")


def _own_sends(computation: Computation) -> dict[Instruction, Instruction]:
    """The receives of a computation with the send of the same channel in it, where that makes no cycle."""
    halves: dict[tuple[type, int], list[Instruction]] = {}
    for inst in computation.instructions:
        op = inst.op
        if isinstance(op, Send | Recv) and op.channel_id is not None and not op.is_host_transfer:
            halves.setdefault((type(op), op.channel_id), []).append(inst)
    found: dict[Instruction, Instruction] = {}
    for (kind, channel), recvs in halves.items():
        sends = halves.get((Send, channel), [])
        if kind is Recv and len(recvs) == len(sends) == 1 and _same_data(recvs[0], sends[0]):
            found[recvs[0]] = sends[0]
    return {} if found and _waits_for_itself(computation, found) else found


def _lone_sends(module: Module) -> Iterator[Instruction]:
    """Sends on channels on which nobody receives: all that happens is that they are done."""
    every = [inst for computation in module.computations for inst in computation.instructions]
    received = {inst.op.channel_id for inst in every if isinstance(inst.op, Recv)}
    for inst in every:
        op = inst.op
        if isinstance(op, Send) and not op.is_host_transfer and op.channel_id not in received:
            yield inst


def _same_data(recv: Instruction, send: Instruction) -> bool:
    assert isinstance(recv.shape, TupleShape)
    return recv.shape.elements[0].logical is send.operands[0].shape.logical


def _waits_for_itself(computation: Computation, sources: dict[Instruction, Instruction]) -> bool:
    """Whether something received is needed, in the end, for what is sent on its channel."""
    missing: dict[Instruction, int] = {}
    after: dict[Instruction, list[Instruction]] = {}
    for inst in computation.instructions:
        sent = sources[inst].operands if inst in sources else ()
        before = {*inst.operands, *inst.extra.control_predecessors, *sent}
        missing[inst] = len(before)
        for p in before:
            after.setdefault(p, []).append(inst)
    ready = [inst for inst, count in missing.items() if not count]
    done = 0
    while ready:
        done += 1
        for inst in after.get(ready.pop(), ()):
            missing[inst] -= 1
            if not missing[inst]:
                ready.append(inst)
    return done != len(missing)


def _begun(inst: Instruction, send: Instruction) -> Instruction:
    """What a half gives in place of (data, context, token)."""
    computation = inst.computation
    assert isinstance(inst.shape, TupleShape) and isinstance(inst.shape.elements[1], Shape)
    token = computation.add(AfterAll(), inst.operands[-1:])
    context = scalar(computation, inst.shape.elements[1].dtype, 0)
    return computation.add(Tuple(), (send.operands[0], context, token))


def _received(inst: Instruction) -> Instruction | None:
    begun = inst.operands[0]
    if isinstance(begun.op, Recv):
        return None
    return inst.computation.add(Tuple(), (GetTupleElement(0)(begun), GetTupleElement(2)(begun)))


def _sent(inst: Instruction) -> Instruction | None:
    return None if isinstance(inst.operands[0].op, Send) else GetTupleElement(2)(inst.operands[0])
