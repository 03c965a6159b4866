"""The jobs of the section `peers`. Jobs are never removed from it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]


class Late:
    """A module that is imported when one of its attributes is first used."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


jax, jnp, lax = Late("jax"), Late("jax.numpy"), Late("jax.lax")
torch, F = Late("torch"), Late("torch.nn.functional")
linalg, special = Late("scipy.linalg"), Late("scipy.special")


@dataclass(frozen=True)
class Job:
    """A job: `function` is in JAX, `peers` has the same for each library, as a function of NumPy arrays (of
    tensors for torch; numba compiles its own). `onnx`: torch's function is also exported and run by
    onnxruntime. `source` names who has such a job. `flops` is the number of floating-point operations, 0 if
    memory limits the job. `view` converts the results before they are compared; None: they are not, since
    each library has its own random numbers.
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
    """Returns a function that makes arrays of normally distributed numbers."""
    return lambda: tuple(
        np.random.default_rng(number).standard_normal(shape).astype(dtype)
        for number, shape in enumerate(shapes)
    )


def with_indices(high: int, count: int, *shapes: tuple[int, ...]) -> Callable[[], Arrays]:
    """Returns a function that makes arrays of normally distributed numbers with these shapes, followed by an
    array of `count` indices below `high`.
    """
    found = np.random.default_rng(9).integers(0, high, count).astype(np.int32)
    return lambda: (*normal(*shapes)(), found)
