"""docs/cliffs.md: what the survey found, a line per program, the worst first."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import statistics
from collections.abc import Sequence
from pathlib import Path

from bench_lib.cliffs import PROGRAMS, Program
from bench_lib.cliffs.measure import GOAL, row_name
from bench_lib.report import duration
from bench_lib.row import Row

NOTES = "## Notes"
FASTER = 1.25
"""Times XLA's growth from the small size to the large one above which axla's is marked: less may be noise."""
HEAD = """# Survey of cliffs

{count} small JAX programs of the kinds that users write, each at two sizes, by axla and by stock `jax.jit`.
Made by

    python scripts/bench cliffs{flags} --markdown docs/cliffs.md

and not edited, but for what follows `{notes}`. The programs are in `scripts/bench_lib/cliffs`, a file per
kind. All are written for the survey; the sources say who writes such programs or has trouble with them.
Programs are never removed.

{machine}.
Date: {date}. Load of the machine, shared with other work, at the end: {load}.

Each program runs in a process of its own, which may use as many CPUs as there are threads. Both sides get
arrays of their own kind and run in turn; a ratio is the median over rounds of axla's time to stock's within
a round. `grows` is the time at the large size to that at the small one, of axla and of stock, on the fewest
threads. `compile` is the first call with its compilation, of axla and of stock, at the large size. Bold: a
ratio above {goal}, a growth of more than {faster} times stock's (less may be noise). `>=`: given up after
that time. Results are compared before they are timed; where they differ by more than the types allow, the
last column says so.
"""


def page(rows: Sequence[Row], old: Path, flags: str = "") -> str:
    """The page; of the old one what follows the heading of the notes is kept."""
    threads = sorted({row.threads for row in rows})
    table = {(row.threads, row.name): row for row in rows}
    measured = [p for p in PROGRAMS if any((t, row_name(p, p.sizes[0])) in table for t in threads)]
    measured.sort(key=lambda p: _worst(p, table, threads), reverse=True)
    head = HEAD.format(
        count=len(measured), flags=flags, notes=NOTES, machine=machine_line(), date=datetime.date.today(),
        load=", ".join(f"{x:.1f}" for x in os.getloadavg()), goal=GOAL, faster=FASTER,
    )  # fmt: skip
    lines = [head, "## Summary", "", *_summary(rows, threads), "", "## Programs", ""]
    columns = [f"{size}, {t} thread{'s' * (t > 1)}" for t in threads for size in ("small", "large")]
    columns += ["axla, large", "stock, large", "grows", "compile"]
    lines.append(f"| program | source | sizes | {' | '.join(columns)} | |")
    lines.append(f"| --- | --- | --- |{' ---: |' * len(columns)} --- |")
    lines += [_line(program, table, threads) for program in measured]
    text = "\n".join(lines) + "\n"
    before = old.read_text() if old.exists() else ""
    heading = f"\n{NOTES}\n"  # the head names it, too
    return text + (before[before.index(heading) :] if heading in before else "")


def _of(program: Program, table: dict[tuple[int, str], Row], threads: Sequence[int]) -> list[Row | None]:
    """The rows of a program: small and large for each number of threads."""
    return [table.get((t, row_name(program, size))) for t in threads for size in program.sizes]


def _worst(program: Program, table: dict[tuple[int, str], Row], threads: Sequence[int]) -> float:
    """The number that a program is sorted by: its largest ratio; one that failed comes first."""
    found = [row for row in _of(program, table, threads) if row is not None]
    if any(row.ratio is None for row in found):
        return float("inf")
    return max((row.ratio or 0 for row in found), default=0)


def _line(program: Program, table: dict[tuple[int, str], Row], threads: Sequence[int]) -> str:
    rows = _of(program, table, threads)
    large = rows[1]
    cells = [_ratio(row) for row in rows]
    cells += [duration(large.ours), duration(large.peer)] if large else ["", ""]
    growth = [large.more.get(f"{side}_growth") if large else None for side in ("ours", "peer")]
    if growth[0] is None or growth[1] is None:
        cells.append("")
    else:
        text = f"{growth[0]:.3g}, {growth[1]:.3g}"
        cells.append(f"**{text}**" if growth[0] > FASTER * growth[1] else text)
    compiled = [large.more.get(key) if large else None for key in ("compile", "peer_compile")]
    cells.append(", ".join(duration(s) for s in compiled if s is not None))
    notes = [re.sub(r"(^|; )grows .*", "", row.note) for row in rows if row is not None]
    sizes = ", ".join(map(str, program.sizes))
    what = "; ".join(dict.fromkeys(note.replace("|", "/") for note in notes if note))
    title = f"{program.kind}: {program.name}"
    return f"| {title} | {_linked(program.source)} | {sizes} | {' | '.join(cells)} | {what} |"


def _ratio(row: Row | None) -> str:
    if row is None:
        return ""
    if row.ratio is None:
        return "**failed**"
    text = _number(row.ratio)
    text = f">= {text}" if row.more.get("at_least") else text
    return f"**{text}**" if row.ratio > GOAL else text


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _linked(source: str) -> str:
    """A thread is a link."""
    return re.sub(r"([\w.-]+/[\w.-]+)#(\d+)", r"[\1#\2](https://github.com/\1/issues/\2)", source)


def _summary(rows: Sequence[Row], threads: Sequence[int]) -> list[str]:
    lines = []
    for t in threads:
        those = [row for row in rows if row.threads == t]
        ratios = {row.name: row.ratio for row in those if row.ratio}
        if not ratios:
            continue
        worst = max(ratios, key=ratios.__getitem__)
        growing = [
            row.name for row in those
            if row.more.get("ours_growth", 0) > FASTER * row.more.get("peer_growth", float("inf"))
        ]  # fmt: skip
        lines += [
            f"- {t} thread{'s' * (t > 1)}: geometric mean {statistics.geometric_mean(ratios.values()):.2f}, "
            f"worst {_number(ratios[worst])} ({worst}); above {GOAL}: "
            f"{sum(ratio > GOAL for ratio in ratios.values())} of {len(those)} rows, above 1: "
            f"{sum(ratio > 1 for ratio in ratios.values())}",
            f"  - grow faster than stock: {len(growing)} programs; given up: "
            f"{sum(bool(row.more.get('at_least')) for row in those)}; failed: "
            f"{sum(row.ratio is None for row in those)}; results differ: "
            f"{sum(row.more.get('differs', 0) > 1 for row in those)}",
        ]
    kinds = dict.fromkeys(program.kind for program in PROGRAMS)
    found = {k: [row.ratio for row in rows if row.name.startswith(f"{k}: ") and row.ratio] for k in kinds}
    means = {kind: statistics.geometric_mean(ratios) for kind, ratios in found.items() if ratios}
    by_kind = sorted(means, key=means.__getitem__, reverse=True)
    return [
        *lines,
        f"- geometric means by kind: {', '.join(f'{kind} {means[kind]:.2f}' for kind in by_kind)}",
    ]


def machine_line() -> str:
    """The machine, and the versions of what was measured on it."""
    versions = ", ".join(
        f"{p} {importlib.metadata.version(p)}" for p in ("jax", "jaxlib", "numpy", "llvmlite")
    )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{platform.system()} {platform.machine()}, {_processor()}, {cores} cores. {versions}"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    text = information.read_text() if information.exists() else ""
    found = re.search(r"model name\s*: (.*)", text)
    return found[1] if found else platform.processor()
