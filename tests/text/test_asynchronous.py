"""Asynchronous calls as text: the long form, and the short one of calls of one instruction."""

from __future__ import annotations

import numpy as np
import pytest

import axla.api as axla
from axla.core.errors import AxlaError, ParseError

ADD = """HloModule m
f {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  ROOT c = f32[4] add(a, b)
}
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = ((f32[4], f32[4]), f32[4], s32[]) async-start(x, y), calls=f
  u = ((f32[4], f32[4]), f32[4], s32[]) async-update(s)
  ROOT d = f32[4] async-done(u), calls=f
}
"""
SHORT = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = ((f32[4], f32[4]), f32[4], s32[]) add-start(x, y)
  u = ((f32[4], f32[4]), f32[4], s32[]) add-update(s)
  ROOT d = f32[4] add-done(u)
}
"""
GROUP = """HloModule m
f {
  a = f32[4] parameter(0)
  b = f32[4] negate(a)
  ROOT c = (f32[4], f32[4]) tuple(a, b)
}
ENTRY e {
  x = f32[4] parameter(0)
  s = ((f32[4]), (f32[4], f32[4])) async-start(x), calls=f, frontend_attributes={_collectives_group=""}
  ROOT d = (f32[4], f32[4]) async-done(s)
}
"""
CALL = """HloModule m
f {
  a = f32[4] parameter(0)
  b = f32[4] negate(a)
  ROOT c = f32[4] exponential(b)
}
ENTRY e {
  x = f32[4] parameter(0)
  s = ((f32[4]), f32[4], u32[]) call-start(x), async_execution_thread="host", to_apply=f
  ROOT d = f32[4] call-done(s)
}
"""
TEXTS = {"long": ADD, "short": SHORT, "group": GROUP, "call": CALL}


@pytest.mark.parametrize("name", TEXTS)
def test_prints_are_fixed_points(name):
    printed = axla.parse(TEXTS[name]).to_string()
    assert axla.parse(printed).to_string() == printed


def test_calls_of_one_instruction_are_printed_short():
    assert axla.parse(ADD).to_string().replace(".1 ", " ").count("add-") == 3
    assert "async" not in axla.parse(ADD).to_string()
    assert "%f" not in axla.parse(ADD).to_string()


def test_what_is_called_is_of_the_thread():
    printed = axla.parse(CALL).to_string()
    assert 'call-start(%x), async_execution_thread="host", to_apply=%f' in printed
    assert '}, execution_thread="host"' in printed


def test_frontend_attributes_hold_for_the_root():
    printed = axla.parse(GROUP).to_string()
    assert printed.count('_collectives_group=""') == 2
    assert "async-start(%x), calls=%f" in printed


@pytest.mark.parametrize("backend", ["interpreter", "cpu", "one-lane"])
@pytest.mark.parametrize("name", TEXTS)
def test_values(name, backend):
    module = axla.parse(TEXTS[name])
    rng = np.random.default_rng(0)
    inputs = [rng.random(4, dtype=np.float32) for _ in module.entry.parameters]
    found = axla.compile(module, backend=backend).execute(inputs)
    wanted = {
        "long": lambda x, y: [x + y],
        "short": lambda x, y: [x + y],
        "group": lambda x: [x, -x],
        "call": lambda x: [np.exp(-x)],
    }[name](*inputs)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, 1e-6)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("((f32[4], f32[4]), f32[4], s32[]) add-start", "(f32[4], s32[]) add-start", "must be ((operands)"),
        ("add-done(u)", "add-done(x)", "no asynchronous call"),
        ("add-done(u)", "multiply-done(u)", "must be an asynchronous multiply, found one of add"),
        ("add-done(u)", "async-done(x)", "must be an asynchronous call, found parameter"),
        ("add-done(u)", 'add-done(u), async_execution_thread="t"', "its start is of thread main"),
        ("add-done(u)", "add-done(u, u)", "takes 1 operand"),
        ("add-start(x, y)", "copy-update(x)", "is not an opcode"),
        ("add-start(x, y)", "add-start(x, y), nonsense={0}", "has no attribute"),
    ],
)
def test_wrong_texts(old, new, message):
    assert old in SHORT
    with pytest.raises(ParseError) as caught:
        axla.parse(SHORT.replace(old, new))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "label"),
    [
        (
            "((f32[4], f32[4]), f32[4], s32[]) async-start",
            "((f32[4]), f32[4], s32[]) async-start",
            "async_start_c1",
        ),
        ("ROOT c = f32[4] add(a, b)", "ROOT c = f32[4] add(a, b)\n  n = f32[4] negate(a)", "async_start_c3"),
        ("async-start(x, y)", "async-start(x)", "async_start_c1"),
    ],
)
def test_wrong_calls(old, new, label):
    assert old in ADD
    with pytest.raises(AxlaError, match=label):
        axla.compile(axla.parse(ADD.replace(old, new)), backend="interpreter")


def test_a_copy_is_printed_as_copy_start_with_what_it_aliases():
    """XLA prints it so, and does not read it."""
    text = """async { p = f32[2,3] parameter(0)  ROOT c = f32[2,3] copy(p) }
    ENTRY e { p = f32[2,3] parameter(0)
      s = ((f32[2,3]), f32[2,3], u32[]) async-start(p), calls=async, output_to_operand_aliasing={{1}: (0, {})}
      ROOT d = f32[2,3] async-done(s) }"""
    printed = axla.parse(text).to_string()
    assert "copy-start(%p.1), output_to_operand_aliasing={{1}: (0, {})}" in printed
    assert axla.parse(printed).to_string() == printed
