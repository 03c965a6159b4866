"""Kernels of arrays without elements: programs mostly lose them to rules, which may be off."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.core import flags
from axla.passes.pipelines import PASSES

ALL = tuple(n for n, p in PASSES.items() if not p.required and n != "float-normalization-bf16")

EMPTY = {
    "loop": "ENTRY e { x = c64[4,0] parameter(0)\n ROOT y = c64[4,0] add(x, x) }",
    "product without columns": """ENTRY e { x = f32[40,3] parameter(0)
  y = f32[3,0] parameter(1)
  ROOT z = f32[40,0] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "product of nothing": """ENTRY e { x = f32[40,0] parameter(0)
  y = f32[0,30] parameter(1)
  ROOT z = f32[40,30] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "transpose": "ENTRY e { x = f32[40,0] parameter(0)\n ROOT z = f32[0,40] transpose(x), dimensions={1,0} }",
    "pieces": """ENTRY e { x = f32[0,50] parameter(0)
  y = f32[0,50] parameter(1)
  ROOT z = f32[0,100] concatenate(x, y), dimensions={1} }""",
    "an update of nothing": """ENTRY e { x = f32[5] parameter(0)
  i = s32[] parameter(1)
  u = f32[0] dynamic-slice(x, i), dynamic_slice_sizes={0}
  ROOT y = f32[5] dynamic-update-slice(x, u, i) }""",
    "nothing with padding": """ENTRY e { x = f32[0] parameter(0)
  z = f32[] constant(3)
  ROOT y = f32[5] pad(x, z), padding=2_3 }""",
    "a window that fits nowhere": """
add { a = c64[] parameter(0)
  b = c64[] parameter(1)
  ROOT c = c64[] add(a, b) }
ENTRY e { x = c64[2,8] parameter(0)
  z = c64[] constant((0, 0))
  ROOT y = c64[0,5] reduce-window(x, z), window={size=3x4}, to_apply=add }""",
    "rows of nothing": """
largest { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
ENTRY e { x = f32[40,0] parameter(0)
  z = f32[] constant(3)
  ROOT y = f32[40] reduce(x, z), dimensions={1}, to_apply=largest }""",
}


@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
@pytest.mark.parametrize("off", [("algsimp",), ALL], ids=["rules", "all"])
@pytest.mark.parametrize("name", EMPTY)
def test_without_elements(name, off, backend):
    module = axla.parse(EMPTY[name])
    shapes = [p.shape for p in module.entry.parameters]
    inputs = [np.zeros(s.dims, s.dtype.numpy) for s in shapes]
    with flags.override(cache_dir="", disable_hlo_passes=off):
        [found] = axla.compile(module, backend=backend).execute(inputs)
    [wanted] = axla.compile(module, backend="interpreter").execute(inputs)
    assert np.array_equal(np.asarray(found), np.asarray(wanted))
