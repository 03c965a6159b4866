"""Packing: what overlaps in time does not overlap in space, and little space is wasted."""

import random
import time

import pytest

from axla.analysis import workspace
from axla.analysis.workspace import Interval, pack


def intervals_of(seed, count):
    generator = random.Random(seed)
    found = []
    for _ in range(count):
        start = generator.randrange(3 * count)
        found.append(
            Interval(start, start + generator.randrange(40), 64 * generator.choice([0, 1, 2, 5, 64]))
        )
    return found


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("how", ["_by_time", "_by_size"])
def test_no_overlap(seed, how):
    intervals = intervals_of(seed, 120)
    offsets, total = getattr(workspace, how)(intervals)
    for n, (one, at) in enumerate(zip(intervals, offsets, strict=True)):
        assert at % 64 == 0 and (not one.size or at + one.size <= total)
        for other, place in zip(intervals[:n], offsets[:n], strict=True):
            together = one.start <= other.end and other.start <= one.end
            apart = at + one.size <= place or place + other.size <= at
            assert not together or apart or not one.size or not other.size


@pytest.mark.parametrize("seed", range(10))
def test_close_to_the_least_possible(seed):
    intervals = intervals_of(seed, 200)
    least = max(sum(i.size for i in intervals if i.start <= t <= i.end) for t in range(700))
    assert least <= pack(intervals)[1] <= 1.25 * least


def test_time_does_not_explode():
    """Twice the intervals take about twice the time; quadratic would be 16 times for 4 times as many."""
    seconds = []
    for count in (5_000, 20_000):
        intervals = intervals_of(1, count)
        start = time.process_time()
        pack(intervals)
        seconds.append(time.process_time() - start)
    assert seconds[1] < 10 * seconds[0] + 0.2
