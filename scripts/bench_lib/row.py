"""The results of a benchmark, and its effort."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from bench_lib.timing import Times


@dataclass(frozen=True)
class Row:
    """The result for a program: seconds (or bytes) of axla and of a peer, the ratio and the ratio to reach.
    `more` is what only one section tells.
    """

    section: str
    name: str
    threads: int
    ours: float | None
    peer_name: str = ""
    peer: float | None = None
    ratio: float | None = None
    best_ratio: float | None = None
    goal: float | None = None
    note: str = ""
    unit: str = "s"
    more: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Effort:
    """The time and the number of rounds that a measurement may take."""

    threads: int
    rounds: int
    seconds: float
    only: str = ""


def timed(effort: Effort, section: str, name: str, times: Times, peer: str, **more: Any) -> Row:
    """The row of a program that was timed against a peer."""
    return Row(
        section, name, effort.threads, times.median("axla"), peer, times.median(peer),
        times.ratio("axla", peer), times.best_ratio("axla", peer), **more,
    )  # fmt: skip


def sized(effort: Effort, section: str, name: str, ours: int, peer: str, theirs: int, **more: Any) -> Row:
    """The row of a program whose memory was compared."""
    ratio = ours / theirs if theirs else None
    return Row(section, name, effort.threads, ours, peer, theirs, ratio, ratio, unit="B", **more)
