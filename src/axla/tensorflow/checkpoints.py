"""Checkpoints: the values of tensors by name, read from files on demand.

A checkpoint of version 2 (a bundle) is an index with an entry for each tensor (`P.index`), and files with the
bytes of the tensors (`P.data-00000-of-00001` ...). One of version 1 consists of tables that contain the
values themselves (`P`, or `P-00000-of-00001` ...). Tensors that were saved in slices are joined.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path

import numpy as np

from axla.core.errors import InvalidArgument, ParseError, UnsupportedError
from axla.proto.wire import UNKNOWN, unknown_fields
from axla.tensorflow import tables
from axla.tensorflow.checksums import masked_crc32c
from axla.tensorflow.messages import decode
from axla.tensorflow.types import Proto, dtype_of, known_dims, tensor_of

_MOST_SHARDS = 99_999
_MOST_REPEATED = 1 << 20
_BIG_ENDIAN = 1
_PART = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
_CHECKSUM = 6
"""The number of the field of a BundleEntryProto that has the checksum; the field is a fixed32."""


def inside(folder: Path, name: str) -> Path:
    """The path of a file inside a folder; InvalidArgument for a path that leads out of the folder by links or
    `..`.
    """
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InvalidArgument(f"{path} leads out of the folder {folder}, so it is not read")
    return path


def checkpoint_at(prefix: Path, folder: Path | None = None) -> Mapping[str, np.ndarray]:
    """The tensors of the checkpoint with this path prefix, whose files must be in `folder`, by default the
    folder of the prefix. Raises InvalidArgument if there are no such files.
    """
    if part := _PART.search(prefix.name):
        raise InvalidArgument(
            f"{prefix} is one file of a checkpoint: give its prefix, {prefix.name[: part.start()]}"
        )
    folder = prefix.parent if folder is None else folder
    relative = str(prefix.relative_to(folder))
    if inside(folder, relative + ".index").is_file():
        return Bundle(folder, relative)
    shards = re.compile(re.escape(prefix.name) + r"-\d{5}-of-\d{5}$")
    paths = [prefix] if prefix.is_file() else [p for p in prefix.parent.glob("*") if shards.match(p.name)]
    if not paths:
        raise InvalidArgument(f"there is no checkpoint {prefix}: {prefix.name}.index is missing")
    return Tables([inside(folder, str(path.relative_to(folder))) for path in sorted(paths)])


def mapped(path: Path) -> memoryview:
    """The bytes of a file, memory-mapped."""
    try:
        with path.open("rb") as file:
            if not path.stat().st_size:
                return memoryview(file.read())
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"{path}: {getattr(error, 'strerror', None) or error}") from None


class Bundle(Mapping[str, np.ndarray]):
    """The tensors of a checkpoint of version 2, by name."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self.folder, self.prefix = folder, prefix
        self.what = f"{folder / prefix}.index"
        index = mapped(inside(folder, prefix + ".index"))
        found = dict(tables.entries(index, self.what))
        header = decode(found.pop(b"", b""), "BundleHeaderProto")
        self.swaps = header.get("endianness", 0) == _BIG_ENDIAN
        self.shards = header.get("num_shards", 0)
        if not 0 < self.shards <= _MOST_SHARDS:
            raise ParseError(f"{self.what}: it names {self.shards} data files, wanted 1 to {_MOST_SHARDS}")
        self._files: dict[int, memoryview] = {}
        self._entries = found
        self._names = [key.decode("utf-8", "surrogateescape") for key in found if key[0]]
        """The names of whole tensors. (The keys of slices begin with a zero byte.)"""

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._tensor(name.encode("utf-8", "surrogateescape"), f"{self.what}: tensor '{name}'")

    def _tensor(self, key: bytes, what: str) -> np.ndarray:
        entry = decode(self._entries[key], "BundleEntryProto")
        dims = known_dims(entry.get("shape", {}), what)
        if "slices" in entry:
            return self._joined(key, entry, dims, what)
        data = self._data(entry, what)
        type_ = entry.get("dtype", "DT_INVALID")
        if type_ == "DT_STRING":
            return _strings(data, dims, _checksum(entry), what)
        dtype = dtype_of(type_, what)
        if len(data) != prod(dims) * dtype.itemsize:
            raise ParseError(f"{what}: {len(data)} bytes do not fit {list(dims)} elements of {type_}")
        if masked_crc32c(data) != _checksum(entry):
            raise ParseError(f"{what}: the checksum of its values is wrong")
        values = np.frombuffer(data, np.uint8)
        if self.swaps:
            width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
            values = values.view(f"u{width}").byteswap().view(np.uint8)
            values.flags.writeable = False
        return values.view(dtype.numpy).reshape(dims)

    def _data(self, entry: Proto, what: str) -> memoryview:
        shard, begin, size = (entry.get(field, 0) for field in ("shard_id", "offset", "size"))
        if not 0 <= shard < self.shards or min(begin, size) < 0:
            raise ParseError(f"{what}: wrong entry: file {shard} of {self.shards}, {size} bytes at {begin}")
        if shard not in self._files:
            name = f"{self.prefix}.data-{shard:05d}-of-{self.shards:05d}"
            self._files[shard] = mapped(inside(self.folder, name))
        file = self._files[shard]
        if begin + size > len(file):
            raise ParseError(f"{what}: it ends at byte {begin + size}, but its file has {len(file)} bytes")
        return file[begin : begin + size]

    def _joined(self, key: bytes, entry: Proto, dims: tuple[int, ...], what: str) -> np.ndarray:
        """A whole tensor of the shape `dims`, joined from the slices that `entry` lists. Each slice has a key
        of its own in the index; `key` is that of the tensor. Error messages begin with `what`.
        """
        parts = []
        for extents in entry["slices"]:
            box = _box(extents, dims, what)
            part = _slice_key(key, extents)
            if part not in self._entries or "slices" in decode(self._entries[part], "BundleEntryProto"):
                raise ParseError(f"{what}: its slice {_shown(box)} is missing")
            values = self._tensor(part, what)
            if values.shape != tuple(along.stop - along.start for along in box):
                raise ParseError(f"{what}: its slice {_shown(box)} has values of shape {list(values.shape)}")
            parts.append((box, values))
        return _whole(parts, dims, what)


