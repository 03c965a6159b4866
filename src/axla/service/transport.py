"""Transports of messages: the base class `Transport`, and the one for unix sockets, which passes arrays
through shared memory.

A message is a header (bytes of the body, number of the call, kind) and a body. Other transports derive from
`Transport` and define `send`, `receive` and `close`. Pieces of arrays are part of the messages; a transport
that shares memory with the other side defines `_place` and `_found` instead.
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
"""The number of bytes in the body, the number of the call, the kind."""
PIECE_BYTES, PIECES = 1 << 21, 8
"""The bytes of a piece of an array, and the limit of pieces in one direction that are sent but not yet
processed."""
WINDOW_BYTES = 2 * PIECES * PIECE_BYTES
FIRST_BYTES = 1 << 16
"""The limit of bytes of the first message, from an unknown sender."""
_PIECE = struct.Struct("<BI")
_CHUNK = 1 << 16


class BadMessage(InvalidArgument):
    """Malformed data was received, so that the start of the next message is unknown."""


class Closed(Exception):
    """The other side has closed the connection. `why` is its reason, if known."""

    def __init__(self, text: str = "", why: AxlaError | None = None) -> None:
        super().__init__(text)
        self.why = why


class Transport:
    """Sends and receives messages. Any number of threads may send; one thread at a time may receive."""

    most = FIRST_BYTES
    """The limit of bytes of a message, checked before memory is allocated for it."""

    def __init__(self) -> None:
        self._free, self._taken = deque(range(PIECES)), bytearray()
        self.stuck: Callable[[], None] | None = None
        """Called repeatedly while a message cannot be sent because the other side does not read; if None, the
        thread waits. (A bound method of this object would be a reference cycle: memory would stay until a
        garbage collection.) """

    def send(self, call: int, kind: int, *body: Any) -> None:
        """Sends a message. Raises Closed if the other side has closed the connection."""
        raise NotImplementedError

    def receive(self, timeout: float | None = None) -> tuple[int, int, Any] | None:
        """Returns the next message as (number of the call, kind, body); None if none arrives within `timeout`
        seconds. Raises Closed at the end of the connection, BadMessage for a message that is too long.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Ends both directions. Closed is raised in receiving threads."""

    def _wait_writable(self) -> None:
        """Waits until more data can be sent, but only for a limited time."""

    # Arrays.

    def give(self, call: int, data: np.ndarray, wait: Callable[[Callable[[], object]], None]) -> None:
        """Sends the bytes of an array in pieces, for a call. `wait(until)` must return when `until()` is
        true; credits from the other side make it true.
        """
        for at in range(0, data.size, PIECE_BYTES):
            part = data[at : at + PIECE_BYTES]
            while True:
                with contextlib.suppress(IndexError):  # another thread took the slot
                    slot = self._free.popleft()
                    break
                wait(lambda: self._free)
            self.send(call, PIECE, _PIECE.pack(slot, part.size), self._place(slot, part))

    def take(self, body: Any, into: np.ndarray | None, at: int = 0) -> int:
        """Copies a received piece to `into` from offset `at`, or drops it if `into` is None. Returns its
        number of bytes. Its slot is credited later, together with others. BadMessage for a piece that does
        not fit.
        """
        if len(body) < _PIECE.size:
            raise BadMessage(f"service: a piece of {len(body)} bytes is too short for its header")
        slot, size = _PIECE.unpack_from(body)
        part = self._found(slot, size, body)
        if slot >= PIECES or part.size != size or (into is not None and size > into.size - at):
            raise BadMessage(f"service: a piece of {size} bytes in slot {slot} does not fit")
        if into is not None:
            np.copyto(into[at : at + size], part)
        self._taken.append(slot)
        if len(self._taken) >= PIECES // 2:  # not each one: that would wake the other side more often
            taken, self._taken = self._taken, bytearray()
            self.send(0, CREDIT, taken)
        return size

    def credit(self, body: bytes) -> None:
        """Handles a credit: the other side has processed pieces, whose slots are now free."""
        for slot in body:
            if slot >= PIECES or slot in self._free:
                raise BadMessage("service: found a credit for a piece that was not sent")
            self._free.append(slot)

    def _place(self, slot: int, part: np.ndarray) -> Any:
        """Stores a piece for the other side in a slot; returns the bytes of it that must be in the
        message.
        """
        return part.data

    def _found(self, slot: int, size: int, body: Any) -> np.ndarray:
        """The bytes of a received piece, which is in a slot or in the body of its message."""
        return np.frombuffer(body, np.uint8, offset=_PIECE.size)


class SocketTransport(Transport):
    """A transport over a unix socket. With a window (a file descriptor of shared memory), pieces of arrays
    are in the window: in the first half those that the client sends.
    """

    awake = 100e-6
    """The seconds that a receiver polls for a message before it sleeps: about the time of a small call."""

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
        """Uses the window for pieces from now on. `first` is whether this side sends in its first half."""
        memory = np.frombuffer(mmap.mmap(window, WINDOW_BYTES), np.uint8).reshape(2, PIECES, PIECE_BYTES)
        self._mine, self._theirs = memory[0 if first else 1], memory[1 if first else 0]

    def unshare(self) -> None:
        """Releases the memory of the window."""
        self._mine = self._theirs = None

    def send(self, call: int, kind: int, *body: Any) -> None:
        """Writes a message to the socket. If this thread is already writing one, the message follows that
        one.
        """
        data, here = whole(call, kind, *body), threading.get_ident()
        if self._sender == here:  # `stuck` read a message, and now answers it
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
        """Reads the next message; None if it is not complete within `timeout` seconds. Otherwise as
        `Transport.receive`.
        """
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
                    self._is_bulk = kind in (PIECE, CREDIT)  # no polling between pieces
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
        """Polls the socket for a short time, since a sleeping thread wakes about 50 us late. None if nothing
        arrives.
        """
        seconds = 0.0 if self._is_bulk else self.awake
        end = time.monotonic() + (seconds if timeout is None else min(seconds, timeout))
        while True:
            with contextlib.suppress(BlockingIOError):
                return self.socket.recv(_CHUNK, socket.MSG_DONTWAIT)
            if time.monotonic() >= end:
                return None

    def receive_first(self, timeout: float) -> tuple[tuple[int, int, Any] | None, socket.socket | None]:
        """Returns (the first message of a server, the socket on which it will send the reason for the end of
        the session). Receives the descriptor of the window with them.
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

    # Methods for a relay to another transport, whose messages contain the bytes of pieces.

    def pass_on(self, data: bytes) -> None:
        """Sends a complete message that came from another transport."""
        size, call, kind = HEADER.unpack_from(data)
        if size != len(data) - HEADER.size:
            raise BadMessage(f"service: a header says {size} bytes, found {len(data) - HEADER.size}")
        body = memoryview(data)[HEADER.size :]
        if kind == PIECE and size >= _PIECE.size and self._mine is not None:
            slot, part = body[0], super()._found(0, 0, body)
            if slot >= PIECES or part.size > PIECE_BYTES:
                raise BadMessage(f"service: {part.size} bytes in slot {slot}: slots are too small or too few")
            body = body[: _PIECE.size].tobytes() + self._place(slot, part)
        self.send(call, kind, body)

    def receive_whole(self) -> bytes | None:
        """Receives the next message in the form for another transport: complete, with the bytes of pieces."""
        message = self.receive()
        if message is None or message[1] != PIECE or self._theirs is None:
            return whole(*message) if message is not None else None
        slot, size = _PIECE.unpack(message[2])
        return whole(*message, self._theirs[slot, :size].data)


def whole(call: int, kind: int, *body: Any) -> bytes:
    """The bytes of a message: its header and body."""
    return b"".join([HEADER.pack(sum(map(len, body)), call, kind), *body])


def new_window() -> int:
    """Creates shared memory for pieces, and returns its file descriptor. The size is sealed: if it could be
    truncated, processes reading it would be killed.
    """
    import fcntl

    window = os.memfd_create("axla-window", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(window, WINDOW_BYTES)
    fcntl.fcntl(window, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return window


def is_window(window: int) -> bool:
    """Whether a file descriptor is of memory that `new_window` may have created: of the right size, and
    sealed.
    """
    import fcntl

    try:
        sealed = fcntl.fcntl(window, fcntl.F_GET_SEALS)
        return bool(sealed & fcntl.F_SEAL_SHRINK) and os.fstat(window).st_size == WINDOW_BYTES
    except OSError:
        return False
