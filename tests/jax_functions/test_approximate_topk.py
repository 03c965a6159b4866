"""jax.lax.approx_max_k and approx_min_k: the custom call ApproxTopK, exact as JAX's on a CPU."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import axla
import axla.jax
from axla.aot.objects import compile_object
from axla.codegen.object_files import symbols
from axla.core.errors import UnsupportedError
from axla.target.names import target

FUNCTIONS = {
    "max": lambda x: jax.lax.approx_max_k(x, 5, 1),
    "min along the first": lambda x: jax.lax.approx_min_k(x, 3, 0),
    "not aggregated": lambda x: jax.lax.approx_max_k(x, 5, 1, aggregate_to_topk=False),
    "bf16": lambda x: jax.lax.approx_min_k(jnp.round(x * 4).astype(jnp.bfloat16).astype(jnp.float32), 4, 1),
}
X = np.random.default_rng(1).standard_normal((4, 1500, 2), np.float32)


@pytest.mark.parametrize("backend", ["interpreter", "cpu", "one-lane"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_jax(name, backend):
    module = axla.jax.to_module(FUNCTIONS[name], X)
    assert "ApproxTopK" in module.to_string()
    for program in (module, axla.parse(module.to_string())):
        values, places = axla.compile(program, backend=backend)(X)
        wanted = jax.jit(FUNCTIONS[name])(X)
        np.testing.assert_array_equal(values, wanted[0])
        if name != "bf16":  # of equal elements JAX's sort takes any
            np.testing.assert_array_equal(places, wanted[1])


def test_the_result_without_aggregation_is_longer():
    values, _ = axla.compile(axla.jax.to_module(FUNCTIONS["not aggregated"], X))(X)
    assert values.shape == (4, 256, 2)


def test_objects_have_it():
    code = compile_object(axla.jax.to_module(FUNCTIONS["max"], X), target("x86-64-v3"))
    assert symbols(code.image).needed == set()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("top_k = 5", "top_k = 6", "top_k=6 does not fit the result size 5"),
        ("reduction_dim = 1", "reduction_dim = 3", "reduction_dim=3 does not fit rank 3"),
        ("reduction_dim = 1", "reduction_dim = 0", "cannot return"),
    ],
)
def test_calls_that_make_no_sense(old, new, message):
    text = axla.jax.to_module(FUNCTIONS["max"], X).to_string()
    assert old in text
    with pytest.raises(UnsupportedError, match=message):
        axla.compile(axla.parse(text.replace(old, new)))