def _checksum(entry: Proto) -> int:
    fields = unknown_fields(bytes(entry.get(UNKNOWN, b"")))
    found = [value for number, _, value in fields if number == _CHECKSUM and isinstance(value, bytes)]
    return int.from_bytes(found[-1], "little") if found else 0


def _strings(data: memoryview, dims: tuple[int, ...], checksum: int, what: str) -> np.ndarray:
    """Decodes a tensor of strings. `data` has the lengths of the strings, a checksum of the lengths, and the
    bytes of the strings; `checksum` is the one in the tensor's entry. Error messages begin with `what`.
    """
    count, raw, at = prod(dims), bytes(data), 0
    if count > len(raw):
        raise ParseError(f"{what}: {len(raw)} bytes are too few for {count} strings")
    sizes = []
    for _ in range(count):
        size, at = tables.number(raw, at, what)
        sizes.append(size)
    if at + 4 + sum(sizes) != len(raw):
        raise ParseError(f"{what}: found {len(raw)} bytes, its strings need {at + 4 + sum(sizes)}")
    plain = b"".join(size.to_bytes(4 if size < 1 << 32 else 8, "little") for size in sizes)
    if masked_crc32c(plain + raw[at:]) != checksum:
        raise ParseError(f"{what}: the checksum of its strings is wrong")
    at += 4
    found = np.empty(count, object)
    for place, size in enumerate(sizes):
        found[place] = raw[at : at + size]
        at += size
    return found.reshape(dims)


# Slices of tensors.

Box = tuple[slice, ...]


def _box(extents: Proto, dims: tuple[int, ...], what: str) -> Box:
    """The slice of a tensor of the shape `dims` that a TensorSliceProto describes; an extent without a length
    is the whole dimension. Error messages begin with `what`.
    """
    listed = extents.get("extent", [])
    if len(listed) != len(dims):
        raise ParseError(f"{what}: a slice has {len(listed)} dimensions, the tensor has {len(dims)}")
    box = []
    for extent, size in zip(listed, dims, strict=True):
        begin = extent.get("start", 0)
        length = extent.get("length", size)
        if not 0 <= begin <= begin + length <= size:
            raise ParseError(f"{what}: the slice [{begin}:{begin + length}] exceeds a dimension of {size}")
        box.append(slice(begin, begin + length))
    return tuple(box)


