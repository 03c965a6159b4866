"""Values of MLIR from the bytes of their elements; structured attributes of StableHLO by their fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from axla.core import dtypes
from axla.stablehlo import mlir
from axla.stablehlo.attributes import ENUMERATIONS, STRUCTURES
from axla.stablehlo.bytecode.wire import Malformed, signed, varint
from axla.stablehlo.text.dense import BadElements, from_bytes

# The fields of each structured attribute and the values of each enumeration are those of the text form.
FIELDS = {mnemonic: tuple(fields) for mnemonic, fields in STRUCTURES.items()} | {
    "sub_axis_info": ("pre_size", "size"),
}
_FIRST = {"rng_distribution": 1}  # the number of the first value, where it is not 0


def structure(mnemonic: str) -> Callable[..., mlir.StructAttr]:
    """A function of the fields' values."""
    names = FIELDS[mnemonic]
    return lambda *fields: mlir.StructAttr(mnemonic, dict(zip(names, fields, strict=True)))


def enumeration(mnemonic: str, dialect: str = "stablehlo") -> Callable[[int], mlir.EnumAttr]:
    """A function of the number."""
    values = {
        number: mlir.EnumAttr(mnemonic, name, dialect)
        for number, name in enumerate(ENUMERATIONS[mnemonic].split(), _FIRST.get(mnemonic, 0))
    }

    def build(number: int) -> mlir.EnumAttr:
        if number not in values:
            raise Malformed(f"{mnemonic} {number}, which is none of its values")
        return values[number]

    return build


def bounds(sizes: tuple[int, ...]) -> mlir.StructAttr:
    return mlir.StructAttr("bounds", {"bounds": shape(sizes)})


def shape(sizes: tuple[int, ...]) -> tuple[int | None, ...]:
    """Sizes of a tensor type; the least 64-bit integer stands for `?`."""
    if any(-(1 << 63) < size < 0 for size in sizes):
        raise Malformed(f"a shape with negative sizes: {sizes}")
    return tuple([None if size < 0 else size for size in sizes])


_ELEMENTS = (
    mlir.IntegerType, mlir.FloatType, mlir.IndexType, mlir.ComplexType, mlir.QuantizedType, mlir.OpaqueType
)  # fmt: skip


def tensor(sizes: tuple[int, ...], element: mlir.Type, encoding: Any = None) -> mlir.TensorType:
    if not isinstance(element, _ELEMENTS):
        raise Malformed(f"a tensor of elements of the type {element}")
    return mlir.TensorType(shape(sizes), element, encoding)


def storage(element: mlir.Type) -> np.dtype:
    """The NumPy type of elements in memory."""
    try:
        return mlir.numpy_type(element)
    except ValueError as error:
        raise Malformed(str(error)) from None


def dense(kind: mlir.Type, data: bytes) -> mlir.DenseElements:
    """`dense<...>` of the elements in memory, or of one for all."""
    if not isinstance(kind, mlir.TensorType) or kind.shape is None or None in kind.shape:
        raise Malformed(f"dense elements of the type {kind}")
    sizes: tuple[int, ...] = kind.shape  # type: ignore[assignment]
    try:
        return mlir.DenseElements(kind, from_bytes(data, storage(kind.element), sizes))
    except BadElements as error:
        raise Malformed(str(error)) from None


def dense_array(element: mlir.Type, count: int, data: bytes) -> mlir.DenseArray:
    numpy_type = storage(element)
    if len(data) != count * numpy_type.itemsize:
        raise Malformed(f"{len(data)} bytes for {count} elements of {element}")
    return mlir.DenseArray(element, tuple(from_bytes(data, numpy_type, (count,)).reshape(count).tolist()))


def _bits(width: int, data: bytes) -> int:
    """The bits of a number of known width: one byte up to 8 bits, a signed integer up to 64, else words."""
    if width <= 8:
        value, at = data[0], 1
    elif width <= 64:
        value, at = varint(data, 0)
        value = signed(value)
    else:
        count, at = varint(data, 0)
        if count > len(data):
            raise IndexError
        value = 0
        for i in range(count):
            word, at = varint(data, at)
            value |= (signed(word) & (1 << 64) - 1) << 64 * i
    if at != len(data):
        raise Malformed("a number that is longer than its type")
    return value & (1 << width) - 1


def integer(kind: mlir.Type, data: bytes) -> Any:
    """An IntegerAttr, or a bool of i1."""
    if isinstance(kind, mlir.IndexType):
        width, sign = 64, ""
    elif isinstance(kind, mlir.IntegerType) and 0 < kind.width <= 4096:
        width, sign = kind.width, kind.sign
    else:
        raise Malformed(f"an integer of the type {kind}")
    value = _bits(width, data)
    if width == 1 and not sign:
        return bool(value)
    if sign != "u" and value >> width - 1:
        value -= 1 << width
    return mlir.IntegerAttr(value, kind)


def floating(kind: mlir.Type, data: bytes) -> mlir.FloatAttr:
    if not isinstance(kind, mlir.FloatType):
        raise Malformed(f"a float of the type {kind}")
    if kind.name == "tf32":  # the upper bits of f32; NumPy has no such type
        bits = (_bits(19, data) << 13).to_bytes(4, "little")
        return mlir.FloatAttr(np.frombuffer(bits, np.float32)[0].astype(np.float64), kind)
    numpy_type = storage(kind)
    bits = _bits(dtypes.BY_NAME[kind.name.lower()].bits, data).to_bytes(numpy_type.itemsize, "little")
    return mlir.FloatAttr(np.frombuffer(bits, numpy_type)[0], kind)
