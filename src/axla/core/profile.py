"""Measures program runs: `with axla.profile() as p:`, then `print(p)` or `p.write("trace.json")`.

Executables register themselves with `watch`. While a profile is recorded they run code that measures steps
and calls; at other times there is no overhead. Times are those of CLOCK_MONOTONIC (`time.perf_counter_ns`).
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any
from weakref import WeakSet

import numpy as np

from axla.core import flags, limits, locks, notebook, trace
from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Row:
    """A step of a program: its description, the bytes and arithmetic operations of one call, its source
    location, and whether several threads share its work.
    """

    step: str
    kind: str
    bytes: int = 0
    operations: int = 0
    location: str = ""
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class ProfileStep:
    """A step of a program with the number of its calls and their total time in nanoseconds."""

    program: str
    row: Row
    ns: int
    calls: int

    @property
    def gigabytes_per_second(self) -> float:
        """The memory throughput of the step: bytes read and written, in 10^9 per second."""
        return self.row.bytes * self.calls / self.ns if self.ns else 0.0

    @property
    def gigaflops(self) -> float:
        """The arithmetic throughput of the step: operations, in 10^9 per second."""
        return self.row.operations * self.calls / self.ns if self.ns else 0.0


Counts = Callable[[], Iterable[tuple[Row, int, int]]]
"""A function that returns (step, total nanoseconds of its calls, number of calls) for each step."""


@dataclass(slots=True)
class ProfileRun:
    """All calls of one executable: their number, their total time in nanoseconds, and the names of the
    calling threads.
    """

    program: str
    backend: str
    counts: Counts
    devices: tuple[Counts, ...] = ()  # one per participant, if there are several
    calls: int = 0
    ns: int = 0
    threads: set[str] = field(default_factory=set)

    def measure(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls `function` and records it as a call of the executable."""
        start = time.perf_counter_ns()
        try:
            return function(*arguments)
        finally:
            end = time.perf_counter_ns()
            with _lock:
                self.calls += 1
                self.ns += end - start
                self.threads.add(threading.current_thread().name)
            if self.calls <= MOST_SPANS:
                trace.add(self.program, start, end, "call", backend=self.backend, run=id(self))

    @property
    def steps(self) -> list[ProfileStep]:
        """The steps that were called, longest total time first. One more entry, `call`, has the remaining
        time of the calls.
        """
        found = [ProfileStep(self.program, row, ns, calls) for row, ns, calls in self.counts() if calls]
        rest = self.ns - sum(step.ns for step in found)
        found.append(
            ProfileStep(self.program, Row("call", "arguments, results, waiting"), max(rest, 0), self.calls)
        )
        return sorted(found, key=lambda step: -step.ns)


MOST_SPANS = 100_000
"""The largest number of calls of an executable that a trace shows one by one."""


class Profile:
    """The executables, steps and compilations that were recorded in a `with axla.profile()` block."""

    def __init__(self) -> None:
        self._runs: list[ProfileRun] = []
        self.events: list[dict[str, Any]] = []  # spans of compilations, transfers and calls; set at the end

    def run(
        self, program: str, backend: str, counts: Counts = tuple, devices: tuple[Counts, ...] = ()
    ) -> ProfileRun:  # fmt: skip
        """Adds and returns a record for the calls of an executable. `counts` returns the times of its steps;
        `devices` has such a function for each participant, if there are several.
        """
        made = ProfileRun(program, backend, counts, devices)
        with _lock:
            self._runs.append(made)
        return made

    @property
    def runs(self) -> list[ProfileRun]:
        """The records of the executables that were called."""
        return [run for run in self._runs if run.calls]

    @property
    def steps(self) -> list[ProfileStep]:
        """The steps of all executables, longest total time first."""
        return sorted((step for run in self.runs for step in run.steps), key=lambda step: -step.ns)

    def to_text(self) -> str:
        """A table of the executables and their steps, and the limits of the machine for comparison."""
        bandwidth, flops = machine_limits()
        lines = [f"machine: {bandwidth:.1f} GB/s, {flops:.1f} GFLOP/s (f32), measured"]
        for run in self.runs:
            steps, total, calls = run.steps, max(run.ns, 1), max(run.calls, 1)
            lines += [
                f"\n{run.program} ({run.backend}): {run.calls} calls, {run.ns / calls / 1e3:.1f} us each; "
                f"{', '.join(sorted(run.threads))}",
                "      ms      %    calls   us/call    GB/s  GFLOP/s  step",
            ]
            lines += [_line(step, total) for step in steps]
        return "\n".join([*lines, *tuning_lines(self.events)]) + "\n"

    __str__ = to_text

    def trace_events(self) -> list[dict[str, Any]]:
        """Returns Chrome trace events: the recorded spans, and for each executable a track on which its steps
        have their mean duration.
        """
        found = list(self.events)
        for number, run in enumerate(self.runs):
            place = {"pid": os.getpid(), "tid": -1 - number}
            name = {"name": f"{run.program}: steps, mean of {run.calls} calls"}
            found.append({"name": "thread_name", "ph": "M", "args": name, **place})
            at = 0.0
            for s in run.steps:
                facts = {"calls": s.calls, "GB/s": s.gigabytes_per_second, "GFLOP/s": s.gigaflops}
                facts |= {"kind": s.row.kind, "source": s.row.location}
                length = s.ns // max(run.calls, 1) / 1e3  # in us, from whole ns: viewers round
                span = {"name": s.row.step, "cat": "step", "ph": "X", "ts": at, "dur": length, "args": facts}
                found.append({**span, **place})
                at += length
        return found

    def _repr_html_(self) -> str | None:
        return notebook.html(self)

    def write(self, path: str) -> None:
        """Writes the profile as a trace for chrome://tracing and Perfetto."""
        trace.save(self.trace_events(), path)


