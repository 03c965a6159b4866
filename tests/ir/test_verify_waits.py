"""Participants that would wait for each other for ever are found by the compiler; only they are."""

import numpy as np
import pytest

import axla

SEND = """  s = (f32[4], u32[], token[]) send(DATA, t), channel_id=1, ATTR
  sd = token[] send-done(s), channel_id=1"""
RECV = """  r = (f32[4], u32[], token[]) recv(t), channel_id=1, ATTR
  rd = (f32[4], token[]) recv-done(r), channel_id=1
  v = f32[4] get-tuple-element(rd), index=0"""
SUM = "  a = f32[4] all-reduce(ARRAY), to_apply=f"
F = "f { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }"


def program(pairs, *lines, data="x", array="x", root="v", replicas=2, header="replica_count"):
    attr = f'frontend_attributes={{_xla_send_recv_source_target_pairs="{pairs}"}}'
    body = "\n".join(lines).replace("ATTR", attr).replace("DATA", data).replace("ARRAY", array)
    return f"""HloModule m, {header}={replicas}
{F}
ENTRY e {{ x = f32[4] parameter(0)
  t = token[] after-all()
{body}
  ROOT out = f32[4] negate({root}) }}"""


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("header", ["replica_count", "num_partitions"])
def test_a_cycle_of_receives_before_sends_is_refused(backend, header):
    text = program("{{0,1},{1,0}}", RECV, SEND, data="v", header=header)
    with pytest.raises(axla.VerifyError, match=r"channel_waits") as caught:
        axla.compile(axla.parse(text), backend=backend)
    one = "replica 1, partition 0" if header == "replica_count" else "replica 0, partition 1"
    assert "%rd = " in str(caught.value) and one in str(caught.value)
    assert "replica 0, partition 0" in str(caught.value)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_a_collective_between_receive_and_send_is_refused(backend):
    """Replica 1 receives before the sum; replica 0 sends after it."""
    text = program("{{0,1}}", RECV, SUM, SEND, array="v", data="a")
    with pytest.raises(axla.VerifyError, match=r"channel_waits") as caught:
        axla.compile(axla.parse(text), backend=backend)
    assert "%rd = " in str(caught.value) and " all-reduce(%v) of replica 0" in str(caught.value)


RUNS = {
    "send first": program("{{0,1},{1,0}}", SEND, RECV),
    "a chain that hands on": program("{{0,1},{1,2}}", RECV, SEND, data="v", replicas=3),
    "the sum does not wait": program("{{0,1}}", SUM, SEND, RECV, data="a"),
    "other groups": program(
        "{{0,1}}", RECV, SUM.replace("to_apply", "replica_groups={{0},{1}}, to_apply"), SEND, array="v"
    ),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("name", RUNS)
def test_what_can_run_is_not_refused(name, backend):
    module = axla.parse(RUNS[name])
    rows = [[np.full(4, n + 1, np.float32)] for n in range(module.config.replica_count)]
    found = axla.compile(module, backend=backend).execute_replicated(rows, deadline=30)
    wanted = axla.compile(module, backend="interpreter").execute_replicated(rows)
    assert [np.asarray(a[0]).tolist() for a in found] == [np.asarray(a[0]).tolist() for a in wanted]


def test_programs_beside_each_other_are_not_those_of_one_program():
    text = program("{{0,1},{1,0}}", RECV, SEND, data="v", replicas=1)
    first = program("{{0,1},{1,0}}", SEND, RECV, replicas=1)
    x = np.ones(4, np.float32)
    found = axla.backends.get("cpu").execute_parallel([axla.parse(first), axla.parse(text)], [[x], [x]])
    assert [np.asarray(row[0]).tolist() for row in found] == [[-1.0] * 4] * 2


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_one_participant_has_groups_of_members_that_do_not_exist(backend):
    text = program(
        "{{0,0}}", SEND, RECV, SUM.replace("to_apply", "replica_groups={{0,1}}, to_apply"), replicas=1
    )
    found = axla.compile(axla.parse(text.replace("negate(v)", "add(v, a)")), backend=backend)(
        np.ones(4, np.float32)
    )
    assert np.asarray(found).tolist() == [2.0] * 4
