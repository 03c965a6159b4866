"""Imports custom calls, collectives, transfers, tokens and asynchronous operations."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import axla.hlo as hlo
from axla.builder import calls, decompositions
from axla.builder.collective import moved_parts
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import U32
from axla.core.shape import TOKEN, AnyShape, Layout, Shape, TupleShape
from axla.core.tables import by_name
from axla.custom.registry import registered
from axla.interpreter.parallel import RUN_PARALLEL, parallel_call
from axla.ir.attributes import ApiVersion, OutputAlias
from axla.ir.clone import called_first
from axla.ir.families import Transfer
from axla.ir.graph import Extra, Instruction
from axla.ir.structure import GetTupleElement, Tuple
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.conversions import replica_groups
from axla.stablehlo.counterparts import CALL_FIELDS
from axla.stablehlo.importer.declared import declared_op
from axla.stablehlo.importer.plain import fields_of, op_of
from axla.stablehlo.importer.program import symbols
from axla.stablehlo.importer.scope import ImportRule, ImportScope, Lowered, whole
from axla.stablehlo.text.printer import attribute_text

# Custom calls


def _custom_call(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    target = attr.text(operation, "call_target_name")
    name = {"mhlo.topk": "top_k"}.get(target, target.removeprefix("mhlo."))
    rule = scope.importer.rules.get(f"chlo.{name}") if target.startswith("mhlo.") else None
    if rule is not None:
        # Older exporters wrote such calls for operations that StableHLO did not have then.
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
        function = _DECOMPOSITIONS[target]
        found = scope.composed(function, scope.operands(operation, 1 if function is _qr else 2))
        return scope.parts(found, 2) if function is _qr else found
    version = attr.integer(operation, "api_version", 1)
    if isinstance(operation.attributes.get("mhlo.backend_config"), dict):
        # Older versions of StableHLO have the configuration of typed calls here.
        config, version = operation.attributes["mhlo.backend_config"], 4
    called = symbols(operation.attributes.get("called_computations"))
    op = hlo.CustomCall(
        whole(results),
        custom_call_target=target,
        operand_layout_constraints=None if not isinstance(constraints, tuple) else tuple(
            _laid_out([o.shape for o in operands], constraints)
        ),
        custom_call_has_side_effect=attr.flag(operation, "has_side_effect"),
        output_to_operand_aliasing=_aliases(operation),
        api_version=list(ApiVersion)[version],
        called_computations=tuple(scope.importer.computations[name] for name in called),
        **_said_of_hlo(scope, attr.dictionary(operation, mlir.CALL)),
    )  # fmt: skip
    text = config if isinstance(config, str) else attribute_text(config)
    return scope.add(op, operands, extra=replace(scope.extra, backend_config=text))


def _qr(a: XlaOp) -> XlaOp:
    return calls.Tuple(a.builder, decompositions.QrDecomposition(a))


_said_of_hlo = fields_of(CALL_FIELDS)
_DECOMPOSITIONS: dict[str, Callable[..., XlaOp]] = {
    "Qr": _qr,
    "ProductOfElementaryHouseholderReflectors": decompositions.ProductOfElementaryHouseholderReflectors,
}
"""Calls that JAX emits for machines without LAPACK. XLA expands them on all machines; here they get the
decompositions that calls of LAPACK get.
"""


def _ragged_all_to_all(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    """Imports the custom call for a ragged-all-to-all, which StableHLO does not have. Its configuration has
    the channel and the groups.
    """
    config = attr.dictionary(operation, "backend_config")
    channel = attr.integer(config, "channel_id", 0)
    groups = replica_groups(config, "replica_groups", scope.importer.source)
    op = hlo.RaggedAllToAll(channel if channel > 0 else None, groups)
    return scope.add(op, scope.operands(operation, 6))


def _laid_out(shapes: list[AnyShape], layouts: tuple[Any, ...]) -> list[AnyShape]:
    """The shapes with these layouts, whose dimensions are listed from minor to major."""
    orders = [attr.as_integers(layout) or () for layout in layouts]
    pairs = zip(shapes, orders, strict=True)
    return [shape.with_layout(Layout(order)) if isinstance(shape, Shape) else shape for shape, order in pairs]


def _aliases(operation: mlir.Operation) -> tuple[OutputAlias, ...]:
    found = []
    for alias in operation.attributes.get("output_operand_aliases", ()):
        fields = alias.fields
        output, index = (attr.integers(fields, f"{n}_tuple_indices", ()) for n in ("output", "operand"))
        found.append(OutputAlias(output, attr.integer(fields, "operand_index", 0), index))
    return tuple(found)


def _sharding_constraint(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    """Imports a sharding constraint as a custom call that returns its operand, as in XLA."""
    (operand,) = scope.operands(operation, 1)
    said = (("xla.sdy.sharding", attribute_text(operation.attributes.get("sharding", mlir.UNIT))),)
    extra = replace(scope.extra, frontend_attributes=said)
    return scope.add(hlo.CustomCall(operand.shape, custom_call_target="Sharding"), (operand,), extra=extra)


# Collectives


def _all_to_all(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    names = ("split_dimension", "concat_dimension", "split_count")
    split, concat, count = (attr.integer(operation, name) for name in names)
    parts = [scope.add(op_of(scope, operation), (operand,)) for operand in scope.operands(operation)]
    if split == concat:
        return parts

    def moved(value: XlaOp) -> XlaOp:
        return moved_parts(value, split, concat, count)

    return [scope.composed(moved, [part]) for part in parts]


# Transfers and tokens


def _channel_and_place(operation: mlir.Operation) -> tuple[int, bool]:
    handle = attr.structure(operation, "channel_handle", "channel_handle")
    return attr.integer(handle, "handle", 0), attr.flag(operation, "is_host_transfer")


def _with_pairs(scope: ImportScope, operation: mlir.Operation) -> Extra:
    """The extra of a transfer, with its source-target pairs as a frontend attribute, as in HLO."""
    pairs = attr.matrix(operation, "source_target_pairs", [])
    if not pairs:
        return scope.extra
    text = "{" + ",".join(f"{{{a},{b}}}" for a, b in pairs) + "}"
    said = (*scope.extra.frontend_attributes, ("_xla_send_recv_source_target_pairs", text))
    return replace(scope.extra, frontend_attributes=said)


def _send(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    *data, token = scope.operands(operation)
    where = _channel_and_place(operation)
    value = scope.tuple(data)
    op = hlo.Send(TupleShape((value.shape.logical, Shape(U32), TOKEN)), *where)
    begun = scope.add(op, (value, token), extra=_with_pairs(scope, operation))
    return scope.add(hlo.SendDone(*where), (begun,))


def _recv(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    *shapes, _ = scope.shapes(operation) or [TOKEN]
    where = _channel_and_place(operation)
    op = hlo.Recv(TupleShape((whole(shapes), Shape(U32), TOKEN)), *where)
    begun = scope.add(op, scope.operands(operation, 1), extra=_with_pairs(scope, operation))
    done = scope.add(hlo.RecvDone(*where), (begun,))
    if len(shapes) == 1:
        return done
    return _taken_apart(scope, done, len(shapes))


def _taken_apart(scope: ImportScope, pair: Instruction, count: int) -> list[Instruction]:
    """Extracts the elements of `pair`, a tuple ((a, b...), token) with `count` arrays: returns a, b...,
    token.
    """
    data = scope.add(GetTupleElement(0), (pair,))
    return [*scope.parts(data, count), scope.add(GetTupleElement(1), (pair,))]


def _infeed(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    *shapes, _ = scope.shapes(operation) or [TOKEN]
    op = hlo.Infeed(TupleShape((TupleShape(shapes), TOKEN)), attr.text(operation, "infeed_config", ""))
    return _taken_apart(scope, scope.add(op, scope.operands(operation, 1)), len(shapes))


def _outfeed(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    *data, token = scope.operands(operation)
    value = scope.add(Tuple(), data)
    op = hlo.Outfeed(value.shape, attr.text(operation, "outfeed_config", ""))
    return scope.add(op, (value, token))


# Asynchronous operations


def _in_place(scope: ImportScope, operation: mlir.Operation) -> list[Instruction]:
    """Imports a region in place, with the operands as its arguments; returns its results."""
    block = operation.regions[0].blocks[0]
    operands = scope.operands(operation, len(block.arguments))
    scope.values.update(zip(block.arguments, operands, strict=True))
    return scope.fill(block)


def _manual_computation(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    """Imports the region of a manual computation between the custom calls that mark its boundary in XLA;
    without these calls if nothing is sharded.
    """
    block = operation.regions[0].blocks[0]
    same = [a.type for a in block.arguments] == [v.type for v in operation.operands]
    if same and scope.importer.partitions == 1:
        return _in_place(scope, operation)
    operands = scope.operands(operation, len(block.arguments))
    axes = attribute_text(operation.attributes.get("manual_axes", mlir.UNIT))
    inside = [scope.importer.shape(argument.type) for argument in block.arguments]
    given = zip(operands, inside, _shardings(operation, "in_shardings"), strict=True)
    entered = [_entered(scope, *one, axes) for one in given]
    scope.values.update(zip(block.arguments, entered, strict=True))
    shardings = _shardings(operation, "out_shardings")
    results = zip(scope.fill(block), scope.shapes(operation), shardings, strict=True)
    return [_border(scope, "SPMDShardToFullShape", *one, axes) for one in results]


def _entered(scope: ImportScope, value: Instruction, part: AnyShape, sharding: str, axes: str) -> Instruction:
    cut = _border(scope, "Sharding", value, value.shape, sharding)
    return _border(scope, "SPMDFullToShardShape", cut, part, sharding, axes)


def _border(
    scope: ImportScope, target: str, value: Instruction, shape: AnyShape, sharding: str, axes: str = ""
) -> Instruction:
    if not isinstance(shape, Shape):  # a token
        return value
    said = (("xla.sdy.sharding", f"#sdy.sharding{sharding}"),)
    if axes:
        said = (("xla.sdy.manual_axes", axes), *said)
    op = hlo.CustomCall(shape.logical, custom_call_target=target)
    return scope.add(op, (value,), extra=replace(scope.extra, frontend_attributes=said))


def _shardings(operation: mlir.Operation, name: str) -> list[str]:
    """The shardings in an attribute such as #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>, ...]>."""
    return re.findall(r"<@[^<>]*>", getattr(operation.attributes.get(name), "text", ""))


