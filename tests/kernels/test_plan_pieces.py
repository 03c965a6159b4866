"""What planners share: how many lanes fit, and how lines are cut into pieces."""

import pytest

from axla.kernels.plan import fitting, lines_per_piece
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
