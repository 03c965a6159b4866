"""Messages between the processes of a job, and the wait for their completion."""

from __future__ import annotations

import contextlib
import ctypes as c
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from axla.core import flags
from axla.core.errors import Cancelled, DeadlineExceeded, UnsupportedError
from axla.custom.mailbox import Mailbox
from axla.program import abi

PAUSE = 50e-6
"""The seconds between tests of a request, once it takes longer than its transfer should."""
_SPIN, _RATE = 1e-3, 200e6
"""A wait tests requests without a pause for _SPIN seconds, and in addition for the seconds that their bytes
take at a rate of _RATE bytes per second.
"""
Pending = list[tuple[Any, str]]
"""(MPI request, name of the process at the other end) pairs."""


def wait(pending: Pending, about: str, size: int = 0, stops: Sequence[int] = ()) -> None:
    """Waits until all requests are done, which transfer `size` bytes in total. `about` describes the wait in
    messages.

    Cancelled if one of the codes at the addresses `stops` becomes nonzero. DeadlineExceeded, with the names
    of the processes that are awaited, if this code means the deadline of the run, or after the seconds of the
    flag `collective_timeout`. Unfinished requests then continue, so that their memory must be kept.
    """
    begin, limit = time.monotonic(), flags.current().collective_timeout
    codes = [c.c_int32(), *map(c.c_int32.from_address, stops)]
    while pending := [item for item in pending if not item[0].Test()]:
        passed, code = time.monotonic() - begin, max(flag.value for flag in codes)
        if code or passed > limit:
            if code not in (0, abi.DEADLINE):
                raise Cancelled(f"{about} was stopped", code)
            names = " and ".join(dict.fromkeys(name for _, name in pending))
            raise DeadlineExceeded(f"{about} has waited {passed:.3g} s for {names}", abi.DEADLINE)
        if passed > _SPIN + size / _RATE:
            time.sleep(PAUSE)


class MpiMailbox(Mailbox):
    """The mailbox of one run, which also receives from, and sends to, other processes. An address is a
    channel and a participant.
    """

    def __init__(self, engine: Any, run: int) -> None:
        super().__init__()
        self.engine, self.job, self.run = engine, engine.job, (engine.number, run)
        self._sent: list[tuple[Any, str]] = []

    def _place(self, address: Any) -> tuple[int, int]:
        """(rank, device) of the participant of an address."""
        if address[1] is None:
            about = f"{self.engine.interface.name}: channel {address[0]}"
            raise UnsupportedError(f"{about}: between processes _xla_send_recv_source_target_pairs is needed")
        return divmod(self.engine.places[address[1]], self.job.local)

    def send(self, address: Any, value: Any) -> None:
        """Sends a value to a participant; by MPI, if the participant is in another process."""
        rank, device = self._place(address)
        if rank == self.job.index:
            return super().send(address, value)
        request = self.job.messages.isend((self.run, address, value), rank, 1 + device)
        self._sent.append((request, self.engine.names[address[1]]))
        left = self.job.left
        with contextlib.suppress(IndexError):  # the queue is empty
            for _ in range(2):  # more than are added per message
                if not (oldest := left.popleft())[0].Test():
                    left.append(oldest)

    def __del__(self) -> None:
        self.job.left.extend(self._sent)

    def take(self, address: Any, check: Callable[[], None], found: Any = None) -> Any:
        """Takes the oldest value for an address, as `Mailbox.take` does; only the participant of the address
        calls this. Values for later runs are kept.
        """
        tag, begin = 1 + self._place(address)[1], time.monotonic()
        letters, arriving = self.job.letters, self.job.arriving
        engine, run = self.run
        mine = letters.setdefault((engine, address), deque())
        while not super().has(address) and not (mine and mine[0][0] == run):
            check()
            if mine and mine[0][0] < run:  # from a run that has failed
                mine.popleft()
            if tag not in arriving and (message := self.job.messages.improbe(tag=tag)) is not None:
                arriving[tag] = message.irecv()
            done: Any = arriving[tag].test() if tag in arriving else (False, None)
            if done[0]:
                (number, its_run), where, value = done[1]
                letters.setdefault((number, where), deque()).append((its_run, value))
                del arriving[tag]
            elif time.monotonic() - begin > flags.current().collective_timeout:
                about = f"{self.engine.interface.name}: {self.engine.names[address[1]]}"
                raise DeadlineExceeded(f"{about} has received nothing on channel {address[0]}", abi.DEADLINE)
            else:
                time.sleep(PAUSE)
        value = mine.popleft()[1] if mine and mine[0][0] == run else super().take(address, check, found)
        if not mine:
            del letters[engine, address]
        return value

    def has(self, address: Any) -> bool:
        """Returns True, since the value may still arrive from another process; `take` has a time-out."""
        return True

    def failed(self, error: BaseException) -> None:
        """Marks the job as broken: other processes may still wait in a collective of this run, and must not
        meet a later collective of this process there.
        """
        if self.engine.channels:
            self.job.broken = self.job.broken or str(error)

    def finish(self) -> None:
        """Waits until this process has sent all values."""
        wait(self._sent, f"{self.engine.interface.name}: a send")
