"""The worker process of one client: `python -m axla.service.worker`, started and monitored by the supervisor.

It loads its backend, reports that it is ready, and waits for a client's connection, which the supervisor
sends over the control socket. It ends when its client disconnects or its supervisor ends.
"""

from __future__ import annotations

import contextlib
import ctypes as c
import json
import math
import os
import resource
import signal
import socket
import sys
import threading
import time

from axla.api import parse
from axla.backends.interface import BACKENDS, Backend, Client
from axla.core.errors import AxlaError
from axla.custom.feeds import Feeds
from axla.runtime.serialized import versions
from axla.service import log
from axla.service.limits import ClientLimits, Page
from axla.service.messages import NUMBERS, VERSION, encode, entries
from axla.service.session import ClientFeed, ClientSession
from axla.service.transport import HEADER, SocketTransport

CONTROL_BYTES = 1 << 17
_STACKS = 512 << 20
"""The bytes of address space for the stacks and memory pools of threads. Most of it is never used."""
_PR_SET_PDEATHSIG = 1
_WARM = "ENTRY e { x = f32[] parameter(0)\n  ROOT y = f32[] add(x, x) }"


def main() -> None:
    """Serves one client. The first argument of the process has the supervisor's instructions as JSON."""
    told = json.loads(sys.argv[1])
    log.FILE = told["log_file"]
    control, page = socket.socket(fileno=told["control"]), Page(told["page"])
    for number in (signal.SIGINT, signal.SIGTERM):  # Ctrl-C in the terminal is handled by the supervisor
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        c.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    backend = BACKENDS.get(told["backend"])
    _warm(backend)
    control.send(b"ready")
    data, files, _, _ = socket.recv_fds(control, CONTROL_BYTES, 3)
    if not data:
        os._exit(0)
    first = json.loads(data)
    connection, reasons, window = socket.socket(fileno=files[0]), *files[1:]
    limits = ClientLimits(**told["limits"])
    _restrain(limits)
    lines = log.RequestLog(first["session"], told["log"])
    transport = SocketTransport(connection, window, first=False)
    session = ClientFeed.session = ClientSession(transport, backend, limits, page, lines.request)
    Feeds.kind = ClientFeed
    threading.Thread(target=_listen, args=[control, session], daemon=True).start()
    with contextlib.suppress(OSError):  # the client has already disconnected
        _welcome(connection, [reasons, window], first["session"], backend, limits)
        os.close(reasons)
        os.close(window)
        session.serve()
    os._exit(0)  # also ends runs in progress


def _warm(backend: Backend) -> None:
    """Loads everything that the first compilation of a client needs, by compiling a small program."""
    try:
        client = Client(backend, 1)
        client.compile(parse(_WARM)).execute([1.0])
    except AxlaError as error:
        print(f"axla serve: the backend {backend.name} does not run here: {error}", file=sys.stderr)
        os._exit(3)


def _restrain(limits: ClientLimits) -> None:
    """Limits the memory, files and processor time of this process and of all that it starts."""
    with open("/proc/self/statm") as statm:
        size = int(statm.read().split()[0]) * resource.getpagesize()
    bounds: dict[int, float] = {
        resource.RLIMIT_AS: size + _STACKS + 2 * limits.memory, resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 256,
    }  # fmt: skip
    if limits.processor_seconds:
        bounds[resource.RLIMIT_CPU] = time.process_time() + limits.processor_seconds
    for kind, bound in bounds.items():
        _, most = resource.getrlimit(kind)
        most = most if most != resource.RLIM_INFINITY else 1 << 62
        # One second before its processor time ends, the process gets a signal, from which the reason is
        # known.
        pair = math.ceil(bound), math.ceil(bound) + (kind == resource.RLIMIT_CPU)
        resource.setrlimit(kind, (min(pair[0], most), min(pair[1], most)))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("500")  # if memory runs out, workers are killed before the supervisor


def _welcome(
    connection: socket.socket, files: list[int], session: str, backend: Backend, limits: ClientLimits
) -> None:
    """Sends the first answer to the client. `files` are descriptors that are sent with it: of the socket for
    the reason why the worker ends, and of the window.
    """
    able = backend.capabilities
    body = encode("Welcome", {
        "version": VERSION, "axla": versions()[0], "session": session, "backend": backend.name,
        "about": backend.about, "device_kind": backend.device_kind,
        "memory_kinds": list(backend.memory_kinds), "any_devices": backend.any_devices,
        "participants": able.participants, "refused": entries(able.refused), "message_bytes": limits.message,
    })  # fmt: skip
    socket.send_fds(connection, [HEADER.pack(len(body), 0, NUMBERS["Welcome"]) + body], files)


def _listen(control: socket.socket, session: ClientSession) -> None:
    """Ends the process when the supervisor ends, or, on its order, when all requests are finished."""
    while data := control.recv(64):
        if data == b"drain":
            session.draining = True
            while session.is_busy():
                time.sleep(0.01)
            os._exit(0)
    os._exit(0)


if __name__ == "__main__":
    main()
