"""Locks that are free in a forked child, whichever thread of the parent held them.

The data that they guard is left as it was at that moment: use them only for data that is consistent after
each statement.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

_locks: WeakSet[Any] = WeakSet()


def new_lock(kind: Callable[[], Any] = threading.Lock) -> Any:
    """A `threading.Lock` or RLock that is free after a fork."""
    made = kind()
    _locks.add(made)
    return made


def hold_over_forks(lock: Any) -> None:
    """Makes a fork wait until a library's lock is free: otherwise its state would be inconsistent in the
    child.
    """
    held: list[bool] = []

    def acquire() -> None:
        lock.acquire()
        held.append(True)

    def release() -> None:
        if held:  # else this was called while another thread forked, after the functions before it
            held.pop()
            lock.release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=acquire, after_in_parent=release, after_in_child=release)


importing = threading.RLock()
"""Held while a module is imported at its first use: the child of a fork would wait for ever for one that
another thread is importing.
"""
hold_over_forks(importing)


def _free_all() -> None:
    for lock in _locks:
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
