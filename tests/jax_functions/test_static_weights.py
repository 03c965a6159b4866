"""Arrays that a function captures, and arguments that stay what they are, are constants by reference."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import axla.jax  # noqa: E402
from axla.core.errors import InvalidArgument  # noqa: E402
from axla.jax.functions import lowered  # noqa: E402

RANDOM = np.random.default_rng(7)
PARAMS = {"w": RANDOM.standard_normal((200, 192), dtype=np.float32), "b": jax.numpy.ones(192)}
X = RANDOM.standard_normal((64, 200), dtype=np.float32)


def layer(params, x, scale=2.0):
    return jax.numpy.tanh(x @ params["w"] + params["b"]) * scale


@pytest.fixture(scope="module")
def static():
    return axla.jax.compile(layer, PARAMS, X, static_weights="params")


def test_a_call_has_the_weights_or_leaves_them_out(static):
    wanted = np.asarray(axla.jax.compile(layer, PARAMS, X)(PARAMS, X))
    assert axla.jax.names_of(static.module).arguments == ("x",)
    for found in (static(PARAMS, X), static(x=X), static(params=PARAMS, x=X)):
        np.testing.assert_array_equal(found, wanted)


def test_other_weights_are_refused(static):
    with pytest.raises(InvalidArgument, match=r"params\['w'\] is a static weight"):
        static({**PARAMS, "w": PARAMS["w"].copy()}, X)


@pytest.mark.parametrize("chosen", ["param", 2, [0, "y"], None, True, [["params"]]])
def test_what_is_no_argument_is_named(chosen):
    with pytest.raises(InvalidArgument, match="static_weights has"):
        axla.jax.compile(layer, PARAMS, X, static_weights=chosen)


def test_weights_are_arrays():
    shape = jax.ShapeDtypeStruct((200, 192), "float32")
    with pytest.raises(InvalidArgument, match=r"params\['w'\] is ShapeDtypeStruct, wanted an array"):
        axla.jax.compile(layer, {**PARAMS, "w": shape}, X, static_weights=0)


def test_captured_arrays_are_not_written_into_bytecode():
    table = RANDOM.standard_normal((192, 192), dtype=np.float32)

    def captures(state, x):
        def step(carry, _):
            return jax.numpy.tanh(carry @ table), None

        return state + 1, jax.lax.scan(step, x @ PARAMS["w"], None, length=3)[0]

    program = lowered(captures, (np.ones(3, "f"), X), {}, (None, None, 0))
    assert len(program.artifact) < table.nbytes
    assert {c.shape for c in program.constants} == {(200, 192), (192, 192)}
    found = axla.jax.compile(captures, np.ones(3, "f"), X, donate_argnums=0)
    assert axla.jax.names_of(found.module).arguments == ("state", "x")
    assert [a.parameter for a in found.module.config.aliases] == [0]
    state, made = found(np.ones(3, "f"), X)
    np.testing.assert_array_equal(state, np.full(3, 2, "f"))
    np.testing.assert_allclose(made, jax.jit(captures)(np.ones(3, "f"), X)[1], rtol=1e-4, atol=1e-5)
    table[:] = 0
    np.testing.assert_array_equal(found(np.ones(3, "f"), X)[1], made)
