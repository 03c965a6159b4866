"""Messages between the processes of a job: over what they go, and waiting for them."""

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
"""Seconds between tests, when what is awaited takes longer than bytes take."""
_SPIN, _RATE = 1e-3, 200e6
"""Seconds of tests without a pause, and bytes a second that are added to them."""
Pending = list[tuple[Any, str]]
"""Requests, with the names of the other sides."""


def wait(pending: Pending, about: str, size: int = 0, stops: Sequence[int] = ()) -> None:
    """Waits until requests are done, for which `size` bytes come and go in all.

    Cancelled when one of the codes at the addresses `stops` is not 0. DeadlineExceeded, which names those
    that are awaited, when that is the deadline of the run, or they have not come within the seconds of the
    flag `collective_timeout`. Then requests that are not done go on: their memory must stay.
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
    """The mailbox of one run, also with other processes. An address is a channel and a participant."""

    def __init__(self, engine: Any, run: int) -> None:
        super().__init__()
        self.engine, self.job, self.run = engine, engine.job, (engine.number, run)
        self._sent: list[tuple[Any, str]] = []

    def _place(self, address: Any) -> tuple[int, int]:
        """The process of a participant, and its device there."""
        if address[1] is None:
            about = f"{self.engine.interface.name}: channel {address[0]}"
            raise UnsupportedError(f"{about}: between processes it needs _xla_send_recv_source_target_pairs")
        return divmod(self.engine.places[address[1]], self.job.local)

    def send(self, address: Any, value: Any) -> None:
        """Sends a value to a participant, by MPI if it is in another process."""
        rank, device = self._place(address)
        if rank == self.job.index:
            return super().send(address, value)
        request = self.job.messages.isend((self.run, address, value), rank, 1 + device)
        self._sent.append((request, self.engine.names[address[1]]))
        left = self.job.left
        with contextlib.suppress(IndexError):  # none is left
            for _ in range(2):  # more than come
                if not (oldest := left.popleft())[0].Test():
                    left.append(oldest)

    def __del__(self) -> None:
        self.job.left.extend(self._sent)

    def take(self, address: Any, check: Callable[[], None], found: Any = None) -> Any:
        """The oldest value for an address; only its participant asks. What is of later runs is kept."""
        tag, begin = 1 + self._place(address)[1], time.monotonic()
        letters, arriving = self.job.letters, self.job.arriving
        engine, run = self.run
        mine = letters.setdefault((engine, address), deque())
        while not super().has(address) and not (mine and mine[0][0] == run):
            check()
            if mine and mine[0][0] < run:  # of one that has failed
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
        """True: what is not there may come from another process; `take` has a time-out."""
        return True

    def failed(self, error: BaseException) -> None:
        """Others may wait in a collective of this run; they are not to meet the next one there."""
        if self.engine.channels:
            self.job.broken = self.job.broken or str(error)

    def finish(self) -> None:
        """Waits until all sent values have left this process."""
        wait(self._sent, f"{self.engine.interface.name}: what was sent")
