"""Processes: the replicas and partitions of a run, all in one process of the operating system.

Each process is a thread, but only one process runs at a time: until it must wait for another one, ends, or
lets other processes run. So a run is deterministic, and a deadlock is detected at once: no process waits for
one that cannot come. The first failure ends the run of all processes.
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
"""The seconds between checks for Ctrl-C while a run is waited for; needed where waiting cannot be
interrupted."""

SHOWN = 8
"""The largest number of waiting processes that a message lists."""


class Process:
    """One replica and partition of a run. `number` is replica * partitions + partition."""

    def __init__(self, grid: ParticipantProcesses, number: int) -> None:
        self.grid = grid
        self.number = number
        self.device = grid.devices[number]
        self.replica, self.partition = divmod(number, grid.partitions)
        self.result: HostValue = None
        self.waits = ""  # the op it waits in, and for whom
        self.turn = threading.Lock()  # free while this process may run
        self.turn.acquire()

    def __str__(self) -> str:
        return f"replica {self.replica}, partition {self.partition}"

    def check(self) -> None:
        """Raises Cancelled if another process of the run has failed."""
        if self.grid.failure is not None:
            raise Cancelled(f"{self} was stopped, as another process failed")

    def offer(self) -> None:
        """Lets other processes run first, if any can. Called by a process that waits for the host."""
        if self.grid.ready:
            self.grid.ready.append(self)
            self._until_my_turn()

    def wait(self, key: Hashable, where: str) -> None:
        """Lets other processes run until one calls `ParticipantProcesses.wake` with the key. `where`
        describes the wait in error messages.
        """
        self.waits = where
        self.grid.parked.setdefault(key, []).append(self)
        self._until_my_turn()

    def _until_my_turn(self) -> None:
        self.grid.next()
        self.turn.acquire()
        self.check()

    # Rendezvous: each participant brings operands and gets a result.

    def meet(
        self, members: Sequence[int], channel: int | None, kind: Hashable, name: str, brought: HostValue,
        combine: Callable[[list[HostValue]], Sequence[HostValue]],
    ) -> HostValue:  # fmt: skip
        """Waits until all participants have brought their operands. Calls `combine` with the operands of all
        in the order of `members`, and returns this participant's part of the result.

        `kind` has the operation and its shapes. Raises CollectiveFailure if another participant comes to the
        rendezvous on the channel with another `kind`.
        """
        found, key = self.grid.rendezvous, (tuple(members), channel)
        rendezvous = found.setdefault(key, Rendezvous(kind, name, self))
        if rendezvous.kind != kind:
            raise CollectiveFailure(
                f"{name} of {self} meets {rendezvous.name} of {rendezvous.first}, which differs "
                "in operation, shapes or reducer"
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

    # Mailbox: values between two processes, in order.

    def send(self, address: Hashable, value: HostValue) -> None:
        """Adds a value to the mailbox of an address."""
        self.grid.mailbox.setdefault(address, deque()).append(value)
        self.grid.wake(address)

    def receive(self, address: Hashable, name: str) -> HostValue:
        """Waits for the oldest value in the mailbox of an address, removes it and returns it. `name` is the
        waiting op.
        """
        while not self.grid.mailbox.get(address):
            self.wait(address, f"in {name} for data, which nobody sent")
        return self.grid.mailbox[address].popleft()


class Rendezvous:
    """A collective for which at least one participant is waiting."""

    def __init__(self, kind: Hashable, name: str, first: Process) -> None:
        self.kind = kind
        self.name = name
        self.first = first
        self.brought: dict[int, HostValue] = {}
        self.taken: dict[int, HostValue] | None = None


class ParticipantProcesses:
    """The processes of one run, and the state that they share. Process p uses the queues of device
    `devices[p]`, by default device p. If `infeed` is given, it replaces the infeeds of all devices.
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
        """Runs a program in each process, and returns the result of each. Raises the first failure after all
        have stopped.
        """
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
        """Lets the next ready process run. If none is ready but some wait, these are in a deadlock, and the
        run fails.
        """
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
        """Makes the processes that wait for the key ready to run."""
        self.ready.extend(self.parked.pop(key, ()))

    def names(self, numbers: Iterable[int]) -> str:
        """The names of the processes with these numbers, for messages."""
        return " and ".join(f"({self.processes[n]})" for n in numbers)
