"""The limits of a client, and the counters that a worker keeps for its supervisor."""

from __future__ import annotations

import mmap
import os

from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument

COUNTERS = (
    "oldest", "requests", "failures", "compilations", "executions", "bytes_in", "bytes_out", "arrays",
    "array_bytes", "programs",
)  # fmt: skip
"""The 64-bit counters of a page. `oldest` is the start time of the oldest request in progress, in nanoseconds
of the monotonic clock, or 0 if there is none. The last three are current numbers, the others sums since the
start.
"""
NOW = ("arrays", "array_bytes", "programs")


@dataclass(frozen=True)
class ClientLimits:
    """The limits of one client, and the limit of the number of clients (`clients`)."""

    clients: int = 16
    memory: int = 4 << 30
    """Bytes of all arrays, and of the process's memory in addition to that at its start."""
    message: int = 64 << 20
    """Bytes of a message, such as a program with its constants."""
    arrays: int = 100_000
    programs: int = 1_000
    calls: int = 1_024
    """Requests in progress or waiting."""
    seconds: float = 300.0
    """The limit of time for one request."""
    processor_seconds: int = 0
    """The limit of processor time for all requests together; 0 is no limit."""

    def __post_init__(self) -> None:
        for name in ("clients", "memory", "message", "arrays", "programs", "calls", "seconds"):
            if not getattr(self, name) > 0:
                raise InvalidArgument(
                    f"axla serve: the limit {name} is {getattr(self, name)!r}, wanted more than 0"
                )


def temporary_name(process: int) -> str:
    """The prefix of the names of temporary folders of the worker with a process id. The supervisor removes
    folders that a worker leaves behind.
    """
    return f"axla-worker-{process}-"


class Page:
    """Counters in shared memory that a worker writes and its supervisor reads, without locks."""

    def __init__(self, file: int | None = None) -> None:
        if file is None:
            file = os.memfd_create("axla-page", os.MFD_CLOEXEC)
            os.ftruncate(file, mmap.PAGESIZE)
        self.file = file
        self.numbers = memoryview(mmap.mmap(file, mmap.PAGESIZE)).cast("Q")

    def add(self, name: str, count: int = 1) -> None:
        """Adds `count` to the counter of a name in `COUNTERS`."""
        self.numbers[_PLACES[name]] += count

    def set(self, name: str, value: int) -> None:
        """Sets a counter to a value, which must be at least 0."""
        self.numbers[_PLACES[name]] = value

    def get(self, name: str) -> int:
        """The value of a counter; it may be read while the other process writes it."""
        return self.numbers[_PLACES[name]]

    def close(self) -> None:
        """Closes the file descriptor of the shared memory; the counters stay mapped."""
        os.close(self.file)


_PLACES = {name: place for place, name in enumerate(COUNTERS)}
