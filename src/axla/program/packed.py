"""Compiled programs as bytes: machine code, and what is needed to call it. Pickle is not used.

The caller must make sure that the bytes are unchanged: `axla.core.cache` and `axla.runtime.serialized` store
a digest with them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.dtypes import BY_NAME, DType
from axla.core.errors import AxlaError, InvalidArgument
from axla.core.shape import OPAQUE, TOKEN, AnyShape, BufferShape, Layout, Shape, TupleShape
from axla.custom.site import CallSite, TableFunction
from axla.program.interface import Alias, Interface, RendezvousKey, ValueSpec


@dataclass(frozen=True, slots=True)
class Packed:
    """A compiled program: its object files, the interface to call it, and the constants segment."""

    images: tuple[bytes, ...]
    interface: Interface
    constants: bytes | memoryview


def byte_size(program: Packed) -> int:
    """The bytes of the program's code and constants."""
    return len(program.constants) + sum(map(len, program.images))


def encode(program: Packed) -> bytes:
    """The program as bytes: interface, constants and object files, after a table of their lengths.
    InvalidArgument if the tuples of the interface nest too deeply.
    """
    try:
        interface = json.dumps(program.interface, default=_plain, separators=(",", ":")).encode()
    except RecursionError:
        raise InvalidArgument(f"{program.interface.name}: its tuples nest too deeply for a file") from None
    parts = (interface, program.constants, *program.images)
    return struct.pack(f"<{len(parts) + 1}Q", len(parts), *map(len, parts)) + b"".join(parts)


def decode(data: bytes) -> Packed:
    """The program that `encode` wrote; ValueError for other bytes."""
    (count,) = struct.unpack_from("<Q", data.ljust(8, b"\0"))
    if not 2 <= count < len(data) // 8:
        raise ValueError(f"{count} is not a possible number of parts")
    sizes = struct.unpack_from(f"<{count}Q", data, 8)
    at = 8 * (count + 1)
    if at + sum(sizes) != len(data):
        raise ValueError(f"{len(data)} bytes, wanted {at + sum(sizes)}")
    parts = []
    for size in sizes:
        parts.append(data[at : at + size])
        at += size
    try:
        interface = json.loads(parts[0], object_hook=_made)
    except (RecursionError, AxlaError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the interface cannot be read: {error!r}") from error
    if not isinstance(interface, Interface):
        raise ValueError("the first part is not an interface")
    return Packed(tuple(parts[2:]), interface, parts[1])


_KINDS: dict[str, Callable[..., Any]] = {
    kind.__name__: kind
    for kind in (
        Interface, RendezvousKey, ValueSpec, Alias, TableFunction, CallSite, Layout, Shape, TupleShape,
        BufferShape,
    )
} | {"DType": BY_NAME.__getitem__, "TokenShape": lambda: TOKEN, "OpaqueShape": lambda: OPAQUE}  # fmt: skip


def _plain(value: Any) -> dict[str, Sequence[Any]]:
    """An object of an axla class as {class name: constructor arguments}."""
    if isinstance(value, DType):
        made: Sequence[Any] = (value.name,)
    elif isinstance(value, AnyShape):
        reduced = value.__reduce__()
        made = reduced[1] if isinstance(reduced, tuple) else ()
    else:
        made = [getattr(value, name) for name in value.__match_args__]
    return {type(value).__name__: made}


def _made(table: dict[str, list[Any]]) -> Any:
    ((kind, made),) = table.items()
    return _KINDS[kind](*_tuples(made))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
