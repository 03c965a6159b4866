"""Reads and writes arrays in safetensors files. A file is the length of the header (u64), the header in JSON,
and the data.

Everything in a header is checked before it is used. Element types that the format does not have (s4, c128,
small floats) are written as U8; elements of several bytes get one more dimension. The metadata entry
`axla.dtype.NAME` has the element type of such an array.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.dtypes import BY_NAME, DType, from_numpy
from axla.core.errors import InvalidArgument

ALIGNMENT = 64
"""The alignment in bytes of the data section in written files, and of the memory that files are read into."""

MOST_HEADER = 100_000_000
MOST_RANK = 64
_MOST_ELEMENTS = 1 << 62
KIND = "axla.dtype."

NAMES = {
    "pred": "BOOL", "u8": "U8", "s8": "I8", "s16": "I16", "u16": "U16", "f16": "F16", "bf16": "BF16",
    "s32": "I32", "u32": "U32", "f32": "F32", "f64": "F64", "s64": "I64", "u64": "U64", "f8e4m3fn": "F8_E4M3",
    "f8e5m2": "F8_E5M2", "f8e8m0fnu": "F8_E8M0", "c64": "C64",
}  # fmt: skip
"""HLO name of an element type -> safetensors name."""
_DTYPES = {text: BY_NAME[name] for name, text in NAMES.items()}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """An array in a file. Its bytes are [begin, end) of the data section."""

    dtype: DType
    dims: tuple[int, ...]
    begin: int
    end: int


def stored(dtype: DType, dims: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """Returns (safetensors type, sizes) with which an array is written to a file."""
    if dtype.name in NAMES:
        return NAMES[dtype.name], dims
    return "U8", (*dims, dtype.itemsize) if dtype.itemsize > 1 else dims


def header(entries: Mapping[str, TensorEntry], metadata: Mapping[str, str]) -> bytes:
    """The length and the header of a file, whose entries must be contiguous. It is padded so that the data
    section begins at a multiple of 64 bytes.
    """
    notes = dict(metadata)
    table: dict[str, Any] = {}
    for name, entry in entries.items():
        text, dims = stored(entry.dtype, entry.dims)
        if entry.dtype.name not in NAMES:
            notes[KIND + name] = entry.dtype.name
        table[name] = {"dtype": text, "shape": list(dims), "data_offsets": [entry.begin, entry.end]}
    whole = {"__metadata__": notes, **table} if notes else table
    data = json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
    data += b" " * (-(8 + len(data)) % ALIGNMENT)
    return struct.pack("<Q", len(data)) + data


def write_safetensors(
    path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes arrays by name. Those with the widest elements come first, so that every array is aligned to its
    elements.
    """
    with open(path, "wb") as file:
        file.writelines(parts_of(arrays, metadata))


