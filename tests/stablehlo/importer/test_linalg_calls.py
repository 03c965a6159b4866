"""Calls that JAX emits for machines without LAPACK: `Qr` and the product of its reflectors."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.core.errors import AxlaError

TEXT = """func.func @main(%a: tensor<{0}x{1}>) -> tensor<{0}x{1}> {{
  %0:2 = stablehlo.custom_call @Qr(%a) : (tensor<{0}x{1}>) -> (tensor<{0}x{1}>, tensor<{2}x{1}>)
  %1 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%0#0, %0#1) :
    (tensor<{0}x{1}>, tensor<{2}x{1}>) -> tensor<{0}x{1}>
  return %1 : tensor<{0}x{1}>
}}"""


@pytest.mark.parametrize("backend", ["interpreter", "cpu", "one-lane"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "complex<f32>"])
def test_calls_of_qr(dtype, backend):
    pytest.importorskip("scipy")
    kind = {"f32": "f4", "f64": "f8", "complex<f32>": "c8"}[dtype]
    a = np.random.default_rng(0).normal(size=(2, 5, 3, 2))
    a = (a[..., 0] + 1j * a[..., 1] if kind == "c8" else a[..., 0]).astype(kind)
    module = axla.parse(TEXT.format("2x5x3", dtype, "2x3"))
    q = np.asarray(axla.compile(module, backend=backend)(a))
    np.testing.assert_allclose(np.conj(np.swapaxes(q, 1, 2)) @ q, [np.eye(3)] * 2, atol=1e-5)
    r = np.conj(np.swapaxes(q, 1, 2)) @ a
    np.testing.assert_allclose(q @ r, a, atol=1e-5)
    assert abs(np.tril(r, -1)).max() < 1e-5


def test_calls_of_jax_for_other_machines():
    jax = pytest.importorskip("jax")
    export = pytest.importorskip("jax.export")
    x = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    made = export.export(
        jax.jit(lambda a: jax.numpy.linalg.qr(a, mode="complete")),
        platforms=["tpu"],
        disabled_checks=[export.DisabledSafetyCheck.platform()],
    )(x)
    assert "@Qr" in made.mlir_module()
    q, r = (np.asarray(v) for v in axla.compile(axla.parse(made.mlir_module()))(x))
    np.testing.assert_allclose(q @ r, x, atol=1e-6)
    np.testing.assert_allclose(q.T @ q, np.eye(4), atol=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        TEXT.format("2x5x3", "f32", "2x3").replace("@Qr(%a) : (tensor<2x5x3xf32>)", "@Qr() : ()"),
        TEXT.format("5x3", "f32", "3").replace("(%0#0, %0#1)", "(%0#1, %0#0)").replace(
            "(tensor<5x3xf32>, tensor<3xf32>) -> tensor<5x3xf32>",
            "(tensor<3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>",
        ),
        TEXT.format("4", "f32", "4"),
        TEXT.format("3x5", "f32", "3"),
        TEXT.format("5x3", "i32", "3"),
    ],
)  # fmt: skip
def test_what_is_no_decomposition(text):
    with pytest.raises(AxlaError):
        axla.compile(axla.parse(text))
