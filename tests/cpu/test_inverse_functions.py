"""Inverse functions of complex numbers in generated code, part by part against NumPy in long doubles."""

from __future__ import annotations

import numpy as np
import pytest

import axla

INVERSES = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atanh": np.arctanh,
}  # fmt: skip
TYPES = {"c64": np.complex64, "c128": np.complex128}
SIZES = [0.0, 1e-30, 1e-8, 0.3, 0.999, 1.0, 1.0001, 1.7, 30.0, 1e8, 1e30]
ULPS = 8


@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
@pytest.mark.parametrize("dtype", sorted(TYPES))
@pytest.mark.parametrize("name", sorted(INVERSES))
def test_parts_are_near_the_true_value(name, dtype, backend):
    parts = np.array([*SIZES, *[-s for s in SIZES[1:]]])
    z = (parts[:, None] + 1j * parts[None, :]).reshape(-1).astype(TYPES[dtype])
    z = z[(z.imag != 0) | (np.abs(z.real) < 1)]  # elsewhere are the cuts
    found = run(name, z, dtype, backend)
    wanted = INVERSES[name](z.astype(np.clongdouble))
    for part in ("real", "imag"):
        a, b = getattr(found, part), getattr(wanted, part).astype(found.real.dtype)
        far = np.abs(a.astype(np.longdouble) - b) > ULPS * np.spacing(np.abs(b))
        assert not far.any(), (part, z[far][:3], a[far][:3], b[far][:3])


@pytest.mark.parametrize("name", sorted(INVERSES))
def test_a_scalar_and_no_element_at_all(name):
    z = np.complex64(0.5 + 0.25j)
    assert run(name, np.asarray(z), "c64", "cpu") == pytest.approx(INVERSES[name](z), rel=1e-6)
    assert run(name, np.zeros((0,), np.complex64), "c64", "cpu").shape == (0,)


@pytest.mark.parametrize("name", sorted(INVERSES))
def test_the_interpreter_is_on_the_same_side_of_cuts(name):
    zeros, sizes = np.array([0.0, -0.0]), np.array([0.5, -0.5, 2.0, -2.0])
    z = np.empty(2 * zeros.size * sizes.size, np.complex128)
    z.real = [*np.repeat(sizes, 2), *np.tile(zeros, 4)]
    z.imag = [*np.tile(zeros, 4), *np.repeat(sizes, 2)]
    found, wanted = (run(name, z, "c128", backend) for backend in ("interpreter", "cpu"))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def run(name: str, z: np.ndarray, dtype: str, backend: str) -> np.ndarray:
    shape = f"{dtype}[{','.join(map(str, z.shape))}]"
    text = f"ENTRY e {{ p = {shape} parameter(0) ROOT r = {shape} {name}(p) }}"
    return np.asarray(axla.compile(axla.parse(text), backend=backend).execute([z])[0])
