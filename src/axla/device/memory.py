"""Memory of devices, runs in progress on them, and arrays in their memory."""

from __future__ import annotations

import ctypes as c
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from axla.core import dtypes
from axla.core.errors import RuntimeFailure
from axla.core.shape import Shape
from axla.device.driver import Driver, rounded
from axla.program import abi
from axla.runtime.array import Array, DistantArray
from axla.runtime.queue import raised_again

SHORT = 0.01
"""Waits of fewer seconds need not be interruptible: while waits are so short, the waiting thread itself works
for the device.
"""


class DeviceMemory:
    """Bytes on a device, freed when they are no longer referenced."""

    __slots__ = ("driver", "address", "size", "__weakref__")

    def __init__(self, driver: Driver, size: int) -> None:
        self.driver, self.size, self.address = driver, rounded(size), 0
        self.address = driver.pool.take(self.size)

    def __del__(self) -> None:
        if self.address:
            self.driver.pool.give(self.address, self.size)


class DeviceRun:
    """A run in the queue of a device.

    `stopped` raises the error for a stopped run, given the value of its flag. A run that has not ended at the
    time `late` is stopped. For a run handed to the thread `enters`, `entered` is set when its work is in the
    queue and its event exists, or when that has failed.
    """

    __slots__ = (
        "name", "driver", "late", "flag", "event", "entered", "enters", "error", "done", "_stopped",
        "_joining", "__weakref__",
    )  # fmt: skip

    def __init__(
        self, name: str, driver: Driver, stopped: Callable[[int], NoReturn], deadline: float | None = None
    ) -> None:
        self.name, self.driver, self._stopped = name, driver, stopped
        self.late = time.monotonic() + deadline if deadline is not None else math.inf
        self.flag = (c.c_int32 * 2)()
        self.event: Any = None
        self.entered: threading.Event | None = None
        self.enters: threading.Thread | None = None
        self.error: BaseException | None = None
        self.done = self._joining = False

    def stop(self, code: int) -> None:
        """Stops the run with an error code, unless it was stopped already; waiting threads get this error."""
        self.flag[0] = self.flag[0] or code

    def fail(self, error: BaseException) -> None:
        """Sets the error for all readers of the run's results, unless there is one already."""
        self.error = self.error or error.with_traceback(None)

    @contextmanager
    def until_late(self) -> Iterator[None]:
        """A context that stops the run when its deadline passes."""
        if self.late == math.inf:
            yield
            return
        left = max(0.0, self.late - time.monotonic())
        timer = threading.Timer(min(left, threading.TIMEOUT_MAX), self.stop, [abi.DEADLINE])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def check(self) -> None:
        """Raises the run's error. On the thread that must queue the run, raises RuntimeFailure, since the
        thread would wait for itself.
        """
        if self.error is not None:
            raise raised_again(self.error)
        if self.event is None and self.enters is threading.current_thread():
            raise RuntimeFailure(
                f"{self.name}: its result is read by a function that an earlier run calls; it cannot begin "
                f"before that function has returned"
            )

    def is_stopped(self) -> bool:
        """Whether the run was stopped or has failed. A stopped run gets the error for that."""
        if time.monotonic() > self.late:
            self.stop(abi.DEADLINE)
        try:
            if self.flag[0]:
                self._stopped(self.flag[0])
        except Exception as error:
            self.fail(error)
        return self.error is not None

    def is_done(self) -> bool:
        """Whether the run has ended, successfully or not. Waits up to about 10 ms for the end."""
        if not self.done and self.error is None:
            try:
                if self.event is None and self.entered is not None:
                    self.entered.wait(SHORT)
                self.done = self.event is not None and self.driver.happened(
                    self.event, c.addressof(self.flag)
                )
            except Exception as error:
                self.fail(error)
        return self.done or self.is_stopped()

    def _join(self, timeout: float | None) -> None:
        """Calls the driver's `join`, which waits for the run; if the device is a CPU, it meanwhile computes.
        A new thread makes the call if the previous wait was long; this thread if it was short and there is no
        time limit.
        """
        driver = self.driver
        if timeout is None and self.late == math.inf and driver.waited < SHORT:
            driver.join(self.event)
        elif driver.waited >= SHORT and not self._joining:
            self._joining = True
            threading.Thread(target=driver.join, args=[self.event], daemon=True).start()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the run has ended, at most `timeout` seconds; returns whether it has ended. Raises its
        error.
        """
        self.check()
        begin = time.monotonic()
        late = begin + timeout if timeout is not None else math.inf
        while self.event is None and not self.is_done():
            if time.monotonic() > late:
                return False
        entered = time.monotonic()
        if not self.done and self.error is None:
            self._join(timeout)
        while not self.is_done():
            if time.monotonic() > late:
                return False
        self.driver.waited = time.monotonic() - entered
        self.check()
        return True


class DeviceArray(DistantArray):
    """An array in the memory of a device. Reading it on the host copies it there, once."""

    __slots__ = ()

    @property
    def run(self) -> DeviceRun | None:
        """The run that computes the array; None if it was not computed by a run."""
        return self._run

    def memory(self, what: str) -> DeviceMemory:
        """The memory of the array. Raises InvalidArgument, whose message begins with `what`, if it was
        deleted, or the error of its run.
        """
        if self._run is not None:
            self._run.check()
        return self._head(what)

    def _read(self, memory: DeviceMemory, values: np.ndarray) -> None:
        memory.driver.read(values, memory.address)


def put(driver: Driver, array: Any, ordinal: int = 0) -> DeviceArray:
    """A copy of an array-like on a device."""
    values = np.ascontiguousarray(array)  # (a scalar becomes a vector here)
    dims = array.shape if isinstance(array, Array) else np.shape(array)
    shape = Shape(dtypes.from_numpy(values.dtype), dims)
    memory = DeviceMemory(driver, values.nbytes)
    driver.write(memory.address, values)
    return DeviceArray(shape, memory, ordinal)
