"""Exports collectives. Where HLO takes several arrays and StableHLO one, each array becomes an operation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import axla.hlo as hlo
from axla.core.errors import UnsupportedError
from axla.core.shape import AnyShape, array
from axla.core.tables import by_name
from axla.ir.collectives import group_mode, member_count
from axla.ir.families import Paired
from axla.ir.graph import Instruction
from axla.stablehlo.building import matrix, number, slice_of
from axla.stablehlo.exporter.control import at_once, part
from axla.stablehlo.exporter.declared import typed_call
from axla.stablehlo.exporter.plain import each, said, written
from axla.stablehlo.exporter.scope import ExportRule, ExportScope, Tree


def _all_reduce(scope: ExportScope, inst: Instruction, op: hlo.AllReduce | hlo.AllReduceStart) -> Tree:
    if len(op.to_apply.parameters) != 2:
        raise UnsupportedError("its region combines several arrays at once")
    return written(scope, inst, op, opcode="all-reduce")


def _all_to_all(scope: ExportScope, inst: Instruction, op: hlo.AllToAll) -> Tree:
    groups, config = op.replica_groups, scope.exporter.module.config
    members = member_count(group_mode(op), config.replica_count, config.num_partitions)
    count = max(groups.sizes, default=members)
    by_operands, op = op.dimensions is None, replace(op, dimensions=op.dimensions or (0,))
    if by_operands:
        count = len(inst.operands)
    attributes = said(inst, op)
    at = attributes["split_dimension"]
    attributes = {"split_dimension": at, "concat_dimension": at, "split_count": number(count), **attributes}
    if not groups:  # MLIR's verifier divides by the size of a group, so a group of all members is written out
        attributes["replica_groups"] = matrix([range(count)])
    if by_operands:
        return _parts_to_all(scope, inst, attributes)
    return scope.add("stablehlo.all_to_all", scope.ones(inst), inst.shape, attributes)


def _parts_to_all(scope: ExportScope, inst: Instruction, attributes: dict[str, Any]) -> Tree:
    """Exports an all-to-all with an operand for each member of a group: the operands become the rows of one
    array.
    """
    shape, count = array(inst.operands[0].shape), len(inst.operands)
    row, rows = shape.with_dims([1, *shape.dims]), shape.with_dims([count, *shape.dims])
    lines = [scope.add("stablehlo.reshape", (value,), row) for value in scope.ones(inst)]
    joined = scope.add("stablehlo.concatenate", lines, rows, {"dimension": number(0)})
    found = scope.add("stablehlo.all_to_all", (joined,), rows, attributes)
    parts = []
    for n in range(count):
        ranges = slice_of([(n, n + 1), *((0, d) for d in shape.dims)])
        line = scope.add("stablehlo.slice", (found,), row, ranges)
        parts.append(scope.add("stablehlo.reshape", (line,), shape))
    return tuple(parts)


def _to_root(scope: ExportScope, inst: Instruction, op: Any) -> Tree:
    """Exports a broadcast from a root member, or a reduction to it. The last operand may have the root's
    position in its group.
    """
    rows = [[value] for value in scope.ones(inst)]
    if op.has_dynamic_root:
        *rows, (root,) = rows
        roots = [root] if len(rows) == 1 else list(scope.parts(root, len(rows)))
        rows = [[*row, root] for row, root in zip(rows, roots, strict=True)]
    called = [op.to_apply] if op.computation_fields else []
    name = f"stablehlo.{inst.opcode.replace('-', '_')}"
    found = each(scope, name, rows, list(inst.shape.leaves()), said(inst, op), called)
    return scope.tree(inst.shape, iter(found))


def _permute(scope: ExportScope, inst: Instruction, op: Paired, shape: AnyShape | None = None) -> Tree:
    if op.slice_sizes:
        raise UnsupportedError("slices that are replaced in place")
    return written(scope, inst, op, opcode="collective-permute", shape=shape)


def _ragged_all_to_all(scope: ExportScope, inst: Instruction, op: Any) -> Tree:
    """Exports a ragged-all-to-all as the custom call that XLA uses for it."""
    config: dict[str, Any] = {"replica_groups": matrix(op.replica_groups.groups)}
    if op.channel_id:
        config["channel_id"] = number(op.channel_id)
    return typed_call(scope, inst, "ragged_all_to_all", config)


RULES: dict[str, ExportRule] = {
    **by_name("", _all_reduce, _all_to_all, _ragged_all_to_all, between="-"),
    "all-gather-done": part(1),
    "all-gather-start": at_once(partial(written, opcode="all-gather")),
    "all-reduce-done": part(),
    "all-reduce-start": _all_reduce,
    "collective-broadcast": _to_root,
    "collective-permute": _permute,
    "collective-permute-done": part(1),
    "collective-permute-start": at_once(_permute),
    "collective-reduce": _to_root,
}
