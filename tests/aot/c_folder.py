"""Libraries as files in a folder, and C and C++ programs that are compiled and run there."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import axla
from axla.aot import cpp, header, programs
from axla.aot.build import BuildSource, Label, build
from axla.aot.library import CompiledLibrary, Weights
from axla.aot.names import parse_name
from axla.target.names import target

C = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
CPP = ("-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fno-exceptions", "-fno-rtti")
TARGET = "x86-64"

MATMUL = """
HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  y = f32[3,2] parameter(1)
  ROOT z = f32[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""

# A step of training: `w` is written in place, `scale` is kept and only read.
STEP = """
HloModule step, input_output_alias={ {1}: (0, {}, must-alias) }
ENTRY e {
  w = f32[4,3] parameter(0)
  x = f32[5,4] parameter(1)
  scale = f32[3] parameter(2)
  y = f32[5,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  scales = f32[5,3] broadcast(scale), dimensions={1}
  scaled = f32[5,3] multiply(y, scales)
  gradient = f32[4,3] dot(x, scaled), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  rate = f32[] constant(0.125)
  rates = f32[4,3] broadcast(rate), dimensions={}
  change = f32[4,3] multiply(gradient, rates)
  new = f32[4,3] subtract(w, change)
  ROOT all = (f32[5,3], f32[4,3]) tuple(scaled, new)
}
"""
STEP_LABELS = (
    (Label("w", "params['w']", True), Label("x", "x"), Label("scale", "scale", True)),
    ("y", "new_w"),
)


def compiler(language: str, wanted: str | None = None) -> str:
    """A compiler on the PATH; skips where there is none, or where objects for x86-64 do not run."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("objects for x86-64 run on x86-64 only")
    names = [wanted] if wanted else {"c": ["cc", "gcc", "clang"], "c++": ["c++", "g++", "clang++"]}[language]
    for name in names:
        if shutil.which(name):
            return name
    pytest.skip(f"{' or '.join(names)} is not on the PATH")


def source(text: str, arguments: Sequence[str | Label], results: Sequence[str], **rest) -> BuildSource:
    """A source with names for its parameters and results."""
    given = tuple(a if isinstance(a, Label) else Label(a, a) for a in arguments)
    return BuildSource(axla.parse(text), given, tuple(Label(name, name) for name in results), **rest)


def library(name: str, *sources: BuildSource, weights: Weights = Weights.OBJECT) -> CompiledLibrary:
    return build(parse_name(name), sources, target(TARGET), weights=weights)


def write(folder: Path, lib: CompiledLibrary, recordings=()) -> Path:
    """Writes headers, programs and objects."""
    parts = (header.write(lib), cpp.write(lib), programs.write(lib, recordings))
    for name, contents in (item for part in parts for item in part.items()):
        (folder / name).write_bytes(contents.encode() if isinstance(contents, str) else contents)
    (folder / f"{lib.prefix}.o").write_bytes(lib.image)
    if lib.weights is Weights.SEPARATE:
        (folder / f"{lib.prefix}_weights.o").write_bytes(lib.constants_image)
    return folder


def compile_c(
    folder: Path, name: str, *inputs: str, using: str | None = None, flags: Sequence[str] = ()
) -> Path:
    """Compiles a C program and links it with objects of the folder."""
    return _compile(compiler("c", using), C, folder, name, inputs, flags)


def compile_cpp(
    folder: Path, name: str, *inputs: str, using: str | None = None, flags: Sequence[str] = ()
) -> Path:
    """Compiles a C++ program and links it with objects of the folder."""
    return _compile(compiler("c++", using), CPP, folder, name, inputs, flags)


def _compile(command, standard, folder, name, inputs, flags) -> Path:
    binary = (folder / name).with_suffix("")
    done = subprocess.run(
        [command, *standard, *flags, name, *inputs, "-o", binary, "-pthread"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return binary


def run(binary: Path, *arguments: str, status: int = 0) -> str:
    """Runs a program; returns what it prints."""
    done = subprocess.run(
        [binary, *arguments], cwd=binary.parent, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def jit(text: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of the JIT for the same target."""
    found = axla.compile(axla.parse(text), target_cpu=TARGET).execute(list(inputs))
    return [np.asarray(array) for array in found]


def initializer(array: np.ndarray) -> str:
    """An array's bytes for C."""
    return "{" + ",".join(map(str, array.tobytes())) + "}"
