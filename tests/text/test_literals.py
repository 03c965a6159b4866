"""Values as text: every element type both ways, bit for bit, and what is refused."""

# ruff: noqa: E501  (lines of HLO)

from __future__ import annotations

import numpy as np
import pytest

from axla.core import dtypes
from axla.core.errors import ParseError, UnsupportedError
from axla.core.literal import ElidedLiteral, Literal
from axla.core.shape import Shape
from axla.text import parse_hlo, parse_shape
from axla.text.literal_printer import constant_text, literal_text
from axla.text.literals import read_literal
from axla.text.shapes import ShapeCursor


def read(shape: str, text: str) -> Literal:
    cursor = ShapeCursor(text)
    literal = read_literal(cursor, parse_shape(shape))
    assert cursor.at_end()
    return literal


def bits(literal: Literal) -> list[int]:
    if literal.shape.dtype.bits < 8:  # the unused bits of the byte may be anything
        return literal.array.astype(np.float64).tolist()
    return np.atleast_1d(literal.array).view(np.uint8).tolist()


# Shape, text as read, text as XLA prints it.
PRINTED = [
    ("f32[]", "0.1", "0.1"),
    ("f32[4]", "{3.14159274,1e-45,1e30,123456789}", "{3.14159274, 1.4013e-45, 1e+30, 123456792}"),
    ("f64[2]", "{0.1,3.14159265358979323846}", "{0.1, 3.1415926535897931}"),
    ("f16[3]", "{0.1,65504,1e-7}", "{0.099976, 65504, 1.1921e-07}"),
    ("bf16[3]", "{0.1,1e38,257}", "{0.1001, 9.969e+37, 256}"),
    ("f8e5m2[3]", "{0.1,57344,1.5}", "{0.094, 5.7e+04, 1.5}"),
    ("f8e4m3fn[4]", "{0.1,448,nan,-nan}", "{0.102, 448, nan, -nan}"),
    ("f8e8m0fnu[2]", "{0.5,1e30}", "{0.5, 1.3e+30}"),
    ("f4e2m1fn[2]", "{0.5,6}", "{0.5, 6}"),
    ("f32[4]", "{nan,-nan,nan(0x1),-nan(0x400001)}", "{nan, -nan, nan(0x1), -nan(0x400001)}"),
    ("f32[3]", "{inf -inf -0.0}", "{inf, -inf, -0}"),
    ("c64[2]", "{(1,2),(-inf, nan)}", "{(1, 2), (-inf, nan)}"),
    ("c64[]", "(nan, 1)", "(nan, nan)"),  # as XLA reads it
    ("pred[]", "1", "true"),
    ("pred[2,2]", "{{1,false},{true,0}}", "{ { 1, 0 }, { 1, 0 } }"),
    ("s4[2]", "{-8,7}", "{-8, 7}"),
    ("u64[1]", "{18446744073709551615}", "{18446744073709551615}"),
    ("s64[]", "-9223372036854775808", "-9223372036854775808"),
    ("s32[2,1]", "{{1},{2}}", "{ {1}, {2} }"),
    ("s32[2,1,2]", "{{{0,1}},{{2,3}}}", "{ { { 0, 1 } }, { { 2, 3 } } }"),
    ("s32[1,1,2,1]", "{{{{0},{1}}}}", "{ { /*i0=0*/ { /*i1=0*/ {0}, {1} } } }"),
    ("s32[0]", "{}", "{}"),
    ("s32[2,0]", "{{},{}}", "{ {}, {} }"),
    ("s32[0,2]", "{}", "{  }"),
    ("s32[2,2,0,1]", "{}",
    "{ { /*i0=0*/ { /*i1=0*/ }, { /*i1=1*/ } }, { /*i0=1*/ { /*i1=0*/ }, { /*i1=1*/ } } }"),
    ("s32[3]", "7", "{7, 0, 0}"),
    ("(f32[], (s32[2], pred[]))", "(1, ({1,2}, true))", "( 1, ( {1, 2}, true ) )"),
    ("()", "()", "(  )"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "text", "printed"), PRINTED)
