"""Random numbers of runs: they differ from call to call, and lie in their range, however large it is."""

from __future__ import annotations

import numpy as np
import pytest

import axla

TEXT = """HloModule m
ENTRY e {{
  a = {0}[] parameter(0)
  b = {0}[] parameter(1)
  ROOT r = {0}[500] rng(a, b), distribution={1}
}}"""
STATE = "HloModule m\nENTRY e { ROOT r = u64[2] rng-get-and-update-state(), delta=3 }"
BACKENDS = ("interpreter", "cpu", "one-lane")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("distribution", ["rng_uniform", "rng_normal"])
def test_numbers_differ_from_run_to_run(distribution, backend):
    def made():
        return axla.compile(axla.parse(TEXT.format("f32", distribution)), backend=backend)

    one, bounds = made(), (np.float32(0), np.float32(1))
    first, second = np.asarray(one(*bounds)), np.asarray(one.execute(bounds)[0])
    assert (first != second).mean() > 0.9
    # A program that is made again starts again.
    np.testing.assert_array_equal(np.asarray(made()(*bounds)), first)


def test_runs_on_devices_differ_too():
    module = axla.parse(TEXT.format("f32", "rng_uniform"))
    executable = axla.compile(module, backend="interpreter")
    inputs = [[np.float32(0), np.float32(1)]]
    assert (executable.execute_replicated(inputs)[0][0] != executable.execute_replicated(inputs)[0][0]).any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_states_of_runs_are_apart(backend):
    executable = axla.compile(axla.parse(STATE), backend=backend)
    seen = {tuple(np.asarray(executable()).tolist()) for _ in range(3)}
    assert len(seen) == 3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("f32", -3e38, 3e38), ("f64", -1.7e308, 1.7e308), ("f16", -65000, 65000), ("bf16", -3e38, 3e38),
        ("f32", 0, 3e38), ("f32", 1e-45, 3e-45), ("s32", -(2**31), 2**31 - 1), ("s8", -128, 127),
    ],
)  # fmt: skip
def test_uniform_numbers_of_any_range(dtype, low, high, backend):
    """The difference of the bounds need not be a number of their type."""
    module = axla.parse(TEXT.format(dtype, "rng_uniform"))
    kind = module.entry.root.shape.dtype.numpy
    first, last = np.array(low).astype(kind), np.array(high).astype(kind)
    found = np.asarray(axla.compile(module, backend=backend)(first, last)).astype(np.float64)
    low, high = float(first), float(last)
    assert np.isfinite(found).all() and (found >= low).all() and (found < high).all()
    if high > 1:
        middle = low / 2 + high / 2
        assert 0.3 < (found < middle).mean() < 0.7  # about half of them
