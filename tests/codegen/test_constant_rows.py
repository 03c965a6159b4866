"""One row times a constant matrix, which lies in panels or transposed (`passes.layout.constants`)."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import axla

# Whole panels of eight vectors of 64 bytes and of fewer, columns that no panels divide, odd k, long ones.
SIZES = [(256, 768), (768, 320), (77, 1152), (640, 1000), (2100, 272), (1030, 1001)]
TYPES = {
    "f32": (np.float32, "f32"),
    "bf16": (ml_dtypes.bfloat16, "bf16"),
    "bf16 to f32": (ml_dtypes.bfloat16, "f32"),
    "s8": (np.int8, "s32"),
    "f64": (np.float64, "f64"),
}


@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("k", "n"), SIZES)
def test_a_row_times_a_constant_matrix(k, n, kind, turned, backend):
    dtype, result = TYPES[kind]
    source, rng = {"bf16 to f32": "bf16", "s8": "s8"}.get(kind, result), np.random.default_rng(k + n)
    stored, side = ((n, k), 1) if turned else ((k, n), 0)
    text = f"""ENTRY e {{ x = {source}[1,{k}] parameter(0) w = {source}[{stored[0]},{stored[1]}] parameter(1)
      b = {result}[1,{n}] parameter(2)
      d = {result}[1,{n}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{side}}}
      s = {result}[1,{n}] add(d, b)
      ROOT t = ({result}[1,{n}], {result}[1,{n}]) tuple(d, s) }}"""
    module = axla.parse(text)
    x, w, b = (
        np.asarray(rng.integers(-128, 128, dims) if source == "s8" else rng.standard_normal(dims))
        for dims in ((1, k), stored, (1, n))
    )
    sums = {"f32": np.float32, "s32": np.int32}.get(result, dtype)
    x, w, b = x.astype(dtype), w.astype(dtype), b.astype(sums)
    wide = np.int64 if source == "s8" else np.float64
    exact = x.astype(wide) @ (w.T if turned else w).astype(wide)
    found = axla.compile(module, constant={1: w}, backend=backend, flags={"xla_cpu_ftz": True})(x, b)
    size = np.abs(x).astype(wide) @ np.abs(w.T if turned else w).astype(wide)
    for got, want in zip(found, (exact, exact + b.astype(wide)), strict=True):
        error = np.abs(np.asarray(got).astype(wide) - want)
        allowed = {"s8": 0, "f64": 1e-14, "bf16": 2**-7}.get(kind, 2e-6) * (size + np.abs(b.astype(wide)))
        assert (error <= allowed).all(), (error / size).max()
