"""Scatters of one element each, whose updates are costly: lanes compute them, and they go in order."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.core import flags
from axla.core.dtypes import dtype
from axla.cpu.compiler import llvm_modules
from axla.kernels.update import ScatterPlan
from axla.lowering.pipeline import compile_program
from axla.target.machine import cpu_target

SCATTER = """HloModule m
c {{ a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  d = {kind}[] {first}(a, b)
  ROOT r = {kind}[] {second}(d, b) }}
ENTRY e {{ p = {kind}[{size}] parameter(0)
  i = s32[{count},1] parameter(1)
  u = f32[{count}] parameter(2)
  h = f32[{count}] tanh(u)
  eight = f32[] constant(8)
  s = f32[{count}] broadcast(eight), dimensions={{}}
  m = f32[{count}] multiply(h, s)
  f = f32[{count}] floor(m)
  v = {kind}[{count}] convert(f)
  ROOT r = {kind}[{size}] scatter(p, i, v), update_window_dims={{}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=c }}"""


def scatter(kind="f32", size=9, count=37):
    first, second = ("xor", "or") if kind == "pred" else ("subtract", "multiply")
    return SCATTER.format(kind=kind, size=size, count=count, first=first, second=second)


def plan_and_text(text):
    target = cpu_target("x86-64-v3")
    program = compile_program(axla.parse(text), target)
    (kernel,) = (k for k in program.kernels if isinstance(k.plan, ScatterPlan))
    [text] = llvm_modules(program, target, parts=1)
    return kernel.plan, text


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "s8", "s64", "pred", "c64"])
def test_updates_of_one_place_go_in_order(kind):
    """The combiner depends on the order; some indices are no place; some updates are left after the lanes."""
    text, rng = scatter(kind), np.random.default_rng(3)
    module = axla.parse(text)
    p = rng.integers(0, 2, 9).astype(module.entry.parameters[0].shape.dtype.numpy)
    i = rng.integers(-2, 11, (37, 1)).astype(np.int32)
    u = rng.integers(-1, 2, 37).astype(np.float32)
    want = axla.compile(module, backend="interpreter")(p, i, u)
    got = axla.compile(axla.parse(text))(p, i, u)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    assert plan_and_text(text)[0].beside > 1


def test_nothing_is_written_to_an_array_without_elements():
    """A scatter that no rewrite has removed: no index is a place of it."""
    with flags.override(disable_hlo_passes=("algsimp",)):
        plan, text = plan_and_text(scatter(size=0, count=32))
    assert plan.beside > 1
    assert "store float" not in text
    with flags.override(disable_hlo_passes=("algsimp",)):
        assert "store float" in plan_and_text(scatter(count=32))[1]


def test_places_are_read_one_by_one():
    """They are not taken out of a vector, and one comparison says whether they are inside."""
    plan, text = plan_and_text(scatter())
    assert plan.beside == 4
    assert "extractelement <4 x i64>" not in text
    assert text.count("icmp ule i32") == 5  # of four at once, and of one that is left


MIXED = """HloModule m
c { a = NARROW[] parameter(0)
  b = NARROW[] parameter(1)
  ROOT r = NARROW[] COMBINED }
ENTRY e { p = f32[9] parameter(0)
  i = s32[COUNT,1] parameter(1)
  u = f32[COUNT] parameter(2)
  h = f32[COUNT] negate(u)
  ROOT r = f32[9] scatter(p, i, h), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=c }"""


@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
@pytest.mark.parametrize("narrow", ["bf16", "f8e5m2"])
@pytest.mark.parametrize("combined", ["convert(b)", "add(a, b)"])
@pytest.mark.parametrize("count", [1, 50])
def test_elements_are_combined_in_the_type_of_the_combiner(backend, narrow, combined, count):
    """Those that no update meets keep all their bits."""
    text = MIXED.replace("NARROW", narrow).replace("COMBINED", combined).replace("COUNT", str(count))
    module, rng = axla.parse(text), np.random.default_rng(4)
    given = [rng.random(9, np.float32), np.full((count, 1), 7, np.int32), rng.random(count, np.float32)]
    want = np.asarray(axla.compile(module, backend="interpreter")(*given))
    assert want[7] == want[7].astype(dtype(narrow).numpy)
    np.testing.assert_array_equal(want[:7], given[0][:7])
    np.testing.assert_array_equal(np.asarray(axla.compile(module, backend=backend)(*given)), want)
