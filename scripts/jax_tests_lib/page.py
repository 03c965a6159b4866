"""Writes docs/jax-tests.md, from the records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from jax_tests_lib.files import LINES, OTHERS, SETTINGS, TAG, Line
from jax_tests_lib.reasons import UNEXPLAINED, reason
from jax_tests_lib.records import (
    CRASHED,
    FAILED,
    LATE,
    MISSING,
    NOT_RUN,
    PASSED,
    SKIPPED,
    Comparison,
    compare,
)

HEAD = f"""\
# JAX's own tests

Made by `python scripts/jax-tests DIR --report`; do not edit.

The tests are those of JAX at the tag `{TAG}`, unmodified, with `JAX_NUM_GENERATED_CASES=1`; x64 and x32 are
`JAX_ENABLE_X64` 1 and 0. Only cases that pass on stock JAX's CPU in the same environment count. A
case that is skipped only on axla counts as failed. `crashes` includes processes that crashed between
cases.
"""
COLUMNS = (
    "file",
    "setting",
    "pass on stock",
    "pass on axla",
    "%",
    "fail",
    "skipped",
    "crashes",
    "time-outs",
    "not run",
)


def percent(passed: int, cases: int) -> str:
    """The percentage, rounded down, so that 100.00 means all cases."""
    return f"{passed * 10000 // cases / 100:.2f}" if cases else "-"


def row(name: str, setting: str, some: Sequence[Comparison]) -> list[str]:
    cases, passed = sum(len(c.found) for c in some), sum(c.count(PASSED) for c in some)
    numbers = [
        sum(c.count(FAILED, MISSING) for c in some),
        sum(c.count(SKIPPED) for c in some),
        sum(c.count(CRASHED) + c.lost for c in some),
        sum(c.count(LATE) for c in some),
        sum(c.count(NOT_RUN) for c in some),
    ]
    return [name, setting, str(cases), str(passed), percent(passed, cases), *(str(n or "") for n in numbers)]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join("| " + " | ".join(line) + " |\n" for line in [head, ["---"] * len(head), *rows])


def comparisons(line: Line, results: Path) -> list[Comparison]:
    found = [compare(file, setting, results) for file in line.files for setting in SETTINGS]
    return [c for c in found if c is not None]


def other_files(results: Path) -> Line:
    known = {file for line in LINES for file in line.files}
    return Line(
        OTHERS, tuple(sorted({path.name.partition(".")[0] for path in results.glob("*.axla.jsonl")} - known))
    )


def markdown(results: Path) -> str:
    found = {line: comparisons(line, results) for line in (*LINES, other_files(results))}
    everything = [c for some in found.values() for c in some]
    parts = [HEAD, _of_stock(everything)]
    for line, some in found.items():
        if some:
            parts += [f"\n## {line.name.capitalize()}\n\n", _aim(line, some), table(COLUMNS, _rows(some))]
    return "".join([*parts, *_failures(everything)])


def _of_stock(some: Sequence[Comparison]) -> str:
    full = sum(c.stock_is_full for c in some)
    rest = "; in the others, those that do not pass on axla" if full < len(some) else ""
    return f"Stock JAX ran all cases in {full} of {len(some)} runs{rest}.\n"


def _rows(some: Sequence[Comparison]) -> Iterable[list[str]]:
    for c in some:
        yield row(c.file, c.setting, [c])
    yield row("**all**", "", some)


def _aim(line: Line, some: Sequence[Comparison]) -> str:
    absent = [file for file in line.files if file not in {c.file for c in some}]
    text = f"Not measured: {', '.join(absent)}.\n\n" if absent else ""
    if not line.pooled:
        return text
    shares = {}
    for file in dict.fromkeys(c.file for c in some):
        cells = row("", "", [c for c in some if c.file == file])
        shares[file] = int(cells[3]) / max(int(cells[2]), 1)
    worst = min(shares, key=shares.__getitem__)
    return text + (
        f"Goal: {line.pooled} % of all, {line.worst} % of each file. The lowest file is {worst} "
        f"with {100 * shares[worst]:.2f} %.\n\n"
    )


def _failures(some: Sequence[Comparison]) -> Iterable[str]:
    """Yields the lines about the cases that do not pass, by reason."""
    groups: dict[str, dict[tuple[str, str], dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for c in some:
        for case, outcome in c.wrong().items():
            if outcome.kind != NOT_RUN:
                said = f"{outcome.kind}: {outcome.why}"
                groups[reason(c.file, case, outcome)][c.file, case][c.setting] = said
    yield "\n## Failures\n"
    if not groups:
        yield "\nNothing.\n"
    for why in sorted(groups, key=lambda why: (why == UNEXPLAINED, -len(groups[why]), why)):
        yield f"\n### {why[0].upper() + why[1:]}\n\n"
        for (file, case), said in groups[why].items():
            told = next(iter(said.values())) if why == UNEXPLAINED else ""
            yield f"- {file} `{case}` ({', '.join(said)}){_code(told)}\n"


def _code(text: str) -> str:
    return f": `{text[:200].replace('`', chr(39))}`" if text else ""
