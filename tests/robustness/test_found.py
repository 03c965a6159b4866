"""Texts that scripts/fuzz_text found: once internal errors or worse, now errors that say what is wrong."""

from __future__ import annotations

import pytest

import axla

TOPK = """
ENTRY main {
  x = f32[10,10] parameter(0)
  ROOT t = (f32[10,3], s32[10,3]) custom-call(x), custom_call_target="TopK"
}
"""


@pytest.mark.parametrize(
    "old, new",
    [
        ("x = f32[10,10]", "x = f32[9,10]"),
        ("(f32[10,3], s32[10,3])", "f32[10,3]"),
        ("(f32[10,3], s32[10,3])", "()"),
        ("(f32[10,3], s32[10,3])", "(f32[10,30], s32[10,30])"),
        ("(f32[10,3], s32[10,3])", "(f32[10,3], s64[10,3])"),
    ],
)
def test_topk_of_wrong_shapes(old, new):
    assert axla.check(TOPK).ok
    with pytest.raises(axla.UnsupportedError, match=r"%t = .*custom-call\(%x\): TopK takes real numbers x"):
        axla.compile(axla.parse(TOPK.replace(old, new)))
