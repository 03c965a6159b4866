"""A pytest plugin for the processes of a job: programs for several devices run on those of all processes.

Each process runs the same tests, gives a program the arguments of its own devices, and gets the results of
all. Participants go round the processes: with two of them, 0 and 2 are in the first.
"""

from __future__ import annotations

import os

import numpy as np

import axla.distributed
from axla.backends.devices import Devices
from axla.backends.executable import Executable
from axla.backends.options import ExecuteOptions
from axla.runtime.array import device_put

JOB = axla.distributed.initialize(int(os.environ["DEVICES_PER_PROCESS"]))
ONE_PROCESS, IN_ORDER = Executable.execute_replicated, Devices.default_device_assignment


def execute_replicated(self, inputs, options=None, **keywords):
    job = self.client.job if self.client is not None else None
    rows = [list(row) for row in inputs]
    mine = self.local_participants
    if job is None or len(rows) != len(self.devices) or len(mine) == len(rows):
        return ONE_PROCESS(self, rows, options, **keywords)
    from mpi4py import MPI

    found = ONE_PROCESS(self, [rows[n] for n in mine], options or ExecuteOptions(**keywords))
    arrays = [[np.asarray(a) for a in row] for row in found]
    every = MPI.COMM_WORLD.allgather(dict(zip(mine, arrays, strict=True)))
    results = {n: row for part in every for n, row in part.items()}
    return [[device_put(a, n) for a in results[n]] for n in range(len(rows))]


def default_device_assignment(self, replicas, partitions=1):
    if self.job is None or replicas == partitions == 1:
        return IN_ORDER(self, replicas, partitions)
    places = [divmod(n, JOB.count) for n in range(replicas * partitions)]
    devices = [rank * JOB.local + number for number, rank in places]
    return tuple(tuple(devices[r * partitions : (r + 1) * partitions]) for r in range(replicas))


Executable.execute_replicated = execute_replicated
Devices.default_device_assignment = default_device_assignment
