"""Functions of CHLO that are composed: against SciPy, NumPy and what they are at corners."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.stablehlo.checks import ulps
from axla.stablehlo.modules import import_source
from axla.stablehlo.text import parse

scipy_special = pytest.importorskip("scipy.special", reason="SciPy is the reference")


def call(name: str, *operands: np.ndarray, element: str, backend: str = "interpreter") -> np.ndarray:
    kind = f"tensor<{operands[0].size}x{element}>"
    names = [f"%a{k}" for k in range(len(operands))]
    arguments = ", ".join(f"{n}: {kind}" for n in names)
    text = f"""func.func @main({arguments}) -> {kind} {{
      %0 = "chlo.{name}"({", ".join(names)}) : ({", ".join([kind] * len(names))}) -> {kind}
      return %0 : {kind}
    }}"""
    program = axla.compile(import_source(parse(text)), backend=backend)
    return np.asarray(program.execute(list(operands))[0])


@pytest.mark.parametrize("element, kind, limit", [("f32", np.float32, 2e-6), ("f64", np.float64, 1e-14)])
def test_bessel_function(element, kind, limit):
    x = np.concatenate([np.linspace(-30, 30, 101), [0.0, 8.0, -8.0, 1e10]]).astype(kind)
    wanted = scipy_special.i1e(x.astype(np.float64))
    assert np.allclose(call("bessel_i1e", x, element=element), wanted, rtol=limit, atol=1e-37)


@pytest.mark.parametrize("element, kind, limit", [("f32", np.float32, 4e-6), ("f64", np.float64, 1e-13)])
def test_zeta_and_polygamma(element, kind, limit):
    x, q = (a.reshape(-1).astype(kind) for a in np.meshgrid([1.5, 2, 3, 7.25, 20], [0.25, 1, 3.5, 10, 80]))
    wanted = scipy_special.zeta(x.astype(np.float64), q.astype(np.float64))
    assert np.allclose(call("zeta", x, q, element=element), wanted, rtol=4 * limit)
    n, y = (a.reshape(-1).astype(kind) for a in np.meshgrid([1, 2, 4], [0.3, 1, 2.5, 12]))
    wanted = scipy_special.polygamma(n.astype(int), y.astype(np.float64))
    assert np.allclose(
        call("polygamma", n, y, element=element), wanted, rtol=2e-5 if element == "f32" else 1e-12
    )


def test_zeta_and_polygamma_at_corners():
    x, q = np.array([1, 0.5, 2.5, 2, 3], np.float64), np.array([1, 1, -0.5, -1, -1], np.float64)
    assert np.array_equal(
        call("zeta", x, q, element="f64"), [np.inf, np.nan, np.nan, np.inf, np.nan], equal_nan=True
    )
    n = np.array([0, -1, 1.5], np.float64)
    found = call("polygamma", n, np.full(3, 2.5), element="f64")
    assert found[0] == pytest.approx(scipy_special.digamma(2.5), rel=1e-13) and np.isnan(found[1:]).all()


INVERSES = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh,
}  # fmt: skip


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("name", sorted(INVERSES))
def test_complex_inverses(name, backend):
    sizes = [1e-30, 1e-8, 0.3, 0.999, 1.0001, 1.7, 30.0, 1e8, 1e30]
    parts = np.array([*sizes, *[-s for s in sizes]])
    z = (parts[:, None] + 1j * parts[None, :]).reshape(-1)
    found = call(name, z, element="complex<f64>", backend=backend)
    wanted = INVERSES[name](z.astype(np.clongdouble)).astype(np.complex128)
    far = ulps(found, wanted) > 16
    assert not far.any(), (z[far][:3], found[far][:3], wanted[far][:3])


@pytest.mark.parametrize(
    "name, wanted", [("is_inf", [0, 1, 1, 0]), ("is_pos_inf", [0, 1, 0, 0]), ("is_neg_inf", [0, 0, 1, 0])]
)
def test_infinities(name, wanted):
    text = f"""func.func @main(%a: tensor<4xf32>) -> tensor<4xi1> {{
      %0 = "chlo.{name}"(%a) : (tensor<4xf32>) -> tensor<4xi1>
      return %0 : tensor<4xi1>
    }}"""
    program = axla.compile(import_source(parse(text)), backend="interpreter")
    given = np.array([1, np.inf, -np.inf, np.nan], np.float32)
    assert np.asarray(program.execute([given])[0]).astype(int).tolist() == wanted


def test_operands_are_broadcast():
    text = """func.func @main(%a: tensor<3xf32>, %b: tensor<2x1xf32>) -> (tensor<2x3xf32>, tensor<2x3xi1>) {
      %0 = "chlo.broadcast_add"(%a, %b) : (tensor<3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
      %1 = "chlo.broadcast_compare"(%a, %b) {comparison_direction = #chlo<comparison_direction LT>}
        : (tensor<3xf32>, tensor<2x1xf32>) -> tensor<2x3xi1>
      return %0, %1 : tensor<2x3xf32>, tensor<2x3xi1>
    }"""
    a, b = np.array([1, 2, 3], np.float32), np.array([[10], [2]], np.float32)
    total, less = (
        np.asarray(r) for r in axla.compile(import_source(parse(text)), backend="interpreter").execute([a, b])
    )
    assert (total == a + b).all() and (less == (a < b)).all()
