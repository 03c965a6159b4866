"""Arrays with dynamic sizes: every op gives what its shape says, or is refused; windows lie by the bounds."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import axla
from axla.core.errors import AxlaError, UnsupportedError
from axla.core.shape import Shape
from axla.interpreter import evaluate
from axla.ir.verify import verify
from sample_modules import sample_arguments, sample_cases, sample_module

X = np.array([1, 2, 3, 4, 5, 6], np.float32)
SIZE = 4
ZEROED = np.where(np.arange(6) < SIZE, X, 0)  # beyond its size an array has anything
HEAD = """HloModule m

plus {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  x = f32[6] parameter(0)
  n = s32[] parameter(1)
  i = s32[] parameter(2)
  zero = f32[] constant(0)
  d = f32[<=6] set-dimension-size(x, n), dimensions={0}
"""
SUM = "\n  ROOT s = f32[] reduce(v, zero), dimensions={0}, to_apply=plus"
UPDATE = "u = f32[2] constant({10, 20})\n  v = f32[<=6] dynamic-update-slice(d, u, i)" + SUM
SHORT = """y = f32[3] constant({10, 20, 30})
  m = s32[] constant(2)
  u = f32[<=3] set-dimension-size(y, m), dimensions={0}
  ROOT v = f32[6] dynamic-update-slice(x, u, i)"""
SCATTER = (
    """k = s32[1,1] broadcast(i), dimensions={}
  u = f32[1,2] constant({{10, 20}})
  v = f32[<=6] scatter(d, k, u), update_window_dims={1}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=plus"""
    + SUM
)
GATHER = """k = s32[1] broadcast(i), dimensions={}
  ROOT g = f32[1,2] gather(d, k), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0},
    index_vector_dim=1, slice_sizes={2}"""
SLICE = "ROOT r = f32[2] dynamic-slice(d, i), dynamic_slice_sizes={2}"
WHOLE = "v = f32[<=6] dynamic-slice(d, i), dynamic_slice_sizes={6}" + SUM


def window(at: int) -> slice:
    start = min(max(at, 0), 4)
    return slice(start, start + 2)


def updated(at: int, add: bool = False) -> float:
    """The sum of what counts after two elements are written."""
    found = ZEROED.copy()
    found[window(at)] = ZEROED[window(at)] * add + np.array([10, 20])
    return float(found[:SIZE].sum())


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("at", [-1, 1, 2, 3, 4, 5, 9])
def test_windows_go_by_the_bounds(at, backend):
    def run(body):
        executable = axla.compile(axla.parse(HEAD + "  " + body + "\n}\n"), backend=backend)
        return np.asarray(executable(X, np.int32(SIZE), np.int32(at)))

    wanted = X[window(at)]
    counts = np.arange(6)[window(at)] < SIZE
    for found in (run(SLICE), run(GATHER)[0]):
        np.testing.assert_array_equal(found[counts], wanted[counts])
    assert run(WHOLE) == X[:SIZE].sum()
    assert run(UPDATE) == updated(at)
    assert run(SCATTER) == (updated(at, add=True) if 0 <= at <= 4 else X[:SIZE].sum())
    short = X.copy()
    start = min(max(at, 0), 3)
    short[start : start + 2] = [10, 20]
    np.testing.assert_array_equal(run(SHORT), short)


def dynamic_cases():
    """Samples of all ops, with one dimension of one operand, or all of all, dynamic; the result's as well."""
    for name, op, shapes in sample_cases():
        if op.opcode in ("custom-call", "outfeed", "send", "recv"):
            continue
        ranks = [s.rank if isinstance(s, Shape) else 0 for s in shapes]
        places = [(n, d) for n, rank in enumerate(ranks) for d in range(rank)]
        for marked in [[place] for place in places] + [places] * (len(places) > 1):
            given = [
                Shape(s.dtype, s.dims, [(n, d) in marked for d in range(s.rank)]) if rank else s
                for n, (s, rank) in enumerate(zip(shapes, ranks, strict=True))
            ]
            ops = [op]
            if op.holds_shape and isinstance(op.shape, Shape):
                rank = op.shape.rank
                ones = [[d == k for d in range(rank)] for k in range(rank)]
                ops += [replace(op, shape=Shape(op.shape.dtype, op.shape.dims, m)) for m in ones]
            yield from ((name, o, shapes, tuple(given)) for o in ops)


def outcome(op, shapes, given, less):
    """The outcome of a case; None if the verifier refuses it."""
    try:
        module = sample_module(op, given)
        verify(module)
    except AxlaError:
        return None
    arguments = [
        a.array[
            tuple(slice(max(0, n - less) if dyn else n) for n, dyn in zip(s.dims, s.dynamic, strict=True))
        ]
        if isinstance(s, Shape)
        else a
        for a, s in zip(sample_arguments(op, shapes), given, strict=True)
    ]
    try:
        found = evaluate(module, arguments)
    except UnsupportedError as error:
        assert "dynamic size" in str(error) or "set inferred_dimension" in str(error)
        return "refused"
    wanted = [s for s in module.entry.root.shape.leaves() if isinstance(s, Shape)]
    leaves = [x.array for x in found.leaves() if x.shape.is_array]
    assert all(s.admits(x.shape) for s, x in zip(wanted, leaves, strict=True)), (module.entry.root, leaves)
    return "run"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_op_with_dynamic_operands():
    """A value of the declared shape, or UnsupportedError: never a failure inside."""
    ends = {"run": 0, "refused": 0}
    for (name, *case), less in itertools.product(dynamic_cases(), (1, 99)):
        try:
            end = outcome(*case, less)
        except AxlaError as error:
            raise AssertionError(f"{name}, {case[-1]}, {less} less: {error}") from error
        if end:
            ends[end] += 1
    assert ends["run"] > 500 and ends["refused"] > 100


@pytest.mark.parametrize(
    "op",
    ["f32[4] bitcast(a)", "s32[<=4] bitcast(a)", "f32[<=2,2] bitcast(a)"],
)
def test_bitcasts_of_dynamic_sizes_are_refused_by_name(op):
    text = f"HloModule m\nENTRY e {{ a = f32[<=4] parameter(0)\n ROOT r = {op} }}"
    for backend in ("interpreter", "cpu"):
        with pytest.raises(UnsupportedError, match="bitcast of arrays of dynamic size is not supported"):
            axla.compile(axla.parse(text), backend=backend).execute([np.ones(3, np.float32)])
