"""Executables as bytes: what goes in comes out; damage, other machines and other readers are refused."""

from __future__ import annotations

import contextlib
import json
import pickle
import platform
import random
import struct
from dataclasses import replace

import numpy as np
import pytest

import axla
from axla.backends.native import NativeExecutable as Executable
from axla.core.errors import InvalidArgument, UnsupportedError
from axla.program.packed import Packed, decode, encode
from axla.runtime import serialized
from axla.runtime.serialized import Fingerprint, pack, unpack
from axla.tools.main import main

if platform.machine() != "x86_64":
    pytest.skip("machine code for x86-64", allow_module_level=True)

TEXT = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY e {
  p = f32[2,100]{0,1} parameter(0)
  q = (s4[3], (f32[<=4])) parameter(1)
  inner = (f32[<=4]) get-tuple-element(q), index=1
  w = f32[2,100] constant({...})
  sum = f32[2,100] add(p, w)
  ROOT t = (f32[2,100], (f32[<=4])) tuple(sum, inner)
}"""
MACHINE = "x86_64-unknown-linux-gnu", "znver4", ("+sse2", "-avx512f")
HERE = Fingerprint(*serialized.versions(), "cpu", "", 1, 1, *MACHINE)


@pytest.fixture(scope="module")
def packed() -> Packed:
    rows = ", ".join("{" + ", ".join(str(n / 3) for n in range(100)) + "}" for _ in range(2))
    compiled = axla.compile(axla.parse(TEXT.replace("{...}", f"{{ {rows} }}")))
    return Packed(compiled._images, compiled.interface, compiled._loaded.constants() or b"")


@pytest.fixture(scope="module")
def data(packed) -> bytes:
    return pack(encode(packed), HERE)


def test_what_goes_in_comes_out(packed, data):
    payload, fingerprint = unpack(data)
    found = decode(payload)
    assert found == packed and fingerprint == HERE
    assert found.interface.parameters[0].shape is packed.interface.parameters[0].shape
    assert len(packed.constants) >= 800


def test_what_comes_out_runs(packed, data):
    found = decode(unpack(data)[0])
    program = Executable(found.images, found.interface, found.constants)
    x, s4 = np.ones((2, 100), np.float32), np.zeros(3, axla.dtypes.S4.numpy)
    result = program(x, (s4, (np.ones(2, np.float32),)))
    wanted = 1 + np.arange(100, dtype=np.float32) / np.float32(3)
    np.testing.assert_array_equal(np.asarray(result[0]), np.stack([wanted, wanted]))


def test_custom_calls_and_tokens_go_through(packed):
    from axla.core.shape import OPAQUE, TOKEN, BufferShape, Shape, TupleShape
    from axla.custom.site import CallSite, TableFunction

    array = Shape(axla.dtypes.BF16, (2,))
    site = CallSite(
        "f", (TupleShape((array, TOKEN)), OPAQUE), BufferShape(array), aliases=((0, 1),), where="%c"
    )
    changed = replace(
        packed, interface=replace(packed.interface, functions=(TableFunction("f", "axla", site),))
    )
    assert decode(encode(changed)) == changed


@pytest.mark.parametrize("change, wanted", [
    ({"axla": "9.9"}, "made by axla 9.9, wanted axla"),
    ({"llvm": "9.9"}, "made by LLVM 9.9, wanted LLVM"),
    ({"triple": "aarch64-unknown-linux-gnu"}, "for aarch64-unknown-linux-gnu, this machine is x86_64"),
    ({"triple": "x86_64-pc-windows-msvc"}, "for x86_64-pc-windows-msvc, this machine is x86_64 linux"),
    ({"features": ("+sse2", "+avx9")}, "needs avx9, which this machine lacks"),
])  # fmt: skip
def test_programs_of_elsewhere_are_refused(packed, change, wanted):
    with pytest.raises(UnsupportedError, match=wanted):
        unpack(pack(encode(packed), replace(HERE, **change)))


def test_another_format_is_refused(data):
    with pytest.raises(UnsupportedError, match="found format '2', wanted '1'"):
        unpack(data.replace(b"executable 1", b"executable 2", 1))


@pytest.mark.parametrize("other", [b"", b"HloModule m", b"axla-executable", pickle.dumps([1])])
def test_what_is_none_is_refused(other):
    with pytest.raises(InvalidArgument, match="serialised executable: the bytes do not begin like one"):
        unpack(other)


def test_damaged_bytes_are_refused(data):
    """Bytes changed, cut, doubled or moved: the digest is looked at before anything else."""
    dice = random.Random(12)
    for number in range(400):
        at, end = sorted((dice.randrange(len(data)), dice.randrange(len(data))))
        mutated = [
            data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :],
            data[:at], data[:at] + data[end:], data[:end] + data[at:],
        ][number % 4]  # fmt: skip
        if mutated != data:
            with pytest.raises((InvalidArgument, UnsupportedError)):
                unpack(mutated)


def test_contents_that_make_no_sense_are_errors(packed):
    """With a right digest: still no bare Python exception."""
    from hashlib import blake2b

    dice = random.Random(13)
    body = pack(encode(packed), HERE)[len(b"axla-executable 1\n") + 32 :]
    bodies = [b"", b"\0" * 8, struct.pack("<Q", 1 << 60), body[:100]]
    for _ in range(300):
        at = dice.randrange(min(len(body), 1500))
        bodies.append(body[:at] + bytes([dice.randrange(256)]) + body[at + 1 :])
    whole = dict.fromkeys(("axla", "llvm", "backend"), "cpu") | {"features": []}
    heads = [json.dumps(whole | {"options": options}).encode() for options in ("zz", "0", 5)]
    for head in (b"[" * 100_000, *heads):
        bodies.append(struct.pack("<Q", len(head)) + head)
        with pytest.raises(InvalidArgument, match="its header is invalid"):
            unpack(b"axla-executable 1\n" + blake2b(bodies[-1], digest_size=32).digest() + bodies[-1])
    for changed in bodies:
        digest = blake2b(changed, digest_size=32).digest()
        try:
            payload, _ = unpack(b"axla-executable 1\n" + digest + changed)
        except (InvalidArgument, UnsupportedError):
            continue
        with contextlib.suppress(ValueError):
            decode(payload)
    cpu = axla.backends.get("cpu")
    for payload in (b"", b"\2", b"\2" + bytes(20), encode(packed)[:-1]):
        with pytest.raises(InvalidArgument, match="not a compiled program of axla"):
            cpu.load(cpu.client, payload, axla.CompileOptions())


@pytest.mark.parametrize("pickled", [False, True])
def test_readers_of_programs_do_not_take_machine_code(data, packed, tmp_path, pickled, capsys):
    found = pickle.dumps(packed.interface) if pickled else data
    file = tmp_path / "program"
    file.write_bytes(found)
    for source in (found, bytearray(found), file):
        with pytest.raises(InvalidArgument, match="a serialised executable or a pickle"):
            axla.parse(source)
    out = str(tmp_path / "out.hlo")
    for verb, *more in (["run"], ["opt"], ["check"], ["compile", "-o", out], ["convert", out]):
        assert main([verb, str(file), *more]) != 0
        assert "a serialised executable or a pickle" in capsys.readouterr().err


def test_no_pickle_is_read():
    """Nothing but child processes, and who started them, unpickles."""
    from pathlib import Path

    root = Path(axla.__file__).parent
    found = {str(p.relative_to(root)) for p in root.rglob("*.py") if "pickle.load" in p.read_text()}
    assert found == {"codegen/child.py", "tools/apart.py"}
