"""What an operation on quantized tensors becomes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from axla.core.errors import VerifyError
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.quantized.arithmetic import (
    F64,
    I32,
    I64,
    Writer,
    expressed,
    is_quantized,
    largest,
    quantized_type,
    stored,
)
from axla.stablehlo.sizes import sizes_of
from axla.stablehlo.text.printer import type_text

MOVING = frozenset(
    f"stablehlo.{name}" for name in (
        "all_gather", "all_to_all", "broadcast", "broadcast_in_dim", "collective_broadcast",
        "collective_permute", "concatenate", "dynamic_broadcast_in_dim", "dynamic_reshape", "dynamic_slice",
        "dynamic_update_slice", "gather", "pad", "reshape", "reverse", "select", "slice", "transpose",
    )
)  # fmt: skip
"""The result has elements of the operands."""
ORDERED = frozenset(f"stablehlo.{name}" for name in ("clamp", "compare", "maximum", "minimum"))
"""They ask for the order only, which is that of the integers where all operands are of one type."""
PASSING = frozenset({
    "func.call", "func.return", "stablehlo.bitcast_convert", "stablehlo.composite", "stablehlo.constant",
    "stablehlo.custom_call", "stablehlo.get_dimension_size", "stablehlo.get_tuple_element",
    "stablehlo.optimization_barrier", "stablehlo.return", "stablehlo.set_dimension_size", "stablehlo.tuple",
    "stablehlo.create_token", "stablehlo.after_all", "stablehlo.infeed", "stablehlo.outfeed",
    "stablehlo.send", "stablehlo.recv", "interpreter.probe", "interpreter.print",
})  # fmt: skip
"""They take the stored integers for what they are."""


def rewrite(
    writer: Writer, operation: mlir.Operation, operands: list[mlir.Value], attributes: dict[str, Any],
    regions: list[mlir.Region],
) -> list[mlir.Value]:  # fmt: skip
    """The results, in storage types, of an operation whose operands are given in storage types."""
    name = operation.name
    kinds = [quantized_type(v.type) for v in operation.operands]
    types = [r.type for r in operation.results]
    if name == "stablehlo.uniform_quantize":
        return [_requantized(writer, operands[0], kinds[0], quantized_type(types[0]))]
    if name == "stablehlo.uniform_dequantize":
        return [writer.dequantize(operands[0], kinds[0])]
    one = _one_type(operation)
    if name in MOVING:
        operands = _of_result(writer, operation, operands)
        return writer.emit(name, operands, list(map(stored, types)), attributes)
    if name in PASSING or regions or (name in ORDERED and one):
        attributes.pop("compare_type", None)
        return writer.emit(name, operands, list(map(stored, types)), attributes, regions)
    exact = _EXACT.get(name.removeprefix("stablehlo."))
    if exact is not None and all(kinds) and is_quantized(types[0]) and len(types) == 1:
        found = exact(writer, operation, operands, attributes)
        if found is not None:
            return [found]
    real = [writer.dequantize(v, kind) for v, kind in zip(operands, kinds, strict=True)]
    results = writer.emit(name, real, list(map(expressed, types)), attributes)
    return [writer.quantize(v, quantized_type(t)) for v, t in zip(results, types, strict=True)]


def _requantized(
    writer: Writer, value: mlir.Value, of: mlir.QuantizedType | None, to: mlir.QuantizedType | None
) -> mlir.Value:
    if to is None:
        raise VerifyError("its result must be quantized")
    return value if of == to else writer.quantize(writer.dequantize(value, of), to)


def _one_type(operation: mlir.Operation) -> bool:
    """Whether all quantized operands and results are of one type, of one scale."""
    kinds = {quantized_type(v.type) for v in (*operation.operands, *operation.results)} - {None}
    return len(kinds) == 1 and not any(k.axes for k in kinds if k is not None)


def _of_result(writer: Writer, operation: mlir.Operation, operands: list[mlir.Value]) -> list[mlir.Value]:
    """Operands in the type of the result where theirs is another one, of one scale for all elements."""
    to = quantized_type(operation.results[0].type)
    found = []
    for value, old in zip(operands, operation.operands, strict=True):
        of = quantized_type(old.type)
        if of is not None and to is not None and of != to and not (of.axes and to.axes):
            if of.axes or to.axes:
                raise VerifyError(
                    f"{type_text(old.type)} cannot become {type_text(operation.results[0].type)}"
                )
            value = _requantized(writer, value, of, to)
        found.append(value)
    return found


# Exact: computed with integers, then scaled.


def _kinds(operation: mlir.Operation) -> list[mlir.QuantizedType]:
    found = [quantized_type(v.type) for v in (*operation.operands, *operation.results)]
    return [kind for kind in found if kind is not None]


def _sum(
    writer: Writer, operation: mlir.Operation, operands: list[mlir.Value], attributes: dict[str, Any]
) -> mlir.Value | None:
    """Where all scales are the same one."""
    *kinds, to = _kinds(operation)
    if any(k.axes for k in (*kinds, to)) or len({k.scales for k in (*kinds, to)}) != 1:
        return None
    if any(k.storage.width > 16 for k in (*kinds, to)):
        return None
    centred = [writer.centred(v, k, I32) for v, k in zip(operands, kinds, strict=True)]
    (total,) = writer.emit(operation.name, centred, [centred[0].type], attributes)
    if any(to.zero_points):
        total = writer.binary("add", total, writer.parameters(to.zero_points, to, (), total.type))
    return writer.convert(writer.clamp(total, to), to.storage)


def _product(
    writer: Writer, operation: mlir.Operation, operands: list[mlir.Value], attributes: dict[str, Any]
) -> mlir.Value | None:
    *kinds, to = _kinds(operation)
    if any(k.axes for k in (*kinds, to)):
        return None
    return _scaled(writer, operation, operands, attributes, 1, None)


def _dot(
    writer: Writer, operation: mlir.Operation, operands: list[mlir.Value], attributes: dict[str, Any]
) -> mlir.Value | None:
    lhs, rhs = (_sizes(v) for v in operation.operands)
    if operation.name == "stablehlo.dot":
        contracted, batch, taken = (len(lhs) - 1,), (), (0,)
    else:
        numbers = attr.structure(operation, "dot_dimension_numbers", "dot")
        contracted = attr.field_integers(numbers, "lhs_contracting_dimensions")
        batch = attr.field_integers(numbers, "rhs_batching_dimensions")
        taken = attr.field_integers(numbers, "rhs_contracting_dimensions")
    axis = None
    (of,) = (quantized_type(operation.operands[1].type),)
    if of is not None and of.axes:
        at = of.axes[0]
        if of.block_sizes or at in taken:
            return None
        free = [d for d in range(len(rhs)) if d not in batch and d not in taken]
        # The result has batch dimensions, what is left of lhs, what is left of rhs.
        result = len(_sizes(operation.results[0]))
        axis = batch.index(at) if at in batch else result - len(free) + free.index(at)
    return _scaled(writer, operation, operands, attributes, math.prod(lhs[d] for d in contracted), axis)


def _convolution(
    writer: Writer, operation: mlir.Operation, operands: list[mlir.Value], attributes: dict[str, Any]
) -> mlir.Value | None:
    numbers = attr.structure(operation, "dimension_numbers", "conv")
    kernel = _sizes(operation.operands[1])
    output = attr.field_integer(numbers, "kernel_output_feature_dimension")
    of = quantized_type(operation.operands[1].type)
    if of is not None and of.axes and (of.block_sizes or of.axes != (output,)):
        return None
    axis = attr.field_integer(numbers, "output_feature_dimension") if of is not None and of.axes else None
    terms = math.prod(d for n, d in enumerate(kernel) if n != output)
    return _scaled(writer, operation, operands, attributes, terms, axis)


def _sizes(value: mlir.Value) -> tuple[float, ...]:
    """The most that each size can be."""
    return tuple([math.inf if size is None else int(size) for size in sizes_of(value.type)])


def _scaled(
    writer: Writer, operation: mlir.Operation, operands: list[mlir.Value], attributes: dict[str, Any],
    terms: float, axis: int | None,
) -> mlir.Value | None:  # fmt: skip
    """Sums of so many products: of integers, times the product of the scales over that of the result.

    `axis`: the dimension of the result along which the scales of the right operand lie. None where the
    integers could be too large, or the scales lie in another way.
    """
    (left, right), to = _kinds(operation)[:2], quantized_type(operation.results[0].type)
    assert to is not None
    if left.axes or to.block_sizes or (to.axes and (axis is None or to.axes != (axis,))):
        return None
    bound = terms * largest(left) * largest(right)
    if bound >= 1 << 53:
        return None
    wide = I32 if bound < 1 << 31 else I64
    centred = [writer.centred(v, k, wide) for v, k in zip(operands, (left, right), strict=True)]
    result = replace(stored(operation.results[0].type), element=wide)
    (total,) = writer.emit(operation.name, centred, [result], attributes)
    factors = np.asarray(left.scales) * np.asarray(right.scales) / np.asarray(to.scales)
    real = writer.convert(total, F64)
    of = right if right.axes else to
    scale = writer.parameters(
        factors.tolist(), of, () if axis is None else (axis,), replace(result, element=F64)
    )
    return writer.fitted(writer.binary("multiply", real, scale), to)


_EXACT: dict[str, Callable[..., mlir.Value | None]] = {
    "add": _sum, "convolution": _convolution, "dot": _dot, "dot_general": _dot, "multiply": _product,
    "subtract": _sum,
}  # fmt: skip
