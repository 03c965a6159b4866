"""Maximum and minimum of floats where the order of operands, signs of zeros and NaN matter."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import axla

VALUES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan, 1e-40, -1e-40]


def wanted(opcode: str, a: float, b: float) -> float:
    if np.isnan(a) or np.isnan(b):
        return np.nan
    if a == b == 0:
        negative = (
            (np.signbit(a) and np.signbit(b)) if opcode == "maximum" else (np.signbit(a) or np.signbit(b))
        )
        return -0.0 if negative else 0.0
    return max(a, b) if opcode == "maximum" else min(a, b)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
@pytest.mark.parametrize("copies", [1, 7])
def test_every_pair(kind, opcode, copies):
    """As vectors, and (one copy of the pairs one by one) as single values."""
    pairs = np.array(list(itertools.product(VALUES, VALUES)) * copies).T
    size = "" if copies == 1 else f"{pairs.shape[1]}"
    text = f"""HloModule m
ENTRY e {{ a = {kind}[{size}] parameter(0)
  b = {kind}[{size}] parameter(1)
  ROOT r = {kind}[{size}] {opcode}(a, b) }}"""
    run = axla.compile(axla.parse(text))
    dtype = axla.parse(text).entry.parameters[0].shape.dtype.numpy
    a, b = pairs.astype(dtype)
    got = (
        np.stack([np.asarray(run(x, y)) for x, y in zip(a, b, strict=True)])
        if copies == 1
        else np.asarray(run(a, b))
    )
    want = [wanted(opcode, float(x), float(y)) for x, y in zip(a, b, strict=True)]
    got = got.astype(np.float64)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got) | np.isnan(got), np.signbit(want) | np.isnan(want))
