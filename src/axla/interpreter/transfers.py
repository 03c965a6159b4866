"""Transfers in the interpreter: with the host through the queues of the device; between processes through a
mailbox for each channel, and for each receiver if source-target pairs are given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from axla.core.errors import RuntimeFailure
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.custom.feeds import feeds, give, leaves_of, take
from axla.custom.site import nest
from axla.hlo.transfer import Recv, RecvDone, Send
from axla.interpreter.evaluate import HostValue, Interpreter
from axla.interpreter.members import pairs_of
from axla.interpreter.processes import Process
from axla.ir.collectives import GroupMode
from axla.ir.graph import Instruction
from axla.ir.op import Op, by_op
from axla.ir.typed import tuple_of
from axla.ir.verify.channels import channel_pairs


def _infeed(interpreter: Interpreter, inst: Instruction, token: HostValue) -> HostValue:
    shape, process = tuple_of(inst).elements[0], interpreter.process
    if process is None or process.grid.infeed is None:
        return take(feeds(process.device if process else 0).infeed, shape, interpreter.wait), None
    if not list(shape.leaves()):
        return nest(shape, iter(())), None
    if not process.grid.infeed:
        raise RuntimeFailure(f"{inst!r}: the infeed has no values left")
    found = process.grid.infeed.popleft()
    return nest(shape, iter(leaves_of("infeed", shape, found))), None


def _outfeed(interpreter: Interpreter, inst: Instruction, data: HostValue, token: HostValue) -> None:
    give(feeds(interpreter.process.device if interpreter.process else 0).outfeed, data)


def _send(interpreter: Interpreter, inst: Instruction[Send], data: HostValue, token: HostValue) -> HostValue:
    channel, process = inst.op.channel_id, interpreter.process
    if inst.op.is_host_transfer:
        give(feeds(process.device if process else 0).to_host(channel), data)
    elif process is None:
        interpreter.mailbox.setdefault(channel, deque()).append(data)
    else:
        pairs = _pairs(inst, process)
        targets = [None] if pairs is None else [t for s, t in pairs if s == process.number]
        for target in targets:
            process.send((channel, target), data)
    return data, np.zeros((), np.uint32), None


def _pairs(inst: Instruction, process: Process) -> list[tuple[int, int]] | None:
    """The source-target pairs of a transfer, as process numbers; None if any process may receive it."""
    pairs = channel_pairs(inst)
    mode = GroupMode.CROSS_PARTITION if process.grid.partitions > 1 else GroupMode.CROSS_REPLICA
    return pairs_of(inst, process, pairs, mode) if pairs else None


def _send_done(interpreter: Interpreter, inst: Instruction, begun: HostValue) -> None:
    """Evaluates a send-done. It does nothing, since the send has put its value into the mailbox or queue at
    once.
    """


def _recv(interpreter: Interpreter, inst: Instruction[Recv], token: HostValue) -> HostValue:
    process = interpreter.process
    address: tuple[int | None, ...] = ()
    if process is not None and not inst.op.is_host_transfer:
        pairs, channel = _pairs(inst, process), inst.op.channel_id
        if pairs is None or any(target == process.number for _, target in pairs):
            address = (channel, None if pairs is None else process.number)
    # `address` is (channel, process number), or (channel, None) without source-target pairs: recv-done takes
    # the data that was sent to it. It is () if this process receives nothing, or recv-done needs no address.
    return address, np.zeros((), np.uint32), None


def _recv_done(interpreter: Interpreter, inst: Instruction[RecvDone], begun: HostValue) -> HostValue:
    channel, process = inst.op.channel_id, interpreter.process
    if inst.op.is_host_transfer:
        shape = inst.shape.elements[0]
        return take(feeds(process.device if process else 0).from_host(channel), shape, interpreter.wait), None
    if process is not None:
        if not begun[0]:
            return _nothing(inst.shape.elements[0]), None
        return _received(inst, process.receive(begun[0], repr(inst))), None
    waiting = interpreter.mailbox.get(channel)
    if not waiting:
        message = f"{inst!r}: nothing was sent on channel {channel}, and there is no other replica to send"
        raise RuntimeFailure(message)
    return waiting.popleft(), None


def _nothing(shape: AnyShape) -> HostValue:
    """Zeros of a shape, for a process that gets no data."""
    if isinstance(shape, TupleShape):
        return tuple(map(_nothing, shape.elements))
    return np.zeros(shape.dims, shape.dtype.numpy) if isinstance(shape, Shape) else None


def _received(inst: Instruction, value: HostValue) -> HostValue:
    shape = inst.shape.elements[0]
    return nest(shape, iter(leaves_of(repr(inst), shape, value)))


TRANSFERS: dict[type[Op], Callable[..., HostValue]] = by_op(
    _infeed, _outfeed, _send, _send_done, _recv, _recv_done
)