def _async_start(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    """Imports the region of an async_start in place; the scheduler decides when it runs."""
    scope.values[operation.results[0]] = scope.tuple(_in_place(scope, operation))
    return None


def _operand(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    """Imports an operation whose result equals its operand: returns the operand."""
    (operand,) = scope.operands(operation, 1)
    return operand


# Operations of StableHLO's interpreter


def _run_parallel(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    """Imports run_parallel as a custom call with all functions that it names, which the interpreter runs."""
    numbers: dict[str, int] = {}

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    rows = operation.attributes.get("programs")
    if not isinstance(rows, tuple):
        attr.reject(operation, "programs", "rows of functions")
    programs = [[number(name) for name in symbols(row)] for row in rows]
    config = parallel_call(programs, [number(name) for name in symbols(operation.attributes.get("infeed"))])
    called = tuple(scope.importer.computations[name] for name in numbers)
    every = {inst for root in called for each in called_first(root) for inst in each.instructions}
    for inst in every:
        if isinstance(inst.op, Transfer) and inst.op.is_host_transfer:  # one program is the other's host
            inst.computation.set_op(inst, replace(inst.op, is_host_transfer=False))
    op = hlo.CustomCall(
        scope.whole_shape(operation), custom_call_target=RUN_PARALLEL, custom_call_has_side_effect=True,
        called_computations=called,
    )  # fmt: skip
    return scope.add(op, scope.operands(operation), extra=replace(scope.extra, backend_config=config))


def _probe(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    (operand,) = scope.operands(operation, 1)
    return _traced(scope, operand, operand.shape, "interpreter.probe", attr.text(operation, "probe_id"))


def _print(scope: ImportScope, operation: mlir.Operation) -> Lowered:
    line, column = operation.position
    (operand,) = scope.operands(operation, 1)
    _traced(scope, operand, TOKEN, "axla.trace", f"interpreter.print, line {line}, column {column}")
    return None


def _traced(
    scope: ImportScope, operand: Instruction, shape: AnyShape, target: str, config: str
) -> Instruction:
    op = hlo.CustomCall(shape, custom_call_target=target, custom_call_has_side_effect=True)
    return scope.add(op, (operand,), extra=replace(scope.extra, backend_config=config))


_RESHARDED = (
    "all_gather", "all_reduce", "all_slice", "all_to_all", "collective_permute", "data_flow_edge",
    "propagation_barrier", "reduce_scatter", "replicated_to_unreduced", "sharded_to_unreduced",
)  # fmt: skip
"""Shardy's operations that only change the sharding of their operand: as whole arrays, result and operand are
equal.
"""
RULES: dict[str, ImportRule] = {
    # Shardy's operations take and return casts of tokens in portable artifacts.
    "builtin.unrealized_conversion_cast": _operand,
    **by_name("stablehlo.", _all_to_all, _async_start, _custom_call, _infeed, _outfeed, _recv, _send),
    "interpreter.print": _print,
    "interpreter.probe": _probe,
    "interpreter.run_parallel": _run_parallel,
    "sdy.manual_computation": _manual_computation,
    "sdy.reshard": _sharding_constraint,
    "sdy.sharding_constraint": _sharding_constraint,
    **dict.fromkeys(map("sdy.{}".format, _RESHARDED), _operand),
    "stablehlo.async_done": _operand,
}
