"""The order of effects: refused where infeeds or outfeeds have none, the same on every backend elsewhere."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import axla
from axla.core.errors import CompileError

BACKENDS = ("interpreter", "cpu", "one-lane")

TWO = """
ENTRY e {{
  t = token[] after-all()
  p = (s32[], token[]) infeed(t){first}
  x = s32[] get-tuple-element(p), index=0
  u = token[] get-tuple-element(p), index=1
  q = (s32[], token[]) infeed({token}){second}
  y = s32[] get-tuple-element(q), index=0
  ROOT d = s32[] subtract(y, x)
}}"""

AROUND = """
condition {{
  p = s32[] parameter(0)
  two = s32[] constant(2)
  ROOT r = pred[] compare(p, two), direction=LT
}}
body {{
  p = s32[] parameter(0)
  t = token[] after-all()
  o = token[] outfeed(p, t), outfeed_shape=s32[]
  one = s32[] constant(1)
  ROOT r = s32[] add(p, one)
}}
ENTRY e {{
  nine = s32[] constant(9)
  zero = s32[] constant(0)
  t = token[] after-all()
  o = token[] outfeed(nine, t), outfeed_shape=s32[]
  w = s32[] while(zero), condition=condition, body=body{edge}
  ROOT r = s32[] negate(w)
}}"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_infeeds_without_an_order_are_refused_with_both_lines(backend):
    text = TWO.format(
        token="t", first=', metadata={source_file="m.py" source_line=3}',
        second=', metadata={source_file="m.py" source_line=4}',
    )  # fmt: skip
    with pytest.raises(CompileError, match=r"%p = .*\n.*m.py:3\n%q = .*\n.*m.py:4\n.*\[infeed_order\]"):
        axla.compile(axla.parse(text), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_outfeeds_before_and_in_a_loop_need_an_order(backend):
    with pytest.raises(CompileError, match=r"(?s)%o.* outfeed.*%w = .*\[outfeed_order\]"):
        axla.compile(axla.parse(AROUND.format(edge="")), backend=backend)
    queue = axla.feeds().outfeed
    queue.clear()
    axla.compile(axla.parse(AROUND.format(edge=", control-predecessors={o}")), backend=backend)()
    assert [int(queue.get(0)) for _ in range(len(queue))] == [9, 0, 1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_token_or_a_schedule_is_an_order(backend):
    scheduled = "HloModule m, is_scheduled=true\n" + TWO.format(token="t", first="", second="")
    axla.feeds().infeed.clear()
    for text in (TWO.format(token="u", first="", second=""), scheduled):
        for value in (8, 1):
            axla.feeds().infeed.put(np.int32(value))
        assert int(axla.compile(axla.parse(text), backend=backend)()) == -7


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_infeed_of_the_empty_tuple_needs_no_order(backend):
    text = """ENTRY e {
      t = token[] after-all()
      nothing = ((), token[]) infeed(t)
      p = (s32[], token[]) infeed(t)
      ROOT x = s32[] get-tuple-element(p), index=0
    }"""
    axla.feeds().infeed.clear()
    axla.feeds().infeed.put(np.int32(5))
    assert int(axla.compile(axla.parse(text), backend=backend)()) == 5


@pytest.mark.parametrize("backend", BACKENDS)
def test_custom_calls_with_effects_run_in_the_order_of_the_text(backend, caplog):
    trace = 'token[] custom-call({0}), custom_call_target="axla.trace", custom_call_has_side_effect=true'
    text = f"""
    body {{
      p = s32[] parameter(0)
      b = {trace.format("p")}, backend_config="inside"
      one = s32[] constant(1)
      ROOT r = s32[] add(p, one)
    }}
    condition {{
      p = s32[] parameter(0)
      two = s32[] constant(2)
      ROOT r = pred[] compare(p, two), direction=LT
    }}
    ENTRY e {{
      x = s32[] parameter(0)
      first = {trace.format("x")}, backend_config="first"
      w = s32[] while(x), condition=condition, body=body
      y = s32[] negate(x)
      last = {trace.format("y")}, backend_config="last"
      ROOT r = (token[], token[], s32[]) tuple(last, first, w)
    }}"""
    with caplog.at_level(logging.INFO, "axla.trace"):
        axla.compile(axla.parse(text), backend=backend)(np.int32(0))
    assert [r.message for r in caplog.records] == ["first: 0", "inside: 0", "inside: 1", "last: 0"]
