"""Who takes part in a collective: the groups of an op as numbers of processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from axla.core.errors import CollectiveFailure, UnsupportedError
from axla.interpreter.processes import Grid, Process
from axla.ir.graph import Instruction


def group_of(inst: Instruction, process: Process) -> tuple[int, ...] | None:
    """The members of the process's group in order; None when it is in none.

    Without a channel a group is of replicas, within each partition. With one it is of partitions within each
    replica; for ops that have `use_global_device_ids`, of devices where it is set, else of replicas with all
    their partitions.
    """
    op: Any = inst.op
    grid = process.grid
    rows = op.replica_groups.groups
    if not rows and op.replica_groups.text:
        raise UnsupportedError(
            f"{inst!r}: the interpreter does not know replica_groups={op.replica_groups.text}"
        )
    globally = getattr(op, "use_global_device_ids", None)
    if has_channel(inst) and globally:
        return _row(inst, rows, process.number, grid.replicas * grid.partitions)
    if has_channel(inst) and globally is None:
        row = _row(inst, rows, process.partition, grid.partitions)
        return None if row is None else partitions_of(grid, process, row)
    row = _row(inst, rows, process.replica, grid.replicas)
    if row is None:
        return None
    if not has_channel(inst):
        return replicas_of(grid, process, row)
    return tuple(r * grid.partitions + p for p in range(grid.partitions) for r in row)


def has_channel(inst: Instruction) -> bool:
    """Whether partitions may talk to each other; the number 0 stands for no channel."""
    return (inst.op.channel_id or 0) > 0  # type: ignore[attr-defined]


def replicas_of(grid: Grid, process: Process, replicas: Sequence[int]) -> tuple[int, ...]:
    return tuple(r * grid.partitions + process.partition for r in replicas)


def partitions_of(grid: Grid, process: Process, partitions: Sequence[int]) -> tuple[int, ...]:
    return tuple(process.replica * grid.partitions + p for p in partitions)


def _row(
    inst: Instruction, rows: tuple[tuple[int, ...], ...], member: int, count: int
) -> tuple[int, ...] | None:
    if not rows:
        return tuple(range(count))
    row = next((row for row in rows if member in row), None)
    if row is not None:
        check_members(inst, row, count)
    return row


def check_members(inst: Instruction, members: Sequence[int], count: int) -> None:
    if max(members) >= count:
        raise CollectiveFailure(f"{inst!r} names the member {max(members)}; there are {count}")


def pairs_of(
    inst: Instruction, process: Process, pairs: Sequence[tuple[int, int]], *, across: bool
) -> list[tuple[int, int]]:
    """Pairs of source and target as numbers of processes: of partitions if `across`, else of replicas."""
    grid = process.grid
    if pairs:
        check_members(inst, [m for p in pairs for m in p], grid.partitions if across else grid.replicas)
    place = partitions_of if across else replicas_of
    return [(found[0], found[1]) for p in pairs for found in [place(grid, process, p)]]
