"""Converts between integers and the real numbers that they represent, like `quantize` and `dequantize` in the
specification.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from axla.core.errors import VerifyError
from axla.stablehlo import mlir
from axla.stablehlo.building import I32, I64, Builder, numbers
from axla.stablehlo.text.printer import type_text


def quantized_type(type_: mlir.Type) -> mlir.QuantizedType | None:
    """The element type of a tensor if it is quantized, else None."""
    element = type_.element if isinstance(type_, mlir.TensorType) else None
    return element if isinstance(element, mlir.QuantizedType) else None


def is_quantized(type_: mlir.Type) -> bool:
    """Whether the elements of a type are quantized."""
    return quantized_type(type_) is not None


def stored(type_: Any) -> Any:
    """The type with storage types in place of quantized types."""
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
    """The type of the real numbers that a quantized tensor represents; an unquantized type is returned as it
    is.
    """
    found = quantized_type(type_)
    return type_ if found is None else replace(type_, element=found.expressed)


def largest(type_: mlir.QuantizedType) -> int:
    """The largest absolute difference between a stored integer and its zero point."""
    zeros = type_.zero_points or (0,)
    return max(type_.storage_max - min(zeros), max(zeros) - type_.storage_min)


class Quantizer(Builder):
    """Writes operations on integers in place of operations on quantized values.

    Each constant is written once. `known` has scales and zero points of types as arrays. All operations of a
    source share one Quantizer, since a type can be as long as the whole file, and every operation has types.
    """

    def __init__(self, block: mlir.Block, known: dict[Any, np.ndarray]) -> None:
        super().__init__(block)
        self.known = known
        self.constants: dict[Any, mlir.Value] = {}

    def convert(self, value: mlir.Value, element: mlir.Type) -> mlir.Value:
        """Converts a value to an element type, unless the value has it."""
        type_ = mlir.tensor(value.type)
        if type_.element == element:
            return value
        return self.make("convert", (value,), replace(type_, element=element))

    # Parameters.

    def scaled(
        self, name: str, value: mlir.Value, by: Sequence[float], of: mlir.QuantizedType,
        axes: tuple[int, ...] | None = None,
    ) -> mlir.Value:  # fmt: skip
        """Applies the operation `name` to a value and the scales or zero points `by` of the type `of`. `axes`
        are the dimensions of the value for `of.axes`, by default equal to them.
        """
        given = self._parameters(by, of, of.axes if axes is None else axes, mlir.tensor(value.type))
        return self.make(name, (value, given), value.type)

    def _parameters(
        self, values: Sequence[float], of: mlir.QuantizedType, axes: tuple[int, ...], like: mlir.TensorType
    ) -> mlir.Value:
        """Makes a tensor of the type `like` from the scales or zero points `values` of the type `of`, which
        change along the dimensions `axes` of the tensor.
        """
        array, shape = self._array(values, like.element), like.shape or ()
        if (array == array.flat[0]).all():
            if None not in shape:
                return self._constant(array.flat[0], like)
            return self._broadcast(self._constant(array.flat[0], mlir.TensorType((), like.element)), (), like)
        if of.block_sizes:
            return self._blocks(array, of, like)
        if len(axes) != 1 or not 0 <= axes[0] < len(shape) or shape[axes[0]] != array.size:
            raise VerifyError(f"{array.size} scales do not fit {type_text(like)}")
        vector = self._constant(array, mlir.TensorType((array.size,), like.element))
        return self._broadcast(vector, axes, like)

    def _array(self, values: Sequence[float], element: mlir.Type) -> np.ndarray:
        key = (id(values), element)  # the source keeps the tuples of its types, so the id is safe
        array = self.known.get(key)
        if array is None:
            array = np.asarray(values, np.float64 if isinstance(element, mlir.FloatType) else np.int64)
            array = array.astype(mlir.stored(element).numpy)
            if isinstance(values, tuple):
                self.known[key] = array
        return array

    def _constant(self, array: Any, type_: mlir.TensorType) -> mlir.Value:
        array = np.asarray(array)
        # The constant keeps the array, so the id is safe.
        key = type_, array.tobytes() if array.nbytes < 64 else id(array)
        value = self.constants.get(key)
        if value is None:
            given = {"value": mlir.DenseElements(type_, array)}
            value = self.constants[key] = self.make("constant", (), type_, given)
        return value

    def _broadcast(self, value: mlir.Value, axes: Iterable[int], type_: mlir.TensorType) -> mlir.Value:
        return self.make("broadcast_in_dim", (value,), type_, {"broadcast_dimensions": numbers(axes)})

    def _blocks(self, array: np.ndarray, of: mlir.QuantizedType, like: mlir.TensorType) -> mlir.Value:
        """Makes a tensor of the type `like` from `array`, which has one scale or zero point for each block:
        repeats it for all elements of the block. Raises VerifyError if the blocks do not divide the tensor.
        """
        shape, blocks = like.shape or (), of.blocks
        if len(blocks) != len(shape):
            if any(not 0 <= axis < len(shape) for axis in of.axes):
                raise VerifyError(f"blocks along dimensions {list(of.axes)} do not fit {type_text(like)}")
            along = dict(zip(of.axes, blocks, strict=False))
            blocks = tuple([along.get(axis, 1) for axis in range(len(shape))])
        sizes = [d // b for d, b in zip(shape, blocks, strict=True) if d is not None and b and not d % b]
        if math.prod(blocks) != array.size or len(sizes) != len(shape):
            raise VerifyError(f"blocks {list(blocks)} with {array.size} scales do not fit {type_text(like)}")
        apart = tuple([n for pair in zip(blocks, sizes, strict=True) for n in pair])
        small = self._constant(array.reshape(blocks), mlir.TensorType(blocks, like.element))
        wide = self._broadcast(small, range(0, len(apart), 2), mlir.TensorType(apart, like.element))
        return self.make("reshape", (wide,), like)

    # Conversions from and to real numbers.

    def centred(self, value: mlir.Value, of: mlir.QuantizedType, element: mlir.IntegerType) -> mlir.Value:
        """The stored integers minus their zero points, in the wider type `element`."""
        value = self.convert(value, element)
        return self.scaled("subtract", value, of.zero_points, of) if any(of.zero_points) else value

    def dequantize(self, value: mlir.Value, of: mlir.QuantizedType | None) -> mlir.Value:
        """Converts stored integers to the real numbers that they represent; returns the value itself if `of`
        is None.
        """
        if of is None:
            return value
        centred = self.centred(value, of, I32 if of.storage.width <= 16 else I64)
        return self.scaled("multiply", self.convert(centred, of.expressed), of.scales, of)

    def quantize(self, value: mlir.Value, to: mlir.QuantizedType | None) -> mlir.Value:
        """Converts real numbers to stored integers; returns the value itself if `to` is None."""
        return value if to is None else self.fitted(self.scaled("divide", value, to.scales, to), to)

    def fitted(self, value: mlir.Value, to: mlir.QuantizedType) -> mlir.Value:
        """Converts numbers, already divided by the scale, to stored integers: adds the zero point, clamps,
        and rounds real numbers to nearest, ties to even.
        """
        if any(to.zero_points):
            value = self.scaled("add", value, to.zero_points, to)
        type_ = mlir.tensor(value.type)
        scalar = mlir.TensorType((), type_.element)
        limits = np.asarray([to.storage_min, to.storage_max]).astype(mlir.stored(type_.element).numpy)
        low, high = [self._constant(limit, scalar) for limit in limits]
        value = self.make("clamp", (low, value, high), type_)
        if isinstance(type_.element, mlir.FloatType):
            value = self.make("round_nearest_even", (value,), type_)
        return self.convert(value, to.storage)
