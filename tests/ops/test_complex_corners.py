"""Complex functions at their corners: what XLA:CPU of jaxlib 0.10.2 gives (inf beside NaN is a value too)."""

from __future__ import annotations

import numpy as np
import pytest

import axla

NAN, INF = np.nan, np.inf
BACKENDS = ("interpreter", "cpu", "one-lane")


def z(re, im=0.0):
    found = np.zeros((), "c8")
    found.real, found.imag = re, im
    return found


# Of c64: operands, and what XLA gives.
ATAN2 = [
    # Squares that overflow: the quotient is 0, its logarithm -inf, which has no angle.
    (z(0), z(3e38, 1e20), z(NAN, INF)), (z(3e38, 1e20), z(-0.0, 1e20), z(NAN, INF)),
    (z(-7, 3e38), z(3e38, -7), z(NAN, INF)), (z(-2e38, 1e20), z(1e20, -7), z(NAN, INF)),
    # Squares that vanish.
    (z(0), z(2e-38, 2e-38), z(NAN, -INF)), (z(-3e-30, -3e-30), z(2e-38, 2e-38), z(NAN, -INF)),
    # Zeros.
    (z(2e-38, 0), z(0.5, 0), z(0, 0)), (z(-2, -2), z(0, 0), z(-np.pi / 2, 0)),
    (z(NAN, 1), z(1, 1), z(NAN, NAN)), (z(0, 0), z(0, 0), z(NAN, NAN)),
]  # fmt: skip
POWER = [
    # The angle is rounded once: its parts alone would overflow.
    (z(0, -2), z(3e38, 3e38), z(INF, -INF)), (z(0, 0.5), z(3e38, 3e38), z(0, 0)),
    (z(-0.0, 1), z(1, 0), z(-4.371139e-08, 1)), (z(-0.0, 0), z(1, 0), z(0, 0)),
    (z(INF, 0), z(NAN, 0), z(NAN, NAN)), (z(INF, 0), z(0.5, 0), z(INF, 0)), (z(0, 0), z(2, 0), z(0, 0)),
    (z(0, 0), z(0, 0), z(1, 0)), (z(NAN, NAN), z(0, 0), z(1, 0)),
]  # fmt: skip
DIVIDE = [
    (z(1, -2), z(0, 0), z(INF, -INF)), (z(3e38, -2e38), z(0.5, 0.5), z(1e38, -INF)),
    (z(INF, 1), z(1, 1), z(INF, -INF)), (z(1, 1), z(INF, 1), z(0, 0)), (z(INF, INF), z(INF, 1), z(NAN, NAN)),
    (z(3e38, 3e38), z(3e38, 3e38), z(NAN, 0)), (z(-1e-45, 0), z(-1e-45, 0), z(1, 0)),
    (z(3e-45, 0), z(0, 3e-45), z(0, -1)), (z(3e38, 1), z(1e-45, 0), z(INF, INF)),
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("opcode", "cases"), [("atan2", ATAN2), ("power", POWER), ("divide", DIVIDE)])
def test_corners(opcode, cases, backend):
    x, y, wanted = (np.array(column) for column in zip(*cases, strict=True))
    count = len(x)
    text = f"""HloModule m
ENTRY e {{ a = c64[{count}] parameter(0)
  b = c64[{count}] parameter(1)
  ROOT r = c64[{count}] {opcode}(a, b) }}"""
    found = np.asarray(axla.compile(axla.parse(text), backend=backend)(x, y))
    for a, b, value, right in zip(x, y, found, wanted, strict=True):
        for part, other in ((value.real, right.real), (value.imag, right.imag)):
            assert np.isclose(part, other, 1e-6, 1e-12, equal_nan=True), (opcode, a, b, value, right)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_an_angle_left_of_the_axis_is_rounded_once(dtype, backend):
    kind = "f4" if dtype == "f32" else "f8"
    y = np.array([1, -1, 3, 1, 1, 5], kind)
    x = np.array([-0.0, -0.0, -1e-30, -1e-3, -0.5, -4], kind)
    text = f"""HloModule m
ENTRY e {{ a = {dtype}[6] parameter(0)
  b = {dtype}[6] parameter(1)
  ROOT r = {dtype}[6] atan2(a, b) }}"""
    found = np.asarray(axla.compile(axla.parse(text), backend=backend)(y, x))
    wanted = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble)).astype(kind)
    np.testing.assert_array_max_ulp(found, wanted, 1)
    np.testing.assert_array_equal(found[:3], wanted[:3])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
def test_the_logarithm_of_gamma_is_zero_where_gamma_is_one(dtype, backend):
    from axla.builder.compositions import Lgamma
    from axla.builder.xla_builder import XlaBuilder

    shape = axla.parse(f"HloModule m\nENTRY e {{ ROOT p = {dtype}[4] parameter(0) }}").entry.root.shape
    builder = XlaBuilder("m")
    Lgamma(builder.parameter(0, shape))
    x = np.array([1, 2, 3, 0.5]).astype(shape.dtype.numpy)
    found = np.asarray(axla.compile(builder.build().module, backend=backend)(x)).astype("f8")
    assert found[:2].tolist() == [0, 0] and not np.signbit(found[:2]).any()
    np.testing.assert_allclose(found[2:], [0.6931472, 0.5723649], 1e-2 if shape.dtype.bits == 16 else 1e-6)
