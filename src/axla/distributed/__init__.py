"""Programs on the devices of several processes, over MPI.

    mpiexec -n 4 python train.py              or  python -m axla.distributed -n 4 train.py

    job = axla.distributed.initialize()       # in train.py, in every process
    job.index, job.count                      # 0 to 3, of 4

After that, the clients of `cpu` have the devices of all processes. Every process compiles a program for all
of them, and `execute_replicated` takes and returns the arrays of the devices of its own process. Needs
`axla[mpi]`.
"""

from __future__ import annotations

from axla.distributed.job import Job, initialize

__all__ = ["Job", "initialize"]
