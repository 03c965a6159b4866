"""Quantized numbers: results that TensorFlow gives, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from axla.core.errors import VerifyError
from tensorflow_nodes import Known, module_of, run_node

f32, s32, inf = np.float32, np.int32, np.inf
BACKENDS = ("cpu", "interpreter")


def close(found: np.ndarray, wanted: object) -> None:
    np.testing.assert_allclose(found, np.asarray(wanted), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("low, high, wanted", [
    (-1, 3, [-1.0666667, -0.5333334, 0, 2.9333334]), (0, 5, [0, 0, 0, 5]), (1, 6, [0, 0, 0, 5]),
    (0, 0, [0, 0, 0, 0]),
])  # fmt: skip
def test_steps_are_moved_to_zero(low, high, wanted, backend):
    x = f32([-inf, -0.5, 0.01, 9])
    close(run_node("FakeQuantWithMinMaxVars", x, f32(low), f32(high), num_bits=4, backend=backend)[0], wanted)


def test_gradients_go_to_the_limits_where_numbers_are_beyond():
    gradient, x = f32([[1, 2], [3, 4], [5, 6]]), f32([[-9, 0], [1, 9], [9, 0]])
    op = "FakeQuantWithMinMaxVarsPerChannelGradient"
    found = run_node(op, gradient, x, f32([-6, 0]), f32([6, 0]))
    for value, wanted in zip(found, ([[0, 2], [3, 4], [0, 6]], [1, 0], [5, 0]), strict=True):
        close(value, wanted)


@pytest.mark.parametrize("how, wanted", [
    ({"range_given": True}, [-1, -0.6666667, 0.3333333, 1]),
    ({"range_given": False}, [-2, -0.6666667, 0, 1.3333334]),
    ({"range_given": True, "signed_input": False}, [0, 0, 0.2857143, 1]),
])  # fmt: skip
def test_there_and_back(how, wanted):
    found = run_node(
        "QuantizeAndDequantizeV2",
        f32([-2, -0.5, 0.3, 1.2]),
        f32(-1),
        f32(1),
        num_bits=3,
        narrow_range=True,
        **how,
    )
    close(found[0], wanted)


def test_integers_with_a_scale_round_to_even():
    x, limits = f32([-3.3, -0.75, 0.25, 100]), {"quantization_min_val": -128, "quantization_max_val": 127}
    found = run_node("UniformQuantize", x, Known(f32(0.5)), Known(s32(0)), Tout="DT_QINT8", **limits)
    close(found[0], [-7, -2, 0, 127])
    with pytest.raises(VerifyError, match=r"has shape \[2\], wanted \[\]"):
        module_of("UniformQuantize", x, f32([1, 1]), s32([0, 0]), Tout="DT_QINT8", **limits)


def test_refused():
    x = np.ones(3, f32)
    with pytest.raises(VerifyError, match="'num_bits' is 17"):
        module_of("FakeQuantWithMinMaxArgs", x, num_bits=17)
    with pytest.raises(VerifyError, match="wanted min < max"):
        module_of("FakeQuantWithMinMaxArgs", x, min=2.0, max=1.0)
    with pytest.raises(VerifyError, match="'axis' is 1"):
        module_of("QuantizeAndDequantizeV2", x, f32([0]), f32([1]), axis=1)
