"""Operations of images: results that TensorFlow gives, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from axla.core.errors import VerifyError
from tensorflow_nodes import Known, module_of, run_node

f32, i32 = np.float32, np.int32
BACKENDS = ("cpu", "interpreter")
ROW = np.array([0, 10, 40], f32).reshape(1, 1, 3, 1)


def size(*numbers: int) -> Known:
    return Known(np.array(numbers, i32))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("attributes, linear, nearest", [
    ({}, [0, 6, 16, 34, 40], [0, 0, 10, 10, 40]),
    ({"align_corners": True}, [0, 5, 10, 25, 40], [0, 10, 10, 40, 40]),
    ({"half_pixel_centers": True}, [0, 4, 10, 28, 40], [0, 0, 10, 40, 40]),
])  # fmt: skip
def test_sizes(attributes, linear, nearest, backend):
    (found,) = run_node("ResizeBilinear", ROW, size(1, 5), backend=backend, **attributes)
    np.testing.assert_allclose(found.reshape(-1), linear, atol=1e-5)
    (found,) = run_node("ResizeNearestNeighbor", ROW, size(1, 5), backend=backend, **attributes)
    np.testing.assert_array_equal(found.reshape(-1), nearest)
    ones = np.ones((1, 1, 5, 1), f32)
    (found,) = run_node("ResizeBilinearGrad", ones, ROW, backend=backend, **attributes)
    np.testing.assert_allclose(np.sum(found.reshape(-1) * [0, 10, 40]), sum(linear), rtol=1e-6)
    (found,) = run_node("ResizeNearestNeighborGrad", ones, size(1, 3), backend=backend, **attributes)
    np.testing.assert_array_equal(found.reshape(-1), [nearest.count(n) for n in (0, 10, 40)])


def test_patches_are_features_by_rows_and_columns():
    x = np.arange(18, dtype=i32).reshape(1, 3, 3, 2)
    steps = {"ksizes": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "rates": [1, 2, 2, 1]}
    (found,) = run_node("ExtractImagePatches", x, padding="VALID", **steps)
    assert found.tolist() == [[[[0, 1, 4, 5, 12, 13, 16, 17]]]]
    (found,) = run_node("ExtractImagePatches", x, padding="SAME", **steps)
    assert found[0, 0, 0].tolist() == [0, 0, 0, 0, 0, 0, 8, 9]


COLOURS = np.array([[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 0.5, 0], [0.25, 0.25, 1]], f32)
HSV = [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1 / 3, 1, 0.5], [2 / 3, 0.75, 1]]


def test_colours():
    (found,) = run_node("RGBToHSV", COLOURS)
    np.testing.assert_allclose(found, HSV, atol=1e-6)
    np.testing.assert_allclose(run_node("HSVToRGB", found)[0], COLOURS, atol=1e-6)
    (found,) = run_node("AdjustHue", COLOURS[None], f32(-1 / 3))
    np.testing.assert_allclose(found[0, 2:], [[0, 0, 1], [0.5, 0, 0], [0.25, 1, 0.25]], atol=1e-6)
    (found,) = run_node("AdjustSaturation", COLOURS[None], f32(0.5))
    np.testing.assert_allclose(found[0, 4], [0.625, 0.625, 1], atol=1e-6)
    (found,) = run_node("AdjustContrastv2", ROW, f32(0.1))
    np.testing.assert_allclose(found.reshape(-1), [15, 16, 19], atol=1e-5)


BOXES = np.array([[0, 0, 2, 2], [2, 2, 0, 0.2], [0, 0, 2, 1.9], [5, 5, 6, 6]], f32)
SCORES = np.array([0.5, 0.2, 0.9, 0.7], f32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_boxes_that_overlap_are_dropped(backend):
    limits = [f32(0.5), f32(0.1)]
    (found,) = run_node("NonMaxSuppressionV3", BOXES, SCORES, Known(i32(9)), *limits, backend=backend)
    assert found.tolist() == [2, 3]
    limits[0] = f32(0.9)
    (found,) = run_node("NonMaxSuppressionV3", BOXES, SCORES, Known(i32(9)), *limits, backend=backend)
    assert found.tolist() == [2, 3, 1]
    limits[0] = f32(0.5)
    found, number = run_node(
        "NonMaxSuppressionV4", BOXES, SCORES, Known(i32(5)), *limits, pad_to_max_output_size=True,
        backend=backend,
    )  # fmt: skip
    assert found.tolist() == [2, 3, 0, 0, 0] and number == 2


BOTH = {"align_corners": True, "half_pixel_centers": True}


@pytest.mark.parametrize("op, operands, attributes, message", [
    ("ResizeBilinear", [ROW, size(0, 3)], {}, "are resized from [1, 3] to [0, 3]"),
    ("ResizeBilinear", [ROW, size(2, 3)], BOTH, "exclude each other"),
    ("RGBToHSV", [ROW], {}, "wanted 3 channels"),
    ("NonMaxSuppressionV3", [BOXES, SCORES[:3], Known(i32(1)), f32(0), f32(0)], {}, "wanted [3, 4]"),
])  # fmt: skip
def test_refused(op, operands, attributes, message):
    with pytest.raises(VerifyError) as caught:
        module_of(op, *operands, **attributes)
    assert message in str(caught.value)
