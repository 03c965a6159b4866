"""The flag `autotune`: plans that are tried, what is kept of it, and what must not go wrong."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.comparison import random_inputs
from axla.core import cache, flags
from axla.cpu import tuning

DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
CASES = {
    "whole tiles": f"ROOT d = f32[24,16] dot(f32[24,700] parameter(0), f32[700,16] parameter(1)), {DOT}",
    "edges": f"ROOT d = f32[100,70] dot(f32[100,33] parameter(0), f32[33,70] parameter(1)), {DOT}",
    "blocks of k": f"ROOT d = f32[150,130] dot(f32[150,900] parameter(0), f32[900,130] parameter(1)), {DOT}",
    "blocks of k, more": f"""d = f32[150,130] dot(f32[150,900] parameter(0), f32[900,130] parameter(1)), {DOT}
        ROOT r = f32[150,130] tanh(d)""",
    "right side turned": """ROOT d = f32[90,70] dot(f32[90,300] parameter(0), f32[70,300] parameter(1)),
        lhs_contracting_dims={1}, rhs_contracting_dims={1}""",
    "integers": f"ROOT d = s32[100,70] dot(s32[100,133] parameter(0), s32[133,70] parameter(1)), {DOT}",
    "bytes": f"ROOT d = s32[100,70] dot(s8[100,133] parameter(0), s8[133,70] parameter(1)), {DOT}",
    "bf16": f"ROOT d = bf16[64,96] dot(bf16[64,256] parameter(0), bf16[256,96] parameter(1)), {DOT}",
    "complex": f"ROOT d = c64[33,40] dot(c64[33,50] parameter(0), c64[50,40] parameter(1)), {DOT}",
    "convolution": """ROOT d = f32[1,15,14,37] convolution(f32[1,29,27,19] parameter(0),
        f32[3,3,19,37] parameter(1)), window={size=3x3 stride=2x2 pad=1_1x1_1},
        dim_labels=b01f_01io->b01f""",
    "pixels": """ROOT d = f32[2,12,20,31] convolution(f32[2,8,20,31] parameter(0),
        f32[3,3,8,12] parameter(1)), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_01io->bf01""",
    "columns": """ROOT d = f32[3001] reduce(f32[100,3001] parameter(0), f32[] constant(0)), dimensions={0},
        to_apply=add""",
    "loop": """x = f32[30,1000] parameter(0)  y = f32[30,1000] tanh(x)
        ROOT d = f32[30,1000] divide(y, f32[30,1000] exponential(x))""",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _own_cache(tmp_path):
    with flags.override(cache_dir=str(tmp_path / "cache")):
        cache.clear()
        yield
    cache.clear()


def module(name):
    add = "add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }"
    return axla.parse(f"HloModule m  {add}  ENTRY e {{ {CASES[name]} }}", elided="keep")


class Stopwatch:
    """Says that plan `wins` of every kernel is the fastest, and counts the plans that it was shown."""

    def __init__(self, wins=0):
        self.wins, self.shown = wins, []

    def __call__(self, calls):
        for call in calls:
            call()
        self.shown.append(len(calls))
        best = min(self.wins, len(calls) - 1)
        return [0.5 if number == best else 1.0 for number in range(len(calls))]


def compiled(given, stopwatch, **more):
    with flags.override(autotune=True, **more), tuning.measured_by(stopwatch):
        return axla.compile(given)


@pytest.mark.parametrize("name", CASES)
def test_every_plan_gives_the_same_bits(name):
    given = module(name)
    inputs = [*random_inputs(given, 3)]
    wanted = np.asarray(axla.compile(given)(*inputs))
    count, wins = 2, 1
    while wins < count:
        cache.clear(disk=True)
        stopwatch = Stopwatch(wins)
        found = np.asarray(compiled(given, stopwatch)(*inputs))
        assert found.tobytes() == wanted.tobytes(), wins
        count, wins = max(stopwatch.shown), wins + 1
    assert count > 2


def test_a_plan_that_wins_is_taken_and_remembered():
    given = module("edges")
    before = axla.compile(given).as_text("llvm")
    stopwatch = Stopwatch(4)
    with tuning.measured_by(stopwatch), flags.override(autotune=True):
        first = axla.compile(given).as_text("llvm")
        cache._memory.clear()  # as in another process
        assert axla.compile(given).as_text("llvm") == first != before
    assert len(stopwatch.shown) == 2  # all of them, then the winner beside the planned one
    assert axla.compile(given).as_text("llvm") == before


def test_a_plan_must_win_twice():
    given = module("edges")
    times = iter([[1.0, 0.5], [1.0, 1.2]])

    def measure(calls):
        return [*next(times), *[2.0] * (len(calls) - 2)]

    with tuning.measured_by(measure), flags.override(autotune=True):
        tuned = axla.compile(given).as_text("llvm")
    assert tuned == axla.compile(given).as_text("llvm") and next(times, None) is None


@pytest.mark.parametrize("damage", [
    b"", b"[]", b'["a plan of another version", 1.0, 0.5]', b'{"plan": 3}', b"\xff\x00", b"[1, 2, 3]",
])  # fmt: skip
def test_damaged_entries_are_measured_again(damage):
    given = module("edges")
    compiled(given, Stopwatch(1))
    [(_, _, path)] = cache.entries("tuning")
    cache._write(path, damage)  # with a digest that fits
    for _, _, program in list(cache.entries("program")):
        program.unlink()
    cache.clear()
    stopwatch = Stopwatch(1)
    compiled(given, stopwatch)
    assert stopwatch.shown
    path.write_bytes(b"no digest")
    cache.clear()
    for _, _, program in list(cache.entries("program")):
        program.unlink()
    again = Stopwatch(1)
    compiled(given, again)
    assert again.shown == stopwatch.shown


def test_no_kernel_is_begun_when_the_budget_is_used_up():
    given = axla.parse(f"""ENTRY e {{ a = f32[100,33] parameter(0)  b = f32[33,70] parameter(1)
        c = f32[100,70] dot(a, b), {DOT}  ROOT d = f32[100,50] dot(c, f32[70,50] parameter(2)), {DOT} }}""")
    now = iter([0.0, 9.0, 10.0])  # the beginning, and before each kernel
    first, second = Stopwatch(), Stopwatch()
    with flags.override(autotune=True, autotune_budget=10):
        with tuning.measured_by(first, lambda: next(now)):
            axla.compile(given)
        assert first.shown and next(now, None) is None
        with tuning.measured_by(second, lambda: 0.0):
            axla.compile(given)  # the program was not kept; what was found is
        assert len(second.shown) == len(first.shown)
        with tuning.measured_by(second, lambda: 0.0):
            axla.compile(given)
        assert len(second.shown) == len(first.shown)


def test_ctrl_c_ends_it_and_leaves_what_was_found():
    given = axla.parse(f"""ENTRY e {{ a = f32[100,33] parameter(0)  b = f32[33,70] parameter(1)
        c = f32[100,70] dot(a, b), {DOT}  ROOT d = f32[100,50] dot(c, f32[70,50] parameter(2)), {DOT} }}""")
    stopwatch = Stopwatch()

    def interrupted(calls):
        if stopwatch.shown:
            raise KeyboardInterrupt
        return stopwatch(calls)

    with pytest.raises(KeyboardInterrupt):
        compiled(given, interrupted)
    assert len([*cache.entries("tuning")]) == 1
    after = Stopwatch()
    compiled(given, after)
    assert len(after.shown) == 1


def test_without_the_flag_and_for_other_machines_nothing_is_tried():
    stopwatch = Stopwatch()
    with tuning.measured_by(stopwatch):
        axla.compile(module("edges"))
    compiled(module("edges"), stopwatch, cpu_max_isa="SSE4_2")
    assert len(stopwatch.shown) == 1  # of a machine that is limited to SSE4, which runs here
    with flags.override(autotune=True), tuning.measured_by(stopwatch):
        axla.compile(module("edges"), backend="one-lane")
    assert len(stopwatch.shown) == 1


def test_profiles_and_progress_tell_of_it():
    given = module("edges")
    seen = []
    with axla.profile() as profile, axla.progress(lambda *step: seen.append(step)):
        compiled(given, Stopwatch(1))(*random_inputs(given))
    text = profile.to_text()
    assert "tuning: 1 kernels, 1 with another plan" in text and "dot 1 x [100,33] x [33,70]: cut." in text
    assert ("tuning", 1, 1) in seen
    with axla.profile() as profile:
        axla.compile(given)(*random_inputs(given))
    assert "tuning" not in profile.to_text()


def test_the_stopwatch_runs_each_call():
    counts = [0, 0]

    def call(number):
        counts[number] += 1

    times = tuning.seconds_of([lambda: call(0), lambda: call(1)])
    assert len(times) == 2 and min(counts) > 2 and all(0 <= t < float("inf") for t in times)


def test_the_flag_says_on_and_off():
    assert flags.parse("--xla_cpu_autotune=on --axla_autotune_budget=5") == {
        "autotune": True, "autotune_budget": 5,
    }  # fmt: skip
    assert flags.parse("--xla_cpu_autotune=off") == {"autotune": False}
