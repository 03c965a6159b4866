"""Records the values that `interpreter.probe` marks; programs run as without it.

    with record_probes() as probes:
        executable(x)
    probes.values["after layer 3"]        # an array for each time it was reached

With a directory every value is a file of NumPy's, `NAME_1.npy` and so on, and `index.csv` lists probe, type
and file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import numpy as np

from axla.core.errors import InvalidArgument
from axla.core.shape import AnyShape


class Probes:
    """Values by the name of their probe, in the order in which they came."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self.values: dict[str, list[np.ndarray]] = {}
        self.directory = None if directory is None else Path(directory)

    def add(self, name: str, value: np.ndarray, shape: AnyShape) -> None:
        """Takes a value, and writes it where there is a directory."""
        seen = self.values.setdefault(name, [])
        seen.append(np.array(value))
        if self.directory is None:
            return
        if not re.fullmatch(r"[\w -][\w .-]*", name):
            raise InvalidArgument(f"record_probes: the probe {name!r} cannot be the name of a file")
        file = f"{name}_{len(seen)}.npy"
        self.directory.mkdir(parents=True, exist_ok=True)
        np.save(self.directory / file, seen[-1])
        import csv

        with (self.directory / "index.csv").open("a", newline="") as index:
            csv.writer(index).writerow([name, shape.to_string(layout=False), file])


_recording: ContextVar[Probes | None] = ContextVar("axla_probes", default=None)


@contextmanager
def record_probes(directory: str | os.PathLike[str] | None = None) -> Iterator[Probes]:
    """Records what probes see in programs that run inside of the `with`, in this thread."""
    probes = Probes(directory)
    token = _recording.set(probes)
    try:
        yield probes
    finally:
        _recording.reset(token)


def probe(name: str, value: np.ndarray, shape: AnyShape) -> None:
    """Shows a value to whoever records."""
    probes = _recording.get()
    if probes is not None:
        probes.add(name, value, shape)
