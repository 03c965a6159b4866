"""Parses literals: {{1, 2}, {3, 4}}, (1.5, {true}), nan(0x1), {...}.

Numbers are converted in bulk. The structure is checked against the shape before an array is created, so that
an array is never larger than the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from axla.core.cursor import always
from axla.core.dtypes import F8E8M0FNU, DType
from axla.core.errors import UnsupportedError
from axla.core.literal import ElidedLiteral, Literal, why_no_array
from axla.core.regex import ascii_regex
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo.family import show
from axla.text.lexer import BLANK
from axla.text.literal_printer import PAYLOAD_BITS
from axla.text.shapes import ShapeCursor

# Tokens are braces, complex numbers, and everything else between commas and blanks.
_COMMENT = r"/\*[\s\S]*?\*/|//[^\n]*+"
_TOKEN = ascii_regex(
    rf"[{{}}]|\((?:[^()]|\([^()]*+\))*+\)|nan\(\w*+\)|-nan\(\w*+\)|[^\s{{}}(),/]++|/|{_COMMENT}"
)
_GAP = always(ascii_regex(rf"(?:[\s,]++|{_COMMENT})*+"))
_NUMBER = ascii_regex(r"-?(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?\d++)?+")
_INT = ascii_regex(r"-?\d++")
_NAN = ascii_regex(r"(-?)nan(?:\(0x([0-9a-fA-F]++)\))?+")
MAX_SPLATS = 1 << 29
"""The most bytes that constants written as one value, or elided, may take in a text: `f32[1024] constant(0)`
takes 4096.
"""

_ELIDED = ascii_regex(BLANK + r"\{" + BLANK + r"\.\.\." + BLANK + r"\}")


def read_literal(cursor: ShapeCursor, shape: AnyShape) -> Literal:
    """Reads the literal of a shape at the cursor."""
    if shape.is_unbounded:
        cursor.fail(f"the sizes of a constant must be known, found {show(shape)}")
    if cursor.match(_ELIDED):
        if cursor.fills and isinstance(shape, Shape):
            return _made_up(cursor, shape)
        return ElidedLiteral(shape, f"{cursor.file}line {cursor.line_of(cursor.pos)}: ")
    if isinstance(shape, TupleShape):
        return _read_tuple(cursor, shape)
    if not isinstance(shape, Shape):
        cursor.fail(f"a constant cannot be {shape}")
    texts, places = _read_elements(cursor, shape)
    array = _array(cursor, shape.dtype, texts, places)
    try:
        if array.size == 1 != shape.size:
            # As in XLA, one value without braces is the first element, and the others are zero.
            single, array = array[0], np.zeros(shape.size, array.dtype)
            array[0] = single
        array = array.reshape(shape.dims)
    except ValueError:
        raise UnsupportedError(f"a literal of {show(shape)}: {why_no_array(shape)}") from None
    array.flags.writeable = False
    return Literal(shape, array)


def _made_up(cursor: ShapeCursor, shape: Shape) -> Literal:
    """The literal that XLA's parser generates for an elided constant: consecutive numbers, which go on in the
    next elided constant of the text.
    """
    _bound_bytes(cursor, shape, "without values")
    words, rest = divmod(shape.byte_size, 4)
    first, odd = cursor.made_up
    cursor.made_up = (first + words, odd + rest)
    data = np.zeros(shape.byte_size, np.uint8)
    data[: 4 * words].view(np.uint32)[:] = np.arange(first, first + words)
    # XLA writes them at the byte with the index `words`, not at the end.
    data[words : words + rest] = np.arange(odd, odd + rest)
    data &= (1 << (1 if shape.dtype.is_pred else min(shape.dtype.bits, 8))) - 1
    return Literal(shape, data.view(shape.dtype.numpy).reshape(shape.dims))


def _bound_bytes(cursor: ShapeCursor, shape: Shape, what: str) -> None:
    cursor.splat_bytes += shape.byte_size
    if cursor.splat_bytes > MAX_SPLATS:
        found = f"a constant of {show(shape)} {what}"
        raise UnsupportedError(f"{found}: more than {MAX_SPLATS} bytes of such constants; use broadcast")


def _read_tuple(cursor: ShapeCursor, shape: TupleShape) -> Literal:
    cursor.expect("(", "to begin a tuple")
    elements = []
    for number, element in enumerate(shape.elements):
        if number:
            cursor.expect(",", "between the elements of a tuple")
        elements.append(read_literal(cursor, element))
    cursor.expect(")", "to end a tuple")
    return Literal(shape, elements=elements)


def _read_elements(cursor: ShapeCursor, shape: Shape) -> tuple[list[str], tuple[int, int]]:
    """Reads the texts of an array's elements, and the (start, end) of the literal. Checks the braces against
    the sizes.
    """
    start = cursor.skip()
    text = cursor.text
    rank, dims = shape.rank, shape.dims
    if not cursor.peek("{"):
        found = _TOKEN.match(text, start)
        if found is None or found[0] == "}":
            cursor.fail(f"expected a value of {show(shape)}, found {cursor.saw()}")
        if not shape.size:
            cursor.fail(f"expected no value of {show(shape)}, found {cursor.saw()}")
        _bound_bytes(cursor, shape, "with one value for all elements")
        cursor.pos = found.end()
        return [found[0]], (start, found.end())
    counts: list[int] = []
    values: list[str] = []
    pos = start
    match_token = _TOKEN.match
    while True:
        pos = _GAP(text, pos).end()
        found = match_token(text, pos)
        if found is None:
            cursor.fail("the literal does not end", start)
        token = found[0]
        if token == "{":
            if counts:
                counts[-1] += 1
            counts.append(0)
            if len(counts) > rank:
                message = f"a literal of {show(shape)} has {rank} levels of braces, found more"
                cursor.fail(message, pos)
        elif token == "}":
            depth = len(counts)
            # An array without elements may be written {} whatever its sizes are.
            if counts[-1] != dims[depth - 1] and (counts[-1] or shape.size):
                wanted = f"{dims[depth - 1]} elements at level {depth} of {show(shape)}"
                cursor.fail(f"expected {wanted}, found {counts[-1]}", pos)
            counts.pop()
            if not counts:
                break
        else:
            if len(counts) != rank:
                levels = f"{rank} levels of braces, found {len(counts)}"
                cursor.fail(f"a literal of {show(shape)} has {levels}", pos)
            counts[-1] += 1
            values.append(token)
        pos = found.end()
    cursor.pos = found.end()
    return values, (start, cursor.pos)


def _array(cursor: ShapeCursor, dtype: DType, texts: Sequence[str], place: tuple[int, int]) -> np.ndarray:
    try:
        if dtype.is_pred:
            return np.array([_truth(t) for t in texts], np.bool_)
        if dtype.is_integer:
            return _integers(dtype, texts)
        if dtype.is_complex:
            return _complexes(dtype, texts, cursor.exact)
        return _floats(dtype, texts)
    except _BadElement as bad:
        _fail_at(cursor, bad, place)


class _BadElement(Exception):
    def __init__(self, text: str, why: str) -> None:
        super().__init__()
        self.text, self.why = text, why


def _fail_at(cursor: ShapeCursor, bad: _BadElement, place: tuple[int, int]) -> NoReturn:
    at = place[0]
    while (pos := _GAP(cursor.text, at).end()) < place[1]:
        found = _TOKEN.match(cursor.text, pos)
        if found is None or found[0] == bad.text:
            break
        at = found.end()
    cursor.fail(f"{bad.text[:60]!r} {bad.why}", pos)


def _truth(text: str) -> bool:
    if text in ("true", "false"):
        return text == "true"
    if not _INT.fullmatch(text):
        raise _BadElement(text, "is not a value of pred: true or false is expected")
    return text.strip("-0") != ""


def integer_limits(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest integer of a type."""
    if dtype.is_signed:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


