"""The progress of a compilation: a callback, or a bar on a terminal after one second.

    with axla.progress(lambda stage, done, total: ...):     stage: "passes", "code", "objects"
        axla.compile(module)

The flag `progress` (AXLA_PROGRESS=1) shows the bar on standard error.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TextIO

from axla.core import flags

Progress = Callable[[str, int, int], object]
_listener: ContextVar[Progress | None] = ContextVar("progress", default=None)
_FIRST, _BETWEEN, _WIDTH = 1.0, 0.1, 24  # seconds, seconds, characters


def report(stage: str, done: int, total: int) -> None:
    """Reports to the current callback that `done` of `total` parts of a stage are finished."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)


@contextmanager
def progress(callback: Progress) -> Iterator[None]:
    """A context manager: `callback(stage, done, total)` is called while programs are compiled inside. The
    compiler's threads call it one at a time, so `done` never decreases within a stage.
    """
    before = _listener.set(callback)
    try:
        yield
    finally:
        _listener.reset(before)


def shown() -> AbstractContextManager[None]:
    """A context manager that shows a bar if the flag `progress` is set, and else does nothing."""
    return bar() if flags.current().progress else nullcontext()


@contextmanager
def bar(stream: TextIO | None = None, first: float = _FIRST) -> Iterator[None]:
    """A context manager that draws a progress bar on `stream`, by default standard error, from `first`
    seconds after its start, and erases it at the end. If a callback is already set, nothing is drawn.
    """
    if _listener.get() is not None:
        yield
        return
    out = stream or sys.stderr
    due, drawn = time.monotonic() + first, False

    def draw(stage: str, done: int, total: int) -> None:
        nonlocal due, drawn
        now = time.monotonic()
        if now < due:
            return
        due, drawn = now + _BETWEEN, True
        filled = _WIDTH * min(done, total) // max(total, 1)
        out.write(f"\r[{'#' * filled}{'-' * (_WIDTH - filled)}] {stage} {done} of {total}\x1b[K")
        out.flush()

    with progress(draw):
        try:
            yield
        finally:
            if drawn:
                out.write("\r\x1b[K")
                out.flush()
