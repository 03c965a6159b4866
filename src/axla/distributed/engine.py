"""The engine of collectives over MPI: it transfers bytes; native code combines and copies them.

Each member of a group sends every other member the bytes of its operands that this one reads. They are
received directly in a result, if they are contiguous there, else in memory of the engine. Then each member
does its part as within one process (`codegen.native.collectives.do_part`). So results have the same bits; MPI
itself does no arithmetic.
"""

from __future__ import annotations

import ctypes as c
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from mpi4py import MPI

from axla.codegen.native.collectives import COLLECTIVE, MOVED, RENDEZVOUS, SEAT, SLOT, Half, PartKind
from axla.codegen.native.structs import ENDED, RUNS
from axla.core.dataclass import dataclass
from axla.core.errors import AxlaError, Cancelled, CollectiveFailure
from axla.distributed.messages import MpiMailbox, wait
from axla.program import abi
from axla.program.interface import Interface
from axla.runtime.callbacks import raised
from axla.runtime.functions import engine_functions
from axla.runtime.native import native
from axla.runtime.queue import own_queue

_ENGINE = c.CFUNCTYPE(c.c_int32, *[c.c_void_p] * 5)
_DO_PART = c.CFUNCTYPE(c.c_int32, *[c.c_void_p] * 6)
_TAGS = 1 << 12
"""The number of MPI tags that the rendezvous in progress share: each rendezvous takes one for every pair of
devices of two processes.
"""
_thread = threading.local()
"""Keeps Python's state of a queue's thread until the thread ends. Otherwise each call would allocate and free
it, and libraries that MPI uses record all memory that is freed.
"""
_structs: Any = [struct.ctypes() for struct in (abi.FRAME, COLLECTIVE, MOVED, SEAT, RENDEZVOUS, SLOT)]
_Frame, _Head, _Moved, _Seat, _Rendezvous, _Slot = _structs


@dataclass(frozen=True, slots=True)
class ReadRange:
    """The bytes that a participant reads of an operand of another participant: `rows` blocks of `bytes` bytes
    from offset `begin` on, each `stride` bytes after the one before. They are written to offset `at` of
    result number `result`, or, if `result` is -1, to memory of the engine.
    """

    begin: int
    bytes: int
    rows: int = 1
    stride: int = 0
    result: int = -1
    at: int = 0

    @property
    def span(self) -> int:
        """The number of bytes from the first to the last one that is read."""
        return (self.rows - 1) * self.stride + self.bytes


_NOTHING = ReadRange(0, 0, 0)


