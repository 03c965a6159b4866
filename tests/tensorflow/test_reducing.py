"""Reductions, counts and ranges: results that TensorFlow gives in corners, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from axla.core.errors import AxlaError, VerifyError
from tensorflow_nodes import Known, module_of, run_node

f32, s8, s32, s64 = np.float32, np.int8, np.int32, np.int64
inf, nan = np.inf, np.nan
BACKENDS = ("cpu", "interpreter")


def close(found: np.ndarray, wanted: object) -> None:
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("op, x, wanted", [
    ("Sum", f32([[]]), [0]), ("Prod", f32([[]]), [1]), ("Max", f32([[]]), [-inf]),
    ("Min", s32([[]]), [2**31 - 1]),
    ("Mean", s8([[-52, -97, -31, -23, -6, -92, -96]]), [-56]),
    ("Sum", np.full((1, 5000), 1, np.float16), [5000]),
    ("EuclideanNorm", s8([[16, 16, 9]]), [9]),
    ("ArgMax", f32([[1, nan, 3, 3]]), [2]), ("ArgMin", f32([[nan, 2, 1, nan]]), [2]),
    ("ArgMax", np.array([[False, True, True]]), [1]),
])  # fmt: skip
def test_reductions(op, x, wanted, backend):
    close(run_node(op, x, Known(s32(1)), backend=backend)[0], wanted)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("op, how, wanted", [
    ("Cumsum", {}, [1, 3, 6]), ("Cumsum", {"exclusive": True}, [0, 1, 3]),
    ("Cumprod", {"reverse": True}, [6, 6, 3]),
    ("Cumprod", {"reverse": True, "exclusive": True}, [6, 3, 1]),
    ("CumulativeLogsumexp", {"exclusive": True}, [-inf, 1, 2.3132617]),
])  # fmt: skip
def test_sums_along_a_dimension(op, how, wanted, backend):
    close(run_node(op, f32([1, 2, 3]), Known(s32(-1)), backend=backend, **how)[0], wanted)


def test_the_logarithm_of_a_sum_of_nothing_stays():
    found = run_node("CumulativeLogsumexp", f32([-inf, -inf, 0, inf, inf]), Known(s32(0)))[0]
    close(found, [-inf, -inf, 0, inf, inf])


@pytest.mark.parametrize(
    "is_binary, wanted", [(False, [[0, 2, 1], [0, 0, 2]]), (True, [[0, 1, 1], [0, 0, 1]])]
)
def test_numbers_without_a_bin_are_not_counted(is_binary, wanted):
    rows, none = s32([[1, 2, 1], [2, 7, 2]]), np.zeros(0, s64)
    close(run_node("DenseBincount", rows, Known(s32(3)), none, binary_output=is_binary)[0], wanted)


def test_places_among_sorted_numbers():
    rows, values = f32([[1, 2, 2, 3]]), f32([[2, 0, 9]])
    close(run_node("LowerBound", rows, values)[0], [[1, 0, 4]])
    close(run_node("UpperBound", rows, values, out_type="DT_INT64")[0], [[3, 0, 4]])
    close(run_node("Bucketize", s32([0, 1, 2]), boundaries=[0.5, 0.5, 1.5])[0], [0, 2, 3])


def test_a_target_is_not_among_the_largest_where_a_number_is_not_finite():
    rows, targets = f32([[1, 5, 5], [1, nan, 3], [4, 4, 4], [1, 2, 3]]), s32([2, 2, 0, 7])
    close(run_node("InTopKV2", rows, targets, s32(1))[0], [True, False, True, False])


@pytest.mark.parametrize("limits, wanted", [
    ((s32(5), s32(-5), s32(-3)), [5, 2, -1, -4]), ((f32(0), f32(0.4), f32(0.1)), [0, 0.1, 0.2, 0.3]),
    ((s32(2), s32(2), s32(-1)), []),
])  # fmt: skip
def test_ranges(limits, wanted):
    close(run_node("Range", *map(Known, limits))[0], wanted)
    close(run_node("LinSpace", f32(1), f32(2), Known(s32(1)))[0], [1])
    close(run_node("LinSpace", f32(1), f32(2), Known(s32(3)))[0], [1, 1.5, 2])


def test_long_ranges_are_made_by_the_program():
    close(run_node("Range", Known(f32(1)), Known(f32(70001)), Known(f32(0.5)))[0][-2:], [70000, 70000.5])
    close(run_node("Range", Known(s32(5)), Known(s32(-70000)), Known(s32(-1)))[0][-2:], [-69998, -69999])
    module_of("Range", Known(s64(0)), Known(s64(1 << 40)), Known(s64(1)))
    with pytest.raises(AxlaError, match="OverflowError"):
        module_of("Range", Known(f32(0)), Known(f32(inf)), Known(f32(1)))


@pytest.mark.parametrize("op, operands, message", [
    ("Sum", [np.ones((2, 2), f32), Known(s32([1, -1]))], "a dimension occurs twice"),
    ("Sum", [np.ones((2, 2), f32), Known(s32([2]))], "wanted a number from -2 to 1"),
    ("ArgMax", [np.ones((2, 0), f32), Known(s32(1))], "there are no elements along dimension 1"),
    ("Range", [Known(s32(0)), Known(s32(5)), Known(s32(-1))], "there is no range from 0 to 5 in steps of -1"),
    ("Range", [Known(s32(0)), Known(s32(5)), Known(s32(0))], "in steps of 0"),
    ("LowerBound", [np.ones((2, 2), f32), np.ones((3, 2), f32)], "equally many rows"),
    ("Bincount", [s32([1]), Known(s32(2)), np.ones((1, 1), f32)], "weights of shape"),
])  # fmt: skip
def test_refused(op, operands, message):
    with pytest.raises(VerifyError, match=message):
        module_of(op, *operands)
