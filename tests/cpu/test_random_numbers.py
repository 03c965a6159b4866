"""rng and rng-get-and-update-state: distributions, and that no two draws are one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from three_ways import BACKENDS

import axla.api as axla

TYPES = ["f32", "f64", "f16", "bf16", "f8e5m2", "s8", "u8", "s32", "u64", "s4", "pred"]


def program(dtype: str, dims: str, distribution: str) -> str:
    return f"""HloModule m
ENTRY e {{
  a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT r = {dtype}[{dims}] rng(a, b), distribution=rng_{distribution}
}}"""


def draws(backend: str, text: str, a: float, b: float, runs: int = 1) -> list[np.ndarray]:
    module = axla.parse(text)
    kind = module.entry.parameters[0].shape.dtype.numpy
    function = axla.compile(module, backend=backend)
    inputs = [np.array(x).astype(kind) for x in (a, b)]
    return [np.asarray(function.execute(inputs)[0]) for _ in range(runs)]


@pytest.mark.parametrize("backend", [*BACKENDS, "interpreter"])
@pytest.mark.parametrize("dtype", TYPES)
def test_uniform(backend, dtype):
    low, high = {"pred": (0, 1), "u8": (3, 10), "u64": (3, 10)}.get(dtype, (-3, 4))
    (x,) = draws(backend, program(dtype, "101,9", "uniform"), low, high)
    assert x.shape == (101, 9)
    values = x.astype(np.float64)
    if dtype == "pred":
        assert 0.4 < values.mean() < 0.6
        return
    assert low <= values.min() < low + 1 and high - 1 <= values.max() < high
    if dtype[0] in "us":
        counts = np.unique(values, return_counts=True)[1]
        assert len(counts) == 7 and stats.chisquare(counts).pvalue > 1e-4
    elif dtype in ("f32", "f64"):
        assert stats.kstest(values.ravel(), stats.uniform(low, high - low).cdf).pvalue > 1e-4


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_normal(backend, dtype):
    (x,) = draws(backend, program(dtype, "1001", "normal"), 2, 3)
    values = x.astype(np.float64)
    assert abs(values.mean() - 2) < 0.4 and abs(values.std() - 3) < 0.3
    if dtype in ("f32", "f64"):
        assert stats.kstest(values, stats.norm(2, 3).cdf).pvalue > 1e-4
        # The two numbers of a pair have nothing to do with each other.
        assert abs(np.corrcoef(values[:500], values[501:1001])[0, 1]) < 0.15


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_and_instructions_differ(backend):
    text = """HloModule m
ENTRY e {
  a = f32[] constant(0)
  b = f32[] constant(1)
  x = f32[40] rng(a, b), distribution=rng_uniform
  y = f32[40] rng(a, b), distribution=rng_uniform
  ROOT r = (f32[40], f32[40]) tuple(x, y)
}"""
    function = axla.compile(axla.parse(text), backend=backend)
    lines = [np.asarray(x) for _ in range(3) for x in function.execute([])]
    assert len(np.unique(lines)) == 6 * 40
    again = axla.compile(axla.parse(text), backend=backend)
    assert np.array_equal(again.execute([])[0], lines[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_rounds_of_a_loop_differ(backend):
    text = """HloModule m
condition { s = (s32[], f32[5,40]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  k = s32[] constant(5)
  ROOT c = pred[] compare(n, k), direction=LT }
body { s = (s32[], f32[5,40]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  x = f32[5,40] get-tuple-element(s), index=1
  zero = s32[] constant(0)
  one = s32[] constant(1)
  a = f32[] constant(0)
  b = f32[] constant(1)
  line = f32[1,40] rng(a, b), distribution=rng_normal
  y = f32[5,40] dynamic-update-slice(x, line, n, zero)
  m = s32[] add(n, one)
  ROOT r = (s32[], f32[5,40]) tuple(m, y) }
ENTRY e {
  n = s32[] constant(0)
  z = f32[] constant(0)
  x = f32[5,40] broadcast(z), dimensions={}
  s = (s32[], f32[5,40]) tuple(n, x)
  w = (s32[], f32[5,40]) while(s), condition=condition, body=body
  ROOT r = f32[5,40] get-tuple-element(w), index=1
}"""
    (found,) = axla.compile(axla.parse(text), backend=backend).execute([])
    assert len(np.unique(found)) == 200


@pytest.mark.parametrize("backend", [*BACKENDS, "interpreter"])
def test_state_moves_on(backend):
    """Each use gives the old state and adds its delta, and so does each run."""
    text = """HloModule m
ENTRY e {
  a = u64[2] rng-get-and-update-state(), delta=4
  b = u64[2] rng-get-and-update-state(), delta=9223372036854775807
  c = u64[2] rng-get-and-update-state(), delta=9223372036854775807
  d = u64[2] rng-get-and-update-state(), delta=1
  ROOT r = (u64[2], u64[2], u64[2], u64[2]) tuple(a, b, c, d)
}"""
    module = axla.parse(text)
    function = axla.compile(module, backend=backend)
    runs = [[int(x[0]) + (int(x[1]) << 64) for x in map(np.asarray, function.execute([]))] for _ in range(2)]
    steps = [4, 2**63 - 1, 2**63 - 1]
    for states in runs:
        assert [y - x for x, y in zip(states, states[1:], strict=False)] == steps
    if backend != "interpreter":
        assert runs[1][0] - runs[0][-1] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes(backend):
    for dims in ("", "1", "0", "3,0,2", "5"):
        for distribution in ("uniform", "normal"):
            (x,) = draws(backend, program("f32", dims, distribution), 0, 1)
            assert np.isfinite(x).all()
