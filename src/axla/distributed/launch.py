"""Starts a script in several processes, and ends all of them when one fails.

    python -m axla.distributed -n 4 train.py --epochs 10
    python -m axla.distributed -n 4 -m package.train
    python -m axla.distributed -n 8 --hosts a,b train.py

Each process has a parent that reports to the launcher how the process ended. When a process raises an
exception, is killed or exits with a status, the others are stopped within two seconds. One message names its
rank, its host and the cause, and the launcher exits with status 1.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from axla.core.errors import UnsupportedError, missing
from axla.distributed.worker import LAUNCHER

_SIGNALS = {number.value: number.name for number in signal.Signals}
_LOOK = 0.05
_GRACE = 0.5
"""The seconds that other processes have to end by themselves after one has failed."""


class _Launcher:
    """The state of a job: why processes failed, by rank and host, and the connections to the parents of all
    processes.
    """

    def __init__(self, hosts: str) -> None:
        self.causes: dict[str, str] = {}
        self.watchers: list[tuple[int, Connection]] = []
        """(process id, or 0 on another host; connection) of the parent of each process."""
        self.host, key = socket.gethostname(), secrets.token_bytes(16)
        self.listener = Listener((self.host, 0) if hosts else None, authkey=key)
        address = self.listener.address
        place = f"{self.host}:{address[1]}" if hosts else address
        self.environment = {**os.environ, LAUNCHER: f"{key.hex()}@{place}"}
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            with contextlib.suppress(Exception):  # a client without the key, or one that has ended
                threading.Thread(target=self._hear, args=[self.listener.accept()], daemon=True).start()

    def _hear(self, line: Connection) -> None:
        """Receives the messages of one process until it ends."""
        rank, host, pid = line.recv()
        self.watchers.append((pid if host == self.host else 0, line))
        said, why = "", ""
        try:
            while isinstance(said, str):
                why, said = said, line.recv()
        except (EOFError, OSError):
            said, why = 1, "its parent process was killed"
        if said:
            killed = f"it was killed by {_SIGNALS.get(-said, f'signal {-said}')}" if said < 0 else ""
            self.causes[f"rank {rank} on {host}"] = killed or why or f"it ended with status {said}"

    def first(self) -> str:
        """The message about the first process whose own failure does not name another failed process as its
        cause.
        """
        found = list(self.causes.items())
        awaited = [any(other in why for other, _ in found if other != who) for who, why in found]
        return ": ".join(found[awaited.index(False) if False in awaited else 0])

    def end(self, process: subprocess.Popen) -> None:
        """Ends all processes that still run. On other hosts, they end when mpiexec does."""
        if process.poll() is None:
            process.kill()
            process.wait()
            for pid in [pid for pid, _ in self.watchers if pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def launch(count: int, command: Sequence[str], hosts: str = "") -> int:
    """Runs a command (a script, or -m and a module, with arguments) in `count` processes. Returns 0, or 1
    after a message to standard error. `hosts` has names of machines separated by commas; "" stands for this
    machine. With -P, -m imports nothing from the working directory.
    """
    launcher = _Launcher(hosts)
    begin = [_mpiexec(), "-n", str(count), *(["-hosts", hosts] if hosts else []), sys.executable]
    worker = [*begin, "-P", "-c", "from axla.distributed.worker import main; main()", *command]
    process = subprocess.Popen(worker, env=launcher.environment, start_new_session=True)
    try:
        while process.poll() is None and not launcher.causes:
            time.sleep(_LOOK)
        if launcher.causes:
            time.sleep(_GRACE)
        elif process.returncode:
            launcher.causes["mpiexec"] = f"it ended with status {process.returncode}"
    finally:
        launcher.end(process)
    if launcher.causes:
        print(f"axla.distributed: {launcher.first()}", file=sys.stderr, flush=True)
    return 1 if launcher.causes else 0


def _mpiexec() -> str:
    """The path of mpiexec: the one in the folder of this Python, or else on PATH; UnsupportedError without
    one.
    """
    beside = str(Path(sys.executable).with_name("mpiexec"))
    found = shutil.which(beside) or shutil.which("mpiexec")
    if found is None:
        raise UnsupportedError(missing("axla.distributed", "mpiexec", "mpi"))
    return found


def _terminated(number: int, frame: object) -> None:
    """Ends the launcher, and with it the job, with the status that a shell reports for this signal."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def main() -> int:
    """Runs the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        "python -m axla.distributed", None, __doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-n", type=int, required=True, metavar="N", help="number of processes")
    parser.add_argument("--hosts", default="", help="host names, separated by commas")
    parser.add_argument("-m", nargs=argparse.REMAINDER, default=[], help="a module and its arguments")
    parser.add_argument("script", nargs=argparse.REMAINDER, help="a script and its arguments")
    chosen = parser.parse_args()
    command = ["-m", *chosen.m] if chosen.m else chosen.script
    if chosen.n < 1 or not command:
        parser.error(f"-n {chosen.n} {' '.join(command)}: at least one process and a script are wanted")
    signal.signal(signal.SIGTERM, _terminated)
    return launch(chosen.n, command, chosen.hosts)
