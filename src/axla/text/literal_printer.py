"""Prints values as HLO text: {1, 2.5, nan}, { { 1, 2 }, { 3, 4 } }, (1, -2), nan(0x1)."""

from __future__ import annotations

from math import ceil, log10, prod

import numpy as np

from axla.core.dtypes import DType
from axla.core.literal import ElidedLiteral, Literal
from axla.core.shape import Shape

SHORT = 10
"""Constants with more elements are printed as {...} unless all values are wanted."""

SPLAT = 1024
"""For a constant of zeros with more elements, only one is printed."""

_MANTISSA = {
    "f64": 52, "f32": 23, "f16": 10, "bf16": 7, "f8e5m2": 2, "f8e4m3": 3, "f8e3m4": 4, "f8e4m3fn": 3,
    "f8e4m3b11fnuz": 3, "f8e5m2fnuz": 2, "f8e4m3fnuz": 3, "f8e8m0fnu": 0, "f6e2m3fn": 3, "f6e3m2fn": 2,
    "f4e2m1fn": 1,
}  # fmt: skip
PAYLOAD_BITS = {name: _MANTISSA[name] for name in ("f64", "f32", "f16", "bf16", "f8e5m2", "f8e4m3", "f8e3m4")}
"""Mantissa bits of the float types whose NaNs carry payloads."""

_SHORTEST = {"f64": 15, "f32": 6}
"""The numbers of digits to try first, by element type; they are often enough to distinguish a value from its
neighbours.
"""


def constant_text(literal: Literal, *, values: bool) -> str:
    """The text between the parentheses of `constant(...)`. Without `values`, long constants are {...}."""
    if isinstance(literal, ElidedLiteral):
        return "{...}"
    if not values and (not isinstance(literal.shape, Shape) or literal.shape.size > SHORT):
        return "{...}"
    return literal_text(literal)


def literal_text(literal: Literal) -> str:
    """A literal in HLO text; `{...}` for an elided one."""
    if isinstance(literal, ElidedLiteral):
        return "{...}"
    shape = literal.shape
    if not isinstance(shape, Shape):
        # The recursion is bounded, since the parser limits the nesting of tuple shapes.
        return "( " + ", ".join(map(literal_text, literal.elements)) + " )"
    if shape.size > SPLAT and not literal.array.view(np.uint8).any():
        # In XLA's parser, too, a value without braces is the first element, and the others are zero.
        return element_texts(shape.dtype, literal.array.reshape(-1)[:1])[0]
    if shape.dtype.is_pred and not shape.dims:
        return "true" if literal.array else "false"
    texts = element_texts(shape.dtype, literal.array.reshape(-1))
    return _braced(texts, shape.dims)


def _braced(texts: list[str], dims: tuple[int, ...]) -> str:
    """Nests the texts of elements in braces, from the innermost dimension to the outermost: without
    recursion, since ranks may be high.
    """
    rank = len(dims)
    if rank == 0:
        return texts[0]
    if rank > 1 and not texts and prod(dims[:-1]) > 1000:
        return "{}"
    width = dims[-1]
    opening, closing = ("{ ", " }") if rank > 1 and width > 1 else ("{", "}")
    items = [opening + ", ".join(row) + closing for row in _rows(texts, prod(dims[:-1]), width)]
    for level in range(rank - 2, -1, -1):
        rows = _rows(items, prod(dims[:level]), dims[level])
        if level and rank > 3:
            # XLA numbers the planes of arrays of four and more dimensions.
            count = dims[level - 1]
            numbers = [f"/*i{level - 1}={n % count}*/" for n in range(len(rows))]
            numbered = zip(numbers, rows, strict=True)
            items = [" ".join(("{", n, ", ".join(row), "}") if row else ("{", n, "}")) for n, row in numbered]
        else:
            items = ["{ " + ", ".join(row) + " }" for row in rows]
    return items[0]


def _rows(items: list[str], count: int, width: int) -> list[list[str]]:
    return [items[n * width : (n + 1) * width] for n in range(count)]


def element_texts(dtype: DType, flat: np.ndarray) -> list[str]:
    """The texts of the elements of `flat`, a one-dimensional array of a dtype. Each text reads back as the
    same value.
    """
    if dtype.is_complex:
        parts = element_texts(dtype.real, flat.view(dtype.real.numpy))
        return [f"({re}, {im})" for re, im in zip(parts[::2], parts[1::2], strict=True)]
    if dtype.is_pred:
        return ["1" if v else "0" for v in flat.tolist()]
    if not dtype.is_float:
        return list(map(str, flat.astype(np.int64 if dtype.is_signed else np.uint64).tolist()))
    with np.errstate(all="ignore"):
        wide = flat.astype(np.float64)
    values = wide.tolist()
    digits = ceil(1 + (_MANTISSA[dtype.name] + 1) * log10(2))
    shortest = _SHORTEST.get(dtype.name)
    if shortest is None:
        texts = [f"{v:.{digits}g}" for v in values]
    else:
        texts = [f"{v:.{shortest}g}" for v in values]
        with np.errstate(all="ignore"):
            back = np.array(list(map(float, texts)), np.float64).astype(dtype.numpy)
        for n in np.flatnonzero(back != flat).tolist():
            texts[n] = f"{values[n]:.{digits}g}"
    for n in np.flatnonzero(np.isnan(wide)).tolist():
        texts[n] = _nan_text(dtype, flat[n : n + 1])
    return texts


def _nan_text(dtype: DType, one: np.ndarray) -> str:
    bits = int(one.view(f"u{dtype.itemsize}")[0])
    if dtype.name == "f8e8m0fnu":
        return "nan"
    sign = "-" if bits >> (dtype.bits - 1) else ""
    mantissa = PAYLOAD_BITS.get(dtype.name)
    if mantissa is None:
        return sign + "nan"
    payload = bits & ((1 << mantissa) - 1)
    return f"{sign}nan" if payload == 1 << (mantissa - 1) else f"{sign}nan({payload:#x})"
