"""Errors of the builder show the user's program: file, line, column, and the line with a caret."""

from __future__ import annotations

import pytest

import axla
from axla import ops
from axla.core.dtypes import F32


def test_an_error_points_at_the_call():
    builder = axla.XlaBuilder("m")
    x = ops.Parameter(builder, 0, axla.Shape(F32, (2, 3)))
    y = ops.Parameter(builder, 1, axla.Shape(F32, (4, 5)))
    with pytest.raises(axla.ShapeError) as caught:
        ops.Neg(ops.Dot(x, y))
    *_, place, line, caret = str(caught.value).split("\n")
    assert place.strip().startswith(f"at {__file__}:") and place.endswith(", column 17")
    assert line == "          ops.Neg(ops.Dot(x, y))"
    assert caret.index("^") == line.index("ops.Dot")


def test_a_program_without_a_file_has_no_line():
    scope = {"axla": axla, "ops": ops, "F32": F32}
    text = (
        "b = axla.XlaBuilder('m')\nx = ops.Parameter(b, 0, axla.Shape(F32, (2, 3)))\n"
        "y = ops.Parameter(b, 1, axla.Shape(F32, (4, 5)))\nops.Dot(x, y)"
    )
    with pytest.raises(axla.ShapeError) as caught:
        exec(compile(text, "<typed>", "exec"), scope)
    assert str(caught.value).endswith("\n  at <typed>:4")
