"""Infeed, outfeed and channels: queues of values between running programs and the host.

    feeds(0).infeed.put(batch)           # the host puts nested tuples of arrays
    executable(...)                      # the program's infeeds take them; its outfeeds put values
    loss = feeds(0).outfeed.get()        # the host gets the values

    feeds(0).from_host(7).put(x)          # for a recv with channel_id=7, is_host_transfer=true
    feeds(0).to_host(8).get()             # from a send of channel 8

Each device has an infeed, an outfeed, and two queues for each channel, which all programs on it share; a
participant of a run uses those of its device. A program that waits stops when its run is stopped (deadline,
cancel, Ctrl-C), or after `timeout` seconds.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from axla.core import locks
from axla.core.errors import DeadlineExceeded, InvalidArgument
from axla.core.shape import AnyShape, Shape, show
from axla.custom.site import flatten, nest

HostValue = Any
"""Nested tuples of NumPy arrays; None for a token."""

TIMEOUT = 60.0
"""The default seconds that a program waits for the host, and the host for a program."""

_POLL = 0.02


class Feed:
    """A queue of values that are passed in one direction."""

    def __init__(self, name: str, place: tuple[int, str, int | None] = (0, "", None)) -> None:
        self.name = name
        self.place = place
        """(device; "infeed", "outfeed", "to" or "from" for the direction; channel of "to" and "from", else
        None).
        """
        self.timeout = TIMEOUT
        self.most: int | None = None
        """The largest number of values in the queue; None means no limit, 0 that it is closed."""
        self._values: deque[HostValue] = deque()
        self._changed = threading.Condition(locks.new_lock())

    def put(self, value: HostValue) -> None:
        """Adds a copy of the value: nested tuples of array-likes. A value without arrays is not added, since
        programs do not read one.
        """
        try:
            copied = _copied(value)
            if _holds_arrays(copied):
                self._add(copied)
        except RecursionError:
            raise InvalidArgument(f"{self.name}: the tuples of the value are nested too deep") from None

    def get(self, timeout: float | None = None) -> HostValue:
        """Waits for the oldest value, removes it and returns it, as nested tuples of arrays. DeadlineExceeded
        after `timeout` seconds.
        """
        if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
            raise InvalidArgument(f"{self.name}: timeout={timeout!r}, wanted seconds of at least 0")
        return self._take(self.timeout if timeout is None else timeout, _go_on)

    def close(self) -> None:
        """Closes the queue: waiting for a value, or adding one, then raises InvalidArgument. Setting `most`
        opens it again.
        """
        with self._changed:
            self.most = 0
            self._changed.notify_all()

    def clear(self) -> None:
        """Removes all values from the queue."""
        with self._changed:
            self._values.clear()

    def __len__(self) -> int:
        return len(self._values)

    def _add(self, value: HostValue) -> None:
        with self._changed:
            if self.most is not None and len(self._values) >= self.most:
                found = f"it is full, with {self.most} values" if self.most else "it is closed"
                raise InvalidArgument(f"{self.name}: {found}")
            self._values.append(value)
            self._changed.notify()

    def _take(self, timeout: float, check: Callable[[], None]) -> HostValue:
        """Waits for the oldest value, removes it and returns it. `check` is called while waiting, and raises
        an exception to end the wait.
        """
        end = time.monotonic() + timeout
        with self._changed:
            while not self._values:
                check()
                if self.most == 0:
                    raise InvalidArgument(f"{self.name}: it is closed and has no values left")
                left = end - time.monotonic()
                if left <= 0:
                    found = f"nothing came for {timeout:g} s" if timeout else "it is empty"
                    raise DeadlineExceeded(f"{self.name}: {found}")
                self._changed.wait(min(left, _POLL))
            return self._values.popleft()

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self)} values>"


class Feeds:
    """The queues of one device."""

    kind: type[Feed] = Feed
    """The class of the queues. In a worker of the service it is one that uses the client's queues."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.infeed = self.kind(f"infeed of device {device}", (device, "infeed", None))
        self.outfeed = self.kind(f"outfeed of device {device}", (device, "outfeed", None))
        self._channels: dict[tuple[str, int | None], Feed] = {}

    def to_host(self, channel: int | None) -> Feed:
        """The queue of values that programs send to the host on a channel."""
        return self._channel("to", channel)

    def from_host(self, channel: int | None) -> Feed:
        """The queue of values that the host puts for programs to receive on a channel."""
        return self._channel("from", channel)

    def clear(self) -> None:
        """Removes all values from all queues."""
        for feed in (self.infeed, self.outfeed, *self._channels.values()):
            feed.clear()

    def _channel(self, direction: str, channel: int | None) -> Feed:
        if channel is not None and (type(channel) is not int or channel < 0):
            raise InvalidArgument(f"{direction}_host: channel={channel!r}, wanted a number of at least 0")
        with _lock:
            found = self._channels.get((direction, channel))
            if found is None:
                name = f"channel {channel} {direction} the host, of device {self.device}"
                found = self.kind(name, (self.device, direction, channel))
                found.timeout = self.infeed.timeout
                self._channels[direction, channel] = found
            return found


