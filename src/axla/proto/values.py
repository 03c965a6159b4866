"""Converts shapes, layouts and literals to messages and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from axla.core.dtypes import BY_NAME, DType
from axla.core.errors import ParseError, ShapeError, UnsupportedError
from axla.core.literal import ElidedLiteral, Literal, why_no_array
from axla.core.shape import OPAQUE, TOKEN, AnyShape, BufferShape, Layout, ProgramShape, Shape, TupleShape
from axla.text.shapes import parse_shape

Proto = dict[str, Any]
COMBINED = -(1 << 63)
"""The size of a tile's dimension that combines several dimensions (`*` in HLO text)."""

_LEVELS = {"D": "DIM_DENSE", "C": "DIM_COMPRESSED", "S": "DIM_SINGLETON", "H": "DIM_LOOSE_COMPRESSED"}
_LETTERS = {level: letter for letter, level in _LEVELS.items()}

# field of Layout -> field of the message, if the values are the same
_LAYOUT = {
    "element_bits": "element_size_in_bits",
    "memory_space": "memory_space",
    "metadata_prefix": "dynamic_shape_metadata_prefix_bytes",
}
_TYPES = {"index_type": "index_primitive_type", "pointer_type": "pointer_primitive_type"}


class ShapeReader:
    """Converts messages to shapes. Each message is converted once; the wire reader returns equal messages as
    one dict.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Proto, AnyShape]] = {}

    def shape(self, message: Proto | None) -> AnyShape:
        """Converts a ShapeProto message to a shape."""
        if message is None:
            raise ParseError("the shape is missing")
        known = self._known.get(id(message))
        if known is not None:
            return known[1]
        try:
            shape = self._shape(message)
        except ShapeError as error:
            raise ParseError(error.message) from None
        self._known[id(message)] = (message, shape)  # kept alive, so that its id is not reused
        return shape

    def _shape(self, message: Proto) -> AnyShape:
        kind = message.get("element_type", "PRIMITIVE_TYPE_INVALID")
        parts = message.get("tuple_shapes", [])
        if kind == "TUPLE":
            return TupleShape([self.shape(p) for p in parts])
        if kind == "TOKEN":
            return TOKEN
        if kind == "OPAQUE_TYPE":
            return OPAQUE
        if kind == "BUFFER":
            array = self.shape(parts[0]) if len(parts) == 1 else None
            if not isinstance(array, Shape):
                raise ParseError("a shape of type BUFFER must have one element, an array")
            return BufferShape(array)
        dims = message.get("dimensions", [])
        layout = message.get("layout")
        return Shape(
            dtype_of(kind),
            dims,
            message.get("is_dynamic_dimension", ()),
            None if layout is None or (not layout.get("minor_to_major") and dims) else self._layout(layout),
        )

    def _layout(self, message: Proto) -> Layout:
        fields: Proto = {ours: message[theirs] for ours, theirs in _LAYOUT.items() if theirs in message}
        for ours, theirs in _TYPES.items():
            if message.get(theirs, "PRIMITIVE_TYPE_INVALID") != "PRIMITIVE_TYPE_INVALID":
                fields[ours] = dtype_of(message[theirs]).name
        if message.get("tail_padding_alignment_in_elements", 0) > 1:
            fields["tail_padding"] = message["tail_padding_alignment_in_elements"]
        levels = message.get("dim_level_types", [])
        if any(level != "DIM_DENSE" for level in levels):
            unique, ordered = message.get("dim_unique", []), message.get("dim_ordered", [])
            fields["dim_types"] = tuple(
                _LETTERS.get(level, "D")
                + "+" * (unique[n : n + 1] == [False])
                + "~" * (ordered[n : n + 1] == [False])
                for n, level in enumerate(levels)
            )
        tiles = [tile.get("dimensions", ()) for tile in message.get("tiles", ())]
        fields["tiles"] = tuple(tuple(None if d == COMBINED else d for d in tile) for tile in tiles)
        fields["split_configs"] = tuple(
            (c.get("dimension", 0), tuple(c.get("split_indices", ())))
            for c in message.get("split_configs", ())
        )
        if "physical_shape" in message:
            fields["physical_shape"] = str(self.shape(message["physical_shape"]))
        return Layout(tuple(message.get("minor_to_major", ())), **fields)

    def program_shape(self, message: Proto) -> ProgramShape:
        """Converts a ProgramShapeProto message to a program shape."""
        parameters = tuple(self.shape(p) for p in message.get("parameters", ()))
        return ProgramShape(parameters, self.shape(message.get("result")))


def dtype_of(kind: str | int) -> DType:
    """The element type for the name of an enumeration value, such as F32; ParseError for other values."""
    found = BY_NAME.get(str(kind).lower())
    if found is None:
        raise ParseError(f"{kind} is not an element type of an array")
    return found


class ShapeWriter:
    """Converts shapes to messages. Equal shapes get the same dict."""

    def __init__(self) -> None:
        self._known: dict[AnyShape, Proto] = {}

    def shape(self, shape: AnyShape) -> Proto:
        """Converts a shape to a ShapeProto message."""
        known = self._known.get(shape)
        if known is None:
            known = self._known[shape] = self._shape(shape)
        return known

    def _shape(self, shape: AnyShape) -> Proto:
        if isinstance(shape, TupleShape):
            return {"element_type": "TUPLE", "tuple_shapes": [self.shape(e) for e in shape.elements]}
        if isinstance(shape, BufferShape):
            return {"element_type": "BUFFER", "tuple_shapes": [self.shape(shape.array)]}
        if not isinstance(shape, Shape):
            return {"element_type": "TOKEN" if shape is TOKEN else "OPAQUE_TYPE"}
        return {
            "element_type": shape.dtype.name.upper(),
            "dimensions": list(shape.dims),
            "layout": self._layout(shape.layout),
            "is_dynamic_dimension": list(shape.dynamic),
        }

    def _layout(self, layout: Layout) -> Proto:
        message: Proto = {"minor_to_major": list(layout.minor_to_major)}
        for ours, theirs in _LAYOUT.items():
            message[theirs] = getattr(layout, ours)
        for ours, theirs in _TYPES.items():
            if getattr(layout, ours):
                message[theirs] = getattr(layout, ours).upper()
        message["tail_padding_alignment_in_elements"] = layout.tail_padding
        if layout.dim_types:
            message["dim_level_types"] = [_LEVELS[t[0]] for t in layout.dim_types]
            message["dim_unique"] = ["+" not in t for t in layout.dim_types]
            message["dim_ordered"] = ["~" not in t for t in layout.dim_types]
        message["tiles"] = [
            {"dimensions": [COMBINED if d is None else d for d in tile]} for tile in layout.tiles
        ]
        message["split_configs"] = [
            {"dimension": d, "split_indices": list(at)} for d, at in layout.split_configs
        ]
        if layout.physical_shape:
            message["physical_shape"] = self.shape(parse_shape(layout.physical_shape))
        return message

    def program_shape(self, shape: ProgramShape) -> Proto:
        """Converts a program shape to a ProgramShapeProto message."""
        return {
            "parameters": [self.shape(p) for p in shape.parameters],
            "result": self.shape(shape.result),
            "parameter_names": list(shape.names),
        }


# Literals. The elements of an array are in the order of its layout, in the field for their type.


def read_literal(message: Proto, shape_of: Callable[[Proto | None], AnyShape]) -> Literal:
    """Converts a LiteralProto message to a literal. ParseError if the values do not fit the shape."""
    shape = shape_of(message.get("shape"))
    if isinstance(shape, TupleShape):
        parts = message.get("tuple_literals", [])
        if len(parts) != len(shape.elements):
            raise ParseError(f"a literal of {shape} has {len(parts)} elements, wanted {len(shape.elements)}")
        elements = [read_literal(p, shape_of) for p in parts]
        for element, wanted in zip(elements, shape.elements, strict=True):
            if element.shape.logical is not wanted.logical:
                raise ParseError(f"a literal of {shape} has an element of shape {element.shape}")
        return Literal(shape, elements=elements)
    if not isinstance(shape, Shape):
        return Literal(shape)
    flat = _elements(message.get(f"{shape.dtype.name}s", b""), shape.dtype)
    if flat.size != shape.size:
        raise ParseError(f"a literal of {shape} has {flat.size} elements in {shape.dtype.name}s")
    major_to_minor = shape.layout.minor_to_major[::-1]
    try:
        stored = flat.reshape([shape.dims[d] for d in major_to_minor])
        array = stored.transpose(np.argsort(major_to_minor)) if shape.rank else stored
    except ValueError:
        raise UnsupportedError(f"a literal of {shape}: {why_no_array(shape)}") from None
    return Literal(shape.logical, np.array(array, order="C"))


def _elements(found: Any, dtype: DType) -> np.ndarray:
    if isinstance(found, bytes):
        if len(found) % dtype.itemsize:
            raise ParseError(f"{len(found)} bytes do not divide into elements of {dtype}")
        if dtype.bits < 8:
            raw = np.frombuffer(found, np.uint8) & np.uint8((1 << dtype.bits) - 1)
            if dtype.is_signed:  # stored in 8 bits with sign extension
                top = np.int8(1 << (dtype.bits - 1))
                raw = (raw.view(np.int8) ^ top) - top
            return raw.view(dtype.numpy)
        return np.frombuffer(found, dtype.numpy.newbyteorder("<") if dtype.numpy.isbuiltin else dtype.numpy)
    if dtype.is_complex:
        if found.size % 2:
            raise ParseError(f"{found.size} numbers, wanted pairs for complex numbers")
        return found.view(dtype.numpy)
    return found.astype(dtype.numpy, copy=False)


def literal_message(literal: Literal, shape_message: Callable[[AnyShape], Proto]) -> Proto:
    """Converts a literal to a LiteralProto message. UnsupportedError if its values were left out of the
    text.
    """
    shape = literal.shape
    if isinstance(literal, ElidedLiteral):
        raise UnsupportedError(f"the values of a literal of {shape} were left out, so it cannot be written")
    message: Proto = {"shape": shape_message(shape)}
    if isinstance(shape, TupleShape):
        message["tuple_literals"] = [literal_message(e, shape_message) for e in literal.elements]
    elif isinstance(shape, Shape):
        order = shape.layout.minor_to_major[::-1]
        flat = np.ascontiguousarray(literal.array.transpose(order)).reshape(-1)
        message[f"{shape.dtype.name}s"] = _stored(flat, shape.dtype)
    return message


_AS_ARRAYS = ("pred", "s32", "s64", "u32", "u64", "f32", "f64")


def _stored(flat: np.ndarray, dtype: DType) -> Any:
    if dtype.is_complex:
        return flat.view(dtype.real.numpy)
    if dtype.name in _AS_ARRAYS:
        return flat
    if dtype.bits < 8:
        return (flat.view(np.uint8) & np.uint8((1 << dtype.bits) - 1)).tobytes()
    return flat.tobytes()
