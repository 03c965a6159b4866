"""Sizes without a bound, `?`: read, printed, kept in protos, and refused by the verifier by name."""

from __future__ import annotations

import pickle

import pytest

import axla
from axla import proto
from axla.core.dtypes import F32
from axla.core.errors import ParseError, ShapeError, UnsupportedError, VerifyError
from axla.core.shape import UNBOUNDED, BufferShape, Layout, Shape, TupleShape
from axla.ir.verify import verify
from axla.text.shapes import parse_shape


@pytest.mark.parametrize(
    "text, printed",
    [
        ("f32[?,784]", "f32[?,784]{1,0}"),
        ("f32[ ? , <=3, 2 ]{0,1,2}", "f32[?,<=3,2]{0,1,2}"),
        ("(f32[?], s32[])", "(f32[?]{0}, s32[])"),
        ("b(f32[?])", "b(f32[?]{0})"),
    ],
)
def test_shapes(text, printed):
    shape = parse_shape(text)
    assert str(shape) == printed
    assert shape.is_unbounded and parse_shape(printed) is shape
    assert pickle.loads(pickle.dumps(shape)) is shape


@pytest.mark.parametrize("text", ["f32[<=?]", "f32[??]", "f32[?3]", "f32[-1]", "f32[-9223372036854775808]"])
def test_what_is_no_size(text):
    with pytest.raises(ParseError):
        parse_shape(text)


def test_unknown_sizes_are_dynamic():
    shape = Shape(F32, (UNBOUNDED, 4))
    assert shape.dynamic == (True, False)
    assert shape is Shape(F32, (UNBOUNDED, 4), (True, False))
    assert shape.with_layout(Layout((0, 1))).logical is shape
    assert shape is not Shape(F32, (4, 4), (True, False))
    known = Shape(F32, (4,), (True,))
    assert not known.is_unbounded and not TupleShape([known]).is_unbounded
    assert TupleShape([known, TupleShape([shape])]).is_unbounded and BufferShape(shape).is_unbounded
    with pytest.raises(UnsupportedError, match=r"f32\[\?,4\]: the number of elements is not known"):
        _ = shape.byte_size
    with pytest.raises(ShapeError):
        Shape(F32, (UNBOUNDED + 1,))


# Shapes that are not written, as XLA gives them.
INFERRED = {
    "abs(p)": "f32[?,4]",
    "add(p, k)": "f32[3,4]",
    "add(k, p)": "f32[3,4]",
    "add(p, b)": "f32[<=8,4]",
    "compare(p, p), direction=EQ": "pred[?,4]",
    "transpose(p), dimensions={1,0}": "f32[4,?]",
    "concatenate(p, k), dimensions={0}": "f32[?,4]",
    "pad(p, z), padding=1_1x1_1": "f32[?,6]",
    "dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}": "f32[?,?]",
    "tuple(p, k)": "(f32[?,4], f32[3,4])",
}


@pytest.mark.parametrize("root", INFERRED)
def test_modules_are_read_and_kept(root):
    text = f"""HloModule m
ENTRY e {{
  p = f32[?,4] parameter(0)
  k = f32[3,4] parameter(1)
  b = f32[<=8,4] parameter(2)
  z = f32[] constant(0)
  ROOT r = {root} }}"""
    module = axla.parse(text)
    assert module.entry.root.shape.to_string(layout=False) == INFERRED[root]
    printed = module.to_string()
    assert "p: f32[?,4]" in printed and "(f32[?,4]{1,0}, " in printed
    assert axla.parse(printed).to_string() == printed
    assert proto.read(proto.to_proto(module)).to_string() == printed


def test_what_does_not_fit():
    for other in ("f32[?,5]", "f32[?]"):
        with pytest.raises(ParseError, match="same dimensions"):
            axla.parse(
                f"ENTRY e {{ p = f32[?,4] parameter(0)\n q = {other} parameter(1)\n ROOT r = add(p, q) }}"
            )
    for value in ("{1, 2}", "1", "{...}"):
        with pytest.raises(ParseError, match=r"the sizes of a constant must be known, found f32\[\?\]"):
            axla.parse(f"ENTRY e {{ ROOT c = f32[?] constant({value}) }}")


@pytest.mark.parametrize("backend", ["interpreter", "cpu", "one-lane"])
def test_programs_are_refused_by_the_name_of_the_parameter(backend):
    module = axla.parse("ENTRY e { x = s32[] parameter(0)\n p = f32[?,4] parameter(1)\n ROOT r = abs(p) }")
    with pytest.raises(VerifyError, match=r"parameter p of e is f32\[\?,4\].*\[unbounded_dynamism\]"):
        axla.compile(module, backend=backend)


def test_other_values_are_refused_too():
    inner = "f { ROOT q = f32[?] parameter(0) }\n"
    for text, found in (
        (inner + "ENTRY e { ROOT p = f32[] parameter(0) }", "%q = .* in f"),
        (
            'ENTRY e { p = f32[] parameter(0)\n ROOT c = f32[?] custom-call(p), custom_call_target="f" }',
            "%c = ",
        ),
    ):
        with pytest.raises(VerifyError, match=found + r".*\[unbounded_dynamism\]"):
            verify(axla.parse(text))


def test_a_program_that_waits_for_sizes_says_which():
    module = axla.parse("func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> }")
    with pytest.raises(axla.AxlaError, match=r"argument 0 is tensor<\?xf32>"):
        verify(module)


def test_a_buffer_in_the_entry_layout_is_no_parameter_called_b():
    text = "HloModule m\nENTRY e { p = b(f32[2]) parameter(0)\n ROOT a = f32[] constant(2) }"
    printed = axla.parse(text).to_string()
    assert "entry_computation_layout={(b(f32[2]{0}))->f32[]}" in printed
    assert axla.parse(printed).to_string() == printed
