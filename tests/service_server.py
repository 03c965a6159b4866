"""Runs `axla serve` in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import axla

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "AXLA_CACHE_DIR": ""}
SQUARE = "HloModule square\nENTRY e { x = f32[3] parameter(0)\n  ROOT y = f32[3] multiply(x, x) }"
X = np.float32([1, 2, 3])


class Server(subprocess.Popen):
    address = ""
    """The address of the unix socket; `grpc` is the address for gRPC."""
    grpc = ""
    log: Path

    def text(self) -> str:
        return self.log.read_text()


@contextmanager
def started(
    folder: Path, *options: str, listen: str = "", within: tuple[str, ...] = (), **environment: str
) -> Iterator[Server]:
    """Starts a server, yields its process, and stops it. `listen` is an address for gRPC too: a host and port
    0. `within` is a command that runs the command after it, in its own process.
    """
    path, log = folder / "axla.sock", folder / "log"
    command = [*within, sys.executable, "-P", "-m", "axla", "serve", "--socket", str(path), *options]
    command += ["--listen", listen] if listen else []
    with open(log, "wb") as file:
        process = Server(command, stderr=file, env=ENVIRONMENT | environment, stdin=subprocess.DEVNULL)
    process.address, process.log = f"unix:{path}", log
    try:
        while not answers(path):
            if process.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.02)
        while listen and not process.grpc:
            if port := re.search(r'listens"[^\n]*port"?[=:] ?(\d+)', process.text()):
                process.grpc = f"{listen.rpartition(':')[0]}:{port[1]}"
            elif process.poll() is not None:
                raise RuntimeError(log.read_text())
            else:
                time.sleep(0.02)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(60)


def compiled(client: Any, text: str = SQUARE, **options: Any) -> Any:
    """A program that is compiled by the server of a client."""
    return axla.compile(axla.parse(text), backend=client, **options)


REMOTE = ("remote", "remote-grpc")
"""The backends of the fixtures `server` and `grpc_server`: over a unix socket, and over gRPC."""


def with_server(request: Any) -> str:
    """The backend that is the parameter of a fixture or a test. Starts the server that it needs."""
    if request.param in REMOTE:
        request.getfixturevalue("server" if request.param == "remote" else "grpc_server")
    return request.param


def answers(path: Path) -> bool:
    """Whether a server listens on a unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def lines(process: Server, **wanted: Any) -> list[dict[str, Any]]:
    """The lines of the log, which is JSON, that have these keys and values."""
    found = [json.loads(line) for line in process.text().splitlines() if line.startswith("{")]
    return [line for line in found if wanted.items() <= line.items()]


def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Waits until the condition, which another process causes, returns a true value; returns it."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def counters(process: Server) -> dict[str, int]:
    """The counters of a server with --metrics=HOST:0 and --log=json."""
    port = until(lambda: lines(process, event="metrics"))[0]["port"]
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30).read().decode()
    return {name: int(value) for name, value in re.findall(r"^axla_service_(\w+) (\d+)$", text, re.M)}
