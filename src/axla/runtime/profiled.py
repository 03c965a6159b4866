"""Calls of an executable while a profile is recorded. They run a variant of the program that reads the clock,
compiled at the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from axla.core import locks
from axla.core.profile import Counts, Profile, ProfileRun, Row
from axla.program.packed import Packed
from axla.runtime.dynamic import DynamicCall
from axla.runtime.native import native
from axla.runtime.program import LoadedProgram

READINGS = Row("profile", "readings of the clock")
"""The row for the time that reading the clock takes."""

Timed = Callable[[], tuple[Packed, Sequence[Row]] | None]


class ProfiledCall:
    """Replaces the native call `plain` of a program. `timed` compiles the variant that reads the clock, and
    returns None if that is not possible. Then only whole calls are measured, not steps.
    """

    def __init__(
        self, plain: Any, name: str, backend: str, profile: Profile, timed: Timed,
        places: Sequence[tuple[int, int]],
    ) -> None:  # fmt: skip
        """Measures the calls of an executable for `profile`; `plain` is its native call. `places` has
        (device, number) of each participant. The times of a step are averaged over participants.
        """
        self.plain, self.name, self.backend = plain, name, backend
        self._profile, self._timed, self._places = profile, timed, places
        self._call: Any = None
        self.loaded: list[LoadedProgram] = []
        self._run: ProfileRun | None = None
        self._lock = locks.new_lock()

    def __call__(self, *arguments: Any) -> Any:
        """Runs the program, and adds the times of the run to the profile."""
        call, run = self._made()
        return run.measure(call, *arguments)

    def with_flag(self, flag: int, *arguments: Any) -> Any:
        """Runs the program as `__call__` does. It stops when the cancel flag at address `flag` is set."""
        call, run = self._made()
        return run.measure(call.with_flag, flag, *arguments)

    def together(self, run: Callable[..., Any], plain: Sequence[LoadedProgram], *arguments: Any) -> Any:
        """Calls `run(programs, *arguments)`, which runs all participants. The programs are those that read
        the clock, or, if there are none, `plain`.
        """
        _, measured = self._made()
        return measured.measure(run, self.loaded or plain, *arguments)

    def _made(self) -> tuple[Any, ProfileRun]:
        with self._lock:
            if self._run is None:
                found, self._call = self._timed(), self.plain
                counts, devices = (tuple, ()) if found is None else self._load(*found)
                self._run = self._profile.run(self.name, self.backend, counts, devices)
            return self._call, self._run

    def _load(self, program: Packed, rows: Sequence[Row]) -> tuple[Counts, tuple[Counts, ...]]:
        counters = np.zeros((len(self._places), len(rows) + 2, 2), np.int64)
        clock = native().glue.addresses["now"]
        face = program.interface
        code = replace(face.of_code(), functions=face.functions)
        for place, mine in zip(self._places, counters, strict=True):
            table = {"axla.clock": clock, "axla.counters": mine.ctypes.data}
            given = program.images, code, program.constants, table, *place, *self.loaded[:1]
            self.loaded.append(LoadedProgram(*given))
        self._call = native().callable_new(self.loaded[0].address, self.loaded[0])
        if face.is_dynamic:
            self._call = DynamicCall(self._call, face)
        counters = counters[:, 1:]
        each = [partial(without_readings, rows, mine[None]) for mine in counters]
        return partial(without_readings, rows, counters), tuple(each) if len(each) > 1 else ()


def without_readings(rows: Sequence[Row], counters: np.ndarray) -> Iterator[tuple[Row, int, int]]:
    """Yields (row, nanoseconds, calls), and moves the time of reading the clock from each row to a row of its
    own.

    `counters`, s64[participants, rows + 1, 2], has (nanoseconds, calls), first of an empty measurement, then
    of each row; the mean over participants is used. The mean time of an empty measurement is that of a
    reading. If the thread was interrupted in a reading, this time can exceed that of a step: then the row
    becomes 0. The total of all rows does not change.
    """
    (empty, runs), *found = (counters.sum(0) // len(counters)).tolist()
    reading = empty / max(runs, 1)
    taken = [min(round(reading * calls), ns) for ns, calls in found]
    yield READINGS, empty + sum(taken), runs + sum(calls for _, calls in found)
    for row, (ns, calls), less in zip(rows, found, taken, strict=True):
        yield row, ns - less, calls
