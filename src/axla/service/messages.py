"""Encodes and decodes the messages of the service, which messages.txt declares; converts errors and nested
values to messages and back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from axla.core import dtypes, status
from axla.core.errors import (
    AxlaError,
    InternalError,
    InvalidArgument,
    OutOfMemory,
    ParseError,
    RuntimeFailure,
)
from axla.proto import schema, wire

VERSION = 1
TABLES, _ = schema.read(Path(__file__).with_name("messages.txt"))
KINDS = (
    "Hello", "Welcome", "Done", "Failed", "Compiled", "Executed", "Rows", "Compile", "Execute", "Parallel",
    "Put", "Get", "Text", "Cancel", "Profile", "Steps", "Take", "Give", "Value", "Stop", "Piece", "Credit",
)  # fmt: skip
"""The kinds of messages; the index of a kind is its number in a header. Bodies of Piece and Credit are not
protocol buffers.
"""
NUMBERS = {name: number for number, name in enumerate(KINDS)}
PIECE, CREDIT = NUMBERS["Piece"], NUMBERS["Credit"]
Message = dict[str, Any]


def encode(kind: str, message: Message) -> bytes:
    """The bytes of a message of the kind `kind`."""
    return wire.encode(message, TABLES[kind])


def decode(kind: int, body: bytes) -> Message:
    """Decodes a message of the kind with number `kind`. ParseError for malformed bytes, InvalidArgument for
    an unknown kind.
    """
    if kind >= PIECE:
        raise InvalidArgument(f"service: found a message of kind {kind}, which is unknown or not valid here")
    return wire.decode(body, TABLES[KINDS[kind]])


def table(entries: Any) -> dict[str, str]:
    """Converts a map field of a message to a dict."""
    return {entry.get("key", ""): entry.get("value", "") for entry in entries}


def entries(values: Mapping[str, str]) -> list[Message]:
    """Converts a mapping to a map field of a message."""
    return [{"key": key, "value": value} for key, value in values.items()]


class Refused(InvalidArgument):
    """The error for a client that the server does not admit."""


def code_of(error: BaseException) -> status.Status:
    """The status code for an error that is sent to a client."""
    return status.Status.UNAUTHENTICATED if isinstance(error, Refused) else status.status_of(error)


def failed(error: BaseException, op: str = "") -> Message:
    """Converts an error to a message; `op` is its field of that name. Errors of other classes than AxlaError
    become InternalError or OutOfMemory.
    """
    kind = type(error) if isinstance(error, AxlaError) else InternalError
    kind = OutOfMemory if isinstance(error, MemoryError) else kind
    known = next((k for k in kind.__mro__ if k in status.STATUS), AxlaError)
    text = error.message if isinstance(error, AxlaError) else f"{type(error).__name__}: {error}"
    found: Message = {
        "code": int(code_of(error)), "class": known.__name__, "message": text, "op": op,
        "notes": [str(note) for note in getattr(error, "__notes__", ())],
    }  # fmt: skip
    if isinstance(error, RuntimeFailure):
        found["frame"] = [error.code, error.step, error.detail]
    if isinstance(error, ParseError):
        found |= {"line": error.line, "column": error.column, "excerpt": error.excerpt}
    return found


def error_of(message: Message) -> AxlaError:
    """Converts a message to the error in it, of its original class."""
    code = message.get("code", int(status.Status.UNKNOWN))
    error = status.error_named(message.get("class", ""), code, message.get("message", ""))
    if type(error) is RuntimeFailure and code == status.Status.UNAVAILABLE:
        error.code = status.DEVICE
    for note in message.get("notes", ()):
        error.add_note(note)
    if isinstance(error, RuntimeFailure) and len(frame := message.get("frame", ())) == 3:
        error.code, error.step, error.detail = frame
    if isinstance(error, ParseError):
        error.line, error.column = message.get("line", 0), message.get("column", 0)
        error.excerpt = message.get("excerpt", "")
    return error


def unavailable(text: str) -> RuntimeFailure:
    """Makes the error for a request whose server is gone. Its status is UNAVAILABLE."""
    return RuntimeFailure(text, status.DEVICE)


def tree_of(value: Any) -> Message:
    """Converts nested tuples of arrays to a message. None becomes an empty message."""
    if isinstance(value, tuple):
        return {"parts": [tree_of(part) for part in value], "is_tuple": True}
    if value is None:
        return {}
    array = np.asarray(value)
    name = dtypes.from_numpy(array.dtype).name
    return {"array": {"dtype": name, "dims": list(array.shape), "data": array.tobytes()}}


def value_of(tree: Message) -> Any:
    """Converts a message to the nested tuples of arrays in it; an empty message to None."""
    if tree.get("is_tuple"):
        return tuple(value_of(part) for part in tree.get("parts", ()))
    array = tree.get("array")
    if array is None:
        return None
    return array_of(array.get("data", b""), array.get("dtype", ""), array.get("dims", ())).copy()


def array_of(data: Any, dtype: str, dims: Any) -> np.ndarray:
    """Makes an array of the bytes `data`, with an HLO element type and sizes. InvalidArgument if the number
    of bytes does not fit them.
    """
    kind, dims = dtype_named(dtype), checked_dims(dims)
    with contextlib.suppress(ValueError):
        return np.frombuffer(data, kind).reshape(dims)
    raise InvalidArgument(f"service: {len(data)} bytes do not fit {dtype}{list(dims)}")


def dtype_named(name: str) -> np.dtype:
    """The NumPy type for the HLO name of an element type; InvalidArgument for an unknown name."""
    if name not in dtypes.BY_NAME:
        raise InvalidArgument(f"service: {name!r:.40} is not an element type")
    return dtypes.BY_NAME[name].numpy


def checked_dims(dims: Any) -> tuple[int, ...]:
    """Returns sizes of dimensions as a tuple; InvalidArgument unless an array can have them."""
    if len(dims) > 64 or any(d < 0 or d >= 1 << 48 for d in dims):
        raise InvalidArgument(
            f"service: dimensions {list(dims)[:70]}, wanted at most 64 sizes from 0 to 2^48 - 1"
        )
    return tuple(dims)
