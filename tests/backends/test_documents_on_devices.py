"""The documents' examples of replicas, partitions, collectives and transfers, on 2, 4 and 6 devices.

The page on operation semantics is meant where nothing else is said; tests are named after its sections. Its
examples of one device are in tests/examples.
"""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import axla
from axla import ops
from axla.builder import XlaBuilder
from axla.builder.records import ChannelHandle, ReplicaGroup
from axla.client import LocalClient
from axla.core.dtypes import F32, S32, U32
from axla.core.errors import CollectiveFailure, InvalidArgument
from axla.core.shape import Shape, TupleShape
from service_server import REMOTE, with_server

SCALAR = Shape(F32)
PAIR = Shape(F32, (2,))
TWO = [[1.0, 2.5], [3.0, 5.25]]
FOUR = [*TWO, [-1.0, 0.5], [8.0, 16.0]]
GROUPS = [ReplicaGroup([0, 2]), ReplicaGroup([1, 3])]


@pytest.fixture(params=["cpu", "interpreter", *REMOTE])
def backend(request):
    return with_server(request)


@pytest.fixture
def client(backend):
    return LocalClient(backend)


@pytest.fixture(autouse=True)
def feeds():
    """The queues of devices, empty before and after."""
    found = [axla.feeds(device) for device in range(4)]
    for device in found:
        device.infeed.clear()
        device.outfeed.clear()
    yield found
    for device in found:
        device.infeed.clear()
        device.outfeed.clear()


def add(builder: XlaBuilder, shape: Shape = SCALAR):
    sub = builder.sub_builder("add")
    return sub.build(ops.Add(*(ops.Parameter(sub, n, shape) for n in range(2))))


def run(make, rows, backend: str, partitions: int = 1) -> list:
    """The result of every participant, as lists; `make` gives the root for parameters as in the rows."""
    builder = XlaBuilder("example")
    rows = [[np.asarray(value, np.float32) for value in row] for row in rows]
    given = [ops.Parameter(builder, n, Shape(F32, value.shape)) for n, value in enumerate(rows[0])]
    root = make(builder, *given)
    module = (builder.build(root) if root is not None else builder.build()).module
    program = axla.compile(
        module, backend=backend, num_replicas=len(rows) // partitions, num_partitions=partitions
    )
    found = program.execute_replicated(rows)
    assert [a.device for row in found for a in row if backend == "cpu"] == [
        device for device, row in enumerate(found) for _ in row if backend == "cpu"
    ]
    return [[np.asarray(a).tolist() for a in row] for row in found]


def one_each(values) -> list:
    return [[value] for value in values]


# AllGather, AllReduce, CrossReplicaSum, ReduceScatter


def test_all_gather(backend):
    found = run(lambda b, x: ops.AllGather(x, 0, 2), one_each(TWO), backend)
    assert found == [[[1.0, 2.5, 3.0, 5.25]]] * 2


def test_all_gather_in_groups(backend):
    found = run(lambda b, x: ops.AllGather(x, 0, 2, GROUPS), one_each(FOUR), backend)
    assert found == [[FOUR[n % 2] + FOUR[n % 2 + 2]] for n in range(4)]


def test_all_gather_in_the_order_of_the_group(backend):
    """The order of replicas in a group is the order of their inputs in the result."""
    groups = [ReplicaGroup([2, 0]), ReplicaGroup([1, 3])]
    found = run(lambda b, x: ops.AllGather(x, 0, 2, groups), one_each(FOUR), backend)
    assert found[0] == found[2] == [FOUR[2] + FOUR[0]]
    assert found[1] == found[3] == [FOUR[1] + FOUR[3]]


