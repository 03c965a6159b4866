"""Python's cyclic collector, out of the way of what builds large graphs."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_paused_by: int | None = None  # the thread that has paused it


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keeps the cyclic collector from walking a growing graph again and again (half the time of a parser)."""
    global _paused_by
    was_enabled = gc.isenabled()
    gc.disable()
    if was_enabled:
        _paused_by = threading.get_ident()
    try:
        yield
    finally:
        if was_enabled:
            _paused_by = None
            gc.enable()


def _after_fork() -> None:
    """A thread that had paused it is not in the child."""
    if _paused_by not in (None, threading.get_ident()):
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
