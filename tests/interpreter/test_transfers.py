"""Transfers with the host and between halves of one program, on every backend."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import axla
from axla.client import Client
from axla.core.dtypes import F32, S32
from axla.core.shape import Shape, TupleShape

BACKENDS = ("interpreter", "cpu", "one-lane")

FEED = """
ENTRY e {
  t = token[] after-all()
  i = ((f32[3], s32[2]), token[]) infeed(t)
  d = (f32[3], s32[2]) get-tuple-element(i), index=0
  x = f32[3] get-tuple-element(d), index=0
  y = s32[2] get-tuple-element(d), index=1
  t1 = token[] get-tuple-element(i), index=1
  n = f32[3] negate(x)
  o = (f32[3], s32[2]) tuple(n, y)
  t2 = token[] outfeed(o, t1), outfeed_shape=(f32[3], s32[2])
  ROOT r = f32[3] add(x, x)
}"""

LOOP = """
condition {
  c = (s32[], f32[], token[]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(4)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  b = (s32[], f32[], token[]) parameter(0)
  i = s32[] get-tuple-element(b), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  sum = f32[] get-tuple-element(b), index=1
  t = token[] get-tuple-element(b), index=2
  fed = (f32[], token[]) infeed(t)
  value = f32[] get-tuple-element(fed), index=0
  t1 = token[] get-tuple-element(fed), index=1
  total = f32[] add(sum, value)
  t2 = token[] outfeed(total, t1)
  ROOT r = (s32[], f32[], token[]) tuple(next, total, t2)
}
ENTRY e {
  i = s32[] constant(0)
  z = f32[] constant(0)
  t = token[] after-all()
  init = (s32[], f32[], token[]) tuple(i, z, t)
  w = (s32[], f32[], token[]) while(init), condition=condition, body=body
  ROOT r = f32[] get-tuple-element(w), index=1
}"""

SELF = """
ENTRY e {
  x = f32[4] parameter(0)
  t = token[] after-all()
  r = (f32[4], u32[], token[]) recv(t), channel_id=1
  rd = (f32[4], token[]) recv-done(r), channel_id=1
  n = f32[4] negate(x)
  s = (f32[4], u32[], token[]) send(n, t), channel_id=1
  sd = token[] send-done(s), channel_id=1
  g = f32[4] get-tuple-element(rd), index=0
  ROOT q = f32[4] multiply(g, g)
}"""


@pytest.fixture
def feeds():
    """The queues of device 0, empty before and after."""
    found = axla.feeds()
    for feed in (found.infeed, found.outfeed):
        feed.clear()
    yield found
    for feed in (found.infeed, found.outfeed):
        feed.clear()
        feed.timeout = 60.0


@pytest.fixture(params=BACKENDS)
def fed(request):
    return axla.compile(axla.parse(FEED), backend=request.param)


def test_values_go_in_and_out(feeds, fed):
    for k in range(3):
        feeds.infeed.put((np.full(3, k, np.float32), np.array([k, 7], np.int32)))
    for k in range(3):
        assert np.asarray(fed()).tolist() == [2 * k] * 3
    for k in range(3):
        data, more = feeds.outfeed.get(timeout=5)
        assert data.tolist() == [-k] * 3 and more.tolist() == [k, 7]
    assert len(feeds.infeed) == len(feeds.outfeed) == 0


def test_a_program_waits_for_the_host(feeds, fed):
    def later():
        time.sleep(0.05)
        feeds.infeed.put((np.ones(3, np.float32), np.zeros(2, np.int32)))

    thread = threading.Thread(target=later)
    thread.start()
    assert np.asarray(fed()).tolist() == [2.0] * 3
    thread.join()


def test_waiting_ends(feeds, fed):
    with pytest.raises(axla.DeadlineExceeded):
        fed.execute([], deadline=0.1)
    feeds.infeed.timeout = 0.05
    with pytest.raises(axla.DeadlineExceeded, match="infeed of device 0: nothing came for 0.05 s"):
        fed()
    with pytest.raises(axla.DeadlineExceeded, match="outfeed of device 0"):
        feeds.outfeed.get(timeout=0.01)


def test_waiting_is_cancelled(feeds):
    fed = axla.compile(axla.parse(FEED))
    assert isinstance(fed, axla.Executable)
    timer = threading.Timer(0.1, fed.cancel)
    timer.start()
    with pytest.raises(axla.Cancelled):
        fed()
    timer.join()


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(3),
        (np.zeros(3, "f4"),),
        (np.zeros(3), np.zeros(2, "i4")),
        (np.zeros(4, "f4"), np.zeros(2, "i4")),
        (np.zeros(3, "f4"), (np.zeros(2, "i4"),)),
    ],
)
def test_another_shape_is_refused(feeds, fed, value):
    feeds.infeed.put(value)
    with pytest.raises(axla.InvalidArgument, match=r"infeed of device 0.*wanted"):
        fed()


def test_what_is_no_array_is_refused(feeds):
    with pytest.raises(axla.InvalidArgument, match="wanted arrays"):
        feeds.infeed.put(object())
    with pytest.raises(axla.InvalidArgument, match="timeout"):
        feeds.outfeed.get(timeout=-1)
    with pytest.raises(axla.InvalidArgument, match="device"):
        axla.feeds(-1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tokens_keep_the_order_in_a_loop(feeds, backend):
    program = axla.compile(axla.parse(LOOP), backend=backend)
    for k in (1, 2, 3, 4):
        feeds.infeed.put(np.float32(k))
    assert float(np.asarray(program())) == 10
    assert [float(feeds.outfeed.get(5)) for _ in range(4)] == [1, 3, 6, 10]


def test_the_client_transfers(feeds):
    client = Client("interpreter")
    client.TransferToInfeed(axla.Literal.of((np.ones(3, np.float32), np.zeros(2, np.int32))))
    axla.compile(axla.parse(FEED))()
    shape = TupleShape((Shape(F32, (3,)), Shape(S32, (2,))))
    assert client.TransferFromOutfeed(shape).elements[0].array.tolist() == [-1] * 3
    feeds.infeed.put((np.ones(3, np.float32), np.zeros(2, np.int32)))
    axla.compile(axla.parse(FEED))()
    with pytest.raises(axla.InvalidArgument, match="TransferFromOutfeed"):
        client.TransferFromOutfeed(Shape(F32, (3,)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_replica_sends_to_itself(backend):
    program = axla.compile(axla.parse(SELF), backend=backend)
    assert np.asarray(program(np.arange(4, dtype=np.float32))).tolist() == [0, 1, 4, 9]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_nobody_receives_is_sent_all_the_same(backend):
    lines = [line for line in SELF.splitlines() if not line.lstrip().startswith(("r =", "rd =", "g ="))]
    text = "\n".join(lines).replace("multiply(g, g)", "multiply(n, n)")
    program = axla.compile(axla.parse(text), backend=backend)
    assert np.asarray(program(np.arange(4, dtype=np.float32))).tolist() == [0, 1, 4, 9]


HOST = """
ENTRY e {
  x = f32[3] parameter(0)
  t = token[] after-all()
  s = (f32[3], u32[], token[]) send(x, t), channel_id=3, is_host_transfer=true
  d = token[] send-done(s), channel_id=3, is_host_transfer=true
  r = (f32[3], u32[], token[]) recv(d), channel_id=4, is_host_transfer=true
  rd = (f32[3], token[]) recv-done(r), channel_id=4, is_host_transfer=true
  g = f32[3] get-tuple-element(rd), index=0
  ROOT sum = f32[3] add(g, x)
}"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_host_transfers_have_a_queue_per_channel(feeds, backend):
    """The host answers to what it was sent."""
    program = axla.compile(axla.parse(HOST), backend=backend)
    answer = threading.Thread(
        target=lambda: feeds.from_host(4).put(feeds.to_host(3).get(timeout=20) * 10), daemon=True
    )
    answer.start()
    assert np.asarray(program(np.float32([1, 2, 3]))).tolist() == [11, 22, 33]
    answer.join(20)
    assert len(feeds.to_host(3)) == len(feeds.from_host(4)) == 0
    feeds.from_host(4).put(np.zeros(2, np.float32))
    with pytest.raises(axla.InvalidArgument, match=r"channel 4 from the host, of device 0.*wanted f32.3."):
        program(np.zeros(3, np.float32))
    feeds.to_host(3).clear()
    with pytest.raises(axla.InvalidArgument, match="to_host: channel=-1"):
        feeds.to_host(-1)


# What the loop sends, 0, 1 and 2, is received behind it; before it, 5 is sent that its first step receives.
APART = """
condition {
  c = (s32[], s32[], token[]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  b = (s32[], s32[], token[]) parameter(0)
  i = s32[] get-tuple-element(b), index=0
  sum = s32[] get-tuple-element(b), index=1
  t = token[] after-all()
  r = (s32[], u32[], token[]) recv(t), channel_id=2
  rd = (s32[], token[]) recv-done(r), channel_id=2
  g = s32[] get-tuple-element(rd), index=0
  total = s32[] add(sum, g)
  s = (s32[], u32[], token[]) send(i, t), channel_id=1
  sd = token[] send-done(s), channel_id=1
  s2 = (s32[], u32[], token[]) send(total, t), channel_id=2
  sd2 = token[] send-done(s2), channel_id=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT result = (s32[], s32[], token[]) tuple(next, total, sd)
}
ENTRY e {
  x = s32[] parameter(0)
  t = token[] after-all()
  s = (s32[], u32[], token[]) send(x, t), channel_id=2
  sd = token[] send-done(s), channel_id=2
  zero = s32[] constant(0)
  init = (s32[], s32[], token[]) tuple(zero, zero, sd)
  w = (s32[], s32[], token[]) while(init), condition=condition, body=body
  t1 = token[] get-tuple-element(w), index=2
  r = (s32[], u32[], token[]) recv(t1), channel_id=1
  rd = (s32[], token[]) recv-done(r), channel_id=1
  t2 = token[] get-tuple-element(rd), index=1
  r2 = (s32[], u32[], token[]) recv(t2), channel_id=1
  rd2 = (s32[], token[]) recv-done(r2), channel_id=1
  first = s32[] get-tuple-element(rd), index=0
  second = s32[] get-tuple-element(rd2), index=0
  sum = s32[] get-tuple-element(w), index=1
  ROOT all = (s32[], s32[], s32[]) tuple(first, second, sum)
}"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_halves_in_different_computations(backend):
    program = axla.compile(axla.parse(APART), backend=backend)
    for _ in range(2):  # what a run leaves behind is not of the next
        # 5, 5 + 5, 10 + 10
        assert [int(v) for v in program(np.int32(5))] == [0, 1, 20]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_sent_too_late(backend):
    text = APART.replace("send(x, t), channel_id=2", "send(x, t), channel_id=9").replace(
        "send-done(s), channel_id=2\n  zero", "send-done(s), channel_id=9\n  zero"
    )
    with pytest.raises(axla.RuntimeFailure, match="on channel 2"):
        axla.compile(axla.parse(text), backend=backend)(np.int32(5))


def test_what_nobody_sends_is_no_hang():
    text = SELF.replace("send(n, t), channel_id=1", "send(n, t), channel_id=2").replace(
        "send-done(s), channel_id=1", "send-done(s), channel_id=2"
    )
    with pytest.raises(axla.RuntimeFailure, match="nothing was sent on channel 1"):
        axla.compile(axla.parse(text), backend="interpreter")(np.ones(4, np.float32))
    with pytest.raises(axla.UnsupportedError, match="recv|send"):
        axla.compile(axla.parse(text))


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_received_is_not_needed_to_send_it(backend):
    text = SELF.replace("n = f32[4] negate(x)", "n = f32[4] get-tuple-element(rd), index=0")
    with pytest.raises((axla.RuntimeFailure, axla.UnsupportedError), match="recv|send"):
        axla.compile(axla.parse(text), backend=backend)(np.ones(4, np.float32))


IN_PLACE = """
ENTRY e {
  x = f32[4,4] parameter(0)
  y = f32[4,4] parameter(1)
  i = s32[] parameter(2)
  z = s32[] constant(0)
  a = (s32[], s32[]) tuple(z, i)
  b = (s32[], s32[]) tuple(i, z)
  ROOT r = f32[4,4] collective-permute(x, y, a, b), channel_id=1, source_target_pairs={{0,0}},
    slice_sizes={{2,3}}
}"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_slice_is_moved_in_place(backend):
    """Offsets are clamped, as those of slices are; who is not a target keeps its output."""
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    found = axla.compile(axla.parse(IN_PLACE), backend=backend)(x, -x, np.int32(9))
    wanted = -x
    wanted[2:, :3] = x[:2, 1:]
    assert np.array_equal(np.asarray(found), wanted)
    kept = axla.compile(axla.parse(IN_PLACE.replace("{0,0}", "{0,1}")), backend=backend)
    assert np.array_equal(np.asarray(kept(x, -x, np.int32(1))), -x)


RAGGED = """
ENTRY e {
  d = f32[6,2] parameter(0)
  o = f32[5,2] parameter(1)
  a = s64[2] constant({1,4})
  b = s64[2] constant({2,1})
  c = s64[2] constant({3,0})
  ROOT q = f32[5,2] ragged-all-to-all(d, o, a, b, c, b), replica_groups={{0}}
}"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_ragged_all_to_all_of_one_replica(backend):
    data, output = np.arange(12, dtype=np.float32).reshape(6, 2), np.full((5, 2), -1, np.float32)
    found = np.asarray(axla.compile(axla.parse(RAGGED), backend=backend)(data, output))
    wanted = output.copy()
    wanted[3:5], wanted[0] = data[1:3], data[4]
    assert found.tolist() == wanted.tolist()


COMBINED = """
ENTRY e {
  x = f32[2] parameter(0)
  y = s32[3] parameter(1)
  s = ((f32[2], s32[3]), (f32[2], s32[3])) collective-permute-start(x, y), source_target_pairs={{0,0}}
  ROOT d = (f32[2], s32[3]) collective-permute-done(s)
}"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_permutes_of_several_arrays(backend):
    program = axla.compile(axla.parse(COMBINED), backend=backend)
    x, y = program(np.ones(2, np.float32), np.arange(3, dtype=np.int32))
    assert np.asarray(x).tolist() == [1, 1] and np.asarray(y).tolist() == [0, 1, 2]


def test_what_goes_in_is_refused_at_once_where_it_can_be(feeds):
    deep = np.float32(1)
    for _ in range(100_000):
        deep = (deep,)
    with pytest.raises(axla.InvalidArgument, match="nested too deep"):
        feeds.infeed.put(deep)
    with pytest.raises(axla.InvalidArgument, match="wanted seconds of at least 0"):
        feeds.outfeed.get(timeout="a")
    assert len(feeds.infeed) == 0
