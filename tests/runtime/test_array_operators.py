"""Arrays compute as NumPy's do: operators, methods, formats, and what NumPy and JAX ask of them."""

import operator

import ml_dtypes
import numpy as np
import pytest

from axla.core.errors import InvalidArgument
from axla.runtime.array import HostArray, device_put

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
KINDS = pytest.mark.parametrize("put", [device_put, lambda a: HostArray(np.array(a))], ids=["native", "host"])
BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, divmod,
]  # fmt: skip


@KINDS
@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_binary_operators_with_arrays_numbers_and_numpy(put, function):
    a = put(X)
    for left, right in [(a, a), (a, 2), (2, a), (a, X), (X, a), (a, np.float32(2))]:
        plain = [X if value is a else value for value in (left, right)]
        found, wanted = function(left, right), function(*plain)
        np.testing.assert_array_equal(found, wanted)
        assert np.asarray(found).dtype == np.asarray(wanted).dtype


@KINDS
def test_other_operators(put):
    a, n, p = put(X), put(np.array([1, 2, 3])), put(np.array([True, False]))
    np.testing.assert_array_equal(-a, -X)
    np.testing.assert_array_equal(abs(-a), X)
    np.testing.assert_array_equal(a @ a.T, X @ X.T)
    np.testing.assert_array_equal(X.T @ a, X.T @ X)
    np.testing.assert_array_equal((n << 1) | (n >> 1) ^ (n & 1), [3, 5, 6])
    np.testing.assert_array_equal(~p, [False, True])
    assert [row.tolist() for row in a] == X.tolist() and 3.0 in list(a[0])
    before = a
    a += 1  # a new array; what an Array holds never changes
    np.testing.assert_array_equal(before, X)
    np.testing.assert_array_equal(a, X + 1)


@KINDS
def test_methods_and_attributes(put):
    a = put(X)
    assert a.mean() == 3.5 and a.sum(axis=0).tolist() == [5, 7, 9] and a.max() == 6
    assert a.reshape(3, 2).shape == (3, 2) and a.astype(np.int8).dtype == np.int8
    np.testing.assert_array_equal(a.T, X.T)
    np.testing.assert_array_equal(put(np.array([1 + 2j])).imag, [2.0])
    assert not hasattr(a, "sort") and not hasattr(a, "fill")  # nothing changes an Array


@KINDS
def test_formats(put):
    assert f"{put(np.float32(2.5)):.3f}" == "2.500" and f"{put(np.array(7)):04d}" == "0007"
    a = put(X)
    assert f"{a}" == str(a) and "f32[2,3]" in f"{a}"


def test_narrow_types():
    a = device_put(np.arange(4).astype(ml_dtypes.bfloat16))
    assert (a + a).dtype == ml_dtypes.bfloat16 and (a + a).tolist() == [0, 2, 4, 6]


def test_numpy_functions_and_the_namespace():
    a = device_put(X)
    assert a.__array_namespace__() is np and a.__array_namespace__().sin(a).dtype == np.float32
    np.testing.assert_array_equal(np.add(a, 1), X + 1)


def test_what_was_deleted_is_not_computed_with():
    a = device_put(X)
    a.delete()
    for use in (lambda: a + 1, lambda: a.mean(), lambda: a.T, lambda: f"{a:.2f}"):
        with pytest.raises(InvalidArgument, match="deleted or donated"):
            use()


def test_jax_takes_them():
    jnp = pytest.importorskip("jax.numpy")
    a = device_put(X)
    for found in (jnp.asarray(a), jnp.zeros((2, 3)) + a, a + jnp.zeros((2, 3))):
        assert type(found).__module__.startswith("jaxlib")
        np.testing.assert_array_equal(found, X)
