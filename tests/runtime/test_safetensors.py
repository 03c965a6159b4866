"""safetensors files: what is written is read, what is wrong is refused by name."""

from __future__ import annotations

import json
import struct

import ml_dtypes
import numpy as np
import pytest

from axla.core.dtypes import ALL
from axla.core.errors import InvalidArgument
from axla.runtime.safetensors import read_safetensors, write_safetensors


def file_of(path, header: object, data: bytes = b"", length: int | None = None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_element_type_comes_back(dtype, tmp_path):
    bits = np.random.default_rng(0).integers(0, 2, (3, 2 * dtype.itemsize)).astype(np.uint8)
    array = bits.view(dtype.numpy)
    write_safetensors(tmp_path / "f", {"odd": np.ones(1, np.int8), "a": array, "none": array[:0]})
    found = read_safetensors(tmp_path / "f")
    assert set(found) == {"a", "odd", "none"}
    for name, wanted in {"a": array, "none": array[:0]}.items():
        assert found[name].dtype == dtype.numpy and found[name].shape == wanted.shape
        assert found[name].tobytes() == wanted.tobytes()


def test_scalars_and_strided_arrays_are_written_as_they_are(tmp_path):
    arrays = {"s": np.float32(3).reshape(()), "t": np.arange(12).reshape(3, 4).T, "b": np.array(True)}
    write_safetensors(tmp_path / "f", arrays, {"made by": "a test"})
    found = read_safetensors(tmp_path / "f")
    assert found["s"].shape == () and found["s"] == 3 and found["b"].dtype == bool
    np.testing.assert_array_equal(found["t"], arrays["t"])
    (length,) = struct.unpack("<Q", (tmp_path / "f").read_bytes()[:8])
    assert (8 + length) % 64 == 0


def test_files_of_others_are_read_whatever_their_alignment(tmp_path):
    header = {
        "__metadata__": {"format": "pt"},
        "flag": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]},
        "w": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [1, 5]},
    }
    values = np.array([[1.5, -2]], ml_dtypes.bfloat16)
    found = read_safetensors(file_of(tmp_path / "f", header, b"\1" + values.tobytes()))
    assert found["flag"].tolist() == [True]
    assert found["w"].dtype == ml_dtypes.bfloat16 and found["w"].tolist() == [[1.5, -2]]


def entry(dtype="F32", shape=(1,), offsets=(0, 4), **more):
    return {"a": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}}


WRONG = {
    "no JSON": (b"{]", "not a JSON object"),
    "a list": (b"[1]", "does not begin with"),
    "deep": (b'{"a":' + b"[" * 100_000, "not a JSON object"),
    "bad UTF-8": (b'{"\xff":1}', "not a JSON object"),
    "a name twice": (b'{"a":1,"a":2}', "is used twice"),
    "NaN": (b'{"a":NaN}', "not a number of JSON"),
    "more fields": (entry(more=1), "wanted dtype, shape and data_offsets"),
    "unknown type": (entry("F31"), "dtype 'F31' is unknown"),
    "type no text": (entry(["F32"]), "is unknown"),
    "negative size": (entry(shape=(-1,)), "is not a list of sizes"),
    "fractional size": (entry(shape=(1.0,)), "is not a list of sizes"),
    "true as a size": (entry(shape=(True,)), "is not a list of sizes"),
    "huge product": (entry(shape=(2**40, 2**40)), "do not fit"),
    "wrong length": (entry(offsets=(0, 8)), "do not fit"),
    "backwards": (entry(offsets=(4, 0)), "do not fit"),
    "one offset": (entry(offsets=(0,)), "are not two offsets"),
    "a gap": (entry(offsets=(1, 5)), "begins at 1, wanted 0"),
    "past the end": (entry(shape=(2,), offsets=(0, 8)), "the arrays have 8 bytes, the file has 4"),
    "overlap": ({**entry(), "b": entry()["a"]}, "begins at 0, wanted 4"),
    "metadata": ({"__metadata__": {"x": 1}, **entry()}, "not an object of strings"),
    "kind": ({"__metadata__": {"axla.dtype.a": "c128"}, **entry("U8", (4,))}, "does not fit shape"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_headers_are_refused(name, tmp_path):
    header, message = WRONG[name]
    with pytest.raises(InvalidArgument, match=message):
        read_safetensors(file_of(tmp_path / "f", header, bytes(4)))


@pytest.mark.parametrize("length", [0, 1, 2**63, 2**64 - 1, 10_000])
def test_header_lengths_are_checked_before_memory_is_taken(length, tmp_path):
    with pytest.raises(InvalidArgument, match="a header of"):
        read_safetensors(file_of(tmp_path / "f", b"{}", length=length))


def test_every_cut_off_file_is_refused(tmp_path):
    write_safetensors(tmp_path / "f", {"a": np.arange(3, dtype=np.float32)})
    whole = (tmp_path / "f").read_bytes()
    for size in range(len(whole)):
        (tmp_path / "cut").write_bytes(whole[:size])
        with pytest.raises(InvalidArgument):
            read_safetensors(tmp_path / "cut")
    with pytest.raises(InvalidArgument, match="No such file"):
        read_safetensors(tmp_path / "absent")


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="'names'"):
        write_safetensors(tmp_path / "f", {"names": np.array(["a"])})
