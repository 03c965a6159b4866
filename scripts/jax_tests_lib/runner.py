"""Runs a test file in a process of its own, and starts another process if one crashes or hangs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from jax_tests_lib.files import line_of
from jax_tests_lib.records import CRASHED, LATE, Run, append

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
NOT_INHERITED = ("XLA_FLAGS", "PYTEST_ADDOPTS", "JAX_COMPILATION_CACHE_DIR", "JAX_NUM_CPU_DEVICES")
GOOD_EXITS = (0, 1, 2, 5)
"""Exit codes of pytest: all passed, some failed, interrupted or not collected, nothing to run."""
POLL = 0.2
AT_EXIT = 60.0
"""The seconds within which a process must end after its last case."""


@dataclass(frozen=True)
class Places:
    """The paths and the time limits of the runs."""

    checkout: Path
    results: Path
    python: str
    limit: float  # seconds per file
    case_limit: float


def environment(run: Run, done: Path, places: Places) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    path = [HERE / "path", *([HERE / "axla_path", SOURCE] if run.platform == "axla" else [])]
    devices = line_of(run.file).devices
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "JAX_PLATFORMS": "axla" if run.platform == "axla" else "cpu",
        "JAX_ENABLE_X64": "1" if run.setting == "x64" else "0",
        "JAX_NUM_GENERATED_CASES": "1",
        "JAX_TESTS_RECORD": str(run.path(places.results)),
        "JAX_TESTS_DONE": str(done),
        **({"JAX_NUM_CPU_DEVICES": str(devices)} if devices else {}),
    }


def ended(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and its children. Before, it may print the stacks of its threads into the log."""
    if process.poll() is None:
        process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass
class FileRun:
    """A run in progress. Its record is on disk, so that it can be stopped at any time and continued."""

    run: Run
    places: Places
    done: set[str]  # cases that have run, or are not to be run
    counts: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)  # the reasons why processes ended while no case ran
    case: str = ""  # the running case
    left: int | None = None  # the number of cases left; None: not known yet
    stopped: threading.Event = field(default_factory=threading.Event)

    def go(self) -> None:
        """Starts processes until all cases are done, the time is over, or a process finishes no case."""
        self.record = self.run.path(self.places.results)
        end = time.monotonic() + self.places.limit
        with tempfile.TemporaryDirectory() as folder:
            while not self.stopped.is_set():
                before = len(self.done)
                self.process(Path(folder, "done.json"), end)
                if not self.left or time.monotonic() > end or len(self.done) == before:
                    return

    def process(self, done: Path, end: float) -> None:
        """Starts one process and watches it."""
        done.write_text(json.dumps(sorted(self.done)))
        self.record.touch()
        places = self.places
        plugins = ["case_recorder", "no:cacheprovider", *["axla_at_first"] * (self.run.platform == "axla")]
        options = ["-v", "--tb=short", *(f"-p{name}" for name in plugins), f"tests/{self.run.file}.py"]
        with self.record.open() as lines, self.run.path(places.results, "log").open("a") as log:
            lines.seek(0, os.SEEK_END)
            process = subprocess.Popen(
                [places.python, "-m", "pytest", *options], cwd=places.checkout, start_new_session=True,
                env=environment(self.run, done, places), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
            try:
                self.watch(process, lines, end)
            finally:
                kill(process)

    def watch(self, process: subprocess.Popen[bytes], lines: TextIO, end: float) -> None:
        """Reads the record until the process has ended; adds an outcome for the case that it left."""
        finished, self.case, heard = False, "", time.monotonic()
        while True:
            gone = process.poll() is not None
            for line in map(json.loads, lines):
                heard = time.monotonic()
                finished |= self.take(line)
            if gone:
                break
            silent = time.monotonic() - heard
            if silent > (AT_EXIT if finished else self.places.case_limit):
                self.end(LATE, f"not done after {silent:.0f} s", "hangs at its exit" if finished else "hangs")
                return
            if self.stopped.is_set() or time.monotonic() > end:
                return
            time.sleep(POLL)
        if self.case or not finished or process.returncode not in GOOD_EXITS:
            why = ended(process.returncode)
            self.end(CRASHED, why, f"{why} at its exit" if finished else why)

    def take(self, line: dict[str, Any]) -> bool:
        """Takes over a line of the record; returns whether it is the last line of a process."""
        if "cases" in line:
            self.left = sum(case not in self.done for case in line["cases"])
        elif "begin" in line:
            self.case = line["begin"]
        elif "case" in line:
            self.case = ""
            self.counts[line["outcome"]] += 1
            self.done.add(line["case"])
            self.left = (self.left or 1) - 1
        return "finished" in line

    def end(self, kind: str, why: str, lost: str) -> None:
        """Records that a process has ended or will be killed: the outcome of the running case, or that no
        case ran.
        """
        if self.case:
            line = {"case": self.case, "outcome": kind, "seconds": 0.0, "why": why}
            self.take(line)
        else:
            line = {"lost": lost}
            self.lost.append(lost)
        append(self.record, line)