def test_prints_as_xla(shape, text, printed):
    literal = read(shape, text)
    assert literal_text(literal) == printed
    assert read(shape, printed) == literal


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_every_value_reads_back(dtype):
    """All bit patterns of the narrow types, random ones of the wide: the text gives back the same bits."""
    rng = np.random.default_rng(1)
    if dtype.is_pred:
        array = np.array([False, True])
    elif dtype.bits <= 16 and not dtype.is_complex:
        width = f"u{dtype.itemsize}"
        low = np.arange(1 << dtype.bits).astype(width)
        if dtype.is_signed and dtype.bits < 8:
            low = (np.arange(1 << dtype.bits) - (1 << (dtype.bits - 1))).astype(np.int8).view(width)
        array = low.view(dtype.numpy)
    else:
        array = rng.integers(0, 256, 400 * dtype.itemsize, np.uint8).view(dtype.numpy)
    if dtype.is_complex:
        array = array[np.isfinite(array)]
    literal = Literal(Shape(dtype, array.shape), array)
    assert bits(read(str(literal.shape), literal_text(literal))) == bits(literal)


@pytest.mark.parametrize(
    ("shape", "text", "column", "message"),
    [
        ("f32[2,3]", "{1,2,3,4,5,6}", 2, "2 levels of braces, found 1"),
        ("f32[2]", "{1,{2}}", 4, "found more"),
        ("f32[2]", "{1,2,3}", 7, "expected 2 elements at level 1"),
        ("f32[2,2]", "{{1,2},{3}}", 10, "expected 2 elements at level 2"),
        ("f32[2]", "{1,2", 1, "does not end"),
        ("f32[2]", "}{1,2}", 1, "expected a value"),
        ("f32[0]", "1", 1, "expected no value"),
        ("f16[]", "-65520", 1, "out of the range of f16"),
        ("bf16[]", "1e100", 1, "out of the range of bf16"),
        ("f64[2]", "{1, 1e400}", 5, "out of the range of f64"),
        ("u4[]", "-1", 1, "out of the range of u4"),
        ("u32[3]", "{1, 2, 4294967296}", 8, "out of the range of u32"),
        ("c64[]", "(1e100, 0)", 1, "out of the range of f32"),
        ("c64[]", "1", 1, "not a complex number"),
        ("s32[]", "1.5", 1, "not an integer"),
        ("f32[]", "0x1p3", 1, "not a number"),
        ("f32[]", "1_000", 1, "not a number"),
        ("f32[]", "infinity", 1, "not a number"),
        ("pred[]", "yes", 1, "true or false"),
        ("f8e4m3fn[1]", "{nan(0x1)}", 2, "cannot carry"),
        ("f32[]", "nan(0x800000)", 1, "do not hold"),
        ("token[]", "1", 1, "cannot be token"),
    ],
)
def test_refuses(shape, text, column, message):
    with pytest.raises(ParseError) as caught:
        read(shape, text)
    assert message in caught.value.message and caught.value.column == column


def test_nothing_is_allocated_for_what_is_not_there():
    with pytest.raises(ParseError, match="expected 1000000000000 elements"):
        read("f32[1000000000000]", "{1,2,3}")
    with pytest.raises(UnsupportedError, match="use broadcast"):
        read("f32[1000000000000]", "0")
    elided = read("f32[1000000000000]", "{...}")
    assert isinstance(elided, ElidedLiteral) and constant_text(elided, values=True) == "{...}"
    with pytest.raises(UnsupportedError, match="leaves out"):
        _ = elided.array


def test_long_constants_are_elided_unless_asked_for():
    module = parse_hlo("ROOT c = s32[11] constant({0,1,2,3,4,5,6,7,8,9,10})")
    assert "constant({...})" in module.to_string()
    assert "constant({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10})" in module.to_string(print_large_constants=True)


def test_zeros_are_written_once():
    module = parse_hlo("ROOT c = s32[2000,1000] constant(0)")
    text = module.to_string(print_large_constants=True)
    assert "constant(0)" in text and parse_hlo(text).entry.root.op.literal == module.entry.root.op.literal
