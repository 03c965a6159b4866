"""Messages between the processes of a job: over what they go, and waiting for them."""

from __future__ import annotations

import ctypes as c
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from mpi4py import MPI

from axla.core import flags
from axla.core.errors import Cancelled, DeadlineExceeded
from axla.custom.mail import Mail
from axla.program import abi

PAUSE = 50e-6
"""Seconds between tests, when what is awaited takes longer than bytes take."""
_SPIN, _RATE = 1e-3, 200e6
"""Seconds of tests without a pause, and bytes a second that are added to them."""
_TAGS = 1 << 12
"""Tags of the pairs of devices of two processes, for collectives that may be under way at the same time."""


Pending = list[tuple[Any, str]]
"""Requests, with the names of the other sides."""


def wait(pending: Pending, about: str, size: int = 0, stops: Sequence[int] = ()) -> None:
    """Waits until requests are done, for which `size` bytes come and go in all.

    Cancelled when one of the codes at the addresses `stops` is not 0. DeadlineExceeded, which names those
    that are awaited, when that is the deadline of the run, or they have not come within the seconds of the
    flag `collective_timeout`.
    """
    begin, limit = time.monotonic(), flags.current().collective_timeout
    codes = [c.c_int32(), *map(c.c_int32.from_address, stops)]
    while pending := [item for item in pending if not item[0].Test()]:
        passed, code = time.monotonic() - begin, max(flag.value for flag in codes)
        if code or passed > limit:
            for request, _ in pending:
                request.Cancel()
                request.Free()
            if code not in (0, abi.DEADLINE):
                raise Cancelled("the run was to stop", code)
            names = " and ".join(dict.fromkeys(name for _, name in pending))
            raise DeadlineExceeded(f"{about} has waited {passed:.3g} s for {names}", abi.DEADLINE)
        if passed > _SPIN + size / _RATE:
            time.sleep(PAUSE)


class Channel:
    """What the messages of a meeting go over: a communicator of the processes of its members, and tags."""

    def __init__(self, communicator: Any, ranks: Sequence[int], local: int, number: int) -> None:
        self.communicator, self.local = communicator, local
        self.ranks = {rank: n for n, rank in enumerate(ranks)}
        self.first = number % (_TAGS // local**2) * local**2

    def start(self, buffer: list[Any], here: int, other: int, gives: bool, salt: int) -> Any:
        """Begins to send from a device here to another, or to receive from it: a request. `salt` says for
        which collective, so that different ones wait for each other in vain.
        """
        source, target = (d % self.local for d in ((here, other) if gives else (other, here)))
        tag = salt % (self.communicator.Get_attr(MPI.TAG_UB) // _TAGS) * _TAGS
        begin = self.communicator.Isend if gives else self.communicator.Irecv
        return begin(buffer, self.ranks[other // self.local], tag + self.first + source * self.local + target)


class Post(Mail):
    """The mail of one run, also with other processes. An address is a channel and a participant."""

    def __init__(self, engine: Any, run: int) -> None:
        super().__init__()
        self.engine, self.job, self.run = engine, engine.job, (engine.number, run)
        self._sent: list[tuple[Any, str]] = []

    def send(self, address: Any, value: Any) -> None:
        place = self.engine.places[address[1]]
        if place // self.job.local == self.job.index:
            return super().send(address, value)
        letter = (self.run, address, value), place // self.job.local, 1 + place % self.job.local
        self._sent.append((self.job.messages.isend(*letter), self.engine.names[address[1]]))

    def take(self, address: Any, check: Callable[[], None]) -> Any:
        """The oldest value for an address; only its participant asks. What is of other runs is kept."""
        tag, begin, request = 1 + self.engine.places[address[1]] % self.job.local, time.monotonic(), None
        letters = self.job.letters
        while not self.has(address) and not letters.get((self.run, address)):
            check()
            if request is None and (found := self.job.messages.improbe(tag=tag)) is not None:
                request = found.irecv()
            done, letter = request.test() if request is not None else (False, None)
            if done:
                run, where, value = letter
                letters.setdefault((run, where), deque()).append(value)
                request = None
            elif time.monotonic() - begin > flags.current().collective_timeout:
                about = f"{self.engine.interface.name}: {self.engine.names[address[1]]}"
                raise DeadlineExceeded(f"{about} has received nothing on channel {address[0]}", abi.DEADLINE)
            else:
                time.sleep(PAUSE)
        mine = letters.get((self.run, address))
        return mine.popleft() if mine else super().take(address, check)

    def finish(self) -> None:
        wait(self._sent, f"{self.engine.interface.name}: what was sent")
