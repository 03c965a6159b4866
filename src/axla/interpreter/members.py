"""Who takes part in a collective: the groups of an op as numbers of processes."""

from __future__ import annotations

from collections.abc import Sequence

from axla.core.errors import CollectiveFailure
from axla.interpreter.processes import Process
from axla.ir.collectives import GroupMode, group_mode, member_count, member_of, processes
from axla.ir.families import Grouped
from axla.ir.graph import Instruction


def group_of(inst: Instruction[Grouped], process: Process) -> tuple[int, ...] | None:
    """The members of the process's group in order; None when it is in none."""
    op = inst.op
    mode, grid = group_mode(op), process.grid
    row: Sequence[int] | None = range(member_count(mode, grid.replicas, grid.partitions))
    if op.replica_groups:
        row = op.replica_groups.group_of(member_of(mode, process.replica, process.partition, grid.partitions))
    return None if row is None else placed(inst, process, row, mode)


def placed(inst: Instruction, process: Process, members: Sequence[int], mode: GroupMode) -> tuple[int, ...]:
    """Members of a group of the process, as numbers of processes."""
    grid = process.grid
    count = member_count(mode, grid.replicas, grid.partitions)
    if max(members) >= count:
        raise CollectiveFailure(f"{inst!r} names the member {max(members)}; there are {count}")
    return processes(mode, members, process.replica, process.partition, grid.partitions)


def pairs_of(
    inst: Instruction, process: Process, pairs: Sequence[tuple[int, int]], mode: GroupMode
) -> list[tuple[int, int]]:
    """Pairs of source and target as numbers of processes."""
    return [(found[0], found[1]) for pair in pairs for found in [placed(inst, process, pair, mode)]]
