"""Functions that planners share: the number of lanes that fit, and the division of lines into pieces."""

import pytest

import axla
from axla.codegen.host import host_target
from axla.kernels.loop import mergeable
from axla.kernels.plan import cut, fitting, lines_per_piece
from axla.target.machine import Limits

LIMITS = Limits()


@pytest.mark.parametrize("lanes", (1, 2, 8, 64))
def test_lanes_are_the_largest_power_of_two_that_fits(lanes):
    for count in range(130):
        found = fitting(lanes, count)
        assert found <= max(1, min(lanes, count)) < 2 * found or found == lanes
        assert lanes % found == 0


@pytest.mark.parametrize("cost", (1, 70, LIMITS.parallel_cost, 100 * LIMITS.parallel_cost))
def test_lines_are_cut_where_several_threads_pay(cost):
    for lines in (0, 1, 2, 3, 63, 64, 65, 1000, 100_000):
        per = lines_per_piece(lines, cost, LIMITS)
        pieces = -(-lines // per)
        assert per >= 1 and pieces <= LIMITS.parts
        assert (pieces > 1) == (lines > 1 and lines * cost >= LIMITS.parallel_cost)


@pytest.mark.parametrize(
    ("dims", "broadcast", "merged"),
    [
        ((6, 5), "f32[5] broadcast at {1}", False),
        ((6, 1, 5), "f32[5] broadcast at {2}", False),
        ((6, 1, 5), "f32[1,5] broadcast at {1,2}", False),
        ((6, 1, 5), "f32[6,1,5] broadcast at {0,1,2}", True),
        ((6, 1, 5), "f32[6,5] broadcast at {0,2}", True),
    ],
)
def test_dimensions_merge_over_those_of_size_1(dims, broadcast, merged):
    """Rows that each read the same vector stay apart: in one row its index would be a remainder."""
    kind, _, _, at = broadcast.split()
    shape = ",".join(map(str, dims))
    module = axla.parse(f"""HloModule m
ENTRY e {{ p = {kind} parameter(0)
  ROOT b = f32[{shape}] broadcast(p), dimensions={at} }}""")
    found = mergeable(module.entry, dims)
    space = cut(dims, 4, 1, found, host_target())
    assert (space.outer == ()) == merged
    assert space.inner == (30 if merged else 5)
