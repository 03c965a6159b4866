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


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
@pytest.mark.parametrize("dims", [(3, 100), (1, 300_000)])
def test_of_rows(kind, opcode, dims):
    """The sign of a zero, NaN at any place, an initial value that wins; long rows are reduced in pieces."""
    dtype, lowest = np.dtype(kind.replace("f", "float")), -np.inf if opcode == "maximum" else np.inf
    text = f"""HloModule m
extreme {{ a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] {opcode}(a, b) }}
ENTRY e {{ x = {kind}[{dims[0]},{dims[1]}] parameter(0)
  i = {kind}[] parameter(1)
  ROOT r = {kind}[{dims[0]}] reduce(x, i), dimensions={{1}}, to_apply=extreme }}"""
    run = axla.compile(axla.parse(text))
    zeros = np.full(dims, -0.0, dtype)
    for place in (0, 7, dims[1] - 1):
        x = zeros.copy()
        assert np.signbit(np.asarray(run(x, dtype.type(lowest)))).all()
        x[:, place] = 0.0
        found = np.asarray(run(x, dtype.type(lowest)))
        assert not found.any() and (np.signbit(found) == (opcode == "minimum")).all()
        x[:, place] = -np.nan
        assert np.isnan(np.asarray(run(x, dtype.type(lowest)))).all()
        x[:, place] = 5 if opcode == "maximum" else -5
        np.testing.assert_array_equal(np.asarray(run(x, dtype.type(lowest))), x[:, place])
        assert (np.asarray(run(x, dtype.type(-lowest))) == -lowest).all()