def _share(step: ParticipantCollective, reader: int, owner: int, n: int) -> ReadRange:
    moved = step.moved[n]
    low, high = (moved.rows * k // step.size * moved.bytes for k in (reader, reader + 1))
    return ReadRange(low, min(high, moved.total) - min(low, moved.total))


def _folded(step: ParticipantCollective, reader: int, owner: int, n: int) -> ReadRange:
    """The part of result n that the participant at position `owner` has combined."""
    share = _share(step, owner, owner, n)
    return ReadRange(share.begin, share.bytes, result=n, at=share.begin)


def _own(step: ParticipantCollective, reader: int, owner: int, n: int) -> ReadRange:
    return ReadRange(reader * step.moved[n].total, step.moved[n].total)


def _all(step: ParticipantCollective, reader: int, owner: int, n: int) -> ReadRange:
    rows, size = step.moved[n].rows, step.moved[n].bytes
    return ReadRange(0, size, result=n, at=owner * size) if rows == 1 else ReadRange(0, rows * size)


def _blocks(step: ParticipantCollective, reader: int, owner: int, n: int) -> ReadRange:
    rows, size = step.moved[n].rows, step.moved[n].bytes
    whole = rows == 1
    return ReadRange(reader * size, size, rows, step.size * size, n if whole else -1, owner * size)


def _operand(step: ParticipantCollective, reader: int, owner: int, n: int) -> ReadRange:
    return ReadRange(0, step.moved[n].total, result=owner) if n == reader else _NOTHING


def _of_source(step: ParticipantCollective, reader: int, owner: int, n: int) -> ReadRange:
    source = step.seats[step.members[reader]].source
    return ReadRange(0, step.moved[n].total, result=n) if source == owner else _NOTHING


def _whole(step: ParticipantCollective, reader: int, owner: int, n: int) -> ReadRange:
    return ReadRange(0, step.moved[n].total)


def _rows(step: ParticipantCollective, reader: int, owner: int, n: int) -> ReadRange:
    """The part of operand n that is read in a ragged-all-to-all: all data, and the starts, sizes and output
    offsets of its rows, but nothing of operand 1, the output.
    """
    if n == 1:
        return _NOTHING
    return ReadRange(0, step.moved[0].total if n == 0 else step.head.indices * step.head.index_bytes)


PieceRule = Callable[["ParticipantCollective", int, int, int], ReadRange]
"""Returns the bytes that the participant at position `reader` of the group reads of operand n of the
participant at position `owner`.
"""

_PIECES: dict[int, tuple[str, PieceRule]] = {
    PartKind.FOLD: ("all-reduce", _share), PartKind.FOLD_OWN: ("reduce-scatter", _own),
    PartKind.GATHER: ("all-gather", _all), PartKind.EXCHANGE: ("all-to-all", _blocks),
    PartKind.EXCHANGE_OPERANDS: ("all-to-all", _operand), PartKind.RAGGED: ("ragged-all-to-all", _rows),
    PartKind.TAKE: ("collective-permute or -broadcast", _of_source),
    PartKind.TAKE_DYNAMIC: ("collective-broadcast", _whole),
    PartKind.FOLD_ROOT: ("collective-reduce", _whole),
}  # fmt: skip


class ParticipantCollective:
    """A collective of a program for one participant: the bytes that it receives and sends, and the structs
    for its visits, which all visits share.
    """

    def __init__(self, engine: MpiEngine, collective: int, participant: int) -> None:
        self.engine, self.collective, self.me = engine, collective, participant
        head = self.head = _Head.from_address(collective)
        at = collective + COLLECTIVE.size
        self.moved = (_Moved * head.count).from_address(at)
        seats = at + MOVED.size * head.count
        self.seats = (_Seat * len(engine.places)).from_address(seats)
        self.seat = self.seats[participant]
        self.channel = engine.channels.get(self.seat.rendezvous)
        if self.channel is None:
            return
        rendezvous = engine.interface.rendezvous_keys[self.seat.rendezvous]
        self.members, self.size = rendezvous.members, len(rendezvous.members)
        kind, pieces = _PIECES[head.kind]
        self.about = f"{engine.interface.name}: {engine.names[participant]}, in an {kind} {rendezvous},"
        self.communicator, self.ranks, first = self.channel
        # The digest is part of the tag, so that participants of different collectives do not exchange data.
        self.tag = first + head.digest % (self.communicator.Get_attr(MPI.TAG_UB) // _TAGS) * _TAGS
        count = 5 if head.kind == PartKind.RAGGED else head.count
        self.moves = self._plan(pieces, count)
        self.shares = self._plan(_folded, count) if head.kind == PartKind.FOLD else []
        self.scratch = sum(piece.span for _, _, piece, gives in self.moves if piece.result < 0 and not gives)
        self.addresses: Any = c.c_void_p * count
        self.operands = [self.addresses() for _ in self.members]
        self.slots = (_Slot * self.size)()
        for slot, given in zip(self.slots, self.operands, strict=True):
            slot.collective, slot.operands = collective, c.addressof(given)
        self.rendezvous = _Rendezvous(size=self.size, slots=c.addressof(self.slots))

    def _plan(self, pieces: PieceRule, count: int) -> list[tuple[int, int, ReadRange, bool]]:
        """All transfers with other members, as (position in the group, operand, bytes, whether they are
        sent). `pieces` is the rule for the bytes of each of the `count` operands.
        """
        mine = self.seat.position
        return [
            (p, n, pieces(self, p, mine, n) if gives else pieces(self, mine, p, n), gives)
            for gives in (False, True)
            for p in range(self.size)
            for n in range(count)
            if p != mine
        ]

    def visit(self, frame: int, ins: int, outs: int, kernels: int) -> int:
        """Receives the bytes that this participant reads, does its part, and sends the parts of results.
        `ins` and `outs` are the addresses of tables of its operands and results. Returns 0, or the error code
        of native code.
        """
        operands, results = (self.addresses.from_address(p) for p in (ins, outs))
        self._exchange(frame, self.moves, operands, results)
        for slot in self.slots:
            slot.results = outs
        own = self.slots[self.seat.position]
        own.operands = ins
        addresses = [c.addressof(struct) for struct in (self.seat, self.rendezvous, own)]
        code = self.engine.do_part(frame, self.collective, *addresses, kernels)
        if code == abi.OK:
            self._exchange(frame, self.shares, results, results)
        return code

    def _exchange(self, frame: int, plan: Sequence[Any], operands: Any, results: Any) -> None:
        """Sends and receives the bytes of a plan from `_plan`, and waits until all transfers are done.
        `operands` and `results` have the addresses of this participant's arrays.
        """
        engine, local, pending, total = self.engine, self.engine.job.local, [], 0
        scratch = engine.scratch(self.me, self.scratch)
        for position, n, piece, gives in plan:
            if gives:
                where = (operands[n] or 0) + piece.begin
            elif piece.result >= 0:
                where = (results[piece.result] or 0) + piece.at
            else:
                where, scratch = scratch, scratch + piece.span
            if not gives:
                self.operands[position][n] = where - piece.begin
            if piece.bytes * piece.rows:
                other = self.members[position]
                devices = [engine.places[p] for p in ((self.me, other) if gives else (other, self.me))]
                source, target = (device % local for device in devices)
                begin = self.communicator.Isend if gives else self.communicator.Irecv
                rank = self.ranks.index(engine.places[other] // local)
                request = begin(_buffer(where, piece), rank, self.tag + source * local + target)
                pending.append((request, engine.names[other]))
                total += piece.bytes * piece.rows
        head = _Frame.from_address(frame)
        try:
            wait(pending, self.about, total, [head.cancel])
        except BaseException:
            self._keep([request for request, _ in pending if not request.Test()], head)
            raise

    def _keep(self, pending: Sequence[Any], frame: Any) -> None:
        """Keeps the memory of a failed run for ever, since MPI may still read and write it for requests that
        are not done. It is the memory of one run, as no collective follows a failure.
        """
        queue = own_queue()
        assert queue is not None
        (task,) = (task for task in queue._tasks if task.struct.peers == frame.peers)
        for record in (*task.inputs, *task.records):
            native().record_hold(record)
        frame.workspace = None
        self.engine.job.kept.append((pending, self.engine, task.loaded))


def _buffer(where: int, piece: ReadRange) -> list[Any]:
    """The memory of the range `piece`, which begins at the address `where`, in the form that MPI takes,
    without a copy.
    """
    memory = MPI.buffer.fromaddress(where, piece.span)
    if piece.rows == 1:
        return [memory, MPI.BYTE]
    return [memory, 1, _spread(piece.rows, piece.bytes, piece.stride)]


@cache
def _spread(rows: int, size: int, stride: int) -> Any:
    return MPI.BYTE.Create_vector(rows, size, stride).Commit()


class MpiEngine:
    """The engine of one program, of which participant p runs on device places[p] of a job."""

    def __init__(self, job: Any, interface: Interface, places: Sequence[int]) -> None:
        self.job, self.interface, self.places = job, interface, places
        self.partitions = interface.participants[1]
        ranks, n = [job.names[place // job.local] for place in places], self.partitions
        self.names = [f"replica {p // n}, partition {p % n} of {rank}" for p, rank in enumerate(ranks)]
        self.channels: dict[int, tuple[Any, list[int], int]] = {}
        """Number of a rendezvous between processes -> (communicator, ranks of its processes, first tag)."""
        for number, rendezvous in enumerate(interface.rendezvous_keys):
            ranks = sorted({places[member] // job.local for member in rendezvous.members})
            if job.index in ranks and len(ranks) > 1:
                communicator, serial = job.channel(tuple(ranks))
                pairs = job.local**2
                self.channels[number] = communicator, ranks, serial % (_TAGS // pairs) * pairs
        functions = engine_functions()
        self._in_process = _ENGINE(functions["axla_collective"])
        self.do_part = _DO_PART(functions["do_part"])
        self.number, self._runs = job.engines, 0
        self._steps: dict[tuple[int, int], ParticipantCollective] = {}
        self._scratch: dict[int, Any] = {}
        self._callback = _ENGINE(self._run)
        self.address = c.cast(self._callback, c.c_void_p).value

    def join(self, grid: Any) -> None:
        """Prepares the participants of the next run for transfers. Every process calls it once for each
        run.
        """
        self._runs += 1
        grid.mailbox = MpiMailbox(self, self._runs)
        ranks = [place // self.job.local for place in self.places]
        # Participants of other processes never enter a rendezvous of this process.
        grid.states[:] = [RUNS if rank == self.job.index else ENDED for rank in ranks]

    def _run(self, frame: int, collective: int, ins: int, outs: int, kernels: int) -> int:
        if not hasattr(_thread, "state"):
            _thread.state = c.pythonapi.PyGILState_Ensure()
        head = _Frame.from_address(frame)
        me = head.replica * self.partitions + head.partition
        try:
            if (collective, me) not in self._steps:
                self._steps[collective, me] = ParticipantCollective(self, collective, me)
            step = self._steps[collective, me]
            if step.channel is None:
                return self._in_process(frame, collective, ins, outs, kernels)
            if step.head.half == Half.START:  # the second step does the whole collective
                return abi.OK
            self.job.check()
            return step.visit(frame, ins, outs, kernels)
        except BaseException as error:  # noqa: BLE001  (C code cannot raise it)
            self.job.broken = self.job.broken or str(error)
            if isinstance(error, Cancelled):
                return error.code
            known = isinstance(error, AxlaError)
            raised[frame] = error if known else CollectiveFailure(f"{self.names[me]}: {error!r}")
            return abi.COLLECTIVE

    def scratch(self, participant: int, size: int) -> int:
        """The address of at least `size` bytes for data that a participant receives; the memory is kept
        between visits.
        """
        if len(self._scratch.get(participant, b"")) < size:
            self._scratch[participant] = (c.c_char * size)()
        scratch = self._scratch.get(participant)
        return c.addressof(scratch) if scratch is not None else 0
