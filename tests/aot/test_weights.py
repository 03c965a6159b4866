"""Weights and variables in files: what is written is whole, what is wrong is refused, in Python and in C."""

from __future__ import annotations

import json
import random
import re
import shutil
import struct
import subprocess

import ml_dtypes
import numpy as np
import pytest

import axla
from axla.aot import header, weights
from axla.aot.build import BuildSource, Label, build
from axla.aot.library import CompiledLibrary, Weights
from axla.aot.names import parse_name
from axla.runtime.loader import digest_of
from axla.runtime.safetensors import read_safetensors, write_safetensors
from axla.target.names import target

_VALUES = ", ".join(str(k) for k in range(100))
PROGRAM = f"""HloModule m, input_output_alias={{ {{1}}: (1, {{}}, may-alias) }}
ENTRY e {{
  x = f32[100] parameter(0)
  state = f32[100] parameter(1)
  w = bf16[2,50] parameter(2)
  flat = bf16[100] reshape(w)
  wide = f32[100] convert(flat)
  table.one = f32[100] constant({{{_VALUES}}})
  sum = f32[100] add(x, table.one)
  y = f32[100] multiply(sum, wide)
  next = f32[100] add(state, x)
  ROOT both = (f32[100], f32[100]) tuple(y, next)
}}"""
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
NO_FILE, DAMAGED, OTHER = 64, 65, 66

MAIN = r"""#include <stdio.h>
#include <stdlib.h>
#include "Net_loader.h"
int main(int argc, char **argv) {
  static float x[100], y[100];
  Net_args args = { x, NULL, NULL };
  Net_results results = { y };
  Net_weights variables, weights;
  void *workspace = aligned_alloc(64, Net_WORKSPACE_SIZE + 64u);
  int k, loaded, opened = 0;
  for (k = 2; k < argc; ++k) { /* hostile files */
    loaded = Net_load_safetensors(argv[k], &args, &variables);
    printf("%d ", loaded);
    if (loaded == AXLA_OK) printf("%g ", (double)args.state[99] + (double)axla_bf16_to_float(args.w[99]));
    if (loaded == AXLA_OK) Net_weights_close(&variables);
    opened = Net_weights_open(argv[k], &weights);
    printf("%d\n", opened);
    if (opened == AXLA_OK) Net_weights_close(&weights);
  }
  if (argc > 2) {
    free(workspace);
    return 0;
  }
  loaded = Net_load_safetensors(argv[1], &args, &variables);
  opened = Net_weights_open("Net.weights", &weights);
  if (loaded || opened) return 1;
  for (k = 0; k < 100; ++k) x[k] = (float)k;
  k = Net_run(&args, &results, workspace, weights.data);
  printf("%d %g %g %s %d %d\n", k, (double)y[3], (double)args.state[3], Net_tensors[0].name,
         (int)Net_tensors[0].offset, (int)((uintptr_t)weights.data % 64));
  Net_weights_close(&weights);
  Net_weights_close(&variables);
  free(workspace);
  return 0;
}
"""


@pytest.fixture(scope="module")
def library() -> CompiledLibrary:
    labels = (Label("x", "x"), Label("state", "params['s']"), Label("w", "w", variable=True))
    source = BuildSource(axla.parse(PROGRAM), labels, (Label("y", "y"), Label("next", "next")))
    return build(parse_name("Net"), [source], target("x86-64"), weights=Weights.FILE)


@pytest.fixture(scope="module")
def files(library) -> dict[str, bytes]:
    found = {**header.write(library), **weights.write(library), "Net.o": library.image, "main.c": MAIN}
    return {name: data.encode() if isinstance(data, str) else data for name, data in found.items()}


VARIABLES = {
    "params['s']": np.arange(100, dtype=np.float32),
    "w": np.full((2, 50), 0.5, ml_dtypes.bfloat16),
    "of no interest": np.ones(3, np.int8),
}


def compiled(files, folder, *options: str):
    if shutil.which("cc") is None:
        pytest.skip("cc is not on the PATH")
    for name, data in files.items():
        (folder / name).write_bytes(data)
    subprocess.run(["cc", *STRICT, *options, "-c", "Net_loader.c"], cwd=folder, check=True)
    command = ["cc", "-std=c11", *STRICT[1:], *options, "main.c", "Net_loader.o", "Net.o", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)


