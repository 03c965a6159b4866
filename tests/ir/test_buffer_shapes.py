"""Buffers, b(f32[2]): read, printed, and verified to have one writer."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import axla
from axla.core.shape import BufferShape
from axla.text.shapes import parse_shape

PIN = 'custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}'
UNPIN = 'custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})}'
WRITE = 'custom_call_target="write", output_to_operand_aliasing={{}: (0, {})}'
CONDITION = "cond { p = (s32[], b(s32[2])) parameter(0)  ROOT r = pred[] constant(false) }\n"


@pytest.mark.parametrize("text", ["b(f32[2,3]{0,1})", "((b(f32[2]{0})), b(s32[]), token[])", "b(f32[])"])
def test_shapes_read_and_print(text):
    shape = parse_shape(text)
    assert shape.to_string() == text
    assert pickle.loads(pickle.dumps(shape)) is shape


def test_the_logical_shape_of_a_buffer():
    shape = parse_shape("b(f32[2,3]{0,1})")
    assert isinstance(shape, BufferShape)
    assert shape.logical is parse_shape("b(f32[2,3])")
    assert shape.logical.to_string(layout=False) == "b(f32[2,3])"
    assert not shape.is_array


@pytest.mark.parametrize("text", ["b(token[])", "b((f32[2]))", "b(b(f32[2]))", "b(f32[2]"])
def test_what_is_no_buffer(text):
    with pytest.raises(axla.AxlaError, match="buffer"):
        parse_shape(text)


def test_a_module_reads_back():
    text = f"""ENTRY e {{ x = s32[2] parameter(0)  b = b(s32[2]) custom-call(x), {PIN}
      w = b(s32[2]) custom-call(b), {WRITE}  ROOT r = s32[2] custom-call(w), {UNPIN} }}"""
    module = axla.parse(text)
    assert axla.parse(module.to_string()).to_string() == module.to_string()


WRONG = {
    "entry takes one": ("buffer_entry", f"""ENTRY e {{ b = b(s32[2]) parameter(0)
        ROOT r = s32[2] custom-call(b), {UNPIN} }}"""),
    "entry gives one": ("buffer_entry", f"""ENTRY e {{ x = s32[2] parameter(0)
        ROOT b = b(s32[2]) custom-call(x), {PIN} }}"""),
    "elsewhere": ("buffer_pin", f"""ENTRY e {{ x = s32[2] parameter(0)
        b = b(s32[2]) custom-call(x), custom_call_target="Pin"
        ROOT r = s32[2] custom-call(b), {UNPIN} }}"""),
    "from nowhere": ("buffer_result", f"""ENTRY e {{ x = s32[2] parameter(0)
        b = b(s32[2]) custom-call(x), custom_call_target="make"
        ROOT r = s32[2] custom-call(b), {UNPIN} }}"""),
    "twice": ("buffer_result", f"""ENTRY e {{ x = s32[2] parameter(0)  b = b(s32[2]) custom-call(x), {PIN}
        c = (b(s32[2]), b(s32[2])) custom-call(b), custom_call_target="two",
          output_to_operand_aliasing={{{{0}}: (0, {{}}), {{1}}: (0, {{}})}}
        ROOT k = s32[] constant(0) }}"""),
    "lost": ("buffer_lost", f"""ENTRY e {{ x = s32[2] parameter(0)  b = b(s32[2]) custom-call(x), {PIN}
        ROOT r = s32[2] custom-call(b), custom_call_target="read" }}"""),
    "written twice": ("buffer_writer", f"""ENTRY e {{ x = s32[2] parameter(0)
        b = b(s32[2]) custom-call(x), {PIN}  w = b(s32[2]) custom-call(b), {WRITE}
        ROOT r = s32[2] custom-call(b), {UNPIN} }}"""),
    "written and carried": ("buffer_writer", CONDITION + f"""
      body {{ p = (s32[], b(s32[2])) parameter(0)  i = s32[] get-tuple-element(p), index=0
        b = b(s32[2]) get-tuple-element(p), index=1  w = b(s32[2]) custom-call(b), {WRITE}
        ROOT t = (s32[], b(s32[2])) tuple(i, b) }}
      ENTRY e {{ i = s32[] parameter(0)  x = s32[2] parameter(1)  b = b(s32[2]) custom-call(x), {PIN}
        t = (s32[], b(s32[2])) tuple(i, b)
        w = (s32[], b(s32[2])) while(t), condition=cond, body=body
        o = b(s32[2]) get-tuple-element(w), index=1  ROOT r = s32[2] custom-call(o), {UNPIN} }}"""),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name):
    rule, text = WRONG[name]
    with pytest.raises(axla.AxlaError, match=rule):
        axla.compile(axla.parse(text), backend="interpreter")


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_no_backend_runs_them_but_dead_ones_do_not_matter(backend):
    dead = f"""ENTRY e {{ x = s32[] parameter(0)  b = b(s32[]) custom-call(x), {PIN}
      ROOT r = s32[] negate(x) }}"""
    assert np.asarray(axla.compile(axla.parse(dead), backend=backend).execute([np.int32(3)])[0]) == -3
    live = f"""ENTRY e {{ x = s32[2] parameter(0)  b = b(s32[2]) custom-call(x), {PIN}
      ROOT r = s32[2] custom-call(b), {UNPIN} }}"""
    with pytest.raises(axla.UnsupportedError, match="Pin"):
        axla.compile(axla.parse(live), backend=backend)
