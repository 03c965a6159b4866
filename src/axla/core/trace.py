"""Records a trace of the compiler and the runtime, for chrome://tracing and Perfetto.

    with trace.span("llvm", kernel="fusion.3"):
        ...

Spans are recorded while the flag `trace` names a file, or inside `with trace.recording() as events`. The file
is written at exit.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from axla.core import flags, locks

_events: list[dict[str, Any]] = []
_more: list[Callable[[], list[dict[str, Any]]]] = []
_lock = locks.new_lock()
_recorders = 0
_registered = False


def enabled() -> bool:
    """Whether spans are recorded now."""
    return bool(_recorders or flags.current().trace)


@contextmanager
def span(name: str, category: str = "compile", **arguments: Any) -> Iterator[None]:
    """A context manager that records the time of the block under `name` and `category`, with `arguments`. It
    takes microseconds when nothing is recorded.
    """
    if not enabled():
        yield
        return
    start = time.perf_counter_ns()
    try:
        yield
    finally:
        add(name, start, time.perf_counter_ns(), category, **arguments)


def add(name: str, start_ns: int, end_ns: int, category: str = "compile", **arguments: Any) -> None:
    """Records a span whose start and end were measured by the caller with `time.perf_counter_ns`."""
    event = {
        "name": name, "cat": category, "ph": "X", "ts": start_ns / 1e3, "dur": (end_ns - start_ns) / 1e3,
        "pid": os.getpid(), "tid": threading.get_native_id(), "args": arguments,
    }  # fmt: skip
    global _registered
    with _lock:
        _events.append(event)
        if not _registered and flags.current().trace:
            _registered = True
            atexit.register(write, flags.current().trace)


@contextmanager
def recording() -> Iterator[list[dict[str, Any]]]:
    """A context manager that records spans inside the block. The list that it returns is filled at the end of
    the block.
    """
    global _recorders
    found: list[dict[str, Any]] = []
    with _lock:
        _recorders += 1
        first = len(_events)
    try:
        yield found
    finally:
        with _lock:
            _recorders -= 1
            found.extend(_events[first:])
            if not _recorders and not _registered:
                del _events[first:]


def at_exit(more: Callable[[], list[dict[str, Any]]]) -> None:
    """Registers a function that returns more events for the file written at exit."""
    _more.append(more)


def write(path: str) -> None:
    """Writes all events recorded so far, and those of functions registered with `at_exit`, to a file."""
    with _lock:
        events = [*_events, *(event for more in _more for event in more())]
    save(events, path)


def save(events: list[dict[str, Any]], path: str) -> None:
    """Writes events to a file in Chrome's JSON trace format."""
    text = json.dumps({"displayTimeUnit": "ms", "traceEvents": events})
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
