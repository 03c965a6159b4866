"""Checkpoints: tables of strings, bundles of tensors, values in parts; damaged ones are refused."""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from axla import AxlaError, InvalidArgument, ParseError
from axla.tensorflow import tables
from axla.tensorflow.checkpoints import _slice_key, checkpoint_at
from axla.tensorflow.checksums import crc32c, masked_crc32c
from axla.tensorflow.messages import encode

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import tensorflow_files as files  # noqa: E402

TENSORS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "empty": np.zeros((0, 4), np.float64),
    "scalar": np.asarray(7, np.int64),
    "half": np.asarray([1.5, -2], ml_dtypes.bfloat16),
    "complex": np.asarray([1 + 2j], np.complex64),
    "flags": np.asarray([True, False]),
}


def same(found: np.ndarray, wanted: np.ndarray) -> bool:
    return found.dtype == wanted.dtype and found.shape == wanted.shape and bool((found == wanted).all())


@pytest.mark.parametrize(
    "data, wanted",
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
)
def test_checksums(data, wanted):
    assert crc32c(data) == wanted


def test_the_checksum_of_much_is_that_of_its_pieces(monkeypatch):
    data = np.random.default_rng(0).bytes(100_001)
    whole = crc32c(data)
    monkeypatch.setattr("axla.tensorflow.checksums._PIECE", 777)
    assert crc32c(data) == whole


@pytest.mark.parametrize("packed", [False, True])
def test_tables_of_several_blocks(packed):
    entries = {f"key/{n:03d}".encode(): bytes([n % 256]) * n for n in range(300)}
    data = files.table(entries, packed, block_size=1000)
    assert dict(tables.entries(memoryview(data), "t")) == entries


@pytest.mark.parametrize(
    "data, wanted",
    [
        (b"\x05\x10hello", b"hello"),
        (b"\x0a\x04ab\x11\x02", b"ababababab"[:10]),
        (b"\x08\x04ab\x16\x02\x00", b"abababab"),
        (b"\x08\x04ab\x17\x02\x00\x00\x00", b"abababab"),
        (b"\x42\xf0\x41" + b"x" * 66, b"x" * 66),
    ],
)
def test_snappy(data, wanted):
    assert tables.unpacked(data, "t") == wanted


@pytest.mark.parametrize(
    "data", [b"\x05\x10hell", b"\xff\xff\xff\x7f\x00a", b"\x04\x00a\x05\x09", b"\x02\x10hello"]
)
def test_snappy_that_is_damaged(data):
    with pytest.raises(ParseError):
        tables.unpacked(data, "t")


@pytest.mark.parametrize("options", [{}, {"shards": 3}])
def test_bundles(tmp_path, options):
    files.write_bundle(tmp_path / "ckpt" / "model", TENSORS, **options)
    found = checkpoint_at(tmp_path / "ckpt" / "model")
    assert set(found) == set(TENSORS) and len(found) == len(TENSORS)
    assert all(same(found[name], value) for name, value in TENSORS.items())
    with pytest.raises(KeyError):
        found["nowhere"]


def test_the_other_endianness(tmp_path):
    tensors = {"w": TENSORS["w"], "scalar": TENSORS["scalar"]}
    files.write_bundle(tmp_path / "model", tensors, big_endian=True)
    found = checkpoint_at(tmp_path / "model")
    assert all(same(found[name], value) for name, value in tensors.items())


def test_a_tensor_in_parts(tmp_path):
    """Two parts of a matrix of 2 by 100, with keys that sort: the second begins at column 70."""
    whole = np.arange(200, dtype=np.int32).reshape(2, 100)
    boxes = [{"extent": [{}, {"start": a, "length": b - a}]} for a, b in ((0, 70), (70, 100))]
    parts = {_slice_key(b"w", box): part for box, part in zip(boxes, np.split(whole, [70], 1), strict=True)}
    entries, [data] = files.bundle_index({key.decode("latin-1"): part for key, part in parts.items()})
    entries = {key.decode().encode("latin-1"): value for key, value in entries.items()}
    about = {"dtype": "DT_INT32", "shape": files.shape_message([2, 100]), "slices": boxes}
    entries[b"w"] = encode(about, "BundleEntryProto")
    assert b"\0w\0\1\1\2\x80\x7f\xc0\x46\x9e" in entries
    (tmp_path / "m.index").write_bytes(files.table(entries))
    (tmp_path / "m.data-00000-of-00001").write_bytes(data)
    found = checkpoint_at(tmp_path / "m")
    assert list(found) == ["w"] and same(found["w"], whole)


