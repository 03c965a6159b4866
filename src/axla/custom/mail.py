"""What the only replica of a run has sent to itself and not yet received: a queue per run and channel."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

from axla.core import locks
from axla.core.errors import RuntimeFailure

_MOST = 1024  # queues; the oldest are what runs that ended left behind

_queues: OrderedDict[tuple[int, str], deque[Any]] = OrderedDict()
_lock = locks.new_lock()


def post(run: int, channel: str, value: Any) -> None:
    """Sends a value that nobody else has."""
    with _lock:
        _queues.setdefault((run, channel), deque()).append(value)
        while len(_queues) > _MOST:
            _queues.popitem(last=False)


def collect(run: int, channel: str, what: str) -> Any:
    """The oldest value that was sent; RuntimeFailure when there is none, as nobody else could send one."""
    with _lock:
        waiting = _queues.get((run, channel))
        if not waiting:
            raise RuntimeFailure(
                f"{what}: nothing was sent on channel {channel}, and the only replica waits here for it"
            )
        value = waiting.popleft()
        if not waiting:
            del _queues[run, channel]
        return value
