"""Runs of several participants that fail or are stopped: all of them end, with one failure, and what the
caller gave stays.
"""

import gc
import threading

import numpy as np
import pytest

import axla
from axla.core.errors import AxlaError, CustomCallFailure, DeadlineExceeded, OutOfMemory
from axla.custom.feeds import current
from axla.custom.mailbox import Mailbox
from axla.program import abi
from axla.runtime.grid import Grid
from axla.runtime.queue import Task

ADD = """f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""
FAILS = """ENTRY e { x = f32[4] parameter(0)
  ROOT r = f32[4] custom-call(x), custom_call_target="test.fails_for_ones" }"""
ENDLESS = """body { t = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  v = f32[4] get-tuple-element(t), index=1
  w = f32[4] sine(v)
  ROOT r = (s32[], f32[4]) tuple(i, w) }
cond { t = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  z = s32[] constant(1)
  ROOT c = pred[] compare(i, z), direction=LT }
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] custom-call(x), custom_call_target="test.fails_for_ones"
  z = s32[] constant(0)
  t = (s32[], f32[4]) tuple(z, y)
  w = (s32[], f32[4]) while(t), condition=cond, body=body
  ROOT r = f32[4] get-tuple-element(w), index=1 }"""
SUM = """ENTRY e { x = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(x), to_apply=f }"""
ONES, ZEROS = np.ones(4, np.float32), np.zeros(4, np.float32)


def program(text, more=""):
    return axla.compile(axla.parse(f"HloModule m, replica_count=2{more}\n{ADD}{text}"), backend="cpu")


@pytest.fixture(autouse=True)
def fails_for_ones():
    def fails(x):
        if x[0] == 1:
            raise ValueError("it is one")
        return x

    axla.register_custom_call("test.fails_for_ones", fails)


def test_a_failure_stops_those_that_only_compute():
    executable = program(ENDLESS)
    results = executable.execute_replicated([[ONES], [ZEROS]], asynchronous=True)
    try:
        for row in results:
            with pytest.raises(CustomCallFailure, match="it is one"):
                row[0].block_until_ready(20)
    finally:
        executable.cancel()
    with pytest.raises(CustomCallFailure, match="it is one"):
        executable.execute_replicated([[ZEROS], [ONES]], deadline=30)


def test_a_deadline_is_kept_before_the_turn_of_the_run():
    first = program(ENDLESS)
    (row, _) = first.execute_replicated([[ZEROS]] * 2, asynchronous=True)
    try:
        with pytest.raises(DeadlineExceeded, match="replica 1, partition 0 has not begun"):
            program(SUM).execute_replicated([[ONES]] * 2, deadline=0.05)
        assert not row[0].is_ready()
    finally:
        first.cancel()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_all_get_the_failure_of_an_input(asynchronous):
    go = threading.Event()

    def later(x):
        go.wait(30)
        raise ValueError("it came to nothing")

    axla.register_custom_call("test.fails_later", later)
    maker = axla.parse(f"HloModule s\n{FAILS.replace('test.fails_for_ones', 'test.fails_later')}")
    made = axla.compile(maker, device_assignment=[[0]]).execute([ONES], asynchronous=True)
    given = [[axla.device_put(ZEROS)], [made if isinstance(made, axla.Array) else made[0]]]
    executable = program(SUM)
    if not asynchronous:
        go.set()
        with pytest.raises(CustomCallFailure, match="it came to nothing"):
            executable.execute_replicated(given, deadline=30)
        return
    results = executable.execute_replicated(given, asynchronous=True)
    go.set()
    for row in results:
        with pytest.raises(CustomCallFailure, match="it came to nothing"):
            row[0].block_until_ready(20)


def test_donated_arrays_stay_when_the_run_does_not_begin(monkeypatch):
    """There is no memory for the results of the second participant."""
    text = """ENTRY e { x = f32[4] parameter(0)
  ROOT r = f32[4] add(x, x) }"""
    executable = program(text, ", input_output_alias={ {}: (0, {}, may-alias) }")
    given = [axla.device_put(ONES), axla.device_put(ONES)]
    made = []

    def make_results(task, donated, plain=Task._make_results):
        made.append(task)
        if len(made) == 2:
            raise OutOfMemory("no memory", abi.OUT_OF_MEMORY)
        plain(task, donated)

    with monkeypatch.context() as patched:
        patched.setattr(Task, "_make_results", make_results)
        with pytest.raises(OutOfMemory, match="no memory"):
            executable.execute_replicated([[x] for x in given])
    made.clear()
    assert [x.tolist() for x in given] == [[1.0] * 4] * 2
    found = executable.execute_replicated([[x] for x in given])
    assert all(x.is_deleted for x in given) and [row[0].tolist() for row in found] == [[2.0] * 4] * 2


def test_a_deadline_says_what_everybody_does():
    go, inside = threading.Event(), threading.Event()

    def held(x):
        if x[0] == 1:
            inside.set()
            go.wait(30)
        return x

    axla.register_custom_call("test.held_for_ones", held)
    text = """ENTRY e { x = f32[4] parameter(0)
  y = f32[4] custom-call(x), custom_call_target="test.held_for_ones"
  ROOT r = f32[4] all-reduce(y), to_apply=f }"""
    executable = program(text)
    first, second = executable.execute_replicated([[ZEROS], [ONES]], asynchronous=True)
    task = executable._loaded.queue._tasks[-1]
    while task.grid.states[0] <= 0 or not inside.wait(0.01):  # until it is in the collective
        pass
    task.stop(abi.DEADLINE)
    match = r"replica 0, partition 0 in .* for \(replica 1, partition 0\); replica 1, partition 0 runs"
    with pytest.raises(DeadlineExceeded, match=match):
        first[0].block_until_ready(20)
    go.set()
    with pytest.raises(DeadlineExceeded, match=match):
        second[0].block_until_ready(20)


def test_who_has_taken_a_letter_does_not_wait():
    """Two looks in the moment after a participant has received, before it goes on."""
    grid = Grid(1, 1, [0])

    class Slow(Mailbox):
        def take(self, *arguments):
            value = super().take(*arguments)
            grid.look()
            grid.look()
            return value

    grid.mailbox = Slow()
    grid.mailbox.send("here", 5)
    assert grid.receive(0, "here", "in recv", current.check) == 5
    assert grid.failure is None and not grid.struct.stop


def test_a_failure_that_one_result_told_is_not_logged(caplog):
    executable = program(FAILS)
    results = executable.execute_replicated([[ONES]] * 2, asynchronous=True)
    with pytest.raises(AxlaError, match="it is one"):
        results[0][0].block_until_ready(20)
    del results
    executable.execute_replicated([[ZEROS]] * 2)
    gc.collect()
    assert not caplog.records
