"""Devices, groups and shardings as values: what is listed, in iota form and by axes of a mesh is one."""

import numpy as np
import pytest

from axla import proto
from axla.core.errors import InvalidArgument
from axla.hlo import AllReduce, AllToAll
from axla.ir import devices
from axla.ir.collectives import GroupMode, group_mode, member_count, member_of, processes
from axla.ir.devices import Axis, IotaDevices, IotaGroups, Mesh, MeshAxes, ReplicaGroups
from axla.ir.op import OPS
from axla.ir.sharding import Sharding, Tiles
from axla.ir.verify import verify
from axla.text.parser import parse_hlo
from axla.text.sharding import read_sharding

REDUCE = """HloModule m, replica_count={1}
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
ENTRY e {{ p = f32[4] parameter(0) ROOT r = f32[4] all-reduce(p), replica_groups={0}, to_apply=add }}"""


def groups_of(text, replicas):
    return parse_hlo(REDUCE.format(text, replicas)).entry.root.op.replica_groups


@pytest.mark.parametrize("seed", range(20))
def test_simplified_iotas_are_the_same_devices(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, rng.integers(1, 5))
    iota = IotaDevices(tuple(sizes.tolist()), tuple(rng.permutation(len(sizes)).tolist()))
    wanted = np.arange(len(iota)).reshape(iota.reshape).transpose(iota.order).reshape(-1)
    np.testing.assert_array_equal(iota.array(), wanted)
    np.testing.assert_array_equal(iota.simplified().array(), wanted)
    assert iota.simplified().simplified() == iota.simplified()


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("[4,2]<=[2,4]T(1,0)", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['a'=2,'b'=4] {'b'}", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh['a'=2,'b'=4] {'a'}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['a'=2,'b'=4] {'b':(1)2,'a'}", ((0, 4, 2, 6), (1, 5, 3, 7))),
        ("mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a'}", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("mesh['a'=2,'b'=4], device_ids=(7,6,5,4,3,2,1,0) {'a'}", ((7, 3), (6, 2), (5, 1), (4, 0))),
    ],
)
def test_groups_of_every_form_have_one_text_and_one_message(text, listed):
    groups = groups_of(text, 8)
    assert str(groups) == text and groups.groups == listed
    assert (groups.sizes, groups.members, groups.highest) == ({len(listed[0])}, 8, 7)
    assert all(groups.group_of(m) == row for row in listed for m in row) and groups.group_of(8) is None
    module = parse_hlo(REDUCE.format(text, 8))
    verify(module)
    assert proto.read(proto.to_proto(module)).entry.root.op.replica_groups == groups
    assert groups_of(str(ReplicaGroups(listed)), 8).groups == listed


def test_groups_of_a_million_devices_are_not_written_out(monkeypatch):
    monkeypatch.setattr(devices, "_rows", None)
    monkeypatch.setattr(IotaDevices, "array", None)
    groups = groups_of("[1024,1024]<=[1024,1024]T(1,0)", 1 << 20)
    module = parse_hlo(REDUCE.format(groups, 1 << 20))
    verify(module)
    assert proto.read(proto.to_proto(module)).to_string() == module.to_string()
    assert (groups.sizes, groups.members, groups.highest) == ({1024}, 1 << 20, (1 << 20) - 1)


def test_more_devices_than_are_listed_are_kept_but_not_written_out():
    groups = groups_of("[2,1099511627776]<=[2199023255552]", 1)
    assert groups.sizes == {1 << 40} and str(groups) == "[2,1099511627776]<=[2199023255552]"
    with pytest.raises(Exception, match="devices is too long"):
        _ = groups.groups


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: IotaDevices((2, 2), (0, 0)), "not a permutation of the 2 dimensions"),
        (lambda: IotaDevices((2, 0), (0, 1)), "sizes must be at least 1"),
        (lambda: Mesh((("a", 2), ("a", 2))), "must have different names"),
        (lambda: Mesh((("a", 2),), (0, 0)), "each once"),
        (lambda: Mesh((("a", 2),), IotaDevices.of((3,))), "each once"),
        (lambda: IotaGroups(2, 3, IotaDevices.of((8,))), "8 devices do not spread"),
        (lambda: MeshAxes(Mesh((("a", 4),)), (Axis("b"),)), "'b' is not one of the mesh axes a"),
        (lambda: MeshAxes(Mesh((("a", 4),)), (Axis("a", 3, 2),)), "must divide a of size 4"),
        (lambda: MeshAxes(Mesh((("a", 4),)), (Axis("a"), Axis("a", 2, 2))), "axes must be different"),
    ],
)
def test_values_refuse_what_they_are_not(make, said):
    with pytest.raises(InvalidArgument, match=said):
        make()


def test_the_mode_of_groups_follows_channel_and_ids():
    reducer = parse_hlo(REDUCE.format("{}", 1)).entry.root.op.to_apply
    assert group_mode(AllReduce(to_apply=reducer)) is GroupMode.CROSS_REPLICA
    assert group_mode(AllReduce(0, to_apply=reducer)) is GroupMode.CROSS_REPLICA
    assert group_mode(AllReduce(1, to_apply=reducer)) is GroupMode.CROSS_REPLICA_AND_PARTITION
    named = ReplicaGroups(((0,),))
    globally = AllReduce(1, named, use_global_device_ids=True, to_apply=reducer)
    assert group_mode(globally) is GroupMode.FLATTENED_ID
    assert group_mode(AllToAll(1)) is GroupMode.CROSS_PARTITION


@pytest.mark.parametrize(
    ("mode", "count", "member", "found"),
    [  # of replica 1, partition 2 of 2 x 3
        (GroupMode.CROSS_REPLICA, 2, 1, (5, 2)),
        (GroupMode.CROSS_PARTITION, 3, 2, (4, 3)),
        (GroupMode.CROSS_REPLICA_AND_PARTITION, 2, 1, (3, 4, 5, 0, 1, 2)),
        (GroupMode.FLATTENED_ID, 6, 5, (1, 0)),
    ],
)
def test_processes_of_a_group(mode, count, member, found):
    assert member_count(mode, 2, 3) == count and member_of(mode, 1, 2, 3) == member
    assert processes(mode, (1, 0), 1, 2, 3) == found


def test_every_collective_says_what_its_members_get():
    grouped = {name for name, cls in OPS.items() if hasattr(cls, "channel_id")
               and (hasattr(cls, "replica_groups") or hasattr(cls, "source_target_pairs"))}  # fmt: skip
    assert grouped == {name for name, cls in OPS.items() if cls.collective is not None}


def test_equal_shardings_are_equal_values():
    one, other = read_sharding("devices=[2,4]<=[2,4]T(0,1)"), read_sharding("devices=[2,4] <= [8]")
    assert one == other == Sharding(Tiles((2, 4), IotaDevices.of((8,)))) and hash(one) == hash(other)
    many = read_sharding("devices=[1024,1,1024]<=[1024,1024]T(1,0) last_tile_dim_replicate")
    assert str(many) == "devices=[1024,1,1024]<=[1024,1024]T(1,0) last_tile_dim_replicate"
    module = parse_hlo(f"ENTRY e {{ ROOT p = f32[4,4] parameter(0), sharding={{{many}}} }}")
    verify(module)
    assert proto.read(proto.to_proto(module)).entry.root.extra.sharding == many