def _integers(dtype: DType, texts: Sequence[str]) -> np.ndarray:
    for t in texts:
        if not _INT.fullmatch(t) or len(t) > 40:
            raise _BadElement(t, f"is not an integer, but the literal is of {dtype}")
    values = list(map(int, texts))
    low, high = integer_limits(dtype)
    if values and not (low <= min(values) and max(values) <= high):
        bad = next(n for n, v in enumerate(values) if not low <= v <= high)
        raise _BadElement(texts[bad], f"is out of the range of {dtype}, {low} to {high}")
    wide = np.array(values, np.uint64 if dtype.is_unsigned else np.int64)
    return wide.astype(dtype.numpy)


def _floats(dtype: DType, texts: Sequence[str]) -> np.ndarray:
    values = np.empty(len(texts), np.float64)
    finite = np.ones(len(texts), np.bool_)
    nans: list[tuple[int, re.Match[str]]] = []
    number = _NUMBER.fullmatch
    for n, t in enumerate(texts):
        if number(t):
            values[n] = float(t)
            continue
        finite[n] = False
        if t in ("inf", "-inf"):
            values[n] = float(t)
        elif (found := _NAN.fullmatch(t)) is not None:
            values[n] = float("nan")
            nans.append((n, found))
        else:
            raise _BadElement(t, f"is not a number, but the literal is of {dtype}")
    with np.errstate(all="ignore"):
        array = values.astype(dtype.numpy)
        if dtype is F8E8M0FNU:  # ml_dtypes rounds values just above the smallest one up
            array.view(np.uint8)[(values >= 2.0**-128) & (values < 1.5 * 2.0**-127)] = 0
        bad = np.flatnonzero(finite & ~np.isfinite(array.astype(np.float64)))
    if bad.size:
        limit = float(dtype.finfo.max)
        raise _BadElement(texts[int(bad[0])], f"is out of the range of {dtype}, {-limit:g} to {limit:g}")
    if nans:
        _set_nans(dtype, array, nans, texts)
    return array


