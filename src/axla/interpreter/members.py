"""Converts the source-target pairs of an op to pairs of process numbers."""

from __future__ import annotations

from collections.abc import Sequence

from axla.core.errors import CollectiveFailure
from axla.interpreter.processes import Process
from axla.ir.collectives import GroupMode, member_count, processes
from axla.ir.graph import Instruction


def pairs_of(
    inst: Instruction, process: Process, pairs: Sequence[tuple[int, int]], mode: GroupMode
) -> list[tuple[int, int]]:
    """Converts source-target pairs to pairs of process numbers. `mode` decides whether the numbers in pairs
    mean replicas, partitions or both.
    """
    grid, found = process.grid, []
    count = member_count(mode, grid.replicas, grid.partitions)
    for pair in pairs:
        if max(pair) >= count:
            raise CollectiveFailure(f"{inst!r} names participant {max(pair)}; there are {count}")
        source, target, *_ = processes(mode, pair, process.replica, process.partition, grid.partitions)
        found.append((source, target))
    return found
