"""The processes of a job: their ranks and devices, and a check that all run the same program."""

from __future__ import annotations

import faulthandler
import itertools
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from axla.backends import devices, get
from axla.core import flags
from axla.core.errors import CollectiveFailure, InvalidArgument, UnsupportedError, missing
from axla.distributed.worker import report
from axla.program import abi
from axla.program.interface import Interface

_LAST_WORDS = 0.5
"""The seconds in which mpiexec reads the last output: it drops the rest when a process aborts."""
_MOST = 64
"""The highest number of devices of a process."""

_job: Job | None = None


class Job:
    """The processes of a job, `local` devices each. Device d is device d % local of process d // local."""

    def __init__(self, mpi: Any, local: int) -> None:
        self._world = mpi.COMM_WORLD
        self.messages = self._world.Dup()
        self.index, self.count, self.local = self._world.Get_rank(), self._world.Get_size(), local
        said = self._world.allgather((local, socket.gethostname()))
        for mapped in Path("/proc/self/maps").read_text().splitlines():
            if "/dev/shm/mpich_shm_" in mapped:  # all have opened it; after a failure none would remove it
                Path(mapped.split()[5]).unlink(missing_ok=True)
        self.names = [f"rank {rank} on {host}" for rank, (_, host) in enumerate(said)]
        if len({number for number, _ in said}) > 1:
            counts = ", ".join(f"{number} on rank {rank}" for rank, (number, _) in enumerate(said))
            raise InvalidArgument(f"initialize: devices_per_process must be equal everywhere: {counts}")
        self.letters: dict[Any, Any] = {}
        """Values that have arrived for participants of this process and have not been taken yet:
        (engine, address) -> queue of (number of the run, value).
        """
        self.arriving: dict[int, Any] = {}
        """Tag -> request of a message that is arriving."""
        self.left: deque[Any] = deque()
        """Send requests of ended runs; each keeps its message until the message has been sent."""
        self.kept: list[Any] = []
        """Requests of failed collectives, and the owners of their memory."""
        self.engines = 0
        self._groups: dict[tuple[int, ...], Any] = {}
        self.broken = ""

    def check(self) -> None:
        """Raises CollectiveFailure if a collective of this job has failed before, since other processes may
        still wait in it.
        """
        if self.broken:
            raise CollectiveFailure(f"an earlier collective of the job failed: {self.broken}", abi.COLLECTIVE)

    def engine(self, interface: Interface, places: Sequence[int], digest: bytes) -> Any:
        """Makes the `MpiEngine` of a program whose participants are on the devices `places`; their processes
        all call this. CollectiveFailure in each of these processes if their programs (`digest`) differ.
        """
        from axla.distributed.engine import MpiEngine
        from axla.distributed.messages import wait

        others = sorted({place // self.local for place in places} - {self.index})
        said = np.frombuffer(digest * self.count, np.uint8).reshape(self.count, -1).copy()
        pending = []
        for rank in others:
            pending.append((self.messages.Irecv(said[rank], rank, 0), self.names[rank]))
            pending.append((self.messages.Isend(said[self.index], rank, 0), self.names[rank]))
        self.kept.append(pending)
        wait(pending, f"{interface.name}: {self.names[self.index]}, which has compiled it,")
        self.kept.remove(pending)
        if len(set(map(bytes, said))) > 1:
            ranks = sorted([self.index, *others])
            listed = ", ".join(f"{self.names[rank]} has {bytes(said[rank])[:4].hex()}" for rank in ranks)
            raise CollectiveFailure(f"the processes have different programs: {listed}", abi.COLLECTIVE)
        self.engines += 1
        return MpiEngine(self, interface, places)

    def channel(self, ranks: tuple[int, ...]) -> tuple[Any, int]:
        """A communicator between the processes `ranks`, and a serial number on it. Each process must request
        its communicators in the same order.
        """
        if ranks not in self._groups:
            group = self._world.Get_group().Incl(ranks)
            self._groups[ranks] = self._world.Create_group(group), itertools.count()
        communicator, numbers = self._groups[ranks]
        return communicator, next(numbers)

    def abort(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Prints an exception and ends all processes: this is `sys.excepthook`."""
        traceback.print_exception(kind, error, trace)
        said = f"axla.distributed: {self.names[self.index]}: {kind.__name__}: {error}"
        print(said, file=sys.stderr, flush=True)
        time.sleep(_LAST_WORDS)
        self._world.Abort(1)


def initialize(devices_per_process: int = 1) -> Job:
    """Joins the other processes of the job; all must call it with the same argument. Further calls return the
    same job.

    InvalidArgument if `devices_per_process` differs from that of an earlier call or of another process, or if
    programs have already been compiled for `cpu`, whose client then lacks the devices of the job.
    UnsupportedError without mpi4py, or if MPI does not accept calls from several threads.
    """
    global _job
    if type(devices_per_process) is not int or not 1 <= devices_per_process <= _MOST:
        raise InvalidArgument(f"initialize: devices_per_process={devices_per_process!r}, wanted 1 to {_MOST}")
    if _job is None:
        if "client" in vars(get("cpu")):
            raise InvalidArgument("initialize: must be called before the client of cpu is used")
        _job = Job(_mpi(), devices_per_process)
        devices.job[:] = [_job]
        sys.excepthook = _job.abort
    if _job.local != devices_per_process:
        raise InvalidArgument(f"initialize: devices_per_process was {_job.local}, is {devices_per_process}")
    return _job


def _mpi() -> Any:
    try:
        import mpi4py

        mpi4py.rc.thread_level = "multiple"
        limit = flags.current().collective_timeout
        report(f"initialize: not all processes called it within {limit} s")
        # MPI waits for all processes while it holds Python's interpreter lock.
        faulthandler.dump_traceback_later(limit, exit=True)
        from mpi4py import MPI

        faulthandler.cancel_dump_traceback_later()
        report("")
    except ImportError as error:
        raise UnsupportedError(missing("axla.distributed", "MPI", "mpi")) from error
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise UnsupportedError("this MPI takes calls from one thread only, MPI_THREAD_MULTIPLE is needed")
    return MPI