def _set_nans(
    dtype: DType, array: np.ndarray, nans: list[tuple[int, re.Match[str]]], texts: Sequence[str]
) -> None:
    """Writes the signs and payloads of the NaNs into the bits of an array. `nans` has the index of each NaN
    in `texts`, the texts of the elements, and the match of its text.
    """
    mantissa = PAYLOAD_BITS.get(dtype.name)
    bits = array.view(f"u{array.dtype.itemsize}")
    for n, found in nans:
        if mantissa is None:
            if found[2] is not None:
                raise _BadElement(texts[n], f"has a payload, which NaNs of {dtype} cannot carry")
            has_sign = not dtype.name.endswith("uz") and dtype.name != "f8e8m0fnu"
            if found[1] and has_sign and dtype.finfo.bits == 8:
                bits[n] |= 1 << (dtype.bits - 1)
            continue
        payload = 1 << (mantissa - 1) if found[2] is None else int(found[2][:20], 16)
        if not 0 < payload < 1 << mantissa:
            raise _BadElement(
                texts[n], f"has a payload that the {mantissa} mantissa bits of {dtype} do not hold"
            )
        exponent = ((1 << (dtype.bits - 1 - mantissa)) - 1) << mantissa
        bits[n] = payload | exponent | ((1 << (dtype.bits - 1)) if found[1] else 0)


_PART = r"((?:[^\s,()]++|\([^()]*+\))++)"
_PAIR = ascii_regex(rf"\(\s*+{_PART}\s*+,\s*+{_PART}\s*+\)")


def _complexes(dtype: DType, texts: Sequence[str], exact: bool) -> np.ndarray:
    parts: list[str] = []
    for t in texts:
        found = _PAIR.fullmatch(t)
        if found is None:
            raise _BadElement(t, f"is not a complex number (real, imaginary), but the literal is of {dtype}")
        parts += (found[1], found[2])
    try:
        flat = _floats(dtype.real, parts)
    except _BadElement as bad:
        whole = next(t for t in texts if bad.text in t)
        raise _BadElement(whole, f"has a part {bad.text[:40]} that {bad.why}") from None
    # XLA reads a number whose real part is NaN as NaN in both parts; so do we, to compute what it computes.
    if not exact:
        flat[1::2][np.isnan(flat[::2])] = np.nan
    return flat.view(dtype.numpy)
