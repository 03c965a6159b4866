"""Types and constants of MLIR as shapes and literals."""

from __future__ import annotations

import numpy as np

from axla.core import dtypes
from axla.core.dtypes import DType
from axla.core.errors import UnsupportedError, VerifyError
from axla.core.literal import Literal
from axla.core.shape import TOKEN, AnyShape, Shape, TupleShape
from axla.stablehlo import mlir
from axla.stablehlo.text.printer import type_text


def element_type(type_: mlir.Type) -> DType:
    """The element type of HLO: i1 is pred, signless integers are signed, index is s64."""
    if isinstance(type_, mlir.QuantizedType):
        raise UnsupportedError("quantized types have to be rewritten before a program is imported")
    found = mlir.dtype_of(type_)
    if found is None:
        raise UnsupportedError(f"HLO has no element type {type_text(type_)}")
    return found


def shape_of(type_: mlir.Type) -> AnyShape:
    """The shape of a value."""
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
    if type_.shape is None:
        raise UnsupportedError(f"{type_text(type_)}: tensors without a rank are not supported")
    dtype = element_type(type_.element)
    if None not in type_.shape:
        return Shape(dtype, type_.shape)  # type: ignore[arg-type]
    encoding = type_.encoding
    bounds = encoding.fields.get("bounds", ()) if isinstance(encoding, mlir.StructAttr) else ()
    bounds = tuple(bounds) + (None,) * (len(type_.shape) - len(bounds))
    sizes = [b if d is None else d for d, b in zip(type_.shape, bounds, strict=False)]
    if None in sizes:
        raise UnsupportedError(
            f"{type_text(type_)} has sizes that are not known; give the types of the arguments"
        )
    return Shape(dtype, sizes, [d is None for d in type_.shape])  # type: ignore[arg-type]


def literal_of(attribute: mlir.Attribute, resources: dict[str, bytes]) -> Literal:
    """The value of a constant. A splat is a scalar."""
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
    if shape.dtype.is_pred and len(data) == (shape.size + 7) // 8 != shape.size:
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        return bits[: shape.size].astype(np.bool_).reshape(shape.dims)
    if len(data) == shape.dtype.itemsize and shape.size > 1:
        return np.frombuffer(data, shape.dtype.numpy).reshape(())
    if len(data) != shape.byte_size:
        raise VerifyError(f"dense_resource<{name}> has {len(data)} bytes, {shape} has {shape.byte_size}")
    return np.frombuffer(data, shape.dtype.numpy).reshape(shape.dims)
