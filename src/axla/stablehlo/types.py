"""Converts MLIR types and constants to shapes and literals, and the reverse."""

from __future__ import annotations

from functools import cache

import numpy as np

from axla.core import dtypes
from axla.core.dtypes import DType
from axla.core.errors import UnsupportedError, VerifyError
from axla.core.literal import Literal
from axla.core.shape import TOKEN, UNBOUNDED, AnyShape, BufferShape, Shape, TupleShape
from axla.stablehlo import mlir
from axla.stablehlo.sizes import Bounded, sizes_of, with_sizes
from axla.stablehlo.text.dense import BadElements, from_bytes
from axla.stablehlo.text.printer import type_text


def element_type(type_: mlir.Type) -> DType:
    """The HLO element type of an MLIR type: i1 is pred, signless integers are signed, index is s64. Raises
    UnsupportedError if HLO has none.
    """
    if isinstance(type_, mlir.QuantizedType):
        raise UnsupportedError("quantized types have to be rewritten before a program is imported")
    found = mlir.dtype_of(type_)
    if found is None:
        raise UnsupportedError(f"HLO has no element type {type_text(type_)}")
    return found


def shape_of(type_: mlir.Type) -> AnyShape:
    """The HLO shape of an MLIR type."""
    if isinstance(type_, mlir.TensorType):
        return tensor_shape(type_)
    if isinstance(type_, mlir.TokenType):
        return TOKEN
    if isinstance(type_, mlir.TupleType):
        return TupleShape([shape_of(t) for t in type_.elements])
    if isinstance(type_, mlir.MemRefType):
        return tensor_shape(mlir.TensorType(type_.shape, type_.element))
    return Shape(element_type(type_))


def tensor_shape(type_: mlir.TensorType) -> Shape:
    """The HLO shape of a tensor type; raises UnsupportedError if a size is unknown."""
    sizes = sizes_of(type_)
    known = [int(size) for size in sizes if size is not None]
    if len(known) != len(sizes):
        message = f"{type_text(type_)} has sizes that are not known; give the types of the arguments"
        raise UnsupportedError(message)
    return Shape(element_type(type_.element), known, [isinstance(size, Bounded) for size in sizes])


def literal_of(attribute: mlir.Attribute, resources: dict[str, bytes]) -> Literal:
    """Converts the value of a constant to a literal. A splat becomes a scalar."""
    if isinstance(attribute, mlir.DenseElements):
        dtype = tensor_shape(attribute.type).dtype
        values = attribute.values
    elif isinstance(attribute, mlir.DenseResource):
        shape = tensor_shape(attribute.type)
        dtype = shape.dtype
        values = _resource(attribute.name, shape, resources)
    elif isinstance(attribute, mlir.IntegerAttr | mlir.FloatAttr):
        dtype = element_type(attribute.type)
        values = np.asarray(attribute.value)
    elif isinstance(attribute, bool):
        dtype, values = dtypes.PRED, np.asarray(attribute)
    else:
        raise VerifyError(f"a constant must be dense<...> or a number, found {str(attribute)[:100]}")
    if values.dtype != dtype.numpy:
        values = values.astype(dtype.numpy)
    return Literal(Shape(dtype, values.shape), values)


def _resource(name: str, shape: Shape, resources: dict[str, bytes]) -> np.ndarray:
    data = resources.get(name)
    if data is None:
        hint = ": print with large_elements_limit=None, or write bytecode" if name == "__elided__" else ""
        raise VerifyError(f"dense_resource<{name}>: the file has no resource of that name{hint}")
    try:
        return from_bytes(data, shape.dtype, shape.dims)
    except BadElements:
        found = f"dense_resource<{name}> has {len(data)} bytes, {shape} has {shape.byte_size}"
        raise VerifyError(found) from None


# From HLO to MLIR


@cache
def element_of(dtype: DType) -> mlir.Type:
    """The MLIR element type of an HLO one: pred is i1, signed integers are signless."""
    if dtype.is_pred:
        return mlir.IntegerType(1)
    if dtype.is_integer:
        if dtype.bits == 1:
            raise UnsupportedError(f"StableHLO has no element type {dtype}")
        return mlir.IntegerType(dtype.bits, "u" if dtype.is_unsigned else "")
    if dtype.is_complex:
        return mlir.ComplexType(mlir.FloatType(dtype.real.name))
    name = dtype.name  # f8e4m3fn is f8E4M3FN
    return mlir.FloatType(name[0] + name[1:].upper() if name[0] == "f" and "e" in name else name)


def type_of(shape: AnyShape) -> mlir.Type:
    """The MLIR type of a shape; a bounded size is `?`, with the bound in the encoding."""
    if isinstance(shape, Shape):
        element = element_of(shape.dtype)
        if not shape.is_dynamic:
            return mlir.TensorType(shape.dims, element)
        marks = zip(shape.dims, shape.dynamic, strict=True)
        sizes = [d if not dynamic else None if d == UNBOUNDED else Bounded(d) for d, dynamic in marks]
        return with_sizes(mlir.TensorType((), element), sizes)
    if isinstance(shape, TupleShape):
        return mlir.TupleType(tuple(type_of(e) for e in shape.elements))
    if isinstance(shape, BufferShape):
        return mlir.MemRefType(shape.array.dims, element_of(shape.array.dtype))
    if shape.is_token:
        return mlir.TokenType()
    raise UnsupportedError(f"StableHLO has no type for {shape}")


def dense_of(literal: Literal) -> mlir.DenseElements:
    """Converts a literal to a dense attribute; if all elements are equal, to a splat."""
    values = literal.array
    if values.size > 1 and literal.is_uniform():
        values = values.reshape(-1)[0:1].reshape(())
    return mlir.DenseElements(mlir.tensor(type_of(literal.shape.logical)), values)
