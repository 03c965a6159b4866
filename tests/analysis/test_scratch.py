"""Scratch memory lies where nothing lives while its instruction runs."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from axla.analysis.scratch import SPAN, Scratch
from axla.program.memory import Allocation, AllocationKind, BufferSlice

LONG = 10 * SPAN


def scratch(times: dict[str, int], *lives: tuple[int, int, int, int]) -> Scratch:
    """A workspace of 1000 bytes where `lives` are (first tick, last tick, offset, size)."""
    workspace = Allocation(AllocationKind.WORKSPACE, 0, 1000)
    slices = [(start, end, BufferSlice(workspace, offset, size)) for start, end, offset, size in lives]
    buffers = SimpleNamespace(
        flow=SimpleNamespace(time=times), workspace_bytes=1000, workspace_slices=lambda: iter(slices)
    )
    return Scratch(cast(Any, buffers))


@pytest.mark.parametrize(
    ("lives", "wanted"),
    [
        ((), 0),
        (((0, 4, 0, 640),), 0),  # over
        (((0, 5, 0, 640),), 640),
        (((5, 9, 0, 640),), 640),
        (((6, 9, 0, 640),), 0),  # not yet
        (((0, 9, 128, 64), (0, 9, 320, 64)), 0),
        (((0, 9, 64, 64), (0, 9, 320, 64)), 128),
        (((0, 9, 64, 64), (0, 9, 192, 10)), 256),
        (((0, LONG, 0, 64),), 64),
    ],
)
def test_the_first_room_is_taken(lives, wanted):
    found = scratch({"a": 5}, *lives).slice(cast(Any, "a"), 128)
    assert (found.offset, found.size) == (wanted, 128)


def test_long_lives_are_seen_in_every_span():
    made = scratch({"late": LONG - 7}, (3, LONG, 0, 700))
    assert made.slice(cast(Any, "late"), 100).offset == 704


def test_the_workspace_grows_where_there_is_no_room():
    made = scratch({"a": 5, "b": 50}, (0, 10, 0, 1000))
    assert made.slice(cast(Any, "a"), 500).offset == 1024
    assert made.total == 1524
    assert made.slice(cast(Any, "b"), 100).offset == 0
    assert made.total == 1524
