"""Runs programs under stock JAX and under axla, alternately, each run in a process of its own; medians
count.
"""

from __future__ import annotations

import functools
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
REPORT = Path(__file__).with_name("report.py")
PROGRAMS = {
    path.stem: path
    for folder in ("examples/jax", "scripts/jax_programs")
    for path in (ROOT / folder).glob("*.py")
}
for _name in ("compare", "report", "sides"):
    PROGRAMS.pop(_name, None)
SIDES = ("stock", "axla")
_ERROR = re.compile(r"[\w.]*(Error|Exception|Exit|Interrupt|Failure)\b")
COMPILE = "backend_s"  # seconds of compilation, as JAX reports them


@dataclass
class Case:
    """The output of a program, or of one of its cases, in all runs of one side."""

    runs: list[dict[str, Any]] = field(default_factory=list)

    def median(self, key: str) -> float:
        return statistics.median(run[key] for run in self.runs)


@dataclass
class Program:
    """All runs of a program: its cases by side, the time and memory of its processes, and their failures."""

    name: str
    cases: dict[str, dict[str, Case]] = field(default_factory=dict)
    processes: dict[str, Case] = field(default_factory=lambda: {side: Case() for side in SIDES})
    failures: dict[str, str] = field(default_factory=dict)

    def run_seconds(self, side: str) -> float:
        return sum(case[side].median("run_s") for case in self.cases.values())

    def seconds_ratio(self, key: str) -> float:
        return self.processes["axla"].median(key) / self.processes["stock"].median(key)

    def difference(self) -> float:
        """The largest difference between results of both sides, divided by the tolerance."""
        return max(
            difference(case["stock"].runs[0], run)
            for case in self.cases.values()
            for run in case["axla"].runs
        )


def difference(wanted: dict[str, Any], found: dict[str, Any]) -> float:
    """The largest difference between the results of two runs, divided by the tolerance."""
    sizes = [{key: len(values) for key, values in line["results"].items()} for line in (wanted, found)]
    if sizes[0] != sizes[1]:
        return math.inf
    worst = 0.0
    for key, values in wanted["results"].items():
        for a, b in zip(values, found["results"][key], strict=True):
            if a != b and not (math.isnan(a) and math.isnan(b)):
                error = abs(a - b) / (wanted["atol"] + wanted["rtol"] * abs(a))
                worst = max(worst, math.inf if math.isnan(error) else error)
    return worst


@functools.cache
def _installed() -> tempfile.TemporaryDirectory[str]:
    """A folder for the Python path with the metadata of an installed axla, by which JAX finds its plugin."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["jax_plugins"]
    folder = tempfile.TemporaryDirectory()
    record = Path(folder.name) / "axla-0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: axla\nVersion: 0\n")
    lines = (f"{name} = {module}\n" for name, module in points.items())
    (record / "entry_points.txt").write_text("[jax_plugins]\n" + "".join(lines))
    return folder


def environment(side: str) -> dict[str, str]:
    """The environment variables of a side. The cache of axla is off, so that each run compiles."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AXLA_", "JAX_"))}
    paths = [str(ROOT / "src"), _installed().name, *filter(None, [os.environ.get("PYTHONPATH")])]
    platform = {"stock": "cpu", "axla": "axla"}[side]
    return kept | {"JAX_PLATFORMS": platform, "PYTHONPATH": os.pathsep.join(paths), "AXLA_CACHE_DIR": ""}


def run(program: Program, side: str, python: str, limit: float) -> str:
    """Runs a program once, adds its output to `program`, and returns a line about the run."""
    command = [python, str(REPORT), str(PROGRAMS[program.name])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment(side))
    except subprocess.TimeoutExpired:
        program.failures[side] = f"took more than {limit:.0f} s"
        return program.failures[side]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines or "wall_s" not in lines[-1]:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["no output"]
        errors = [line for line in said if _ERROR.match(line)]  # JAX adds lines after that of the exception
        program.failures[side] = f"exit code {done.returncode}: {(errors or said)[-1][:200]}"
        return program.failures[side]
    *cases, process = lines
    for line in cases:
        program.cases.setdefault(line["name"], {side: Case() for side in SIDES})[side].runs.append(line)
    program.processes[side].runs.append(process)
    seconds = sum(line["run_s"] for line in cases)
    return f"run {seconds:.3g} s, compile {process[COMPILE]:.3g} s, peak {process['peak_mb']:.0f} MB"


def measure(
    names: Iterable[str], python: str = sys.executable, repeats: int = 1, limit: float = 600
) -> list[Program]:
    """Runs the programs on both sides alternately; the order of the sides changes from round to round."""
    programs = [Program(name) for name in names]
    for turn in range(repeats):
        for program in programs:
            for side in SIDES if turn % 2 == 0 else SIDES[::-1]:
                if side not in program.failures:
                    print(f"{turn + 1}/{repeats} {program.name:14} {side:5} ", end="", flush=True)
                    print(run(program, side, python, limit), flush=True)
    return programs


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean of the ratios."""
    return math.exp(statistics.fmean(map(math.log, ratios)))