def test_version_1(tmp_path):
    meta = {"name": "v", "shape": files.shape_message([2, 2]), "type": "DT_HALF"}
    entries = {b"": encode({"meta": {"tensor": [meta]}}, "SavedTensorSlices")}
    for row in range(2):
        box = {"extent": [{"start": row, "length": 1}, {}]}
        data = {"half_val": np.asarray([0x3C00, 0x4000 + row], np.int32)}
        part = {"data": {"name": "v", "slice": box, "data": data}}
        entries[b"\0v%d" % row] = encode(part, "SavedTensorSlices")
    (tmp_path / "old").write_bytes(files.table(entries, packed=True))
    found = checkpoint_at(tmp_path / "old")
    assert same(found["v"], np.asarray([[1, 2], [1, 2.001953125]], np.float16))


def test_strings(tmp_path):
    lengths = (2).to_bytes(4, "little") + (0).to_bytes(4, "little")
    checksum = masked_crc32c(lengths).to_bytes(4, "little")
    data = b"\x02\x00" + checksum + b"ab"
    entry = {"dtype": "DT_STRING", "shape": files.shape_message([2]), "size": len(data)}
    entry[""] = files.checksum_field(lengths + checksum + b"ab")
    entries = {b"": encode({"num_shards": 1}, "BundleHeaderProto"), b"s": encode(entry, "BundleEntryProto")}
    (tmp_path / "m.index").write_bytes(files.table(entries))
    (tmp_path / "m.data-00000-of-00001").write_bytes(data)
    assert checkpoint_at(tmp_path / "m")["s"].tolist() == [b"ab", b""]


def test_damaged_values_are_found(tmp_path):
    files.write_bundle(tmp_path / "m", TENSORS)
    data = tmp_path / "m.data-00000-of-00001"
    data.write_bytes(b"x" + data.read_bytes()[1:])
    with pytest.raises(ParseError, match="tensor 'complex': the checksum of its values"):
        checkpoint_at(tmp_path / "m")["complex"]


def test_a_damaged_index_is_found(tmp_path):
    files.write_bundle(tmp_path / "m", TENSORS)
    index = tmp_path / "m.index"
    whole = index.read_bytes()
    index.write_bytes(whole[:20] + b"x" + whole[21:])
    with pytest.raises(ParseError, match="checksum of the block at byte 0"):
        checkpoint_at(tmp_path / "m")
    index.write_bytes(whole[:-1])
    with pytest.raises(ParseError, match="not a table of strings"):
        checkpoint_at(tmp_path / "m")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"size": 1 << 40}, "its file has 46 bytes"),
        ({"offset": -5}, "bytes at -5"),
        ({"shard_id": 2}, "file 2 of 1"),
        ({"shape": {"dim": [{"size": 1 << 40}]}}, "bytes do not fit"),
        ({"shape": {"unknown_rank": True}}, "not fully known"),
        ({"dtype": "DT_RESOURCE"}, "arrays of DT_RESOURCE are not"),
        ({"slices": [{"extent": [{"length": 9}, {}]}]}, r"the slice \[0:9\]"),
        ({"slices": [{"extent": [{}]}]}, "a slice has 1 dimensions"),
        ({"slices": []}, "checksum"),
    ],
)
def test_entries_that_say_too_much(tmp_path, change, message):
    entries, [data] = files.bundle_index(TENSORS)
    said = {"dtype": "DT_FLOAT", "shape": files.shape_message([2, 3]), "size": 24, **change}
    entries[b"w"] = encode(said, "BundleEntryProto")
    (tmp_path / "m.index").write_bytes(files.table(entries))
    (tmp_path / "m.data-00000-of-00001").write_bytes(data)
    with pytest.raises(AxlaError, match=message):
        checkpoint_at(tmp_path / "m")["w"]


def test_files_that_are_missing_or_elsewhere(tmp_path):
    with pytest.raises(InvalidArgument, match="no checkpoint"):
        checkpoint_at(tmp_path / "m")
    for ending in ("index", "meta", "data-00000-of-00001"):
        with pytest.raises(InvalidArgument, match="is one file of a checkpoint: give its prefix, m"):
            checkpoint_at(tmp_path / f"m.{ending}")
    files.write_bundle(tmp_path / "outside" / "m", TENSORS)
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "m.index").symlink_to(tmp_path / "outside" / "m.index")
    with pytest.raises(InvalidArgument, match="leads out of the folder"):
        checkpoint_at(inner / "m")
