"""Loops that write an array to another place in each trip: two trips become one, with the same values."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.codegen.host import host_target
from axla.hlo import Copy, While
from axla.lowering.pipeline import optimize

LOOP = """c {{ p = (s32[], f32[100], f32[100]) parameter(0)
  i = s32[] get-tuple-element(p), index=0  n = s32[] constant({trips})
  ROOT l = pred[] compare(i, n), direction=LT }}
b {{ p = (s32[], f32[100], f32[100]) parameter(0)
  i = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)  j = s32[] add(i, one)
  x = f32[100] get-tuple-element(p), index=1  y = f32[100] get-tuple-element(p), index=2
  r = f32[100] reverse(x), dimensions={{0}}  f = f32[] convert(i)
  k = f32[100] broadcast(f), dimensions={{}}  d = f32[100] subtract(r, y)  e = f32[100] add(d, k)
  ROOT t = (s32[], f32[100], f32[100]) tuple(j, e, x) }}
ENTRY e {{ x = f32[100] parameter(0)  y = f32[100] parameter(1)  z = s32[] constant(0)
  s = (s32[], f32[100], f32[100]) tuple(z, x, y)
  ROOT w = (s32[], f32[100], f32[100]) while(s), condition=c, body=b }}"""


@pytest.mark.parametrize("trips", [0, 1, 3, 4, 5, 8, 11, 100])
def test_any_number_of_trips(trips):
    rng = np.random.default_rng(trips)
    x, y = rng.integers(-9, 9, (2, 100)).astype(np.float32)
    count, *found = axla.compile(axla.parse(LOOP.format(trips=trips)))(x, y)
    for i in range(trips):
        x, y = (x[::-1] - y) + np.float32(i), x
    assert int(count) == trips
    np.testing.assert_array_equal(np.asarray(found), [x, y])


@pytest.mark.parametrize("trips", [20, 21])
def test_what_changes_its_place_is_not_copied_each_trip(trips):
    module = axla.parse(LOOP.format(trips=trips))
    optimize(module, host_target())
    [loop] = [i for c in module.computations for i in c.instructions if isinstance(i.op, While)]
    copies = [i for i in loop.op.body.instructions if isinstance(i.op, Copy)]
    kernels = [i for i in loop.op.body.instructions if i.opcode == "fusion"]
    assert (len(copies), len(kernels)) == (0, 2)
