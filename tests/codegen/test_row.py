"""The row emitter: how rows are cut into pieces."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.codegen.host import host_target
from axla.core.dtypes import F32
from axla.kernels.reduce import RowPlan
from axla.lowering.pipeline import optimize, program_of

CHAIN = 30
"""Expensive operations per element: enough that short rows are cut into many pieces."""


@pytest.mark.parametrize("extra", [0, 1, 7, 15, 16, 63])
def test_the_last_piece_of_a_row_is_whole(extra):
    """63 pieces of 608 columns and a few more columns, fewer than a vector has lanes."""
    size = 63 * 608 + extra
    chain = [
        f"  a{n} = f32[2,{size}] {'sine' if n % 2 else 'tanh'}({f'a{n - 1}' if n else 'p'})"
        for n in range(CHAIN)
    ]
    text = "\n".join(
        [
            "HloModule pieces",
            "add { x = f32[] parameter(0)",
            "  y = f32[] parameter(1)",
            "  ROOT s = f32[] add(x, y) }",
            "ENTRY e {",
            f"  p = f32[2,{size}] parameter(0)",
            *chain,
            "  z = f32[] constant(0)",
            f"  ROOT r = f32[2] reduce(a{CHAIN - 1}, z), dimensions={{1}}, to_apply=add",
            "}",
        ]
    )
    x = np.ones((2, size), np.float32)
    x[1] = 2
    want = axla.compile(axla.parse(text), backend="interpreter").execute([x])[0]
    got = axla.compile(axla.parse(text), backend="cpu").execute([x])[0]
    # One column too many would be off by 1 / size = 2.6e-5.
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=4e-6)


def test_numbers_of_rows_do_not_take_lanes_from_the_columns():
    text = """HloModule rows
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }
ENTRY e {
  p = f32[40,1024] parameter(0)
  z = f32[] constant(0)
  sums = f32[40] reduce(p, z), dimensions={1}, to_apply=add
  ROOT wide = s64[40] convert(sums)
}"""
    target = host_target()
    module = axla.parse(text)
    optimize(module, target)
    [kernel] = program_of(module, target).kernels
    assert isinstance(kernel.plan, RowPlan)
    assert kernel.plan.lanes == target.lanes(F32)
    x = np.arange(40 * 1024, dtype=np.float32).reshape(40, 1024)
    np.testing.assert_array_equal(np.asarray(axla.compile(axla.parse(text))(x)), x.sum(1).astype(np.int64))
