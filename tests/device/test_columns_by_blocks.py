"""Reductions of columns by blocks of threads: every row counts once, whatever the last piece is."""

from __future__ import annotations

import numpy as np
import pytest
from devices_of_blocks import same

TEXT = """
HloModule m
sum { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b) }
ENTRY e { x = s32[%d,%d,%d] parameter(0)
  zero = s32[] constant(0)
  ROOT r = s32[%d,%d] reduce(x, zero), dimensions={1}, to_apply=sum }"""


@pytest.mark.parametrize("dims", [(2, 1042, 33), (1, 2117, 5), (7, 1461, 2)])
def test_every_row_counts_once(client, dims):
    outer, rows, columns = dims
    x = np.arange(outer * rows * columns, dtype=np.int32).reshape(dims)
    same(client, TEXT % (*dims, outer, columns), [x])
