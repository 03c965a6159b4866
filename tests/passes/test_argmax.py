"""argmax and argmin: the rewritten form against NumPy, with ties, NaN, infinities, signed zeros, integers."""

from __future__ import annotations

import numpy as np
import pytest

import axla.api as axla
from axla.passes.expand.argmax import argmax_rewriter

TEXT = """
combine {{
  a = {t}[] parameter(0)
  ai = {i}[] parameter(1)
  b = {t}[] parameter(2)
  bi = {i}[] parameter(3)
  gt = pred[] compare(a, b), direction={direction}
  ne = pred[] compare(a, a), direction=NE
  p = pred[] or(gt, ne)
  v = {t}[] select(p, a, b)
  eq = pred[] compare(a, b), direction=EQ
  lt = pred[] compare(ai, bi), direction=LT
  t = pred[] and(eq, lt)
  q = pred[] or(p, t)
  i = {i}[] select(q, ai, bi)
  ROOT o = ({t}[], {i}[]) tuple(v, i)
}}
ENTRY main {{
  x = {t}[6,300] parameter(0)
  i = {i}[6,300] iota(), iota_dimension={dimension}
  m = {t}[] constant({init})
  z = {i}[] constant(0)
  w = ({t}[{rest}], {i}[{rest}]) reduce(x, i, m, z), dimensions={{{dimension}}}, to_apply=combine
  ROOT r = {i}[{rest}] get-tuple-element(w), index=1
}}
"""


def data(dtype) -> np.ndarray:
    x = np.random.default_rng(0).integers(-50, 50, (6, 300)).astype(dtype)
    x[1, 40] = x[1, 200] = x[1].max()
    if np.dtype(dtype).kind == "f":
        x[2, [7, 9]] = np.nan
        x[3] = -np.inf
        x[4, :] = -1.0
        x[4, 5], x[4, 4] = 0.0, -0.0
    return x


@pytest.mark.parametrize("backend", ["interpreter", "cpu", "one-lane"])
@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize("index", ["s32", "s64"])
@pytest.mark.parametrize(
    ("name", "dtype", "direction", "init"),
    [
        ("f32", np.float32, "GT", "-inf"),
        ("f32", np.float32, "LT", "inf"),
        ("s32", np.int32, "GT", "-2147483648"),
    ],
)
def test_like_numpy(backend, index, dimension, name, dtype, direction, init):
    rest = 6 if dimension else 300
    text = TEXT.format(t=name, i=index, direction=direction, dimension=dimension, rest=rest, init=init)
    module = axla.parse(text)
    x = data(dtype)
    wanted = x.argmax(dimension) if direction == "GT" else x.argmin(dimension)
    assert (np.asarray(axla.compile(module, backend=backend)(x)) == wanted).all()


def test_without_a_hit_the_first_index_remains():
    text = TEXT.format(t="f32", i="s64", direction="GT", dimension=1, rest=6, init="9")
    module = axla.parse(text.replace("z = s64[] constant(0)", "z = s64[] constant(-7)"))
    x = np.tile(np.arange(300, dtype=np.float32) % 9, (6, 1))
    x[1, 17] = 9
    x[2, 20] = 10
    assert np.asarray(axla.compile(module)(x)).tolist() == [-7, -7, 20, -7, -7, -7]


def reduces(module) -> int:
    return sum(len(i.operands) == 4 for i in module.entry.instructions if i.opcode == "reduce")


def test_is_rewritten_unless_the_value_is_read():
    text = TEXT.format(t="f32", i="s32", direction="GT", dimension=1, rest=6, init="-inf")
    module = axla.parse(text)
    argmax_rewriter(module)
    assert {len(i.operands) for i in module.entry.instructions if i.opcode == "reduce"} == {2}
    both = axla.parse(text.replace("index=1", "index=0").replace("ROOT r = s32", "ROOT r = f32"))
    argmax_rewriter(both)
    assert reduces(both) == 1


@pytest.mark.parametrize(("size", "dtype"), [(2**31 - 1, "s32"), (2**31, "s64")])
def test_long_indices_are_short_where_32_bits_hold_them(size, dtype):
    text = TEXT.format(t="f32", i="s64", direction="GT", dimension=1, rest=6, init="-inf")
    module = axla.parse(text.replace("[6,300]", f"[6,{size}]"))
    argmax_rewriter(module)
    (iota,) = [i for i in module.entry.instructions if i.opcode == "iota" and i.users]
    assert iota.shape.dtype.name == dtype


@pytest.mark.parametrize(
    "change", [("direction=LT\n  t", "direction=GT\n  t"), ("select(q, ai, bi)", "select(q, bi, ai)")]
)
def test_other_combiners_stay(change):
    text = TEXT.format(t="f32", i="s32", direction="GT", dimension=1, rest=6, init="-inf")
    assert change[0] in text
    module = axla.parse(text.replace(*change))
    argmax_rewriter(module)
    assert reduces(module) == 1
