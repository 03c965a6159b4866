"""Who takes part in collectives, against replica_count and num_partitions of the header. In this module:

  group_members  groups name the members 0 to n-1, and where the header says how many there are, all of them;
                 any, where those that have no group get zeros
  group_size     the result of a gather, scatter or exchange fits the number of members
  group_pairs    source and target of a permute are members

Counts of 1 say nothing: they are the default of a text that does not write them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from axla.core.shape import AnyShape, Shape, TupleShape
from axla.ir.graph import Instruction
from axla.ir.verify.failure import fail


def _members(inst: Instruction) -> tuple[str, int]:
    """What the numbers in groups stand for, and how many there are."""
    op: Any = inst.op
    config = inst.computation.module.config
    replicas, partitions = config.replica_count, config.num_partitions
    if op.channel_id is None:
        return "replicas", replicas
    if not hasattr(op, "use_global_device_ids"):
        return "partitions", partitions
    return ("devices", replicas * partitions) if op.use_global_device_ids else ("replicas", replicas)


def _verify_some(inst: Instruction) -> None:
    """Who is in no group takes part all the same, with zeros."""
    what, count = _members(inst)
    named = {m for group in inst.op.replica_groups.groups for m in group}  # type: ignore[attr-defined]
    if count > 1 and max(named, default=0) >= count:
        fail("group_members", f"{inst!r}: there are {count} {what}, found the member {max(named)}")


def _verify_members(inst: Instruction) -> None:
    op: Any = inst.op
    groups = op.replica_groups.groups
    if not groups:
        return
    named = {member for group in groups for member in group}
    missing = next((m for m in range(len(named)) if m not in named), None)
    if missing is not None:
        fail(
            "group_members",
            f"{inst!r}: replica_groups name {len(named)} members, but not {missing}",
        )
    what, count = _members(inst)
    if count not in (1, len(named)):
        fail("group_members", f"{inst!r}: replica_groups must name all {count} {what}, found {len(named)}")


def _group_size(inst: Instruction) -> int:
    """How many take part together; 1 where that is not known."""
    op: Any = inst.op
    what, count = _members(inst)
    groups = op.replica_groups.groups
    size = len(groups[0]) if groups else count
    if op.replica_groups.text and not groups:
        return 1
    across = op.channel_id is not None and what == "replicas"
    return size * inst.computation.module.config.num_partitions if across else size


def _elements(shape: AnyShape) -> tuple[AnyShape, ...]:
    return shape.elements if isinstance(shape, TupleShape) else (shape,)


def _verify_parts(inst: Instruction) -> None:
    """The dimension of a gather or scatter grows or shrinks by the number of members."""
    _verify_members(inst)
    op: Any = inst.op
    size, at = _group_size(inst), op.dimensions[0]
    result = inst.shape
    if inst.opcode == "all-gather-start":
        assert isinstance(result, TupleShape)
        result = result.elements[1]
    source, target = inst.operands[0].shape, _elements(result)[0]
    assert isinstance(source, Shape) and isinstance(target, Shape)
    small, large = sorted((source.dims[at], target.dims[at]))
    count = -(-large // small) if small else size
    if size not in (1, count):
        fail(
            "group_size",
            f"{inst!r}: dimension {at} of {source.to_string(layout=False)} and "
            f"{target.to_string(layout=False)} is for {count} members, found groups of {size}",
        )


def _verify_exchange(inst: Instruction) -> None:
    _verify_members(inst)
    op: Any = inst.op
    size = _group_size(inst)
    if op.dimensions is None and size not in (1, len(inst.operands)):
        fail(
            "group_size", f"{inst!r}: an operand per member is wanted, found {len(inst.operands)} for {size}"
        )


def _verify_permute(inst: Instruction) -> None:
    op: Any = inst.op
    what, count = _members(inst)
    for pair in op.source_target_pairs.pairs:
        if count > 1 and max(pair) >= count:
            fail("group_pairs", f"{inst!r}: there are {count} {what}, found the pair {pair}")


RULES: dict[str, Callable[[Instruction], None]] = {
    "all-gather": _verify_parts,
    "all-gather-start": _verify_parts,
    "all-reduce": _verify_members,
    "all-reduce-start": _verify_members,
    "all-to-all": _verify_exchange,
    "collective-broadcast": _verify_some,
    "collective-permute": _verify_permute,
    "collective-permute-start": _verify_permute,
    "collective-reduce": _verify_some,
    "ragged-all-to-all": _verify_members,
    "reduce-scatter": _verify_parts,
}
