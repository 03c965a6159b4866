"""Prints the results as tables and draws them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from bench_lib.row import Row

HEADER = f"{'':45} {'threads':>7} {'axla':>10} {'peer':>16} {'ratio':>6} {'best':>6} {'goal':>5}"


def line(row: Row) -> str:
    """The text of a row; a ratio above its goal is marked."""
    show = duration if row.unit == "s" else size
    peer = f"{row.peer_name} {show(row.peer)}" if row.peer is not None else ""
    over = row.ratio is not None and row.goal is not None and row.ratio > row.goal
    parts = [
        f"{row.name:45} {row.threads:7} {show(row.ours):>10} {peer:>16}",
        *(f"{x:6.2f}" if x is not None else " " * 6 for x in (row.ratio, row.best_ratio)),
        f"{row.goal:5.1f}" if row.goal is not None else " " * 5,
        "<<" if over else "", row.note,
    ]  # fmt: skip
    return " ".join(parts).rstrip()


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def size(count: float | None) -> str:
    """A number of bytes as text, with a unit."""
    if count is None:
        return ""
    unit, scale = next(((u, k) for u, k in (("MiB", 1 << 20), ("KiB", 1 << 10)) if count >= k), ("B", 1))
    return f"{count / scale:.3g} {unit}"


def summary(rows: Sequence[Row]) -> list[str]:
    """Lines for each section and number of threads: the geometric mean and the largest of the ratios to XLA
    (or to the JIT, or to the best of several peers).
    """
    found = []
    for section in dict.fromkeys(r.section for r in rows):
        for threads in sorted({r.threads for r in rows}):
            those = [
                r
                for r in rows
                if (r.section, r.threads) == (section, threads)
                and (r.peer_name in ("XLA", "JIT") or "best" in r.more)
                and r.ratio
            ]
            if those:
                mean = statistics.geometric_mean([r.ratio for r in those if r.ratio])
                worst = max(those, key=lambda r: r.ratio or 0)
                peer = "best" if "best" in those[0].more else those[0].peer_name
                found.append(
                    f"{section}, {threads} thread(s): geometric mean of axla/{peer} {mean:.2f}, "
                    f"worst {worst.ratio:.2f} ({worst.name})"
                )
    return found


def markdown(rows: Sequence[Row]) -> str:
    """A table per section: a line per program; for each number of threads, axla's time and two columns per
    peer.
    """
    parts = []
    for section in dict.fromkeys(r.section for r in rows):
        those = [r for r in rows if r.section == section]
        peers = list(dict.fromkeys(r.peer_name for r in those if r.peer_name))
        counts = sorted({r.threads for r in those})
        columns = [
            column
            for n in counts
            for column in (f"axla, {n}", *(c for peer in peers for c in (f"{peer}, {n}", "ratio")))
        ]
        parts += [f"| {section}, threads | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
        for name in dict.fromkeys(r.name for r in those):
            found = {(r.threads, r.peer_name): r for r in those if r.name == name}
            cells = [cell for n in counts for cell in _cells([found.get((n, p)) for p in peers or [""]])]
            parts.append(f"| {name} | {' | '.join(cells)} |")
        parts.append("")
    return "\n".join(parts)


def _cells(rows: Sequence[Row | None]) -> list[str]:
    """The cells of rows of one program and number of threads: axla's value, then for each peer its value and
    the ratio.
    """
    present = [row for row in rows if row is not None]
    show = duration if all(row.unit == "s" for row in present) else size
    cells = [show(present[0].ours) if present else ""]
    for row in rows:
        if row is None:
            cells += ["", ""]
        elif row.peer_name:
            ratio = f"{row.ratio:.2f}" if row.ratio is not None else row.note[:40]
            over = row.ratio is not None and row.goal is not None and row.ratio > row.goal
            cells += [show(row.peer), f"**{ratio}**" if over else ratio]
    return cells


def chart(rows: Sequence[Row], path: Path) -> None:
    """Draws bars of the ratios to XLA (or to the JIT, where XLA is no peer), one colour per number of
    threads.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    peer = "XLA" if any(r.peer_name == "XLA" for r in rows) else "JIT"
    rows = [r for r in rows if r.peer_name == peer and r.ratio]
    names = list(dict.fromkeys(r.name for r in rows))
    counts = sorted({r.threads for r in rows})
    figure, axes = plt.subplots(figsize=(9, 1 + 0.38 * len(names)))
    height = 0.8 / max(1, len(counts))
    for number, threads in enumerate(counts):
        those = [(names.index(r.name), r.ratio) for r in rows if r.threads == threads]
        places = [place + (number - (len(counts) - 1) / 2) * height for place, _ in those]
        axes.barh(
            places, [ratio for _, ratio in those], height, label=f"{threads} thread{'s' * (threads > 1)}"
        )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xscale("log", base=2)
    whom = {"XLA": "XLA:CPU", "JIT": "axla's JIT"}[peer]
    axes.set_xlabel(f"time of axla / time of {whom} (shorter is faster)")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
