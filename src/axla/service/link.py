"""The client's end of a connection: sends calls, receives their answers, and answers requests of the server.

It has no thread of its own. Whichever thread waits for an answer reads messages, and hands those for other
threads to them. While asynchronous runs may request values of feeds, one thread always waits for messages.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from axla.core import locks
from axla.core.errors import AxlaError, Cancelled, DeadlineExceeded, InvalidArgument
from axla.custom.feeds import Feed, feeds
from axla.program.abi import CANCELLED
from axla.runtime.serialized import versions
from axla.service import messages
from axla.service.messages import NUMBERS, Message
from axla.service.transport import BadMessage, Closed, SocketTransport, Transport

_POLL = 0.02
_REASON_SECONDS = 2.0
_MOST = 256
"""The limit of asynchronous calls without an answer."""


class PendingRequest:
    """A request that was sent to the server, and later its answer. If the answer is an array, its pieces are
    written to `into`. An array that the request computes has this object as its run.
    """

    def __init__(self, link: Link, number: int, name: str, into: np.ndarray | None = None) -> None:
        self.link, self.number, self.name, self.into, self.at = link, number, name, into, 0
        self.kind, self.body, self.done = 0, b"", False
        self.error: AxlaError | None = None

    def is_done(self) -> bool:
        """Whether the answer has arrived. Reads messages that have arrived, without waiting."""
        if not self.done:
            self.link.poll()
        return self.done

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the answer, at most `timeout` seconds; returns whether it arrived. Raises the error in
        the answer.
        """
        if not self.done and not self.link.until(lambda: self.done, timeout):
            return False
        self.answer()
        return True

    def answer(self) -> Message:
        """Waits for the answer and returns it. Raises the error in the answer."""
        if not self.done:
            self.link.until(lambda: self.done)
        if self.error is None and self.kind == NUMBERS["Failed"]:
            self.error = messages.error_of(messages.decode(self.kind, self.body))
        if self.error is not None:
            raise self.error.with_traceback(None)
        return messages.decode(self.kind, self.body)


