"""The report and the description of a library."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

import axla
from axla.aot import report
from axla.aot.build import BuildSource, Label, build
from axla.aot.library import Weights
from axla.aot.names import parse_name
from axla.codegen.object_files import sizes
from axla.target.names import TARGETS, target

_VALUES = ", ".join(str(k) for k in range(128))
PROGRAM = f"""ENTRY e {{
  x = f32[128] parameter(0)
  c = f32[128] constant({{{_VALUES}}})
  s = f32[128] multiply(x, c)
  ROOT y = f32[128] exponential(s)
}}"""


def library(machine: str, weights: Weights = Weights.OBJECT):
    source = BuildSource(axla.parse(PROGRAM), (Label("x", "x"),), (Label("y", "y"),))
    return build(parse_name("a::Net"), [source], target(machine), weights=weights)


@pytest.mark.parametrize("machine", TARGETS)
def test_sizes_of_objects_of_all_formats(machine):
    inside, apart = (sizes(library(machine, w).image) for w in (Weights.OBJECT, Weights.FILE))
    assert 100 < apart.code < 4000
    assert 512 <= inside.data - apart.data < 512 + 64  # what is before it may be padded
    assert 0 <= apart.data < 2000


def test_the_report_says_what_there_is():
    text = report.text(library("x86-64"))
    assert "a::Net for x86-64" in text and "(y: f32[128]) = a::Net(x: f32[128])" in text
    assert re.search(r"constants +512   in a_Net\.o", text)
    assert re.search(r"operations +128 ", text) and re.search(r"transcendentals +128 ", text)
    assert "needed   none" in text and "flash" not in text
    assert "a_Net_weights.o has it" in report.text(library("x86-64", Weights.SEPARATE))


def test_flash_and_ram_of_a_microcontroller():
    found = library("cortex-m4f")
    text = report.text(found)
    flash = int(re.search(r"flash +([\d,]+)", text).group(1).replace(",", ""))  # type: ignore[union-attr]
    ram = int(re.search(r"RAM +([\d,]+)", text).group(1).replace(",", ""))  # type: ignore[union-attr]
    assert flash == sum((sizes(found.image).code, sizes(found.image).data))
    assert ram == 1024 + found.functions[0].workspace_bytes


def test_the_description_is_the_same_every_time():
    first, second = (report.write(library("aarch64", Weights.FILE)) for _ in range(2))
    assert first == second and set(first) == {"a_Net_report.txt", "a_Net.json"}
    table = json.loads(first["a_Net.json"])
    assert table["weights_file"] == "a_Net.weights"
    assert table["constants"]["tensors"] == [{"name": "c", "offset": 0, "dtype": "f32", "dims": [128]}]
    assert [f["symbol"] for f in table["functions"]] == ["a_Net"]


@pytest.mark.cc
def test_text_and_data_are_what_size_says(tmp_path):
    if shutil.which("size") is None:
        pytest.skip("size is not on the PATH")
    image = library("x86-64").image
    (tmp_path / "o").write_bytes(image)
    lines = subprocess.run(
        ["size", "-A", "o"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    rows = dict(line.split()[:2] for line in lines.splitlines()[2:] if line.startswith("."))
    assert sizes(image).code == int(rows[".text"])
    assert sizes(image).data == sum(int(size) for name, size in rows.items() if name.startswith(".rodata"))
