"""The programs of the survey. Programs are never removed from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Made = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Program:
    """A program of the survey. `make(size)` returns a function of arrays, and arrays for it. `source` is a
    GitHub issue with such a program, or names who writes such programs. `tolerance` is the relative error
    allowed, None for that of the result's type.
    """

    name: str
    kind: str
    source: str
    sizes: tuple[int, int]
    make: Callable[[int], Made]
    x64: bool
    tolerance: float | None


PROGRAMS: list[Program] = []


def program(
    name: str, source: str, sizes: tuple[int, int], x64: bool = False, tolerance: float | None = None
) -> Callable[[Callable[[int], Made]], Callable[[int], Made]]:
    """A decorator that adds the program made by a function to PROGRAMS. Its kind is the name of the file."""

    def add(make: Callable[[int], Made]) -> Callable[[int], Made]:
        kind = make.__module__.rpartition(".")[2]
        PROGRAMS.append(Program(name, kind, source, sizes, make, x64, tolerance))
        return make

    return add


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def uniform(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).random(shape).astype(dtype)


def integers(high: int, *shape: int, seed: int = 0, dtype: Any = np.int32) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, shape).astype(dtype)


def key(seed: int = 7) -> np.ndarray:
    """A key for JAX's random numbers."""
    return np.array([0, seed], np.uint32)
