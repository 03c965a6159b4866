"""Builder functions for calls of computations, tuples, sorting and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import axla.hlo as hlo
from axla.builder.broadcasting import scalars_to
from axla.builder.coerce import as_op, builder_in, builder_of, number, operands, several
from axla.builder.elementwise import GtTotalOrder, LtTotalOrder
from axla.builder.movement import Iota, Reshape, Slice
from axla.builder.records import CustomCallApiVersion, CustomCallSchedule
from axla.builder.values import boolean, booleans, instance, integer, integers, items, member, text, tuples
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dtypes import PRED, S32
from axla.core.errors import InvalidArgument, UnsupportedError
from axla.core.shape import AnyShape, Shape
from axla.core.shape_util import dimension_number
from axla.hlo.family import show
from axla.ir.attributes import ApiVersion, OutputAlias
from axla.ir.attributes import CustomCallSchedule as Schedule


def Tuple(builder: XlaBuilder, elements: Sequence[object]) -> XlaOp:
    """Makes a tuple of the elements."""
    values = several("Tuple", builder, elements)
    return builder.add(hlo.Tuple(), values)


def GetTupleElement(tuple_data: XlaOp, index: int) -> XlaOp:
    """Element `index` of a tuple; a negative `index` counts from the end."""
    (value,) = operands("GetTupleElement", tuple_data)
    place = integer(index, "GetTupleElement: index")
    count = len(value.shape.elements) if value.shape.is_tuple else 0
    return value.builder.add(hlo.GetTupleElement(place + count if place < 0 else place), (value,))


def Call(builder: XlaBuilder, computation: object, operands: Sequence[object]) -> XlaOp:
    """Calls the computation with the operands as arguments."""
    values = several("Call", builder, operands)
    return builder.add(hlo.Call(builder.callee(computation, "Call: computation")), values)


def CompositeCall(
    builder: XlaBuilder, computation: object, operands: Sequence[object], name: str,
    attributes: str | None = None, version: int | None = None,
) -> XlaOp:  # fmt: skip
    """Calls `computation`, which implements version `version` of the operation `name` of another system, with
    its `attributes` as text. A compiler may replace the call with its own implementation of that operation.
    """
    name = text(name, "CompositeCall: name")
    if not name:
        raise InvalidArgument("CompositeCall: name is empty, wanted the name of an operation")
    version = 0 if version is None else integer(version, "CompositeCall: version")
    if version < 0:
        raise InvalidArgument(f"CompositeCall: version={version}, wanted a number of at least 0")
    values = several("CompositeCall", builder, operands)
    op = hlo.Call(builder.callee(computation, "CompositeCall: computation"), is_composite=True)
    attributes = "" if attributes is None else text(attributes, "CompositeCall: attributes")
    given = {"composite.name": name, "composite.attributes": attributes or "{}"}
    result = builder.add(op, values)
    inst = result.instruction
    said = given | {"composite.version": str(version)} | dict(inst.extra.frontend_attributes)
    extra = replace(inst.extra, frontend_attributes=tuple(sorted(said.items())))
    inst.computation.set_extra(inst, extra)
    return result


def While(condition: object, body: object, init: object) -> XlaOp:
    """Applies `body` to a value, first to `init`, as long as `condition` returns true for the value; returns
    the last value.
    """
    (value,) = operands("While", init)
    builder = value.builder
    op = hlo.While(builder.callee(condition, "While: condition"), builder.callee(body, "While: body"))
    return builder.add(op, (value,))


def Conditional(selector: object, *rest: Any, **named: Any) -> XlaOp:
    """Runs one of several computations on its operand, and returns its result. Called as Conditional(pred,
    true_operand, true_computation, false_operand, false_computation), or as Conditional(branch_index,
    branch_computations, branch_operands). A `branch_index` out of range selects the last branch.
    """
    by_index = ("branch_computations", "branch_operands")
    by_pred = ("true_operand", "true_computation", "false_operand", "false_computation")
    names = by_index if len(rest) + len(named) == len(by_index) else by_pred
    given = dict(zip(names, rest, strict=False)) | named
    if set(given) != set(names):
        message = f"Conditional: found {sorted(given)}, wanted {list(by_index)} or {list(by_pred)}"
        raise InvalidArgument(message)
    if names is by_index:
        branches, values = (items(given[name], f"Conditional: {name}") for name in by_index)
    else:
        branches = given["true_computation"], given["false_computation"]
        values = given["true_operand"], given["false_operand"]
    builder = builder_of("Conditional", (selector, *values))
    chooser, *ops = [as_op("Conditional", builder, value) for value in (selector, *values)]
    called = tuple(builder.callee(branch, f"Conditional: branch {n}") for n, branch in enumerate(branches))
    by_value = chooser.shape.logical is Shape(PRED)
    if names is by_pred and not by_value:
        builder.fail("conditional", [chooser], "the predicate must be a pred of rank 0  [conditional_pred]")
    if by_value and len(called) == 2:
        return builder.add(hlo.Conditional(*called), (chooser, *ops))
    return builder.add(hlo.Conditional(branch_computations=called), (chooser, *ops))


def Map(
    builder: XlaBuilder, operands: Sequence[object], computation: object, dimensions: Sequence[int],
    static_operands: Sequence[object] = (),
) -> XlaOp:  # fmt: skip
    """Applies the computation to the operands element by element. A scalar in `static_operands` is passed to
    every application. `dimensions` must be all dimensions in order, or empty.
    """
    values, statics = several("Map", builder, operands), several("Map", builder, static_operands)
    places = integers(dimensions, "Map: dimensions")
    if statics and not values:
        raise InvalidArgument("Map: found static operands only, wanted at least one operand")
    if any(not isinstance(s.shape, Shape) or s.shape.rank for s in statics):
        return _map_with_arrays(builder, values, computation, statics)
    values += [scalars_to(values[0], s) for s in statics]
    op = hlo.Map(places, builder.callee(computation, "Map: computation"))
    return builder.add(op, values)


def _map_with_arrays(
    builder: XlaBuilder, values: Sequence[XlaOp], computation: object, statics: Sequence[XlaOp]
) -> XlaOp:  # fmt: skip
    """Map with arrays as static operands. HLO's `map` does not accept these, so a `scan` over the elements
    carries them along.
    """
    shapes = [v.shape for v in values]
    dims = [list(s.dims) if isinstance(s, Shape) else None for s in shapes]
    if any(d is None or d != dims[0] for d in dims):
        builder.fail("map", values, "operands must be arrays of the same dimensions  [map_c2]")
    step = builder.sub_builder("map_step")
    elements = [Shape(s.dtype) for s in shapes if isinstance(s, Shape)]
    types = [*elements, *[s.shape for s in statics]]
    given = [step.parameter(n, shape, f"p{n}") for n, shape in enumerate(types)]
    found = Call(step, computation, given)
    body = step.build(Tuple(step, [found, *given[len(values) :]]))
    flat = [Reshape(v, [prod(dims[0] or ())]) for v in values]
    op = hlo.Scan((0,), len(statics), to_apply=builder.callee(body, "Map: computation"))
    return Reshape(GetTupleElement(builder.add(op, [*flat, *statics]), 0), dims[0] or [])


def Reduce(*arguments: Any, **named: Any) -> XlaOp:
    """Combines the elements along `dimensions_to_reduce` with the computation.

    Reduce(builder, operands, init_values, computation, dimensions_to_reduce), or for one array
    Reduce(operand, init_value, computation, dimensions_to_reduce).
    """
    builder, arrays, inits, computation, dimensions = _reduce_arguments(arguments, named)
    values = operands("Reduce", *arrays, *inits, builder=builder)
    builder = values[0].builder
    shape = values[0].shape
    places = integers(dimensions, "Reduce: dimensions_to_reduce")
    if isinstance(shape, Shape):
        with builder.checking("reduce", values):
            places = tuple(dimension_number(shape, d) for d in places)
    op = hlo.Reduce(places, builder.callee(computation, "Reduce: computation"))
    return builder.add(op, values)


def _reduce_arguments(
    arguments: tuple, named: dict[str, Any]
) -> tuple[XlaBuilder | None, list, list, Any, Any]:
    single = not (arguments and isinstance(arguments[0], XlaBuilder) or "builder" in named)
    names = ("operand", "init_value") if single else ("builder", "operands", "init_values")
    names = (*names, "computation", "dimensions_to_reduce")
    given = dict(zip(names, arguments, strict=False)) | named
    if set(given) != set(names) or len(arguments) > len(names):
        raise InvalidArgument(f"Reduce: found {sorted(given)}, wanted {list(names)}")
    if single:
        builder, arrays, inits = None, [given["operand"]], [given["init_value"]]
    else:
        builder = builder_in("Reduce", given["builder"])
        arrays, inits = (
            [values] if isinstance(values, XlaOp) else several("Reduce", builder, values)
            for values in (given["operands"], given["init_values"])
        )
    return builder, arrays, inits, given["computation"], given["dimensions_to_reduce"]


def ReduceAll(operand: object, init_value: object, computation: object) -> XlaOp:
    """Combines all elements of the operand, and `init_value`, into a scalar with the computation."""
    value, init = operands("ReduceAll", operand, init_value)
    rank = value.shape.rank if isinstance(value.shape, Shape) else 0
    return Reduce(value, init, computation, range(rank))


def Sort(
    builder: XlaBuilder, operands: Sequence[object], comparator: object = None, dimension: int = -1,
    is_stable: bool = False,
) -> XlaOp:  # fmt: skip
    """Sorts the operands along the dimension, all with the same permutation. Without a comparator the first
    operand is in ascending order.
    """
    values = several("Sort", builder, operands)
    if not values or not isinstance(values[0].shape, Shape):
        raise InvalidArgument("Sort: wanted one or more arrays as operands")
    if comparator is None:
        comparator = key_comparator(builder, values, LtTotalOrder)
    called = builder.callee(comparator, "Sort: comparator")
    with builder.checking("sort", values):
        place = dimension_number(values[0].shape, integer(dimension, "Sort: dimension"))
    return builder.add(hlo.Sort((place,), boolean(is_stable, "Sort: is_stable"), called), values)


def key_comparator(builder: XlaBuilder, values: Sequence[XlaOp], relation: Any) -> object:
    """Builds a comparator for a sort of `values` that compares only elements of the first one. `relation` is
    a builder function such as LtTotalOrder.
    """
    sub = builder.sub_builder("comparator")
    first = [Shape(v.dtype) for v in values]
    parameters = [sub.parameter(n, first[n // 2], f"{'lr'[n % 2]}{n // 2}") for n in range(2 * len(values))]
    return sub.build(relation(parameters[0], parameters[1]))


def TopK(input: object, k: int) -> XlaOp:
    """Returns a tuple: the `k` largest elements of every row of `input` (along the last dimension) in
    descending order, and their indices in the row as s32.
    """
    (value,) = operands("TopK", input)
    builder, shape, k = value.builder, value.shape, integer(k, "TopK: k")
    if not isinstance(shape, Shape) or not shape.rank or not 0 <= k <= shape.dims[-1]:
        raise InvalidArgument(f"TopK: found {show(shape)} and k={k}, wanted rows of at least k elements")
    places = Iota(builder, Shape(S32, shape.dims), shape.rank - 1)
    ordered = Sort(builder, [value, places], key_comparator(builder, [value, places], GtTotalOrder), -1, True)
    limits = (*shape.dims[:-1], k)
    return Tuple(builder, [Slice(GetTupleElement(ordered, n), [0] * shape.rank, limits) for n in range(2)])


def OptimizationBarrier(operand: XlaOp) -> XlaOp:
    """Returns the operand. Compiler passes move no ops across the barrier."""
    (value,) = operands("OptimizationBarrier", operand)
    return value.builder.add(hlo.OptBarrier(), (value,))


def AfterAll(builder: XlaBuilder, tokens: Sequence[XlaOp]) -> XlaOp:
    """A token that depends on all of `tokens`."""
    values = several("AfterAll", builder, tokens)
    return builder.add(hlo.AfterAll(), values)


def CreateToken(builder: XlaBuilder) -> XlaOp:
    """A token that depends on nothing."""
    return AfterAll(builder, [])


def DynamicReshape(
    operand: object,
    dim_sizes: Sequence[object],
    new_size_bounds: Sequence[int],
    dims_are_dynamic: Sequence[bool],
) -> XlaOp:
    """Reshapes to the sizes `dim_sizes`, which the program computes. `new_size_bounds` are the largest
    possible sizes, and `dims_are_dynamic` says which dimensions of the result are dynamic.
    """
    (value,) = operands("DynamicReshape", operand)
    builder, what = value.builder, "DynamicReshape"
    sizes = [size_op(what, builder, s) for s in items(dim_sizes, f"{what}: dim_sizes")]
    bounds = integers(new_size_bounds, f"{what}: new_size_bounds")
    dynamic = booleans(dims_are_dynamic, f"{what}: dims_are_dynamic")
    with builder.checking("dynamic-reshape", (value, *sizes)):
        result = Shape(value.dtype, bounds, dynamic)
    return builder.add(hlo.DynamicReshape(result), (value, *sizes))


def size_op(what: str, builder: XlaBuilder, size: object) -> XlaOp:
    """Returns a dimension size as an op: an int becomes an s32 constant, an XlaOp stays as it is. `what`
    names the size in messages.
    """
    return number(what, builder, size, S32) if type(size) is int else as_op(what, builder, size)


def CustomCall(
    builder: XlaBuilder, call_target_name: bytes | str, operands: Sequence[object], shape: AnyShape,
    opaque: bytes | str = b"", has_side_effect: bool = False,
    schedule: CustomCallSchedule = CustomCallSchedule.SCHEDULE_NONE,
    api_version: CustomCallApiVersion = CustomCallApiVersion.API_VERSION_ORIGINAL,
) -> XlaOp:  # fmt: skip
    """Calls the custom-call target `call_target_name` with the operands. `opaque` is passed to it as its
    configuration.
    """
    return _custom_call(
        builder, call_target_name, operands, shape, opaque, has_side_effect, schedule, api_version
    )


def CustomCallWithLayout(
    builder: XlaBuilder, call_target_name: bytes | str, operands: Sequence[object], shape_with_layout:
    AnyShape, operand_shapes_with_layout: Sequence[AnyShape], opaque: bytes | str = b"", has_side_effect: bool
    = False, schedule: CustomCallSchedule = CustomCallSchedule.SCHEDULE_NONE,
    api_version: CustomCallApiVersion = CustomCallApiVersion.API_VERSION_ORIGINAL,
) -> XlaOp:  # fmt: skip
    """As CustomCall; the target sees operands and result in the layouts of the given shapes."""
    return _custom_call(
        builder, call_target_name, operands, shape_with_layout, opaque, has_side_effect, schedule,
        api_version, operand_layout_constraints=_shapes(operand_shapes_with_layout),
    )  # fmt: skip


def CustomCallWithAliasing(
    builder: XlaBuilder, call_target_name: bytes | str, operands: Sequence[object], shape_with_layout:
    AnyShape, operand_shapes_with_layout: Sequence[AnyShape], opaque: bytes | str = b"", has_side_effect: bool
    = False, output_operand_aliasing: Sequence[tuple[Any, tuple[int, Any]]] = (), literal: object = None,
    schedule: CustomCallSchedule = CustomCallSchedule.SCHEDULE_NONE,
    api_version: CustomCallApiVersion = CustomCallApiVersion.API_VERSION_ORIGINAL,
) -> XlaOp:  # fmt: skip
    """As CustomCallWithLayout. `output_operand_aliasing` lists which results share the memory of operands:
    ((output index), (operand number, (index in the operand))). `literal` must be None.
    """
    _no_literal(literal)
    return _custom_call(
        builder, call_target_name, operands, shape_with_layout, opaque, has_side_effect, schedule,
        api_version, operand_layout_constraints=_shapes(operand_shapes_with_layout),
        output_to_operand_aliasing=_aliases(output_operand_aliasing),
    )  # fmt: skip


def CustomCallWithComputation(
    builder: XlaBuilder, call_target_name: bytes | str, operands: Sequence[object], computation: object,
    shape: AnyShape, opaque: bytes | str = b"", has_side_effect: bool = False,
    output_operand_aliasing: Sequence[tuple[Any, tuple[int, Any]]] = (), literal: object = None,
    schedule: CustomCallSchedule = CustomCallSchedule.SCHEDULE_NONE,
    api_version: CustomCallApiVersion = CustomCallApiVersion.API_VERSION_ORIGINAL,
) -> XlaOp:  # fmt: skip
    """As CustomCall, with a computation that the target can use. `output_operand_aliasing` and `literal` are
    as in CustomCallWithAliasing.
    """
    builder_in("CustomCallWithComputation", builder)
    _no_literal(literal)
    return _custom_call(
        builder, call_target_name, operands, shape, opaque, has_side_effect, schedule, api_version,
        output_to_operand_aliasing=_aliases(output_operand_aliasing),
        called_computations=(builder.callee(computation, "CustomCall: computation"),),
    )  # fmt: skip


def _custom_call(
    builder: XlaBuilder, target: bytes | str, operands: Sequence[object], shape: AnyShape, opaque: bytes |
    str, has_side_effect: bool, schedule: CustomCallSchedule, api_version: CustomCallApiVersion, **more: Any,
) -> XlaOp:  # fmt: skip
    op = hlo.CustomCall(
        instance(AnyShape, shape, "CustomCall: shape", "a shape"),
        custom_call_target=text(target, "CustomCall: call_target_name"),
        custom_call_has_side_effect=boolean(has_side_effect, "CustomCall: has_side_effect"),
        schedule=Schedule(member(CustomCallSchedule, schedule, "CustomCall: schedule").name),
        api_version=ApiVersion(member(CustomCallApiVersion, api_version, "CustomCall: api_version").name),
        **more,
    )
    values = several("CustomCall", builder, operands)
    return builder.add(op, values, backend_config=text(opaque, "CustomCall: opaque"))


def _shapes(shapes: Sequence[AnyShape]) -> tuple[AnyShape, ...]:
    what = "CustomCall: operand_shapes_with_layout"
    return tuple(instance(AnyShape, shape, what, "shapes") for shape in items(shapes, what))


def _no_literal(literal: object) -> None:
    if literal is not None:
        raise UnsupportedError("CustomCall: literal is not implemented; pass it as a constant operand")


def _aliases(pairs: Sequence[tuple[Any, tuple[int, Any]]]) -> tuple[OutputAlias, ...]:
    what, wanted = "CustomCall: output_operand_aliasing", "(output index, (operand, its index))"
    found = tuples(pairs, what, wanted, integers, lambda value, _: value)
    places = tuples([place for _, place in found], what, wanted, integer, integers)
    return tuple(OutputAlias(output, *place) for (output, _), place in zip(found, places, strict=True))