class Link:
    """A connection to a server. It may be used from any thread, but only in the process that created it."""

    def __init__(self, transport: Transport, welcome: Message, reasons: socket.socket | None = None) -> None:
        self.transport, self.welcome, self._reasons = transport, welcome, reasons
        transport.most = welcome.get("message_bytes", transport.most)
        self._reader = locks.new_lock()
        self._changed = threading.Condition(locks.new_lock())
        self._followers = 0
        self._calls: dict[int, PendingRequest] = {}
        self._numbers, self._handles = itertools.count(1), 1
        self._lost: AxlaError | None = None
        self._stopped: set[int] = set()
        self._process = os.getpid()
        transport.stuck = self._stuck
        self.released: deque[int] = deque()
        """Numbers of arrays without references; `dropped` has those of programs. The next request sends
        both.
        """
        self.dropped: deque[int] = deque()

    def handles(self, count: int = 1) -> int:
        """Reserves `count` numbers for arrays or programs, and returns the first."""
        with self._changed:
            self._handles += max(count, 1)
            return self._handles - max(count, 1)

    def take_released(self) -> Message:
        """The numbers of arrays and programs that the server may release, as fields of a request."""
        found: Message = {}
        for name, gone in (("released", self.released), ("dropped", self.dropped)):
            if gone:
                found[name] = [gone.popleft() for _ in range(len(gone))]
        return found

    # Calls.

    def start(
        self, kind: str, message: Message, name: str = "", into: np.ndarray | None = None
    ) -> PendingRequest:
        """Sends the request `message` of the kind `kind`, together with the numbers that the server may
        release. `name` describes the run in messages; the bytes of an array in the answer are written to
        `into`.
        """
        if self._lost is not None or os.getpid() != self._process:
            raise self._why_lost()
        body, number = messages.encode(kind, message), next(self._numbers)
        if len(body) > self.transport.most:
            found = f"a message of {len(body)} bytes; at most {self.transport.most} are taken"
            raise InvalidArgument(f"service: {kind} is {found}")
        call = self._calls[number] = PendingRequest(self, number, name, into)
        try:
            self.transport.send(number, NUMBERS[kind], body)
        except Closed as error:
            self._lose(error)
            raise self._why_lost() from None
        return call

    def call(self, kind: str, message: Message, into: np.ndarray | None = None) -> Message:
        """Sends a request, waits for its answer and returns it. Raises the error in the answer."""
        return self.start(kind, message, into=into).answer()

    def give(self, call: PendingRequest, data: np.ndarray) -> None:
        """Sends the bytes of an array, after the request `call` that announced it."""

        def wait(until: Callable[[], object]) -> None:
            self.until(lambda: until() or call.done)
            if call.done:
                raise Closed  # it was refused, or the connection is lost: see the answer

        with contextlib.suppress(Closed):
            self.transport.give(call.number, data, wait)

    def poll(self) -> None:
        """Reads all messages that have arrived, without waiting."""
        if self._reader.acquire(blocking=False):
            try:
                while self._read(0):
                    pass
            finally:
                self._reader.release()
                self._tell()

    def bound(self) -> None:
        """Waits until the number of calls without an answer is within its limit."""
        if len(self._calls) > _MOST:
            self.until(lambda: len(self._calls) <= _MOST)

    def close(self) -> None:
        """Ends the session; the server deletes its arrays and programs."""
        self._lost = self._lost or messages.unavailable("service: the connection was closed")
        self.transport.close()

    # Reading.

    def until(self, until: Callable[[], object], timeout: float | None = None) -> bool:
        """Waits until `until()` is true, at most `timeout` seconds; returns whether it is. Reads messages
        meanwhile, unless another thread does.
        """
        late = math.inf if timeout is None else time.monotonic() + timeout
        while not until():
            left = late - time.monotonic()
            if self._reader.acquire(blocking=False):
                try:
                    if not until() and not self._read(None if left == math.inf else max(0.0, left)):
                        return bool(until())
                finally:
                    self._reader.release()
                    self._tell()
            else:
                with self._changed:
                    self._followers += 1
                    if not until() and self._reader.locked():
                        self._changed.wait(min(_POLL, max(0.0, left)))
                    self._followers -= 1
                if left < 0:
                    return bool(until())
        return True

    def _stuck(self) -> None:
        """Reads a message. Called while the server accepts no data: it may be waiting until its answers are
        read.
        """
        if not self._reader.acquire(blocking=False):
            time.sleep(_POLL / 10)
            return
        try:
            self._read(_POLL / 10)
        finally:
            self._reader.release()

    def _tell(self) -> None:
        if self._followers:
            with self._changed:
                self._changed.notify_all()

    def _read(self, timeout: float | None) -> bool:
        """Reads and handles one message, waiting at most `timeout` seconds; returns whether there was one."""
        if self._lost is not None:
            self._fail_all()
            return False
        try:
            message = self.transport.receive(timeout)
            if message is None:
                return False
            self._hand_out(*message)
        except (Closed, BadMessage) as error:
            self._lose(error)
            return False
        return True

    def _hand_out(self, number: int, kind: int, body: bytes) -> None:
        if kind == messages.PIECE:
            call = self._calls.get(number)
            into, at = (call.into, call.at) if call is not None else (None, 0)
            size = self.transport.take(body, into, at)
            if call is not None:
                call.at += size
        elif kind == messages.CREDIT:
            self.transport.credit(body)
        elif kind < messages.PIECE and messages.KINDS[kind] in ("Take", "Give"):
            asked = number, messages.KINDS[kind], messages.decode(kind, body)
            threading.Thread(target=self._asked, args=asked, daemon=True).start()
        elif kind < messages.PIECE and messages.KINDS[kind] == "Stop":
            self._stopped.add(messages.decode(kind, body).get("call", 0))
        elif number == 0 and kind == NUMBERS["Failed"]:  # an error of the connection itself
            self._lost = messages.error_of(messages.decode(kind, body))
            self._fail_all()
        elif (call := self._calls.pop(number, None)) is not None:
            call.kind, call.body = kind, body
            call.done = True
        self._tell()

    def _lose(self, how: Exception) -> None:
        """Makes all waiting requests fail, because the connection is lost; `how` is the exception that showed
        this. The server may have sent the reason.
        """
        if self._lost is None:
            why = how.why if isinstance(how, Closed) else None
            why = why or messages.unavailable(f"service: the connection to the server is lost: {how}")
            if self._reasons is not None:
                self._reasons.settimeout(_REASON_SECONDS)
                with contextlib.suppress(OSError, AxlaError):
                    if said := self._reasons.recv(1 << 16):
                        why = messages.error_of(messages.decode(NUMBERS["Failed"], said))
            self._lost = why
        self._fail_all()

    def _fail_all(self) -> None:
        for number in list(self._calls):
            if (call := self._calls.pop(number, None)) is not None:
                call.error = self._why_lost()
                call.done = True
        self._tell()

    def _why_lost(self) -> AxlaError:
        if self._lost is None:
            return messages.unavailable(
                "service: the connection can only be used by the parent process, not in a fork"
            )
        made = type(self._lost)(self._lost.message)
        made.__dict__.update(self._lost.__dict__)
        return made

    # Requests of the server for values of feeds.

    def _asked(self, number: int, kind: str, message: Message) -> None:
        """Takes a value from a feed for the server, or adds one to it, and sends the answer. Runs in its own
        thread, since it may have to wait.
        """

        def check() -> None:
            if number in self._stopped or self._lost is not None:
                raise Cancelled("service: the run has ended", CANCELLED)

        try:
            feed = _feed(message)
            if kind == "Give":
                feed._add(messages.value_of(message.get("value", {})))
                kind, answer = "Done", Message()
            else:
                kind, answer = "Value", {"value": messages.tree_of(feed._take(feed.timeout, check))}
        except AxlaError as error:
            kind, answer = "Failed", messages.failed(error)
        with contextlib.suppress(Closed):
            self.transport.send(number, NUMBERS[kind], messages.encode(kind, answer))
        self._stopped.discard(number)


