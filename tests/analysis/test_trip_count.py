"""Trip counts: against running the loop."""

import numpy as np
import pytest

from axla.analysis.trip_count import trip_count
from axla.core.literal import Literal
from axla.hlo import While
from axla.interpreter.evaluate import evaluate
from axla.text.parser import parse_hlo

LOOP = """
body {{
  p = ({type}[], s32[]) parameter(0)
  i = {type}[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  step = {type}[] constant({step})
  j = {type}[] {op}({order})
  one = s32[] constant(1)
  m = s32[] add(n, one)
  ROOT t = ({type}[], s32[]) tuple(j, m)
}}
cond {{
  p = ({type}[], s32[]) parameter(0)
  i = {type}[] get-tuple-element(p), index=0
  limit = {type}[] constant({limit})
  ROOT c = pred[] compare({compared}), direction={direction}
}}
ENTRY e {{
  start = {type}[] constant({start})
  zero = s32[] constant(0)
  t = ({type}[], s32[]) tuple(start, zero)
  w = ({type}[], s32[]) while(t), condition=cond, body=body
  ROOT r = s32[] get-tuple-element(w), index=1
}}
"""


def loop_text(start, step, limit, direction, dtype="s32", op="add", order="i, step", compared="i, limit"):
    return LOOP.format(
        type=dtype,
        start=start,
        step=step,
        limit=limit,
        direction=direction,
        op=op,
        order=order,
        compared=compared,
    )


def count_of(text):
    module = parse_hlo(text)
    return trip_count(next(i for i in module.entry.instructions if isinstance(i.op, While))), module


@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE", "NE", "EQ"])
@pytest.mark.parametrize("start", [-3, 0, 7])
@pytest.mark.parametrize("limit", [-3, 0, 8])
@pytest.mark.parametrize("step", [-2, 1, 3])
def test_agrees_with_running(start, step, limit, direction):
    found, module = count_of(loop_text(start, step, limit, direction))
    if found is not None:
        assert evaluate(module, step_limit=100_000).array == found
    elif direction in ("LT", "LE") and step > 0 or direction in ("GT", "GE") and step < 0:
        pytest.fail("a canonical loop is not recognised")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (loop_text(0, 1, 10, "LT"), 10),
        (loop_text(0, 1, 10, "LT", order="step, i"), 10),
        (loop_text(0, 1, 10, "GT", compared="limit, i"), 10),
        (loop_text(10, 1, 0, "GT", op="subtract"), 10),
        (loop_text(0, 3, 10, "LT", dtype="u8"), 4),
        (loop_text(0, 100, 250, "LT", dtype="u8"), None),  # 300 wraps to 44: the loop goes on
        (loop_text(0, 1, 127, "LE", dtype="s8"), None),
        (loop_text(0, 2, 5, "NE"), None),
        (loop_text(0, 0, 5, "LT"), None),
        (loop_text(5, 0, 5, "LT"), 0),
        (loop_text(0, 1, 10, "LT", op="multiply"), None),
    ],
)
def test_facts(text, wanted):
    assert count_of(text)[0] == wanted


def test_a_limit_that_the_loop_carries():
    text = """
body { p = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  one = s32[] constant(1) j = s32[] add(i, one) ROOT t = (s32[], s32[]) tuple(j, n) }
cond { p = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e { x = s32[] parameter(0) z = s32[] constant(0) n = s32[] LIMIT t = (s32[], s32[]) tuple(z, n)
  ROOT w = (s32[], s32[]) while(t), condition=cond, body=body }
"""
    assert count_of(text.replace("LIMIT", "constant(7)"))[0] == 7
    assert count_of(text.replace("LIMIT", "add(x, x)"))[0] is None
    result = evaluate(parse_hlo(text.replace("LIMIT", "constant(7)")), [Literal.of(np.int32(0))])
    assert [int(leaf.array) for leaf in result.leaves()] == [7, 7]
