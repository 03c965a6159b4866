"""One participant of a run in this process fails: all get a clear error within the
deadline, nothing hangs, and the client works on.
"""

import threading
import time

import numpy as np
import pytest

import axla
from axla.core.errors import AxlaError, Cancelled, CollectiveFailure, DeadlineExceeded, InvalidArgument

HEAD = """HloModule m, replica_count=REPLICAS
f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""
SUM = """ENTRY e { x = f32[8] parameter(0)
  ROOT r = f32[8] all-reduce(x), to_apply=f }"""
FED = """ENTRY e { x = f32[8] parameter(0)
  t = token[] after-all()
  i = (f32[8], token[]) infeed(t)
  y = f32[8] get-tuple-element(i), index=0
  s = f32[8] add(x, y)
  ROOT r = f32[8] all-reduce(s), to_apply=f }"""
GIVING = """ENTRY e { x = f32[8] parameter(0)
  t = token[] after-all()
  o = token[] outfeed(x, t)
  ROOT r = f32[8] all-reduce(x), to_apply=f, control-predecessors={o} }"""
ONE_WAITS = """ENTRY e { x = f32[8] parameter(0)
  c = f32[8] custom-call(x), custom_call_target="test.one_waits"
  ROOT r = f32[8] all-reduce(c), to_apply=f }"""
ENDLESS = """body { t = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  v = f32[8] get-tuple-element(t), index=1
  w = f32[8] all-reduce(v), to_apply=f
  ROOT r = (s32[], f32[8]) tuple(i, w) }
cond { t = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  z = s32[] constant(1)
  ROOT c = pred[] compare(i, z), direction=LT }
ENTRY e { x = f32[8] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[8]) tuple(z, x)
  w = (s32[], f32[8]) while(t), condition=cond, body=body
  ROOT r = f32[8] get-tuple-element(w), index=1 }"""
ONES = np.ones(8, np.float32)


def program(text, replicas=2):
    return axla.compile(axla.parse(HEAD.replace("REPLICAS", str(replicas)) + text), backend="cpu")


@pytest.fixture
def works_on():
    """A run before and one after on the same devices."""
    good = program(SUM, 4)

    def check():
        found = good.execute_replicated([[ONES]] * 4, deadline=30)
        assert all(np.asarray(leaf).tolist() == [4.0] * 8 for (leaf,) in found)

    check()
    yield
    check()


@pytest.fixture
def feeds():
    found = [axla.feeds(n) for n in range(2)]
    for one in found:
        for feed in (one.infeed, one.outfeed):
            feed.clear()
            feed.timeout, feed.most = 0.2, None
    yield found
    for one in found:
        for feed in (one.infeed, one.outfeed):
            feed.clear()
            feed.timeout, feed.most = 60.0, None


def all_fail(executable, rows, error, match, but=(), **options):
    """The run fails, soon; and so do results of a run that nobody waits for, but for some that end before."""
    begin = time.monotonic()
    with pytest.raises(error, match=match):
        executable.execute_replicated(rows, **options)
    results = executable.execute_replicated(rows, asynchronous=True, **options)
    for row in (row for number, row in enumerate(results) if number not in but):
        with pytest.raises(error, match=match):
            np.asarray(row[0])
    assert time.monotonic() - begin < 20


def test_an_infeed_that_is_empty(works_on, feeds):
    for _ in range(2):
        feeds[0].infeed.put(ONES)
    all_fail(program(FED), [[ONES]] * 2, DeadlineExceeded, "infeed of device 1: nothing came")


def test_an_infeed_that_is_closed(works_on, feeds):
    feeds[0].infeed.timeout = feeds[1].infeed.timeout = 60.0
    for _ in range(2):
        feeds[0].infeed.put(ONES)
    feeds[1].infeed.close()
    all_fail(program(FED), [[ONES]] * 2, AxlaError, "infeed of device 1: it is closed")
    with pytest.raises(InvalidArgument, match="it is closed"):
        feeds[1].infeed.put(ONES)


def test_an_infeed_that_is_closed_while_a_run_waits_for_it(works_on, feeds):
    feeds[0].infeed.timeout = feeds[1].infeed.timeout = 60.0
    feeds[0].infeed.put(ONES)
    (row, other) = program(FED).execute_replicated([[ONES]] * 2, asynchronous=True)
    feeds[1].infeed.close()
    for result in (row[0], other[0]):
        with pytest.raises(AxlaError, match="infeed of device 1: it is closed"):
            np.asarray(result)


def test_what_waits_in_a_closed_infeed_is_taken(works_on, feeds):
    for feed in feeds:
        feed.infeed.put(ONES)
        feed.infeed.close()
    found = program(FED).execute_replicated([[ONES]] * 2, deadline=30)
    assert np.asarray(found[1][0]).tolist() == [4.0] * 8


def test_an_infeed_of_a_wrong_type(works_on, feeds):
    for wrong in (np.ones(8, np.float64), np.ones(9, np.float32)) * 1:
        feeds[0].infeed.clear()
        for _ in range(2):
            feeds[0].infeed.put(ONES)
            feeds[1].infeed.put(wrong)
        all_fail(program(FED), [[ONES]] * 2, AxlaError, "infeed of device 1: array 0 of the value is")


def test_queues_that_are_full(works_on, feeds):
    feeds[1].outfeed.most = 1
    executable = program(GIVING)
    executable.execute_replicated([[ONES]] * 2)
    all_fail(executable, [[ONES]] * 2, AxlaError, "outfeed of device 1: it is full, with 1 values")
    feeds[0].infeed.most = 2
    feeds[0].infeed.put(ONES)
    feeds[0].infeed.put(ONES)
    with pytest.raises(InvalidArgument, match="infeed of device 0: it is full, with 2 values"):
        feeds[0].infeed.put(ONES)


def test_an_argument_of_a_wrong_shape(works_on):
    executable = program(SUM)
    for wrong in (np.ones(9, np.float32), np.ones(8, np.float64), "text"):
        with pytest.raises(InvalidArgument, match="x"):
            executable.execute_replicated([[ONES], [wrong]])
    with pytest.raises(InvalidArgument, match="inputs of 2 devices are wanted, found 1"):
        executable.execute_replicated([[ONES]])


def test_a_message_of_a_wrong_shape():
    sender = axla.parse("""HloModule sender
