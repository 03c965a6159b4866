"""Exports calls, loops, branches, barriers, custom calls, asynchronous ops and transfers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import axla.hlo as hlo
from axla.core.errors import UnsupportedError
from axla.core.shape import AnyShape, BufferShape, Shape, TupleShape, array
from axla.core.tables import by_name
from axla.ir.attributes import ApiVersion
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.ir.typed import tuple_of
from axla.stablehlo import mlir
from axla.stablehlo.building import I32, INDEX, number, vector
from axla.stablehlo.conversions import channel_handle
from axla.stablehlo.counterparts import CALL_FIELDS
from axla.stablehlo.exporter.plain import attributes_of, written
from axla.stablehlo.exporter.scope import ExportRule, ExportScope, Tree, parsed
from axla.stablehlo.mlir import CALL


def _operand_leaves(scope: ExportScope, inst: Instruction) -> list[mlir.Value]:
    return [leaf for operand in inst.operands for leaf in scope.leaves(operand)]


def _call(scope: ExportScope, inst: Instruction, op: hlo.Call) -> Tree:
    if not op.is_composite:
        return scope.call(op.to_apply, _operand_leaves(scope, inst))
    said = dict(inst.extra.frontend_attributes)
    given, version = parsed(said.get("composite.attributes", "{}")), said.get("composite.version", "0")
    attributes = {
        "name": said.get("composite.name", op.to_apply.name),
        "decomposition": scope.exporter.symbol(op.to_apply),
        "composite_attributes": given if isinstance(given, dict) else {},
        "version": number(int(version) if version.isdigit() else 0, I32),
    }
    return scope.add("stablehlo.composite", _operand_leaves(scope, inst), inst.shape, attributes)


def _fusion(scope: ExportScope, inst: Instruction, op: hlo.Fusion) -> Tree:
    return scope.call(op.calls, _operand_leaves(scope, inst))


def _of_leaves(scope: ExportScope, inst: Instruction, op: Op) -> Tree:
    """Exports the operation that the op's record names, on the leaves of the operands."""
    return written(scope, inst, op, _operand_leaves(scope, inst))


def _conditional(scope: ExportScope, inst: Instruction, op: hlo.Conditional) -> Tree:
    index, *operands = inst.operands
    for operand in operands:  # constants for missing leaves must be outside the regions that use them
        scope.values[operand] = scope.tree(operand.shape, iter(scope.leaves(operand)))
    pairs = zip(op.branches, operands, strict=True)
    regions = [scope.branch(branch, scope.values[operand]) for branch, operand in pairs]
    name = "stablehlo.if" if array(index.shape).dtype.is_pred else "stablehlo.case"
    return scope.add(name, [scope.one(index)], inst.shape, None, regions)


def _barrier(scope: ExportScope, inst: Instruction, op: Op) -> Tree:
    leaves = _operand_leaves(scope, inst)
    return scope.add("stablehlo.optimization_barrier", leaves, inst.shape) if leaves else ()


def _add_dependency(scope: ExportScope, inst: Instruction, op: Op) -> Tree:
    """Exports an add-dependency as a barrier on the operand and the token."""
    types = [t for o in inst.operands for t in scope.exporter.leaf_types(o.shape)]
    found = scope.emit("stablehlo.optimization_barrier", _operand_leaves(scope, inst), types)
    return scope.tree(inst.shape, iter(found))


# Custom calls


def _custom_call(scope: ExportScope, inst: Instruction, op: hlo.CustomCall) -> Tree:
    if op.result_layout_constraints:
        raise UnsupportedError("result_layout_constraints, which StableHLO does not have")
    if any(isinstance(leaf, BufferShape) for leaf in op.shape.leaves()) and op.output_to_operand_aliasing:
        raise UnsupportedError("a result buffer in the memory of an operand")
    attributes: dict[str, Any] = {
        "call_target_name": op.custom_call_target, "has_side_effect": op.custom_call_has_side_effect,
        "api_version": number(list(ApiVersion).index(op.api_version), I32),
        **_config(op, inst.extra.backend_config),
    }  # fmt: skip
    if rest := _said_of_hlo(inst, op, [a.name for a in op.attributes if getattr(op, a.name) != a.default]):
        attributes[CALL] = rest
    if op.called_computations:
        attributes["called_computations"] = tuple(map(scope.exporter.symbol, op.called_computations))
    if op.output_to_operand_aliasing:
        attributes["output_operand_aliases"] = tuple(
            mlir.StructAttr("output_operand_alias", {
                "output_tuple_indices": a.output, "operand_index": a.operand,
                "operand_tuple_indices": a.index,
            })
            for a in op.output_to_operand_aliasing
        )  # fmt: skip
    several = isinstance(inst.shape, TupleShape) and len(inst.shape.elements) != 1
    results = inst.shape.parts if several else (inst.shape,)
    if op.operand_layout_constraints is not None:
        attributes |= _layouts(op.operand_layout_constraints, op.shape.parts)
    operands = [scope.packed(scope.values[o], o.shape) for o in inst.operands]
    found = scope.emit("stablehlo.custom_call", operands, list(map(scope.exporter.type, results)), attributes)
    trees = tuple(scope.unpacked(v, s) for v, s in zip(found, results, strict=True))
    return trees if several else trees[0]


