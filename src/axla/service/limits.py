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
"""The numbers of a page, of 64 bits. `oldest`: when the oldest request that goes on began, in nanoseconds of
the monotonic clock; 0: none does. The last three are as they are now, the others add up.
"""
NOW = ("arrays", "array_bytes", "programs")


@dataclass(frozen=True)
class ClientLimits:
    """The limits of one client, and `clients`, the limit of their number."""

    clients: int = 16
    memory: int = 4 << 30
    """Bytes of all arrays, and of the process beside what it takes at its start."""
    message: int = 64 << 20
    """Bytes of a message: of a program, with its constants."""
    arrays: int = 100_000
    programs: int = 1_000
    calls: int = 1_024
    """Requests that wait or go on."""
    seconds: float = 300.0
    """Of one request."""
    processor_seconds: int = 0
    """Of all requests together; 0: as many as they take."""

    def __post_init__(self) -> None:
        for name in ("clients", "memory", "message", "arrays", "programs", "calls", "seconds"):
            if not getattr(self, name) > 0:
                raise InvalidArgument(
                    f"axla serve: the limit {name} is {getattr(self, name)!r}, wanted more than 0"
                )


def temporary_name(process: int) -> str:
    """The prefix of the names of a worker's folders; the supervisor removes those that are left."""
    return f"axla-worker-{process}-"


class Page:
    """Counters in memory shared by a worker and its supervisor, without locks."""

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
        """Sets a counter to a value of at least 0."""
        self.numbers[_PLACES[name]] = value

    def get(self, name: str) -> int:
        """The value of a counter; it may be read while the other process writes it."""
        return self.numbers[_PLACES[name]]

    def close(self) -> None:
        """Closes the file descriptor of the shared memory; the counters stay mapped."""
        os.close(self.file)


_PLACES = {name: place for place, name in enumerate(COUNTERS)}
