"""Rewrites operations on quantized tensors as operations on integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from axla.core.errors import VerifyError
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.building import I32, I64
from axla.stablehlo.quantized.arithmetic import Quantizer, expressed, largest, quantized_type, stored
from axla.stablehlo.sizes import sizes_of
from axla.stablehlo.text.printer import type_text

_MOVING = """
all_gather all_to_all broadcast broadcast_in_dim collective_broadcast collective_permute concatenate
dynamic_broadcast_in_dim dynamic_reshape dynamic_slice dynamic_update_slice gather pad reshape reverse select
slice transpose
"""
_PASSING = """
after_all bitcast_convert composite constant create_token custom_call get_dimension_size get_tuple_element
infeed optimization_barrier outfeed recv return send set_dimension_size tuple
"""
MOVING = {f"stablehlo.{name}" for name in _MOVING.split()}
"""Operations that compute no new elements: those of the result are elements of the operands."""
ORDERED = {f"stablehlo.{name}" for name in ("clamp", "compare", "maximum", "minimum")}
"""Operations that only depend on the order of values. The integers have the same order if all operands have
one type.
"""
PASSING = {f"stablehlo.{name}" for name in _PASSING.split()} | {
    "func.call", "func.return", "interpreter.probe", "interpreter.print"
}  # fmt: skip
"""Operations that can be applied to the stored integers as they are."""


def rewrite(
    writer: Quantizer, operation: mlir.Operation, operands: list[mlir.Value], attributes: dict[str, Any],
    regions: list[mlir.Region],
) -> list[mlir.Value]:  # fmt: skip
    """Rewrites an operation on quantized tensors, with operands in storage types; returns the results in
    storage types.
    """
    name = operation.name
    kinds = [quantized_type(v.type) for v in operation.operands]
    types = [r.type for r in operation.results]
    wanted = [quantized_type(type_) for type_ in types]
    if name == "stablehlo.uniform_quantize":
        return [_requantized(writer, operands[0], kinds[0], wanted[0])]
    if name == "stablehlo.uniform_dequantize":
        return [writer.dequantize(operands[0], kinds[0])]
    if name in MOVING:
        operands = _of_result(writer, operation, operands)
        return writer.emit(name, operands, list(map(stored, types)), attributes)
    one = {*kinds, *wanted} - {None}
    ordered = name in ORDERED and len(one) == 1 and not any(kind.axes for kind in one if kind is not None)
    if name in PASSING or regions or ordered:
        attributes.pop("compare_type", None)
        return writer.emit(name, operands, list(map(stored, types)), attributes, regions)
    exact = _EXACT.get(name.removeprefix("stablehlo."))
    if exact is not None and all(kinds) and len(wanted) == 1 and wanted[0]:
        found = exact(_Exact(writer, operation, operands, attributes))
        if found is not None:
            return [found]
    real = [writer.dequantize(v, kind) for v, kind in zip(operands, kinds, strict=True)]
    results = writer.emit(name, real, list(map(expressed, types)), attributes)
    return [writer.quantize(v, kind) for v, kind in zip(results, wanted, strict=True)]


def _requantized(
    writer: Quantizer, value: mlir.Value, of: mlir.QuantizedType | None, to: mlir.QuantizedType | None
) -> mlir.Value:
    if to is None:
        raise VerifyError("its result must be quantized")
    return value if of == to else writer.quantize(writer.dequantize(value, of), to)


def _of_result(writer: Quantizer, operation: mlir.Operation, operands: list[mlir.Value]) -> list[mlir.Value]:
    """Converts quantized operands to the quantized type of the result. If an operand and the result are both
    quantized per axis, the operand stays unchanged; if only one of the two is, raises VerifyError.
    """
    result = operation.results[0].type
    to = quantized_type(result)
    found = []
    for value, old in zip(operands, operation.operands, strict=True):
        of = quantized_type(old.type)
        if of is not None and to is not None and of != to and not (of.axes and to.axes):
            if of.axes or to.axes:
                raise VerifyError(f"{type_text(old.type)} cannot become {type_text(result)}")
            value = _requantized(writer, value, of, to)
        found.append(value)
    return found


# Exact rules compute with integers, then scale the result.


class _Exact:
    """An operation with one result, whose operands and result are all quantized."""

    def __init__(
        self, writer: Quantizer, operation: mlir.Operation, operands: list[mlir.Value], said: dict[str, Any]
    ) -> None:
        self.writer, self.operation, self.operands, self.said = writer, operation, operands, said
        found = [quantized_type(v.type) for v in (*operation.operands, *operation.results)]
        *self.kinds, self.to = [kind for kind in found if kind is not None]
        self.sizes = [_sizes(v) for v in operation.operands]

    def total(self, wide: mlir.IntegerType) -> mlir.Value:
        """The result of the operation on the stored integers minus their zero points, in the type `wide`."""
        pairs = zip(self.operands, self.kinds, strict=True)
        centred = [self.writer.centred(value, kind, wide) for value, kind in pairs]
        result = replace(stored(self.operation.results[0].type), element=wide)
        return self.writer.emit(self.operation.name, centred, [result], self.said)[0]

    def scaled(self, terms: float, axis: int | None) -> mlir.Value | None:
        """The result of an operation that sums `terms` products: computed on integers, then multiplied by the
        product of the operands' scales over the result's scale.

        `axis` is the dimension of the result to which the right operand's scales belong, None if it has no
        axis. Returns None if the integers could overflow, if the left operand has several scales, or if the
        result has several that are not along `axis`.
        """
        (left, right), to = self.kinds, self.to
        if left.axes or to.block_sizes or (to.axes and (axis is None or to.axes != (axis,))):
            return None
        bound = terms * largest(left) * largest(right)
        if bound >= 1 << 53:
            return None
        real = self.writer.convert(self.total(I32 if bound < 1 << 31 else I64), mlir.FloatType("f64"))
        factors = np.asarray(left.scales) * np.asarray(right.scales) / np.asarray(to.scales)
        axes = () if axis is None else (axis,)
        of = right if right.axes else to
        return self.writer.fitted(self.writer.scaled("multiply", real, factors.tolist(), of, axes), to)


def _sum(case: _Exact) -> mlir.Value | None:
    """Rewrites a sum or difference if all scales are equal; else returns None."""
    kinds = (*case.kinds, case.to)
    if any(k.axes or k.storage.width > 16 for k in kinds) or len({k.scales for k in kinds}) != 1:
        return None
    return case.writer.fitted(case.total(I32), case.to)


def _product(case: _Exact) -> mlir.Value | None:
    return None if any(k.axes for k in (*case.kinds, case.to)) else case.scaled(1, None)


def _dot(case: _Exact) -> mlir.Value | None:
    (lhs, rhs), of = case.sizes, case.kinds[1]
    if case.operation.name == "stablehlo.dot":
        contracted, batch, taken = (len(lhs) - 1,), (), (0,)
    else:
        numbers = attr.structure(case.operation, "dot_dimension_numbers", "dot")
        contracted = attr.integers(numbers, "lhs_contracting_dimensions", ())
        batch = attr.integers(numbers, "rhs_batching_dimensions", ())
        taken = attr.integers(numbers, "rhs_contracting_dimensions", ())
    axis = None
    if of.axes:
        at = of.axes[0]
        if of.block_sizes or at in taken:
            return None
        free = [d for d in range(len(rhs)) if d not in batch and d not in taken]
        # The result has the batch dimensions, then the free ones of lhs, then the free ones of rhs.
        result = len(_sizes(case.operation.results[0]))
        axis = batch.index(at) if at in batch else result - len(free) + free.index(at)
    return case.scaled(math.prod(lhs[d] for d in contracted), axis)


def _convolution(case: _Exact) -> mlir.Value | None:
    numbers, of = attr.structure(case.operation, "dimension_numbers", "conv"), case.kinds[1]
    output = attr.integer(numbers, "kernel_output_feature_dimension", 0)
    if of.axes and (of.block_sizes or of.axes != (output,)):
        return None
    axis = attr.integer(numbers, "output_feature_dimension", 0) if of.axes else None
    return case.scaled(math.prod(d for n, d in enumerate(case.sizes[1]) if n != output), axis)


def _sizes(value: mlir.Value) -> tuple[float, ...]:
    """The upper limit of each size of a tensor; infinity for an unknown size."""
    return tuple([math.inf if size is None else int(size) for size in sizes_of(value.type)])


_EXACT: dict[str, Callable[[_Exact], mlir.Value | None]] = {
    "add": _sum, "convolution": _convolution, "dot": _dot, "dot_general": _dot, "multiply": _product,
    "subtract": _sum,
}  # fmt: skip
