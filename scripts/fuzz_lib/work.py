"""Processes that make cases and ask oracles. A process that crashes or hangs is replaced, and its case is
reported.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import resource
import shutil
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from . import oracles

_SPAWN = multiprocessing.get_context("spawn")  # not fork: processes must not share LLVM's state
BATCH = 8
"""The number of cases that a process gets at once."""
CPU_SECONDS = 60.0
"""The processor time that one oracle may use for one case; a process that uses more hangs. So does one that
waits for WALL_SECONDS and computes next to nothing. Time in which this process was stopped, too, is not
counted, so that a busy machine causes no failure.
"""
WALL_SECONDS = 400.0

ENDED, BY_FORCE = "the process ended", "by force"
"""The beginning of the message of a failure whose process ended, and what follows it if the process was
killed.
"""


@dataclass(frozen=True)
class Task:
    seeds: tuple[str, ...]
    oracles: tuple[str, ...]  # asked about every case; (): all, each with its share
    coverage: bool = False


@dataclass
class Failure:
    """A failure of a case. `inputs` are the arguments of the program `text`; both are empty for a crash."""

    seed: str
    oracle: str
    why: str
    family: str = ""
    text: str = ""
    inputs: list[np.ndarray] = field(default_factory=list)

    @property
    def signature(self) -> str:
        """A text that is equal for failures with probably the same cause."""
        return f"{self.oracle} {_PARTICULAR.sub('#', headline(self.why))[:80]}"


_PARTICULAR = re.compile(r"%?[-a-z_.A-Z0-9]*[0-9][-a-z_.A-Z0-9]*")


def headline(why: str) -> str:
    """The line of a message that names the fault: the first one or, of a traceback, that of the exception."""
    lines = why.strip().splitlines() or [""]
    if not lines[0].startswith("Traceback"):
        return lines[0]
    return next((line for line in reversed(lines) if re.match(r"[A-Za-z_][\w.]*(:|$)", line)), lines[-1])


@dataclass
class Report:
    """The outcome of a batch. `asked`, `skipped` and `seconds` have a number for each oracle."""

    cases: int = 0
    made: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    coverage: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def cpu_seconds(self) -> float:
        return sum(self.seconds.values())

    def add(self, other: Report) -> None:
        self.cases += other.cases
        for name in ("made", "asked", "skipped", "seconds"):
            getattr(self, name).update(getattr(other, name))
        self.failures += other.failures
        for kind, counter in other.coverage.items():
            self.coverage.setdefault(kind, Counter()).update(counter)


def serve(pipe: Connection) -> None:
    """Runs a worker process: it receives tasks, and sends its position and its reports, until the pipe is
    closed.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ["AXLA_CACHE_DIR"] = ""
    import axla  # noqa: F401

    warnings.filterwarnings("error", message="pipeline .* still changes")

    from . import coverage

    watching = False
    pipe.send(("ready", "", ""))
    while True:
        try:
            task: Task = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        if task.coverage and not watching:
            coverage.watch()
            watching = True
        report = Report()
        try:
            for seed in task.seeds:
                one(seed, task, report, lambda *at: pipe.send(("at", *at)))
        except KeyboardInterrupt:
            return
        report.coverage = coverage.taken() if watching else {}
        pipe.send(("done", report, ""))