_devices: dict[int, Feeds] = {}
_lock = locks.new_lock()


def feeds(device: int = 0) -> Feeds:
    """The queues of a device, which are created at the first call."""
    if type(device) is not int or device < 0:
        raise InvalidArgument(f"feeds: device={device!r}, wanted a number of at least 0")
    with _lock:
        return _devices.setdefault(device, Feeds(device))


def _go_on() -> None:
    """Does nothing. It is the check for a wait outside of a run, which cannot be stopped."""


def _no_others(*unused: Any) -> Any:
    raise InvalidArgument("a transfer between participants is only possible in a run")


class _Current(threading.local):
    """The participant and device of the run in this thread, and functions for transfers: `check()` raises an
    exception if the run is to stop, `send(address, value)` sends to a participant, `receive(address, where)`
    waits for a value; `where` describes the op for messages.
    """

    participant = 0
    device = 0
    check: Callable[[], None] = staticmethod(_go_on)
    send: Callable[[Any, Any], None] = staticmethod(_no_others)
    receive: Callable[[Any, str], Any] = staticmethod(_no_others)


current = _Current()


def take(feed: Feed, shape: AnyShape, check: Callable[[], None]) -> HostValue:
    """Takes the next value from a queue; the value must have the shape `shape`. For a shape without leaves,
    nothing is taken. `check` is called while waiting, as in `Feed._take`.
    """
    if next(shape.leaves(), None) is None:
        return nest(shape, iter(()))
    value = feed._take(feed.timeout, check)
    return nest(shape, iter(leaves_of(feed.name, shape, value)))


def leaves_of(what: str, shape: AnyShape, value: HostValue) -> list[Any]:
    """The leaves of a value. InvalidArgument, with the name `what` of the queue, unless the value has the
    shape `shape`.
    """
    wanted = show(shape)
    try:
        leaves = flatten(shape, value)
    except ValueError as error:
        raise InvalidArgument(f"{what}: wanted {wanted}, but {error}") from None
    for number, (leaf, one) in enumerate(zip(shape.leaves(), leaves, strict=True)):
        if isinstance(one, tuple) or not isinstance(leaf, Shape):
            raise InvalidArgument(f"{what}: wanted {wanted}, found a tuple or a token at array {number}")
        if one.dtype != leaf.dtype.numpy or one.shape != leaf.dims:
            found = f"{one.dtype}{list(one.shape)}"
            raise InvalidArgument(f"{what}: array {number} of the value is {found}, wanted {wanted}")
    return leaves


def give(feed: Feed, value: HostValue) -> None:
    """Puts a value into a queue without copying it. The caller must not keep it."""
    feed._add(value)


def _holds_arrays(value: HostValue) -> bool:
    return any(map(_holds_arrays, value)) if isinstance(value, tuple) else True


def _copied(value: HostValue) -> HostValue:
    if isinstance(value, tuple | list):
        return tuple(map(_copied, value))
    try:
        array = np.array(value)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"infeed: {type(value).__name__} is not an array: {error}") from None
    if array.dtype.hasobject:
        raise InvalidArgument(f"infeed: found {type(value).__name__}, wanted arrays in nested tuples")
    return array
