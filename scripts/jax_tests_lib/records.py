"""The outcomes of cases: a file of JSON lines for each test file, setting and platform."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PASSED, FAILED, SKIPPED, CRASHED, LATE = "passed", "failed", "skipped", "crashed", "timeout"
MISSING = "missing"
"""The outcome of a case that the file has only on the stock platform."""
NOT_RUN = "not run"


@dataclass(frozen=True)
class Run:
    """A test file in one setting on one platform."""

    file: str
    setting: str
    platform: str

    def __str__(self) -> str:
        return f"{self.file} {self.setting} {self.platform}"

    def path(self, results: Path, ending: str = "jsonl") -> Path:
        return results / f"{self.file}.{self.setting}.{self.platform}.{ending}"


@dataclass(frozen=True)
class Outcome:
    kind: str
    why: str = ""
    seconds: float = 0.0


@dataclass
class Record:
    """The lines of a run. If a case has several lines, the last one counts."""

    cases: list[str] | None = None  # None: not known yet
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)  # the reasons why processes ended while no case ran
    error: str = ""  # why the file cannot be imported

    def add(self, line: dict[str, Any]) -> None:
        match line:
            case {"cases": cases}:
                self.cases = cases
                self.error = "" if cases else self.error
            case {"case": case, "outcome": kind, "why": why, "seconds": seconds}:
                self.outcomes[case] = Outcome(kind, why, seconds)
            case {"lost": why}:
                self.lost.append(why)
            case {"error": why}:
                self.error = why

    def done(self) -> set[str]:
        return set(self.outcomes)

    def passed(self) -> set[str]:
        return {case for case, outcome in self.outcomes.items() if outcome.kind == PASSED}

    def is_full(self) -> bool:
        """Whether all cases have an outcome."""
        return self.cases is not None and self.done() >= set(self.cases)


def read(path: Path) -> Record:
    record = Record()
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            record.add(json.loads(line))
    return record


def append(path: Path, line: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


@dataclass(frozen=True)
class Comparison:
    """The cases of a file in a setting that pass on the stock platform, and their outcomes on axla."""

    file: str
    setting: str
    found: dict[str, Outcome]
    lost: int  # the number of processes on axla that crashed between cases
    stock_is_full: bool

    def count(self, *kinds: str) -> int:
        return sum(outcome.kind in kinds for outcome in self.found.values())

    def wrong(self) -> dict[str, Outcome]:
        return {case: outcome for case, outcome in self.found.items() if outcome.kind != PASSED}


def compare(file: str, setting: str, results: Path) -> Comparison | None:
    """Compares the records of both platforms; None if axla has no record. A case that stock did not run
    counts as one that passes there.
    """
    path = Run(file, setting, "axla").path(results)
    if not path.exists():
        return None
    axla, stock = read(path), read(Run(file, setting, "stock").path(results))
    known = set(axla.cases or ())
    absent = Outcome(NOT_RUN if axla.cases is None else MISSING, axla.error)
    found = {
        case: axla.outcomes.get(case, Outcome(NOT_RUN) if case in known else absent)
        for case in dict.fromkeys([*(stock.cases or ()), *(axla.cases or ())])
        if case not in stock.outcomes or stock.outcomes[case].kind == PASSED
    }
    return Comparison(file, setting, found, len(axla.lost), stock.is_full())
