"""Libraries compiled ahead of time, run by the runtime alone; what is wrong with their files is said."""

from __future__ import annotations

import json
import platform
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest

import axla
import net_library
from axla.aot import metadata, weights
from axla.aot.build import BuildSource, Label, build
from axla.aot.library import Weights
from axla.aot.names import parse_name
from axla.codegen.llvm import host_features
from axla.codegen.native import systems
from axla.codegen.native.image import Image
from axla.core.errors import AxlaError, InvalidArgument, UnsupportedError
from axla.runtime import cpu_features
from axla.runtime.cpu_features import refuse_foreign
from axla.runtime.loader import load
from axla.runtime.manifest import seal
from axla.runtime.safetensors import write_safetensors
from axla.target.names import target

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="objects for Linux")


def source(rows: int = 0) -> BuildSource:
    text = f"ENTRY e {{ x = f32[{rows},2] parameter(0) ROOT y = f32[{rows},2] exponential(x) }}"
    return BuildSource(axla.parse(text), (Label("x", "x"),), (Label("y", "y"),), f"rows{rows}", rows)


def written(library, folder):
    files = {
        f"{library.prefix}.json": metadata.manifest(library).to_json(),
        **weights.write(library),
        f"{library.prefix}.o": library.image,
    }
    if library.constants_image:
        files[f"{library.prefix}_weights.o"] = library.constants_image
    for name, data in files.items():
        (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return folder


@pytest.fixture(scope="module", params=list(Weights), ids=lambda w: w.value)
def folder(request, tmp_path_factory):
    return written(net_library.library(request.param), tmp_path_factory.mktemp("net"))


def test_a_function_runs_with_its_constants_and_variables(folder, tmp_path):
    library = load(folder)
    net = library["a_Net"]
    assert repr(net) == "<function a::Net(x: f32[100]) -> (y: f32[100])>"
    x = np.arange(100, dtype=np.float32)
    assert net(x).tolist() == [0] * 100  # variables are zero at first
    write_safetensors(tmp_path / "v", {
        "params['s']": np.ones(100, np.float32), "w": np.full(100, 2).astype(net.variables["w"].dtype),
    })  # fmt: skip
    net.load_variables(tmp_path / "v")
    np.testing.assert_array_equal(library(x=x), 4 * x)
    np.testing.assert_array_equal(net.variables["state"], 1 + x)
    np.testing.assert_array_equal(net.run({"x": x[::-1]})["y"], np.full(100, 198))
    np.testing.assert_array_equal(net.variables["state"], np.full(100, 100))


def test_runs_that_update_a_variable_do_not_overlap(folder):
    net = load(folder / "a_Net.json")["a_Net"]
    ones = np.ones(100, np.float32)
    threads = [threading.Thread(target=lambda: [net(ones) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert net.variables["state"].tolist() == [800] * 100


def test_the_number_of_rows_chooses_the_function(tmp_path):
    library = load(
        written(build(parse_name("Exp"), [source(1), source(3)], target(net_library.MACHINE)), tmp_path)
    )
    assert library(np.zeros((3, 2), np.float32)).tolist() == [[1, 1]] * 3
    assert library["rows1"]([[0, 0]]).tolist() == [[1, 1]]
    with pytest.raises(InvalidArgument, match="found a call with 2 rows, wanted 1, 3"):
        library(np.zeros((2, 2), np.float32))


def test_neither_llvm_nor_the_compiler_is_needed(folder):
    text = f"""
import sys
from axla.runtime.loader import load
import numpy as np
load({str(folder)!r})["a_Net"](np.ones(100, np.float32))
print("llvmlite" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("arguments, named, message", [
    ((), {}, "arguments x are missing"),
    ((1, 2), {}, "2 arguments, wanted 1: x"),
    ((1,), {"x": 2}, "'x' is given twice"),
    ((), {"y": 2}, "no argument 'y'; there are x"),
    ((np.zeros(100),), {}, r"x: f32\[100\]: found an array float64\[100\]"),
    ((np.zeros(99, np.float32),), {}, r"found an array float32\[99\]"),
    (("text",), {}, "could not convert"),
])  # fmt: skip
def test_wrong_arguments_are_named(folder, arguments, named, message):
    with pytest.raises(InvalidArgument, match=message):
        load(folder)(*arguments, **named)


@pytest.fixture
def copy(folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_files_that_changed_are_refused(copy):
    for file in sorted(copy.glob("*.o")) + sorted(copy.glob("*.weights")):
        right = file.read_bytes()
        for wrong in (right[:-1], right + b"\0", right[:-1] + bytes([right[-1] ^ 1])):
            file.write_bytes(wrong)
            with pytest.raises(InvalidArgument, match=file.name):
                load(copy)
        file.unlink()
        with pytest.raises(InvalidArgument, match="No such file"):
            load(copy)
        file.write_bytes(right)
    load(copy)


def _paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from _paths(child, (*path, key))


# What the loader does not read, and what may be anything.
_FREE = {"label", "name", "alias", "pointer_bytes", "tensors", "messages", "batches", "dims", "digest"}


def test_every_field_of_the_description_is_checked(copy):
    file = copy / "a_Net.json"
    whole = json.loads(file.read_text())
    for path in list(_paths(whole)):
        if not path or _FREE & set(path):
            continue
        for wrong in (None, -1, 2**63, 1.5, "../x", [[]], {"a": 1}):
            changed = json.loads(json.dumps(whole))
            at = changed
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = wrong
            if "features" in path:
                continue
            if path != ("sha256",):
                changed["sha256"] = seal(changed)
            file.write_text(json.dumps(changed))
            with pytest.raises(AxlaError):
                load(copy)


def test_a_damaged_description_is_refused(copy):
    """A workspace of fewer bytes is a description like any other, and code writes behind it."""
    file = copy / "a_Net.json"
    text = file.read_text()
    for old, new in (
        ('"workspace_bytes": ', '"workspace_bytes": 1'),
        ('"symbol"', '"symbo1"'),
        ('"y"', '"z"'),
    ):
        assert old in text
        file.write_text(text.replace(old, new, 1))
        with pytest.raises(InvalidArgument, match="a_Net.json: damaged: its SHA-256"):
            load(copy)
    whole = json.loads(text)
    file.write_text(json.dumps({**whole, "weights": "other", "sha256": seal({**whole, "weights": "other"})}))
    with pytest.raises(InvalidArgument, match="weights is 'other'"):
        load(copy)
    file.write_text(json.dumps(whole))  # spaces do not count
    load(copy)


@pytest.mark.parametrize("text, message", [
    ("", "not JSON"), ("[" * 100_000, "not JSON"), ("[]", "wanted a table"),
    ('{"format": "x"}', "wanted 'axla"),
])  # fmt: skip
def test_what_is_no_description_is_refused(tmp_path, text, message):
    (tmp_path / "f.json").write_text(text)
    with pytest.raises(InvalidArgument, match=message):
        load(tmp_path)


def test_other_machines_are_refused(tmp_path):
    library = build(parse_name("Exp"), [source(1)], target(net_library.OTHER))
    with pytest.raises(UnsupportedError, match=f"compiled for {library.target.triple}"):
        load(written(library, tmp_path))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="features of x86-64")
def test_code_for_features_that_this_machine_lacks_is_refused():
    with pytest.raises(UnsupportedError, match="needs avx512_nonsense"):
        refuse_foreign("x86-64", ["+avx512_nonsense"], False)
    with pytest.raises(UnsupportedError, match="cannot check whether this machine has its features"):
        refuse_foreign("znver9", [], False)
    refuse_foreign("znver9", [], True)


def test_damaged_objects_crash_nothing():
    """Every byte of the tables of an object, set to what is likely to be wrong."""
    image = build(parse_name("Exp"), [source(1)], target(net_library.MACHINE)).image
    (table,) = struct.unpack_from("<Q", image, 40)
    places = [*range(64), *range(table, len(image))]
    for at in places:
        for value in (0x00, 0x7F, 0xFF):
            changed = bytearray(image)
            changed[at] = value
            try:
                Image([("o", bytes(changed))], ["Exp_rows1_run"])
            except (InvalidArgument, UnsupportedError):
                continue
    for size in range(0, len(image), 7):
        with pytest.raises(InvalidArgument):
            Image([("o", image[:size])], ["Exp_rows1_run"])
    with pytest.raises(InvalidArgument, match="does not define absent"):
        Image([("o", image)], ["absent"])
    with pytest.raises(InvalidArgument, match="defined twice"):
        Image([("o", image), ("p", image)], [])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="features of x86-64")
def test_this_machine_has_all_features_that_llvm_finds_in_it():
    found = host_features()
    refuse_foreign("this machine", [f"+{name}" for name, has in found.items() if has], True)


def test_names_of_linux_and_llvm_are_compared(monkeypatch):
    monkeypatch.setattr(systems, "machine", lambda: "x86_64")
    monkeypatch.setattr(cpu_features, "_flags", lambda: frozenset({"pni", "sse4_1", "avx_vnni", "amx_tile"}))
    refuse_foreign("x86-64", ["+sse2", "+sse3", "+sse4.1", "+avxvnni", "+amx-tile", "+avx10.1"], False)
    with pytest.raises(UnsupportedError, match="needs avx512vnni, pclmulqdq, which"):
        refuse_foreign("x86-64", ["+avx512vnni", "+avxvnni", "+pclmul"], False)