def parts_of(
    arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> Iterator[bytes | memoryview]:
    """Yields the contents of a file with these arrays: the header, then the bytes of each array."""
    ready = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    entries: dict[str, TensorEntry] = {}
    at = 0
    for name in sorted(ready, key=lambda name: (-ready[name].dtype.itemsize, name)):
        try:
            dtype = from_numpy(ready[name].dtype)
        except TypeError as error:
            raise InvalidArgument(f"array {name!r}: {error}") from None
        dims = np.shape(arrays[name])
        entries[name] = TensorEntry(dtype, dims, at, at + ready[name].nbytes)
        at += ready[name].nbytes
    yield header(entries, metadata or {})
    for name in entries:
        yield ready[name].reshape(-1).view(np.uint8).data


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Reads the arrays of a file, by name and in the file's order. They are writable views of one memory
    block.

    Raises InvalidArgument, with the file's name, for a malformed file.
    """
    data, entries, _ = read_file(path)
    return {name: array_of(data, entry) for name, entry in entries.items()}


def array_of(data: np.ndarray, entry: TensorEntry) -> np.ndarray:
    """The array of an entry: a view of the data if it is aligned, else a copy."""
    raw = data[entry.begin : entry.end]
    if raw.ctypes.data % max(entry.dtype.numpy.alignment, 1):
        raw = raw.copy()
    return raw.view(entry.dtype.numpy).reshape(entry.dims)


def read_file(path: str | os.PathLike[str]) -> tuple[np.ndarray, dict[str, TensorEntry], dict[str, str]]:
    """Returns (data, entries, metadata) of a file. The data is aligned to 64 bytes. InvalidArgument for a
    malformed file.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(8)
            length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
            if not 2 <= length <= min(MOST_HEADER, size - 8):
                _refuse(path, f"found a header of {length} bytes in a file of {size} bytes")
            text = file.read(length)
            entries, metadata = parse_header(path, text, size - 8 - length)
            data = aligned(size - 8 - length)
            if file.readinto(data.data) != len(data):
                _refuse(path, "the file ends before its data does")
    except OSError as error:
        raise InvalidArgument(f"{Path(path)}: {error.strerror or error}") from error
    return data, entries, metadata


def aligned(size: int) -> np.ndarray:
    """Allocates `size` bytes of memory, aligned to 64 bytes."""
    buffer = np.empty(size + ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % ALIGNMENT
    return buffer[start : start + size]


def parse_header(path: object, text: bytes, size: int) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    """Returns (entries, metadata) of a header. `size` is the number of bytes in the data section.
    InvalidArgument, with `path`, for an invalid header.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name is used twice")
        return found

    def constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not a number of JSON")

    try:
        if text[:1] != b"{":
            raise ValueError("it does not begin with {")
        whole = json.loads(text.decode(), object_pairs_hook=unique, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"the header is not a JSON object: {error}")
    metadata = whole.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        _refuse(path, "__metadata__ is not an object of strings")
    entries = {name: _entry(path, name, row, metadata) for name, row in whole.items()}
    at = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != at:
            _refuse(path, f"{name!r} begins at {entry.begin}, wanted {at}: arrays follow each other")
        at = entry.end
    if at != size:
        _refuse(path, f"the arrays have {at} bytes, the file has {size} bytes of data")
    return entries, metadata


def _entry(path: object, name: str, row: object, metadata: Mapping[str, str]) -> TensorEntry:
    if not isinstance(row, dict) or row.keys() != {"dtype", "shape", "data_offsets"}:
        _refuse(path, f"{name!r}: wanted dtype, shape and data_offsets")
    text, dims, offsets = row["dtype"], row["shape"], row["data_offsets"]
    dtype = _DTYPES.get(text) if isinstance(text, str) else None
    if dtype is None:
        _refuse(path, f"{name!r}: dtype {text!r} is unknown; there are {', '.join(_DTYPES)}")
    if not _numbers(dims) or len(dims) > MOST_RANK:
        _refuse(path, f"{name!r}: shape {dims!r} is not a list of sizes")
    if not _numbers(offsets) or len(offsets) != 2:
        _refuse(path, f"{name!r}: data_offsets {offsets!r} are not two offsets")
    if metadata.get(KIND + name) is not None and text == "U8":
        dtype = BY_NAME.get(metadata[KIND + name])
        if dtype is None or (dtype.itemsize > 1 and dims[-1:] != [dtype.itemsize]):
            _refuse(path, f"{name!r}: metadata {metadata[KIND + name]!r} does not fit shape {dims}")
        dims = dims[:-1] if dtype.itemsize > 1 else dims
    count = prod(dims)
    if count > _MOST_ELEMENTS or offsets[1] - offsets[0] != count * dtype.itemsize:
        _refuse(path, f"{name!r}: offsets {offsets} do not fit {dtype}{dims}")
    return TensorEntry(dtype, tuple(dims), *offsets)


def _numbers(value: object) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < _MOST_ELEMENTS for n in value)


def _refuse(path: object, what: str) -> NoReturn:
    raise InvalidArgument(f"{path}: {what}")
