"""The participants of one run that are in this process: their shared state, deadlocks, and the end of the
run.
"""

from __future__ import annotations

import ctypes as c
import itertools
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from axla.codegen.native.collectives import COLLECTIVE, RENDEZVOUS, SLOT
from axla.codegen.native.structs import ENDED, GRID, NOT_BEGUN, PEERS, QUEUE, RUNS, WAITS
from axla.core import locks
from axla.core.errors import CollectiveFailure, DeadlineExceeded
from axla.custom.mailbox import Mailbox
from axla.program import abi
from axla.program.interface import RendezvousKey
from axla.runtime.callbacks import grids
from axla.runtime.native import native
from axla.runtime.queue import Failure, Task, raised_again

_Collective: Any = COLLECTIVE.ctypes()
_SHOWN = 8
"""The largest number of participants that a message lists."""
_PLAIN = {NOT_BEGUN: "has not begun", RUNS: "runs", ENDED: "has ended"}
"""States in which a participant does not wait for another one."""
_runs = itertools.count(1 << 32)
launch = locks.new_lock()
"""Held while the tasks of a run are put into the queues, so that all devices start runs in the same order."""


class Grid:
    """One run of several participants, which run one program or one each. Participant p is partition p %
    partitions of replica p // partitions, and runs on `devices[p]`.
    """

    def __init__(self, replicas: int, partitions: int, devices: Sequence[int]) -> None:
        self.partitions = partitions
        self.devices = devices
        self.number = next(_runs)
        self.mailbox = Mailbox()
        self.failure: BaseException | None = None
        self.told: list[Failure] = []
        """Holds at most one failure: the one shared by the results of all participants."""
        self._rendezvous_by_key: dict[RendezvousKey, tuple[Any, Any]] = {}
        self._waits: dict[int, tuple[Any, str]] = {}  # participant -> (address in the mailbox, where)
        self._here: list[Any] = []  # one per local participant: (keys, PEERS, program)
        self._seen: Any = None  # the counters at the last call of `look`
        self.states = (c.c_int64 * (replicas * partitions))()
        self.struct: Any = GRID.ctypes()(run_id=self.number, states=c.addressof(self.states))
        grids[self.number] = self

    def peers(self, loaded: Any) -> int:
        """Returns the address of a PEERS struct for the loaded program of one participant."""
        keys, program = loaded.interface.rendezvous_keys, loaded.block
        table = (c.c_void_p * max(len(keys), 1))(*[self._rendezvous(key) for key in keys])
        number = program.replica * self.partitions + program.partition
        made = PEERS.ctypes()(
            grid=c.addressof(self.struct), rendezvous_keys=c.addressof(table), number=number
        )
        self._here.append((table, made, loaded))
        return c.addressof(made)

    def _rendezvous(self, key: RendezvousKey) -> int:
        if key not in self._rendezvous_by_key:
            slots = (SLOT.ctypes() * len(key.members))()
            made = RENDEZVOUS.ctypes()(
                size=len(key.members), slots=c.addressof(slots), number=len(self._rendezvous_by_key)
            )
            self._rendezvous_by_key[key] = made, slots
        return c.addressof(self._rendezvous_by_key[key][0])

    # Failures and the end of a run.

    def stop(self, code: int) -> None:
        """Stops all participants. `code` is the reason; that of an earlier call is kept."""
        self.struct.stop = self.struct.stop or code

    def failed(self, error: BaseException) -> BaseException:
        """Records the error of a participant, and returns the error of the run: the first one recorded."""
        if self.failure is None:
            self.failure = self._clash() if self.struct.clash else error
            self.mailbox.failed(self.failure)
        self.struct.culprit = -1
        return self.failure

    def _clash(self) -> CollectiveFailure:
        """Makes the error about participants that meet in a rendezvous with different collectives."""
        rendezvous, (_, slots) = list(self._rendezvous_by_key.items())[self.struct.clash - 1]
        found: dict[int, str] = {}
        for member, slot in zip(rendezvous.members, slots, strict=True):
            head = _Collective.from_address(slot.collective)
            found.setdefault(head.digest, f"{_text(slot)} of {self.name(member)}")
        met = " met ".join(found.values())
        message = f"{met}, in a rendezvous {rendezvous}: they differ in operation, shapes or reducer"
        return CollectiveFailure(message, abi.COLLECTIVE)

    def wait(self, tasks: Sequence[Task]) -> None:
        """Waits until all tasks have ended. Raises the error of the run if it failed."""
        try:
            for task in tasks:
                while task.is_left():
                    steps = task.queue.struct.steps
                    if task.is_left():
                        native().sleep_briefly(task.queue.address + QUEUE.offset("steps"), steps)
                    self.look()
        except BaseException:
            for task in tasks:
                task.stop(abi.INTERRUPTED)
            raise
        if self.failure is not None:
            for failure in self.told:
                failure()
            raise raised_again(self.failure)

    # Deadlocks.

    def look(self) -> None:
        """Stops the run if it is in a deadlock: no participant has made progress since the last call, and
        each has ended or waits for something that is missing.
        """
        states, *_ = now = self._moves()
        seen, self._seen = self._seen, now
        if now != seen or RUNS in states or set(states) == {ENDED} or self.struct.stop:
            return
        doing = [self._doing(p, state) for p, state in enumerate(states) if state != ENDED]
        if all(in_vain for _, in_vain in doing) and self._moves() == now:
            self.failed(CollectiveFailure(f"participants wait for ever: {_listed(doing)}", abi.COLLECTIVE))
            self.stop(abi.COLLECTIVE)

    def _moves(self) -> tuple[tuple[int, ...], list[int], int]:
        """The counters that change when any participant makes progress."""
        visits = [slot.visits for _, slots in self._rendezvous_by_key.values() for slot in slots]
        return tuple(self.states), visits, self.mailbox.moved

    def expire(self, name: str) -> None:
        """Called before a deadline stops a run, which has the name `name`. Records an error with what each
        participant is doing.
        """
        states = tuple(self.states)
        if self.struct.stop or set(states) == {ENDED} or len(self._here) < len(states):
            return
        doing = _listed([self._doing(p, state) for p, state in enumerate(states)])
        self.failed(DeadlineExceeded(f"{name}: the deadline passed before its end: {doing}", abi.DEADLINE))

    def _doing(self, participant: int, state: int) -> tuple[str, bool]:
        """Returns (what a participant is doing, as text; whether it waits for something that is missing)."""
        name = self.name(participant)
        if state in _PLAIN:
            return f"{name} {_PLAIN[state]}", False
        if state == WAITS:
            address, where = self._waits[participant]
            return f"{name} {where}", not self.mailbox.has(address)
        rendezvous, (_, slots) = list(self._rendezvous_by_key.items())[state - 1]
        visits = {m: slot.visits for m, slot in zip(rendezvous.members, slots, strict=True)}
        absent = [m for m in visits if visits[m] < visits[participant]]
        missing = " and ".join(f"({self.name(m)})" for m in absent[:_SHOWN])
        name += " in " + _text(slots[rendezvous.members.index(participant)])
        return name + (f" for {missing}" if absent else ""), bool(absent)

    def name(self, participant: int) -> str:
        """Names the replica and partition of a participant, for messages."""
        replica, partition = divmod(participant, self.partitions)
        return f"replica {replica}, partition {partition}"

    def receive(self, participant: int, address: Any, where: str, check: Any) -> Any:
        """Waits for the oldest value sent to an address, and returns it. `where` is the waiting op for
        messages; `check` raises an exception if the run is cancelled.
        """
        self._waits[participant] = address, where
        self.states[participant] = WAITS

        def found() -> None:
            self.states[participant] = RUNS

        return self.mailbox.take(address, check, found)


def _text(slot: Any) -> str:
    """The text of the collective whose operands are in a slot of a rendezvous."""
    return c.string_at(slot.collective + _Collective.from_address(slot.collective).text).decode()


def _listed(doing: Sequence[tuple[str, bool]]) -> str:
    more = f"; and {len(doing) - _SHOWN} more" if len(doing) > _SHOWN else ""
    return "; ".join(text for text, _ in doing[:_SHOWN]) + more


# Asynchronous runs. One thread looks for deadlocks in all of them, as long as there are any.

_watched: list[tuple[Grid, Sequence[Task]]] = []
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_watched.clear)


def watch(grid: Grid, tasks: Sequence[Task]) -> None:
    """Looks for deadlocks in a run, in another thread, until the run has ended."""
    with launch:
        _watched.append((grid, tasks))
        if len(_watched) == 1:
            threading.Thread(target=_watch, daemon=True, name="axla runs").start()


def _watch() -> None:
    while True:
        time.sleep(0.02)
        with launch:
            _watched[:] = [row for row in _watched if not all(task.struct.ended for task in row[1])]
            if not _watched:
                return
        for grid, _ in list(_watched):
            grid.look()
