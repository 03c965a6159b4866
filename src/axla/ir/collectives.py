"""The participants of each collective, and the meaning of the numbers in its groups."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from axla.core.errors import InvalidArgument

ASYNCHRONOUS = ("axla_asynchronous", "true")
"""The frontend attribute of a collective that was written in two halves: it may start as soon as its operands
are there, and is done where it stands.
"""


class GroupMode(enum.StrEnum):
    """The meaning of the numbers in groups; the names are XLA's."""

    CROSS_REPLICA = "replicas"  # within each partition
    CROSS_PARTITION = "partitions"  # within each replica
    CROSS_REPLICA_AND_PARTITION = "replicas, each with all partitions"
    FLATTENED_ID = "devices"  # replica * partitions + partition


class CollectiveKind(enum.Enum):
    """How the results of a collective depend on operands, and who must be in a group: `Op.collective`."""

    SAME = "an array like their own; all are in groups"
    SCALED = "one of which a dimension grows or shrinks by the number of members; all are in groups"
    EXCHANGED = "a part of each, along a dimension or by operands; all are in groups"
    ROOTED = "what the root has or gets; who is in no group takes part all the same, and gets zeros"
    PAIRED = "what their source has: groups are pairs; who is not a target gets zeros"


def is_asynchronous(inst: Any) -> bool:
    """Whether an instruction is an asynchronous collective."""
    return inst.op.collective is not None and ASYNCHRONOUS in inst.extra.frontend_attributes


def group_mode(op: Any) -> GroupMode:
    """The meaning of the numbers in the groups of a collective. Channel 0 means no channel."""
    if (op.channel_id or 0) <= 0:
        return GroupMode.CROSS_REPLICA
    if not hasattr(op, "use_global_device_ids"):
        return GroupMode.CROSS_PARTITION
    return GroupMode.FLATTENED_ID if op.use_global_device_ids else GroupMode.CROSS_REPLICA_AND_PARTITION


def member_count(mode: GroupMode, replicas: int, partitions: int) -> int:
    """The number of possible group members in a mode."""
    if mode is GroupMode.FLATTENED_ID:
        return replicas * partitions
    return partitions if mode is GroupMode.CROSS_PARTITION else replicas


def member_of(mode: GroupMode, replica: int, partition: int, partitions: int) -> int:
    """The group member that a process is, in a mode."""
    if mode is GroupMode.FLATTENED_ID:
        return replica * partitions + partition
    return partition if mode is GroupMode.CROSS_PARTITION else replica


def group_of(op: Any, participant: int, replicas: int, partitions: int) -> tuple[int, ...] | None:
    """The participants in the group of a participant, in order; None when it is in none. Number p is
    partition p % partitions of replica p // partitions. InvalidArgument for a group with members that do not
    exist.
    """
    mode, (replica, partition) = group_mode(op), divmod(participant, partitions)
    count = member_count(mode, replicas, partitions)
    members: Sequence[int] | None = range(count)
    if op.replica_groups:
        members = op.replica_groups.group_of(member_of(mode, replica, partition, partitions))
    if members is None:
        return None
    if max(members) >= count:
        raise InvalidArgument(f"{op.opcode}: member {max(members)} of {op.replica_groups}; there are {count}")
    return processes(mode, members, replica, partition, partitions)


def processes(
    mode: GroupMode, members: Sequence[int], replica: int, partition: int, partitions: int
) -> tuple[int, ...]:
    """The processes (replica * partitions + partition) of the members of a participant's group, in order."""
    if mode is GroupMode.FLATTENED_ID:
        return tuple(members)
    if mode is GroupMode.CROSS_PARTITION:
        return tuple(replica * partitions + p for p in members)
    within = (partition,) if mode is GroupMode.CROSS_REPLICA else range(partitions)
    return tuple(r * partitions + p for r in members for p in within)
