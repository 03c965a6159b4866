"""The column emitter where what is reduced is narrower than the results, and kernels of one step."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.kernels.reduce import ColumnPlan
from axla.lowering.pipeline import compile_program
from axla.target.machine import cpu_target

FRONTIER = """HloModule m
c {{ a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] {opcode}(a, b) }}
ENTRY e {{ p = {kind}[{outer},{rows},{columns}] parameter(0)
  q = {kind}[{outer},{rows}] parameter(1)
  d = {wide}[{outer},{columns}] parameter(2)
  z = {kind}[] constant({start})
  w = {kind}[{outer},{rows},{columns}] broadcast(q), dimensions={{0,1}}
  x = {kind}[{outer},{rows},{columns}] and(p, w)
  s = {kind}[{outer},{columns}] reduce(x, z), dimensions={{1}}, to_apply=c
  t = {wide}[{outer},{columns}] convert(s)
  ROOT r = {wide}[{outer},{columns}] add(t, d) }}"""


def column_plan(text: str) -> ColumnPlan:
    kernels = compile_program(axla.parse(text), cpu_target("x86-64-v3")).kernels
    (found,) = [kernel.plan for kernel in kernels if isinstance(kernel.plan, ColumnPlan)]
    return found


@pytest.mark.parametrize(
    ("kind", "opcode", "start", "wide"),
    [("pred", "or", "false", "s32"), ("s8", "add", "3", "f64"), ("u16", "maximum", "0", "s64")],
)
def test_columns_of_every_length(kind, opcode, start, wide):
    """Fewer columns than lanes, whole vectors, and a rest; several blocks; one array and several."""
    rng = np.random.default_rng(3)
    for outer, rows, columns in ((1, 40, 1), (1, 41, 5), (2, 35, 33), (3, 64, 64), (1, 50, 31), (1, 99, 600)):
        text = FRONTIER.format(
            kind=kind, opcode=opcode, start=start, wide=wide, outer=outer, rows=rows, columns=columns
        )
        module = axla.parse(text)
        given = [
            rng.integers(0, 2 if p.shape.dtype.is_pred else 9, p.shape.dims).astype(p.shape.dtype.numpy)
            for p in module.entry.parameters
        ]
        (want,) = axla.compile(module, backend="interpreter").execute(given)
        (got,) = axla.compile(module, backend="cpu").execute(given)
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_lanes_are_those_of_what_is_reduced():
    plan = column_plan(
        FRONTIER.format(kind="pred", opcode="or", start="false", wide="s32", outer=1, rows=64, columns=512)
    )
    assert (plan.space.lanes, plan.lanes) == (32, 8)


def test_a_wide_operand_of_the_reduction_counts():
    text = """HloModule m
c { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b) }
ENTRY e { p = s8[64,512] parameter(0)
  z = s32[] constant(0)
  w = s32[64,512] convert(p)
  s = s32[512] reduce(w, z), dimensions={0}, to_apply=c
  ROOT r = s8[512] convert(s) }"""
    plan = column_plan(text)
    assert plan.space.lanes == plan.lanes == 8


@pytest.mark.parametrize("size", [17, 24, 32, 63, 64, 65, 96, 128, 200])
def test_a_loop_over_a_few_vectors_is_written_out(size):
    """In place, in a loop: each element is read before it is overwritten, and none is computed twice."""
    text = f"""HloModule m
body {{ p = (s32[], f32[{size}], f32[{size}]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[{size}] get-tuple-element(p), index=1
  y = f32[{size}] get-tuple-element(p), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  h = f32[] constant(0.5)
  hs = f32[{size}] broadcast(h), dimensions={{}}
  a = f32[{size}] multiply(x, hs)
  b = f32[{size}] add(a, y)
  ROOT t = (s32[], f32[{size}], f32[{size}]) tuple(j, b, y) }}
cond {{ p = (s32[], f32[{size}], f32[{size}]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT }}
ENTRY e {{ x = f32[{size}] parameter(0)
  y = f32[{size}] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[{size}], f32[{size}]) tuple(z, x, y)
  l = (s32[], f32[{size}], f32[{size}]) while(t), condition=cond, body=body
  ROOT r = f32[{size}] get-tuple-element(l), index=1 }}"""
    module = axla.parse(text)
    rng = np.random.default_rng(size)
    x, y = rng.standard_normal((2, size)).astype(np.float32)
    (want,) = axla.compile(module, backend="interpreter").execute([x, y])
    (got,) = axla.compile(module, backend="cpu").execute([x, y])
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
