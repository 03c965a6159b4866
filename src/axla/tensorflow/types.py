"""Reads element types, shapes and tensors of TensorFlow's protocol buffers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from axla.core.dtypes import BY_NAME, DType
from axla.core.errors import ParseError, UnsupportedError

DTYPES: dict[str, DType] = {
    name: BY_NAME[ours]
    for name, ours in {
        "DT_FLOAT": "f32", "DT_DOUBLE": "f64", "DT_HALF": "f16", "DT_BFLOAT16": "bf16", "DT_BOOL": "pred",
        "DT_INT2": "s2", "DT_INT4": "s4", "DT_INT8": "s8", "DT_INT16": "s16", "DT_INT32": "s32",
        "DT_INT64": "s64",
        "DT_UINT2": "u2", "DT_UINT4": "u4", "DT_UINT8": "u8", "DT_UINT16": "u16", "DT_UINT32": "u32",
        "DT_UINT64": "u64", "DT_COMPLEX64": "c64", "DT_COMPLEX128": "c128", "DT_FLOAT8_E5M2": "f8e5m2",
        "DT_FLOAT8_E4M3FN": "f8e4m3fn", "DT_FLOAT8_E4M3FNUZ": "f8e4m3fnuz",
        "DT_FLOAT8_E4M3B11FNUZ": "f8e4m3b11fnuz", "DT_FLOAT8_E5M2FNUZ": "f8e5m2fnuz",
        "DT_QINT8": "s8", "DT_QUINT8": "u8", "DT_QINT16": "s16", "DT_QUINT16": "u16", "DT_QINT32": "s32",
    }.items()
}  # fmt: skip
"""The element types of arrays, by TensorFlow's names; a quantized type is represented by its integer type."""

_FIELDS = {
    "f16": "half_val", "bf16": "half_val", "f32": "float_val", "f64": "double_val", "pred": "bool_val",
    "s64": "int64_val", "u32": "uint32_val", "u64": "uint64_val", "c64": "scomplex_val",
    "c128": "dcomplex_val",
}  # fmt: skip
_MOST_DIMENSIONS = 64
_MOST_ELEMENTS, _MOST_REPEATED, _MOST_IN_NUMPY = 1 << 31, 1 << 24, 1 << 58
Proto = dict[str, Any]


def dtype_of(name: str, what: str) -> DType:
    """The element type for the name of a TensorFlow type. Raises UnsupportedError, which begins with `what`,
    for strings, resources and variants.
    """
    found = DTYPES.get(name)
    if found is None:
        raise UnsupportedError(f"{what}: arrays of {name} are not supported")
    return found


def without_ref(name: str | int) -> str:
    """The name of a type without `_REF`; a number above 100 is that of a reference."""
    if isinstance(name, str):
        return name.removesuffix("_REF")
    found = NAMES.get(name - 100)
    if found is None:
        raise ParseError(f"{name} is not the number of a TensorFlow type")
    return found


NAMES: dict[int, str] = {}  # filled by messages.py, which reads the table


def entries(messages: Iterable[Proto]) -> dict[str, Any]:
    """The dict of a map field, whose entries are messages with the fields `key` and `value`."""
    return {entry.get("key", ""): entry.get("value", {}) for entry in messages}


def fits(dims: Sequence[int] | None, found: Sequence[int]) -> bool:
    """Whether an array with sizes `found` fits declared sizes: -1 is any size, None any rank."""
    return dims is None or (
        len(dims) == len(found) and all(w in (-1, n) for w, n in zip(dims, found, strict=True))
    )


def dims_of(shape: Proto, what: str) -> tuple[int, ...] | None:
    """The sizes of a TensorShapeProto, -1 for unknown ones; None if the rank is unknown. Error messages begin
    with `what`.
    """
    if shape.get("unknown_rank"):
        return None
    dims = tuple(int(dim.get("size", 0)) for dim in shape.get("dim", ()))
    if len(dims) > _MOST_DIMENSIONS:
        raise UnsupportedError(f"{what}: {len(dims)} dimensions, at most {_MOST_DIMENSIONS} are supported")
    if any(size < -1 for size in dims) or prod(abs(size) or 1 for size in dims) > _MOST_IN_NUMPY:
        raise ParseError(f"{what}: the sizes {list(dims)} are not valid, or too large")
    return dims


def known_dims(shape: Proto, what: str) -> tuple[int, ...]:
    """The sizes of a TensorShapeProto. Raises ParseError, which begins with `what`, if one is unknown."""
    dims = dims_of(shape, what)
    if dims is None or -1 in dims:
        raise ParseError(f"{what}: its shape is not fully known")
    return dims


def tensor_of(tensor: Proto, what: str) -> np.ndarray:
    """The values of a TensorProto, read-only; for strings, an array of `bytes` objects. The last value is
    repeated for missing elements; without values all are zero. Raises ParseError, which begins with `what`,
    if there are too many values.
    """
    name = without_ref(tensor.get("dtype", "DT_INVALID"))
    dims = known_dims(tensor.get("tensor_shape", {}), what)
    count = prod(dims)
    if count > _MOST_ELEMENTS:
        raise ParseError(f"{what}: a tensor of {count} elements is too large")
    if name == "DT_STRING":
        return _spread(np.array([*tensor.get("string_val", ()), None], object)[:-1], dims, count, b"", what)
    dtype = dtype_of(name, what)
    content = tensor.get("tensor_content", b"")
    if content:
        if len(content) != count * dtype.itemsize:
            raise ParseError(f"{what}: {len(content)} bytes are not the size of {count} elements of {name}")
        values = np.frombuffer(content, np.uint8).view(dtype.numpy)
    else:
        values = _listed(tensor, dtype, what)
    return _spread(values, dims, count, np.zeros((), dtype.numpy)[()], what)


def _listed(tensor: Proto, dtype: DType, what: str) -> np.ndarray:
    if dtype.is_float and dtype.bits == 8:
        return np.frombuffer(tensor.get("float8_val", b""), np.uint8).view(dtype.numpy)
    field = _FIELDS.get(dtype.name, "int_val")
    values = np.asarray(tensor.get(field, ()))
    if dtype.is_complex:
        if len(values) % 2:
            raise ParseError(f"{what}: {field} has an odd number of values, which cannot be complex numbers")
        return np.ascontiguousarray(values).view(dtype.numpy) if len(values) else np.zeros(0, dtype.numpy)
    if field == "half_val":
        return values.astype(np.uint16).view(dtype.numpy)
    return values.astype(dtype.numpy)


def _spread(values: np.ndarray, dims: tuple[int, ...], count: int, zero: Any, what: str) -> np.ndarray:
    if len(values) > max(count, 1):  # (TensorFlow allows one value in a tensor without elements)
        raise ParseError(f"{what}: it has {len(values)} values for only {count} elements")
    if len(values) < count:
        last = values[-1] if len(values) else zero
        if len(values) <= 1:  # a single value is broadcast without a copy
            return np.broadcast_to(np.array(last, values.dtype), dims)
        if count > _MOST_REPEATED:
            raise UnsupportedError(f"{what}: {count} elements are too many to fill from {len(values)} values")
        values = np.concatenate([values, np.full(count - len(values), last, values.dtype)])
    found = values[:count].reshape(dims)
    found.flags.writeable = False
    return found
