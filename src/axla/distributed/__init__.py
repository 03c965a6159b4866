"""Programs on the devices of several processes, over MPI.

    mpiexec -n 4 python train.py              or  python -m axla.distributed -n 4 train.py

    job = axla.distributed.initialize()       # in train.py, the same on all
    job.index, job.count                      # 0 to 3, of 4

After it, the clients of `cpu` know the devices of all processes; a program for all of them is compiled by
each, and `execute_replicated` takes and gives the arrays of this process's devices. Needs `axla[mpi]`.
"""

from __future__ import annotations

from axla.distributed.job import Job, initialize

__all__ = ["Job", "initialize"]
