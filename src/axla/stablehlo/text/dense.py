"""Parses the elements of `dense<...>`: lists of numbers, one number for all, or bytes in hexadecimal.

Whole lists are processed at once, not element by element in Python: a large constant takes about 100 ns per
element, in hexadecimal 5 ns.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from axla.core.dtypes import DType
from axla.core.regex import ascii_regex
from axla.stablehlo import mlir
from axla.stablehlo.text.lexer import STRING, unescape

_INTEGER = r"-?(?:0x[0-9a-fA-F]{1,32}+|\d{1,40}+)"
_FLOAT = r"-?(?:0x[0-9a-fA-F]{1,32}+|\d++\.\d*+(?:[eE][+-]?\d++)?+)"
_INTEGERS = ascii_regex(rf"\s*+{_INTEGER}\s*+(?:,\s*+{_INTEGER}\s*+)*+")
_FLOATS = ascii_regex(rf"\s*+{_FLOAT}\s*+(?:[,;]\s*+{_FLOAT}\s*+)*+")
_NEGATIVE_ZERO = re.compile(r"-(?:0x)?0++(?![0-9a-fA-Fx])")
_WORDS = {"true": "1", "false": "0"}
_PAIR = re.compile(r"\(([^(),]*),([^(),]*)\)")
_STRUCTURE = re.compile(r"[^\[\],]+")
_STRING = ascii_regex(STRING)


class BadElements(ValueError):
    """Elements of a dense attribute that do not fit its type."""


def decode(payload: str, element: mlir.Type, shape: tuple[int, ...]) -> np.ndarray:
    """Parses elements of a type from the text `payload`; returns an array of this shape, or of shape () for a
    splat.
    """
    kind = mlir.stored(element)
    if payload.startswith('"0x') and payload.endswith('"'):
        try:
            data = bytes.fromhex(payload[3:-1])
        except ValueError:
            raise BadElements("expected pairs of hexadecimal digits as elements") from None
        return from_bytes(data, kind, shape)
    if not payload and 0 not in shape:
        raise BadElements(f"no elements, wanted {math.prod(shape)}")
    if kind.is_complex:
        payload = _PAIR.sub(r"\1;\2", payload)
    _check_structure(payload, shape)
    splat = "[" not in payload
    flat = payload.replace("[", "").replace("]", "")
    if 0 in shape and not (splat and payload):  # a shape without elements may have a splat, too
        if flat.strip(", \t\r\n"):
            raise BadElements(f"the lists of elements must have shape {list(shape)}")
        return np.empty(shape, kind.numpy)
    if kind.is_complex:
        parts = _numbers(flat, kind.real)
        values = parts.view(kind.numpy)
        if flat.count(";") != len(values) or parts.size != 2 * flat.count(",") + 2:
            raise BadElements("complex elements must be pairs in parentheses")
    else:
        values = _numbers(flat, kind, element)
    if 0 in shape:
        return np.empty(shape, kind.numpy)
    return values.reshape(()) if splat else values.reshape(shape)


def _check_structure(payload: str, shape: tuple[int, ...]) -> None:
    """Checks, by brackets and commas alone, that the nesting of lists fits the shape."""
    found = _STRUCTURE.sub("", payload)
    if not found:
        return  # a splat
    expected = ""
    if 0 in shape[:-1]:  # lists cannot have such a shape
        shape = ()
    for size in reversed(shape):
        if (len(expected) + 1) * max(size, 1) > len(found) + 1:
            raise BadElements(f"the lists of elements must have shape {list(shape)}")
        expected = f"[{','.join([expected] * size)}]"
    if found != expected:
        raise BadElements(f"the lists of elements must have shape {list(shape)}")


def _numbers(flat: str, kind: DType, element: mlir.Type | None = None) -> np.ndarray:
    if kind.is_pred:
        words = [item.strip() for item in flat.split(",")]
        return integers(",".join([_WORDS.get(word, word) for word in words]), 1, "").astype(np.bool_)
    if kind.is_integer:
        sign = "s" if isinstance(element, mlir.IndexType) else getattr(element, "sign", "")
        return integers(flat, kind.bits, sign).astype(kind.numpy)
    if not _FLOATS.fullmatch(flat):
        raise BadElements("expected floating-point numbers as elements")
    items = re.split("[,;]", flat)
    if "x" not in flat:
        with np.errstate(all="ignore"):
            return np.array(list(map(float, items)), np.float64).astype(kind.numpy)
    # Hexadecimal numbers are the bits of the elements.
    return np.array([float_of(item.strip(), kind) for item in items], kind.numpy)


def integers(flat: str, bits: int, sign: str) -> np.ndarray:
    """Parses the integers in `flat`, separated by commas, for a type of `bits` bits; `sign` is as in
    IntegerType. In a signless type, positive numbers may use the sign bit: 255 : i8.
    """
    if not _INTEGERS.fullmatch(flat):
        wanted = "integers" if bits > 1 else "true or false"
        raise BadElements(f"expected {wanted} as elements")
    values = [int(item, 16 if "x" in item else 10) for item in flat.split(",")]
    low, high = mlir.limits(mlir.IntegerType(bits, sign))
    least, most = min(values), max(values)
    if least < low or most > high:
        kind = {"u": "an unsigned integer", "s": "a signed integer"}.get(sign, "an integer")
        raise BadElements(f"{least if least < low else most} is not {kind} of {bits} bits")
    if _NEGATIVE_ZERO.search(flat):
        raise BadElements("-0 is not an integer")
    if not sign and most >> bits - 1 > 0:
        values = [v - (1 << bits) if v >> bits - 1 > 0 else v for v in values]
    return np.array(values, f"{'u' if sign == 'u' else 'i'}{bits // 8 or 1}")


def float_of(token: str, kind: DType) -> Any:
    """The NumPy scalar for a decimal number, or for its bits in hexadecimal."""
    if "x" not in token:
        with np.errstate(all="ignore"):
            return np.float64(token).astype(kind.numpy)
    bits = int(token, 16)
    if not 0 <= bits < 1 << kind.bits:
        raise BadElements(f"{token} has more bits than {kind.name}")
    return np.frombuffer(bits.to_bytes(kind.itemsize, "little"), kind.numpy)[0]


def from_bytes(data: bytes, kind: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Makes an array from the bytes of all elements, or of one element for all. Booleans may be packed eight
    to a byte.
    """
    count = math.prod(shape)
    packed = kind.is_pred and len(data) != count and len(data) == -(-count // 8)
    if packed and data not in (b"\xff", b"\0"):
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=count, bitorder="little")
        return bits.view(np.bool_).reshape(shape)
    if len(data) not in (kind.itemsize, count * kind.itemsize):
        raise BadElements(f"{len(data)} bytes for {count} elements of {kind.itemsize} bytes")
    if kind.is_pred:
        values = np.frombuffer(data, np.uint8) != 0
    elif kind.bits >= 8:
        values = np.frombuffer(data, kind.numpy)
    elif kind.is_signed:
        unused = 8 - kind.bits
        values = (np.frombuffer(data, np.int8) << unused >> unused).astype(kind.numpy)
    else:
        low = np.frombuffer(data, np.uint8) & (1 << kind.bits) - 1
        values = low.astype(kind.numpy) if kind.is_unsigned else low.view(kind.numpy)
    return values.reshape(shape if len(values) == count else ())


def strings(payload: str, count: int) -> tuple[str, ...]:
    """Parses the strings of `dense<["a", "b"]>`, or the one string for all elements."""
    found = _STRING.findall(payload)
    rest = re.sub(r"[\s,\[\]]", "", _STRING.sub("", payload))
    if rest or len(found) not in (count, 1):
        raise BadElements(f"expected {count} strings as elements")
    return tuple(map(unescape, found))
