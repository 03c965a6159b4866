"""Ranges of parallel loops run apart from each other: what races, and what only writes the same twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import axla
from axla.codegen.emit import column
from axla.codegen.host import host_target
from axla.cpu.compiler import compile_module
from axla.tools.bisect import bisect
from axla.tools.ranges import run_apart
from axla.tools.trial import Question, Trials

SUMS = """HloModule sums
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[200,300] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[300] reduce(x, z), dimensions={0}, to_apply=add }"""
GROUPS = """HloModule groups
ENTRY e { x = f32[1,5,16] parameter(0)
  k = f32[3,8,34] parameter(1)
  ROOT c = f32[1,6,34] convolution(x, k), window={size=3 pad=1_2}, dim_labels=b0f_0io->b0f, \
feature_group_count=2 }"""
OVERLAPPING = """
from axla.codegen.emit import column
from axla.backends.cpu import CpuBackend
from axla.codegen.host import host_target
from dataclasses import replace

right, here = column.span_of, host_target()

def span_of(f, space, block):
    low, high = right(f, space, block)
    return f.smax(f.sub(low, space.lanes), f.index(0)), high

column.span_of = span_of
small = replace(here, limits=replace(here.limits, parallel_cost=50, chunk_cost=20))
CpuBackend.target = lambda self, options: small
"""


def apart(text: str, *inputs: np.ndarray) -> tuple[list[np.ndarray], str]:
    """A run for a target for which little work is worth several ranges."""
    here = host_target()
    target = replace(here, limits=replace(here.limits, parallel_cost=50, chunk_cost=20))
    program = compile_module(axla.parse(text), target)
    found, why = run_apart(program, [a.tobytes() for a in inputs])
    return [np.frombuffer(data, np.float32) for data in found], why


def test_a_right_program_gives_what_it_gives_in_one_piece():
    x = np.random.default_rng(0).integers(-9, 9, (200, 300)).astype(np.float32)
    [found], why = apart(SUMS, x)
    assert not why and (found == x.sum(0)).all()


def test_ranges_that_write_the_same_at_once_do_not_race():
    rng = np.random.default_rng(0)
    x, k = (rng.integers(-3, 3, dims).astype(np.float32) for dims in ((1, 5, 16), (3, 8, 34)))
    [found], why = apart(GROUPS, x, k)
    wanted = np.array(axla.compile(axla.parse(GROUPS), backend="interpreter").execute([x, k])[0])
    assert not why and (found == wanted.reshape(-1)).all()


def test_ranges_that_sum_in_the_same_memory_race(monkeypatch):
    right = column.span_of

    def overlapping(f, space, block):
        low, high = right(f, space, block)
        return f.smax(f.sub(low, space.lanes), f.index(0)), high

    monkeypatch.setattr(column, "span_of", overlapping)
    _, why = apart(SUMS, np.ones((200, 300), np.float32))
    assert "write the same" in why
    small = SUMS.replace("200", "33").replace("300", "200")
    for _ in range(10):  # also in ranges of a microsecond
        _, why = apart(small, np.ones((33, 200), np.float32))
        assert "write the same" in why


def test_bisect_names_the_kernel_whose_ranges_race(tmp_path):
    path = tmp_path / "overlapping.py"
    path.write_text(OVERLAPPING)
    with Trials(120.0, load=[str(path)]) as trials:
        found = bisect(axla.parse(SUMS), trials, Question())
    assert found.culprit == "threads" and found.emitter == "axla.codegen.emit.column:emit"
