"""The result and the effort of a measurement."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from bench_lib.timing import Times


@dataclass(frozen=True)
class Row:
    """The result for a program: the seconds (or bytes) of axla and of a peer, their ratio, and the largest
    allowed ratio. `more` has values for one section only.
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
    """The number of threads, the number of rounds, and the seconds of each; `only` selects programs by a part
    of their name.
    """

    threads: int
    rounds: int
    seconds: float
    only: str = ""


def timed(effort: Effort, section: str, name: str, times: Times, peer: str, **more: Any) -> Row:
    """The row of a program that was timed with a peer."""
    return Row(
        section, name, effort.threads, times.median("axla"), peer, times.median(peer),
        times.ratio("axla", peer), times.best_ratio("axla", peer), **more,
    )  # fmt: skip


def sized(effort: Effort, section: str, name: str, ours: int, peer: str, theirs: int, **more: Any) -> Row:
    """The row of a program whose size was compared with that of a peer."""
    ratio = ours / theirs if theirs else None
    return Row(section, name, effort.threads, ours, peer, theirs, ratio, ratio, unit="B", **more)
