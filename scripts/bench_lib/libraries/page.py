"""The section of docs/benchmarks.md about libraries: a line per job, with the part of the machine's limit
that axla reaches. What stands in the last column, where the time goes, is written by hand and kept.
"""

from __future__ import annotations

import datetime
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

from bench_lib.cliffs.page import machine_line
from bench_lib.libraries.job import JOBS
from bench_lib.libraries.measure import GOAL
from bench_lib.report import duration
from bench_lib.row import Row

HEADING = "## Libraries"
LEAST = 0.6
"""Of the machine's limit; a job that reaches less has its reason in the last column."""
HEAD = """{heading}

Jobs for which there are good libraries, each against the best of NumPy, SciPy, torch, Numba and onnxruntime
in the same run. Made by

    python scripts/bench peers{flags} --markdown docs/benchmarks.md

and not edited, but for the last column, which is kept.

{machine}.
Date: {date}. Load of the machine, shared with other work, at the end: {load}.

`limit` is the part of the machine's limit that axla reaches: the time of a copy that reads and writes as many
bytes (more than 100 %: data in a nearer cache than the copy's, or only read), or of the job's multiply-adds
in registers, whichever is longer; both are measured in the same process. `gain` is axla's time on one thread
by that on two. Bold: a ratio above {goal}. The last column says of jobs below {least:.0%} of the limit what
their time goes to, by the machine code of the loop that has it.
"""


def page(rows: Sequence[Row], old: Path, flags: str = "") -> str:
    """The old page with this section written again, or added at its end."""
    text = old.read_text() if old.exists() else ""
    start = text.index(f"{HEADING}\n") if f"{HEADING}\n" in text else len(text)
    end = text.find("\n## ", start + 1)
    before, rest = text[:start], text[end:] if end >= 0 else ""
    section = text[start : len(text) - len(rest)]
    return before + "\n".join(_section(rows, _reasons(section), flags)) + "\n" + rest


def _reasons(section: str) -> dict[str, str]:
    """The texts of the last column, by job."""
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return {cells[0].strip(): cells[-1].strip() for cells in lines}


def _section(rows: Sequence[Row], reasons: dict[str, str], flags: str) -> list[str]:
    threads = sorted({row.threads for row in rows})
    table = {(row.threads, row.name): row for row in rows}
    head = HEAD.format(
        heading=HEADING, flags=flags, machine=machine_line(), date=datetime.date.today(), goal=GOAL,
        load=", ".join(f"{x:.1f}" for x in os.getloadavg()), least=LEAST,
    )  # fmt: skip
    columns = [c for t in threads for c in (f"axla, {t}", f"best, {t}", "ratio", "limit")]
    columns += ["gain"] * (len(threads) > 1)
    found = [head]
    for t in threads:
        ratios = [row.ratio for row in rows if row.threads == t and row.ratio]
        over = sum(ratio > GOAL for ratio in ratios)
        found.append(
            f"- {t} thread{'s' * (t > 1)}: {len(ratios)} jobs, geometric mean "
            f"{statistics.geometric_mean(ratios):.2f}, worst {max(ratios):.2f}, above {GOAL}: {over}"
        )
    found += ["", f"| job | {' | '.join(columns)} | where the time goes |"]
    found.append(f"| --- |{' ---: |' * len(columns)} --- |")
    for job in JOBS:
        those = [table.get((t, job.name)) for t in threads]
        if any(row is not None for row in those):
            cells = [cell for row in those for cell in _cells(row)]
            cells += [_gain(those)] * (len(threads) > 1)
            found.append(f"| {job.name} | {' | '.join(cells)} | {reasons.get(job.name, '')} |")
    return found


def _cells(row: Row | None) -> list[str]:
    if row is None or row.ratio is None:
        return ["", row.note.replace("|", "/")[:40] if row else "", "", ""]
    ratio = f"{row.ratio:.2f}"
    parts = row.more.get("parts") or {}
    what = max(parts, key=lambda what: parts[what], default="")
    limit = f"{parts[what]:.0%} of {what}" if parts else ""
    best = f"{row.peer_name} {duration(row.peer)}"
    return [duration(row.ours), best, f"**{ratio}**" if row.ratio > GOAL else ratio, limit]


def _gain(rows: Sequence[Row | None]) -> str:
    first, last = rows[0], rows[-1]
    if first is None or last is None or not first.ours or not last.ours:
        return ""
    return f"{first.ours / last.ours:.2f}"
