"""The server: admits clients, assigns each to a worker process, and monitors the workers.

The thread of `Supervisor.run` does all this, and never blocks. From a client it reads only the first message,
as it arrives, with limits of size and time; the worker reads the others. Other threads (relays of other
transports, signal handlers) queue orders, and wake this thread through a socket.
"""

from __future__ import annotations

import contextlib
import glob
import hmac
import json
import os
import selectors
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, field
from functools import partial
from pathlib import Path
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.errors import AxlaError, DeadlineExceeded, InvalidArgument, OutOfMemory, UnsupportedError
from axla.service import messages
from axla.service.limits import COUNTERS, NOW, ClientLimits, Page, temporary_name
from axla.service.log import write_line
from axla.service.messages import NUMBERS
from axla.service.transport import HEADER, SocketTransport, new_window

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_TICK = 0.1
"""The seconds between two checks of the workers."""
_HELLO_SECONDS, _HELLO_BYTES, _GREETINGS = 5.0, 1 << 12, 64
"""Limits of time and bytes for a client's first message, and the limit of the number of clients that have not
sent it yet. If there are more, the oldest is disconnected.
"""
_START_SECONDS, _STARTS = 120.0, os.cpu_count() or 1
"""The time limit for the start of a worker, and the number of workers that may start at the same time."""
_TRIES, _PAUSE = 3, 1.0
"""If _TRIES workers end before any was ready, the backend does not work here. Later on, the start of a worker
that failed is tried again after _PAUSE seconds.
"""
_SAID = 300
"""The number of last characters of a worker's output that are logged when it ends."""


@dataclass(slots=True)
class Settings:
    """The settings of `axla serve`. A client must present one of the `tokens`; if there are none, everyone
    who can open the socket is admitted. `log` is "text", "json" or "none".
    """

    backends: tuple[str, ...] = ("cpu",)
    limits: ClientLimits = field(default_factory=ClientLimits)
    tokens: tuple[str, ...] = ()
    log: str = "text"
    drain_seconds: float = 30.0


