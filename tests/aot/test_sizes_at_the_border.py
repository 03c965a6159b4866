"""An object has no place for sizes that calls decide: they are refused by the name of the value."""

from __future__ import annotations

import pytest

import axla
from axla.aot.objects import compile_object
from axla.codegen.host import host_target
from axla.core.errors import UnsupportedError


@pytest.mark.parametrize(
    "text, found",
    [
        ("p = f32[<=8] parameter(0)\n ROOT r = s32[] constant(1)", r"parameter p is f32\[<=8\]"),
        ("p = (s32[], f32[2,<=8]) parameter(0)\n ROOT r = s32[] constant(1)", r"parameter p is f32\[2,<=8\]"),
        (
            "p = f32[8] parameter(0)\n n = s32[] parameter(1)\n"
            "ROOT r = f32[<=8] set-dimension-size(p, n), dimensions={0}",
            r"the result is f32\[<=8\]",
        ),
    ],
)
def test_dynamic_sizes_are_refused(text, found):
    module = axla.parse(f"HloModule sized\nENTRY e {{ {text} }}")
    with pytest.raises(UnsupportedError, match=f"sized: {found}"):
        compile_object(module, host_target())
