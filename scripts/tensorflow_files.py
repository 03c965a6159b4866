"""Writes files of TensorFlow, for tests and scripts/fuzz_tensorflow: string tables (SSTables) and
checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from axla.core.dtypes import from_numpy
from axla.proto.wire import UNKNOWN, number_bytes
from axla.tensorflow.checksums import masked_crc32c
from axla.tensorflow.messages import encode
from axla.tensorflow.tables import MAGIC
from axla.tensorflow.types import DTYPES

_NAMES = {dtype: name for name, dtype in reversed(DTYPES.items())}


def table(entries: Mapping[bytes, bytes], packed: bool = False, block_size: int = 4096) -> bytes:
    """The bytes of a string table. `packed`: its blocks are in the format of Snappy, but not compressed."""
    file, handles, block, last = bytearray(), {}, {}, b""
    for key, value in sorted(entries.items()):
        block[key], last = value, key
        if sum(map(len, block.values())) >= block_size:
            handles[last], block = _put(file, _block(block), packed), {}
    if block or not handles:
        handles[last] = _put(file, _block(block), packed)
    meta = _put(file, _block({}), packed)
    footer = meta + _put(file, _block(handles), packed)
    return bytes(file) + footer.ljust(40, b"\0") + MAGIC


def _put(file: bytearray, block: bytes, packed: bool) -> bytes:
    """Adds a block with its type and checksum; returns its handle."""
    if packed:
        pieces = [block[at : at + 60] for at in range(0, len(block), 60)]
        block = number_bytes(len(block)) + b"".join(bytes([len(p) - 1 << 2]) + p for p in pieces)
    handle = number_bytes(len(file)) + number_bytes(len(block))
    kind = bytes([packed])
    file += block + kind + masked_crc32c(block + kind).to_bytes(4, "little")
    return handle


def _block(entries: Mapping[bytes, bytes]) -> bytes:
    out, before = bytearray(), b""
    for key, value in entries.items():
        shared = next((n for n, (a, b) in enumerate(zip(key, before, strict=False)) if a != b), None)
        shared = min(len(key), len(before)) if shared is None else shared
        out += number_bytes(shared) + number_bytes(len(key) - shared) + number_bytes(len(value))
        out += key[shared:] + value
        before = key
    return bytes(out) + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")


def shape_message(dims: Sequence[int]) -> dict[str, Any]:
    return {"dim": [{"size": int(size)} for size in dims]}


def tensor_message(value: np.ndarray) -> dict[str, Any]:
    """The TensorProto of an array of numbers or strings."""
    said = {"tensor_shape": shape_message(value.shape)}
    if value.dtype == object:
        return {"dtype": "DT_STRING", "string_val": list(value.reshape(-1)), **said}
    name = _NAMES[from_numpy(value.dtype)]
    return {"dtype": name, "tensor_content": np.ascontiguousarray(value).tobytes(), **said}


def bundle_index(
    tensors: Mapping[str, np.ndarray], shards: int = 1, big_endian: bool = False
) -> tuple[dict[bytes, bytes], list[bytes]]:
    """The entries of the index of a checkpoint, and the contents of its data files."""
    header = {"num_shards": shards, "endianness": int(big_endian), "version": {"producer": 1}}
    entries = {b"": encode(header, "BundleHeaderProto")}
    files = [bytearray() for _ in range(shards)]
    for number, (name, value) in enumerate(sorted(tensors.items())):
        shard = number % shards
        data = (value.byteswap() if big_endian else value).tobytes()
        entry = {
            "dtype": _NAMES[from_numpy(value.dtype)], "shape": shape_message(value.shape), "shard_id": shard,
            "offset": len(files[shard]), "size": len(data), UNKNOWN: checksum_field(data),
        }  # fmt: skip
        files[shard] += data
        entries[name.encode()] = encode(entry, "BundleEntryProto")
    return entries, [bytes(file) for file in files]


def checksum_field(data: bytes) -> bytes:
    """The bytes of field 6 of an entry, the checksum, which has a fixed width."""
    return bytes([6 << 3 | 5]) + masked_crc32c(data).to_bytes(4, "little")


def write_bundle(prefix: Path, tensors: Mapping[str, np.ndarray], **options: Any) -> None:
    """Writes a checkpoint of version 2: `prefix.index` and `prefix.data-...`."""
    entries, files = bundle_index(tensors, **options)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    Path(f"{prefix}.index").write_bytes(table(entries))
    for number, file in enumerate(files):
        Path(f"{prefix}.data-{number:05d}-of-{len(files):05d}").write_bytes(file)