@pytest.mark.parametrize("partitions", [1, 2])
def test_channels_tell_collectives_apart(backend, partitions):
    """Only operations with the same channel communicate with each other. With a channel, the members of a
    group are those of all partitions.
    """

    def make(b, x):
        first = ops.AllReduce(x, add(b), channel_id=ChannelHandle(1, 1))
        second = ops.AllReduce(ops.Mul(x, x), add(b), channel_id=ChannelHandle(2, 1))
        return ops.Tuple(b, [first, second])

    found = run(make, one_each(FOUR), backend, partitions)
    assert found == [[[11.0, 24.25], [75.0, 290.0625]]] * 4


def test_all_reduce(backend):
    found = run(lambda b, x: ops.AllReduce(x, add(b)), one_each(TWO), backend)
    assert found == [[[4.0, 7.75]]] * 2


def test_all_reduce_in_groups(backend):
    found = run(lambda b, x: ops.AllReduce(x, add(b), GROUPS), one_each(FOUR), backend)
    assert found == [[[0.0, 3.0]], [[11.0, 21.25]]] * 2


@pytest.mark.parametrize("count", [2, 4])
def test_all_reduce_of_a_tuple(backend, count):
    """The reduction is done for each element of the tuple."""
    rows = [[[n, 2 * n], 10 * n] for n in range(count)]
    found = run(lambda b, x, y: ops.AllReduce(ops.Tuple(b, [x, y]), add(b)), rows, backend)
    total = sum(range(count))
    assert found == [[[total, 2 * total], 10 * total]] * count


def test_all_reduce_by_any_computation(backend):
    def make(b, x):
        sub = b.sub_builder("larger")
        larger = sub.build(ops.Max(*(ops.Parameter(sub, n, SCALAR) for n in range(2))))
        return ops.AllReduce(x, larger)

    assert run(make, one_each(FOUR), backend) == [[[8.0, 16.0]]] * 4


def test_all_reduce_that_one_replica_does_more_often(backend, feeds):
    """A loop whose condition depends on infeed: who goes round more often would wait for ever."""

    def make(b, x):
        body, holds = b.sub_builder("body"), b.sub_builder("holds")
        ops.AllReduce(ops.Parameter(body, 0, PAIR), add(b))
        body = body.build()
        ops.Parameter(holds, 0, PAIR)
        holds = holds.build(ops.Gt(ops.Infeed(holds, SCALAR), ops.Constant(holds, np.float32(0))))
        return ops.While(holds, body, x)

    for device, rounds in enumerate((2, 3)):
        for left in range(rounds, -1, -1):
            feeds[device].infeed.put(np.float32(left))
    with pytest.raises(CollectiveFailure, match=r"wait for ever: replica 1, partition 0 in "):
        run(make, one_each(TWO), backend)
    for device in range(2):
        feeds[device].infeed.clear()
        feeds[device].infeed.put(np.float32(1))
        feeds[device].infeed.put(np.float32(0))
    assert run(make, one_each(TWO), backend) == [[[4.0, 7.75]]] * 2


@pytest.mark.parametrize("values", [[(1.0, 2.5), (3.0, 5.1)], [(1, 2), (3, 5), (0, 1), (4, 4)]])
def test_cross_replica_sum(backend, values):
    """On the pages of 2017 and of the launch: 1.0, 2.5 and 3.0, 5.1 give 4.0, 7.6."""
    found = run(lambda b, x: ops.CrossReplicaSum(x), one_each(values), backend)
    wanted = np.asarray(values, np.float32).sum(0, dtype=np.float32)
    assert found == [[wanted.tolist()]] * len(values)
    np.testing.assert_allclose(wanted, [4.0, 7.6] if len(values) == 2 else [8, 12], rtol=1e-6)


def test_reduce_scatter(backend):
    found = run(
        lambda b, x: ops.ReduceScatter(x, add(b), 0, 2), one_each([[1.0, 2.25], [3.0, 5.25]]), backend
    )
    assert found == [[[4.0]], [[7.5]]]