def one(seed: str, task: Task, report: Report, tell: Any = lambda seed, oracle: None) -> None:
    """Makes a case and asks the oracles about it. Calls `tell(seed, stage)` before each stage."""
    from . import cases, coverage

    tell(seed, "making")
    begin = time.process_time()
    try:
        case = cases.case_of(seed)
        tell(seed, "interpreter")
        case.wanted  # noqa: B018  (computed once)
    except cases.Skip:
        report.skipped["interpreter"] += 1
        return
    except Exception:  # noqa: BLE001  (any error is a failure)
        report.failures.append(Failure(seed, "interpreter", traceback.format_exc(limit=-6)))
        return
    finally:
        report.seconds["making and interpreter"] += time.process_time() - begin  # type: ignore[assignment]
    report.cases += 1
    report.made[case.family] += 1
    if task.coverage:
        coverage.counts["ops"].update(case.opcodes)
        coverage.counts["families"][case.family] += 1
    for name in task.oracles or oracles.ORACLES:
        # Another generator decides whether the oracle is asked, so that the oracle's random choices are the
        # same if it is named, as by `--oracle` and by the reducer.
        oracle, draw = oracles.ORACLES[name], random.Random(f"{seed} {name}")
        if (
            (not task.oracles and random.Random(f"{seed} {name} share").random() >= oracle.share)
            or not oracle.is_there
            or not oracle.fits(case)
        ):
            continue
        tell(seed, name)
        case.draw = draw
        begin = time.process_time()
        report.asked[name] += 1
        try:
            why = oracle.check(case)
        except cases.Skip:
            report.skipped[name] += 1
            continue
        except Exception:  # noqa: BLE001  (any error is a failure)
            why = traceback.format_exc(limit=-8)
        finally:
            report.seconds[name] += time.process_time() - begin  # type: ignore[assignment]
        if why and oracle.reduces:
            report.failures.append(Failure(seed, name, why, case.family, case.text, case.inputs))
        elif why:
            report.failures.append(Failure(seed, name, why, text=why[max(why.find("HloModule"), 0) :]))


def used(pid: int) -> float:
    """The processor time that a process has used, in seconds."""
    try:
        numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


class Worker:
    def __init__(self) -> None:
        self.pipe, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.task: Task | None = None
        self.at = ("", "starting")
        self.waited, self.cpu = 0.0, 0.0

    def give(self, task: Task) -> None:
        self.task = task
        self.pipe.send(task)

    def moved(self, at: tuple[str, str]) -> None:
        self.at, self.waited, self.cpu = at, 0.0, used(self.process.pid or 0)

    def is_hanging(self) -> bool:
        seconds = used(self.process.pid or 0) - self.cpu
        return seconds > CPU_SECONDS or (self.waited > WALL_SECONDS and seconds < CPU_SECONDS / 10)

    def stop(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()
        shutil.rmtree(oracles.cache_folder(self.process.pid or 0), ignore_errors=True)


def reports(tasks: Iterator[Task], jobs: int) -> Iterator[Report]:
    """Yields the reports of all tasks, from `jobs` processes. If a process ends, its report has the
    failure.
    """
    workers = [Worker() for _ in range(jobs)]
    try:
        while True:
            for worker in workers:
                if worker.task is None and worker.at[1] != "starting" and (task := next(tasks, None)):
                    worker.give(task)
            busy = [w for w in workers if w.task is not None or w.at[1] == "starting"]
            if not busy:
                return
            begin = time.monotonic()
            ready = wait([w.pipe for w in busy], timeout=1)
            waited = min(time.monotonic() - begin, 2.0)
            for number, worker in enumerate(workers):
                if worker not in busy:
                    continue
                worker.waited += waited
                dead = ""
                if worker.pipe in ready:
                    try:
                        kind, first, second = worker.pipe.recv()
                        worker.moved((first, second) if kind == "at" else ("", "idle"))
                        if kind == "done":
                            worker.task = None
                            yield first
                        continue
                    except (EOFError, OSError):
                        worker.process.join(5)
                        dead = f"{ENDED} with exit code {worker.process.exitcode}"
                elif worker.is_hanging():
                    dead = f"{ENDED} {BY_FORCE}: it did not end itself"
                if dead:
                    seed, oracle = worker.at
                    worker.stop()
                    workers[number] = Worker()
                    yield _lost(seed, oracle, dead)
    finally:
        for worker in workers:
            worker.stop()


def _lost(seed: str, oracle: str, why: str) -> Report:
    report = Report(cases=0)
    if oracle in oracles.ORACLES and oracles.ORACLES[oracle].peer:
        report.skipped[f"{oracle} (crashed)"] += 1
    else:
        report.failures.append(Failure(seed, oracle, why))
    return report
