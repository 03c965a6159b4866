"""Infeed, outfeed and channels: values that wait, in order, between running programs and the host.

    feeds(0).infeed.put(batch)           # the host: nested tuples of arrays
    executable(...)                      # the program: infeed takes them, outfeed gives
    loss = feeds(0).outfeed.get()

    feeds(0).from_host(7).put(x)          # for a recv with channel_id=7, is_host_transfer=true
    feeds(0).to_host(8).get()             # from a send of channel 8

A device has one pair of queues, and one of each channel, which all programs on it share; a participant of a
run uses those of its device. Whoever waits stops when its run does (deadline, cancel, Ctrl-C), and after
`timeout` seconds in any case.
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
"""Seconds that a program waits for the host, and the host for a program, when they do not say otherwise."""

_POLL = 0.02


class Feed:
    """A queue of values in one direction."""

    def __init__(self, name: str, place: tuple[int, str, int | None] = (0, "", None)) -> None:
        self.name = name
        self.place = place
        """Device, "infeed", "outfeed", "to" or "from", and the channel of the last two."""
        self.timeout = TIMEOUT
        self.most: int | None = None
        """How many values may wait; None: as many as memory holds; 0: it is closed."""
        self._values: deque[HostValue] = deque()
        self._changed = threading.Condition(locks.new_lock())

    def put(self, value: HostValue) -> None:
        """Adds a copy of the value: nested tuples of what NumPy takes. A tuple without arrays adds nothing:
        programs read nothing for it.
        """
        try:
            copied = _copied(value)
            if _holds_arrays(copied):
                self._add(copied)
        except RecursionError:
            raise InvalidArgument(f"{self.name}: the tuples of the value are nested too deep") from None

    def get(self, timeout: float | None = None) -> HostValue:
        """The oldest value, as nested tuples of arrays; waits for one. DeadlineExceeded when none comes."""
        if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
            raise InvalidArgument(f"{self.name}: timeout={timeout!r}, wanted seconds of at least 0")
        return self._take(self.timeout if timeout is None else timeout, _go_on)

    def close(self) -> None:
        """Says that no value comes any more: who waits for one, or adds one, gets InvalidArgument. With
        another `most` it is open again.
        """
        with self._changed:
            self.most = 0
            self._changed.notify_all()

    def clear(self) -> None:
        """Drops what waits."""
        with self._changed:
            self._values.clear()

    def __len__(self) -> int:
        return len(self._values)

    def _add(self, value: HostValue) -> None:
        with self._changed:
            if self.most is not None and len(self._values) >= self.most:
                found = f"{self.most} values wait, and no more may" if self.most else "it is closed"
                raise InvalidArgument(f"{self.name}: {found}")
            self._values.append(value)
            self._changed.notify()

    def _take(self, timeout: float, check: Callable[[], None]) -> HostValue:
        """The oldest value; `check` raises when waiting has no point any more."""
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
    """The queues of a device."""

    kind: type[Feed] = Feed
    """The class of queues: in a worker of the service they are those of its client."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.infeed = self.kind(f"infeed of device {device}", (device, "infeed", None))
        self.outfeed = self.kind(f"outfeed of device {device}", (device, "outfeed", None))
        self._channels: dict[tuple[str, int | None], Feed] = {}

    def to_host(self, channel: int | None) -> Feed:
        """Values that programs send to the host on a channel."""
        return self._channel("to", channel)

    def from_host(self, channel: int | None) -> Feed:
        """Values that programs receive from the host on a channel."""
        return self._channel("from", channel)

    def clear(self) -> None:
        """Drops what waits in all of them."""
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
    """The queues of a device, made when they are first asked for."""
    if type(device) is not int or device < 0:
        raise InvalidArgument(f"feeds: device={device!r}, wanted a number of at least 0")
    with _lock:
        return _devices.setdefault(device, Feeds(device))


def _go_on() -> None:
    """For who has no run that could be stopped."""


def _no_others(*unused: Any) -> Any:
    raise InvalidArgument("a transfer outside of a run")


class _Current(threading.local):
    """The facts of the run that this thread is in: which participant it is, whether it is to stop, and how it
    sends to others (an address, and the value) and receives (an address, and where it waits).
    """

    participant = 0
    device = 0
    check: Callable[[], None] = staticmethod(_go_on)
    send: Callable[[Any, Any], None] = staticmethod(_no_others)
    receive: Callable[[Any, str], Any] = staticmethod(_no_others)


current = _Current()


def take(feed: Feed, shape: AnyShape, check: Callable[[], None]) -> HostValue:
    """The next value of a queue, which must be of this shape; nothing is taken for one without arrays."""
    if next(shape.leaves(), None) is None:
        return nest(shape, iter(()))
    value = feed._take(feed.timeout, check)
    return nest(shape, iter(leaves_of(feed.name, shape, value)))


def leaves_of(what: str, shape: AnyShape, value: HostValue) -> list[Any]:
    """The arrays of a value, which must be of this shape."""
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
    """Puts a value that nobody else has into a queue."""
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
