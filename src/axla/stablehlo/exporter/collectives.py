"""Collectives. Where StableHLO takes one array and HLO several, each becomes an operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import axla.hlo as hlo
from axla.core.errors import UnsupportedError
from axla.core.shape import Shape, TupleShape
from axla.hlo.collective import elements
from axla.ir.attributes import SourceTargetPairs
from axla.ir.collectives import group_mode, member_count
from axla.ir.graph import Instruction
from axla.stablehlo import mlir
from axla.stablehlo.exporter.control import at_once, part
from axla.stablehlo.exporter.scope import Rule, Scope, Tree
from axla.stablehlo.exporter.types import I32, matrix, number, numbers, struct
from axla.stablehlo.tables import by_name

_CHANNEL_ZERO = (1 << 31) - 1


def _channel(op: Any) -> dict[str, Any]:
    if op.channel_id is None:
        return {}
    # StableHLO's channel 0 is none at all.
    return {"channel_handle": struct("channel_handle", handle=op.channel_id or _CHANNEL_ZERO, type=1)}


def _members(op: Any) -> dict[str, Any]:
    found = {"replica_groups": matrix(op.replica_groups.groups), **_channel(op)}
    if getattr(op, "use_global_device_ids", False):
        found["use_global_device_ids"] = mlir.UNIT
    return found


def _each(scope: Scope, inst: Instruction, name: str, attributes: dict[str, Any]) -> Tree:
    """An operation for each operand."""
    shapes = elements(inst.shape)
    found = [
        scope.add(name, (value,), shape, attributes)
        for value, shape in zip(scope.ones(inst), shapes, strict=True)
    ]
    return tuple(found) if isinstance(inst.shape, TupleShape) else found[0]


def _all_gather(scope: Scope, inst: Instruction, op: hlo.AllGather) -> Tree:
    attributes = {"all_gather_dim": number(op.dimensions[0]), **_members(op)}
    return scope.add("stablehlo.all_gather", scope.ones(inst), inst.shape, attributes)


def _all_reduce(scope: Scope, inst: Instruction, op: hlo.AllReduce | hlo.AllReduceStart) -> Tree:
    if len(op.to_apply.parameters) != 2:
        raise UnsupportedError("a region of several element types")
    dtypes = {s.dtype for s in (o.shape for o in inst.operands) if isinstance(s, Shape)}
    if len(dtypes) > 1 or op.to_apply.root.shape.dtype not in dtypes:
        return _each_combined(scope, inst, "stablehlo.all_reduce", _members(op))
    regions = [scope.region(op.to_apply)]
    return scope.add("stablehlo.all_reduce", scope.ones(inst), inst.shape, _members(op), regions)


def _reduce_scatter(scope: Scope, inst: Instruction, op: hlo.ReduceScatter) -> Tree:
    attributes = {"scatter_dimension": number(op.dimensions[0]), **_members(op)}
    return _each_combined(scope, inst, "stablehlo.reduce_scatter", attributes)


def _each_combined(scope: Scope, inst: Instruction, name: str, attributes: dict[str, Any]) -> Tree:
    """An operation for each operand, which computes in the type of the region."""
    called = inst.op.to_apply  # type: ignore[attr-defined]
    wanted, found = called.root.shape, []
    for operand, shape in zip(inst.operands, elements(inst.shape), strict=True):
        value = scope.converted(scope.one(operand), operand.shape, wanted)
        inner = shape.with_dtype(wanted.dtype)  # type: ignore[attr-defined]
        value = scope.add(name, (value,), inner, attributes, [scope.region(called)])
        found.append(scope.converted(value, inner, shape))
    return tuple(found) if isinstance(inst.shape, TupleShape) else found[0]


def _all_to_all(scope: Scope, inst: Instruction, op: hlo.AllToAll) -> Tree:
    groups, config = op.replica_groups, scope.exporter.module.config
    count = max(
        groups.sizes, default=member_count(group_mode(op), config.replica_count, config.num_partitions)
    )
    at = 0 if op.dimensions is None else op.dimensions[0]
    if op.dimensions is None:
        count = len(inst.operands)
    # MLIR's verifier divides by the size of a group: everyone is written out.
    everyone = {} if groups else {"replica_groups": matrix([range(count)])}
    attributes = {
        "split_dimension": number(at), "concat_dimension": number(at), "split_count": number(count),
        **_members(op), **everyone,
    }  # fmt: skip
    if op.dimensions is not None:
        return scope.add("stablehlo.all_to_all", scope.ones(inst), inst.shape, attributes)
    return _parts_to_all(scope, inst, attributes)


def _parts_to_all(scope: Scope, inst: Instruction, attributes: dict[str, Any]) -> Tree:
    """Each operand goes to a member: rows of one array do."""
    shape, count = inst.operands[0].shape, len(inst.operands)
    assert isinstance(shape, Shape)
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


def slice_of(ranges: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """The attributes of a slice that takes everything between limits."""
    start, limit = zip(*ranges, strict=True)
    return {
        "start_indices": numbers(start),
        "limit_indices": numbers(limit),
        "strides": numbers([1] * len(ranges)),
    }


def _to_root(scope: Scope, inst: Instruction, op: Any) -> Tree:
    """From or to one member, which may be an operand."""
    attributes, values = _members(op), scope.ones(inst)
    roots = [values.pop()] if op.has_dynamic_root else []
    if roots:
        attributes["has_dynamic_root"] = mlir.UNIT
    if roots and len(values) > 1:  # a root for each operand
        shape = inst.operands[-1].shape
        assert isinstance(shape, Shape)
        roots = [
            scope.add("stablehlo.slice", roots, shape.with_dims([1]), slice_of([(n, n + 1)]))
            for n in range(len(values))
        ]
    shapes, called = elements(inst.shape), getattr(op, "to_apply", None)
    name = f"stablehlo.{inst.opcode.replace('-', '_')}"
    found = [
        scope.add(
            name, [value, *roots[n : n + 1]], shape, attributes, [scope.region(called)] if called else None
        )
        for n, (value, shape) in enumerate(zip(values, shapes, strict=True))
    ]
    return tuple(found) if isinstance(inst.shape, TupleShape) else found[0]


def _permute(scope: Scope, inst: Instruction, op: hlo.CollectivePermute) -> Tree:
    if op.slice_sizes:
        raise UnsupportedError("slices that are replaced in place")
    attributes = {"source_target_pairs": _pairs(op.source_target_pairs), **_channel(op)}
    return _each(scope, inst, "stablehlo.collective_permute", attributes)


def _pairs(pairs: SourceTargetPairs) -> mlir.DenseElements:
    if pairs.text and not pairs.pairs:
        raise UnsupportedError(f"source_target_pairs={pairs.text}")
    return matrix(pairs.pairs, 2)


def _ragged_all_to_all(scope: Scope, inst: Instruction, op: Any) -> Tree:
    """A custom call that XLA takes for the op."""
    config: dict[str, Any] = {"replica_groups": matrix(op.replica_groups.groups)}
    if op.channel_id:
        config["channel_id"] = number(op.channel_id)
    attributes = {
        "call_target_name": "ragged_all_to_all",
        "api_version": number(4, I32),
        "backend_config": config,
    }
    return scope.add("stablehlo.custom_call", scope.ones(inst), inst.shape, attributes)


RULES: dict[str, Rule] = {
    **by_name(
        "", _all_gather, _all_reduce, _all_to_all, _ragged_all_to_all, _reduce_scatter, between="-",
    ),
    "all-gather-done": part(1),
    "all-gather-start": at_once("all-gather"),
    "all-reduce-done": part(),
    "all-reduce-start": _all_reduce,
    "collective-broadcast": _to_root,
    "collective-permute": _permute,
    "collective-permute-done": part(1),
    "collective-permute-start": at_once("collective-permute"),
    "collective-reduce": _to_root,
}  # fmt: skip
