"""The conformance kit: runs every op at every element type on a backend, and compares it with the
interpreter, by level. A case is an op and an element type, `add f32`: it runs the samples of the op's
declaration (`samples.py`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np

import axla
from axla.comparison import compare
from axla.core.dataclass import dataclass
from axla.core.dtypes import ALL, F32, DType
from axla.core.errors import UnsupportedError
from axla.core.templates import fill
from axla.ir.op import OPS
from axla.tools.samples import (
    NOTHING_TO_COMPARE,
    STARTS,
    UNTYPED,
    fed,
    main_type,
    modules_of,
    run_fed,
    sample_target,
)

LEVELS = {
    "elementwise": "structure elementwise transcendental conversion",
    "movement": "movement slicing gather",
    "reduction": "reduction sorting reduce-window select-and-scatter scatter",
    "contraction": "contraction grouped_dot convolution",
    "control flow": "control",
    "effects": "transfer random custom-call after-all add-dependency",
    "everything": "",
}
"""The levels in their order, each with opcodes and families of ops (files of axla.hlo); the last has all
other ops.
"""

PASSED, BY_HOST, REFUSED, FAILED = "passed", "by the host", "refused", "failed"
KINDS = PASSED, BY_HOST, REFUSED, FAILED
DEADLINE = 20  # seconds of one run
SHOWN = 5  # cases shown for each reason


@dataclass(frozen=True, slots=True)
class Case:
    """The result for an op at an element type. The kind BY_HOST means that the case passed, but the host ran
    a part of it.
    """

    level: str
    op: str
    dtype: str
    kind: str
    reason: str = ""


def level_of(opcode: str) -> str:
    """The conformance level of an op."""
    found = {word: level for level, words in LEVELS.items() for word in words.split()}
    return found.get(opcode) or found.get(OPS[opcode].__module__.rpartition(".")[2], "everything")


def chosen(levels: Sequence[str] = (), only: str = "") -> list[tuple[str, DType]]:
    """The pairs (op, element type) of the given levels, or of all levels, whose names, such as `add f32`,
    match the regular expression `only`.
    """
    wanted = re.compile(only)
    ops = [op for level in levels or LEVELS for op in sorted(OPS) if level_of(op) == level]
    pairs = [(op, dtype) for op in ops for dtype in ALL if op not in UNTYPED or dtype is F32]
    return [(op, dtype) for op, dtype in pairs if wanted.search(f"{op} {dtype.name}")]


def alone() -> list[tuple[str, DType]]:
    """Every op with the element type of its first sample."""
    first = [(opcode, *OPS[STARTS.get(opcode, opcode)].samples()[0]) for opcode in sorted(OPS)]
    return [(opcode, main_type(op, shapes)) for opcode, op, shapes in first]


def outcomes(backend: str, of: Iterable[tuple[str, DType]]) -> Iterator[Case]:
    """Yields the results of the cases `of`, pairs of op and element type, on a backend. An op is skipped at
    an element type that it does not take.
    """
    with sample_target():
        for opcode, dtype in of:
            if modules_of(opcode, dtype):
                yield Case(level_of(opcode), opcode, dtype.name, *_outcome(backend, opcode, dtype))


def _outcome(backend: str, opcode: str, dtype: DType) -> tuple[str, str]:
    why = ""
    for module, inputs in modules_of(opcode, dtype):
        try:
            program = axla.compile(module, backend=backend)
            with fed(module):
                found = [np.asarray(a) for a in program.execute(inputs, deadline=DEADLINE)]
            if opcode not in NOTHING_TO_COMPARE:
                wanted = run_fed(module, inputs, "interpreter")
                compare(module, found, wanted, backend, "interpreter").raise_if_different()
            why = why or next(iter(program.host_steps.values()), "")
        except UnsupportedError as error:
            return REFUSED, _said(error.message).rpartition(f"{backend} does not run ")[2]
        except Exception as error:  # a backend of another package may raise anything
            return FAILED, _said(f"{type(error).__name__}: {error}")
    return (BY_HOST, why) if why else (PASSED, "")


def _said(text: str) -> str:
    return " ".join(text.split())[:300]


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """The results of many cases on a backend."""

    backend: str
    cases: Sequence[Case]

    @property
    def total(self) -> Counter[str]:
        """The number of cases for each result."""
        return Counter(case.kind for case in self.cases)

    @property
    def reached(self) -> str:
        """The highest level that is reached. A level is reached if all lower ones are, nothing failed in it,
        and at least half of its ops pass with some element type. "none" if the first level is not reached or
        was not run.
        """
        last = "none"
        for level in LEVELS:
            tried = [case for case in self.cases if case.level == level]
            good = {case.op for case in tried if case.kind in (PASSED, BY_HOST)}
            if (
                any(c.kind == FAILED for c in tried)
                or not tried
                or 2 * len(good) < len({c.op for c in tried})
            ):
                break
            last = level
        return last

    def reasons(self, kind: str) -> list[tuple[str, list[str]]]:
        """The reasons for the results of a kind, each with the names of its cases, the most frequent reason
        first.
        """
        found = defaultdict(list)
        for case in self.cases:
            if case.kind == kind:
                found[case.reason].append(f"{case.op} {case.dtype}")
        return sorted(found.items(), key=lambda item: -len(item[1]))

    def rows(self) -> list[tuple[str, ...]]:
        """A row for each level that was run, and one for all: the number of cases of each kind."""
        groups = [(level, [case for case in self.cases if case.level == level]) for level in LEVELS]
        every = [(name, Counter(case.kind for case in group)) for name, group in groups if group]
        return [(n, *(str(counts[kind]) for kind in KINDS)) for n, counts in [*every, ("all", self.total)]]

    def __str__(self) -> str:
        lines = ["".join(f"{cell:>13}" for cell in row) for row in [("level", *KINDS), *self.rows()]]
        for kind in (REFUSED, FAILED):
            lines += [f"{kind}, {len(names)} x {why}: {_some(names)}" for why, names in self.reasons(kind)]
        return "\n".join([*lines, f"{self.backend} reaches: {self.reached}"])

    def write(self, folder: Path) -> None:
        """Writes `report.html` and `badge.svg` into a folder."""
        total = self.total
        shown = escape(", ".join([self.reached, *(f"{total[kind]} {kind}" for kind in KINDS)]))
        width, color = 6 * len(shown) + 20, "#c62828" if total[FAILED] else "#2e7d32"
        badge = fill("tools/badge.svg", TEXT=shown, COLOR=color, WIDTH=str(width + 40), ROOM=str(width))
        ops: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for case in self.cases:
            ops[case.op][case.kind].append(case.dtype)
        version = axla.backends.get(self.backend).version
        page = fill(
            "tools/report.html", NAME=escape(self.backend), VERSION=escape(version), AXLA=axla.__version__,
            REACHED=self.reached, BADGE=[badge], LEVELS=[_html(*row) for row in self.rows()],
            OPS=[_html(op, *(" ".join(by[kind]) for kind in KINDS)) for op, by in ops.items()],
            REASONS=[
                _html(kind, len(names), why, _some(names))
                for kind in (FAILED, REFUSED, BY_HOST) for why, names in self.reasons(kind)
            ],
        )  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "badge.svg").write_text(f"{badge}\n", encoding="utf-8")
        (folder / "report.html").write_text(f"{page}\n", encoding="utf-8")


def _some(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _html(*cells: object) -> str:
    return "".join(["<tr>", *(f"<td>{escape(str(cell))}</td>" for cell in cells), "</tr>"])