def _feed(message: Message) -> Feed:
    """The feed that a message names by device, kind and channel."""
    found: Any = feeds(message.get("device", 0))
    name, channel = message.get("feed", ""), message.get("channel")
    return getattr(found, name) if name in ("infeed", "outfeed") else found._channel(name, channel)


def opened(
    address: str, *, backend: str = "", token: str = "", timeout: float = 30.0, root_certificate: str = ""
) -> Link:  # fmt: skip
    """Opens a connection to the server at an address, and returns it. The arguments are those of
    `remote.connect`.
    """
    kind, colon, rest = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not colon or (kind != "unix" and not rest.isdigit()):
        raise InvalidArgument(f"connect: address={address!r}, wanted unix:/path or host:port")
    hello = {"version": messages.VERSION, "token": token, "backend": backend, "client": versions()[0]}
    body, found = messages.encode("Hello", hello), list[Any]()
    with contextlib.ExitStack() as ends:  # closes the transport if connecting fails
        try:
            if kind == "unix":
                if root_certificate:
                    raise InvalidArgument(
                        "connect: root_certificate is for TLS, which unix sockets do not use"
                    )
                found.append(transport := SocketTransport(socket.socket(socket.AF_UNIX)))
                transport.socket.settimeout(timeout)
                transport.socket.connect(rest)
                transport.send(0, NUMBERS["Hello"], body)
                message, reasons = transport.receive_first(timeout)
                found.append(reasons)
            else:
                from axla.service.over_grpc import GrpcTransport

                found.append(GrpcTransport(address, root_certificate))
                ends.callback(found[0].close)
                found[0].send(0, NUMBERS["Hello"], body)
                message = found[0].receive(timeout)
        except TimeoutError:
            message = None
        except (OSError, Closed) as error:
            raise messages.unavailable(f"connect: there is no server at {address}: {error}") from None
        if message is None:
            raise DeadlineExceeded(f"connect: the server at {address} has not answered in {timeout:g} s")
        _, answer, body = message
        welcome = messages.decode(answer, body)
        if answer == NUMBERS["Failed"]:
            raise messages.error_of(welcome)
        if answer != NUMBERS["Welcome"] or welcome.get("version") != messages.VERSION:
            raise InvalidArgument(f"connect: {address} is not an axla server of version {messages.VERSION}")
        ends.pop_all()
        return Link(found[0], welcome, *found[1:])
