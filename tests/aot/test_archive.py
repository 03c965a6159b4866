"""`P.a`: what tools read in it, and linkers."""

from __future__ import annotations

import shutil
import subprocess

import pytest

import axla
from axla.aot import archive
from axla.aot.archive import Member
from axla.aot.build import BuildSource, Label, build
from axla.aot.library import CompiledLibrary, Weights
from axla.aot.names import parse_name
from axla.core.errors import UnsupportedError
from axla.target.names import target

_VALUES = ", ".join(str(k) for k in range(100))
PROGRAM = f"""HloModule m
ENTRY e {{
  x = f32[100] parameter(0)
  c = f32[100] constant({{{_VALUES}}})
  ROOT sum = f32[100] add(x, c)
}}"""

MAIN = """#include <stdint.h>
#include <stdio.h>
typedef struct { const float *x; } args;
typedef struct { float *sum; } results;
int32_t a_rather_long_Name_run(const args *, const results *, void *);
int main(void) {
  static float x[100], sum[100];
  static char workspace[64];
  args a = { x };
  results r = { sum };
  x[1] = 2;
  int code = a_rather_long_Name_run(&a, &r, workspace);
  printf("%d %g %g\\n", code, sum[1], sum[99]);
  return code;
}
"""


def library(machine: str, weights: Weights = Weights.SEPARATE) -> CompiledLibrary:
    source = BuildSource(axla.parse(PROGRAM), (Label("x", "x"),), (Label("sum", "sum"),))
    return build(parse_name("a::rather::long_Name"), [source], target(machine), weights=weights)


def tool(*names: str) -> str:
    for name in names:
        if shutil.which(name):
            return name
    pytest.skip(f"none of {', '.join(names)} is on the PATH")


def written(machine: str, folder, weights: Weights = Weights.SEPARATE) -> str:
    [(name, data)] = archive.write(library(machine, weights)).items()
    assert name == "a_rather_long_Name.a"
    (folder / name).write_bytes(data)
    return name


@pytest.mark.parametrize(
    "machine",
    ["x86-64", "armv7hf", "wasm32", "windows-x86-64", "windows-arm64", "macos-x86-64", "macos-arm64"],
)
def test_tools_list_members_and_symbols(machine, tmp_path):
    name = written(machine, tmp_path)
    listed = subprocess.run(
        [tool("llvm-ar"), "t", name], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert listed.stdout.split() == ["a_rather_long_Name.o", "a_rather_long_Name_weights.o"]
    command = [tool("llvm-nm"), "--print-armap", name]
    table = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace").stdout
    under = "_" if machine.startswith("macos") else ""
    for symbol, member in (("_run", ""), ("_run_frame", ""), ("_weights", "_weights")):
        assert f"{under}a_rather_long_Name{symbol} in a_rather_long_Name{member}.o" in table


def test_gnu_tools_take_it(tmp_path):
    name = written("x86-64", tmp_path)
    listed = subprocess.run([tool("ar"), "t", name], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert listed.stdout.split() == ["a_rather_long_Name.o", "a_rather_long_Name_weights.o"]
    taken = subprocess.run([tool("ar"), "x", name], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not taken.stderr
    assert (tmp_path / "a_rather_long_Name.o").read_bytes() == library("x86-64").image


RUNNERS = {
    "x86-64": ("cc",),
    "aarch64": ("aarch64-linux-gnu-gcc", "qemu-aarch64"),
    "riscv64gc": ("riscv64-linux-gnu-gcc", "qemu-riscv64"),
    "armv7hf": ("arm-linux-gnueabihf-gcc", "qemu-arm"),
}


@pytest.mark.cc
@pytest.mark.parametrize("weights", [Weights.OBJECT, Weights.SEPARATE])
@pytest.mark.parametrize("machine", RUNNERS)
def test_a_program_is_linked_with_it_and_runs(machine, weights, tmp_path):
    """The constants, which LLVM never saw, are where the code looks for them."""
    name = written(machine, tmp_path, weights)
    (tmp_path / "main.c").write_text(MAIN)
    compiler, *emulator = RUNNERS[machine]
    subprocess.run([tool(compiler), "-static", "main.c", name, "-o", "main"], cwd=tmp_path, check=True)
    command = [tool(f"{runner}-static", runner) for runner in emulator] + ["./main"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout == "0 3 99\n"


def test_webassembly_is_linked_with_it(tmp_path):
    name = written("wasm32", tmp_path)
    command = [tool("wasm-ld"), "--no-entry", "--export=a_rather_long_Name_run", name, "-o", "main.wasm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert b"a_rather_long_Name_run" in (tmp_path / "main.wasm").read_bytes()


def test_a_dll_is_linked_with_it(tmp_path):
    name = written("windows-x86-64", tmp_path)
    command = [tool("lld-link"), "/dll", "/noentry", "/nodefaultlib", "/include:a_rather_long_Name_run",
               "/export:a_rather_long_Name_run", name, "/out:main.dll"]  # fmt: skip
    subprocess.run(command, cwd=tmp_path, check=True)
    assert (tmp_path / "main.dll").stat().st_size > 1000


@pytest.mark.parametrize("form", ["elf", "coff", "macho"])
def test_data_is_aligned_and_the_same_every_time(form):
    members = [Member("a.o", b"x" * 5, ("f", "g")), Member("a_name_longer_than_15.o", b"y" * 8, ("h",))]
    data = archive.archive(members, form)
    assert data == archive.archive(members, form)
    step = 8 if form == "macho" else 2
    assert data.index(b"xxxxx") % step == data.index(b"yyyyyyyy") % step == 0
    assert len(data) % step == 0


def test_an_archive_says_what_it_cannot_hold():
    with pytest.raises(UnsupportedError, match="is larger than the format allows"):
        archive._header("a.o", 10**10)
    with pytest.raises(UnsupportedError, match=r"b\.o begins after 4 GiB"):
        archive._offsets([Member("a.o", b"", ()), Member("b.o", b"", ())], 8, [1 << 32, 60])
