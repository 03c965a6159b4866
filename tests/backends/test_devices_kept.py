"""Programs of several participants that are kept: as text, as bytes, in the caches, for another process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import axla
from axla.backends.native import NativeExecutable
from axla.cpu.compiler import compile_text
from axla.program.packed import decode, encode
from axla.program.text import parse_program, print_program

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import soak_devices  # noqa: E402

SIZE = 400
IN_ANOTHER = """
import hashlib, sys
import axla
from test_devices_kept import bits, soak_devices, SIZE
programs = [axla.compile(soak_devices.all_collectives(SIZE), backend="cpu")]
programs += [axla.Executable.load(open(path, "rb").read()) for path in sys.argv[1:]]
for program in programs:
    print(hashlib.blake2b(b"".join(bits(program))).hexdigest())
"""


def bits(program) -> list[bytes]:
    rng = np.random.default_rng(11)
    rows = [[rng.normal(size=SIZE).astype(np.float32), np.array([1, 9, 3, 5], np.int32)] for _ in range(4)]
    return [np.asarray(a).tobytes() for row in program.execute_replicated(rows) for a in row]


@pytest.fixture(scope="module")
def program():
    return axla.compile(soak_devices.all_collectives(SIZE), backend="cpu")


@pytest.fixture(scope="module")
def wanted(program) -> list[bytes]:
    judged = bits(axla.compile(soak_devices.all_collectives(SIZE), backend="interpreter"))
    assert bits(program) == judged
    return judged


def test_the_text_of_a_program_is_a_fixed_point_and_gives_the_same_bits(program, wanted):
    segment = program._loaded.constants() or b""
    text = program.as_text("program")
    kinds = {part.partition("=")[2] for part in text.split() if part.startswith("kind=")}
    assert {
        "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute",
        "collective-broadcast", "collective-reduce", "ragged-all-to-all",
    } <= kinds  # fmt: skip
    assert print_program(parse_program(text, segment)) == text
    made = decode(encode(compile_text(text, segment)))
    assert made.interface.participants == (2, 2)
    again = NativeExecutable(made.images, made.interface, made.constants, client=program.client)
    assert bits(again) == wanted


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_bytes_give_the_same_bits(backend, wanted):
    client = axla.Client(backend, devices=6)
    assignment = ((5, 2), (0, 3))
    made = client.compile(soak_devices.all_collectives(SIZE), device_assignment=assignment)
    for again in (axla.Executable.load(made.serialize(), client), client.load(made.serialize())):
        assert [d.id for d in again.devices] == [5, 2, 0, 3]
        assert (again.num_replicas, again.num_partitions) == (2, 2)
        assert bits(again) == wanted
    assert bits(pickle.loads(pickle.dumps(axla.compile(soak_devices.all_collectives(SIZE))))) == wanted


def test_another_process_gives_the_same_bits_from_the_caches_and_from_bytes(program, wanted, tmp_path):
    from hashlib import blake2b

    kept = tmp_path / "kept"
    kept.mkdir(mode=0o700)
    (tmp_path / "program").write_bytes(program.serialize())
    places = [str(Path(axla.__file__).parents[1]), str(Path(__file__).parent), *sys.path]
    environment = {**os.environ, "AXLA_CACHE_DIR": str(kept), "PYTHONPATH": os.pathsep.join(places)}
    found, entries = [], []
    for paths in ([], [str(tmp_path / "program")]):
        done = subprocess.run(
            [sys.executable, "-c", IN_ANOTHER, *paths],
            capture_output=True, text=True, env=environment, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found += done.stdout.split()
        entries.append(sum(path.is_file() for path in kept.rglob("*")))
    assert found == [blake2b(b"".join(wanted)).hexdigest()] * 3
    assert 0 < entries[0] == entries[1]  # the second one found all that it needed


def test_the_caches_tell_numbers_of_participants_apart():
    """The same text for 2 and for 3 replicas, and with other groups."""
    text = """HloModule m
        f { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }
        ENTRY e { x = f32[6] parameter(0)
          ROOT y = f32[6] all-reduce(x), to_apply=f, replica_groups=GROUPS }"""
    for groups, count, wanted in (
        ("{}", 2, [3, 3]), ("{}", 3, [6, 6, 6]), ("{{0,2},{1}}", 3, [4, 2, 4]), ("{}", 1, [1]),
        ("{{0},{2,1}}", 3, [1, 5, 5]), ("{}", 2, [3, 3]),
    ):  # fmt: skip
        made = axla.compile(axla.parse(text.replace("GROUPS", groups)), backend="cpu", num_replicas=count)
        found = made.execute_replicated([[np.full(6, n + 1, np.float32)] for n in range(count)])
        assert [float(np.asarray(row[0])[5]) for row in found] == wanted
