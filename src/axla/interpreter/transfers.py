"""Transfers as the interpreter does them: with the host by the queues of device 0, between replicas (there is
one) by a mailbox per channel.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from axla.core.errors import RuntimeFailure, UnsupportedError
from axla.core.shape import TupleShape
from axla.custom.feeds import give_outfeed, take_infeed
from axla.hlo.transfer import Infeed, Outfeed, Recv, RecvDone, Send, SendDone
from axla.ir.graph import Instruction
from axla.ir.op import Op

if TYPE_CHECKING:
    from axla.interpreter.evaluate import Interpreter

Value = Any


def check_transfer(inst: Instruction) -> None:
    """UnsupportedError for a transfer with the host by send and recv, which has no other end here."""
    op = inst.op
    if isinstance(op, Send | Recv) and op.is_host_transfer:
        raise UnsupportedError(
            f"{inst!r}: {op.opcode} with is_host_transfer needs a host program at the other end; infeed and "
            "outfeed transfer to and from this process"
        )


def _infeed(interpreter: Interpreter, inst: Instruction, token: Value) -> Value:
    assert isinstance(inst.shape, TupleShape)
    return take_infeed(inst.shape.elements[0], interpreter.tick), None


def _outfeed(interpreter: Interpreter, inst: Instruction, data: Value, token: Value) -> None:
    give_outfeed(data)


def _send(interpreter: Interpreter, inst: Instruction, data: Value, token: Value) -> Value:
    check_transfer(inst)
    interpreter.mail.setdefault(inst.op.channel_id, deque()).append(data)  # type: ignore[attr-defined]
    return data, np.zeros((), np.uint32), None


def _send_done(interpreter: Interpreter, inst: Instruction, begun: Value) -> None:
    """Whoever receives has a queue: nothing to wait for."""


def _recv(interpreter: Interpreter, inst: Instruction, token: Value) -> Value:
    check_transfer(inst)
    return None, np.zeros((), np.uint32), None


def _recv_done(interpreter: Interpreter, inst: Instruction, begun: Value) -> Value:
    channel = inst.op.channel_id  # type: ignore[attr-defined]
    waiting = interpreter.mail.get(channel)
    if not waiting:
        raise RuntimeFailure(
            f"{inst!r}: nothing was sent on channel {channel}, and the only replica waits here for it"
        )
    return waiting.popleft(), None


def receives_last(order: Sequence[Instruction]) -> Sequence[Instruction]:
    """An order in which what is received comes as late as it can, so that it has been sent."""
    if not any(isinstance(inst.op, RecvDone) for inst in order):
        return order
    place = {inst: number for number, inst in enumerate(order)}
    missing: dict[Instruction, int] = {}
    after: dict[Instruction, list[Instruction]] = {}
    for inst in order:
        before = [p for p in {*inst.operands, *inst.extra.control_predecessors} if p in place]
        missing[inst] = len(before)
        for p in before:
            after.setdefault(p, []).append(inst)
    ready = [(isinstance(i.op, RecvDone), place[i]) for i in order if not missing[i]]
    found: list[Instruction] = []
    while ready:
        found.append(order[heapq.heappop(ready)[1]])
        for inst in after.get(found[-1], ()):
            missing[inst] -= 1
            if not missing[inst]:
                heapq.heappush(ready, (isinstance(inst.op, RecvDone), place[inst]))
    return found


TRANSFERS: dict[type[Op], Callable[..., Value]] = {
    Infeed: _infeed,
    Outfeed: _outfeed,
    Send: _send,
    SendDone: _send_done,
    Recv: _recv,
    RecvDone: _recv_done,
}