def tuning_lines(events: Iterable[dict[str, Any]]) -> list[str]:
    """A table of the kernels that were tuned, made of the trace events of compilation; an empty list if there
    are none.
    """
    found = {event["name"]: event["args"] for event in events if event["cat"] == "tuning"}
    if not found:
        return []
    changed = sum(bool(facts["changes"]) for facts in found.values())
    lines = [f"\ntuning: {len(found)} kernels, {changed} with another plan than the estimated one"]
    lines.append("  planned us        us   plans  kernel")
    for facts in sorted(found.values(), key=lambda facts: facts["us"] - facts["planned_us"]):
        source = ", remembered" if facts["remembered"] else ""
        lines.append(
            f"{facts['planned_us']:12.1f} {facts['us']:9.1f} {facts['variants']:7}  {facts['kernel']}: "
            f"{facts['changes'] or 'as planned'}{source}"
        )
    return lines


def _line(step: ProfileStep, total: int) -> str:
    row = step.row
    each = step.ns / max(step.calls, 1) / 1e3
    return (
        f"{step.ns / 1e6:8.3f} {100 * step.ns / total:6.1f} {step.calls:8} {each:9.2f} "
        f"{step.gigabytes_per_second:7.1f} {step.gigaflops:8.1f}  {row.step}, {row.kind}"
        f"{', threads' if row.parallel else ''}{f'  [{row.location}]' if row.location else ''}"
    )


_lock = locks.new_lock()
_watchers: WeakSet[Any] = WeakSet()
_current: Profile | None = None


def watch(executable: Any) -> None:
    """Registers an executable. Its method `profiling` is called with the current profile, if any, and
    whenever recording begins or ends.
    """
    _watchers.add(executable)
    if _current is None and flags.current().trace:
        _begin(Profile())
        trace.at_exit(lambda: _current.trace_events() if _current is not None else [])
    elif _current is not None:
        executable.profiling(_current)


def transfer(put: Callable[[Any], Any], array: Any) -> Any:
    """Returns `put(array)`, and records the time of this transfer in the current profile."""
    if _current is None:
        return put(array)
    with trace.span("device_put", "transfer", bytes=getattr(array, "nbytes", 0)):
        return put(array)


def _begin(profile: Profile | None) -> None:
    global _current
    _current = profile
    for executable in list(_watchers):
        executable.profiling(profile)


@contextmanager
def profile() -> Iterator[Profile]:
    """Records a profile of compiled programs inside the block: all backends, all threads.

    The first call of a program compiles it again, with code that reads the clock. Raises InvalidArgument if a
    profile is already being recorded.
    """
    if _current is not None:
        raise InvalidArgument("axla.profile: another profile is already being recorded")
    made = Profile()
    with trace.recording() as made.events:
        _begin(made)
        try:
            yield made
        finally:
            _begin(None)


@functools.cache
def machine_limits() -> tuple[float, float]:
    """Returns (GB/s, GFLOP/s), measured with NumPy: the speed of copying with all threads, and of f32 matrix
    products.
    """
    threads = limits.thread_count()
    source = np.ones((threads, (64 << 20) // 4 // threads), np.float32)
    target = np.empty_like(source)
    matrix = np.ones((768, 768), np.float32)

    def best(function: Callable[[], object]) -> int:
        times = []
        for _ in range(4):
            start = time.perf_counter_ns()
            function()
            times.append(time.perf_counter_ns() - start)
        return max(min(times), 1)

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        copied = best(lambda: list(pool.map(np.copyto, target, source)))
    return 2 * source.nbytes / copied, 2 * 768**3 / best(lambda: matrix @ matrix)
