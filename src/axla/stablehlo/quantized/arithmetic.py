"""Integers and the real numbers that they stand for: `quantize` and `dequantize` of the specification."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from axla.core.errors import VerifyError
from axla.stablehlo import mlir
from axla.stablehlo.text.printer import type_text

I32, I64, F64 = mlir.IntegerType(32), mlir.IntegerType(64), mlir.FloatType("f64")


def quantized_type(type_: mlir.Type) -> mlir.QuantizedType | None:
    """The element type of a tensor, if it is a quantized one."""
    element = type_.element if isinstance(type_, mlir.TensorType) else None
    return element if isinstance(element, mlir.QuantizedType) else None


def is_quantized(type_: mlir.Type) -> bool:
    return quantized_type(type_) is not None


def stored(type_: Any) -> Any:
    """The type with storage types in place of quantized ones."""
    if isinstance(type_, mlir.TensorType):
        element = type_.element
        return replace(type_, element=element.storage) if isinstance(element, mlir.QuantizedType) else type_
    if isinstance(type_, mlir.TupleType):
        return mlir.TupleType(tuple(map(stored, type_.elements)))
    if isinstance(type_, mlir.FutureType):
        return mlir.FutureType(tuple(map(stored, type_.types)))
    if isinstance(type_, mlir.FunctionType):
        return mlir.FunctionType(tuple(map(stored, type_.inputs)), tuple(map(stored, type_.results)))
    return type_


def expressed(type_: mlir.Type) -> mlir.Type:
    """The type of the real numbers; of what is not quantized the type itself."""
    found = quantized_type(type_)
    return type_ if found is None else replace(type_, element=found.expressed)


def largest(type_: mlir.QuantizedType) -> int:
    """The largest absolute value of an element less its zero point."""
    zeros = type_.zero_points or (0,)
    return max(type_.storage_max - min(zeros), max(zeros) - type_.storage_min)


class Writer:
    """Writes the operations of a block: those that stand for `origin`, one operation after the other.

    A constant stands there once. `known` are the scales and zero points of types as arrays, which all
    operations of a source share: a type can be as long as the file, and each operation of that type.
    """

    def __init__(self, operations: list[mlir.Operation], known: dict[Any, np.ndarray]) -> None:
        self.operations = operations
        self.known = known
        self.constants: dict[Any, mlir.Value] = {}
        self.origin: mlir.Operation

    def emit(
        self, name: str, operands: Sequence[mlir.Value], types: Sequence[mlir.Type],
        attributes: dict[str, Any] | None = None, regions: list[mlir.Region] | None = None,
    ) -> list[mlir.Value]:  # fmt: skip
        origin = self.origin
        made = mlir.Operation(
            name, list(operands), list(types), attributes, regions, origin.location, origin.position
        )
        self.operations.append(made)
        return made.results

    def _one(self, name: str, operands: Sequence[mlir.Value], type_: mlir.Type) -> mlir.Value:
        return self.emit(f"stablehlo.{name}", operands, [type_])[0]

    def binary(self, name: str, lhs: mlir.Value, rhs: mlir.Value) -> mlir.Value:
        return self._one(name, (lhs, rhs), lhs.type)

    def convert(self, value: mlir.Value, element: mlir.Type) -> mlir.Value:
        type_ = value.type
        assert isinstance(type_, mlir.TensorType)
        if type_.element == element:
            return value
        return self._one("convert", (value,), replace(type_, element=element))

    # Parameters.

    def parameters(
        self, values: Sequence[float], of: mlir.QuantizedType, axes: tuple[int, ...], like: mlir.Type
    ) -> mlir.Value:
        """Scales or zero points as a tensor of this type; `axes` are what `of.axes` are here."""
        assert isinstance(like, mlir.TensorType)
        array = self._array(values, like.element)
        shape = like.shape or ()
        if (array == array.flat[0]).all():
            if None not in shape:
                return self._constant(array.flat[0], like)
            return self._broadcast(self._constant(array.flat[0], mlir.TensorType((), like.element)), (), like)
        if not of.block_sizes:
            if len(axes) != 1 or not 0 <= axes[0] < len(shape) or shape[axes[0]] != array.size:
                raise VerifyError(f"{array.size} scales do not fit {type_text(like)}")
            vector = self._constant(array, mlir.TensorType((array.size,), like.element))
            return self._broadcast(vector, axes, like)
        return self._blocks(array, of, like)

    def _array(self, values: Sequence[float], element: mlir.Type) -> np.ndarray:
        key = (id(values), element)  # the source keeps the tuples of its types
        array = self.known.get(key)
        if array is None:
            array = np.asarray(values, np.float64 if isinstance(element, mlir.FloatType) else np.int64)
            array = array.astype(mlir.numpy_type(element))
            if isinstance(values, tuple):
                self.known[key] = array
        return array

    def _constant(self, array: Any, type_: mlir.TensorType) -> mlir.Value:
        array = np.asarray(array)
        key = type_, array.tobytes() if array.nbytes < 64 else id(array)  # which its operation keeps
        value = self.constants.get(key)
        if value is None:
            attributes = {"value": mlir.DenseElements(type_, array)}
            value = self.constants[key] = self.emit("stablehlo.constant", (), [type_], attributes)[0]
        return value

    def _broadcast(self, value: mlir.Value, axes: tuple[int, ...], type_: mlir.TensorType) -> mlir.Value:
        dimensions = mlir.DenseArray(I64, axes)
        return self.emit(
            "stablehlo.broadcast_in_dim", (value,), [type_], {"broadcast_dimensions": dimensions}
        )[0]

    def _blocks(self, array: np.ndarray, of: mlir.QuantizedType, like: mlir.TensorType) -> mlir.Value:
        """One parameter for each block: every dimension is so many blocks times what one block has."""
        shape, blocks = like.shape or (), of.blocks
        if len(blocks) != len(shape):
            spread = [1] * len(shape)
            for axis, count in zip(of.axes, blocks, strict=False):
                if not 0 <= axis < len(shape):
                    raise VerifyError(f"blocks along dimension {axis} do not fit {type_text(like)}")
                spread[axis] = count
            blocks = tuple(spread)
        if math.prod(blocks) != array.size or any(
            d is None or not b or d % b for d, b in zip(shape, blocks, strict=True)
        ):
            raise VerifyError(f"blocks {list(blocks)} with {array.size} scales do not fit {type_text(like)}")
        apart = [n for d, b in zip(shape, blocks, strict=True) for n in (b, d // b)]  # type: ignore[operator]
        small = self._constant(array.reshape(blocks), mlir.TensorType(blocks, like.element))
        places = tuple(range(0, len(apart), 2))
        wide = self._broadcast(small, places, mlir.TensorType(tuple(apart), like.element))
        return self._one("reshape", (wide,), like)

    # From and to real numbers.

    def centred(self, value: mlir.Value, of: mlir.QuantizedType, element: mlir.IntegerType) -> mlir.Value:
        """The stored integers less their zero points, in a wider type."""
        value = self.convert(value, element)
        if not any(of.zero_points):
            return value
        return self.binary("subtract", value, self.parameters(of.zero_points, of, of.axes, value.type))

    def dequantize(self, value: mlir.Value, of: mlir.QuantizedType | None) -> mlir.Value:
        """The real numbers; a value that is not quantized as it is."""
        if of is None:
            return value
        centred = self.centred(value, of, I32 if of.storage.width <= 16 else I64)
        real = self.convert(centred, of.expressed)
        return self.binary("multiply", real, self.parameters(of.scales, of, of.axes, real.type))

    def quantize(self, value: mlir.Value, to: mlir.QuantizedType | None) -> mlir.Value:
        """Real numbers as integers: scaled, shifted, kept in range, rounded to the nearest, ties to even."""
        if to is None:
            return value
        scales = self.parameters(to.scales, to, to.axes, value.type)
        return self.fitted(self.binary("divide", value, scales), to)

    def fitted(self, value: mlir.Value, to: mlir.QuantizedType) -> mlir.Value:
        """Scaled real numbers as integers."""
        type_ = value.type
        if any(to.zero_points):
            value = self.binary("add", value, self.parameters(to.zero_points, to, to.axes, type_))
        value = self.clamp(value, to)
        return self.convert(self._one("round_nearest_even", (value,), type_), to.storage)

    def clamp(self, value: mlir.Value, to: mlir.QuantizedType) -> mlir.Value:
        assert isinstance(value.type, mlir.TensorType)
        scalar = mlir.TensorType((), value.type.element)
        low, high = (
            self._constant(np.asarray(limit).astype(mlir.numpy_type(scalar.element)), scalar)
            for limit in (to.storage_min, to.storage_max)
        )
        return self._one("clamp", (low, value, high), value.type)
