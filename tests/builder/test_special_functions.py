"""Bessel, zeta, incomplete gamma and beta functions against exact values, and at their limits."""

from functools import cache

import ml_dtypes
import mpmath as mp
import numpy as np
import pytest
import scipy.special as special

import axla
from axla.builder import XlaBuilder, ops
from axla.core.dtypes import from_numpy
from axla.core.errors import ShapeError
from axla.core.shape import Shape
from axla.interpreter import evaluate

INF, NAN = np.inf, np.nan


def program(function, arrays):
    b = XlaBuilder("f")
    parameters = [ops.Parameter(b, n, Shape(from_numpy(a.dtype), a.shape)) for n, a in enumerate(arrays)]
    return b.build(function(*parameters)).module


def compute(function, *arrays):
    with np.errstate(all="ignore"):
        return evaluate(program(function, arrays), arrays).array


def lower(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def upper(a, x):
    return mp.gammainc(a, x, mp.inf, regularized=True)


def slope(a, x):
    return mp.diff(lambda t: lower(t, x), a, h=a * mp.mpf(10) ** -15)


def sample_slope(a, x):
    return -slope(a, x) / mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))


@cache
def polygamma(n, x):
    """Takes 50 ms below 0, where several tests ask for the same ones."""
    return mp.polygamma(int(n), x)


def zeta_below(x, q):
    """mpmath's zeta is of positive q only."""
    return (-1) ** int(x) * polygamma(x - 1, q) / mp.factorial(int(x) - 1)


RNG = np.random.default_rng(7)
# On both sides of where one method takes over from another, and around the mean.
A = np.exp(RNG.uniform(-4, 11, 60))
X = A * np.exp(RNG.normal(size=60) * 2 / np.sqrt(1 + A))
FEW = slice(0, 25)
P, Q = np.exp(RNG.uniform(-4, 8, (2, 60)))
MANY = np.concatenate([np.linspace(-30, 30, 41), np.logspace(-8, 6, 30)])
ORDER = np.repeat(np.arange(6.0), 6)
# Below 0, at both sides of where the sum is turned around, and away from where odd powers cancel out;
# the same numbers in f32 and f64.
BELOW = -np.floor(np.exp(np.linspace(0, 12, 40))) + np.resize([0.046875, 0.296875, 0.703125, 0.96875], 40)
POWER = np.resize(np.arange(2.0, 9.0), 40)

# function, mpmath's, arguments, bounds of the error in ulps of f32 and of f64: relative to the result, and
# relative to the larger of it and 1
CASES = [
    (ops.BesselI0e, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), (MANY,), (4, 4)),
    (ops.BesselI1e, lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), (MANY,), (6, 6)),
    (ops.Zeta, mp.zeta, (np.linspace(1.1, 30, 40), np.exp(RNG.uniform(-3, 5, 40))), (4, 4)),
    (
        ops.Polygamma, polygamma,
        (ORDER, np.tile(np.exp(RNG.uniform(-3, 4, 6)), 6)), (25, 25),
    ),
    (ops.Zeta, zeta_below, (POWER, BELOW), (12, 40)),
    (ops.Polygamma, polygamma, (POWER - 1, BELOW), (25, 50)),
    (ops.Igamma, lower, (A, X), (60, 60)),
    (ops.IgammaGradA, slope, (A[FEW], X[FEW]), (150, 150)),
    (ops.RandomGammaGrad, sample_slope, (A[FEW], X[FEW]), (150, 150)),
]  # fmt: skip
ABSOLUTE = [
    (ops.Igammac, upper, (A, X), (30, 30)),
    (
        ops.RegularizedIncompleteBeta, lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
        (P, Q, np.clip(RNG.beta(P, Q), 1e-30, 1 - 1e-7)), (60, 60),
    ),
]  # fmt: skip


def errors(function, exact, arguments, dtype):
    """In ulps of the result, and of 1."""
    rounded = [a.astype(dtype) for a in arguments]
    found = compute(function, *rounded)
    assert found.dtype == dtype
    with mp.workdps(70):
        wanted = [float(exact(*[mp.mpf(float(v)) for v in point])) for point in zip(*rounded, strict=True)]
    found, wanted = found[normal := np.abs(wanted) > np.finfo(dtype).tiny], np.array(wanted)[normal]
    error = np.abs(found.astype(np.float64) - wanted) / np.finfo(dtype).eps
    return np.max(error / np.abs(wanted)), np.max(error)


@pytest.mark.parametrize("width", [0, 1], ids=["f32", "f64"])
@pytest.mark.parametrize("function, exact, arguments, bounds", CASES, ids=[c[0].__name__ for c in CASES])
def test_relative_accuracy(function, exact, arguments, bounds, width):
    assert errors(function, exact, arguments, (np.float32, np.float64)[width])[0] <= bounds[width]


@pytest.mark.parametrize("width", [0, 1], ids=["f32", "f64"])
@pytest.mark.parametrize(
    "function, exact, arguments, bounds", ABSOLUTE, ids=[c[0].__name__ for c in ABSOLUTE]
)
def test_absolute_accuracy(function, exact, arguments, bounds, width):
    assert errors(function, exact, arguments, (np.float32, np.float64)[width])[1] <= bounds[width]


