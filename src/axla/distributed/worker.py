"""One process of a job: a child runs the script, and its parent, this process, reports to the launcher how
the child ended.

So MPI's own launcher sees no process die, and the failed process is known before others notice its absence.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import socket
import sys
import traceback
from multiprocessing.connection import Client, Connection, wait

LAUNCHER = "AXLA_LAUNCHER"
"""The environment variable with the key and the address of the launcher: key@path or key@host:port."""
_RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
_PR_SET_PDEATHSIG = 1

_line: Connection | None = None
"""The connection to the launcher."""


def report(cause: str) -> None:
    """Sends the launcher the reason why this process fails, if it does. It replaces the reason sent before;
    "" stands for no known reason.
    """
    if _line is not None:
        _line.send(" ".join(cause.split()))


def main() -> None:
    """Runs a script or a module in a child process, and reports its exit status to the launcher.
    `sys.argv[1:]` is the path of the script, or -m and the name of the module, then the arguments. Python
    itself was started with -P, so the child adds the script's directory to `sys.path`.
    """
    global _line
    key, _, where = os.environ[LAUNCHER].partition("@")
    host, _, port = where.rpartition(":")
    _line = Client((host, int(port)) if port.isdigit() else where, authkey=bytes.fromhex(key))
    rank = next((int(os.environ[name]) for name in _RANKS if name in os.environ), 0)
    _line.send((rank, socket.gethostname(), os.getpid()))
    child = os.fork()
    if not child:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _run()
        return
    if _line in wait([os.pidfd_open(child), _line]):
        os._exit(1)  # the launcher has ended; the child ends with this process
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _line.send(status)
    if status:
        wait([_line])  # until the launcher ends all processes


def _run() -> None:
    """Runs the script. If it fails, reports that and ends this process at once; otherwise MPI would wait for
    the other processes.
    """
    sys.argv = sys.argv[1:]
    try:
        if sys.argv[0] in ("-m", "-P"):
            if sys.argv[0] == "-m":
                sys.path.insert(0, os.getcwd())
            sys.argv = sys.argv[sys.argv.index("-m") + 1 :]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
            runpy.run_path(sys.argv[0], run_name="__main__")
        return
    except SystemExit as end:
        if end.code in (None, 0):
            return
        status = end.code if isinstance(end.code, int) else 1
        if status is not end.code:
            print(end.code, file=sys.stderr)
            report(str(end.code))
    except BaseException as error:  # noqa: BLE001  (any failure ends the job)
        traceback.print_exc()
        report("".join(traceback.format_exception_only(error)))
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
