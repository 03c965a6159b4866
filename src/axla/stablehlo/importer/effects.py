"""Custom calls, collectives, transfers, tokens, asynchronous operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import axla.hlo as hlo
from axla.builder import calls, decompositions
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import U32
from axla.core.errors import UnsupportedError, VerifyError
from axla.core.shape import TOKEN, AnyShape, Layout, Shape, TupleShape
from axla.custom.registry import registered
from axla.interpreter.parallel import RUN_PARALLEL, parallel_call
from axla.ir.attributes import (
    ApiVersion,
    CustomCallSchedule,
    OutputAlias,
    PaddingType,
    RawText,
    SourceTargetPairs,
)
from axla.ir.devices import ReplicaGroups
from axla.ir.graph import Extra, Instruction
from axla.ir.structure import GetTupleElement, Tuple
from axla.stablehlo import mlir
from axla.stablehlo.importer import attributes as attr
from axla.stablehlo.importer.chlo import composition
from axla.stablehlo.importer.declared import declared_op
from axla.stablehlo.importer.mesh import mesh_groups
from axla.stablehlo.importer.movement import array
from axla.stablehlo.importer.numeric import labels_of, precision
from axla.stablehlo.importer.program import symbols
from axla.stablehlo.importer.reduction import parameter_types, window_of
from axla.stablehlo.importer.scope import Outcome, Rule, Scope, whole
from axla.stablehlo.tables import by_name
from axla.stablehlo.text.printer import attribute_text

# Custom calls


def _custom_call(scope: Scope, operation: mlir.Operation) -> Outcome:
    target = attr.text(operation, "call_target_name")
    name = {"mhlo.topk": "top_k"}.get(target, target.removeprefix("mhlo."))
    rule = scope.importer.rules.get(f"chlo.{name}") if target.startswith("mhlo.") else None
    if rule is not None:
        # What older exporters wrote for operations that StableHLO did not have.
        given = attr.dictionary(operation, "mhlo.attributes")
        stand_in = mlir.Operation(target, operation.operands, (), {**operation.attributes, **given})
        stand_in.results = operation.results
        return rule(scope, stand_in)
    if target.startswith(mlir.OP):
        return declared_op(scope, operation, target)
    if target == "ragged_all_to_all":
        return _ragged_all_to_all(scope, operation)
    operands, results = scope.operands(operation), scope.shapes(operation)
    constraints = operation.attributes.get("operand_layouts")
    result_layouts = operation.attributes.get("result_layouts")
    if isinstance(result_layouts, tuple):
        results = _laid_out(results, result_layouts)
    config = operation.attributes.get("backend_config", "")
    if target in _DECOMPOSITIONS and not registered(target):
        return _decomposition(scope, operation, _DECOMPOSITIONS[target])
    version = attr.integer(operation, "api_version", 1)
    if isinstance(operation.attributes.get("mhlo.backend_config"), dict):
        # Typed calls as StableHLO's older versions carry them.
        config, version = operation.attributes["mhlo.backend_config"], 4
    op = hlo.CustomCall(
        whole(results),
        custom_call_target=target,
        operand_layout_constraints=None if not isinstance(constraints, tuple) else tuple(
            _laid_out([o.shape for o in operands], constraints)
        ),
        custom_call_has_side_effect=attr.flag(operation, "has_side_effect"),
        output_to_operand_aliasing=_aliases(operation),
        api_version=list(ApiVersion)[version],
        called_computations=tuple(
            scope.importer.computations[name]
            for name in symbols(operation.attributes.get("called_computations"))
        ),
        **_of_hlo(attr.dictionary(operation, mlir.CALL)),
    )  # fmt: skip
    text = config if isinstance(config, str) else attribute_text(config)
    return scope.add(op, operands, extra=replace(scope.extra, backend_config=text))


def _qr(a: XlaOp) -> XlaOp:
    return calls.Tuple(a.builder, decompositions.QrDecomposition(a))


_DECOMPOSITIONS: dict[str, Callable[..., XlaOp]] = {
    "Qr": _qr,
    "ProductOfElementaryHouseholderReflectors": decompositions.ProductOfElementaryHouseholderReflectors,
}
"""Calls that JAX emits for machines without LAPACK, which XLA expands on all: here as LAPACK's are."""


def _decomposition(scope: Scope, operation: mlir.Operation, function: Callable[..., XlaOp]) -> Outcome:
    found = composition(scope, function, scope.operands(operation, 1 if function is _qr else 2))
    if function is not _qr:
        return found
    return scope.parts(found, 2)


