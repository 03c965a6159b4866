"""Scatters by blocks of threads, as PTX and as work-groups of OpenCL: the bits of the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from devices_of_blocks import same

import axla
from axla.kernels.update import Sharing
from axla.program.kernels import plan_kernel
from axla.target.nvptx import nvptx_target

COMBINERS = {
    "add": "ROOT r = KIND[] add(a, b)",
    "turned": "ROOT r = KIND[] add(b, a)",
    "last": "ROOT r = KIND[] convert(b)",
    "maximum": "ROOT r = KIND[] maximum(a, b)",
    "xor": "ROOT r = KIND[] xor(a, b)",
    "less": "ROOT r = KIND[] subtract(a, b)",
    "twice": "ROOT r = KIND[] add(b, b)",
}
NUMBERS = "index_vector_dim=1, update_window_dims="
ROWS = NUMBERS + "{1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}"
ONES = NUMBERS + "{}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}"
PARTS = NUMBERS + "{1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}"
BATCHES = (
    "update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
    "input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2"
)
CASES = {  # type, combiner, operand, indices, updates, numbers, how threads share it, whether by atomics
    "sum of scalars": ("f32", "add", "40", "300", "300", ONES, Sharing.OWNERS, False),
    "the last scalar": ("f32", "last", "7", "500", "500", ONES, Sharing.OWNERS, False),
    "differences": ("s32", "less", "7", "500", "500", ONES, Sharing.OWNERS, False),
    "no combination": ("s32", "twice", "7", "500", "500", ONES, Sharing.OWNERS, False),
    "sum of rows": ("f32", "add", "9,70", "50,1", "50,70", ROWS, Sharing.OWNERS, False),
    "parts that overlap": ("f32", "add", "30,41", "20,2", "20,7,11", PARTS, Sharing.WINDOW, False),
    "one part": ("f32", "last", "30,41", "1,2", "1,7,11", PARTS, Sharing.FREE, False),
    "integers": ("s32", "add", "40", "300", "300", ONES, Sharing.FREE, True),
    "integers, turned": ("u64", "turned", "40", "300", "300", ONES, Sharing.FREE, True),
    "integers that overlap": ("s32", "add", "30,41", "20,2", "20,7,11", PARTS, Sharing.FREE, True),
    "largest": ("s64", "maximum", "5", "300", "300", ONES, Sharing.FREE, True),
    "largest without a sign": ("u32", "maximum", "5", "300", "300", ONES, Sharing.FREE, True),
    "bits": ("u32", "xor", "5", "300", "300", ONES, Sharing.FREE, True),
    "short integers": ("s16", "add", "5", "300", "300", ONES, Sharing.OWNERS, False),
    "unique": ("f32", "add", "600", "600", "600", ONES + ", unique_indices=true", Sharing.FREE, False),
    "batches": ("f32", "add", "6,20", "6,30,1", "6,30", BATCHES, Sharing.OWNERS, False),
}  # fmt: skip
TYPES = {"f32": np.float32, "s32": np.int32, "u32": np.uint32, "s64": np.int64, "u64": np.uint64,
         "s16": np.int16}  # fmt: skip


def scatter_text(kind, combiner, operand, indices, updates, numbers) -> str:
    body = COMBINERS[combiner].replace("KIND", kind)
    return f"""HloModule m
c {{ a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  {body} }}
ENTRY e {{ x = {kind}[{operand}] parameter(0)
  i = s32[{indices}] parameter(1)
  u = {kind}[{updates}] parameter(2)
  ROOT s = {kind}[{operand}] scatter(x, i, u), {numbers}, to_apply=c }}"""


def drawn(kind, operand, indices, updates, unique: bool):
    rng = np.random.default_rng(5)
    sizes = [tuple(map(int, dims.split(","))) for dims in (operand, indices, updates)]
    x, u = (
        (rng.standard_normal(s) if kind == "f32" else rng.integers(0, 3000, s)).astype(TYPES[kind])
        for s in (sizes[0], sizes[2])
    )
    most = max(sizes[0])
    if unique:
        return [x, rng.permutation(sizes[1][0]).astype(np.int32), u]
    return [x, rng.integers(-2, most + 1, sizes[1]).astype(np.int32), u]  # some are outside


@pytest.mark.parametrize("name", CASES)
def test_scatters_as_the_interpreter(client, name):
    kind, combiner, operand, indices, updates, numbers, *_ = CASES[name]
    text = scatter_text(kind, combiner, operand, indices, updates, numbers)
    same(client, text, drawn(kind, operand, indices, updates, "unique" in numbers))


@pytest.mark.parametrize("name", CASES)
def test_threads_share_the_work(name):
    *sizes, sharing, atomic = CASES[name]
    module = axla.parse(scatter_text(*sizes))
    plan = plan_kernel("k", module.entry, ((0, 0),), nvptx_target()).plan
    assert (plan.sharing, plan.atomic) == (sharing, atomic)
    assert plan.phases[0].threads * plan.phases[0].count > 1


def test_updates_are_computed_where_they_are_read(client):
    """Two operands, and updates that the kernel itself computes."""
    text = """HloModule m
c { a = f32[] parameter(0)
  p = s32[] parameter(1)
  b = f32[] parameter(2)
  q = s32[] parameter(3)
  s = f32[] add(a, b)
  t = s32[] add(p, q)
  ROOT r = (f32[], s32[]) tuple(s, t) }
ENTRY e { x = f32[40] parameter(0)
  y = s32[40] parameter(1)
  i = s32[300] parameter(2)
  u = f32[300] parameter(3)
  v = s32[300] parameter(4)
  w = f32[300] multiply(u, u)
  n = s32[300] negate(v)
  ROOT s = (f32[40], s32[40]) scatter(x, y, i, w, n), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=c }"""
    rng = np.random.default_rng(6)
    whole = [rng.standard_normal(40).astype(np.float32), np.arange(40, dtype=np.int32)]
    places = rng.integers(0, 40, 300).astype(np.int32)
    updates = [rng.standard_normal(300).astype(np.float32), rng.integers(0, 9, 300).astype(np.int32)]
    same(client, text, [*whole, places, *updates])
