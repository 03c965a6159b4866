"""Locks that are free in a forked child, even if a thread of the parent held them.

The data that a lock guards stays as it was at the fork. So these locks are only for data that is consistent
after each statement.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

_locks: WeakSet[Any] = WeakSet()


def new_lock(kind: Callable[[], Any] = threading.Lock) -> Any:
    """Makes a lock, of the class `kind`, that is free after a fork."""
    made = kind()
    _locks.add(made)
    return made


def hold_over_forks(lock: Any) -> None:
    """Makes a fork wait until a lock is free. It is for locks of libraries whose state would otherwise be
    inconsistent in the child.
    """
    held: list[bool] = []

    def acquire() -> None:
        lock.acquire()
        held.append(True)

    def release() -> None:
        if held:  # empty if a thread was forking when this was registered: `acquire` did not run
            held.pop()
            lock.release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=acquire, after_in_parent=release, after_in_child=release)


importing = threading.RLock()
"""Held while a module is imported at its first use. A forked child would wait forever for an import that
another thread had begun.
"""
hold_over_forks(importing)


def _free_all() -> None:
    for lock in _locks:
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
