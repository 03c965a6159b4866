"""The participants of one run in this process: what they share, and how the run of all ends."""

from __future__ import annotations

import ctypes as c
import itertools
from collections.abc import Sequence
from typing import Any

from axla.codegen.native.collectives import MEETING, SLOT
from axla.codegen.native.structs import ENDED, GRID, PEERS, QUEUE, RUNS, WAITS
from axla.core import locks
from axla.core.errors import Cancelled, CollectiveFailure
from axla.custom.mail import Mail
from axla.program import abi
from axla.program.interface import Meeting
from axla.runtime.functions import grids
from axla.runtime.native import native
from axla.runtime.queue import Task

_SHOWN = 8
"""How many of those that wait for each other a message names."""
_runs = itertools.count(1 << 32)
launch = locks.new_lock()
"""Held while the tasks of a run are handed over: all devices start runs in one order."""


class Grid:
    """One run of several participants: of one program, or each of its own. Participant p is partition
    p % partitions of replica p // partitions, and has the feeds of the p-th of `devices`.
    """

    def __init__(self, replicas: int, partitions: int, devices: Sequence[int]) -> None:
        self.partitions = partitions
        self.devices = devices
        self.number = next(_runs)
        self.mail = Mail()
        self.failure: BaseException | None = None
        self.awaited = False
        """Whether somebody waits for the run, and gets its failure."""
        self._meetings: dict[Meeting, tuple[Any, Any]] = {}
        self._waits: dict[int, tuple[Any, str]] = {}  # participant -> (address of its mail, where it waits)
        self._kept: list[Any] = []
        self.states = (c.c_int64 * (replicas * partitions))()
        self.struct: Any = GRID.ctypes()(
            partitions=partitions, run_id=self.number, states=c.addressof(self.states)
        )
        grids[self.number] = self

    def peers(self, meetings: Sequence[Meeting]) -> int:
        """The address of PEERS for a program with these meetings."""
        table = (c.c_void_p * max(len(meetings), 1))(*[self._meeting(m) for m in meetings])
        made = PEERS.ctypes()(grid=c.addressof(self.struct), meetings=c.addressof(table))
        self._kept += table, made
        return c.addressof(made)

    def _meeting(self, meeting: Meeting) -> int:
        if meeting not in self._meetings:
            slots = (SLOT.ctypes() * len(meeting.members))()
            made = MEETING.ctypes()(
                size=len(meeting.members), slots=c.addressof(slots), number=len(self._meetings)
            )
            self._meetings[meeting] = made, slots
        return c.addressof(self._meetings[meeting][0])

    # The end of a run.

    def stop(self, code: int) -> None:
        """Stops the run of all; the first says why."""
        if not self.struct.stop:
            self.struct.stop = code

    def failed(self, error: BaseException) -> BaseException:
        """What a participant fails with: the first failure of the run."""
        if self.failure is None:
            self.failure = error
        return self.failure

    def wait(self, tasks: Sequence[Task]) -> None:
        """Waits until all have ended. Raises the failure of the run, when it has one."""
        queue, seen = tasks[0].loaded.queue, None
        try:
            while not all(task.struct.ended for task in tasks):
                steps = queue.struct.steps
                if not all(task.struct.ended for task in tasks):
                    native().sleep_briefly(queue.address + QUEUE.offset("steps"), steps)
                seen = self._look(seen)
        except BaseException:
            self.stop(abi.INTERRUPTED)
            for task in tasks:
                task.stop(abi.INTERRUPTED)
            raise
        if self.failure is not None:
            raise self.failure

    # Who waits for whom.

    def _look(self, seen: Any) -> Any:
        """Stops the run when nobody has moved since the last look, and all wait in vain or have ended."""
        states = tuple(self.states)
        visits = [slot.visits for _, slots in self._meetings.values() for slot in slots]
        now = states, visits, self.mail.moved
        if now != seen or RUNS in states or set(states) == {ENDED} or self.struct.stop:
            return now
        waiting = {p: state for p, state in enumerate(states) if state != ENDED}
        said = [self._in_vain(p, state) for p, state in waiting.items()]
        if not all(said):
            return now
        shown = "; ".join(said[:_SHOWN]) + (f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else "")
        self.failed(CollectiveFailure(f"participants wait for ever: {shown}", abi.COLLECTIVE))
        self.stop(abi.COLLECTIVE)
        return now

    def _in_vain(self, participant: int, state: int) -> str:
        """What a participant waits for that is not there; "" when it is."""
        if state == WAITS:
            address, where = self._waits.get(participant, (None, ""))
            return f"{self.name(participant)} {where}" if address and not self.mail.has(address) else ""
        members = list(self._meetings)[state - 1].members
        absent = [m for m in members if self.states[m] != state]
        missing = " and ".join(f"({self.name(m)})" for m in absent[:_SHOWN])
        return f"{self.name(participant)} in a collective for {missing}" if absent else ""

    def name(self, participant: int) -> str:
        replica, partition = divmod(participant, self.partitions)
        return f"replica {replica}, partition {partition}"

    def check(self) -> None:
        """Cancelled when the run of all is to stop."""
        if self.struct.stop:
            raise Cancelled("the run stopped with that of another participant", self.struct.stop)

    def receive(self, participant: int, address: Any, where: str, check: Any) -> Any:
        """The oldest value that was sent to an address; waits for it."""
        self._waits[participant] = address, where
        self.states[participant] = WAITS
        try:
            return self.mail.take(address, check)
        finally:
            self.states[participant] = RUNS
