"""Records the values of `interpreter.probe` calls. Without a recorder these calls have no effect.

    with record_probes() as probes:
        executable(x)
    probes.values["after layer 3"]        # a list with an array for each call

If a directory is given, each value is also written to a file `NAME_1.npy` and so on; `index.csv` lists probe,
type and file.
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
    """The recorded values by the name of their probe, in the order of the calls."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self.values: dict[str, list[np.ndarray]] = {}
        self.directory = None if directory is None else Path(directory)

    def add(self, name: str, value: np.ndarray, shape: AnyShape) -> None:
        """Stores a value, and writes it to a file if there is a directory."""
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
    """A context manager that records the values of probes in programs that run inside the block, in this
    thread.
    """
    probes = Probes(directory)
    token = _recording.set(probes)
    try:
        yield probes
    finally:
        _recording.reset(token)


def probe(name: str, value: np.ndarray, shape: AnyShape) -> None:
    """Passes a value to the recorder of this thread, if there is one."""
    probes = _recording.get()
    if probes is not None:
        probes.add(name, value, shape)
