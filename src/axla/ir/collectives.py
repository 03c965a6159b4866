"""The participants of each collective, and the meaning of the numbers in its replica groups."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from axla.core.errors import InvalidArgument

ASYNCHRONOUS = ("axla_asynchronous", "true")
"""The frontend attribute of a collective that the program had as a start and a done: it may start as soon as
its operands are available, and must be done at its own position in the schedule.
"""


class GroupMode(enum.StrEnum):
    """The meaning of the numbers in replica groups. The names are those of XLA."""

    CROSS_REPLICA = "replicas"  # within each partition
    CROSS_PARTITION = "partitions"  # within each replica
    CROSS_REPLICA_AND_PARTITION = "replicas, each with all partitions"
    FLATTENED_ID = "devices"  # replica * partitions + partition


class CollectiveKind(enum.Enum):
    """The ways in which the result of a collective for one participant depends on the operands, and who must
    be in a group. It is the type of `Op.collective`.
    """

    SAME = "an array of the operand's shape; every participant must be in a group"
    SCALED = "an array with a dimension times or over the group size; every participant must be in a group"
    EXCHANGED = "a part of the operands of each member; every participant must be in a group"
    ROOTED = "one member sends or receives; participants in no group take part, and get zeros"
    PAIRED = "the operand of the source; participants that are the target of no pair get zeros"


def is_asynchronous(inst: Any) -> bool:
    """Whether an instruction is a collective with the frontend attribute ASYNCHRONOUS."""
    return inst.op.collective is not None and ASYNCHRONOUS in inst.extra.frontend_attributes


def group_mode(op: Any) -> GroupMode:
    """The meaning of the numbers in the replica groups of a collective. A channel_id of 0 counts as none."""
    if (op.channel_id or 0) <= 0:
        return GroupMode.CROSS_REPLICA
    if not hasattr(op, "use_global_device_ids"):
        return GroupMode.CROSS_PARTITION
    return GroupMode.FLATTENED_ID if op.use_global_device_ids else GroupMode.CROSS_REPLICA_AND_PARTITION


def member_count(mode: GroupMode, replicas: int, partitions: int) -> int:
    """The number of members that replica groups can name in this mode, for a program on `replicas` replicas
    and `partitions` partitions.
    """
    if mode is GroupMode.FLATTENED_ID:
        return replicas * partitions
    return partitions if mode is GroupMode.CROSS_PARTITION else replicas


def member_of(mode: GroupMode, replica: int, partition: int, partitions: int) -> int:
    """The number by which replica groups name a participant in this mode."""
    if mode is GroupMode.FLATTENED_ID:
        return replica * partitions + partition
    return partition if mode is GroupMode.CROSS_PARTITION else replica


def group_of(op: Any, participant: int, replicas: int, partitions: int) -> tuple[int, ...] | None:
    """The participants in the group of participant p, in the order of the group; None if p is in no group.
    Participant p is partition p % partitions of replica p // partitions. InvalidArgument for a group that
    names a member that does not exist.
    """
    mode, (replica, partition) = group_mode(op), divmod(participant, partitions)
    count = member_count(mode, replicas, partitions)
    members: Sequence[int] | None = range(count)
    if op.replica_groups:
        members = op.replica_groups.group_of(member_of(mode, replica, partition, partitions))
    if members is None:
        return None
    if max(members) >= count:
        raise InvalidArgument(f"{op.opcode}: member {max(members)} of {op.replica_groups} is not < {count}")
    return processes(mode, members, replica, partition, partitions)


def processes(
    mode: GroupMode, members: Sequence[int], replica: int, partition: int, partitions: int
) -> tuple[int, ...]:
    """The participants (as replica * partitions + partition) that `members` of a group name, in order.
    `replica` and `partition` are the numbers of one participant in the group.
    """
    if mode is GroupMode.FLATTENED_ID:
        return tuple(members)
    if mode is GroupMode.CROSS_PARTITION:
        return tuple(replica * partitions + p for p in members)
    within = (partition,) if mode is GroupMode.CROSS_REPLICA else range(partitions)
    return tuple(r * partitions + p for r in members for p in within)
