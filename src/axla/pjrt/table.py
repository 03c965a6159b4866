"""The functions and structs of the PJRT C API, as listed in api.txt.

`FUNCTIONS` has the argument struct of each function, in the order of PJRT_Api; `STRUCTS` has the others. A
caller with another version may have smaller structs: `view` reads and writes only the fields that exist.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from axla.program.abi import CField, Struct

VERSION = (0, 112)
"""The version (major, minor) of the API that api.txt describes."""
_HEAD = "struct_size:u64 extension_start:ptr"


def _read() -> tuple[dict[str, Struct], dict[str, Struct]]:
    tables: dict[str, dict[str, Struct]] = {"functions": {}, "structs": {}}
    table = tables["functions"]
    for line in files("axla.pjrt").joinpath("api.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if line in tables:
            table = tables[line]
            continue
        name, *fields = line.split()
        if table is tables["functions"]:
            fields = [*_HEAD.split(), *fields]
        pairs = [field.split(":") for field in fields]
        table[name] = Struct(f"PJRT_{name}", "", *(CField(n, kind, "") for n, kind in pairs))
    return tables["functions"], tables["structs"]


FUNCTIONS, STRUCTS = _read()

API = Struct(
    "PJRT_Api",
    "The table of functions that a plugin gives.",
    *(CField(n, kind, "") for n, kind in [("struct_size", "u64"), ("extension_start", "ptr")]),
    *(CField(n, kind, "") for n, kind in [("version_size", "u64"), ("version_extension", "ptr")]),
    *(CField(n, "i32", "") for n in ("major_version", "minor_version")),
    *(CField(name, "ptr", "") for name in FUNCTIONS),
)

# Codes of extensions, and of types of named values.
LAYOUTS, FFI, SHARDINGS = 4, 5, 19
_STRING, _INT64, _INT64_LIST, _FLOAT = range(4)


@contextmanager
def view(struct: Struct, address: int) -> Iterator[Any]:
    """The struct at an address, for reading and writing. Fields that the caller's version lacks read as 0."""
    kind = struct.ctypes()
    size = c.c_uint64.from_address(address).value
    if size >= struct.size:
        yield kind.from_address(address)
        return
    copy = kind()
    c.memmove(c.addressof(copy), address, size)
    yield copy
    c.memmove(address, c.addressof(copy), size)


def clear(arguments: Any, first: str) -> None:
    """Sets a field and all later ones to 0, since the caller leaves them uninitialised."""
    kind = type(arguments)
    offset = getattr(kind, first).offset
    c.memset(c.addressof(arguments) + offset, 0, c.sizeof(kind) - offset)


def text_at(address: int | None, size: int) -> str:
    """The text of `size` bytes at an address."""
    return c.string_at(address, size).decode("utf-8", "replace") if address else ""


def integers(address: int | None, count: int, kind: Any = c.c_int64) -> list[int]:
    """The `count` numbers of the C type `kind` at an address."""
    return list((kind * count).from_address(address)) if address and count else []


def addresses(values: list[int]) -> Any:
    """An array of pointers, which the caller keeps alive."""
    return (c.c_void_p * max(len(values), 1))(*values)


class NamedValues:
    """A list of PJRT_NamedValues, which lives as long as this object."""

    def __init__(self, values: dict[str, Any]) -> None:
        kind = STRUCTS["NamedValue"].ctypes()
        self.count = len(values)
        self._rows = (kind * max(self.count, 1))()
        self._keep: list[Any] = []
        for row, (name, value) in zip(self._rows, values.items(), strict=False):
            row.struct_size, row.name, row.name_size = c.sizeof(kind), self._held(name.encode()), len(name)
            row.type, row.value, row.value_size = self._encoded(value)
        self.address = c.addressof(self._rows)

    def _held(self, data: bytes) -> int:
        self._keep.append(c.create_string_buffer(data))
        return c.addressof(self._keep[-1])

    def _encoded(self, value: Any) -> tuple[int, int, int]:
        if isinstance(value, str):
            return _STRING, self._held(value.encode()), len(value.encode())
        if isinstance(value, float):
            return _FLOAT, c.c_uint32.from_buffer_copy(c.c_float(value)).value, 1
        if isinstance(value, int):
            return _INT64, value & (1 << 64) - 1, 1
        numbers = (c.c_int64 * max(len(value), 1))(*value)
        self._keep.append(numbers)
        return _INT64_LIST, c.addressof(numbers), len(value)


def named_integers(address: int | None, count: int) -> dict[str, int]:
    """The values of `count` PJRT_NamedValues at an address, by name. All of them must be integers."""
    found: dict[str, int] = {}
    for _ in range(count if address else 0):
        with view(STRUCTS["NamedValue"], address or 0) as row:
            found[text_at(row.name, row.name_size)] = c.c_int64(row.value).value
            address = (address or 0) + row.struct_size
    return found
