"""Packs intervals of time with sizes into one address range, so that intervals that overlap in time do not
overlap in space.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Sequence

from axla.core.dataclass import dataclass

BY_SIZE_LIMIT = 1000  # the number of intervals up to which they are placed by size, which compares every pair


@dataclass(frozen=True, slots=True)
class Interval:
    """The need for `size` bytes from tick `start` through tick `end`."""

    start: int
    end: int
    size: int


def pack(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """Returns a byte offset for each interval, and the total number of bytes. Intervals that overlap in time
    get separate bytes.
    """
    best = _by_time(intervals)
    if len(intervals) <= BY_SIZE_LIMIT and best[1] > _peak(intervals):
        other = _by_size(intervals)
        best = min(best, other, key=lambda found: found[1])
    return best


def _peak(intervals: Sequence[Interval]) -> int:
    """The largest number of bytes live at one tick, a lower bound for every packing."""
    events = [(i.start, 1, i.size) for i in intervals] + [(i.end + 1, 0, -i.size) for i in intervals]
    live = most = 0
    for _, _, change in sorted(events):
        live += change
        most = max(most, live)
    return most


def _by_time(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """Places the intervals in order of their start, each into the smallest gap that fits. Returns offsets and
    the total size.
    """
    offsets = [0] * len(intervals)
    free: list[tuple[int, int]] = []  # (offset, size), sorted, never adjacent
    gaps: list[tuple[int, int]] = []  # (size, offset), sorted
    ends: list[tuple[int, int]] = []  # heap of (last tick, number of the interval)
    top = 0
    for number in sorted(range(len(intervals)), key=lambda n: (intervals[n].start, -intervals[n].size, n)):
        one = intervals[number]
        while ends and ends[0][0] < one.start:
            _, done = heapq.heappop(ends)
            _release(free, gaps, offsets[done], intervals[done].size)
        if not one.size:
            continue
        at = bisect_left(gaps, (one.size, -1))
        if at < len(gaps):
            size, offset = gaps.pop(at)
            del free[bisect_left(free, (offset, size))]
            if size > one.size:
                insort(free, (offset + one.size, size - one.size))
                insort(gaps, (size - one.size, offset + one.size))
        elif free and sum(free[-1]) == top:  # the last gap reaches the top: grow it
            offset, size = free.pop()
            del gaps[bisect_left(gaps, (size, offset))]
            top = offset + one.size
        else:
            offset, top = top, top + one.size
        offsets[number] = offset
        heapq.heappush(ends, (one.end, number))
    return offsets, top


def _release(free: list[tuple[int, int]], gaps: list[tuple[int, int]], offset: int, size: int) -> None:
    if not size:
        return
    at = bisect_left(free, (offset, 0))
    if at < len(free) and free[at][0] == offset + size:
        _, more = free.pop(at)
        del gaps[bisect_left(gaps, (more, offset + size))]
        size += more
    if at > 0 and sum(free[at - 1]) == offset:
        before, more = free.pop(at - 1)
        del gaps[bisect_left(gaps, (more, before))]
        offset, size = before, size + more
    insort(free, (offset, size))
    insort(gaps, (size, offset))


def _by_size(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """Places the largest intervals first, each into the smallest gap between placed intervals that overlap it
    in time. Returns offsets and the total size.
    """
    offsets = [0] * len(intervals)
    placed: list[tuple[int, Interval]] = []  # sorted by offset
    top = 0
    for number in sorted(range(len(intervals)), key=lambda n: (-intervals[n].size, intervals[n].start, n)):
        one = intervals[number]
        if not one.size:
            continue
        at, best, best_gap = 0, -1, -1
        for offset, other in placed:
            if other.start > one.end or one.start > other.end:
                continue
            gap = offset - at
            if gap >= one.size and (best < 0 or gap < best_gap):
                best, best_gap = at, gap
            at = max(at, offset + other.size)
        offset = best if best >= 0 else at
        offsets[number] = offset
        insort(placed, (offset, one), key=lambda p: p[0])
        top = max(top, offset + one.size)
    return offsets, top
