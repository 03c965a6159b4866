"""Exports of jax.export with symbolic sizes, compared with JAX itself."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.core.errors import InvalidArgument

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import export, lax  # noqa: E402


def exported(function, *shapes: str, constraints=()):
    scope = export.SymbolicScope(constraints)
    arguments = [
        jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), jnp.float32) for shape in shapes
    ]
    return export.export(jax.jit(function))(*arguments)


def values(*shapes: str, **sizes: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    dims = [[sizes.get(d.strip()) or int(d) for d in shape.split(",")] for shape in shapes]
    return [rng.normal(size=d).astype(np.float32) for d in dims]


CASES = {
    "softmax": (lambda x, w: jax.nn.softmax(x @ w), "b,4", "4,3"),
    "convolution": (lambda x, k: lax.conv_general_dilated(x, k, (2,), "SAME"), "1,2,b", "3,2,3"),
    "max_pool": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (1, 1), "SAME"), "b,c"),
    "cumulative": (lambda x: jnp.cumsum(x, axis=1), "b,c"),
    "scan": (lambda x: lax.scan(lambda c, a: (c + a, c * a), x[0], x), "b,c"),
    "random": (lambda x: jax.random.uniform(jax.random.key(0, impl="rbg"), x.shape), "b,c"),
    "top_k": (lambda x: lax.top_k(x, 2), "b,4"),
    "pad": (lambda x: jnp.pad(x, ((0, x.shape[0]), (1, 2)), mode="edge"), "b,c"),
    "einsum": (lambda x, y: jnp.einsum("bij,bjk->bik", x, y), "b,3,c", "b,c,2"),
    "scatter": (lambda x: x.at[1:, 0].set(5.0), "b,c"),
    "branches": (lambda x: lax.cond(x.sum() > 0, lambda a: a[:, :1] * a, lambda a: a - x.shape[0], x), "b,c"),
    "resize": (lambda x: jax.image.resize(x, (x.shape[0] * 2, x.shape[1]), "bilinear"), "b,c"),
    "qr": (lambda x: jnp.abs(jnp.linalg.qr(x)[1]), "b,3,2"),
}


@pytest.mark.parametrize("name", CASES)
def test_exports_with_symbolic_sizes(name):
    function, *shapes = CASES[name]
    made = exported(function, *shapes)
    module = axla.parse(made.mlir_module_serialized)
    for sizes in ({"b": 4, "c": 6}, {"b": 3, "c": 5}):
        arguments = values(*shapes, **sizes)
        backend = "cpu" if sizes["b"] == 4 else "interpreter"
        found = axla.compile(module, backend=backend, arg_types=arguments).execute(arguments)
        for a, e in zip(found, jax.tree.leaves(made.call(*arguments)), strict=True):
            np.testing.assert_allclose(np.asarray(a), e, rtol=1e-4, atol=1e-4)


def test_assertions_name_the_sizes():
    made = exported(lambda x, y: x + y[: x.shape[0]], "b,c", "b,c", constraints=["b >= 3"])
    module = axla.parse(str(made.mlir_module()))
    with pytest.raises(InvalidArgument, match=r"shape assertion at line \d+.*constraint b >= 3.*found -1"):
        axla.compile(module, arg_types=values("2,4", "2,4"))
    with pytest.raises(
        InvalidArgument, match=r"args\[1\].shape\[1\] \(= 5\) and the specification 'c' \(= 4\)"
    ):
        axla.compile(module, arg_types=values("3,4", "3,5"))


def test_the_platform_is_a_leading_argument():
    arguments = [jax.ShapeDtypeStruct(export.symbolic_shape("b"), jnp.float32)]

    def function(x):
        return lax.platform_dependent(x, cpu=lambda a: a * 2, cuda=lambda a: a * 3)

    made = export.export(jax.jit(function), platforms=["cpu", "cuda"])(*arguments)
    x = np.arange(3, dtype=np.float32)
    for platform, factor in enumerate((2, 3)):
        module = axla.parse(made.mlir_module_serialized, arg_types=[x], dim_args=[platform])
        (found,) = axla.compile(module, backend="interpreter").execute([x])
        assert np.array_equal(np.asarray(found), x * factor)