_said_of_hlo = attributes_of(CALL_FIELDS)


def _config(op: hlo.CustomCall, text: str) -> dict[str, Any]:
    if not text:
        return {}
    if op.api_version is not ApiVersion.TYPED_FFI:
        return {"backend_config": text}
    config = parsed(text)
    if not isinstance(config, dict):
        raise UnsupportedError(f"the backend_config of a typed call must be a dictionary, found {text[:60]}")
    return {"backend_config": config}


def _layouts(operands: Sequence[AnyShape], results: Sequence[AnyShape]) -> dict[str, Any]:
    shapes = (*operands, *results)
    if any(isinstance(s, TupleShape) for s in shapes):
        if all(leaf is leaf.logical for s in shapes for leaf in s.leaves()):
            return {}
        raise UnsupportedError("operands or results that are tuples with layouts")
    orders = [s.layout.minor_to_major if isinstance(s, Shape) else () for s in shapes]
    dense = tuple(vector(order, INDEX) for order in orders)
    return {"operand_layouts": dense[: len(operands)], "result_layouts": dense[len(operands) :]}


# Asynchronous operations are exported where they start.


def _async_start(scope: ExportScope, inst: Instruction, op: hlo.AsyncStart) -> Tree:
    found = scope.call(op.calls, _operand_leaves(scope, inst))
    return (tuple(scope.values[o] for o in inst.operands), found, *_contexts(scope, inst))


def _contexts(scope: ExportScope, inst: Instruction) -> list[Tree]:
    """The contexts of an asynchronous op: the elements of its result from number 2 on. Contexts have no value
    in StableHLO, so each of their leaves is None.
    """
    return [scope.tree(shape, repeat(None)) for shape in tuple_of(inst).elements[2:]]


def at_once(whole: Callable[..., Tree]) -> ExportRule:
    """Makes a rule for the start of an asynchronous op: it exports the started op by that op's rule, `whole`.
    The value of the start is (operands, result, contexts).
    """

    def rule(scope: ExportScope, inst: Instruction, op: Op) -> Tree:
        values = [scope.values[o] for o in inst.operands]
        given = values[0] if len(values) == 1 else tuple(values)
        return (given, whole(scope, inst, op, shape=tuple_of(inst).elements[1]), *_contexts(scope, inst))

    return rule


def part(*path: int) -> ExportRule:
    """Makes a rule that returns an element of the operand's tree, at the index `path`."""

    def rule(scope: ExportScope, inst: Instruction, op: Op) -> Tree:
        tree = scope.values[inst.operands[0]]
        for index in path:
            tree = tree[index]
        return tree

    return rule


def _copy_start(scope: ExportScope, inst: Instruction, op: Op) -> Tree:
    tree = scope.values[inst.operands[0]]
    return (tree, tree, *_contexts(scope, inst))


# Transfers and tokens. StableHLO sends and receives in one step.


def _after_all(scope: ExportScope, inst: Instruction, op: Op) -> Tree:
    name = "stablehlo.after_all" if inst.operands else "stablehlo.create_token"
    return scope.add(name, scope.ones(inst), inst.shape)


def _channel(op: Any, host: int) -> dict[str, Any]:
    handle = channel_handle(op.channel_id or 0, host if op.is_host_transfer else 1)
    return {"channel_handle": handle, "is_host_transfer": op.is_host_transfer}


def _send(scope: ExportScope, inst: Instruction, op: Any) -> Tree:
    token = scope.exporter.type(inst.operands[1].shape)
    found = scope.emit("stablehlo.send", _operand_leaves(scope, inst), [token], _channel(op, 2))
    return (scope.values[inst.operands[0]], None, found[0])


def _recv(scope: ExportScope, inst: Instruction, op: Any) -> Tree:
    data, _, token = tuple_of(inst).elements
    found = scope.add("stablehlo.recv", scope.ones(inst), TupleShape((data, token)), _channel(op, 3))
    return (found[0], None, found[1])


def _recv_done(scope: ExportScope, inst: Instruction, op: Op) -> Tree:
    data, _, token = scope.values[inst.operands[0]]
    return (data, token)


RULES: dict[str, ExportRule] = {
    **by_name(
        "", _add_dependency, _after_all, _async_start, _call, _conditional, _copy_start, _custom_call,
        _fusion, _recv, _recv_done, _send, between="-",
    ),
    "async-done": part(1),
    "async-update": part(),
    "copy-done": part(0),
    "opt-barrier": _barrier,
    "outfeed": _of_leaves,
    "send-done": part(2),
    "while": _of_leaves,
}  # fmt: skip
