"""This process and the others: ranks, devices, and that all run the same program."""

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
"""Seconds in which mpiexec reads what was said: it drops the rest when a process aborts."""
_MOST = 64
"""Devices of a process."""

_job: Job | None = None


class Job:
    """The processes of a job. Device number d is device d % local of process d // local."""

    def __init__(self, mpi: Any, local: int) -> None:
        self._world = mpi.COMM_WORLD
        self.messages = self._world.Dup()
        self.index, self.count, self.local = self._world.Get_rank(), self._world.Get_size(), local
        said = self._world.allgather((local, socket.gethostname()))
        for mapped in Path("/proc/self/maps").read_text().splitlines():
            if "/dev/shm/mpich_shm_" in mapped:  # all have it by now; nobody would remove it after a failure
                Path(mapped.split()[5]).unlink(missing_ok=True)
        self.names = [f"rank {rank} on {host}" for rank, (_, host) in enumerate(said)]
        if len({number for number, _ in said}) > 1:
            counts = ", ".join(f"{number} on rank {rank}" for rank, (number, _) in enumerate(said))
            raise InvalidArgument(f"initialize: devices_per_process is to be the same everywhere: {counts}")
        self.letters: dict[Any, Any] = {}
        """Values that have come for participants here and are not received yet, with the number of its run,
        by engine and address.
        """
        self.arriving: dict[int, Any] = {}
        """Requests of messages that come now, by tag."""
        self.left: deque[Any] = deque()
        """Requests of what ended runs have sent; each holds its message until it has left."""
        self.kept: list[Any] = []
        """Requests of what has failed, and what owns their memory."""
        self.engines = 0
        self._groups: dict[tuple[int, ...], Any] = {}
        self.broken = ""

    def check(self) -> None:
        """CollectiveFailure after a collective has failed: the others may wait in it still."""
        if self.broken:
            raise CollectiveFailure(f"a collective of this job failed before: {self.broken}", abi.COLLECTIVE)

    def engine(self, interface: Interface, places: Sequence[int], digest: bytes) -> Any:
        """The `MpiEngine` of a program whose participants are on the devices `places`, all of which load it.
        CollectiveFailure on every process where they have different programs.
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
        """A communicator between processes, and a number of its own on it. Each of them asks for all that it
        takes part in, in the same order.
        """
        if ranks not in self._groups:
            group = self._world.Get_group().Incl(ranks)
            self._groups[ranks] = self._world.Create_group(group), itertools.count()
        communicator, numbers = self._groups[ranks]
        return communicator, next(numbers)

    def abort(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Ends all processes, after a message: what `sys.excepthook` is without axla's launcher."""
        traceback.print_exception(kind, error, trace)
        said = f"axla.distributed: {self.names[self.index]}: {kind.__name__}: {error}"
        print(said, file=sys.stderr, flush=True)
        time.sleep(_LAST_WORDS)
        self._world.Abort(1)


def initialize(devices_per_process: int = 1) -> Job:
    """Joins the other processes of the job; the same on all. Further calls give the same job.

    InvalidArgument where `devices_per_process` is another one than before, or on another process, and after
    programs were compiled for `cpu`: they do not know the devices of the job.
    UnsupportedError without mpi4py or an MPI that takes calls from several threads.
    """
    global _job
    if type(devices_per_process) is not int or not 1 <= devices_per_process <= _MOST:
        raise InvalidArgument(f"initialize: devices_per_process={devices_per_process!r}, wanted 1 to {_MOST}")
    if _job is None:
        if "client" in vars(get("cpu")):
            raise InvalidArgument("initialize: the client of cpu was in use before, wanted: initialize first")
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
        report(f"initialize: not all processes came within {limit} s")
        # MPI waits for all of them, with the lock of Python.
        faulthandler.dump_traceback_later(limit, exit=True)
        from mpi4py import MPI

        faulthandler.cancel_dump_traceback_later()
        report("")
    except ImportError as error:
        raise UnsupportedError(missing("axla.distributed", "MPI", "mpi")) from error
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise UnsupportedError("this MPI takes calls from one thread only (MPI_THREAD_MULTIPLE is wanted)")
    return MPI
