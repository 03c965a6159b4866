"""Sums of columns: every number of columns that the last block may have."""

from __future__ import annotations

import numpy as np
import pytest

import axla


@pytest.mark.parametrize("target", ["x86-64", "native"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("columns", [17, 1025, 1030, 2049, 2050, 2055, 4097, 4099])
def test_short_last_blocks(columns, dtype, target):
    module = axla.parse(f"""
        add {{ x = {dtype}[] parameter(0)  y = {dtype}[] parameter(1)  ROOT s = {dtype}[] add(x, y) }}
        ENTRY e {{ x = {dtype}[100,{columns}] parameter(0)
            r = {dtype}[{columns}] reduce(x, {dtype}[] constant(0)), dimensions={{0}}, to_apply=add
            ROOT t = {dtype}[{columns}] negate(r) }}""")
    x = np.random.default_rng(0).integers(-9, 9, (100, columns)).astype("f4" if dtype == "f32" else "f8")
    options = {} if target == "native" else {"flags": {"cpu_max_isa": "SSE4_2"}}
    np.testing.assert_array_equal(np.asarray(axla.compile(module, **options)(x)), -x.sum(0))
