"""Values sent between the participants of a run and not yet received: a queue for each address."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Any

from axla.core import locks

_MOST = 1024  # mailboxes that are kept; older runs have ended
_POLL = 0.01


class Mailbox:
    """The mailbox of a run. `moved` is the number of values sent plus that of values received."""

    def __init__(self) -> None:
        self.moved = 0
        self._queues: dict[Hashable, deque[Any]] = {}
        self._changed = threading.Condition(locks.new_lock())

    def send(self, address: Hashable, value: Any) -> None:
        """Sends a value to an address. The sender must not keep the value."""
        with self._changed:
            self._queues.setdefault(address, deque()).append(value)
            self.moved += 1
            self._changed.notify_all()

    def has(self, address: Hashable) -> bool:
        """Whether a value is waiting at the address."""
        return bool(self._queues.get(address))

    def take(self, address: Hashable, check: Callable[[], None], found: Any = None) -> Any:
        """Waits for the oldest value at the address, removes it and returns it. `check` is called while
        waiting, and raises an exception to end the wait; `found` is called before the value is removed.
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
        """Called when the run has failed. A subclass that sends to other processes reports the error to
        them.
        """

    def finish(self) -> None:
        """Called at the end of the run. A subclass that sends to other processes waits until everything is
        sent.
        """


_runs: OrderedDict[int, Mailbox] = OrderedDict()
_lock = locks.new_lock()


def mailbox_of(run: int) -> Mailbox:
    """The mailbox of a run with one participant, given by its run id."""
    with _lock:
        found = _runs.setdefault(run, Mailbox())
        while len(_runs) > _MOST:
            _runs.popitem(last=False)
        return found