ENTRY e { x = f32[3] parameter(0)
  t = token[] after-all()
  s = (f32[3], u32[], token[]) send(x, t), channel_id=7
  ROOT d = token[] send-done(s), channel_id=7 }""")
    receiver = axla.parse("""HloModule receiver
ENTRY e { t = token[] after-all()
  s = (f32[4], u32[], token[]) recv(t), channel_id=7
  d = (f32[4], token[]) recv-done(s), channel_id=7
  ROOT v = f32[4] get-tuple-element(d), index=0 }""")
    with pytest.raises(AxlaError, match=r"f32\[4\]"):
        axla.backends.get("cpu").execute_parallel([sender, receiver], [[np.ones(3, np.float32)], []])


@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_a_participant_that_never_arrives(how, replicas, works_on):
    """The others wait in the collective; the one is held in a function until the test lets it go."""
    go, inside = threading.Event(), threading.Event()

    def one_waits(x):
        if x[0] == replicas - 1:
            inside.set()
            go.wait(30)
        return x

    axla.register_custom_call("test.one_waits", one_waits)
    executable = program(ONE_WAITS, replicas)
    rows = [[np.full(8, n, np.float32)] for n in range(replicas)]
    results = executable.execute_replicated(
        rows, asynchronous=True, deadline=0.3 if how == "deadline" else None
    )
    assert inside.wait(30)
    if how == "cancel":
        executable.cancel()
    for row in results[:-1]:  # at once, though one is still in its function
        with pytest.raises(Cancelled if how == "cancel" else DeadlineExceeded):
            row[0].block_until_ready(20)
    go.set()
    with pytest.raises(Cancelled if how == "cancel" else DeadlineExceeded):
        np.asarray(results[-1][0])


@pytest.mark.parametrize("replicas", [2, 4])
def test_cancelling_stops_the_runs_of_all_queues(replicas, works_on):
    executable = program(ENDLESS, replicas)
    results = executable.execute_replicated([[np.zeros(8, np.float32)]] * replicas, asynchronous=True)
    assert executable.cancel() == 1
    for row in results:
        with pytest.raises(Cancelled):
            np.asarray(row[0])
    assert executable.cancel() == 0


def test_runs_that_wait_for_their_turn_are_cancelled_too(works_on):
    executable = program(ENDLESS)
    rows = [[np.zeros(8, np.float32)]] * 2
    every = [executable.execute_replicated(rows, asynchronous=True) for _ in range(3)]
    assert executable.cancel() == 3
    for results in every:
        for row in results:
            with pytest.raises(Cancelled):
                np.asarray(row[0])


def test_a_wait_for_ever_names_all(works_on):
    """Replica 1 leaves out the collective: the others wait for it alone."""
    text = """with { a = f32[8] parameter(0)
  ROOT r = f32[8] all-reduce(a), to_apply=f }
without { ROOT a = f32[8] parameter(0) }
ENTRY e { x = f32[8] parameter(0)
  id = u32[] replica-id()
  one = u32[] constant(1)
  p = pred[] compare(id, one), direction=NE
  ROOT r = f32[8] conditional(p, x, x), true_computation=with, false_computation=without }"""
    match = r"replica 0, partition 0 in .* for \(replica 1, partition 0\); replica 2, partition 0 in"
    all_fail(program(text, 3), [[ONES]] * 3, CollectiveFailure, match, but=[1])


def test_dynamic_sizes_on_several_devices():
    text = """ENTRY e { x = f32[<=8] parameter(0)
  n = f32[<=8] negate(x)
  z = f32[] constant(0)
  s = f32[] reduce(n, z), dimensions={0}, to_apply=f
  r = f32[] all-reduce(s), to_apply=f
  ROOT t = (f32[<=8], f32[]) tuple(n, r) }"""
    executable = program(text)
    rows = [[np.ones(3, np.float32)], [np.ones(5, np.float32)]]
    for options in ({}, {"asynchronous": True}, {"deadline": 30.0}):
        found = executable.execute_replicated(rows, **options)
        assert [np.asarray(row[0]).tolist() for row in found] == [[-1.0] * 3, [-1.0] * 5]
        assert [float(np.asarray(row[1])) for row in found] == [-8.0] * 2
        assert [leaf.device for row in found for leaf in row] == [0, 0, 1, 1]
    with pytest.raises(InvalidArgument, match="x"):
        executable.execute_replicated([rows[0], [np.ones(9, np.float32)]])


def test_a_profile_has_the_steps_of_all_devices():
    executable = program(SUM)
    with axla.profile() as profile:
        for _ in range(3):
            executable.execute_replicated([[ONES]] * 2)
    (run,) = profile.runs
    assert run.calls == 3
    (step,) = [step for step in run.steps if step.row.kind == "collective"]
    assert step.calls == 3 and step.ns > 0
    assert np.asarray(executable.execute_replicated([[ONES]] * 2)[1][0]).tolist() == [2.0] * 8
