"""Scans by threads that run alone, against the interpreter and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.codegen.host import host_target
from axla.core.dtypes import BY_NAME
from axla.kernels.scan import ScanPlan
from axla.lowering.pipeline import optimize, program_of
from axla.runtime.native import num_threads, set_num_threads
from scan_programs import scan_text

EXACT = [  # type, sizes, dimension, combiner, initial value, from the end
    ("s32", (18,), 0, "add", "7", False),
    ("s32", (300, 33), 0, "add", "0", True),
    ("s8", (3, 40, 70), 1, "multiply", "1", False),
    ("s64", (2, 19003), 1, "xor", "0", True),
    ("pred", (300,), 0, "or", "false", False),
    ("f32", (1000, 2), 0, "maximum", "-inf", False),
    ("f32", (3, 16387), 1, "minimum", "inf", True),
    ("f32", (2, 1003), 1, "maximum", "-inf", False),
    ("f64", (4, 1001), 1, "maximum", "-3", True),
    ("u8", (70, 300), 1, "and", "255", False),
    ("bf16", (64, 33), 1, "maximum", "-inf", False),
]
NEAR = [  # and how far results may be from the interpreter's, which rounds each of its steps
    ("f32", (5, 1003), 1, "add", "0", False, 1e-4),
    ("f64", (16400,), 0, "add", "0.5", True, 1e-11),
    ("f32", (9, 1003), 1, "multiply", "1", False, 1e-4),
    ("f64", (2, 1003), 1, "multiply", "2", True, 1e-11),
    ("c64", (40, 6), 0, "add", "0", True, 1e-4),
    ("bf16", (64, 65), 0, "add", "0", False, 0.1),
]
FIRST = """z = s32[] constant(0)
  n = pred[] compare(a, z), direction=NE
  ROOT r = s32[] select(n, a, b)"""
"""The first of two elements that is not 0: associative, and does not commute."""


def drawn(kind, dims) -> np.ndarray:
    """Small numbers; of floats some NaN, and zeros of both signs."""
    rng, dtype = np.random.default_rng(0), BY_NAME[kind].numpy
    if kind == "pred":
        return rng.random(dims) > 0.9
    x = rng.standard_normal(dims) if BY_NAME[kind].is_inexact else rng.integers(-9, 99, dims)
    if BY_NAME[kind].is_float:
        x.reshape(-1)[::3] *= 0.0
        x.reshape(-1)[47::1031] = np.nan
    return x.astype(dtype)


def both(text, x) -> list[np.ndarray]:
    """The results of the compiled code and of the interpreter."""
    programs = axla.compile(axla.parse(text)), axla.compile(axla.parse(text), backend="interpreter")
    return [np.asarray(program(x)) for program in programs]


def plan_of(text) -> ScanPlan:
    module, target = axla.parse(text), host_target()
    optimize(module, target)
    [kernel] = program_of(module, target).kernels
    assert isinstance(kernel.plan, ScanPlan)
    return kernel.plan


@pytest.mark.parametrize("case", EXACT, ids=lambda case: "-".join(map(str, case)))
def test_scans_as_the_interpreter(case):
    text = scan_text(*case)
    assert plan_of(text).space
    found, wanted = both(text, drawn(*case[:2]))
    missing = wanted != wanted
    np.testing.assert_array_equal(found != found, missing)  # bits of NaN are the machine's
    assert found[~missing].tobytes() == wanted[~missing].tobytes()


@pytest.mark.parametrize("case", NEAR, ids=lambda case: "-".join(map(str, case)))
def test_sums_of_floats(case):
    *case, away = case
    found, wanted = (x.astype(np.complex128) for x in both(scan_text(*case), drawn(*case[:2])))
    np.testing.assert_allclose(found, wanted, rtol=away, atol=away)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("dims", "at"), [((40,), 0), ((40001,), 0), ((50, 9), 0)])
def test_combiners_that_do_not_commute(dims, at, reverse):
    x = np.where(np.random.default_rng(0).random(dims) > 0.9, drawn("s32", dims), 0)
    text = scan_text("s32", dims, at, FIRST, "0", reverse)
    assert plan_of(text).space
    found = np.asarray(axla.compile(axla.parse(text))(x))
    wanted, before = np.zeros_like(x), np.zeros_like(x[0])
    for n in reversed(range(len(x))) if reverse else range(len(x)):
        pair = (x[n], before) if reverse else (before, x[n])
        wanted[n] = before = np.where(pair[0] != 0, *pair)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("dims", "at", "reverse"), [((40001,), 0, False), ((3, 16390), 1, True)])
def test_long_lines_in_pieces(dims, at, reverse):
    """The same bits with any number of threads; work before and behind the scan is in the same kernel."""
    text = scan_text("f32", dims, at, "add", "3", reverse, before="negate(p)", behind="multiply(s, p)")
    assert len(plan_of(text).phases) == 3
    x = np.random.default_rng(0).standard_normal(dims).astype(np.float32)
    program, before, found = axla.compile(axla.parse(text)), num_threads(), []
    try:
        for count in (1, 2, 5):
            set_num_threads(count)
            found.append(np.asarray(program(x)).tobytes())
    finally:
        set_num_threads(before)
    assert found[0] == found[1] == found[2]
    turned = (np.flip(-x, at) if reverse else -x).astype(np.float64)
    sums = 3 + np.cumsum(turned, at)
    wanted = (np.flip(sums, at) if reverse else sums) * x
    np.testing.assert_allclose(np.frombuffer(found[0], np.float32), wanted.reshape(-1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("reverse", [False, True])
def test_maxima_of_long_lines_in_pieces(reverse):
    """The maximum of zeros is +0 from the first of them on, that of NaN is NaN."""
    text = scan_text("f32", (3, 20003), 1, "maximum", "-inf", reverse)
    assert len(plan_of(text).phases) == 3
    x = np.random.default_rng(0).standard_normal((3, 20003)).astype(np.float32)
    x[1] = -0.0
    x[1, 9000] = 0.0
    x[2, 12345] = -np.nan
    found = np.asarray(axla.compile(axla.parse(text))(x))
    turn = slice(None, None, -1 if reverse else 1)
    np.testing.assert_array_equal(found[:, turn], np.maximum.accumulate(x[:, turn], 1))
    behind = np.arange(20003) <= 9000 if reverse else np.arange(20003) >= 9000
    np.testing.assert_array_equal(np.signbit(found[1]), ~behind)


@pytest.mark.parametrize(("dims", "most"), [((1 << 20,), 3), ((3, 90_001), 4)])
def test_roundings_of_long_sums(dims, most):
    """Of numbers in [0, 1), in units of the last place of the largest sum."""
    x = np.random.default_rng(1).random(dims).astype(np.float32)
    found = np.asarray(axla.compile(axla.parse(scan_text("f32", dims, len(dims) - 1, "add", "0", False)))(x))
    wanted = np.cumsum(x.astype(np.float64), -1)
    assert np.abs(found - wanted).max() < most * 2.0**-24 * wanted.max()


def test_zeros_keep_their_sign():
    x = np.full(20000, -0.0, np.float32)
    found = np.asarray(axla.compile(axla.parse(scan_text("f32", (20000,), 0, "add", "-0", False)))(x))
    assert not found.any() and np.signbit(found).all()


@pytest.mark.parametrize("level", ["SSE4_2", "AVX2"])
@pytest.mark.parametrize(("dims", "at"), [((20003,), 0), ((70, 5), 0)])
def test_narrow_registers(monkeypatch, level, dims, at):
    monkeypatch.setenv("XLA_FLAGS", f"--xla_cpu_max_isa={level}")
    found, wanted = both(scan_text("s32", dims, at, "add", "0", True), drawn("s32", dims))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("dims", "at"), [((1001,), 0), ((20003,), 0), ((70, 5), 0)])
def test_machines_without_vectors(dims, at, reverse):
    text, x = scan_text("s32", dims, at, "add", "3", reverse), drawn("s32", dims)
    found = np.asarray(axla.compile(axla.parse(text), backend="one-lane")(x))
    wanted = 3 + (np.flip(np.cumsum(np.flip(x, at), at), at) if reverse else np.cumsum(x, at))
    np.testing.assert_array_equal(found, wanted)


def test_a_scan_of_a_padded_array_stays_a_scan():
    text = """HloModule padded
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[64,64] parameter(0)
  zero = f32[] constant(0)
  padded = f32[65,65] pad(x, zero), padding=1_0x1_0
  ROOT sums = f32[65,65] reduce-window(padded, zero), window={size=65x1 pad=64_0x0_0}, to_apply=add
}"""
    module = axla.parse(text)
    target = host_target()
    optimize(module, target)
    assert any(isinstance(k.plan, ScanPlan) for k in program_of(module, target).kernels)
    x = np.random.default_rng(0).integers(-9, 9, (64, 64)).astype(np.float32)
    wanted = np.cumsum(np.pad(x, ((1, 0), (1, 0))), 0)
    np.testing.assert_array_equal(np.asarray(axla.compile(axla.parse(text))(x)), wanted)


def test_steps_across_lines_cover_long_stretches():
    """Cores that write neighbouring stretches of a few lines of cache take these from each other."""
    text = scan_text("f32", (1024, 1030), 0, "add", "0", False)
    plan = plan_of(text)
    assert plan.space and plan.space.block * 4 >= 2048 and plan.space.blocks > 1
    x, program, before = drawn("f32", (1024, 1030)), axla.compile(axla.parse(text)), num_threads()
    found = []
    try:
        for threads in (1, 2, 5):
            set_num_threads(threads)
            found.append(np.asarray(program(x)).tobytes())
    finally:
        set_num_threads(before)
    assert found[0] == found[1] == found[2]