def test_upper_tail_is_accurate_by_itself():
    a, x = np.array([0.5, 3.0, 40.0, 5e3, 1e6]), np.array([30.0, 50.0, 160.0, 6.5e3, 1.02e6])
    assert np.allclose(compute(ops.Igammac, a, x), special.gammaincc(a, x), rtol=1e-11, atol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_limits_of_the_incomplete_gamma_functions(dtype):
    table = np.array([
        # a, x, P
        (0, 0, NAN), (0, 1, 1), (1, 0, 0), (-1, 1, NAN), (1, -1, NAN), (NAN, 1, NAN), (1, NAN, NAN),
        (0, INF, 1), (2, INF, 1), (INF, 2, 0), (INF, INF, NAN), (1e-30, 1, 1), (1e5, 1e-30, 0),
        (1e5, 1e30, 1), (1e-30, 1e30, 1), (-0.0, 2, 1), (1, -0.0, 0), (-INF, 1, NAN), (1, -INF, NAN),
    ], dtype)  # fmt: skip
    a, x, p = table.T
    assert np.allclose(compute(ops.Igamma, a, x), p, rtol=0, atol=1e-6, equal_nan=True)
    assert np.allclose(compute(ops.Igammac, a, x), 1 - p, rtol=0, atol=1e-6, equal_nan=True)
    for function in (ops.IgammaGradA, ops.RandomGammaGrad):
        found = compute(function, a, x)
        assert np.array_equal(np.isnan(found), np.isnan(p) | (a == 0)), found
        assert (found[(x == 0) & (a > 0) | (x == INF) & (a == 2)] == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_limits_of_the_incomplete_beta_function(dtype):
    table = np.array([
        # a, b, x, I
        (1, 1, 0, 0), (1, 1, 1, 1), (0, 1, 0.5, 1), (0, 1, 0, 0), (1, 0, 0.5, 0), (1, 0, 1, 1),
        (0, 0, 0.5, NAN), (-1, 1, 0.5, NAN), (1, -1, 0.5, NAN), (1, 1, -0.5, NAN), (1, 1, 1.5, NAN),
        (NAN, 1, 0.5, NAN), (1, NAN, 0.5, NAN), (1, 1, NAN, NAN), (INF, 1, 0.5, 0), (1, INF, 0.5, 1),
        (INF, INF, 0.5, NAN), (1e5, 1e5, 0.5, 0.5), (1, 1, 0.25, 0.25),
    ], dtype)  # fmt: skip
    *arguments, wanted = table.T
    found = compute(ops.RegularizedIncompleteBeta, *arguments)
    assert np.allclose(found, wanted, rtol=0, atol=20 * np.finfo(dtype).eps, equal_nan=True)
    exact = np.isin(wanted, [0, 1]) | np.isnan(wanted)
    assert np.array_equal(found[exact], wanted[exact], equal_nan=True)


def test_limits_of_zeta_and_polygamma():
    x, q = (
        np.array([1, 1, 0.5, 2, 3, 2.5, 2, INF, NAN, 2, 2, 2.0, 2]),
        np.array([1, NAN, 2, 0, -1, -0.5, -2, 1, 1, NAN, INF, 1, -0.0]),
    )
    found = compute(ops.Zeta, x, q)
    wanted = [INF, INF, NAN, INF, NAN, NAN, INF, 1, NAN, NAN, 0, np.pi**2 / 6, INF]
    assert np.allclose(found, wanted, rtol=1e-15, equal_nan=True)
    n, x = (
        np.array([0, 0, 0, 1, 2, -1, 0.5, NAN, 1, 1, 0]),
        np.array([1, 0, -1, 0, 0, 1, 1, 1, NAN, INF, INF]),
    )
    found = compute(ops.Polygamma, n.astype(float), x.astype(float))
    wanted = [-np.euler_gamma, NAN, NAN, INF, NAN, NAN, NAN, NAN, NAN, 0, INF]
    assert np.allclose(found, wanted, rtol=1e-13, equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_limits_of_bessel_functions(dtype):
    x = np.array([0.0, -0.0, INF, -INF, NAN, 8, 1e30], dtype)
    tail = 1 / np.sqrt(2 * np.pi * 1e30)
    zero = compute(ops.BesselI0e, x)
    assert np.allclose(zero, [1, 1, 0, 0, NAN, special.i0e(8), tail], rtol=1e-6, atol=0, equal_nan=True)
    one = compute(ops.BesselI1e, x)
    assert np.allclose(one, [0, -0.0, 0, 0, NAN, special.i1e(8), tail], rtol=1e-6, atol=0, equal_nan=True)
    assert np.signbit(one[:4]).tolist() == [False, True, False, True]


@pytest.mark.parametrize("backend, function, arguments", [
    ("cpu", ops.Igammac, (A, X)), ("one-lane", ops.RegularizedIncompleteBeta, ABSOLUTE[1][2]),
])  # fmt: skip
def test_compiled_programs_give_the_same(backend, function, arguments):
    arrays = [v.astype(np.float32) for v in arguments]
    (found,) = axla.compile(program(function, arrays), backend=backend).execute(arrays)
    assert np.allclose(np.asarray(found), compute(function, *arrays), rtol=0, atol=2e-5)


def test_elements_do_not_depend_on_each_other():
    a, x = A.astype(np.float32), X.astype(np.float32)
    together = compute(ops.Igamma, a, x)
    alone = [compute(ops.Igamma, a[n : n + 1], x[n : n + 1])[0] for n in range(0, 60, 7)]
    assert together[::7].tolist() == alone


def test_narrow_floats_scalars_and_errors():
    x = np.array([0.25, 3.0], ml_dtypes.bfloat16)
    found = compute(lambda v: ops.Igamma(2.0, v), x)
    assert found.dtype == x.dtype
    assert np.array_equal(found, special.gammainc(2.0, x.astype(np.float32)).astype(x.dtype))
    with pytest.raises(ShapeError, match="Zeta: wanted arrays of one type and size, found f32.2., f32.3."):
        compute(ops.Zeta, np.ones(2, np.float32), np.ones(3, np.float32))
    with pytest.raises(ShapeError, match="Igamma: wanted f16, bf16, f32 or f64, found s32"):
        compute(ops.Igamma, np.ones(2, np.int32), np.ones(2, np.int32))