class Worker:
    """A worker process, which serves a client or waits for one. `session` is "" while it waits."""

    def __init__(self, backend: str, settings: Settings, log_file: int) -> None:
        self.backend, self.session = backend, ""
        self.page, self.base, self.began, self.ready = Page(), 0, time.monotonic(), False
        self.breach: AxlaError | None = None
        """The reason why the worker was killed; None if it was not killed."""
        self.reasons: socket.socket | None = None
        """The socket on which the worker's client receives the reason of the worker's end."""
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._prints, prints = socket.socketpair()
        self.said = b""
        files = {"control": theirs.fileno(), "page": self.page.file, "log_file": log_file}
        told = {**files, "backend": backend, "limits": asdict(settings.limits), "log": settings.log}
        command = [sys.executable, "-P", "-m", "axla.service.worker", json.dumps(told)]
        paths = os.pathsep.join(path for path in sys.path if path)  # -P leaves the current folder out
        with theirs, prints, contextlib.closing(self.page):
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=prints.fileno(), stderr=prints.fileno(),
                pass_fds=files.values(), start_new_session=True, env={**os.environ, "PYTHONPATH": paths},
            )  # fmt: skip
        self.ended = os.pidfd_open(self.process.pid)

    def take(self, connection: socket.socket, session: str) -> None:
        """Assigns a client to the worker. If the worker has just ended, the client's connection is closed."""
        window = new_window()
        try:
            self.reasons, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.session, self.ready, self.began = session, False, time.monotonic()
            self.base = _resident(self.process.pid)
            files = [connection.fileno(), theirs.fileno(), window]
            with theirs, contextlib.suppress(OSError):
                socket.send_fds(self.control, [json.dumps({"session": session}).encode()], files)
        finally:
            os.close(window)

    def lives(self) -> bool:
        """Whether the process is running. (`poll` would free its process id, which `kill` needs.)"""
        return os.waitid(os.P_PIDFD, self.ended, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def listen(self) -> None:
        """Reads the worker's output. It is kept apart from the log, as it may be text of the client that
        imitates log lines.
        """
        with contextlib.suppress(OSError):
            self.said = (self.said + self._prints.recv(1 << 16, socket.MSG_DONTWAIT))[-_SAID:]

    def kill(self, why: AxlaError | None = None) -> None:
        """Kills the worker and all processes that it started. `why` is the error that the client receives,
        unless another one is recorded already.
        """
        self.breach = self.breach or why
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def drain(self) -> None:
        """Makes the worker end once its requests are finished."""
        if not self.session:
            return self.kill()
        self.breach = self.breach or messages.unavailable("service: the server was shut down")
        with contextlib.suppress(OSError):
            self.control.send(b"drain")

    def tell(self, why: bytes) -> None:
        """Sends the client the reason for the worker's end, as an encoded message."""
        with contextlib.suppress(OSError):
            assert self.reasons is not None
            self.reasons.send(why, socket.MSG_DONTWAIT)

    def why_ended(self) -> AxlaError | None:
        """The error to report to the client of a worker that has ended; None if it ended normally."""
        self.kill()  # the processes it started, while its process id is not reused
        self.listen()
        code = self.process.wait()
        if self.breach is not None or code == 0:
            return self.breach
        if code == -signal.SIGXCPU:
            return OutOfMemory("service: this client has used up its processor time")
        how = f"by {signal.Signals(-code).name}" if code and code < 0 else f"with exit code {code}"
        return messages.unavailable(
            f"service: the worker process of this client ended {how}; its arrays and programs are lost"
        )

    def close(self) -> None:
        """Closes the sockets of a worker that has ended, and removes its temporary folders."""
        for one in (self.control, self.reasons, self._prints):
            if one is not None:
                one.close()
        os.close(self.ended)
        folder, begin = tempfile.gettempdir(), temporary_name(self.process.pid)
        for left in os.listdir(folder):  # `glob` would cache a regular expression for each name
            if left.startswith(begin):
                shutil.rmtree(os.path.join(folder, left), ignore_errors=True)


class Supervisor:
    """The server: admits clients and monitors workers. `run` returns after `stop`, when all workers ended."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._selector = selectors.DefaultSelector()
        self._workers: dict[int, Worker] = {}
        self._coming: dict[socket.socket, float] = {}
        """Clients that have not sent their first message yet, with the time limit of each."""
        self._waiting: deque[tuple[socket.socket, str]] = deque()
        self._counted = Counter(dict.fromkeys((*COUNTERS[1:], "sessions", "refused", "breaches", "lost"), 0))
        """Sums of the counters of workers that have ended; and the numbers of sessions, of clients refused,
        of limits exceeded ("breaches") and of workers that crashed ("lost").
        """
        self._counting = threading.Lock()
        self._sessions, self._failures, self._why = 0, 0, ""
        self._began: set[str] = set()
        """The backends for which a worker was ready at least once."""
        self._listener: socket.socket | None = None
        self._log_file = os.dup(2)
        self._stop_at = self._look_at = self._start_at = 0.0
        self._orders: deque[Callable[[], object]] = deque()
        self._wake, self._woken = socket.socketpair()
        for end in (self._wake, self._woken):
            end.setblocking(False)
        self._watch(self._woken, self._obey)

    # These may be called from any thread.

    def greet(self, connection: socket.socket) -> None:
        """Begins to wait for the first message of a client."""
        self._order(partial(self._come, connection))

    def stop(self) -> None:
        """Stops the server when the requests in progress are finished, or after `drain_seconds`; at once if
        called a second time.
        """
        self._order(self._stop)

    def note(self, event: str, **facts: Any) -> None:
        """Writes a log line about the server itself. `event` names what happened."""
        self._log("server", event=event, **facts)

    def counters(self) -> dict[str, int]:
        """All counters, summed over the running workers and those that have ended."""
        with self._counting:
            found, workers = Counter(self._counted), list(self._workers.values())
        for worker in workers:
            found.update({name: worker.page.get(name) for name in COUNTERS[1:]})
        return {**found, "clients": sum(1 for worker in workers if worker.session)}

    def _order(self, order: Callable[[], object]) -> None:
        self._orders.append(order)
        with contextlib.suppress(OSError):
            self._wake.send(b".")

    def _obey(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        while self._orders:
            self._orders.popleft()()

    # The loop.

    def listen(self, path: str) -> None:
        """Opens a unix socket at `path` that only its owner may use."""
        _clear(path)
        self._listener, before = socket.socket(socket.AF_UNIX), os.umask(0o177)
        try:
            self._listener.bind(path)
        except OSError as error:
            raise InvalidArgument(f"axla serve: cannot create the socket {path!r}: {error}") from None
        finally:
            os.umask(before)
        self._listener.listen(128)
        self._listener.setblocking(False)
        self._watch(self._listener, self._accept)

    def run(self) -> None:
        """Serves clients until `stop`. UnsupportedError if the workers cannot be started."""
        self._hold_spares()
        while not (self._stop_at and not self._workers):
            for key, _ in self._selector.select(_TICK):
                if self._selector.get_map().get(key.fd) == key:  # an earlier event may have removed it
                    key.data()
            self._look()
        if self._failures >= _TRIES:
            raise UnsupportedError(f"axla serve: the worker processes do not start: {self._why}")

    def _watch(self, what: Any, call: Callable[[], None]) -> None:
        self._selector.register(what, selectors.EVENT_READ, call)

    def _log(self, session: str, **facts: Any) -> None:
        write_line(self.settings.log, session, facts)

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            self.greet(self._listener.accept()[0])
        except OSError as error:  # no file descriptors are left
            self.note("accept", message=str(error))
            time.sleep(_TICK)

    def _look(self) -> None:
        """Periodic checks: of time and memory limits, of clients without a first message, and of the end of a
        shutdown.
        """
        limits, now = self.settings.limits, time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _TICK
        for connection in [one for one, until in self._coming.items() if until < now]:
            late = DeadlineExceeded(f"service: the first message did not arrive within {_HELLO_SECONDS:g} s")
            self._refuse(self._leave(connection), late)
        for worker in self._workers.values():
            worker.listen()
            if not worker.session:
                if not worker.ready and now - worker.began > _START_SECONDS:
                    worker.kill(messages.unavailable(f"the worker was not ready after {_START_SECONDS:g} s"))
                continue
            oldest, used = worker.page.get("oldest"), _resident(worker.process.pid) - worker.base
            if oldest and now - oldest / 1e9 > limits.seconds:
                late = f"service: a request took longer than the {limits.seconds:g} s of this server"
                worker.kill(DeadlineExceeded(late))
            elif used > limits.memory:
                much = f"service: {used} bytes are in use; the limit of this server is {limits.memory}"
                worker.kill(OutOfMemory(much))
        if self._stop_at and now > self._stop_at:
            for worker in self._workers.values():
                worker.kill(messages.unavailable("service: the server was shut down"))
        self._hand_out()

    def _stop(self) -> None:
        if self._stop_at:
            self._stop_at = time.monotonic()
        else:
            self._drain()

    def _drain(self) -> None:
        self._stop_at = time.monotonic() + self.settings.drain_seconds
        self.note("shutdown")
        if self._listener is not None:
            self._selector.unregister(self._listener)
            with contextlib.suppress(OSError):
                os.unlink(self._listener.getsockname())
            self._listener.close()
        for connection in [*map(self._leave, [*self._coming]), *(one for one, _ in self._waiting)]:
            self._refuse(connection, messages.unavailable("service: the server shuts down"))
        self._waiting.clear()
        for worker in self._workers.values():
            worker.drain()

    # Clients.

    def _come(self, connection: socket.socket) -> None:
        if len(self._coming) >= _GREETINGS:
            late = OutOfMemory("service: too many clients connect at once, and this one sent no message yet")
            self._refuse(self._leave(next(iter(self._coming))), late)
        self._coming[connection] = time.monotonic() + _HELLO_SECONDS
        transport = SocketTransport(connection)
        transport.most = _HELLO_BYTES
        self._watch(connection, partial(self._greet, connection, transport))

    def _leave(self, connection: socket.socket) -> socket.socket:
        """Stops waiting for the first message of a client, and returns its connection."""
        self._selector.unregister(connection)
        del self._coming[connection]
        return connection

    def _greet(self, connection: socket.socket, transport: SocketTransport) -> None:
        """Reads the part of a client's first message that has arrived. Admits or refuses the client when it
        is complete.
        """
        try:
            message = transport.receive(0)
            if message is None:
                return
            if message[1] != NUMBERS["Hello"]:
                raise InvalidArgument("service: the first message is not a Hello message")
            backend = self._checked(messages.decode(*message[1:]))
        except Exception as error:
            self._refuse(self._leave(connection), error)
        else:
            self._admit(self._leave(connection), backend)

    def _checked(self, hello: dict[str, Any]) -> str:
        """Returns the name of the backend for a client; raises an error if the client is not admitted."""
        settings, found = self.settings, hello.get("version")
        if found != messages.VERSION:
            raise UnsupportedError(
                f"service: the client has protocol version {found}, this server {messages.VERSION}"
            )
        token = hello.get("token", "").encode("utf-8", "surrogateescape")
        if settings.tokens and not any(hmac.compare_digest(token, t.encode()) for t in settings.tokens):
            raise messages.Refused("service: the token is missing or wrong")
        backend = hello.get("backend") or settings.backends[0]
        if backend not in settings.backends:
            raise InvalidArgument(
                f"service: backend={backend!r:.60}; there are {', '.join(settings.backends)}"
            )
        return backend

    def _admit(self, connection: socket.socket, backend: str) -> None:
        """Adds a client to those that wait for a worker, unless there are too many."""
        there = len(self._waiting) + sum(1 for worker in self._workers.values() if worker.session)
        if self._stop_at:
            self._refuse(connection, messages.unavailable("service: the server shuts down"))
        elif there >= self.settings.limits.clients:
            self._refuse(connection, OutOfMemory(f"service: there are already {there} clients, the limit"))
        else:
            self._waiting.append((connection, backend))
            self._hand_out()

    def _refuse(self, connection: socket.socket, error: BaseException) -> None:
        self._counted["refused"] += 1
        self.note("refused", status=messages.code_of(error).name, message=str(error)[:300])
        body = messages.encode("Failed", messages.failed(error))
        with connection, contextlib.suppress(OSError):
            connection.send(HEADER.pack(len(body), 0, NUMBERS["Failed"]) + body, socket.MSG_DONTWAIT)

    def _hand_out(self) -> None:
        """Assigns waiting clients to ready workers. Clients that have disconnected are removed."""
        for _ in range(len(self._waiting)):
            connection, backend = self._waiting.popleft()
            if _is_gone(connection):
                self._refuse(connection, messages.unavailable("service: the client left while it waited"))
                continue
            ready = (w for w in self._workers.values() if w.ready and w.backend == backend)
            spare = next((worker for worker in ready if worker.lives()), None)
            if spare is None:
                self._waiting.append((connection, backend))
                continue
            self._sessions += 1
            try:
                spare.take(connection, f"s{self._sessions}")
            except OSError as error:  # no file descriptors are left
                self._refuse(connection, OutOfMemory(f"service: no more clients can be served: {error}"))
                continue
            self._counted["sessions"] += 1
            connection.close()
            self._log(spare.session, event="begins", backend=backend, pid=spare.process.pid)
        self._hold_spares()

    # Workers.

    def _hold_spares(self) -> None:
        """Starts workers, a few at a time, until each backend has one for every waiting client, and one
        more.
        """
        for backend in self.settings.backends if not self._stop_at else ():
            wanted = 1 + sum(1 for _, b in self._waiting if b == backend)
            spares = [w for w in self._workers.values() if w.backend == backend and not w.session]
            starting = sum(1 for w in spares if not w.ready)
            for _ in range(min(wanted - len(spares), _STARTS - starting)):
                if time.monotonic() < self._start_at:
                    return
                try:
                    worker = Worker(backend, self.settings, self._log_file)
                except OSError as error:  # too many processes or descriptors
                    self._start_at = time.monotonic() + _PAUSE
                    return self.note("worker", backend=backend, message=str(error))
                self._workers[worker.ended] = worker
                self._watch(worker.ended, partial(self._end, worker))
                self._watch(worker.control, partial(self._is_ready, worker))
        return None

    def _is_ready(self, worker: Worker) -> None:
        self._selector.unregister(worker.control)
        with contextlib.suppress(OSError):
            worker.ready = bool(worker.control.recv(64))
        if worker.ready:
            self._began.add(worker.backend)
        self._hand_out()

    def _end(self, worker: Worker) -> None:
        """Handles the end of a worker process: tells its client the reason, and logs it."""
        why = worker.why_ended()
        self._selector.unregister(worker.ended)
        with self._counting:
            del self._workers[worker.ended]
            self._counted.update({n: worker.page.get(n) for n in COUNTERS[1:] if n not in NOW})
        said: dict[str, Any] = {"printed": worker.said.decode(errors="replace")} if worker.said else {}
        if worker.session:
            facts: dict[str, Any] = {"event": "ends", "seconds": round(time.monotonic() - worker.began, 3)}
            if why is not None:
                if isinstance(why, DeadlineExceeded | OutOfMemory):
                    self._counted["breaches"] += 1
                elif worker.breach is None:
                    self._counted["lost"] += 1
                facts |= {"status": messages.code_of(why).name, "message": str(why), **said}
                worker.tell(messages.encode("Failed", messages.failed(why)))
            self._log(worker.session, **facts)
        elif not self._stop_at:
            self._failures += worker.backend not in self._began
            self._start_at, self._why = time.monotonic() + _PAUSE, said.get("printed", str(why)).strip()
            self.note("worker", backend=worker.backend, message=str(why), **said)
        if not worker.ready and not worker.session:
            with contextlib.suppress(KeyError):
                self._selector.unregister(worker.control)
        worker.close()
        if self._failures >= _TRIES and not self._stop_at:
            self._drain()
        self._hold_spares()


def _is_gone(connection: socket.socket) -> bool:
    """Whether a client has closed its connection."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError as error:
        return not isinstance(error, BlockingIOError)


def _resident(process: int) -> int:
    """The bytes of resident memory of a process and of all its descendants."""
    found = 0
    with contextlib.suppress(OSError, IndexError, ValueError):
        found = int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
        for file in glob.glob(f"/proc/{process}/task/*/children"):
            found += sum(map(_resident, map(int, Path(file).read_text().split())))
    return found


def _clear(path: str) -> None:
    """Removes the socket file that an earlier server left. InvalidArgument if a server uses it, or if it is
    another kind of file.
    """
    with contextlib.suppress(FileNotFoundError), socket.socket(socket.AF_UNIX) as probe:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise InvalidArgument(f"axla serve: {path!r} exists and is not a socket")
        try:
            probe.connect(path)
        except OSError:
            return os.unlink(path)
        raise InvalidArgument(f"axla serve: a server already listens on {path!r}")
