"""Messages between participants of a run that are not yet received: a queue for each address."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Any

from axla.core import locks

_MOST = 1024  # runs; the oldest have ended
_POLL = 0.01


class Mailbox:
    """The mailbox of a run. `moved` counts what was sent and received."""

    def __init__(self) -> None:
        self.moved = 0
        self._queues: dict[Hashable, deque[Any]] = {}
        self._changed = threading.Condition(locks.new_lock())

    def send(self, address: Hashable, value: Any) -> None:
        """Sends a value that nobody else has."""
        with self._changed:
            self._queues.setdefault(address, deque()).append(value)
            self.moved += 1
            self._changed.notify_all()

    def has(self, address: Hashable) -> bool:
        """Whether something was sent there."""
        return bool(self._queues.get(address))

    def take(self, address: Hashable, check: Callable[[], None], found: Any = None) -> Any:
        """The oldest value that was sent; waits for one. `check` raises when that has no point any more,
        `found` is called before the value is taken.
        """
        with self._changed:
            while not self._queues.get(address):
                check()
                self._changed.wait(_POLL)
            if found is not None:
                found()
            self.moved += 1
            return self._queues[address].popleft()

    def failed(self, error: BaseException) -> None:
        """When the run has failed: tells what others rely on."""

    def finish(self) -> None:
        """At the end of the run: waits until what was sent has left this process."""


_runs: OrderedDict[int, Mailbox] = OrderedDict()
_lock = locks.new_lock()


def mailbox_of(run: int) -> Mailbox:
    """The mailbox of a run of one participant."""
    with _lock:
        found = _runs.setdefault(run, Mailbox())
        while len(_runs) > _MOST:
            _runs.popitem(last=False)
        return found
