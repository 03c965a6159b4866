"""Rules for the replica groups of collectives, given replica_count and num_partitions of the header.

    group_members  groups name the members 0 to n-1, and all that the header has. A collective whose other
                   participants get zeros may name any of them
    group_size     the result of a gather, scatter or exchange fits the number of members
    group_pairs    source and target of a permute are members

A count of 1 in the header is not checked: it is the default, if the text does not have it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from axla.ir.collectives import CollectiveKind, GroupMode, group_mode, member_count
from axla.ir.families import Exchanging, Grouped, Paired, Resizing
from axla.ir.graph import Instruction
from axla.ir.verify.failure import fail


def _members(inst: Instruction) -> tuple[GroupMode, int]:
    """The meaning of the numbers in the replica groups of a collective, and the number of existing
    members.
    """
    config, mode = inst.computation.module.config, group_mode(inst.op)
    return mode, member_count(mode, config.replica_count, config.num_partitions)


def _verify_groups(inst: Instruction[Grouped]) -> None:
    groups = inst.op.replica_groups
    (mode, count), members, highest = _members(inst), groups.members, groups.highest
    if inst.op.collective is CollectiveKind.ROOTED:
        if count > 1 and highest >= count:
            fail("group_members", f"{inst!r}: there are {count} {mode}, but a group has the member {highest}")
        return
    if highest >= members:  # the members are all different, so that a number below the highest is missing
        named = {m for group in groups.groups for m in group}
        missing = next(m for m in range(members) if m not in named)
        fail("group_members", f"{inst!r}: replica_groups name {members} members, but not {missing}")
    if groups and count not in (1, members):
        fail("group_members", f"{inst!r}: replica_groups must name all {count} {mode}, found {members}")


def _group_size(inst: Instruction[Grouped]) -> int:
    """The number of participants in a group; 1 if it is unknown."""
    mode, count = _members(inst)
    size = max(inst.op.replica_groups.sizes, default=count)
    across = mode is GroupMode.CROSS_REPLICA_AND_PARTITION
    return size * inst.computation.module.config.num_partitions if across else size


def _is_open(inst: Instruction[Grouped]) -> bool:
    """Whether each member of a group stands for all partitions of a replica, and the header does not have the
    number of partitions.
    """
    across = group_mode(inst.op) is GroupMode.CROSS_REPLICA_AND_PARTITION
    return across and inst.computation.module.config.num_partitions == 1


def _verify_parts(inst: Instruction[Resizing]) -> None:
    """Checks that the dimension of a gather or scatter grows or shrinks by the group size."""
    _verify_groups(inst)
    size, at = _group_size(inst), inst.op.dimensions[0]
    result = inst.shape
    if inst.opcode == "all-gather-start":
        result = result.elements[1]
    source, target = inst.operands[0].shape, result.parts[0]
    small, large = sorted((source.dims[at], target.dims[at]))
    count = -(-large // small) if small else size
    if size not in (1, count) and not (_is_open(inst) and count % size == 0):
        both = f"{source.to_string(layout=False)} and {target.to_string(layout=False)}"
        found = f"dimension {at} of {both} is for {count} members"
        fail("group_size", f"{inst!r}: {found}, but the groups have {size}")


def _verify_exchange(inst: Instruction[Exchanging]) -> None:
    _verify_groups(inst)
    size = _group_size(inst)
    if inst.op.dimensions is None and size not in (1, len(inst.operands)):
        message = f"{inst!r}: one operand per member is wanted, found {len(inst.operands)} for {size} members"
        fail("group_size", message)


def _verify_permute(inst: Instruction[Paired]) -> None:
    what, count = _members(inst)
    for pair in inst.op.source_target_pairs.pairs:
        if count > 1 and max(pair) >= count:
            fail("group_pairs", f"{inst!r}: there are {count} {what}, found the pair {pair}")


RULES: dict[CollectiveKind, Callable[[Instruction[Any]], None]] = {
    CollectiveKind.EXCHANGED: _verify_exchange,
    CollectiveKind.PAIRED: _verify_permute,
    CollectiveKind.ROOTED: _verify_groups,
    CollectiveKind.SAME: _verify_groups,
    CollectiveKind.SCALED: _verify_parts,
}
