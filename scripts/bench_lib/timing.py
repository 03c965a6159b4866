"""Interleaved timing, for a machine that may be shared: ratios are those of times of the same round."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Call = Callable[[], object]
_SETTLED = 0.03
"""The seconds after which the threads of another library, which spin while they wait for work, have gone to
sleep.
"""


@dataclass(frozen=True)
class Times:
    """The seconds per call, for each side and round."""

    rounds: Mapping[str, list[float]]

    def median(self, side: str) -> float:
        return statistics.median(self.rounds[side])

    def best(self, side: str) -> float:
        return min(self.rounds[side])

    def ratio(self, side: str, peer: str) -> float:
        """The median, over the rounds, of the ratio of both sides in a round."""
        pairs = zip(self.rounds[side], self.rounds[peer], strict=True)
        return statistics.median(a / b for a, b in pairs)

    def best_ratio(self, side: str, peer: str) -> float:
        return self.best(side) / self.best(peer)


def compare(sides: Mapping[str, Call], rounds: int, seconds: float) -> Times:
    """Times the sides alternately, in changing order, for about `seconds` per side and round.

    The time of a side in a round is the median over its calls. Short calls are timed many at once.
    """
    counts = {name: _repeats(call) for name, call in sides.items()}
    found: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    for _ in range(rounds):
        for name in order:
            time.sleep(_SETTLED)
            found[name].append(_round(sides[name], counts[name], seconds))
        order.reverse()
    return Times(found)


def _repeats(call: Call) -> int:
    """The number of calls that together take long enough to be timed."""
    for _ in range(3):
        call()
    start = time.perf_counter()
    call()
    took = time.perf_counter() - start
    return max(1, int(2e-4 / max(took, 1e-7)))


def _round(call: Call, count: int, seconds: float) -> float:
    call()  # loads the cache, which has the other side's data
    took: list[float] = []
    end = time.perf_counter() + seconds
    while len(took) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(count):
            call()
        took.append((time.perf_counter() - start) / count)
    return statistics.median(took)
