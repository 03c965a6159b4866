"""Remainders of floats are exact, for numbers of all sizes."""

from __future__ import annotations

import numpy as np
import pytest

import axla


@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_of_all_sizes(dtype, backend):
    info = np.finfo(dtype)
    low = float(info.smallest_subnormal)
    values = [
        low,
        2 * low,
        3 * low,
        1001 * low,
        info.tiny - low,
        info.tiny,
        3 * info.tiny,
        0.75,
        1e9,
        info.max,
    ]
    x, y = (a.ravel() for a in np.meshgrid(np.array(values, dtype), np.array([-v for v in values], dtype)))
    kind = f"f{info.bits}[{x.size}]"
    text = (
        f"ENTRY e {{ x = {kind} parameter(0)\n y = {kind} parameter(1)\n ROOT r = {kind} remainder(x, y) }}"
    )
    program = axla.compile(axla.parse(text), backend=backend)
    [found] = program.execute([x, y], deadline=20.0)
    assert (np.array(found) == np.fmod(x, y)).all()
