"""Random numbers: those that TensorFlow's XLA makes of the same seeds, keys and counters."""

from __future__ import annotations

import numpy as np
import pytest

from axla.core.errors import UnsupportedError, VerifyError
from tensorflow_nodes import Known, module_of, run_node

SEED = np.array([1, -2], np.int32)
THREE = Known(np.array([3], np.int32))
KEY, COUNTER = np.array([5], np.uint64), np.array([7, 0], np.uint64)


def algorithm(number: int) -> Known:
    return Known(np.array(number, np.int32))


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("op, dtype, wanted", [
    ("StatelessRandomUniform", "DT_FLOAT", [0.22044837, 0.054591894, 0.45312572]),
    ("StatelessRandomUniform", "DT_DOUBLE", [0.05459194984763105, 0.21446254208058235, 0.7496647550366837]),
    ("StatelessRandomUniform", "DT_HALF", [0.81640625, 0.2333984375, 0.40234375]),
    ("StatelessRandomUniform", "DT_BFLOAT16", [0.2197265625, 0.054443359375, 0.453125]),
    ("StatelessRandomNormal", "DT_FLOAT", [0.58487386, 1.6377137, 1.227005]),
    ("StatelessRandomNormal", "DT_DOUBLE", [2.3517153801424144, 0.5340154139916112, 0.21014945647056146]),
    ("StatelessTruncatedNormal", "DT_FLOAT", [-0.7284533, -1.4405349, -0.11238639]),
])  # fmt: skip
def test_numbers_of_seeds(op, dtype, wanted, backend):
    (found,) = run_node(op, THREE, SEED, dtype=dtype, backend=backend)
    rtol = {2: 1e-3, 4: 2e-6, 8: 1e-12}[found.itemsize]
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=rtol)


@pytest.mark.parametrize("op, dtype, wanted", [
    ("StatelessRandomUniform", "DT_FLOAT", [0.74768043, 0.7566257, 0.84331036]),
    ("StatelessRandomUniform", "DT_DOUBLE", [0.9814439802553983, 0.7464831289745613, 0.6701934653369275]),
    ("StatelessRandomUniform", "DT_BFLOAT16", [0.984375, 0.21875, 0.1875]),
    ("StatelessRandomNormal", "DT_HALF", [-0.76171875, 0.03173828125, 0.58349609375]),
    ("StatelessTruncatedNormal", "DT_FLOAT", [-0.7619396, 0.031738095, 0.5835484]),
    ("StatelessTruncatedNormal", "DT_DOUBLE", [-0.193500378799369, -0.00427650342320195, -0.554791067185707]),
])  # fmt: skip
def test_numbers_of_constant_seeds_are_those_of_the_kernels_for_the_cpu(op, dtype, wanted):
    (found,) = run_node(op, THREE, Known(SEED), dtype=dtype)
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=2e-6 if found.itemsize > 2 else 1e-3)


def test_numbers_of_keys_and_counters():
    three = Known(np.array([3], np.int32))
    (found,) = run_node("StatelessRandomNormalV2", three, KEY, COUNTER, algorithm(2), Tshape="DT_INT32")
    np.testing.assert_allclose(found, [0.0060433922, 0.37675214, 0.21921827], rtol=1e-5)
    five, limits = Known(np.array([5], np.int32)), (np.array(-3, np.int32), np.array(9, np.int32))
    (found,) = run_node("StatelessRandomUniformIntV2", five, KEY, COUNTER, algorithm(1), *limits)
    np.testing.assert_array_equal(found, [3, 7, 2, 7, 7])


def test_numbers_without_seeds_are_in_their_range():
    (found,) = run_node("RandomUniform", Known(np.array([100], np.int32)), dtype="DT_BFLOAT16")
    assert found.shape == (100,) and (found >= 0).all() and (found < 1).all()
    (found,) = run_node("TruncatedNormal", Known(np.array([100], np.int32)), dtype="DT_FLOAT")
    assert (abs(found) <= 2).all() and len(set(found.tolist())) > 50
    rows = np.arange(40, dtype=np.float32).reshape(20, 2)
    (found,) = run_node("RandomShuffle", rows)
    np.testing.assert_array_equal(np.sort(found, 0), rows)
    logits = np.array([[0, -np.inf, 0], [-np.inf, 3, -np.inf]], np.float32)
    (found,) = run_node("Multinomial", logits, Known(np.array(50, np.int32)))
    assert set(found[0].tolist()) == {0, 2} and set(found[1].tolist()) == {1}


def test_rounding_up_or_down_by_chance():
    given = np.array([2.5] * 64 + [-300, 1e6, np.nan, 4], np.float32)
    (found,) = run_node("StochasticCastToInt", given, KEY, COUNTER, algorithm(1), Tout="DT_INT8")
    assert set(found[:64].tolist()) == {2, 3} and found[64:].tolist() == [-128, 127, 0, 4]


def test_what_is_refused():
    with pytest.raises(VerifyError, match="the seed has shape .3., wanted .2."):
        module_of("StatelessRandomUniform", THREE, np.zeros(3, np.int32))
    with pytest.raises(VerifyError, match="the algorithm is 4, wanted 1 .Philox., 2 .ThreeFry. or 3"):
        module_of("StatelessRandomUniformV2", THREE, KEY, COUNTER, algorithm(4), Tshape="DT_INT32")
    with pytest.raises(VerifyError, match="have shapes .1. and .1., wanted .1. and .2."):
        module_of("StatelessRandomUniformV2", THREE, KEY, KEY, algorithm(1), Tshape="DT_INT32")
    with pytest.raises(VerifyError, match="shape is .-1.: a size is negative"):
        module_of("RandomUniform", Known(np.array([-1], np.int32)), dtype="DT_FLOAT")
    with pytest.raises(UnsupportedError, match="shape depends on arguments"):
        module_of("RandomUniform", np.array([3], np.int32), dtype="DT_FLOAT")
    equal = Known(np.array(3, np.int32))
    with pytest.raises(VerifyError, match="wanted a range that is not empty"):
        module_of("StatelessRandomUniformInt", THREE, SEED, equal, equal)
