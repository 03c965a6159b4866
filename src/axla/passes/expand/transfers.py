"""Rewrites transfers with the host (infeed, outfeed, send and recv) as host calls.

A transfer between replicas goes from the only replica to itself. If both halves are in one computation, the
value is passed on directly. If they are in different ones (a loop and its surroundings), or a channel has
several transfers, the values wait in a queue of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

import axla.hlo as hlo
from axla.core.errors import UnsupportedError
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.ir.graph import NO_EXTRA, Computation, Instruction, Module
from axla.ir.op import Op
from axla.ir.typed import tuple_of
from axla.ir.verify.channels import transfer_pairs
from axla.passes.expand.expander import Expansion, expand, full, scalar

SendOfReceive = dict[Instruction, Instruction]  # a recv -> the send whose data it receives


def transfer_rewriter(module: Module) -> None:
    """Replaces transfers. Raises UnsupportedError for a receive on a channel on which nothing is sent."""
    if module.config.replica_count * module.config.num_partitions > 1:
        _between_participants(module)
        return
    sources: SendOfReceive = {}
    for computation in module.computations:
        sources.update(_own_sends(computation))
    sends = {*sources.values(), *_lone_sends(module)}
    queued = _queued(module, sources)

    def send(inst: Instruction[hlo.Send]) -> Instruction | None:
        if inst in sends:
            return _begun(inst, inst.operands[0], inst.operands[1])
        if inst.op.is_host_transfer or inst in queued:
            target = "axla.to_host" if inst.op.is_host_transfer else "axla.send"
            return _begun(inst, inst.operands[0], _call(inst, inst.operands[1].shape, target, inst.operands))
        return None

    def recv(inst: Instruction[hlo.Recv]) -> Instruction | None:
        if inst in sources:
            return _begun(inst, sources[inst].operands[0], inst.operands[0])
        if not inst.op.is_host_transfer and inst not in queued:
            raise UnsupportedError(f"{inst!r}: no send has the same channel")
        nothing = _nothing(inst)
        return None if nothing is None else _begun(inst, nothing, inst.operands[0])

    def received(inst: Instruction[hlo.RecvDone]) -> Instruction | None:
        begun = inst.operands[0]
        if inst.op.is_host_transfer or inst in queued:
            target = "axla.from_host" if inst.op.is_host_transfer else "axla.recv"
            return _call(inst, inst.shape, target, [hlo.GetTupleElement(2)(begun)])
        if isinstance(begun.op, hlo.Recv):
            return None
        return inst.computation.add(
            hlo.Tuple(), (hlo.GetTupleElement(0)(begun), hlo.GetTupleElement(2)(begun))
        )

    kinds: dict[type[Op], Expansion] = {
        hlo.Infeed: _infeed, hlo.Outfeed: _outfeed, hlo.RecvDone: received, hlo.SendDone: _sent,
    }  # fmt: skip
    # Sends come last: until then `sources` still finds their operands.
    for kind, expansion in ((hlo.Recv, recv), (hlo.Send, send)):
        expand(module, "transfer-rewriter", {kind: expansion})
    expand(module, "transfer-rewriter", kinds)


def _between_participants(module: Module) -> None:
    """Makes both halves of each transfer host calls: a send does not wait, a receive does."""
    counts = module.config.replica_count, module.config.num_partitions

    def config(inst: Instruction) -> str:
        pairs = ",".join(f"{a}>{b}" for a, b in dict.fromkeys(transfer_pairs(inst, *counts)))
        return f"{getattr(inst.op, 'channel_id', None)};{pairs}"

    def send(inst: Instruction[hlo.Send]) -> Instruction | None:
        shape = inst.operands[1].shape
        if inst.op.is_host_transfer:
            sent = _call(inst, shape, "axla.to_host", inst.operands)
        else:
            sent = _call(inst, shape, "axla.send", inst.operands, config(inst))
        return _begun(inst, inst.operands[0], sent)

    def recv(inst: Instruction[hlo.Recv]) -> Instruction | None:
        nothing = _nothing(inst)
        return None if nothing is None else _begun(inst, nothing, inst.operands[0])

    def received(inst: Instruction[hlo.RecvDone]) -> Instruction | None:
        token = hlo.GetTupleElement(2)(inst.operands[0])
        if inst.op.is_host_transfer:
            return _call(inst, inst.shape, "axla.from_host", [token])
        return _call(inst, inst.shape, "axla.recv", [token], configs[inst])

    every = [inst for computation in module.computations for inst in computation.instructions]
    configs = {inst: config(inst.operands[0]) for inst in every if isinstance(inst.op, hlo.RecvDone)}
    kinds: dict[type[Op], Expansion] = {
        hlo.Infeed: _infeed, hlo.Outfeed: _outfeed, hlo.RecvDone: received, hlo.SendDone: _sent,
    }  # fmt: skip
    expand(module, "transfer-rewriter", {hlo.Recv: recv})
    expand(module, "transfer-rewriter", {hlo.Send: send})
    expand(module, "transfer-rewriter", kinds)


def _call(
    inst: Instruction, shape: AnyShape, target: str, operands: Sequence[Instruction],
    config: str | None = None,
) -> Instruction:  # fmt: skip
    """A call of the host function `target` in place of the transfer `inst`. Its configuration is `config`, by
    default the channel of the transfer.
    """
    op = hlo.CustomCall(shape.logical, custom_call_target=target, custom_call_has_side_effect=True)
    channel = getattr(inst.op, "channel_id", None)
    config = config if config is not None or channel is None else str(channel)
    extra = NO_EXTRA if config is None else replace(NO_EXTRA, backend_config=config)
    return inst.computation.add(op, operands, extra=extra)


def _infeed(inst: Instruction) -> Instruction:
    return _call(inst, inst.shape, "axla.infeed", inst.operands)


def _outfeed(inst: Instruction) -> Instruction:
    return _call(inst, inst.shape, "axla.outfeed", inst.operands)


def _own_sends(computation: Computation) -> SendOfReceive:
    """Maps each receive of a computation to the send on the same channel in this computation. The map is
    empty if joining the pairs would make a cycle.
    """
    halves: dict[tuple[type, int], list[Instruction]] = {}
    for inst in computation.instructions:
        op = inst.op
        if isinstance(op, hlo.Send | hlo.Recv) and op.channel_id is not None and not op.is_host_transfer:
            halves.setdefault((type(op), op.channel_id), []).append(inst)
    found: SendOfReceive = {}
    for (kind, channel), recvs in halves.items():
        sends = halves.get((hlo.Send, channel), [])
        if kind is hlo.Recv and len(recvs) == len(sends) == 1 and _same_data(recvs[0], sends[0]):
            found[recvs[0]] = sends[0]
    return {} if found and _waits_for_itself(computation, found) else found


def _lone_sends(module: Module) -> Iterator[Instruction]:
    """Yields sends on channels on which nothing is received, so that their data is not needed."""
    every = [inst for computation in module.computations for inst in computation.instructions]
    received = {inst.op.channel_id for inst in every if isinstance(inst.op, hlo.Recv)}
    for inst in every:
        op = inst.op
        if isinstance(op, hlo.Send) and not op.is_host_transfer and op.channel_id not in received:
            yield inst


def _queued(module: Module, sources: SendOfReceive) -> dict[Instruction, None]:
    """The sends and receives on channels on which not every transfer is within one computation. Removes the
    pairs of these channels from `sources`, which maps receives to sends.
    """
    halves: dict[int | None, list[Instruction]] = {}
    for computation in module.computations:
        for inst in computation.instructions:
            if isinstance(inst.op, hlo.Send | hlo.Recv | hlo.RecvDone) and not inst.op.is_host_transfer:
                halves.setdefault(inst.op.channel_id, []).append(inst)
    found: dict[Instruction, None] = {}
    for group in halves.values():
        sends, recvs = (
            [inst for inst in group if isinstance(inst.op, kind)] for kind in (hlo.Send, hlo.Recv)
        )
        of_one = {sources[inst] for inst in recvs if inst in sources}
        if sends and recvs and not (len(of_one) == len(sends) == len(recvs)):
            found.update(dict.fromkeys(group))
            for inst in recvs:
                sources.pop(inst, None)
    return found


def _same_data(recv: Instruction, send: Instruction) -> bool:
    return tuple_of(recv).elements[0].logical is send.operands[0].shape.logical


def _waits_for_itself(computation: Computation, sources: SendOfReceive) -> bool:
    """Whether a value that is sent on a channel depends on the value that is received on this channel.
    `sources` maps receives to sends.
    """
    order: TopologicalSorter[Instruction] = TopologicalSorter()
    for inst in computation.instructions:
        sent = sources[inst].operands if inst in sources else ()
        order.add(inst, *inst.operands, *inst.extra.control_predecessors, *sent)
    try:
        order.prepare()
    except CycleError:
        return True
    return False


def _begun(inst: Instruction, data: Instruction, token: Instruction) -> Instruction:
    """The result tuple of the send or recv `inst`: `data`, a context that is zero, and a token after
    `token`.
    """
    computation = inst.computation
    after = computation.add(hlo.AfterAll(), (token,))
    context = scalar(computation, inst.shape.elements[1].dtype, 0)
    return computation.add(hlo.Tuple(), (data, context, after))


def _nothing(inst: Instruction) -> Instruction | None:
    """Zeros in place of the data that `inst` would receive; None for nested tuples and tokens."""
    shape, computation = tuple_of(inst).elements[0], inst.computation
    if isinstance(shape, Shape):
        return full(computation, shape, 0)
    arrays = [s for s in shape.elements if isinstance(s, Shape)] if isinstance(shape, TupleShape) else []
    if not isinstance(shape, TupleShape) or len(arrays) < len(shape.elements):
        return None
    return computation.add(hlo.Tuple(), [full(computation, s, 0) for s in arrays])


def _sent(inst: Instruction) -> Instruction | None:
    return None if isinstance(inst.operands[0].op, hlo.Send) else hlo.GetTupleElement(2)(inst.operands[0])
