"""A job of the section `peers`. Jobs are never removed: one stays once it is here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]


class Late:
    """A module that is imported when something of it is used."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


jax, jnp, lax = Late("jax"), Late("jax.numpy"), Late("jax.lax")
torch, F = Late("torch"), Late("torch.nn.functional")
linalg, special = Late("scipy.linalg"), Late("scipy.special")


@dataclass(frozen=True)
class Job:
    """`function` is the job in JAX, `peers` the same by library: of NumPy's arrays (numba compiles its own),
    of torch's tensors for torch. Where `onnx`, torch's function exported runs in onnxruntime too.
    `source` says who has the job. `flops` are those of the job, zero where bytes are the limit. `view` makes
    of the results what is compared, None where each library has its own random numbers.
    """

    name: str
    source: str
    arrays: Callable[[], Arrays]
    function: Callable[..., Any]
    peers: dict[str, Callable[..., Any]]
    onnx: bool
    flops: float
    tolerance: float | None
    view: Callable[[Any], Any] | None


JOBS: list[Job] = []


def job(
    name: str, source: str, arrays: Callable[[], Arrays], function: Callable[..., Any], *, onnx: bool = False,
    flops: float = 0, tolerance: float | None = None, view: Callable[[Any], Any] | None = lambda found: found,
    **peers: Callable[..., Any],
) -> None:  # fmt: skip
    """Adds a job to JOBS."""
    JOBS.append(Job(name, source, arrays, function, peers, onnx, flops, tolerance, view))


def normal(*shapes: tuple[int, ...], dtype: Any = np.float32) -> Callable[[], Arrays]:
    """Makes arrays of normal numbers."""
    return lambda: tuple(
        np.random.default_rng(number).standard_normal(shape).astype(dtype)
        for number, shape in enumerate(shapes)
    )


def with_indices(high: int, count: int, *shapes: tuple[int, ...]) -> Callable[[], Arrays]:
    """Makes arrays of normal numbers, and so many indices below `high` behind them."""
    found = np.random.default_rng(9).integers(0, high, count).astype(np.int32)
    return lambda: (*normal(*shapes)(), found)
