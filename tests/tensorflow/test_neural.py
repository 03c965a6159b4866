"""Operations of neural networks: results that TensorFlow gives, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from axla.core.errors import UnsupportedError, VerifyError
from axla.text.printer import print_module
from tensorflow_nodes import Known, module_of, run_node

f32, inf, nan = np.float32, np.inf, np.nan
BACKENDS = ("cpu", "interpreter")


def images(values: object, dtype: type = f32) -> np.ndarray:
    """One image of one feature, of rows."""
    rows = np.atleast_2d(np.array(values, dtype))
    return rows.reshape(1, *rows.shape, 1)


def close(found: np.ndarray, wanted: object) -> None:
    wanted = np.asarray(wanted)
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("op, given, wanted", [
    ("Relu", [-1, 0, 2, inf, -inf], [0, 0, 2, inf, 0]),
    ("Relu6", [-1, 3, 7, inf, -inf], [0, 3, 6, 6, 0]),
    ("Softplus", [-inf, -100, 0, 100, inf, nan], [0, 3.720076e-44, 0.6931472, 100, inf, nan]),
    ("Elu", [-inf, -1, -0.0, 2], [-1, -0.6321206, 0, 2]),
    ("Softmax", [[1000, 1000], [-inf, 0]], [[0.5, 0.5], [0, 1]]),
    ("LogSoftmax", [[0, -1000]], [[0, -1000]]),
])  # fmt: skip
def test_functions_at_the_ends_of_their_range(op, given, wanted, backend):
    close(run_node(op, np.array(given, f32), backend=backend)[0], np.array(wanted, f32))


@pytest.mark.parametrize("op, second, wanted", [
    ("ReluGrad", [-1, 0, 1, nan], [0, 0, 3, 0]),
    ("Relu6Grad", [-1, 6, 5.5, nan], [0, 0, 3, 0]),
    ("EluGrad", [-0.5, 0, 1, -1], [0.5, 2, 3, 0]),
])  # fmt: skip
def test_gradients_of_functions(op, second, wanted):
    close(run_node(op, np.array([1, 2, 3, 4], f32), np.array(second, f32))[0], wanted)


def test_products_of_matrices_of_other_types_and_shapes():
    a, b = np.full((2, 1, 2, 3), 100, np.int8), np.full((3, 2), 100, np.int8)
    (found,) = run_node("BatchMatMulV3", a, b, Tout="DT_INT32")
    assert found.dtype == np.int32 and found.shape == (2, 1, 2, 2) and (found == 30000).all()
    z = np.array([[1 + 2j, 3j]], np.complex64)
    close(run_node("BatchMatMulV2", z, z, adj_y=True)[0], [[14 + 0j]])
    close(run_node("MatMul", z, z, transpose_b=True)[0], [[-12 + 4j]])


# Convolutions.

STEPS = {"strides": [1, 1, 2, 1], "padding": "SAME"}
KERNEL = np.array([1, 10, 100], f32).reshape(1, 3, 1, 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_odd_element_of_same_padding_is_behind(backend):
    x = images([1, 2, 3, 4])
    close(run_node("Conv2D", x, KERNEL, backend=backend, **STEPS)[0], [321, 43])
    close(run_node("MaxPool", x, ksize=[1, 1, 3, 1], backend=backend, **STEPS)[0], [3, 4])
    gradient = images([1, 2])
    sizes = Known(np.array(x.shape, np.int32))
    found = run_node("Conv2DBackpropInput", sizes, KERNEL, gradient, backend=backend, **STEPS)
    close(found[0], [1, 10, 102, 20])
    sizes = Known(np.array(KERNEL.shape, np.int32))
    found = run_node("Conv2DBackpropFilter", x, sizes, gradient, backend=backend, **STEPS)
    close(found[0], [7, 10, 3])


def test_depthwise_convolutions_are_grouped_ones():
    x = np.arange(8, dtype=f32).reshape(1, 2, 2, 2)
    kernel = np.array([[1, 10], [100, 1000]], f32).reshape(1, 1, 2, 2)
    attributes = {"strides": [1, 1, 1, 1], "padding": "VALID"}
    text = print_module(module_of("DepthwiseConv2dNative", x, kernel, **attributes))
    assert "feature_group_count=2" in text and text.count("convolution(") == 1
    (found,) = run_node("DepthwiseConv2dNative", x, kernel, **attributes)
    close(found[0, 1, 1], [6, 60, 700, 7000])
    sizes = Known(np.array(kernel.shape, np.int32))
    (found,) = run_node("DepthwiseConv2dNativeBackpropFilter", x, sizes, found * 0 + 1, **attributes)
    close(found, [[12, 12], [16, 16]])
    assert "batch_group_count=2" in print_module(
        module_of("DepthwiseConv2dNativeBackpropFilter", x, sizes, np.ones((1, 2, 2, 4), f32), **attributes)
    )


def test_images_in_batches_of_batches_with_features_first():
    x, kernel = np.arange(8, dtype=f32).reshape(2, 1, 2, 1, 2), np.array([1, 10], f32).reshape(1, 1, 2, 1)
    attributes = {"strides": [1] * 4, "padding": "VALID", "data_format": "CHANNELS_FIRST", "batch_dims": 2}
    (found,) = run_node("Conv", x, kernel, **attributes)
    close(found, np.array([20, 31, 64, 75]).reshape(2, 1, 1, 1, 2))


def test_explicit_padding_and_dilation_in_the_other_format():
    x = np.array([1, 2, 3, 4], f32).reshape(1, 1, 1, 4)
    (found,) = run_node(
        "Conv2D", x, KERNEL, strides=[1, 1, 1, 1], padding="EXPLICIT", data_format="NCHW",
        explicit_paddings=[0, 0, 0, 0, 0, 0, 2, 1], dilations=[1, 1, 1, 2],
    )  # fmt: skip
    close(found, np.array([310, 420, 31]).reshape(1, 1, 1, 3))


def test_fused_convolutions_of_bytes_are_rounded_and_clamped():
    x, side = images([[3, 100]], np.int8), images([[1, -1]], np.int8)
    args = [[np.array([0.5], f32), side], [f32(1.5), f32(10)]]
    attributes = {
        "strides": [1, 1, 1, 1], "padding": "VALID", "fused_ops": ["BiasAdd", "Relu"],
        "TArgs": ["DT_FLOAT", "DT_INT8"], "num_host_args": 2, "T": "DT_INT8",
    }  # fmt: skip
    (found,) = run_node("_FusedConv2D", x, np.ones((1, 1, 1, 1), np.int8), *args, **attributes)
    assert found.dtype == np.int8
    close(found, [15, 127])  # 1.5 * 3 + 0.5 + 10 * 1, and 140.5
    with pytest.raises(UnsupportedError, match="a fused convolution is f32, wanted s8"):
        module_of("_FusedConv2D", images([1]), KERNEL, *args, **attributes | {"T": "DT_FLOAT"})


# Pooling.


@pytest.mark.parametrize("backend", BACKENDS)
def test_averages_are_over_what_is_there(backend):
    attributes = {"ksize": [1, 1, 2, 1], "strides": [1, 1, 2, 1], "padding": "SAME", "backend": backend}
    close(run_node("AvgPool", images([1, 2, 3]), **attributes)[0], [1.5, 3])
    sizes = Known(np.array([1, 1, 3, 1], np.int32))
    close(run_node("AvgPoolGrad", sizes, images([1, 2]), **attributes)[0], [0.5, 0.5, 2])


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_equal_numbers_the_first_is_the_largest(backend):
    x, attributes = (
        images([5, 5, -7, -7]),
        {"ksize": [1, 1, 2, 1], "strides": [1, 1, 2, 1], "padding": "VALID"},
    )
    y = images([5, -7])
    close(run_node("MaxPoolGrad", x, y, images([1, 2]), backend=backend, **attributes)[0], [1, 0, 2, 0])
    found = run_node("MaxPoolGradGrad", x, y, images([1, 2, 3, 4]), backend=backend, **attributes)
    close(found[0], [1, 3])
    close(run_node("MaxPool", images([nan, 1, nan, nan]), backend=backend, **attributes)[0], [1, -inf])


# Normalization.

VECTORS = [np.array(v, f32) for v in ([2, 1], [1, 0], [1, 2], [3, 8])]


def test_batch_norm_of_known_averages_is_element_by_element():
    x = np.array([3, 2, 1, 5], f32).reshape(1, 2, 1, 2)
    found = run_node("FusedBatchNormV3", x, *VECTORS, epsilon=1.0, is_training=False)
    close(found[0], [3, 0, 1, 1])
    close(found[2], [3, 8])
    assert found[5].shape == (0,)
    text = print_module(module_of("FusedBatchNormV3", x, *VECTORS, is_training=False))
    assert "reduce" not in text and "batch-norm" not in text


def test_batch_norm_in_training_goes_on_with_the_averages():
    x = np.array([3, 2, 1, 6], f32).reshape(1, 2, 1, 2)
    found = run_node("FusedBatchNormV2", x, *VECTORS, epsilon=0.0, exponential_avg_factor=0.5)
    close(found[0], [3, -1, -1, 1])
    close(found[1], [1.5, 3])  # half of the past, half of [2, 4]
    close(found[2], [2.5, 8])  # the variance of two numbers, divided by one
    close(found[4], [1, 4])


def test_labels_that_are_no_class_make_nan():
    logits = np.zeros((3, 2), f32)
    loss, gradient = run_node("SparseSoftmaxCrossEntropyWithLogits", logits, np.array([1, 2, -1]))
    close(loss, [0.6931472, nan, nan])
    close(gradient, [[0.5, -0.5], [nan, nan], [nan, nan]])


def test_a_label_of_zero_costs_nothing():
    logits, labels = np.array([[0, -inf]], f32), np.array([[1, 0]], f32)
    loss, gradient = run_node("SoftmaxCrossEntropyWithLogits", logits, labels)
    close(loss, [0])
    close(gradient, [[0, 0]])


@pytest.mark.parametrize("op, operands, attributes, message", [
    ("MatMul", [np.ones((2, 3), f32), np.ones((2, 3), f32)], {}, "3 columns, 2 rows"),
    ("BiasAdd", [np.ones((2, 3), f32), np.ones(2, f32)], {}, "bias has shape [2], wanted [3]"),
    ("Conv2D", [images([1, 2]), np.ones((1, 1, 3, 1), f32)], STEPS, "[1, 1, 3, 1] does not fit 1 features"),
    ("Conv2D", [images([1]), KERNEL], {"strides": [1] * 4, "padding": "VALID"}, "of size 3 does not fit"),
    ("Conv2D", [images([1, 2]), KERNEL], STEPS | {"strides": [2, 1, 1, 1]}, "strides are [2, 1, 1, 1]"),
    ("Conv2D", [images([1]), KERNEL], STEPS | {"explicit_paddings": [1]}, "but padding is SAME"),
    ("Conv", [images([1, 2]), np.ones(3, f32)], STEPS, "batch_dims=1, a filter of shape [3]"),
    ("MaxPool", [images([1, 2])], {"ksize": [1, 0, 1, 1], **STEPS}, "ksize are [1, 0, 1, 1]"),
    ("FusedBatchNormV3", [images([1]), *VECTORS], {}, "a vector for the features has shape [2], wanted [1]"),
    ("Softmax", [f32(1)], {}, "the logits are a scalar"),
])  # fmt: skip
def test_refused(op, operands, attributes, message):
    with pytest.raises((VerifyError, UnsupportedError)) as caught:
        module_of(op, *operands, **attributes)
    assert message in str(caught.value) and f"node 'it' ({op})" in str(caught.value)