def run(folder, *arguments: str) -> list[str]:
    done = subprocess.run(["./main", *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_file_is_the_segment_under_names(library, files, tmp_path):
    (tmp_path / "f").write_bytes(files["Net.weights"])
    found = read_safetensors(tmp_path / "f")
    assert set(found) == {"table.one", "padding.400"}
    assert found["table.one"].tolist() == list(range(100))
    assert (len(files["Net.weights"]) - len(library.constants)) % 64 == 0
    assert files["Net.weights"].endswith(library.constants)


def test_nothing_is_written_where_nothing_is_to_be_loaded(library):
    source = BuildSource(
        axla.parse("ENTRY e { ROOT x = f32[2] parameter(0) }"), (Label("x", "x"),), (Label("y", "y"),)
    )
    assert weights.write(build(parse_name("Net"), [source], target("x86-64"))) == {}


@pytest.mark.parametrize("where", ["object", "separate", "file"])
def test_the_interface_does_not_depend_on_values(tmp_path, where):
    """A table that is folded away leaves the same functions, files and symbols as one that stays."""
    zeros = re.sub(r"constant\({.*}\)", "constant({" + ", ".join(["0"] * 100) + "})", PROGRAM)
    packages = [
        axla.aot.compile(text.replace("add(x, table", "multiply(x, table"), out=tmp_path / name, name="Net",
                         weights=where, self_test=False)
        for name, text in (("full", PROGRAM), ("zeros", zeros))
    ]  # fmt: skip
    full, empty = (package.library for package in packages)
    assert full.tensors and not empty.tensors
    assert [f.name for f in packages[0].files] == [f.name for f in packages[1].files]
    exported = [
        re.findall(r"int32_t Net_run\w*\(.*?\);", header.text(lib), re.DOTALL) for lib in (full, empty)
    ]
    assert exported[0] == exported[1] and len(exported[0]) == 2
    x, w = np.ones(100, np.float32), np.ones((2, 50), ml_dtypes.bfloat16)
    found = axla.aot.load(tmp_path / "zeros")(x, w)
    assert not np.any(np.asarray(found[0] if isinstance(found, tuple) else found))


def test_codes_of_the_loader_have_messages(files):
    text = files["Net.h"].decode()
    for code, about in ((NO_FILE, "cannot be opened"), (DAMAGED, "have changed"), (OTHER, "another library")):
        assert re.search(rf'case {code}: return "[^"]*{about}', text)
        assert re.search(rf"AXLA_\w+_FILE = {code},", text)


def test_every_bit_and_place_counts_in_the_digest():
    data = bytearray(random.Random(0).randbytes(4096))
    whole = digest_of(data)
    for at in (0, 7, 8, 2000, 4095):
        data[at] ^= 1
        assert digest_of(data) != whole
        data[at] ^= 1
    assert digest_of(data[8:16] + data[:8] + data[16:]) != whole


@pytest.mark.cc
@pytest.mark.parametrize("options", [(), ("-DAXLA_NO_MMAP",), ("-DAXLA_TRUST_WEIGHTS",)])
def test_the_loader_gives_weights_and_variables(files, tmp_path, options):
    compiled(files, tmp_path, *options)
    write_safetensors(tmp_path / "v", VARIABLES)
    assert run(tmp_path, "v") == ["0 3 6 table.one 0 0"]
    assert read_safetensors(tmp_path / "v")["params['s']"][3] == 3  # the run did not change the file


@pytest.mark.cc
def test_arrays_off_their_alignment_are_copied(files, tmp_path):
    compiled(files, tmp_path)
    table = {
        "flag": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]},
        "state": {"data_offsets": [1, 401], "shape": [100], "dtype": "F32"},
        "w": {"dtype": "BF16", "shape": [2, 50], "data_offsets": [401, 601]},
    }
    text = json.dumps(table, indent=1).encode()
    data = b"\0" + VARIABLES["params['s']"].tobytes() + VARIABLES["w"].tobytes()
    (tmp_path / "v").write_bytes(struct.pack("<Q", len(text)) + text + data)
    assert run(tmp_path, "v") == ["0 3 6 table.one 0 0"]


def _changed(text: str, data: bytes) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode() + data


