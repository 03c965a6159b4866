"""Parses the attributes of a typed custom call: an MLIR dictionary such as `{mode = 86 : ui8, names = ["a",
"b"]}`.
"""

from __future__ import annotations

import re
import struct
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from axla.core.cursor import TokenCursor, always
from axla.core.errors import ParseError
from axla.core.regex import regex

_TOKEN = regex(
    r"""\s*(?:
    (?P<hex>-?0x[0-9a-fA-F]+)
    | (?P<number>[-+]?[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<word>[A-Za-z_][\w.$-]*)
    | (?P<mark>[{}\[\]<>=,:@])
    | (?P<other>\S)
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_TYPES: dict[str, Any] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "index": np.int64,
    "si8": np.int8, "si16": np.int16, "si32": np.int32, "si64": np.int64,
    "ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32, "ui64": np.uint64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
_BITS = {"f16": "<H", "bf16": "<H", "f32": "<I", "f64": "<Q"}
_DEEPEST = 50  # the limit of nested dictionaries and lists
_ESCAPE = re.compile(rb'\\(?:([0-9a-fA-F]{2})|(["\\nt]))')


def parse_attributes(text: str) -> dict[str, Any]:
    """Converts the text of a dictionary to Python values: bool, str, NumPy scalars, arrays, lists and
    dicts.

    An empty text means an empty dictionary. Raises ParseError for a malformed text.
    """
    if not text.strip():
        return {}
    reader = _Reader(text)
    found = reader.dictionary(0)
    if reader.kind != "end":
        reader.fail("the end")
    return found


class _Reader(TokenCursor):
    next_token = always(_TOKEN)

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        found = repr(self.token) if self.token else "the end"
        text = self.text[:200]
        raise ParseError(
            f"backend_config: expected {message}, found {found} before character {self.end}: {text}"
        )

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(repr(token))

    def dictionary(self, depth: int) -> dict[str, Any]:
        self.expect("{")
        found: dict[str, Any] = {}
        while not self.accept("}"):
            if found:
                self.expect(",")
            name = self.name("the name of an attribute")
            # A name without a value is a unit attribute.
            found[name] = self.value(depth + 1) if self.accept("=") else True
        return found

    def name(self, what: str) -> str:
        """Reads a word, or a string in quotes. `what` describes it in the message of an error."""
        if self.kind not in ("word", "string"):
            self.fail(what)
        quoted = self.kind == "string"
        token = self.advance()
        return _unquoted(token) if quoted else token

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            self.fail(f"at most {_DEEPEST} levels")
        if self.token == "{":
            return self.dictionary(depth)
        if self.accept("["):
            return self.listed(depth)
        if self.kind == "string":
            return self.name("a string")
        if self.accept("@"):
            return self.name("the name of a symbol")
        if self.kind == "word":
            word = self.advance()
            if word in ("true", "false"):
                return word == "true"
            if word == "unit":
                return True
            if word in ("array", "dense"):
                return self.array(word, depth)
            self.fail(f"a value, not {word!r}, before")
        if self.kind in ("number", "hex"):
            return self.number()
        self.fail("a value")

    def listed(self, depth: int) -> list[Any]:
        found: list[Any] = []
        while not self.accept("]"):
            if found:
                self.expect(",")
            found.append(self.value(depth + 1))
        return found

    def number(self) -> Any:
        is_hex = self.kind == "hex"
        text = self.advance()
        type_ = ""
        if self.accept(":"):
            type_ = self.advance()
        elif not is_hex:
            type_ = "f64" if "." in text else "i64"
        return self.convert(text, type_)

    def convert(self, text: str, type_: str) -> Any:
        if type_ not in _TYPES:
            self.fail(f"one of the types {', '.join(_TYPES)}, not {type_!r}, before")
        dtype = _TYPES[type_]
        is_hex = "0x" in text
        try:
            if is_hex and type_ in _BITS:
                return np.frombuffer(struct.pack(_BITS[type_], int(text, 16)), dtype)[0]
            if np.dtype(dtype).kind in "iub":
                return dtype(int(text, 16 if is_hex else 10))
            return dtype(float(text))
        except (ValueError, OverflowError, struct.error):
            self.fail(f"a number of type {type_}, not {text}, before")

    def array(self, word: str, depth: int) -> np.ndarray:
        """Reads an array such as `array<i64: 1, 2>` or `dense<[1, 2]> : tensor<2xi64>`. Its first word,
        `word`, was already read.
        """
        self.expect("<")
        if word == "array":
            type_ = self.advance()
            found: list[Any] = []
            if self.accept(":"):
                while self.kind in ("number", "hex", "word"):
                    text = self.advance()
                    text = str(int(text == "true")) if text in ("true", "false") else text
                    found.append(self.convert(text, type_))
                    if not self.accept(","):
                        break
            self.expect(">")
            if type_ not in _TYPES:
                self.fail(f"a type of numbers, not {type_!r}, before")
            return np.array(found, _TYPES[type_])
        value = self.value(depth + 1)
        for mark in (">", ":", "tensor", "<"):
            self.expect(mark)
        # `2x3xi64` consists of the tokens `2` and `x3xi64`.
        shape = ""
        while self.token not in (">", ""):
            shape += self.advance()
        self.expect(">")
        *sizes, type_ = shape.split("x")
        if type_ not in _TYPES or not all(size.isdigit() for size in sizes):
            self.fail(f"a tensor type, not {shape!r}, before")
        dims = tuple(map(int, sizes))
        try:
            return np.broadcast_to(np.array(value, _TYPES[type_]), dims)  # a view: uses no memory
        except (ValueError, TypeError, OverflowError):
            self.fail(f"elements for tensor<{shape}> before")


def _unquoted(text: str) -> str:
    """Removes the quotes and escapes of an MLIR string. Bytes that are not UTF-8 become surrogates."""

    def one(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return bytes([int(match[1], 16)])
        return {b"n": b"\n", b"t": b"\t"}.get(match[2], match[2])

    return _ESCAPE.sub(one, text[1:-1].encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
