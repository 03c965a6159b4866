"""Attributes as the text of MLIR: the dictionaries that custom calls and composites are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from axla.core.errors import UnsupportedError
from axla.stablehlo import mlir


def attribute_text(attribute: Any) -> str:
    """The attribute as MLIR prints it."""
    # Depth is bounded by the reader that made the attribute.
    if isinstance(attribute, bool):
        return "true" if attribute else "false"
    if isinstance(attribute, str):
        return quote(attribute)
    if isinstance(attribute, dict):
        parts = [k if v is mlir.UNIT else f"{_key(k)} = {attribute_text(v)}" for k, v in attribute.items()]
        return "{" + ", ".join(parts) + "}"
    if isinstance(attribute, tuple):
        return "[" + ", ".join(map(attribute_text, attribute)) + "]"
    if attribute is mlir.UNIT:
        return "unit"
    if isinstance(attribute, mlir.IntegerAttr):
        return _integer(attribute)
    if isinstance(attribute, mlir.FloatAttr):
        return f"{_number(attribute.value)} : {attribute.type.name}"
    if isinstance(attribute, mlir.SymbolRef):
        return "::".join(f"@{name}" for name in (attribute.root, *attribute.nested))
    if isinstance(attribute, mlir.DenseArray):
        values = ", ".join(_element(v) for v in attribute.values)
        return f"array<{type_text(attribute.element)}{': ' if values else ''}{values}>"
    if isinstance(attribute, mlir.DenseElements):
        return f"dense<{_nested(attribute.values)}> : {type_text(attribute.type)}"
    if isinstance(attribute, mlir.OpaqueAttr):
        return f"#{attribute.text}"
    if isinstance(attribute, mlir.EnumAttr):
        return f"#{attribute.dialect}<{attribute.mnemonic} {attribute.value}>"
    return type_text(attribute)


def quote(text: str) -> str:
    """A string with MLIR's escapes: two hexadecimal digits for what is not printable."""
    data = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data) + '"'


def _key(name: str) -> str:
    return name if name.replace("_", "a").replace(".", "a").replace("$", "a").isalnum() else quote(name)


def _integer(attribute: mlir.IntegerAttr) -> str:
    value = attribute.value
    if attribute.type == mlir.IntegerType(1):
        return "true" if value else "false"
    return f"{value} : {type_text(attribute.type)}"


def _number(value: Any) -> str:
    value = float(value)
    if not np.isfinite(value):
        bits = int(np.asarray(value, np.float64).view(np.uint64))
        return f"0x{bits:016X}"
    text = f"{value:e}"
    return text if float(text) == value else f"{value:.17e}"


def _element(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, complex | np.complexfloating):
        return f"({_number(value.real)}, {_number(value.imag)})"
    return _number(value)


def _nested(values: np.ndarray) -> str:
    if values.ndim == 0:
        return _element(values[()] if values.dtype.kind != "V" else float(values))
    return "[" + ", ".join(_nested(row) for row in values) + "]"


def type_text(type_: Any) -> str:
    """A type as MLIR prints it."""
    if isinstance(type_, mlir.IntegerType):
        return f"{type_.sign and type_.sign + 'i' or 'i'}{type_.width}"
    if isinstance(type_, mlir.FloatType):
        return type_.name
    if isinstance(type_, mlir.IndexType):
        return "index"
    if isinstance(type_, mlir.ComplexType):
        return f"complex<{type_text(type_.element)}>"
    if isinstance(type_, mlir.TensorType) and type_.shape is not None:
        sizes = "".join(f"{'?' if d is None else d}x" for d in type_.shape)
        return f"tensor<{sizes}{type_text(type_.element)}>"
    if isinstance(type_, mlir.OpaqueType):
        return f"!{type_.text}"
    raise UnsupportedError(f"the attribute {str(type_)[:100]} has no text form here")
