"""Shapes as text: the grammar both ways, and what is refused."""

# ruff: noqa: E501  (lines of HLO)

from __future__ import annotations

import pytest

from axla.core.dtypes import F32, S32
from axla.core.errors import ParseError
from axla.core.shape import OPAQUE, TOKEN, Layout, Shape, TupleShape
from axla.text import parse_program_shape, parse_shape

AS_WRITTEN = [
    "f32[]", "pred[0]{0}", "bf16[2,3]{1,0}", "f8e4m3b11fnuz[2]{0}", "c128[4]{0}", "s4[8]{0:E(4)}",
    "f32[<=4,3]{0,1}",
    "f32[2,3]{1,0:T(8,128)(2,1)}", "f32[]{:T(128)}",
    "f32[2,3]{1,0:T(2,*)L(4)#(u32)*(u64)E(32)S(3)SC(1:1,2)M(8)}",
    "f32[2,3]{1,0:D(D,C)P((f32[10]{0}, s32[4]{0:T(4)}))}", "token[]", "opaque[]", "()",
    "(f32[], (s32[2]{0}), token[])",
    "(f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[])",
]  # fmt: skip


@pytest.mark.parametrize("text", AS_WRITTEN)
def test_prints_as_read(text):
    assert str(parse_shape(text)) == text


def test_blanks_comments_and_default_layout():
    assert parse_shape(" f32 [ 2 , /* three */ 3 ] { 0, 1 } // end") is Shape(
        F32, (2, 3), layout=Layout((0, 1))
    )
    assert parse_shape("f32[2,3]") is parse_shape("f32[2,3]{1,0}")
    assert parse_shape("(token[], opaque[], s32[])") is TupleShape((TOKEN, OPAQUE, Shape(S32)))


def test_equal_texts_are_one_shape():
    shape = parse_shape("(f32[2]{0}, f32[2]{0})")
    assert shape.elements[0] is shape.elements[1]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("f32[2,3]{0}", 9, "1 dimensions, its shape 2"),
        ("g32[]", 1, "not an element type"),
        ("F32[]", 1, "expected a shape"),
        ("f32[-1]", 5, "expected the size"),
        ("f32[2,]", 7, "expected the size"),
        ("f32[9223372036854775808]", 5, "64 bits"),
        (f"f32[{'9' * 100_000}]", 5, "64 bits"),
        ("f32[2]{0:S(1)T(8)}", 14, "comes too late"),
        ("f32[2,3]{1,1}", 1, "not a permutation"),
        ("f32[2]{0:P(f32[2])}", 11, "sparse"),
        ("f32[]{}", 6, "end of the shape"),
        ("(f32[],)", 8, "expected a shape"),
        ("f32[2", 6, "expected ']'"),
        ("f32[2]{0", 9, "expected '}'"),
        ("", 1, "expected a shape"),
        ("(" * 100, 65, "nested more than 64"),
    ],
)
def test_refuses(text, column, message):
    with pytest.raises(ParseError) as caught:
        parse_shape(text)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (1, column)


def test_program_shapes():
    shape = parse_program_shape("(f32[2]{0}, (s32[], token[])) -> f32[]")
    assert shape.parameters == (Shape(F32, (2,)), TupleShape((Shape(S32), TOKEN))) and shape.names == ()
    named = parse_program_shape("(a: f32[2], %b.1: s32[]) -> ()")
    assert named.names == ("a", "b.1") and named.result is TupleShape(())
