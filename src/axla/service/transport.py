"""Transports of messages: `Transport`, and the one for a unix socket with shared memory for arrays.

A message is a header (number of bytes that follow, number of the call, kind) and a body. Other transports
derive from `Transport` and define `send`, `receive`, `close` and, if they share memory with the other side,
`_place` and `_found`; otherwise the pieces of arrays are in the messages.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from axla.core import locks
from axla.core.errors import AxlaError, InvalidArgument
from axla.service.messages import CREDIT, PIECE

HEADER = struct.Struct("<IIB")
"""Bytes of the body, number of the call, kind."""
PIECE_BYTES, PIECES = 1 << 21, 8
"""A piece of an array, and how many of one direction may be under way."""
WINDOW_BYTES = 2 * PIECES * PIECE_BYTES
FIRST_BYTES = 1 << 16
"""Of the first message: nothing is known of the other side then."""
_PIECE = struct.Struct("<BI")
_CHUNK = 1 << 16


class BadMessage(InvalidArgument):
    """Malformed data: the start of the next message is unknown."""


class Closed(Exception):
    """The other side is gone; `why` has the reason, if known."""

    def __init__(self, text: str = "", why: AxlaError | None = None) -> None:
        super().__init__(text)
        self.why = why


class Transport:
    """Messages in both directions. Any thread may send; one at a time receives."""

    most = FIRST_BYTES
    """Bytes of a message: more are refused before memory is taken for them."""

    def __init__(self) -> None:
        self._free, self._taken = deque(range(PIECES)), bytearray()
        self.stuck: Callable[[], None] | None = None
        """Called again and again while a message cannot be sent, as the other side does not read; None: the
        thread waits. (A method of its own would keep the transport, and its window, until a collection.)
        """

    def send(self, call: int, kind: int, *body: Any) -> None:
        """Sends a message with this body. Closed where the other side is gone."""
        raise NotImplementedError

    def receive(self, timeout: float | None = None) -> tuple[int, int, Any] | None:
        """The next message: call, kind, body; None if none arrives within `timeout` seconds. Closed at the
        end, Malformed for a message that is too long.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Ends both directions; receiving threads get Closed."""

    def _wait_writable(self) -> None:
        """Waits until more can be sent, or for a limited time."""

    # Arrays.

    def give(self, call: int, data: np.ndarray, wait: Callable[[Callable[[], object]], None]) -> None:
        """Sends bytes in pieces. `wait(until)` returns when `until()` holds, which credits from the other
        side bring about.
        """
        for at in range(0, data.size, PIECE_BYTES):
            part = data[at : at + PIECE_BYTES]
            while True:
                with contextlib.suppress(IndexError):  # another thread took it
                    slot = self._free.popleft()
                    break
                wait(lambda: self._free)
            self.send(call, PIECE, _PIECE.pack(slot, part.size), self._place(slot, part))

    def take(self, body: Any, into: np.ndarray | None, at: int = 0) -> int:
        """Copies a piece to its place; returns its number of bytes. Its slot is credited back together with
        others. With `into` None it is dropped. Malformed for one that does not fit.
        """
        if len(body) < _PIECE.size:
            raise BadMessage(f"service: a piece of {len(body)} bytes has no head")
        slot, size = _PIECE.unpack_from(body)
        part = self._found(slot, size, body)
        if slot >= PIECES or part.size != size or (into is not None and size > into.size - at):
            raise BadMessage(f"service: a piece of {size} bytes in place {slot} is more than was announced")
        if into is not None:
            np.copyto(into[at : at + size], part)
        self._taken.append(slot)
        if len(self._taken) >= PIECES // 2:  # the other side has as many left, and is woken less often
            taken, self._taken = self._taken, bytearray()
            self.send(0, CREDIT, taken)
        return size

    def credit(self, body: bytes) -> None:
        """The other side has processed pieces: their slots are free."""
        for slot in body:
            if slot >= PIECES or slot in self._free:
                raise BadMessage("service: a credit for a piece that was not sent")
            self._free.append(slot)

    def _place(self, slot: int, part: np.ndarray) -> Any:
        """Puts a piece where the other side finds it; returns the part that goes into the message."""
        return part.data

    def _found(self, slot: int, size: int, body: Any) -> np.ndarray:
        """The bytes of a piece."""
        return np.frombuffer(body, np.uint8, offset=_PIECE.size)


class SocketTransport(Transport):
    """Messages over a unix socket. With a window, a file descriptor of shared memory, pieces are in it: the
    client's in its first half.
    """

    awake = 100e-6
    """Seconds that a receiver looks for a message before it sleeps: as long as a small call takes."""

    def __init__(self, sock: socket.socket, window: int | None = None, first: bool = True) -> None:
        super().__init__()
        self.socket = sock
        self._buffer = bytearray()
        self._sending = locks.new_lock()
        self._sender, self._later, self._is_bulk = 0, deque[bytes](), False
        self._mine: np.ndarray | None = None
        self._theirs: np.ndarray | None = None
        if window is not None:
            self.share(window, first)

    def share(self, window: int, first: bool) -> None:
        """Uses a window for pieces from now on."""
        memory = np.frombuffer(mmap.mmap(window, WINDOW_BYTES), np.uint8).reshape(2, PIECES, PIECE_BYTES)
        self._mine, self._theirs = memory[0 if first else 1], memory[1 if first else 0]

    def unshare(self) -> None:
        """Releases the window."""
        self._mine = self._theirs = None

    def send(self, call: int, kind: int, *body: Any) -> None:
        """Writes a message to the socket. A message of the thread that is writing one comes behind it."""
        data, here = whole(call, kind, *body), threading.get_ident()
        if self._sender == here:  # `stuck` has read something that is answered at once
            self._later.append(data)
            return
        with self._sending:
            self._sender = here
            try:
                self._write(data)
                while self._later:
                    self._write(self._later.popleft())
            finally:
                self._sender = 0

    def _write(self, data: Any) -> None:
        while data:
            try:
                sent = self.socket.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                (self.stuck or self._wait_writable)()
                continue
            except OSError as error:
                raise Closed(str(error)) from None
            data = memoryview(data)[sent:] if sent < len(data) else b""

    def receive(self, timeout: float | None = None) -> tuple[int, int, Any] | None:
        """Reads the next message; None when none is whole after `timeout` seconds."""
        buffer, late = self._buffer, None if timeout is None else time.monotonic() + timeout
        while True:
            if len(buffer) >= HEADER.size:
                size, call, kind = HEADER.unpack_from(buffer)
                if size > self.most:
                    raise BadMessage(f"service: a message of {size} bytes; at most {self.most} are taken")
                end = HEADER.size + size
                if len(buffer) >= end:
                    body = bytes(memoryview(buffer)[HEADER.size : end])
                    del buffer[:end]
                    self._is_bulk = kind in (PIECE, CREDIT)  # for which it is worth to sleep
                    return call, kind, body
            try:
                left = None if late is None else max(0.0, late - time.monotonic())
                data = self._received_soon(left)
                if data is None:
                    if left is not None and not self._poll(select.POLLIN, left):
                        return None
                    data = self.socket.recv(_CHUNK)
            except OSError as error:
                raise Closed(str(error)) from None
            if not data:
                raise Closed("the connection was closed")
            buffer += data

    def _received_soon(self, timeout: float | None) -> bytes | None:
        """Polls for a message for a short time, since a sleeping thread wakes up some 50 us late."""
        seconds = 0.0 if self._is_bulk else self.awake
        end = time.monotonic() + (seconds if timeout is None else min(seconds, timeout))
        while True:
            with contextlib.suppress(BlockingIOError):
                return self.socket.recv(_CHUNK, socket.MSG_DONTWAIT)
            if time.monotonic() >= end:
                return None

    def receive_first(self, timeout: float) -> tuple[tuple[int, int, Any] | None, socket.socket | None]:
        """The first answer of a server, and the socket on which it will say why the session ended. Receives
        the window with them.
        """
        self.socket.settimeout(timeout)
        try:
            self._buffer[:], files, _, _ = socket.recv_fds(self.socket, HEADER.size, 4)
        finally:
            self.socket.settimeout(None)
        if len(files) > 1 and is_window(files[1]):
            self.share(files[1], first=True)
        for file in files[1:]:
            os.close(file)
        reasons = socket.socket(fileno=files[0]) if files else None
        return self.receive(timeout), reasons

    def _wait_writable(self) -> None:
        self._poll(select.POLLOUT, 1.0)

    def _poll(self, event: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self.socket, event)
        return bool(poll.poll(seconds * 1000))

    def close(self) -> None:
        """Shuts the socket down in both directions."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def _place(self, slot: int, part: np.ndarray) -> Any:
        mine = self._mine
        if mine is None:
            return super()._place(slot, part)
        np.copyto(mine[slot, : part.size], part)
        return b""

    def _found(self, slot: int, size: int, body: Any) -> np.ndarray:
        if self._theirs is None or slot >= PIECES:
            return super()._found(slot, size, body)
        return self._theirs[slot, :size]

    # For a relay: messages of another transport, whose pieces have their bytes in them.

    def pass_on(self, data: bytes) -> None:
        """Sends a complete message of another transport."""
        size, call, kind = HEADER.unpack_from(data)
        if size != len(data) - HEADER.size:
            raise BadMessage(f"service: a message says {size} bytes, and has {len(data) - HEADER.size}")
        body = memoryview(data)[HEADER.size :]
        if kind == PIECE and size >= _PIECE.size and self._mine is not None:
            slot, part = body[0], super()._found(0, 0, body)
            if slot >= PIECES or part.size > PIECE_BYTES:
                raise BadMessage(f"service: a piece of {part.size} bytes in place {slot}")
            body = body[: _PIECE.size].tobytes() + self._place(slot, part)
        self.send(call, kind, body)

    def receive_whole(self) -> bytes | None:
        """A complete message for another transport."""
        message = self.receive()
        if message is None or message[1] != PIECE or self._theirs is None:
            return whole(*message) if message is not None else None
        slot, size = _PIECE.unpack(message[2])
        return whole(*message, self._theirs[slot, :size].data)


def whole(call: int, kind: int, *body: Any) -> bytes:
    """The bytes of a message."""
    return b"".join([HEADER.pack(sum(map(len, body)), call, kind), *body])


def new_window() -> int:
    """A descriptor of memory for pieces, of a sealed size: if it could be truncated, readers would be
    killed.
    """
    import fcntl

    window = os.memfd_create("axla-window", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(window, WINDOW_BYTES)
    fcntl.fcntl(window, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return window


def is_window(window: int) -> bool:
    """Whether a descriptor is such memory."""
    import fcntl

    try:
        sealed = fcntl.fcntl(window, fcntl.F_GET_SEALS)
        return bool(sealed & fcntl.F_SEAL_SHRINK) and os.fstat(window).st_size == WINDOW_BYTES
    except OSError:
        return False