def test_reduce_scatter_in_groups(backend):
    found = run(lambda b, x: ops.ReduceScatter(x, add(b), 0, 2, GROUPS), one_each(FOUR), backend)
    assert found == [[[0.0]], [[11.0]], [[3.0]], [[21.25]]]


def test_reduce_scatter_is_an_all_reduce_that_is_cut(backend):
    rows = [[np.arange(24).reshape(2, 12) * (n + 1)] for n in range(4)]

    def both(b, x):
        scattered = ops.ReduceScatter(x, add(b), 1, 4)
        at = ops.Mul(ops.ConvertElementType(ops.ReplicaId(b), S32), ops.Constant(b, np.int32(3)))
        whole = ops.AllReduce(x, add(b))
        zero = ops.Constant(b, np.int32(0))
        return ops.Tuple(b, [scattered, ops.DynamicSlice(whole, [zero, at], [2, 3])])

    for scattered, cut in run(both, rows, backend):
        assert scattered == cut


def test_reduce_scatter_wants_groups_of_one_size(backend):
    groups = [ReplicaGroup([0, 2, 1]), ReplicaGroup([3])]
    with pytest.raises(axla.AxlaError, match="reduce-scatter"):
        run(lambda b, x: ops.ReduceScatter(x, add(b), 0, 2, groups), one_each(FOUR), backend)


# AllToAll, CollectivePermute, ReplicaId


def test_all_to_all(backend):
    """Four cores; f32[4,16] is split along dimension 1, and what comes is joined along dimension 0."""
    data = np.arange(4 * 4 * 16, dtype=np.float32).reshape(4, 4, 16)
    found = run(lambda b, x: ops.AllToAll(x, 1, 0, 4), one_each(data), backend)
    for core, (result,) in enumerate(found):
        wanted = np.concatenate([data[other][:, 4 * core : 4 * core + 4] for other in range(4)])
        assert wanted.shape == (16, 4) and result == wanted.tolist()


def test_all_to_all_in_groups(backend):
    """{{1,2,3}, {4,5,0}}: blocks are joined in the order of the group."""
    groups = [[1, 2, 3], [4, 5, 0]]
    data = np.arange(18, dtype=np.float32).reshape(6, 3)
    found = run(lambda b, x: ops.AllToAll(x, 0, 0, 3, [*map(ReplicaGroup, groups)]), one_each(data), backend)
    for group in groups:
        for place, member in enumerate(group):
            assert found[member] == [[data[other][place] for other in group]]


def test_all_to_all_twice_gives_what_was_given(backend):
    data = np.arange(16, dtype=np.float32).reshape(2, 4, 2)
    found = run(lambda b, x: ops.AllToAll(ops.AllToAll(x, 0, 1, 2), 1, 0, 2), one_each(data), backend)
    assert found == one_each(data.tolist())


def test_collective_permute(backend):
    """Who is not a target gets zeros."""
    found = run(lambda b, x: ops.CollectivePermute(x, [(0, 1), (1, 2), (3, 3)]), one_each(FOUR), backend)
    assert found == [[[0.0, 0.0]], [FOUR[0]], [FOUR[1]], [FOUR[3]]]


@pytest.mark.parametrize("pairs", [[(0, 1), (2, 1)], [(0, 1), (0, 2)], [(0, 4)]])
def test_collective_permute_of_pairs_that_are_not_allowed(backend, pairs):
    """No two pairs have the same source, or the same target."""
    with pytest.raises(axla.AxlaError, match="source_target_pairs|collective-permute"):
        run(lambda b, x: ops.CollectivePermute(x, pairs), one_each(FOUR), backend)


@pytest.mark.parametrize("count", [2, 4])
def test_replica_id(backend, count):
    found = run(lambda b: ops.ReplicaId(b), [[]] * count, backend)
    assert found == [[n] for n in range(count)]


def test_partition_id(backend):
    found = run(lambda b: ops.Tuple(b, [ops.ReplicaId(b), ops.PartitionId(b)]), [[]] * 4, backend, 2)
    assert found == [[0, 0], [0, 1], [1, 0], [1, 1]]


