"""Compiled functions are called as the functions are: by position, by name, with static arguments or not."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import axla.jax  # noqa: E402
from axla.core.errors import InvalidArgument  # noqa: E402

P, X = {"w": np.eye(3, dtype=np.float32)}, np.arange(3, dtype=np.float32)


def predict(params, x, n=2, *, scale=1.0):
    return params["w"] @ x * scale + n


@pytest.fixture(scope="module")
def static():
    return axla.jax.compile(predict, P, X, n=2, static_argnames="n")


def test_by_position_and_by_name(static):
    for call in [
        static(P, X), static(P, x=X), static(x=X, params=P), static(P, X, 2), static(P, X, n=2),
        static(P, X, scale=1.0),
    ]:  # fmt: skip
        np.testing.assert_array_equal(call, X + 2)


@pytest.mark.parametrize(
    "args, kwargs, message",
    [
        ((P,), {}, "jit_predict: missing argument 'x'"),
        ((P, X), {"n": 3}, "jit_predict: n is static: compiled for n=2, found 3"),
        ((P, X), {"scale": 2.0}, "jit_predict: scale is static: compiled for scale=1.0, found 2.0"),
        ((P, X), {"foo": 3}, "jit_predict: got an unexpected keyword argument 'foo'"),
        ((P, X, 2, 1), {}, "jit_predict: too many positional arguments"),
        (
            ({"v": X}, X),
            {},
            r"jit_predict: params: wanted PyTreeDef\({'w': \*}\), found PyTreeDef\({'v': \*}\)",
        ),
        ((P, np.ones(4, np.float32)), {}, r"parameter 1 \(x\): wanted f32\[3\], found float32\[4\]"),
    ],
)
def test_what_is_wrong_with_a_call_is_named(static, args, kwargs, message):
    with pytest.raises(InvalidArgument, match=message):
        static(*args, **kwargs)


def test_arguments_given_by_name_may_be_left_to_their_defaults():
    given = axla.jax.compile(predict, P, X, scale=3.0)
    np.testing.assert_array_equal(given(P, X), X + 2)
    np.testing.assert_array_equal(given(P, X, scale=2.0), 2 * X + 2)


def test_jitted_functions_and_static_positions():
    jitted = axla.jax.compile(jax.jit(predict, static_argnums=2), P, X, 4)
    for call in (jitted(P, X), jitted(P, X, 4), jitted(params=P, x=X)):
        np.testing.assert_array_equal(call, X + 4)
    with pytest.raises(InvalidArgument, match="n is static: compiled for n=4, found 5"):
        jitted(P, X, 5)


def test_functions_of_any_number_of_arguments():
    total = axla.jax.compile(lambda *xs, **more: sum(xs) + more["y"], X, X, y=X)
    np.testing.assert_array_equal(total(X, X, y=X), 3 * X)
    with pytest.raises(InvalidArgument, match="wanted arguments PyTreeDef"):
        total(X, y=X)


def test_a_tracer_is_an_error_of_axla(static):
    for transform in (jax.jit, jax.vmap):
        with pytest.raises(InvalidArgument, match="axla's programs take arrays, found a tracer of JAX"):
            transform(lambda x: static(P, x))(X if transform is jax.jit else X[None])
        with pytest.raises(InvalidArgument, match=r"parameter 1 \(x\): not an array or array-like.*trace"):
            transform(lambda x: static.executable(P["w"], x))(X if transform is jax.jit else X[None])
