"""The example of a backend that writes C: models, kinds of kernels, and what it refuses."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

import axla

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CC", "cc")) is None, reason="there is no C compiler: c-source builds with it"
)
COMPUTATIONS = """
maximum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
"""
SOFTMAX = f"""
HloModule softmax
{COMPUTATIONS}
ENTRY e {{ x = f32[6,20] parameter(0)
  w = f32[20,12] parameter(1)
  d = f32[6,12] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  least = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[6] reduce(d, least), dimensions={{1}}, to_apply=maximum
  ms = f32[6,12] broadcast(m), dimensions={{0}}
  away = f32[6,12] subtract(d, ms)
  e = f32[6,12] exponential(away)
  t = f32[6] reduce(e, zero), dimensions={{1}}, to_apply=sum
  ts = f32[6,12] broadcast(t), dimensions={{0}}
  ROOT p = f32[6,12] divide(e, ts) }}"""
LSTM = """
HloModule lstm
condition { s = (s32[], f32[3,4], f32[3,4], f32[5,3,4], f32[5,3,6], f32[10,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT more = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[3,4], f32[3,4], f32[5,3,4], f32[5,3,6], f32[10,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[3,4] get-tuple-element(s), index=1
  c = f32[3,4] get-tuple-element(s), index=2
  hs = f32[5,3,4] get-tuple-element(s), index=3
  xs = f32[5,3,6] get-tuple-element(s), index=4
  w = f32[10,16] get-tuple-element(s), index=5
  zero = s32[] constant(0)
  one = s32[] constant(1)
  xi = f32[1,3,6] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1,3,6}
  x = f32[3,6] reshape(xi)
  xh = f32[3,10] concatenate(x, h), dimensions={1}
  g = f32[3,16] dot(xh, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g0 = f32[3,4] slice(g), slice={[0:3], [0:4]}
  g1 = f32[3,4] slice(g), slice={[0:3], [4:8]}
  g2 = f32[3,4] slice(g), slice={[0:3], [8:12]}
  g3 = f32[3,4] slice(g), slice={[0:3], [12:16]}
  forget = f32[3,4] logistic(g0)
  enter = f32[3,4] logistic(g1)
  new = f32[3,4] tanh(g2)
  leave = f32[3,4] logistic(g3)
  kept = f32[3,4] multiply(forget, c)
  added = f32[3,4] multiply(enter, new)
  c2 = f32[3,4] add(kept, added)
  shown = f32[3,4] tanh(c2)
  h2 = f32[3,4] multiply(leave, shown)
  row = f32[1,3,4] reshape(h2)
  hs2 = f32[5,3,4] dynamic-update-slice(hs, row, i, zero, zero)
  i2 = s32[] add(i, one)
  ROOT r = (s32[], f32[3,4], f32[3,4], f32[5,3,4], f32[5,3,6], f32[10,16]) tuple(i2, h2, c2, hs2, xs, w) }
ENTRY e { xs = f32[5,3,6] parameter(0)
  w = f32[10,16] parameter(1)
  zero = s32[] constant(0)
  nothing = f32[] constant(0)
  h = f32[3,4] broadcast(nothing), dimensions={}
  hs = f32[5,3,4] broadcast(nothing), dimensions={}
  s = (s32[], f32[3,4], f32[3,4], f32[5,3,4], f32[5,3,6], f32[10,16]) tuple(zero, h, h, hs, xs, w)
  l = (s32[], f32[3,4], f32[3,4], f32[5,3,4], f32[5,3,6], f32[10,16]) while(s), condition=condition, body=step
  c = f32[3,4] get-tuple-element(l), index=2
  found = f32[5,3,4] get-tuple-element(l), index=3
  ROOT r = (f32[3,4], f32[5,3,4]) tuple(c, found) }"""
MOVED = """
HloModule moved
ENTRY e { x = f32[4,6] parameter(0)
  i = s32[3,1] parameter(1)
  n = s32[] parameter(2)
  fill = f32[] constant(7)
  g = f32[3,6] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,6}
  p = f32[7,6] pad(g, fill), padding=1_1_1x0_0
  r = f32[7,6] reverse(p), dimensions={0}
  t = f32[6,7] transpose(r), dimensions={1,0}
  s = f32[3,7] slice(t), slice={[0:6:2], [0:7]}
  y = f32[6,4] reshape(x)
  z = s32[] constant(0)
  y1 = f32[2,4] dynamic-slice(y, z, z), dynamic_slice_sizes={2,4}
  y2 = f32[6,4] dynamic-update-slice(y, y1, n, z)
  k = s32[3,7] iota(), iota_dimension=1
  kf = f32[3,7] convert(k)
  total = f32[3,7] add(s, kf)
  ROOT both = (f32[3,7], f32[6,4]) tuple(total, y2) }"""
BRANCHES = f"""
HloModule branches
{COMPUTATIONS}
first {{ x = f32[4,8] parameter(0)
  ROOT r = f32[4,8] negate(x) }}
second {{ x = f32[4,8] parameter(0)
  zero = f32[] constant(0)
  w = f32[4,8] reduce-window(x, zero), window={{size=1x3 pad=0_0x1_1}}, to_apply=sum
  ROOT r = f32[4,8] sqrt(w) }}
ENTRY e {{ n = s32[] parameter(0)
  x = f32[4,8] parameter(1)
  ROOT r = f32[4,8] conditional(n, x, x), branch_computations={{first, second}} }}"""
RNG = np.random.default_rng(5)


def drawn(*dims):
    return RNG.uniform(0.1, 1, dims).astype(np.float32)


PROGRAMS = {
    "softmax": (SOFTMAX, [drawn(6, 20), drawn(20, 12)]),
    "lstm": (LSTM, [drawn(5, 3, 6), drawn(10, 16)]),
    "movement": (MOVED, [drawn(4, 6), np.int32([[3], [-2], [9]]), np.int32(9)]),
    "first branch": (BRANCHES, [np.int32(0), drawn(4, 8)]),
    "last branch": (BRANCHES, [np.int32(-1), drawn(4, 8)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_cpu_gives(name):
    text, arguments = PROGRAMS[name]
    module = axla.parse(text)
    program = axla.compile(module, backend="c-source")
    wanted = axla.compile(module, backend="cpu").execute(arguments)
    for again in (program, axla.Executable.load(program.serialize())):
        for found, cpu in zip(again.execute(arguments), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(found), np.asarray(cpu), rtol=2e-5, atol=1e-6)


def whole(text: str, *arguments):
    """A program of one array on c-source."""
    return np.asarray(axla.compile(axla.parse(text), backend="c-source")(*arguments))


def test_integers_divide_and_convert_as_xla_says():
    text = "HloModule m\nENTRY e { a = s32[5] parameter(0)\n  b = s32[5] parameter(1)\n"
    text += "  ROOT r = s32[5] %s(a, b) }"
    least = np.iinfo(np.int32).min
    a, b = np.int32([7, -7, least, 5, least]), np.int32([2, 2, -1, 0, 3])
    assert whole(text % "divide", a, b).tolist() == [3, -3, least, -1, -715827882]
    assert whole(text % "remainder", a, b).tolist() == [1, -1, 0, 5, -2]
    text = "HloModule m\nENTRY e { a = f32[4] parameter(0)\n  ROOT r = s8[4] convert(a) }"
    assert whole(text, np.float32([np.nan, 1e9, -1e9, -3.7])).tolist() == [0, 127, -128, -3]


def test_nan_is_the_largest_and_the_smallest():
    text = "HloModule m\nENTRY e { a = f32[3] parameter(0)\n  b = f32[3] parameter(1)\n"
    text += "  ROOT r = f32[3] %s(a, b) }"
    a, b = np.float32([np.nan, 1, 2]), np.float32([1, np.nan, 3])
    np.testing.assert_array_equal(whole(text % "maximum", a, b), [np.nan, np.nan, 3])
    np.testing.assert_array_equal(whole(text % "minimum", a, b), [np.nan, np.nan, 2])


REFUSED = {
    "sort": "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
    " ROOT c = pred[] compare(a, b), direction=LT }\n"
    "ENTRY e { a = f32[4] parameter(0)\n ROOT r = f32[4] sort(a), dimensions={0}, to_apply=less }",
    "bf16": "ENTRY e { a = bf16[4] parameter(0)\n ROOT r = bf16[4] negate(a) }",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_does_not_run_is_refused_by_name(name):
    reason = axla.backends.get("c-source").capabilities.refused[name]
    with pytest.raises(axla.UnsupportedError, match=f"c-source does not run {name}: {reason}"):
        axla.compile(axla.parse(f"HloModule m\n{REFUSED[name]}"), backend="c-source")


def test_a_compiler_that_fails_or_is_not_there(monkeypatch):
    module = axla.parse("HloModule m\nENTRY e { a = f32[31] parameter(0)\n ROOT r = f32[31] negate(a) }")
    monkeypatch.setenv("CC", "false")
    with pytest.raises(axla.CompileError, match="false failed"):
        axla.compile(module, backend="c-source")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(axla.UnsupportedError, match="there is no C compiler"):
        axla.compile(module, backend="c-source")
