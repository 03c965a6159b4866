"""Elements of `dense<...>`: lists of numbers, one for all, or the bytes in hexadecimal.

Everything is done by the list, none of it element by element in Python code: a large constant takes about
100 ns an element, in hexadecimal 5 ns.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from axla.ir.strings import pattern
from axla.stablehlo import mlir
from axla.stablehlo.mlir import numpy_type
from axla.stablehlo.text.lexer import STRING, unescape

_INTEGER = r"-?(?:0x[0-9a-fA-F]{1,32}+|\d{1,40}+)"
_FLOAT = r"-?(?:0x[0-9a-fA-F]{1,32}+|\d++\.\d*+(?:[eE][+-]?\d++)?+)"
_INTEGERS = pattern(rf"\s*+{_INTEGER}\s*+(?:,\s*+{_INTEGER}\s*+)*+")
_FLOATS = pattern(rf"\s*+{_FLOAT}\s*+(?:[,;]\s*+{_FLOAT}\s*+)*+")
_NEGATIVE_ZERO = re.compile(r"-(?:0x)?0++(?![0-9a-fA-Fx])")
_WORDS = {"true": "1", "false": "0"}
_PAIR = re.compile(r"\(([^(),]*),([^(),]*)\)")
_STRUCTURE = re.compile(r"[^\[\],]+")
_STRING = pattern(STRING)


class BadElements(ValueError):
    """Elements that do not fit their type."""


def decode(payload: str, element: mlir.Type, shape: tuple[int, ...]) -> np.ndarray:
    """Elements of a type: an array of that shape, or of shape () when one stands for all of more (or fewer)
    than one.
    """
    wanted = numpy_type(element)
    if payload.startswith('"0x') and payload.endswith('"'):
        try:
            data = bytes.fromhex(payload[3:-1])
        except ValueError:
            raise BadElements("expected pairs of hexadecimal digits as elements") from None
        return from_bytes(data, wanted, shape)
    if not payload and 0 not in shape:
        raise BadElements(f"no elements for {math.prod(shape)}")
    is_complex = wanted.kind == "c"
    if is_complex:
        payload = _PAIR.sub(r"\1;\2", payload)
    _check_structure(payload, shape)
    splat = "[" not in payload
    flat = payload.replace("[", "").replace("]", "")
    if 0 in shape and not (splat and payload):  # one for all may be said of none, too
        if flat.strip(", \t\r\n"):
            raise BadElements(f"elements whose lists are not of shape {list(shape)}")
        return np.empty(shape, wanted)
    if is_complex:
        parts = _numbers(flat, np.dtype(wanted.type(0).real.dtype))
        values = parts.view(wanted)
        if flat.count(";") != len(values) or parts.size != 2 * flat.count(",") + 2:
            raise BadElements("complex elements are pairs in parentheses")
    else:
        values = _numbers(flat, wanted, element)
    if 0 in shape:
        return np.empty(shape, wanted)
    return values.reshape(()) if splat else values.reshape(shape)


def _check_structure(payload: str, shape: tuple[int, ...]) -> None:
    """That the lists nest as the shape says, by their brackets and commas alone."""
    found = _STRUCTURE.sub("", payload)
    if not found:
        return  # one element for all
    expected = ""
    if 0 in shape[:-1]:  # no list is of such a shape
        shape = ()
    for size in reversed(shape):
        if (len(expected) + 1) * max(size, 1) > len(found) + 1:
            raise BadElements(f"elements whose lists are not of shape {list(shape)}")
        expected = f"[{','.join([expected] * size)}]"
    if found != expected:
        raise BadElements(f"elements whose lists are not of shape {list(shape)}")


def _numbers(flat: str, wanted: np.dtype, element: mlir.Type | None = None) -> np.ndarray:
    if wanted == np.bool_:
        words = [item.strip() for item in flat.split(",")]
        return integers(",".join([_WORDS.get(word, word) for word in words]), 1, "").astype(np.bool_)
    if wanted.name.startswith(("int", "uint")):
        bits = int(re.sub(r"\D", "", wanted.name))
        sign = "s" if isinstance(element, mlir.IndexType) else getattr(element, "sign", "")
        return integers(flat, bits, sign).astype(wanted)
    if not _FLOATS.fullmatch(flat):
        raise BadElements("expected floating-point numbers as elements")
    items = re.split("[,;]", flat)
    if "x" not in flat:
        with np.errstate(all="ignore"):
            return np.array(list(map(float, items)), np.float64).astype(wanted)
    # Hexadecimal numbers are the bits.
    return np.array([float_of(item.strip(), wanted) for item in items], wanted)


def integers(flat: str, bits: int, sign: str) -> np.ndarray:
    """Integers of so many bits. Where a type has no sign, positive ones may use the sign bit: 255 : i8."""
    if not _INTEGERS.fullmatch(flat):
        raise BadElements(
            "expected integers as elements" if bits > 1 else "expected true or false as elements"
        )
    values = [int(item, 16 if "x" in item else 10) for item in flat.split(",")]
    low, high = mlir.limits(mlir.IntegerType(bits, sign))
    least, most = min(values), max(values)
    if least < low or most > high:
        kind = {"u": "an unsigned integer", "s": "a signed integer"}.get(sign, "an integer")
        raise BadElements(f"{least if least < low else most} is not {kind} of {bits} bits")
    if _NEGATIVE_ZERO.search(flat):
        raise BadElements("-0 is no integer")
    if not sign and most >> bits - 1 > 0:
        values = [v - (1 << bits) if v >> bits - 1 > 0 else v for v in values]
    return np.array(values, f"{'u' if sign == 'u' else 'i'}{bits // 8 or 1}")


def float_of(token: str, wanted: np.dtype) -> Any:
    """The NumPy scalar of a decimal number, or of the bits in hexadecimal."""
    if "x" not in token:
        with np.errstate(all="ignore"):
            return np.float64(token).astype(wanted)
    bits = int(token, 16)
    narrow = re.match(r"float([46])_", wanted.name)
    if bits < 0 or bits >= 1 << (int(narrow[1]) if narrow else 8 * wanted.itemsize):
        raise BadElements(f"{token} has more bits than {wanted.name}")
    return np.frombuffer(bits.to_bytes(wanted.itemsize, "little"), wanted)[0]


def from_bytes(data: bytes, wanted: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Elements by their bytes in memory: all, or one for all. Booleans may stand eight in a byte."""
    count = math.prod(shape)
    if (
        wanted == np.bool_
        and len(data) != count
        and len(data) == -(-count // 8)
        and data not in (b"\xff", b"\0")
    ):
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=count, bitorder="little")
        return bits.view(np.bool_).reshape(shape)
    if len(data) not in (wanted.itemsize, count * wanted.itemsize):
        raise BadElements(f"{len(data)} bytes for {count} elements of {wanted.itemsize}")
    narrow = re.fullmatch(r"(u?int|float)([1-6])(?:_\w+)?", wanted.name)
    if wanted == np.bool_:
        values = np.frombuffer(data, np.uint8) != 0
    elif narrow is None:
        values = np.frombuffer(data, wanted)
    elif narrow[1] == "int":
        unused = 8 - int(narrow[2])
        values = (np.frombuffer(data, np.int8) << unused >> unused).astype(wanted)
    else:
        low = np.frombuffer(data, np.uint8) & (1 << int(narrow[2])) - 1
        values = low.astype(wanted) if narrow[1] == "uint" else low.view(wanted)
    return values.reshape(shape if len(values) == count else ())


def strings(payload: str, count: int) -> tuple[str, ...]:
    """The strings of `dense<["a", "b"]>`, or the one for all."""
    found = _STRING.findall(payload)
    rest = re.sub(r"[\s,\[\]]", "", _STRING.sub("", payload))
    if rest or len(found) not in (count, 1):
        raise BadElements(f"expected {count} strings as elements")
    return tuple(map(unescape, found))
