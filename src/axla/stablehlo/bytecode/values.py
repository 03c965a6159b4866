"""Decodes MLIR values from the bytes of their elements, and structured attributes of StableHLO from their
fields.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from axla.core import dtypes
from axla.stablehlo import mlir
from axla.stablehlo.attributes import ENUMERATIONS, STRUCTURES
from axla.stablehlo.bytecode.entries import Encoding
from axla.stablehlo.bytecode.wire import BadBytes, Bytes
from axla.stablehlo.text.dense import BadElements, from_bytes

_FIRST = {"rng_distribution": 1}  # the code of the first value, where it is not 0


def encodings(mnemonics: str, fields: dict[str, str], dialect: str = "stablehlo") -> dict[int, Encoding]:
    """The encodings of the structures and enumerations of a dialect. `mnemonics` lists them in the order of
    their codes, "-" for other codes; `fields` has the encoding of each kind of field.
    """
    return {
        code: _enumeration(mnemonic, dialect) if mnemonic in ENUMERATIONS else _structure(mnemonic, fields)
        for code, mnemonic in enumerate(mnemonics.split())
        if mnemonic != "-"
    }


def _structure(mnemonic: str, kinds: dict[str, str]) -> Encoding:
    fields = STRUCTURES[mnemonic]

    def build(*found: Any) -> mlir.StructAttr:
        values = zip(fields.items(), found, strict=True)
        return mlir.StructAttr(mnemonic, {n: bool(value) if k == "b" else value for (n, k), value in values})

    return "".join(kinds.get(kind) or kinds[kind[0]] for kind in fields.values()), build


def _enumeration(mnemonic: str, dialect: str) -> Encoding:
    values = {
        number: mlir.EnumAttr(mnemonic, name, dialect)
        for number, name in enumerate(ENUMERATIONS[mnemonic].split(), _FIRST.get(mnemonic, 0))
    }

    def build(number: int) -> mlir.EnumAttr:
        if number not in values:
            raise BadBytes(f"{mnemonic} {number}, which is not one of its values")
        return values[number]

    return "v", build


def bounds(sizes: tuple[int, ...]) -> mlir.StructAttr:
    """The attribute of a tensor type that has the upper bounds of its dynamic sizes."""
    return mlir.StructAttr("bounds", {"bounds": shape(sizes)})


def shape(sizes: tuple[int, ...]) -> tuple[int | None, ...]:
    """The sizes of a tensor type; the smallest 64-bit integer stands for `?`, which is None here."""
    if any(-(1 << 63) < size < 0 for size in sizes):
        raise BadBytes(f"a shape with negative sizes: {sizes}")
    return tuple([None if size < 0 else size for size in sizes])


_ELEMENTS = (
    mlir.IntegerType, mlir.FloatType, mlir.IndexType, mlir.ComplexType, mlir.QuantizedType, mlir.OpaqueType
)  # fmt: skip


def tensor(sizes: tuple[int, ...], element: mlir.Type, encoding: Any = None) -> mlir.TensorType:
    """Makes a ranked tensor type; `sizes` are as `shape` takes them. Raises BadBytes if a tensor cannot have
    such elements.
    """
    if not isinstance(element, _ELEMENTS):
        raise BadBytes(f"a tensor cannot have elements of the type {element}")
    return mlir.TensorType(shape(sizes), element, encoding)


def storage(element: mlir.Type) -> dtypes.DType:
    """The element type with which NumPy arrays store elements of an MLIR type; raises BadBytes if there is
    none.
    """
    try:
        return mlir.stored(element)
    except ValueError as error:
        raise BadBytes(str(error)) from None


def dense(kind: mlir.Type, data: bytes) -> mlir.DenseElements:
    """Makes a `dense<...>` attribute from the bytes of its elements, or of one element for all."""
    if not isinstance(kind, mlir.TensorType) or kind.sizes is None:
        raise BadBytes(f"dense elements of the type {kind}, wanted a ranked tensor")
    try:
        return mlir.DenseElements(kind, from_bytes(data, storage(kind.element), kind.sizes))
    except BadElements as error:
        raise BadBytes(str(error)) from None


def dense_array(element: mlir.Type, count: int, data: bytes) -> mlir.DenseArray:
    """Makes a dense array attribute from the bytes of its `count` elements."""
    held = storage(element)
    if len(data) != count * held.itemsize:
        raise BadBytes(f"{len(data)} bytes for {count} elements of {element}")
    return mlir.DenseArray(element, tuple(from_bytes(data, held, (count,)).reshape(count).tolist()))


def _bits(width: int, data: bytes) -> int:
    """Reads the bits of a number of this width: one byte up to 8 bits, a signed integer up to 64 bits, else
    64-bit words.
    """
    place = Bytes(data)
    if width <= 8:
        value = place.byte()
    elif width <= 64:
        value = place.signed()
    else:
        words = place.several(place.signed, "words")
        value = sum((word & (1 << 64) - 1) << 64 * i for i, word in enumerate(words))
    if place.at != len(data):
        raise BadBytes("a number that is longer than its type")
    return value & (1 << width) - 1


def integer(kind: mlir.Type, data: bytes) -> Any:
    """Makes an integer attribute from its bytes; a bool for i1."""
    if isinstance(kind, mlir.IndexType):
        return mlir.integer_of(_bits(64, data), kind)
    if isinstance(kind, mlir.IntegerType) and 0 < kind.width <= 4096:
        return mlir.integer_of(_bits(kind.width, data), kind)
    raise BadBytes(f"an integer attribute of the type {kind}")


def floating(kind: mlir.Type, data: bytes) -> mlir.FloatAttr:
    """Makes a float attribute from the bytes of its bits."""
    if not isinstance(kind, mlir.FloatType):
        raise BadBytes(f"a float attribute of the type {kind}")
    if kind.name == "tf32":  # the upper bits of f32; NumPy has no such type
        bits = (_bits(19, data) << 13).to_bytes(4, "little")
        return mlir.FloatAttr(np.frombuffer(bits, np.float32)[0].astype(np.float64), kind)
    held = storage(kind)
    bits = _bits(held.bits, data).to_bytes(held.itemsize, "little")
    return mlir.FloatAttr(np.frombuffer(bits, held.numpy)[0], kind)
