"""Packing: what overlaps in time does not overlap in space, and little space is wasted."""

import random

import pytest

from axla.analysis import workspace
from axla.analysis.workspace import Interval, pack
from work import calls


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


def test_work_does_not_explode():
    """Quadratic work would be 16 times for 4 times as many intervals."""
    small, large = intervals_of(1, 2_000), intervals_of(1, 8_000)
    assert calls(lambda: pack(large)) < 10 * calls(lambda: pack(small))