# Infeed, Outfeed


@pytest.mark.parametrize("count", [2, 4])
def test_infeeds_in_two_loops_have_an_order_on_every_device(backend, client, count, feeds):
    """The second loop takes what the first one leaves; each device has a queue of its own."""

    def loop(b, name, start):
        body, holds = b.sub_builder(f"body_{name}"), b.sub_builder(f"holds_{name}")
        state = ops.Parameter(body, 0, TupleShape((Shape(S32), SCALAR)))
        left, total = ops.GetTupleElement(state, 0), ops.GetTupleElement(state, 1)
        ten = ops.Constant(body, np.float32(10))
        total = ops.Add(ops.Mul(total, ten), ops.Infeed(body, SCALAR))
        ops.Outfeed(total, SCALAR)
        body = body.build(ops.Tuple(body, [ops.Sub(left, ops.Constant(body, np.int32(1))), total]))
        state = ops.Parameter(holds, 0, TupleShape((Shape(S32), SCALAR)))
        holds = holds.build(ops.Gt(ops.GetTupleElement(state, 0), ops.Constant(holds, np.int32(0))))
        return ops.GetTupleElement(ops.While(holds, body, start), 1)

    def make(b):
        two = ops.Constant(b, np.int32(2))
        result1 = loop(b, "1", ops.Tuple(b, [two, ops.Constant(b, np.float32(0))]))
        return ops.CrossReplicaSum(loop(b, "2", ops.Tuple(b, [two, result1])))

    for device in range(count):
        for digit in (1, 2, 3, 4 + device):
            client.TransferToInfeed(np.float32(digit), device)
    total = sum(1234 + device for device in range(count))
    assert run(make, [[]] * count, backend) == [[total]] * count
    for device in range(count):
        outs = [float(client.TransferFromOutfeed(SCALAR, device, 5).array) for _ in range(4)]
        assert outs == [1, 12, 123, 1234 + device]


def test_infeed_of_an_empty_tuple_reads_nothing(backend, feeds):
    def make(b):
        ops.InfeedWithToken(ops.CreateToken(b), TupleShape(()))
        return ops.Infeed(b, SCALAR)

    for device in range(2):
        feeds[device].infeed.put(np.float32(device + 7))
    assert run(make, [[]] * 2, backend) == [[7], [8]]
    assert [len(feeds[device].infeed) for device in range(2)] == [0, 0]


def test_infeed_on_one_of_two_devices_is_of_another_type(backend, feeds):
    feeds[0].infeed.put(np.float32(1))
    feeds[1].infeed.put(np.float64(1))
    with pytest.raises(InvalidArgument, match="infeed of device 1.*wanted"):
        run(lambda b: ops.CrossReplicaSum(ops.Infeed(b, SCALAR)), [[]] * 2, backend)
    for device in range(2):
        feeds[device].infeed.clear()
        feeds[device].infeed.put(np.float32(1))
    assert run(lambda b: ops.CrossReplicaSum(ops.Infeed(b, SCALAR)), [[]] * 2, backend) == [[2]] * 2


def test_infeed_waits_on_every_device(backend, client, feeds):
    def later():
        time.sleep(0.05)
        for device in (1, 0):
            client.TransferToInfeed(np.float32(device + 1), device)

    thread = threading.Thread(target=later)
    thread.start()
    assert run(lambda b: ops.CrossReplicaSum(ops.Infeed(b, SCALAR)), [[]] * 2, backend) == [[3]] * 2
    thread.join()


# Send, Recv: computations that run in parallel


def handle(number: int) -> ChannelHandle:
    return ChannelHandle(number, 1)


def sender(channel: int = 1):
    """Sends twice its argument."""
    b = XlaBuilder("sender")
    x = ops.Parameter(b, 0, PAIR)
    ops.Send(ops.Add(x, x), handle(channel))
    return b.build(x)


