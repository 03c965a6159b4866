"""Windows of a scatter that lie partly outside: skipped as a whole, as XLA skips them, on every backend."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import axla

TEXT = """HloModule m
second {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}
ENTRY e {
  x = f32[3,4] parameter(0)
  i = s32[1,2] parameter(1)
  u = f32[1,2,2] parameter(2)
  ROOT r = f32[3,4] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=second
}"""


@pytest.mark.parametrize("backend", ["interpreter", "cpu", "one-lane"])
def test_a_window_partly_outside_is_skipped(backend):
    executable = axla.compile(axla.parse(TEXT), backend=backend)
    update = np.arange(1, 5, dtype=np.float32).reshape(1, 2, 2)
    for row, column in itertools.product(range(-2, 4), range(-2, 5)):
        wanted = np.zeros((3, 4), np.float32)
        if 0 <= row <= 1 and 0 <= column <= 2:
            wanted[row : row + 2, column : column + 2] = update[0]
        found = executable(np.zeros((3, 4), np.float32), np.array([[row, column]], np.int32), update)
        np.testing.assert_array_equal(np.asarray(found), wanted, err_msg=f"{row}, {column}")


def test_the_page_says_that_the_text_says_otherwise():
    page = (Path(__file__).parents[2] / "docs/ops/scatter.md").read_text()
    assert "skipped as a whole. All backends of XLA do the same" in page and "specification say" in page
