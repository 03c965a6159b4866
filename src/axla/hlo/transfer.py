"""Ops that copy asynchronously, transfer data between host, replicas and devices, or mark domains."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from axla.core.dtypes import F32, U32
from axla.core.shape import TOKEN, AnyShape, Shape, TupleShape
from axla.hlo.collective import started
from axla.hlo.family import Same, show
from axla.ir.attributes import RawText
from axla.ir.families import Transfer
from axla.ir.graph import Instruction
from axla.ir.op import Op, attr, example, op


@op("copy-start", operands="operand")
class CopyStart(Op):
    """Starts an asynchronous copy. The value is a tuple of the copy, the operand and a context."""

    shape: AnyShape
    cross_program_prefetch_index: int | None = None

    def infer(self, operand: AnyShape) -> AnyShape:
        """Returns the declared shape, which must be (copy, operand, u32[])."""
        wanted = TupleShape((operand.logical, operand.logical, Shape(U32)))
        if self.shape.logical is not wanted:
            self.reject("c1", f"the shape {show(wanted)} is wanted, found {show(self.shape)}")
        return self.shape

    def evaluate(self, operand):
        """Returns the operand as its own copy, since arrays do not change in the interpreter."""
        return (operand, operand, np.zeros((), np.uint32))

    examples = [example(Shape(F32, (3,)), shape=TupleShape((Shape(F32, (3,)), Shape(F32, (3,)), Shape(U32))))]


@op("copy-done", operands="operand", ends=CopyStart)
class CopyDone(Op):
    """Waits for a copy-start; the value is the copy."""

    def infer(self, operand: AnyShape) -> AnyShape:
        """Returns the shape of the copy, element 0 of the operand, which must be the tuple of a
        copy-start.
        """
        return started(self, operand, 0)

    def evaluate(self, operand):
        """Returns the copy, element 0 of the operand."""
        return operand[0]

    examples = [example(TupleShape((Shape(F32, (3,)), Shape(F32, (3,)), Shape(U32))))]


class _Transfer(Op):
    """The base of the ops that send data to, or receive data from, the host or other devices."""

    __slots__ = ()
    side_effect = True

    def _token(self, token: AnyShape) -> None:
        if not token.is_token:
            self.reject("c1", f"a token is wanted, found {show(token)}")


@op("send", operands="data token", effect="transfers", mixes_floats=True, in_order=True)
class Send(_Transfer, Transfer):
    """Starts to send data on a channel. The value is a tuple of the data, a context and a token."""

    shape: AnyShape
    channel_id: int | None = None
    is_host_transfer: bool = False

    def infer(self, data: AnyShape, token: AnyShape) -> AnyShape:
        """Returns the declared shape, which must be (data, u32[], token[])."""
        self._token(token)
        if self.shape.logical is not TupleShape((data.logical, Shape(U32), TOKEN)):
            self.reject("c2", f"({show(data)}, u32[], token[]) is wanted, found {show(self.shape)}")
        return self.shape

    examples = [
        example(
            Shape(F32, (3,)), TOKEN, shape=TupleShape((Shape(F32, (3,)), Shape(U32), TOKEN)), channel_id=1
        )
    ]


@op("send-done", operands="operand", effect="transfers", ends=Send)
class SendDone(_Transfer, Transfer):
    """Waits for a send; the value is a token."""

    channel_id: int | None = None
    is_host_transfer: bool = False

    def infer(self, operand: AnyShape) -> AnyShape:
        """Returns the shape of a token; the operand must be the tuple of a send."""
        return started(self, operand, 2)

    examples = [example(TupleShape((Shape(F32, (3,)), Shape(U32), TOKEN)), channel_id=1)]


@op("recv", operands="token", effect="transfers")
class Recv(_Transfer, Transfer):
    """Starts to receive from a channel. The value is a tuple of the data that will arrive, a context and a
    token.
    """

    shape: AnyShape
    channel_id: int | None = None
    is_host_transfer: bool = False

    def infer(self, token: AnyShape) -> AnyShape:
        """Returns the declared shape, which must be (data, u32[], token[])."""
        self._token(token)
        parts = self.shape.parts
        if len(parts) != 3 or parts[1].logical is not Shape(U32) or not parts[2].is_token:
            self.reject("c2", f"(data, u32[], token[]) is wanted, found {show(self.shape)}")
        return self.shape

    examples = [example(TOKEN, shape=TupleShape((Shape(F32, (3,)), Shape(U32), TOKEN)), channel_id=1)]


@op("recv-done", operands="operand", effect="transfers", ends=Recv, in_order=True)
class RecvDone(_Transfer, Transfer):
    """Waits for a recv; the value is a tuple of the data received and a token."""

    channel_id: int | None = None
    is_host_transfer: bool = False

    def infer(self, operand: AnyShape) -> AnyShape:
        """Returns (data, token[]); the operand must be the tuple of a recv."""
        started(self, operand, 2)
        parts = operand.parts
        return TupleShape((parts[0].logical, TOKEN))

    examples = [example(TupleShape((Shape(F32, (3,)), Shape(U32), TOKEN)), channel_id=1)]


@op("infeed", operands="token", effect="infeed", in_order=True)
class Infeed(_Transfer):
    """Takes the next value from the infeed queue. The value is a tuple of the data and a token."""

    shape: AnyShape
    infeed_config: str = ""

    def __post_init__(self) -> None:
        parts = self.shape.parts
        if len(parts) != 2 or not parts[1].is_token:
            self.reject("c2", f"(data, token[]) is wanted, found {show(self.shape)}")

    def infer(self, token: AnyShape) -> AnyShape:
        """Returns the declared shape; the operand must be a token."""
        self._token(token)
        return self.shape

    examples = [example(TOKEN, shape=TupleShape((Shape(F32, (3,)), TOKEN)))]


@op("outfeed", operands="data token", effect="outfeed", mixes_floats=True, in_order=True)
class Outfeed(_Transfer):
    """Puts the data into the outfeed queue with the shape `outfeed_shape`. The value is a token."""

    outfeed_shape: AnyShape
    outfeed_config: str = ""

    def infer(self, data: AnyShape, token: AnyShape) -> AnyShape:
        """Returns the shape of a token; `outfeed_shape` must be the shape of the data."""
        self._token(token)
        if self.outfeed_shape.logical is not data.logical:
            message = f"outfeed_shape={show(self.outfeed_shape)} must be that of the data, {show(data)}"
            self.reject("c2", message)
        return TOKEN

    examples = [example(Shape(F32, (3,)), TOKEN, outfeed_shape=Shape(F32, (3,)))]


@op("domain", operands="operand")
class Domain(Same):
    """Returns its operand unchanged, at the boundary between two domains, such as two shardings. The
    attribute `domain` describes them.
    """

    domain: RawText = attr(required=True, default=RawText("{}"))

    def __post_init__(self) -> None:
        for part in ("kind=", "entry=", "exit="):
            if part not in self.domain.replace(" ", ""):
                self.reject("c1", f"the attribute must have {part}, found {self.domain}")

    examples = [
        example(
            Shape(F32, (3,)),
            domain=RawText('{kind="sharding", entry={maximal device=0}, exit={maximal device=1}}'),
        )
    ]


def receives_last(order: Sequence[Instruction]) -> Sequence[Instruction]:
    """Sorts instructions so that each comes after its operands and control predecessors, and each recv-done
    as late as possible: its data has then been sent before. Returns `order` itself if it has no recv-done.
    """
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