def _shown(box: Box) -> str:
    return ":".join(f"{part.start},{part.stop - part.start}" for part in box)


def _whole(parts: list[tuple[Box, np.ndarray]], dims: tuple[int, ...], what: str) -> np.ndarray:
    """Joins a tensor of the shape `dims` from `parts`, pairs of a slice and its elements. Raises ParseError,
    which begins with `what`, unless the slices have as many elements together as the tensor.
    """
    if not parts or sum(part.size for _, part in parts) != prod(dims):
        count = sum(part.size for _, part in parts)
        raise ParseError(f"{what}: its slices have {count} elements together, the tensor has {prod(dims)}")
    if len(parts) == 1:
        return parts[0][1]
    if any(not any(part.strides) and part.size > _MOST_REPEATED for _, part in parts):
        raise UnsupportedError(f"{what}: a slice of more than {_MOST_REPEATED} elements has only one value")
    if len({part.dtype for _, part in parts}) > 1:
        raise ParseError(f"{what}: its slices have different element types")
    found = np.zeros(dims, parts[0][1].dtype)
    for box, part in parts:
        found[box] = part
    found.flags.writeable = False
    return found


_ESCAPES = {0: b"\0\xff", 255: b"\xff\0"}
_ALL = b"\x7f"  # encodes the length -1, which means the whole dimension


def _slice_key(name: bytes, extents: Proto) -> bytes:
    """The key of a slice in an index: a zero byte, the name of the tensor, the number of dimensions, and the
    begin and length in each dimension, encoded so that keys sort by these values.
    """
    listed = extents.get("extent", [])
    escaped = b"".join(_ESCAPES.get(byte, bytes([byte])) for byte in name)
    rank = bytes([1, len(listed)] if listed else [0])  # (the count of bytes, then these bytes)
    key = b"\0" + escaped + b"\0\1" + rank
    for extent in listed:
        key += _signed(extent.get("start", 0))
        key += _signed(extent["length"]) if "length" in extent else _ALL
    return key


def _signed(value: int) -> bytes:
    """Encodes a non-negative number so that bytes sort by value: the count of leading one bits is the count
    of bytes.
    """
    width = value.bit_length() // 7 + 1
    ones = (1 << width) - 1
    return (value | ones << 7 * width).to_bytes(width, "big")


# Checkpoints of version 1.


class Tables(Mapping[str, np.ndarray]):
    """The tensors of a checkpoint of version 1, by name."""

    def __init__(self, paths: list[Path]) -> None:
        self._about: dict[str, tuple[tuple[int, ...], str]] = {}
        self._parts: dict[str, list[Proto]] = {}
        for path in paths:
            self._read(path)

    def _read(self, path: Path) -> None:
        for key, value in tables.entries(mapped(path), str(path)):
            message = decode(value, "SavedTensorSlices")
            if key:
                part = message.get("data", {})
                self._parts.setdefault(part.get("name", ""), []).append(part)
                continue
            for about in message.get("meta", {}).get("tensor", ()):
                name = about.get("name", "")
                dims = known_dims(about.get("shape", {}), f"{path}: tensor '{name}'")
                self._about[name] = dims, about.get("type", "DT_INVALID")

    def __len__(self) -> int:
        return len(self._about)

    def __iter__(self) -> Iterator[str]:
        return iter(self._about)

    def __getitem__(self, name: str) -> np.ndarray:
        dims, type_ = self._about[name]
        what, parts = f"tensor '{name}' of the checkpoint", []
        for part in self._parts.get(name, ()):
            box = _box(part.get("slice", {}), dims, what)
            sizes = [{"size": along.stop - along.start} for along in box]
            said = {"dtype": type_, "tensor_shape": {"dim": sizes}}
            parts.append((box, tensor_of({**part.get("data", {}), **said}, what)))
        if parts and sum(part.size for _, part in parts) > prod(dims):
            raise UnsupportedError(f"{what}: its slices overlap")
        return _whole(parts, dims, what)
