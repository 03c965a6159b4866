"""argmax and argmin of rows, which search only the chunk that has the maximum first: NaN, ties, zeros of both
signs, and infinities at all places of chunks.
"""

from __future__ import annotations

import numpy as np
import pytest

import axla.api as axla
from axla.core import flags
from axla.kernels.reduce import searched

TEXT = """
{name} {{
  a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  ROOT r = {t}[] {name}(a, b)
}}
lowest {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] minimum(a, b)
}}
ENTRY main {{
  x = {t}[{rows},{size}] parameter(0)
  worst = {t}[] parameter(1)
  extreme = {t}[{rows}] reduce(x, worst), dimensions={{1}}, to_apply={name}
  spread = {t}[{rows},{size}] broadcast(extreme), dimensions={{0}}
  equal = pred[{rows},{size}] compare(x, spread), direction=EQ{order}
  nan = pred[{rows},{size}] compare(x, x), direction=NE
  hit = pred[{rows},{size}] or({hit})
  place = s32[{rows},{size}] iota(), iota_dimension=1
  most = s32[] constant(2147483647)
  none = s32[{rows},{size}] broadcast(most), dimensions={{}}
  chosen = s32[{rows},{size}] select(hit, place, none)
  ROOT found = s32[{rows}] reduce(chosen, most), dimensions={{1}}, to_apply=lowest
}}
"""
FLOATS, INTEGERS = ("f32", "f64", "bf16", "f16"), ("s8", "u8", "s32", "s64")
NAMES = ("maximum", "minimum")


def rows(dtype: np.dtype, is_float: bool, size: int) -> np.ndarray:
    """Rows in which the extreme is at a random place, two and more times, and rows of nothing else."""
    rng = np.random.default_rng(size)
    found = rng.integers(1, 90, (60, size)).astype(dtype)
    for row in found[:40]:
        ties = rng.integers(0, size, rng.integers(1, 4))
        row[ties] = rng.choice([0, 100])
    found[40] = 5
    found[41, -1], found[42, 0], found[43, [0, -1]] = 100, 100, 0
    if is_float:
        for row in found[44:52]:
            row[rng.integers(0, size, rng.integers(1, 4))] = np.nan
            row[rng.integers(0, size)] = np.inf
        found[52:58] = -np.abs(found[52:58])
        for row in found[52:55]:
            row[rng.integers(0, size, 4)] = [0.0, -0.0, -0.0, 0.0]
        found[55:58] *= -1
        for row in found[55:58]:
            row[rng.integers(0, size, 4)] = [0.0, -0.0, 0.0, -0.0]
        found[58], found[59] = -np.inf, np.nan
    return found


def text(t: str, name: str, size: int, *, order: str = "", hit: str = "equal, nan") -> str:
    return TEXT.format(t=t, name=name, rows=60, size=size, order=order, hit=hit)


def checked(t: str, name: str, size: int, backend: str = "cpu") -> None:
    module = axla.parse(text(t, name, size))
    dtype = module.entry.parameters[0].shape.dtype
    x = rows(dtype.numpy, dtype.is_float, size)
    wide = x.astype(np.float64)
    wanted = wide.argmax(1) if name == "maximum" else wide.argmin(1)
    run = axla.compile(module, backend=backend)
    low, high = (-np.inf, np.inf) if dtype.is_float else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
    worst = x.dtype.type(low if name == "maximum" else high)
    np.testing.assert_array_equal(np.asarray(run(x, worst)), wanted)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("t", FLOATS + INTEGERS)
@pytest.mark.parametrize("size", [512, 1024, 1337])
def test_like_numpy(t, name, size):
    checked(t, name, size)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("t", ["f32", "f64", "bf16", "s8"])
@pytest.mark.parametrize("isa", ["SSE4_2", "AVX2"])
def test_on_other_machines(t, name, isa):
    with flags.override(cpu_max_isa=isa):
        checked(t, name, 333)


@pytest.mark.parametrize("backend", ["interpreter", "one-lane"])
def test_on_other_backends(backend):
    checked("f32", "maximum", 101, backend)


@pytest.mark.parametrize("start", [101.0, np.inf, np.nan])
def test_initial_values_that_no_element_exceeds(start):
    module = axla.parse(text("f32", "maximum", 1024))
    arguments = rows(np.dtype("f4"), True, 1024), np.float32(start)
    got, wanted = (
        np.asarray(axla.compile(module, backend=name)(*arguments)) for name in ("cpu", "interpreter")
    )
    assert (wanted == 2**31 - 1).any()
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("kind", ["s8", "u8"])
def test_places_that_start_again(kind):
    """Of all places that are equal to the maximum the lowest is found, also after an overflow."""
    source = text("f32", "maximum", 1024).replace("s32", kind).replace("2147483647", "127")
    arguments = rows(np.dtype("f4"), True, 1024), np.float32(-np.inf)
    got, wanted = (
        np.asarray(axla.compile(axla.parse(source), backend=name)(*arguments))
        for name in ("cpu", "interpreter")
    )
    np.testing.assert_array_equal(got, wanted)


def found(source: str):
    reduces = [inst for inst in axla.parse(source).entry.instructions if inst.opcode == "reduce"]
    return reduces[0], searched(reduces[1])


@pytest.mark.parametrize("hit", ["equal, nan", "nan, equal"])
def test_search_is_seen(hit):
    extreme, got = found(text("f32", "maximum", 600, hit=hit))
    assert got is extreme


@pytest.mark.parametrize(
    "change",
    [
        ("direction=EQ", "direction=GE"), ("direction=EQ", "direction=EQ, type=TOTALORDER"),
        ("compare(x, x)", "compare(x, spread)"), ("or(equal, nan)", "or(equal, equal)"),
        ("or(equal, nan)", "or(nan, nan)"), ("or(equal, nan)", "and(equal, nan)"),
        ("iota_dimension=1", "iota_dimension=0"), ("broadcast(most)", "broadcast(less)"),
        ("s32[] minimum", "s32[] maximum"), ("f32[] maximum", "f32[] add"),
        ("select(hit, place, none)", "select(hit, none, place)"),
    ],
)  # fmt: skip
def test_other_reduces_are_none(change):
    source = text("f32", "maximum", 600).replace("  most =", "  less = s32[] constant(7)\n  most =")
    assert change[0] in source and found(source)[1] is not None
    assert found(source.replace(*change))[1] is None
