"""The section `peers`: each job is run by axla and by every library that has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench_lib import machine, rivals
from bench_lib.libraries.job import JOBS, Job
from bench_lib.row import Effort, Row
from bench_lib.timing import Call

GOAL = 1.15
"""The largest ratio to the best library's time that a job may have."""


def library_peers(effort: Effort) -> Iterator[Row]:
    """A row for each job whose name contains `effort.only`."""
    for job in JOBS:
        if effort.only in job.name:
            yield _row(job, effort)


def _row(job: Job, effort: Effort) -> Row:
    import axla
    import axla.jax

    arrays = job.arrays()
    compiled = axla.compile(axla.jax.to_module(job.function, *arrays))
    placed = [axla.device_put(x) for x in arrays]
    sides: dict[str, Call] = {"axla": lambda: compiled(*placed)}
    results = rivals.leaves(sides["axla"]())
    # `results` has one array for each part of a tuple.
    wanted = rivals.leaves(job.view(results if len(results) > 1 else results[0])) if job.view else []
    makers = _makers(job, arrays, effort.threads)
    found, reasons = rivals.agreeing(makers, wanted, job.view, job.tolerance)
    if not found:
        return Row("peers", job.name, effort.threads, None, note="; ".join(reasons))
    limits = _limits(job, [*arrays, *results], effort.threads)
    return rivals.best_row(effort, "peers", job.name, sides | found, GOAL, reasons, limits)


def _limits(job: Job, arrays: list[np.ndarray], threads: int) -> dict[str, float]:
    """The least seconds that the machine needs: to copy the bytes of the arrays, and for the floating-point
    operations.
    """
    limits = {"copy": machine.copied(sum(x.nbytes for x in arrays), threads)}
    if job.flops and (speed := machine.multiplied(arrays[0].dtype == np.float64, threads)):
        limits["flops"] = job.flops / speed
    return limits


def _makers(job: Job, arrays: tuple[np.ndarray, ...], threads: int) -> dict[str, Callable[[], Call]]:
    def by_torch() -> Call:
        tensors = _tensors(arrays, threads)
        return lambda: job.peers["torch"](*tensors)

    def by_numba() -> Call:
        import numba

        function = numba.njit(job.peers["numba"])
        return lambda: function(*arrays)

    def by_onnxruntime() -> Call:
        path = rivals.onnx_of(job.peers["torch"], _tensors(arrays, threads))
        return rivals.onnxruntime_call(path, arrays, threads)

    special = {"torch": by_torch, "numba": by_numba}
    makers: dict[str, Callable[[], Call]] = {
        name: special.get(name, lambda function=function: lambda: function(*arrays))
        for name, function in job.peers.items()
    }
    return makers | ({"onnxruntime": by_onnxruntime} if job.onnx else {})


def _tensors(arrays: tuple[np.ndarray, ...], threads: int) -> tuple[Any, ...]:
    import torch

    torch.set_num_threads(threads)
    return tuple(torch.from_numpy(x) for x in arrays)
