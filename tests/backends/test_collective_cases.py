"""A sample of scripts/sweep_collectives: every element type, participants and groups in turn."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

import axla
from axla.core import dtypes

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import collective_cases as collectives  # noqa: E402
import collective_programs  # noqa: E402

GRIDS = [grid for grids in collectives.GRIDS.values() for grid in grids]
KINDS = [d.name for d in dtypes.ALL]


@pytest.mark.parametrize(
    ("kind", "grid", "first"),
    list(zip(KINDS, itertools.cycle(GRIDS), itertools.cycle(range(7)), strict=False)),
    ids=str,
)
def test_native_code_has_the_bits_of_the_interpreter(kind, grid, first):
    cases = collectives.cases(kind, grid, seed=first)[first::7]
    found = [f"{o.case.name}: {o.detail}" for o in collectives.compared(cases, first) if not o.refused]
    assert len(cases) > 5 and found == []


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_have_the_bits_of_the_interpreter(seed):
    assert collective_programs.compared(seed) == ""


def test_what_differs_is_found():
    """The comparison itself."""
    zero, nan = np.zeros(2, np.float32), np.full(2, np.nan, np.float32)
    other = (nan.view(np.uint32) | 1).view(np.float32)
    assert "2 of 2 differ" in collectives.difference(zero, -zero, True)
    assert collectives.difference(nan, other, True) == ""
    assert "2 of 2 differ" in collectives.difference(nan, other, False)
    assert "1 of 1 differ" in collectives.difference(
        np.complex64([0]), np.complex64([complex(0, -0.0)]), True
    )


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("kinds", ["s32 s32 s32", "s64 s64 s64", "u8 u8 u8", "s16 u32 s64"])
def test_numbers_of_a_ragged_exchange_of_all_are_of_any_type(backend, kinds):
    """Groups are {}: all replicas. What does not fit is left out."""
    index = kinds.split() + ["s32"]
    given = [f"{k}[2]" for k in index]
    lines = "".join(f" n{k} = {kind} parameter({k + 2})\n" for k, kind in enumerate(given))
    text = f"""HloModule m, replica_count=2
        ENTRY e {{ x = f32[4] parameter(0)
          o = f32[6] parameter(1)
          {lines}
          ROOT r = f32[6] ragged-all-to-all(x, o, n0, n1, n2, n3), replica_groups={{}} }}"""
    rows = []
    for replica in range(2):
        numbers = [[0, 2], [2, 3], [3 * replica, 5 * replica], [0, 0]]
        typed = [np.array(v, dtypes.dtype(k).numpy) for v, k in zip(numbers, index, strict=True)]
        rows.append([np.arange(4, dtype=np.float32) + 10 * replica, np.full(6, -1, np.float32), *typed])
    found = axla.compile(axla.parse(text), backend=backend).execute_replicated(rows)
    assert [np.asarray(row[0]).tolist() for row in found] == [[0, 1, -1, 10, 11, -1], [2, 3, -1, -1, -1, 12]]


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_reduce_scatter_of_several_arrays_along_another_dimension(backend):
    text = """HloModule m, replica_count=2
        f { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] subtract(a, b) }
        ENTRY e { x = f32[2,4] parameter(0)
          y = f32[1,2,3] parameter(1)
          ROOT r = (f32[2,2], f32[1,1,3]) reduce-scatter(x, y), dimensions={1}, to_apply=f }"""
    x, y = np.arange(8, dtype=np.float32).reshape(2, 4), np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    found = axla.compile(axla.parse(text), backend=backend).execute_replicated([[3 * x, 4 * y], [x, y]])
    for replica, (a, b) in enumerate(found):
        np.testing.assert_array_equal(np.asarray(a), 2 * x[:, 2 * replica : 2 * replica + 2])
        np.testing.assert_array_equal(np.asarray(b), 3 * y[:, replica : replica + 1])
