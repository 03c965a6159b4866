"""Operations element by element: results that TensorFlow gives at the ends of ranges, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from axla.core.errors import VerifyError
from tensorflow_nodes import module_of, run_node

f32, s8, u8, s32, c64 = np.float32, np.int8, np.uint8, np.int32, np.complex64
inf, nan = np.inf, np.nan
BACKENDS = ("cpu", "interpreter")


def close(found: np.ndarray, wanted: object) -> None:
    np.testing.assert_allclose(found, np.asarray(wanted), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("op, x, y, wanted", [
    ("FloorDiv", s8([-7, 7, -7, 7, -128, 5, -5]), s8([2, -2, -2, 2, -1, 0, 0]), [-4, -4, 3, 3, -128, -1, -2]),
    ("FloorDiv", c64([3 + 4j]), c64([2j]), [2 - 1.5j]),
    ("FloorMod", s8([-7, 7, -7, 7, -5]), s8([2, -2, -2, 2, 0]), [1, -1, -1, 1, -5]),
    ("FloorMod", f32([-7, 7, -0.5, inf]), f32([2, -2, 3, 2]), [1, -1, 2.5, nan]),
    ("TruncateDiv", f32([-7, 7, -1]), f32([2, -2, 0]), [-3, -3, -inf]),
    ("DivNoNan", f32([0, 1, inf, nan]), f32([0, 0, 0, 0]), [0, 0, 0, 0]),
    ("MulNoNan", f32([inf, nan, 2]), f32([0, 0, nan]), [0, 0, nan]),
    ("Xlogy", f32([0, 0, 2]), f32([0, nan, 0]), [0, 0, -inf]),
    ("Xdivy", f32([0, 0, 2]), f32([0, nan, 0]), [0, 0, inf]),
    ("SqrtGrad", c64([2j, 0]), c64([1, 0]), [0.25j, 0]),
    ("ReciprocalGrad", f32([inf, 2]), f32([0, 3]), [0, -12]),
    ("SquaredDifference", c64([1 + 2j]), c64([2]), [5]),
    ("LeftShift", u8([1, 1]), u8([7, 8]), [128, 0]),
    ("ApproximateEqual", f32([0, 0, nan]), f32([1e-6, 1e-4, nan]), [True, False, False]),
    ("Igamma", f32([0, -1, 2, 1]), f32([1, 1, 0, 2]), [nan, nan, 0, 0.8646647]),
    ("Igammac", f32([0, -1, 2, 2, 1]), f32([1, 1, 0, -1, 2]), [1, 1, 1, 1, 0.1353353]),
    ("Cross", u8([[1, 2, 3]]), u8([[4, 5, 6]]), [[253, 6, 253]]),
])  # fmt: skip
def test_two_operands(op, x, y, wanted, backend):
    close(run_node(op, x, y, backend=backend)[0], wanted)


@pytest.mark.parametrize("to, wanted", [
    ("DT_INT8", [1, -1, 127, -128, 127, 0]),
    ("DT_UINT8", [1, 0, 255, 0, 255, 0]),
    ("DT_BOOL", [True, True, True, True, True, True]),
])  # fmt: skip
def test_floats_become_the_nearest_integers_that_there_are(to, wanted):
    close(run_node("Cast", f32([1.7, -1.7, 300, -300, inf, nan]), DstT=to)[0], wanted)


def test_a_cast_may_cut_digits_off():
    found = run_node("Cast", f32([127.9, -1e10]), DstT="DT_BFLOAT16", Truncate=True)[0]
    close(found.astype(f32), [127.5, -9999220736])
    close(run_node("Cast", c64([2j, 0]), DstT="DT_BOOL")[0], [True, False])


def test_shapes_that_do_not_go_together_are_not_equal_where_a_node_says_so():
    x, y = np.zeros(2, f32), np.zeros(3, f32)
    assert not run_node("Equal", x, y, incompatible_shape_error=False)[0]
    assert run_node("NotEqual", x, y, incompatible_shape_error=False)[0]
    with pytest.raises(VerifyError, match=r"\[2\], \[3\] cannot be broadcast"):
        module_of("Equal", x, y)


def test_a_vector_selects_rows():
    x, y = np.ones((2, 2), s32), np.zeros((2, 2), s32)
    close(run_node("Select", np.array([True, False]), x, y)[0], [[1, 1], [0, 0]])
    close(run_node("Select", np.bool_(False), f32(1), f32(2))[0], 2)
    with pytest.raises(VerifyError, match="a condition of shape"):
        module_of("Select", np.ones(3, bool), x, y)


@pytest.mark.parametrize("op, operands, attributes, message", [
    ("Cross", [np.ones((2, 2), f32)] * 2, {}, "vectors of three numbers"),
    ("ClipByValue", [np.ones((2, 3), f32), np.ones(3, f32), f32(1)], {}, "a bound has shape"),
    ("Bitcast", [np.ones((2, 3), u8)], {"type": "DT_UINT32"}, "4 elements become one"),
    ("ApproximateEqual", [np.ones(2, f32), np.ones(1, f32)], {}, "operands of one shape"),
])  # fmt: skip
def test_refused(op, operands, attributes, message):
    with pytest.raises(VerifyError, match=message):
        module_of(op, *operands, **attributes)


def test_a_bessel_function_of_half_numbers_is_finite_where_the_exponential_is_not():
    found = run_node("BesselI0", np.float16([12.0]))[0]
    np.testing.assert_allclose(found.astype(f32), [18948.9], rtol=1e-3)


def test_products_of_numbers_become_integers_behind_the_sums():
    x, y = f32([[0.5, 0.5, 0.5]]), s32([[1], [1], [1]])
    assert run_node("BatchMatMulV3", x, y, Tout="DT_INT32")[0] == [[1]]
    assert run_node("BatchMatMulV3", c64([[1.5 + 2j]]), s32([[3]]), Tout="DT_INT32")[0] == [[4]]


def test_no_window_fits():
    found = run_node(
        "ExtractImagePatches", np.zeros((1, 6, 6, 1), f32), ksizes=[1, 3, 2, 1], strides=[1, 1, 1, 1],
        rates=[1, 3, 1, 1], padding="VALID",
    )[0]  # fmt: skip
    assert found.shape == (1, 0, 5, 6)
