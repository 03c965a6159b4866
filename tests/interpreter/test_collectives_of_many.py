"""Collectives of several replicas and partitions, against NumPy."""

from __future__ import annotations

import _thread
import threading

import numpy as np
import pytest

import axla
from axla.core.errors import (
    CollectiveFailure,
    DeadlineExceeded,
    InvalidArgument,
    UnsupportedError,
    VerifyError,
)
from axla.tools import main as command

ADD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
"""


def run(body: str, inputs, replicas: int, partitions: int = 1, before: str = ADD, **settings):
    """The first result leaf of every device."""
    module = axla.parse(f"HloModule m\n{before}\nENTRY e {{\n{body}\n}}")
    program = axla.compile(module, backend="interpreter", num_replicas=replicas, num_partitions=partitions)
    return [leaves[0] for leaves in program.execute_replicated(inputs, **settings)]


def data(count: int, shape=(4,)) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(5)
    return [[rng.integers(-9, 9, shape).astype(np.float32)] for _ in range(count)]


def same(found, wanted):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


# Groups: replicas, partitions, both, devices.

GROUPS = [
    ("replica_groups={}", 4, 1, [[0, 1, 2, 3]]),
    ("replica_groups={{0,2},{1,3}}", 4, 1, [[0, 2], [1, 3]]),
    ("replica_groups=[2,2]<=[4]", 4, 1, [[0, 1], [2, 3]]),
    ("replica_groups=[2,2]<=[2,2]T(1,0)", 4, 1, [[0, 2], [1, 3]]),
    ("replica_groups={{0,1}}", 2, 2, [[0, 2], [1, 3]]),  # within each partition
    ("replica_groups={{0},{1}}, channel_id=1", 2, 2, [[0, 1], [2, 3]]),  # all partitions of a replica
    ("replica_groups={{1,0}}, channel_id=1", 2, 2, [[2, 3, 0, 1]]),
    ("replica_groups={{0,3},{2,1}}, channel_id=1, use_global_device_ids=true", 2, 2, [[0, 3], [2, 1]]),
    ("replica_groups=[4,2]<=[8], channel_id=1, use_global_device_ids=true", 4, 2,
     [[0, 1], [2, 3], [4, 5], [6, 7]]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "replicas", "partitions", "groups"), GROUPS)
def test_all_gather_keeps_the_order_of_the_group(text, replicas, partitions, groups):
    given = data(replicas * partitions, (2, 3))
    size = len(groups[0])
    body = f"""x = f32[2,3] parameter(0)
      ROOT y = f32[2,{3 * size}] all-gather(x), dimensions={{1}}, {text}"""
    wanted = {}
    for group in groups:
        wanted.update(dict.fromkeys(group, np.concatenate([given[m][0] for m in group], 1)))
    same(run(body, given, replicas, partitions), [wanted[n] for n in range(len(given))])


@pytest.mark.parametrize(("text", "replicas", "partitions", "groups"), GROUPS)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_all_reduce(text, replicas, partitions, groups, asynchronous):
    given = data(replicas * partitions)
    body = f"x = f32[4] parameter(0)\nROOT y = f32[4] all-reduce(x), to_apply=add, {text}"
    if asynchronous:
        body = f"""x = f32[4] parameter(0)
          s = f32[4] all-reduce-start(x), to_apply=add, {text}
          ROOT y = f32[4] all-reduce-done(s)"""
    wanted = {m: sum(given[k][0] for k in group) for group in groups for m in group}
    same(run(body, given, replicas, partitions), [wanted[n] for n in range(len(given))])


def test_groups_of_different_sizes_and_several_operands():
    given = [[x[0], x[0][:2] + 1] for x in data(3)]
    body = """x = f32[4] parameter(0)
      y = f32[2] parameter(1)
      r = (f32[4], f32[2]) all-reduce(x, y), to_apply=add, replica_groups={{0,2},{1}}
      a = f32[4] get-tuple-element(r), index=0
      b = f32[2] get-tuple-element(r), index=1
      ROOT c = f32[6] concatenate(a, b), dimensions={0}"""
    wanted = [np.concatenate([given[0][k] + given[2][k] for k in (0, 1)]), np.concatenate(given[1])]
    same(run(body, given, 3), [wanted[0], wanted[1], wanted[0]])


def test_a_reduction_runs_in_the_order_of_the_group():
    first = """
    first {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      two = f32[] constant(2)
      t = f32[] multiply(a, two)
      ROOT c = f32[] add(t, b)
    }"""
    body = """x = f32[] parameter(0)
      ROOT y = f32[] all-reduce(x), to_apply=first, replica_groups={{2,0,1}}"""
    given = [[np.float32(n)] for n in (1, 10, 100)]
    same(run(body, given, 3, before=first), [np.float32((100 * 2 + 1) * 2 + 10)] * 3)


def test_reduce_scatter():
    given = data(4, (2, 6))
    body = """x = f32[2,6] parameter(0)
      ROOT y = f32[2,3] reduce-scatter(x), to_apply=add, dimensions={1}, replica_groups={{1,0},{2,3}}"""
    low, high = given[0][0] + given[1][0], given[2][0] + given[3][0]
    same(run(body, given, 4), [low[:, 3:], low[:, :3], high[:, :3], high[:, 3:]])


def test_all_to_all_of_parts():
    given = data(3, (6, 2))
    body = """x = f32[6,2] parameter(0)
      ROOT y = f32[6,2] all-to-all(x), dimensions={0}, replica_groups={{2,0,1}}"""
    order = [2, 0, 1]
    wanted = {m: np.concatenate([given[s][0][2 * n : 2 * n + 2] for s in order]) for n, m in enumerate(order)}
    same(run(body, given, 3), [wanted[n] for n in range(3)])


def test_all_to_all_of_operands_between_partitions():
    given = [[x[0], -x[0]] for x in data(2)]
    body = """x = f32[4] parameter(0)
      y = f32[4] parameter(1)
      r = (f32[4], f32[4]) all-to-all(x, y), channel_id=3, replica_groups={{0,1}}
      a = f32[4] get-tuple-element(r), index=0
      b = f32[4] get-tuple-element(r), index=1
      ROOT c = f32[8] concatenate(a, b), dimensions={0}"""
    wanted = [np.concatenate([given[0][k], given[1][k]]) for k in (0, 1)]
    same(run(body, given, 1, 2), wanted)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_permute_gives_zeros_to_who_is_no_target(asynchronous):
    given = data(5)
    pairs = "source_target_pairs={{0,1},{1,2},{3,3}}"
    body = f"x = f32[4] parameter(0)\nROOT y = f32[4] collective-permute(x), {pairs}"
    if asynchronous:
        body = f"""x = f32[4] parameter(0)
          s = (f32[4], f32[4], u32[], u32[]) collective-permute-start(x), {pairs}
          ROOT y = f32[4] collective-permute-done(s)"""
    zero = np.zeros(4, np.float32)
    same(run(body, given, 5), [zero, given[0][0], given[1][0], given[3][0], zero])


def test_permute_of_partitions_within_each_replica():
    given = data(4)
    body = """x = f32[4] parameter(0)
      ROOT y = f32[4] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}"""
    same(run(body, given, 2, 2), [given[n][0] for n in (1, 0, 3, 2)])


def test_broadcast_has_a_root_and_gives_zeros_outside():
    given = data(4)
    body = "x = f32[4] parameter(0)\nROOT y = f32[4] collective-broadcast(x), replica_groups={{2,1}}"
    zero = np.zeros(4, np.float32)
    same(run(body, given, 4), [zero, given[2][0], given[2][0], zero])


def test_roots_that_operands_say():
    given = [[*x, np.array([1], np.int32)] for x in data(3)]
    body = """x = f32[4] parameter(0)
      r = s32[1] parameter(1)
      ROOT y = f32[4] {}, replica_groups={{{{2,1}}}}, has_dynamic_root=true{}"""
    zero = np.zeros(4, np.float32)
    found = run(body.format("collective-broadcast(x, r)", ""), given, 3)
    same(found, [zero, given[1][0], given[1][0]])
    found = run(body.format("collective-reduce(x, r)", ", to_apply=add"), given, 3)
    same(found, [zero, given[1][0] + given[2][0], zero])
    given[1][1] = np.array([2], np.int32)
    with pytest.raises(CollectiveFailure, match=r"roots must be from 0 to 1, found \[2\]"):
        run(body.format("collective-broadcast(x, r)", ""), given, 3)


def test_reduce_to_the_first_of_a_group():
    given = data(3)
    body = """x = f32[4] parameter(0)
      ROOT y = f32[4] collective-reduce(x), to_apply=add, replica_groups={{1,0}}"""
    zero = np.zeros(4, np.float32)
    same(run(body, given, 3), [zero, given[0][0] + given[1][0], zero])


def test_ragged_all_to_all():
    rows = [np.arange(6, dtype=np.float32) + 10 * n for n in range(2)]
    starts, sizes = [[0, 2], [0, 1]], [[2, 3], [1, 4]]  # sender, receiver
    places = [[0, 0], [2, 3]]
    given = [
        [rows[n], np.full(8, -1, np.float32), *np.array([starts[n], sizes[n], places[n], [0, 0]], np.int32)]
        for n in range(2)
    ]
    body = """x = f32[6] parameter(0)
      o = f32[8] parameter(1)
      a = s32[2] parameter(2)
      b = s32[2] parameter(3)
      c = s32[2] parameter(4)
      d = s32[2] parameter(5)
      ROOT y = f32[8] ragged-all-to-all(x, o, a, b, c, d), replica_groups={{0,1}}"""
    wanted = [[0, 1, 10, -1, -1, -1, -1, -1], [2, 3, 4, 11, 12, 13, 14, -1]]
    same(run(body, given, 2), [np.array(w, np.float32) for w in wanted])


def test_ids():
    body = """r = u32[] replica-id()
      p = u32[] partition-id()
      ten = u32[] constant(10)
      t = u32[] multiply(r, ten)
      ROOT y = u32[] add(t, p)"""
    same(run(body, [[]] * 6, 2, 3), [np.uint32(n) for n in (0, 1, 2, 10, 11, 12)])


def test_rendezvous_by_key_in_loops_and_in_asynchronous_wrappers():
    before = (
        ADD
        + """
    wrapped {
      x = f32[4] parameter(0)
      ROOT y = f32[4] all-to-all(x), dimensions={0}, replica_groups={{0,1}}
    }
    condition {
      c = (s32[], f32[4]) parameter(0)
      i = s32[] get-tuple-element(c), index=0
      n = s32[] constant(3)
      ROOT less = pred[] compare(i, n), direction=LT
    }
    body {
      c = (s32[], f32[4]) parameter(0)
      i = s32[] get-tuple-element(c), index=0
      one = s32[] constant(1)
      j = s32[] add(i, one)
      x = f32[4] get-tuple-element(c), index=1
      y = f32[4] all-reduce(x), to_apply=add, replica_groups={{0,1}}
      s = ((f32[4]), f32[4], u32[]) async-start(y), calls=wrapped
      d = f32[4] async-done(s)
      ROOT r = (s32[], f32[4]) tuple(j, d)
    }"""
    )
    body = """x = f32[4] parameter(0)
      z = s32[] constant(0)
      t = (s32[], f32[4]) tuple(z, x)
      w = (s32[], f32[4]) while(t), condition=condition, body=body
      ROOT y = f32[4] get-tuple-element(w), index=1"""
    given = data(2)
    values = [x[0] for x in given]
    for _ in range(3):
        total = values[0] + values[1]
        values = [np.tile(total[:2], 2), np.tile(total[2:], 2)]
    same(run(body, given, 2, before=before), values)


def test_send_and_receive_go_to_their_pairs():
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,2}}"}'
    body = f"""x = f32[4] parameter(0)
      t = token[] after-all()
      r = (f32[4], u32[], token[]) recv(t), channel_id=1, {pairs}
      s = (f32[4], u32[], token[]) send(x, t), channel_id=1, {pairs}
      e = token[] send-done(s), channel_id=1
      d = (f32[4], token[]) recv-done(r), channel_id=1, control-predecessors={{e}}
      ROOT y = f32[4] get-tuple-element(d), index=0"""
    given = data(3)
    same(run(body, given, 3), [np.zeros(4, np.float32), given[0][0], given[1][0]])


# What goes wrong.

DIFFERENT = """
left {
  x = f32[4] parameter(0)
  ROOT y = f32[4] all-reduce(x), to_apply=add, replica_groups={{0,1}}
}
right {
  x = f32[4] parameter(0)
  ROOT y = f32[4] OTHER
}"""
BRANCH = """x = f32[4] parameter(0)
  r = u32[] replica-id()
  i = s32[] convert(r)
  ROOT y = f32[4] conditional(i, x, x), branch_computations={left, right}"""


def test_another_operation_at_a_rendezvous_is_named():
    other = "collective-permute(x), source_target_pairs={{0,1},{1,0}}"
    with pytest.raises(CollectiveFailure) as failed:
        run(BRANCH, data(2), 2, before=ADD + DIFFERENT.replace("OTHER", other))
    for part in ("all-reduce", "collective-permute", "replica 0", "replica 1"):
        assert part in failed.value.message


def test_who_never_comes_is_not_waited_for():
    with pytest.raises(CollectiveFailure, match="wait for ever: replica 0, partition 0 in .*all-reduce"):
        run(BRANCH, data(2), 2, before=ADD + DIFFERENT.replace("OTHER", "negate(x)"))


def test_a_message_that_nobody_sends():
    body = """t = token[] after-all()
      r = (f32[4], u32[], token[]) recv(t), channel_id=1
      d = (f32[4], token[]) recv-done(r), channel_id=1
      ROOT y = f32[4] get-tuple-element(d), index=0"""
    with pytest.raises(CollectiveFailure, match="recv-done.*nobody sent"):
        run(body, [[]] * 2, 2)


def test_the_failure_of_one_ends_all():
    before = ADD + DIFFERENT.replace(
        "OTHER", 'custom-call(x), custom_call_target="test.fails", api_version=API_VERSION_TYPED_FFI'
    )

    def fails(x):
        raise ValueError("no luck")

    axla.register_custom_call("test.fails", fails)
    try:
        with pytest.raises(axla.AxlaError, match="no luck") as failed:
            run(BRANCH, data(2), 2, before=before)
    finally:
        axla.unregister_custom_call("test.fails")
    assert failed.value.__notes__ == ["in replica 1, partition 0"]


ENDLESS = """
condition {
  c = (f32[4], s32[]) parameter(0)
  ROOT t = pred[] constant(true)
}
body {
  c = (f32[4], s32[]) parameter(0)
  x = f32[4] get-tuple-element(c), index=0
  i = s32[] get-tuple-element(c), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4] all-reduce(x), to_apply=add, replica_groups={{0,1}}
  ROOT r = (f32[4], s32[]) tuple(y, j)
}"""
LOOP = """x = f32[4] parameter(0)
  z = s32[] constant(0)
  t = (f32[4], s32[]) tuple(x, z)
  w = (f32[4], s32[]) while(t), condition=condition, body=body
  ROOT y = f32[4] get-tuple-element(w), index=0"""


def test_a_deadline_holds_for_all():
    with pytest.raises(DeadlineExceeded, match="stopped at its deadline of 0.05 seconds"):
        run(LOOP, data(2), 2, before=ADD + ENDLESS, deadline=0.05)


def test_an_interrupt_ends_all():
    called = []

    def interrupts(x):
        called.append(x)
        if len(called) == 1:
            _thread.interrupt_main()
        return x

    axla.register_custom_call("test.interrupts", interrupts)
    call = 'custom-call(x), custom_call_target="test.interrupts", api_version=API_VERSION_TYPED_FFI'
    before = threading.active_count()
    try:
        with pytest.raises(KeyboardInterrupt):
            run(LOOP, data(2), 2, before=ADD + ENDLESS.replace("all-reduce(x)", "all-reduce(q)").replace(
                "  y = f32[4] all", f"  q = f32[4] {call}\n  y = f32[4] all"))  # fmt: skip
    finally:
        axla.unregister_custom_call("test.interrupts")
    assert called
    assert threading.active_count() == before


def test_what_devices_there_are():
    body = "ROOT x = f32[4] parameter(0)"
    with pytest.raises(InvalidArgument, match="inputs of 2 devices are wanted, found 1"):
        run(body, data(1), 2)
    module = axla.parse(f"ENTRY e {{ {body} }}")
    with pytest.raises(InvalidArgument, match="num_replicas=0"):
        axla.compile(module, backend="interpreter", num_replicas=0)
    with pytest.raises(UnsupportedError, match="interpreter runs at most 1024: each is a thread"):
        axla.compile(module, backend="interpreter", num_replicas=10**9)
    with pytest.raises(UnsupportedError, match="cpu runs at most 256: each is a thread"):
        axla.compile(module, num_replicas=257)
    program = axla.compile(module, backend="interpreter", num_partitions=2)
    with pytest.raises(InvalidArgument, match="execute_replicated"):
        program.execute(data(1)[0])
    alone = axla.compile(module, backend="interpreter")
    same(alone.execute_replicated(data(1))[0], data(1)[0])


def test_groups_are_checked_against_the_devices():
    body = "x = f32[4] parameter(0)\nROOT y = f32[4] {}"
    for text in (
        "all-reduce(x), to_apply=add, replica_groups={{0,1,2}}",
        "collective-broadcast(x), replica_groups={{2,1}}",
        "collective-permute(x), source_target_pairs={{0,2}}",
    ):
        with pytest.raises(VerifyError):
            run(body.format(text), data(2), 2)
    # A header that says nothing of replicas: found when it runs.
    with pytest.raises(InvalidArgument, match="member 1 of .* is not < 1"):
        run(body.format("all-reduce(x), to_apply=add, replica_groups={{0,1}}, channel_id=1"), data(2), 1, 2)


def test_many_devices():
    given = data(96)
    body = """x = f32[4] parameter(0)
      ROOT y = f32[4] all-reduce(x), to_apply=add, replica_groups={}"""
    total = np.sum([x[0] for x in given], 0)
    same(run(body, given, 96), [total] * 96)


def test_infeed_and_outfeed_are_those_of_the_device():
    from axla.custom.feeds import feeds

    body = """t = token[] after-all()
      i = (f32[], token[]) infeed(t)
      x = f32[] get-tuple-element(i), index=0
      y = f32[] negate(x)
      u = token[] get-tuple-element(i), index=1
      o = token[] outfeed(y, u), outfeed_shape=f32[]
      ROOT r = f32[] all-reduce(x), to_apply=add, replica_groups={{0,1}}"""
    for n in range(2):
        feeds(n).infeed.put(np.float32(n + 1))
    same(run(body, [[]] * 2, 2), [np.float32(3)] * 2)
    assert [float(feeds(n).outfeed.get(1)) for n in range(2)] == [-1, -2]


SUMS = """HloModule sums, replica_count=2{more}
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
ENTRY e {{
  x = f32[2] parameter(0)
  ROOT r = f32[2] all-reduce(x), to_apply=add
}}"""
ALONE = "HloModule alone, num_partitions=4\nENTRY e { x = f32[2] parameter(0)\n  ROOT r = f32[2] negate(x) }"
ONE = np.float32([1, 2])


@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
@pytest.mark.parametrize("text", [SUMS.format(more=""), SUMS.format(more=", num_partitions=2"), ALONE])
def test_a_program_for_several_is_not_run_as_one_in_silence(text, backend):
    module = axla.parse(text)
    with pytest.raises(InvalidArgument, match="replicas of .* partitions: .* replicas='first'"):
        axla.compile(module, backend=backend)(ONE)
    for call in (axla.check, lambda m, b: axla.check(m, "interpreter", reference=b)):
        with pytest.raises(axla.AxlaError, match="replicas of"):
            call(module, backend)


def test_the_header_says_how_many_the_interpreter_runs():
    program = axla.compile(axla.parse(SUMS.format(more="")), backend="interpreter")
    (first,), (second,) = program.execute_replicated([[ONE], [10 * ONE]])
    np.testing.assert_array_equal(first, [11, 22])
    np.testing.assert_array_equal(second, [11, 22])
    with pytest.raises(InvalidArgument, match="call execute_replicated"):
        program(ONE)
    alone = axla.compile(axla.parse(SUMS.format(more="")), backend="interpreter", num_replicas=1)
    np.testing.assert_array_equal(alone(ONE), ONE)


@pytest.mark.parametrize("backend", ["interpreter", "cpu", "one-lane"])
def test_the_first_participant_runs_alone_where_that_is_asked_for(backend):
    module = axla.parse(SUMS.format(more=", num_partitions=2"))
    np.testing.assert_array_equal(axla.compile(module, backend=backend, replicas="first")(ONE), ONE)
    assert axla.check(module, backend, replicas="first").ok
    for named in ({"replicas": "all"}, {"replicas": "first", "num_replicas": 2}):
        with pytest.raises(InvalidArgument, match="wanted 'first', without num_replicas"):
            axla.compile(module, backend=backend, **named)
    for count in (0, -1, 1.5, "2"):
        with pytest.raises(InvalidArgument, match="num_replicas=.*, wanted a number of at least 1"):
            axla.compile(module, backend=backend, num_replicas=count)
    with pytest.raises(InvalidArgument, match="needs devices 0 to 1, <Client of .*: 1 devices> has"):
        axla.Client(backend, devices=1).compile(module, replicas="first", device_assignment=[[1]])


def test_the_command_line_runs_one_of_several_where_it_is_told_to(tmp_path, capsys):
    path = tmp_path / "sums.hlo"
    path.write_text(SUMS.format(more=""))
    assert command.main(["run", str(path)]) == 0
    assert "device 1, output 0" in capsys.readouterr().out
    assert command.main(["check", str(path)]) == 1
    assert "is for 2 replicas of 1 partitions" in capsys.readouterr().err
    for verb in ("run", "check"):
        assert command.main([verb, str(path), "--replicas=first"]) == 0
        assert "device 1" not in capsys.readouterr().out


def test_members_whose_arrays_are_of_different_actual_sizes():
    body = "x = f32[<=8] parameter(0)\nROOT y = f32[<=8] all-reduce(x), to_apply=add"
    same(run(body, data(2, (5,)), 2), [np.add(*[row[0] for row in data(2, (5,))])] * 2)
    with pytest.raises(CollectiveFailure, match="differs in operation, shapes"):
        run(body, [data(1, (5,))[0], data(1, (3,))[0]], 2)
