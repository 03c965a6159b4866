"""Composed functions against exact values, and their special values."""

import ml_dtypes
import mpmath
import numpy as np
import pytest
import scipy.special as special

from axla.builder import XlaBuilder, ops
from axla.core.errors import ShapeError
from axla.interpreter import evaluate


def compute(function, *arrays):
    b = XlaBuilder("f")
    operands = [ops.Constant(b, a) for a in arrays]
    with np.errstate(all="ignore"):
        return evaluate(b.build(function(*operands)).module, []).array


# function, mpmath's, arguments, bounds of the error in ulps of f32 and of f64 (found: 5, 5; 3, 1; 28, 31; 16,
# 20)
CASES = [
    (ops.Erfc, mpmath.erfc, np.linspace(-5, 26, 150), 6, 6),
    (
        ops.ErfInv,
        mpmath.erfinv,
        np.concatenate([np.linspace(-0.9999, 0.9999, 61), 1 - np.logspace(-6, -2, 20)]),
        4,
        2,
    ),
    (
        ops.Lgamma,
        mpmath.loggamma,
        np.concatenate([np.linspace(2.6, 40, 60), np.linspace(0.05, 0.7, 30)]),
        35,
        35,
    ),
    (
        ops.Digamma,
        mpmath.digamma,
        np.concatenate([np.linspace(1.9, 60, 60), np.linspace(0.05, 1.1, 30)]),
        25,
        25,
    ),
]


@pytest.mark.parametrize("function, exact, x, single, double", CASES, ids=[c[0].__name__ for c in CASES])
def test_accuracy(function, exact, x, single, double):
    for dtype, bound in ((np.float32, single), (np.float64, double)):
        arguments = x.astype(dtype)
        expected = np.array([float(exact(mpmath.mpf(float(v)))) for v in arguments])
        normal = np.abs(expected) > np.finfo(dtype).tiny
        arguments, expected = arguments[normal], expected[normal]
        error = np.abs(compute(function, arguments).astype(np.float64) - expected)
        assert np.max(error / np.spacing(np.abs(expected).astype(dtype)).astype(np.float64)) <= bound


@pytest.mark.parametrize("function, exact", [(ops.Lgamma, special.gammaln), (ops.Digamma, special.digamma)])
def test_gamma_functions_left_of_zero(function, exact):
    x = np.linspace(-9.7, -0.3, 52)
    assert np.allclose(compute(function, x), exact(x), rtol=1e-11, atol=1e-11)


def test_special_values():
    inf, nan = np.inf, np.nan
    x = np.array([inf, -inf, nan, 0.0, -0.0, -1.0, 1.0])
    assert np.array_equal(compute(ops.Erfc, x)[:5], [0, 2, nan, 1, 1], equal_nan=True)
    assert np.array_equal(compute(ops.ErfInv, x[2:]), [nan, 0, -0.0, -inf, inf], equal_nan=True)
    assert np.isnan(compute(ops.ErfInv, np.array([1.5, -2.0]))).all()
    assert np.array_equal(compute(ops.Lgamma, x)[:6], [inf, inf, nan, inf, inf, inf], equal_nan=True)
    assert np.array_equal(compute(ops.Digamma, x)[2:6], [nan] * 4, equal_nan=True)


def test_narrow_floats_are_computed_in_f32():
    x = np.array([0.25, 0.5, 3.0], ml_dtypes.bfloat16)
    for function, exact in ((ops.Erfc, special.erfc), (ops.Lgamma, special.gammaln)):
        found = compute(function, x)
        assert found.dtype == x.dtype
        assert np.array_equal(found, exact(x.astype(np.float64)).astype(np.float32).astype(x.dtype))


def test_integers_are_refused():
    with pytest.raises(ShapeError, match="Erfc: wanted f16, bf16, f32 or f64, found s32"):
        compute(ops.Erfc, np.int32([1]))


def test_conj_square_reciprocal_atan():
    z = np.array([1 + 2j, -3j], np.complex64)
    assert np.array_equal(compute(ops.Conj, z), z.conj())
    x = np.array([0.5, -4.0], np.float32)
    assert np.array_equal(compute(ops.Conj, x), x)
    assert np.array_equal(compute(ops.Square, x), x * x)
    assert np.array_equal(compute(ops.Reciprocal, x), 1 / x)
    assert np.allclose(compute(ops.Atan, x), np.arctan(x), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_next_after(dtype):
    tiny = np.nextafter(dtype(0), dtype(1))
    values = np.array(
        [0.0, -0.0, 1.0, -1.0, tiny, -tiny, np.inf, -np.inf, np.nan, np.finfo(dtype).max], dtype
    )
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    found = compute(ops.NextAfter, x, y)
    with np.errstate(over="ignore"):
        expected = np.where(x == y, y, np.nextafter(x, y))
    bits = f"i{x.itemsize}"
    same = (found.view(bits) == expected.view(bits)) | (np.isnan(found) & np.isnan(expected))
    assert same.all(), (x[~same], y[~same], found[~same], expected[~same])


def test_next_after_of_bf16():
    x = np.array([1.0, 1.0, 0.0], ml_dtypes.bfloat16)
    y = np.array([2.0, 0.0, -1.0], ml_dtypes.bfloat16)
    assert compute(ops.NextAfter, x, y).view(np.int16).tolist() == [0x3F81, 0x3F7F, -0x7FFF]
    with pytest.raises(ShapeError, match="two arrays of one type"):
        compute(ops.NextAfter, x, y.astype(np.float32))
