"""Processes: replicas and partitions of a run, in one process of the operating system.

Each is a thread, but only one has the turn: it runs until it must wait for another, ends, or offers its turn.
So a run does the same every time, and when nobody can go on, that is known at once: no peer is waited for in
vain. The first failure ends the run of all.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from axla.core.errors import Cancelled, CollectiveFailure, OutOfMemory

HostValue = Any

LOOK = 0.2
"""Seconds after which whoever started a run looks for Ctrl-C, where a wait is not interrupted by it."""

SHOWN = 8
"""How many of those that wait for each other a message names."""


class Process:
    """One replica and partition of a grid. `number` counts replicas, and within them partitions."""

    def __init__(self, grid: ParticipantProcesses, number: int) -> None:
        self.grid = grid
        self.number = number
        self.device = grid.devices[number]
        self.replica, self.partition = divmod(number, grid.partitions)
        self.result: HostValue = None
        self.waits = ""  # where, and for whom
        self.turn = threading.Lock()  # free when this one may run
        self.turn.acquire()

    def __str__(self) -> str:
        return f"replica {self.replica}, partition {self.partition}"

    def check(self) -> None:
        """Cancelled when the run has failed elsewhere."""
        if self.grid.failure is not None:
            raise Cancelled(f"{self} stopped with the others")

    def offer(self) -> None:
        """Lets others run first, if any can: for whoever waits for somebody outside the grid."""
        if self.grid.ready:
            self.grid.ready.append(self)
            self._until_my_turn()

    def wait(self, key: Hashable, where: str) -> None:
        """Leaves the turn to others until one of them calls `ParticipantProcesses.wake` with the key."""
        self.waits = where
        self.grid.parked.setdefault(key, []).append(self)
        self._until_my_turn()

    def _until_my_turn(self) -> None:
        self.grid.next()
        self.turn.acquire()
        self.check()

    # RendezvousKeys: all members bring something, and each takes something away.

    def meet(
        self, members: Sequence[int], channel: int | None, kind: Hashable, name: str, brought: HostValue,
        combine: Callable[[list[HostValue]], Sequence[HostValue]],
    ) -> HostValue:  # fmt: skip
        """The result of `combine` for this participant, from the operands of all participants in their
        order.

        Whoever of the members comes to a rendezvous on the channel must be there for the same `kind`.
        """
        found, key = self.grid.rendezvous, (tuple(members), channel)
        rendezvous = found.setdefault(key, Rendezvous(kind, name, self))
        if rendezvous.kind != kind:
            raise CollectiveFailure(
                f"{name} of {self} meets {rendezvous.name} of {rendezvous.first}, which is another "
                "operation, or has other shapes or another reducer"
            )
        rendezvous.brought[self.number] = brought
        missing = [m for m in members if m not in rendezvous.brought]
        if missing:
            while rendezvous.taken is None:
                self.wait(rendezvous, f"in {name} for {self.grid.names(missing)}")
            return rendezvous.taken[self.number]
        del found[key]
        results = combine([rendezvous.brought[m] for m in members])
        rendezvous.taken = dict(zip(members, results, strict=True))
        self.grid.wake(rendezvous)
        return rendezvous.taken[self.number]

    # Mailbox: one sends, another receives, in order.

    def send(self, address: Hashable, value: HostValue) -> None:
        """Puts a value into the mailbox of an address."""
        self.grid.mailbox.setdefault(address, deque()).append(value)
        self.grid.wake(address)

    def receive(self, address: Hashable, name: str) -> HostValue:
        """Takes the oldest value from the mailbox of an address; waits for one."""
        while not self.grid.mailbox.get(address):
            self.wait(address, f"in {name} for what nobody sent")
        return self.grid.mailbox[address].popleft()


class Rendezvous:
    """A collective that somebody has come to."""

    def __init__(self, kind: Hashable, name: str, first: Process) -> None:
        self.kind = kind
        self.name = name
        self.first = first
        self.brought: dict[int, HostValue] = {}
        self.taken: dict[int, HostValue] | None = None


class ParticipantProcesses:
    """The processes of one run and what they share. Process p has the queues of the p-th of `devices`, the
    first in order by default; `infeed` stands for all of them.
    """

    def __init__(
        self, replicas: int, partitions: int, infeed: deque[HostValue] | None = None,
        devices: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.devices = devices or range(replicas * partitions)
        self.replicas = replicas
        self.partitions = partitions
        self.infeed = infeed
        self.processes = [Process(self, n) for n in range(replicas * partitions)]
        self.failure: BaseException | None = None
        self.ready: deque[Process] = deque()
        self.parked: dict[Hashable, list[Process]] = {}
        self.rendezvous: dict[Hashable, Rendezvous] = {}
        self.mailbox: dict[Hashable, deque[HostValue]] = {}
        self._ended = threading.Event()

    def run(self, programs: Sequence[Callable[[Process], HostValue]]) -> list[HostValue]:
        """The results of each program for its participant. Raises the first failure when all have stopped."""
        threads = []
        for process, program in zip(self.processes, programs, strict=True):
            context = contextvars.copy_context()
            thread = threading.Thread(
                target=context.run, args=(self._run_one, process, program), daemon=True, name=str(process)
            )
            try:
                thread.start()
            except RuntimeError as error:
                self.failure = OutOfMemory(f"no thread for {process}: {error}")
                break
            threads.append(thread)
            self.ready.append(process)
        self.next()
        try:
            while not self._ended.wait(LOOK):
                pass
        except BaseException:
            self.failure = self.failure or Cancelled("the run was interrupted")
            raise
        finally:
            for thread in threads:
                thread.join()
        if self.failure is not None:
            raise self.failure
        return [process.result for process in self.processes]

    def _run_one(self, process: Process, program: Callable[[Process], HostValue]) -> None:
        process.turn.acquire()
        try:
            process.check()
            process.result = program(process)
        except BaseException as error:  # noqa: BLE001  (raised where the run was started)
            if self.failure is None:
                error.add_note(f"in {process}")
                self.failure = error
        finally:
            self.next()

    def next(self) -> None:
        """Gives the turn away. When nobody can take it, all that wait do so in vain."""
        if not self.ready and self.parked:
            waiting = [process for group in self.parked.values() for process in group]
            if self.failure is None:
                said = "; ".join(f"{process} {process.waits}" for process in waiting[:SHOWN])
                more = f"; and {len(waiting) - SHOWN} more" if len(waiting) > SHOWN else ""
                self.failure = CollectiveFailure(f"processes wait for ever: {said}{more}")
            self.ready.extend(waiting)
            self.parked.clear()
        if self.ready:
            self.ready.popleft().turn.release()
        else:
            self._ended.set()

    def wake(self, key: Hashable) -> None:
        """Lets those go on that wait for the key."""
        self.ready.extend(self.parked.pop(key, ()))

    def names(self, numbers: Iterable[int]) -> str:
        """Participants by replica and partition, for messages."""
        return " and ".join(f"({self.processes[n]})" for n in numbers)