@pytest.mark.cc
def test_hostile_files_give_codes(files, tmp_path):
    """Also under the sanitizers of addresses and undefined behaviour."""
    compiled(
        files, tmp_path, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DAXLA_NO_MMAP"
    )
    write_safetensors(tmp_path / "v", VARIABLES)
    whole = (tmp_path / "v").read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    text, data = whole[8 : 8 + length].decode().rstrip(), whole[8 + length :]
    right = _changed(text, data)
    w = re.search(r'"w":\{.*?\}', text).group()  # type: ignore[union-attr]
    cases = {
        "": (NO_FILE,),
        "right": (0, right),
        "spaces": (0, _changed(text.replace(",", " ,\n").replace(":", " :\t"), data)),
        "escaped": (OTHER, _changed(text.replace('"w":', '"\\u0077":'), data)),
        "notes": (0, _changed('{"__metadata__":{"a":"\\"}"},' + text[1:], data)),
        "empty": (NO_FILE, b""),
        "short": (DAMAGED, b"\1\0\0"),
        "length": (DAMAGED, b"\xff" * 8 + text.encode()),
        "cut": (DAMAGED, whole[: 8 + length // 2]),
        "no data": (DAMAGED, whole[: 8 + length]),
        "behind": (DAMAGED, _changed(text + "x", data)),
        "none": (OTHER, _changed("{}", b"")),
        "twice": (OTHER, _changed(text.replace(w, f"{w},{w}"), data)),
        "type": (OTHER, _changed(text.replace("BF16", "F16"), data)),
        "rank": (OTHER, _changed(text.replace("[2,50]", "[100]"), data)),
        "size": (OTHER, _changed(text.replace("[2,50]", "[50,2]"), data)),
        "many": (DAMAGED, _changed(text.replace("[2,50]", f"[{'1,' * 80}1]"), data)),
        "zeros": (DAMAGED, _changed(text.replace("[2,50]", "[02,50]"), data)),
        "huge": (DAMAGED, _changed(text.replace("[2,50]", f"[{2**64},50]"), data)),
        "sign": (DAMAGED, _changed(text.replace("[2,50]", "[-2,50]"), data)),
        "past": (DAMAGED, _changed(text.replace("600]", "9999999]").replace("[400,", "[9999799,"), data)),
        "deep": (DAMAGED, _changed("{" + '"a":{' * 9999, data)),
        "field": (DAMAGED, _changed(text.replace('"dtype"', '"type"'), data)),
        "dangling": (DAMAGED, _changed(text + "\\", data)),
        "open": (DAMAGED, _changed('{"\\', b"")),
    }
    for name, (_, *contents) in cases.items():
        if contents:
            (tmp_path / f"case {name}").write_bytes(contents[0])
    lines = run(tmp_path, "-", *(f"case {name}" for name in cases))
    codes = {name: int(line.split()[0]) for name, line in zip(cases, lines, strict=True)}
    assert codes == {name: wanted for name, (wanted, *_) in cases.items()}
    assert all(line.split()[-1] in (str(OTHER), str(NO_FILE)) for line in lines)


@pytest.mark.cc
def test_changed_bytes_crash_nothing(files, tmp_path):
    compiled(files, tmp_path, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    write_safetensors(tmp_path / "v", VARIABLES)
    whole = (tmp_path / "v").read_bytes()
    chance, names = random.Random(1), []
    for number in range(300):
        changed = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(330)] = chance.choice(b'"{}[]:,\\0189 \xff')
        names.append(f"c{number}")
        (tmp_path / names[-1]).write_bytes(
            changed[: chance.choice([len(whole), chance.randrange(len(whole))])]
        )
    codes = {line.split()[0] for line in run(tmp_path, "-", *names)}
    assert codes <= {"0", str(NO_FILE), str(DAMAGED), str(OTHER)} and str(DAMAGED) in codes


@pytest.mark.cc
def test_weights_that_changed_are_refused(files, tmp_path):
    compiled(files, tmp_path)
    right = files["Net.weights"]
    data = len(right) - 448
    cases = {
        "right": (0, right),
        "a bit": (DAMAGED, right[:-100] + bytes([right[-100] ^ 1]) + right[-99:]),
        "longer": (DAMAGED, right + bytes(64)),
        "cut": (DAMAGED, right[:-64]),
        "another": (OTHER, right.replace(b'"Net"', b'"Not"')),
        "a header": (OTHER, right[:data - 1]),
    }  # fmt: skip
    for name, (_, contents) in cases.items():
        (tmp_path / name).write_bytes(contents)
    codes = [int(line.split()[-1]) for line in run(tmp_path, "-", *cases)]
    assert codes == [wanted for wanted, _ in cases.values()]
