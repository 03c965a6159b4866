"""Runs cases in other processes, so that a crash or an endless loop is the outcome of one case only."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from conformance_lib.section import BROKEN, CRASHED, LATE, Outcome

Task = tuple[str, str, str]
"""(section, case, backend)"""

_SPAWN = multiprocessing.get_context("spawn")  # not fork: processes must not share LLVM's state


def serve(pipe: Connection) -> None:
    """Runs a worker process: it reports that it is ready, then receives tasks and sends outcomes, until the
    pipe is closed.
    """
    from conformance_lib.sections import section

    pipe.send(None)
    while True:
        try:
            task: Task = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        name, case, backend = task
        if backend == "ptx":
            _fake_gpu()
        try:
            outcome = section(name).run(case, backend)
        except KeyboardInterrupt:
            return
        except Exception as error:
            outcome = Outcome(name, case, backend, BROKEN, f"{type(error).__name__}: {error}"[:400])
        pipe.send(outcome)


@cache
def _fake_gpu() -> None:
    """Registers the backend `ptx`: programs for NVIDIA GPUs, whose kernels run on the simulator of the
    tests.
    """
    sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
    from ptx import gpu

    gpu.register()


@dataclass
class Worker:
    process: Any
    pipe: Connection
    task: Task | None = None
    ready: bool = False
    since: float = 0.0  # when the task began

    @classmethod
    def start(cls, work: Callable[[Connection], None]) -> Worker:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=work, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def give(self, task: Task) -> None:
        self.task, self.since = task, time.monotonic()
        self.pipe.send(task)

    def stop(self) -> None:
        self.pipe.close()
        self.process.terminate()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


@dataclass
class Pool:
    """Worker processes, and the tasks that none of them has yet."""

    tasks: list[Task]  # the last one is next
    limit: float
    work: Callable[[Connection], None] = serve
    workers: list[Worker] = field(default_factory=list)

    def outcomes(self, jobs: int) -> Iterator[Outcome]:
        self.workers = [Worker.start(self.work) for _ in range(min(jobs, len(self.tasks)))]
        try:
            while True:
                for worker in self.workers:
                    if worker.task is None and self.tasks:
                        worker.give(self.tasks.pop())
                busy = [w for w in self.workers if w.task is not None]
                if not busy:
                    return
                ready = wait([w.pipe for w in busy], timeout=1)
                for worker in busy:
                    found = self.look(worker, worker.pipe in ready)
                    if found is not None:
                        yield found
        finally:
            for worker in self.workers:
                worker.stop()

    def look(self, worker: Worker, ready: bool) -> Outcome | None:
        """The outcome of the task of a worker, None if it still runs. A worker that crashed or hangs is
        replaced.
        """
        assert worker.task is not None
        seconds = time.monotonic() - worker.since
        if ready:
            try:
                found: Outcome | None = worker.pipe.recv()
                if found is None:  # the worker is ready, and begins
                    worker.ready, worker.since = True, time.monotonic()
                else:
                    worker.task = None
                return found
            except (EOFError, OSError):
                worker.process.join(5)
                return self.lost(worker, CRASHED, f"exit code {worker.process.exitcode}", seconds)
        if worker.ready and seconds > self.limit:
            return self.lost(worker, LATE, f"not done after {self.limit:.0f} s", seconds)
        return None

    def lost(self, worker: Worker, kind: str, detail: str, seconds: float) -> Outcome:
        assert worker.task is not None
        worker.stop()
        self.workers[self.workers.index(worker)] = Worker.start(self.work)
        return Outcome(*worker.task, kind, detail, seconds)


def run(
    tasks: Sequence[Task], *, jobs: int = 0, limit: float = 120, progress: Callable[[str], None] | None = None
) -> list[Outcome]:
    """Returns the outcomes of all tasks. Ctrl-C stops all workers, and returns the outcomes so far."""
    done: list[Outcome] = []
    begin = time.monotonic()
    try:
        for outcome in Pool(list(reversed(tasks)), limit).outcomes(jobs or available()):
            done.append(outcome)
            if progress is not None:
                progress(bar(len(done), len(tasks), time.monotonic() - begin, outcome))
    except KeyboardInterrupt:
        print(f"\nstopped after {len(done)} of {len(tasks)} cases", file=sys.stderr)
    return done


def available() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def bar(done: int, all_of_them: int, seconds: float, last: Outcome) -> str:
    width = 30
    full = width * done // all_of_them
    left = seconds * (all_of_them - done) / done
    what = f"{last.section} {last.backend}".strip()
    return f"[{'#' * full}{'.' * (width - full)}] {done}/{all_of_them}  {left:4.0f} s left  {what}"


def on_terminal(text: str) -> None:
    """Prints a line that the next one overwrites, if standard error is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
