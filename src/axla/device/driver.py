"""The interface of device drivers: about a dozen functions.

Functions that programs call while they run are called by address, from native code (`DRIVER`), in a fixed
order: a device has one queue, which runs in order. The others are called from Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import numpy as np

from axla.codegen.native.assembly import GlueFunction
from axla.codegen.straight import Ssa
from axla.core.dataclass import dataclass
from axla.core.errors import OutOfMemory, RuntimeFailure
from axla.program.abi import CField, Struct
from axla.target.machine import Target

DRIVER = Struct(
    "axla_driver",
    "What programs call. All give 0, or the driver's own code of an error. What waits stops when the i32 at "
    "`flag` is not 0, and gives 0 then, too.",
    CField("context", "ptr", "the first argument of the functions"),
    CField("launch", "ptr", "(context, kernel, addresses, blocks, threads, count of addresses)"),
    CField("copy", "ptr", "(context, to, from, bytes): within the device's memory"),
    CField("write", "ptr", "(context, to, from, bytes, flag): from the host, which may change it afterwards"),
    CField("read", "ptr", "(context, to, from, bytes, flag): to the host; returns when the bytes are there"),
)


MOST_KEPT = 1 << 30
"""The largest number of bytes of free memory that a device keeps for later allocations."""
TRIES = 600
"""The number of times that `Driver.happened` tests an event; this takes about 10 ms."""
_YIELDS, _SLEEP = 500, 100  # tests of an event without sleeps in between; then microseconds of each sleep


class DeviceError(RuntimeFailure):
    """The error for a driver function that failed."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A module on a device: the handles of its kernels, in the requested order."""

    handles: tuple[int, ...]
    owner: object
    """An object that keeps the module loaded."""


def looked(f: GlueFunction, flag: Ssa, tries: Ssa, look: Callable[[], None], stopped: int) -> None:
    """Emits a wait for an event. `look` emits a test of the event, which returns from the emitted function if
    the event has happened. The function returns `stopped` when the flag is set, or after `tries` tests.
    """
    with f.loop(0, tries) as loop:
        look()
        f.guard(flag.load("i32", "seq_cst").ne(0), f.i32(stopped))
        with f.if_(loop.index.lt(_YIELDS)):
            f.call("i32", "sched_yield")
        with f.if_(loop.index.ge(_YIELDS)):
            f.call("void", "sleep", f.i32(_SLEEP))
    f.ret(f.i32(stopped))


class Pool:
    """Free memory of a device, by size. Memory may be given back while queued work still uses it: the queue
    runs in order, so that the work of the next owner begins later.

    It takes no lock, since the garbage collector may free memory at any point.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._free: dict[int, list[int]] = {}

    def take(self, size: int) -> int:
        """The address of `size` bytes, aligned to 64; `size` is a result of `rounded`. OutOfMemory if there
        is too little memory.
        """
        try:
            return self._free[size].pop()
        except (KeyError, IndexError):
            return self._new(size)

    def _new(self, size: int) -> int:
        try:
            return self._driver.allocate(size)
        except OutOfMemory:
            self.empty()
            return self._driver.allocate(size)

    def give(self, address: int, size: int) -> None:
        """Keeps memory from `take` for later allocations, or returns it to the driver if too much is kept."""
        kept = sum(each * len(addresses) for each, addresses in list(self._free.items()))
        if kept + size > MOST_KEPT:
            self._driver.free(address)
        else:
            self._free.setdefault(size, []).append(address)

    def empty(self) -> None:
        """Returns all free memory to the driver, and waits until the driver has freed it."""
        for addresses in list(self._free.values()):
            while addresses:
                self._driver.free(addresses.pop())
        self._driver.wait()


def rounded(size: int) -> int:
    """`size` rounded up to one of eight sizes between a power of two and the next; a multiple of 64."""
    step = max(64, 1 << max(size - 1, 0).bit_length() >> 4)
    return max(64, -(-size // step) * step)


class Driver:
    """One device. Addresses of its memory are numbers that can be added to. Queued work runs in order."""

    name: str = ""
    """The name of the device as its maker gives it."""
    target: Target
    """The target that its kernels are compiled for."""
    waited: float = 0.0
    """The seconds that the last wait for a run took."""

    @cached_property
    def pool(self) -> Pool:
        """The memory of the device that is free and kept for later allocations."""
        return Pool(self)

    @property
    def table(self) -> int:
        """The address of a DRIVER struct, valid as long as the driver."""
        raise NotImplementedError

    def allocate(self, size: int) -> int:
        """Memory of at least `size` bytes, aligned to 64; OutOfMemory where there is none."""
        raise NotImplementedError

    def free(self, address: int) -> None:
        """Frees memory, once queued work has used it."""
        raise NotImplementedError

    def write(self, address: int, values: np.ndarray) -> None:
        """Copies a contiguous host array to the device; returns when it has been read."""
        raise NotImplementedError

    def read(self, values: np.ndarray, address: int) -> None:
        """Fills a contiguous host array from the device, after queued work."""
        raise NotImplementedError

    def mark(self) -> Any:
        """An event for the end of the work that is now in the queue."""
        raise NotImplementedError

    def happened(self, event: Any, flag: int = 0) -> bool:
        """Whether an event has happened; waits up to about 10 ms for it, or until the i32 at the address
        `flag` is not 0. Raises DeviceError if the work before the event failed.
        """
        raise NotImplementedError

    def join(self, event: Any) -> None:
        """Waits for an event. If the device is a CPU, the thread meanwhile works for it. Drivers of other
        devices do nothing.
        """

    def wait(self) -> None:
        """Waits for the work in the queue."""
        event = self.mark()
        while not self.happened(event):
            pass

    def build(self, kernels: Sequence[str], code: bytes) -> Loaded:
        """Loads code that was compiled for `target`, and looks up the functions `kernels` in it; CompileError
        with the driver's log.
        """
        raise NotImplementedError

    def timed(self) -> AbstractContextManager[dict[int, list[int]]]:
        """Measures the work that is queued in the `with` block: for each kernel's handle the nanoseconds of
        every launch, available after the block.
        """
        raise NotImplementedError

    def said(self, code: int) -> str:
        """The meaning of an error code, as text."""
        return f"error {code}"

    def error(self, what: str, code: int) -> RuntimeFailure:
        """The error for a call that failed with a code; `what` describes the call."""
        return DeviceError(f"{self.name}: {what}: {self.said(code)}")
