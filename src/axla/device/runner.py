"""Executes the host's parts of asynchronous runs in a thread of each device's queue, one after the other.

The host's part of a run is over when all its work is in the device's queue. If it contains loops, or waits
for the device, that may take long: an asynchronous run is then handed to this thread. While the thread is
busy, all runs on the device go through it, so that they are queued in the order of their calls.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from weakref import WeakKeyDictionary

from axla.core import locks
from axla.device.driver import Driver
from axla.device.memory import DeviceRun
from axla.program import abi

_EXIT_WAIT = 0.45
"""The seconds for which the exit of the interpreter waits for runs. It then stops those that remain, and
waits for as long again.
"""


class Runner:
    """The host's parts of runs that were handed over, and the thread that executes them."""

    def __init__(self) -> None:
        self._lock = locks.new_lock()
        self._waiting: SimpleQueue[tuple[DeviceRun, Callable[[], None]]] = SimpleQueue()
        self._left: deque[DeviceRun] = deque()
        self._thread: threading.Thread | None = None

    def is_busy(self) -> bool:
        """Whether a new run must be handed to the thread, after earlier ones. False on the thread itself,
        where functions that programs call may start runs.
        """
        return bool(self._left) and threading.current_thread() is not self._thread

    def add(self, run: DeviceRun, work: Callable[[], None]) -> None:
        """Makes the thread do the work after earlier work; an exception becomes the error of the run."""
        run.entered = threading.Event()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="axla device", daemon=True)
                self._thread.start()
            run.enters = self._thread
            self._left.append(run)
            self._waiting.put((run, work))

    def _work(self) -> None:
        while True:
            self._execute(*self._waiting.get())

    def _execute(self, run: DeviceRun, work: Callable[[], None]) -> None:
        try:
            if not run.is_stopped():
                work()
        except BaseException as error:  # readers of the results get it
            run.fail(error)
        self._left.popleft()
        assert run.entered is not None
        run.entered.set()

    def leave(self) -> None:
        """Waits for runs at exit; stops those that do not end."""
        for code in (abi.INTERRUPTED, 0):
            limit = time.monotonic() + _EXIT_WAIT
            while self._left and time.monotonic() < limit:
                time.sleep(0.001)
            for run in list(self._left):
                run.stop(code)


_every: WeakKeyDictionary[Driver, Runner] = WeakKeyDictionary()
_lock = locks.new_lock()


def runner_of(driver: Driver) -> Runner:
    """The Runner of a device; created once per driver."""
    with _lock:
        return _every.setdefault(driver, Runner())


@atexit.register
def _leave() -> None:
    for runner in list(_every.values()):
        runner.leave()