def _of_hlo(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a custom call that StableHLO does not have."""
    stand_in = mlir.Operation(mlir.CALL, [], (), given)
    found: dict[str, Any] = {
        name: attr.integer(stand_in, name)
        for name in ("feature_group_count", "batch_group_count")
        if name in given
    }
    if "window_dimensions" in given:
        size = attr.integers(stand_in, "window_dimensions")
        found["window"] = window_of(stand_in, size, "lhs_dilation", "rhs_dilation")
    if "dimension_numbers" in given:
        found["dim_labels"] = labels_of(stand_in)
    if "precision_config" in given:
        found["operand_precision"] = precision(stand_in)
    for name, kind in (("padding_type", PaddingType), ("literal", RawText), ("schedule", CustomCallSchedule)):
        if name in given:
            try:
                found[name] = kind(attr.text(stand_in, name))
            except ValueError as error:
                raise VerifyError(f"{mlir.CALL}: {error}") from None
    return found


def _ragged_all_to_all(scope: Scope, operation: mlir.Operation) -> Outcome:
    """StableHLO has no operation for it; a call says the channel and the groups in its configuration."""
    config = attr.dictionary(operation, "backend_config")
    stand_in = mlir.Operation("", [], (), config)
    channel = attr.integer(stand_in, "channel_id", 0)
    op = hlo.RaggedAllToAll(channel if channel > 0 else None, _groups(scope, stand_in))
    return scope.add(op, scope.operands(operation, 6))


def _laid_out(shapes: list[AnyShape], layouts: tuple[Any, ...]) -> list[AnyShape]:
    """The shapes in the layouts given, from minor to major."""
    found: list[AnyShape] = []
    for shape, layout in zip(shapes, layouts, strict=True):
        order = attr.as_integers(layout) or ()
        found.append(shape.with_layout(Layout(order)) if isinstance(shape, Shape) else shape)
    return found


def _aliases(operation: mlir.Operation) -> tuple[OutputAlias, ...]:
    found = []
    for alias in operation.attributes.get("output_operand_aliases", ()):
        output, index = (
            attr.field_integers(alias.fields, f"{n}_tuple_indices") for n in ("output", "operand")
        )
        found.append(OutputAlias(output, attr.field_integer(alias.fields, "operand_index"), index))
    return tuple(found)


def _sharding_constraint(scope: Scope, operation: mlir.Operation) -> Outcome:
    """A custom call that gives its operand, as XLA has it."""
    (operand,) = scope.operands(operation, 1)
    said = (("xla.sdy.sharding", attribute_text(operation.attributes.get("sharding", mlir.UNIT))),)
    extra = replace(scope.extra, frontend_attributes=said)
    return scope.add(hlo.CustomCall(operand.shape, custom_call_target="Sharding"), (operand,), extra=extra)


# Collectives


def _channel(operation: mlir.Operation) -> int | None:
    """The channel's number; none for 0, which stands for no channel."""
    handle = attr.field_integer(attr.structure(operation, "channel_handle", "channel_handle", {}), "handle")
    return handle if handle > 0 else None


def _groups(scope: Scope, operation: mlir.Operation) -> ReplicaGroups:
    """Rows of members; -1 fills rows that are shorter."""
    if isinstance(operation.attributes.get("replica_groups"), mlir.StructAttr):
        return ReplicaGroups(mesh_groups(scope.importer.source, operation).table().rows())
    rows = attr.matrix(operation, "replica_groups", [])
    return ReplicaGroups(tuple(group for row in rows if (group := tuple(m for m in row if m >= 0))))


def _members(scope: Scope, operation: mlir.Operation) -> dict[str, Any]:
    found = {"channel_id": _channel(operation), "replica_groups": _groups(scope, operation)}
    if attr.flag(operation, "use_global_device_ids"):
        found["use_global_device_ids"] = True
    return found


def _all_gather(scope: Scope, operation: mlir.Operation) -> Outcome:
    at = (attr.integer(operation, "all_gather_dim"),)
    op = hlo.AllGather(scope.whole_shape(operation), dimensions=at, **_members(scope, operation))
    return scope.add(op, scope.operands(operation))


def _all_reduce(scope: Scope, operation: mlir.Operation) -> Outcome:
    called = scope.region(operation)
    dtype = parameter_types(called)[0]
    operands = scope.operands(operation)
    operands = scope.converted(operands, [dtype] * len(operands))
    return scope.add(hlo.AllReduce(to_apply=called, **_members(scope, operation)), operands)


def _reduce_scatter(scope: Scope, operation: mlir.Operation) -> Outcome:
    called = scope.region(operation)
    at = (attr.integer(operation, "scatter_dimension"),)
    operands = scope.converted(scope.operands(operation, 1), parameter_types(called)[:1])
    op = hlo.ReduceScatter(
        scope.shape(operation), dimensions=at, to_apply=called, **_members(scope, operation)
    )
    return scope.add(op, operands)


def _all_to_all(scope: Scope, operation: mlir.Operation) -> Outcome:
    names = ("split_dimension", "concat_dimension", "split_count")
    split, concat, count = (attr.integer(operation, name) for name in names)
    op = hlo.AllToAll(dimensions=(split,), **_members(scope, operation))
    operands = scope.operands(operation)
    found = scope.add(op, operands)
    if split == concat:
        return found
    parts = [found] if len(operands) == 1 else scope.parts(found, len(operands))
    return [_exchanged(scope, part, split, concat, count) for part in parts]


def _exchanged(scope: Scope, value: Instruction, split: int, concat: int, count: int) -> Instruction:
    """The parts that lie along one dimension, put one behind the other along another."""
    shape = array(value)
    dims = list(shape.dims)
    apart = [*dims[:split], count, dims[split] // count, *dims[split + 1 :]]
    value = scope.add(hlo.Reshape(Shape(shape.dtype, apart)), (value,))
    order = [d for d in range(len(apart)) if d != split]
    order.insert(concat, split)
    value = scope.add(hlo.Transpose(tuple(order)), (value,))
    dims[split] //= count
    dims[concat] *= count
    return scope.add(hlo.Reshape(Shape(shape.dtype, dims)), (value,))


def _collective_broadcast(scope: Scope, operation: mlir.Operation) -> Outcome:
    dynamic = attr.flag(operation, "has_dynamic_root")
    op = hlo.CollectiveBroadcast(_channel(operation), _groups(scope, operation), dynamic)
    return scope.add(op, scope.operands(operation))


def _collective_reduce(scope: Scope, operation: mlir.Operation) -> Outcome:
    called, operands = scope.region(operation), scope.operands(operation)
    dynamic = attr.flag(operation, "has_dynamic_root")
    count = len(operands) - dynamic
    data = scope.converted(operands[:count], [parameter_types(called)[0]] * count)
    op = hlo.CollectiveReduce(_channel(operation), _groups(scope, operation), dynamic, called)
    return scope.add(op, [*data, *operands[count:]])


def _collective_permute(scope: Scope, operation: mlir.Operation) -> Outcome:
    pairs = tuple((row[0], row[1]) for row in attr.matrix(operation, "source_target_pairs"))
    op = hlo.CollectivePermute(_channel(operation), SourceTargetPairs(pairs))
    return scope.add(op, scope.operands(operation))


# Transfers and tokens


def _channel_and_place(operation: mlir.Operation) -> tuple[int, bool]:
    handle = attr.structure(operation, "channel_handle", "channel_handle")
    return attr.field_integer(handle, "handle"), attr.flag(operation, "is_host_transfer")


def _with_pairs(scope: Scope, operation: mlir.Operation) -> Extra:
    """Who sends to whom, as HLO says it."""
    pairs = attr.matrix(operation, "source_target_pairs", [])
    if not pairs:
        return scope.extra
    text = "{" + ",".join(f"{{{a},{b}}}" for a, b in pairs) + "}"
    said = (*scope.extra.frontend_attributes, ("_xla_send_recv_source_target_pairs", text))
    return replace(scope.extra, frontend_attributes=said)


def _send(scope: Scope, operation: mlir.Operation) -> Outcome:
    *data, token = scope.operands(operation)
    where = _channel_and_place(operation)
    value = scope.tuple(data)
    op = hlo.Send(TupleShape((value.shape.logical, Shape(U32), TOKEN)), *where)
    begun = scope.add(op, (value, token), extra=_with_pairs(scope, operation))
    return scope.add(hlo.SendDone(*where), (begun,))


def _recv(scope: Scope, operation: mlir.Operation) -> Outcome:
    *shapes, _ = scope.shapes(operation) or [TOKEN]
    where = _channel_and_place(operation)
    op = hlo.Recv(TupleShape((whole(shapes), Shape(U32), TOKEN)), *where)
    begun = scope.add(op, scope.operands(operation, 1), extra=_with_pairs(scope, operation))
    done = scope.add(hlo.RecvDone(*where), (begun,))
    if len(shapes) == 1:
        return done
    return _taken_apart(scope, done, len(shapes))


def _taken_apart(scope: Scope, pair: Instruction, count: int) -> list[Instruction]:
    """The elements of ((a, b...), token)."""
    data = scope.add(GetTupleElement(0), (pair,))
    return [*scope.parts(data, count), scope.add(GetTupleElement(1), (pair,))]


def _infeed(scope: Scope, operation: mlir.Operation) -> Outcome:
    *shapes, _ = scope.shapes(operation) or [TOKEN]
    op = hlo.Infeed(TupleShape((TupleShape(shapes), TOKEN)), attr.text(operation, "infeed_config", ""))
    return _taken_apart(scope, scope.add(op, scope.operands(operation, 1)), len(shapes))


def _outfeed(scope: Scope, operation: mlir.Operation) -> Outcome:
    *data, token = scope.operands(operation)
    value = scope.add(Tuple(), data)
    op = hlo.Outfeed(value.shape, attr.text(operation, "outfeed_config", ""))
    return scope.add(op, (value, token))


# Asynchronous operations


def _in_place(scope: Scope, operation: mlir.Operation) -> list[Instruction]:
    """What a region gives for the operands."""
    block = operation.regions[0].blocks[0]
    operands = scope.operands(operation, len(block.arguments))
    scope.values.update(zip(block.arguments, operands, strict=True))
    return scope.fill(block)


def _manual_computation(scope: Scope, operation: mlir.Operation) -> Outcome:
    """The region, where it sees whole arrays: on one device, or where nothing is divided."""
    arguments = [a.type for region in operation.regions for b in region.blocks for a in b.arguments]
    if arguments != [v.type for v in operation.operands]:
        raise UnsupportedError("the region sees parts of the operands, which takes a partitioner to cut")
    results = _in_place(scope, operation)
    if [r.shape.logical for r in results] != [s.logical for s in scope.shapes(operation)]:
        raise UnsupportedError("the results are put together from parts, which takes a partitioner")
    return results


def _async_start(scope: Scope, operation: mlir.Operation) -> Outcome:
    """What the region computes, at once: when it is there is for the scheduler to say."""
    scope.values[operation.results[0]] = scope.tuple(_in_place(scope, operation))
    return None


def _operand(scope: Scope, operation: mlir.Operation) -> Outcome:
    """Operations that let someone look at a value: it is the same afterwards."""
    (operand,) = scope.operands(operation, 1)
    return operand


# Of StableHLO's interpreter


def _run_parallel(scope: Scope, operation: mlir.Operation) -> Outcome:
    """A custom call of all functions that it names; the interpreter knows how to run them."""
    numbers: dict[str, int] = {}

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    rows = operation.attributes.get("programs")
    if not isinstance(rows, tuple):
        attr.reject(operation, "programs", "rows of functions")
    programs = [[number(name) for name in symbols(row)] for row in rows]
    config = parallel_call(programs, [number(name) for name in symbols(operation.attributes.get("infeed"))])
    op = hlo.CustomCall(
        scope.whole_shape(operation), custom_call_target=RUN_PARALLEL, custom_call_has_side_effect=True,
        called_computations=tuple(scope.importer.computations[name] for name in numbers),
    )  # fmt: skip
    return scope.add(op, scope.operands(operation), extra=replace(scope.extra, backend_config=config))


def _probe(scope: Scope, operation: mlir.Operation) -> Outcome:
    (operand,) = scope.operands(operation, 1)
    op = hlo.CustomCall(
        operand.shape, custom_call_target="interpreter.probe", custom_call_has_side_effect=True
    )
    extra = replace(scope.extra, backend_config=attr.text(operation, "probe_id"))
    return scope.add(op, (operand,), extra=extra)


def _print(scope: Scope, operation: mlir.Operation) -> Outcome:
    line, column = operation.position
    op = hlo.CustomCall(TOKEN, custom_call_target="axla.trace", custom_call_has_side_effect=True)
    extra = replace(scope.extra, backend_config=f"interpreter.print, line {line}, column {column}")
    scope.add(op, scope.operands(operation, 1), extra=extra)
    return None


RULES: dict[str, Rule] = {
    **by_name(
        "stablehlo.", _all_gather, _all_reduce, _all_to_all, _async_start, _collective_broadcast,
        _collective_permute, _collective_reduce, _custom_call, _infeed, _outfeed, _recv, _reduce_scatter,
        _send,
    ),
    "interpreter.print": _print,
    "interpreter.probe": _probe,
    "interpreter.run_parallel": _run_parallel,
    "sdy.manual_computation": _manual_computation,
    "sdy.sharding_constraint": _sharding_constraint,
    "stablehlo.async_done": _operand,
}  # fmt: skip