def receiver(channel: int = 1):
    """The negative of what it gets."""
    b = XlaBuilder("receiver")
    return b.build(ops.Neg(ops.Recv(b, PAIR, handle(channel))))


def parallel(client, calls) -> list:
    given = [(c, [client.TransferToServer(np.asarray(a, np.float32)) for a in row]) for c, row in calls]
    return [client.Transfer(data) for data in client.ExecuteParallel(given)]


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("turned", [False, True])
def test_send_to_a_recv_in_another_computation(client, count, turned):
    calls = []
    for pair in range(count // 2):
        calls += [(sender(pair + 1), [TWO[pair]]), (receiver(pair + 1), [])]
    found = parallel(client, calls[::-1] if turned else calls)
    found = found[::-1] if turned else found
    for pair in range(count // 2):
        assert found[2 * pair].array.tolist() == TWO[pair]
        assert found[2 * pair + 1].array.tolist() == [-2 * v for v in TWO[pair]]


def test_a_chain_of_four_computations(client):
    def link(take, give):
        b = XlaBuilder(f"link{take}")
        x = ops.Recv(b, PAIR, handle(take)) if take else ops.Parameter(b, 0, PAIR)
        y = ops.Add(x, x)
        if give:
            ops.Send(y, handle(give))
        return b.build(y)

    calls = [(link(0, 1), [TWO[0]]), (link(1, 2), []), (link(2, 3), []), (link(3, 0), [])]
    found = parallel(client, calls)
    assert [f.array.tolist() for f in found] == [[2**n * v for v in TWO[0]] for n in (1, 2, 3, 4)]


def both_ways(name: str, mine: int, other: int, receives_first: bool):
    """Sends on one channel, receives on another, in this order."""
    b = XlaBuilder(name)
    x = ops.Parameter(b, 0, PAIR)
    if receives_first:
        got = ops.Recv(b, PAIR, handle(other))
        ops.Send(x, handle(mine))
    else:
        ops.Send(x, handle(mine))
        got = ops.Recv(b, PAIR, handle(other))
    return b.build(got)


@pytest.mark.parametrize("order", [(False, False), (False, True), (True, False)])
def test_schedules_of_channel_instructions_without_a_cycle(client, order):
    """Send happens before RecvDone: whoever sends first does not wait for it."""
    programs = both_ways("left", 1, 2, order[0]), both_ways("right", 2, 1, order[1])
    found = parallel(client, [(programs[0], [TWO[0]]), (programs[1], [TWO[1]])])
    assert [f.array.tolist() for f in found] == TWO[::-1]


def test_schedules_of_channel_instructions_that_lead_to_deadlocks(client):
    """Both receive before they send."""
    programs = both_ways("left", 1, 2, True), both_ways("right", 2, 1, True)
    with pytest.raises(axla.AxlaError, match="recv"):
        parallel(client, [(programs[0], [TWO[0]]), (programs[1], [TWO[1]])])


def test_send_and_recv_of_another_shape(client):
    b = XlaBuilder("receiver")
    other = b.build(ops.Recv(b, Shape(U32, (3,)), handle(1)))
    with pytest.raises(axla.AxlaError, match="recv"):
        parallel(client, [(sender(), [TWO[0]]), (other, [])])


def test_recv_of_what_nobody_sends(client):
    with pytest.raises(CollectiveFailure, match="nobody sent"):
        parallel(client, [(receiver(), []), (receiver(2), [])])


def test_a_collective_in_computations_that_run_in_parallel(client):
    def summed(name):
        b = XlaBuilder(name)
        return b.build(ops.AllReduce(ops.Parameter(b, 0, PAIR), add(b), channel_id=handle(3)))

    found = parallel(client, [(summed("left"), [TWO[0]]), (summed("right"), [TWO[1]])])
    assert [f.array.tolist() for f in found] == [[4.0, 7.75]] * 2
