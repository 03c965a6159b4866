"""Custom calls ahead of time: functions of a name, which the user of the library links."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from c_folder import compile_c, compile_cpp, compiler, run

import axla
from axla.aot.compiling import library_of
from axla.aot.header import text as header_text
from axla.aot.options import Options
from axla.codegen.object_files import symbols
from axla.core.errors import InvalidArgument, UnsupportedError
from axla.tools.main import main

TEXT = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  y = f32[2,3] parameter(1)
  c = f32[3,3] custom-call(x, y), custom_call_target="myfunc"
  p = (f32[2], f32[]) custom-call(x), custom_call_target="pair"
  s = f32[] get-tuple-element(p), index=1
  b = f32[3,3] broadcast(s), dimensions={}
  ROOT r = f32[3,3] add(c, b)
}
"""
FUNCTIONS = """
void myfunc(void *out, void **in) {
  float *x = in[0], *y = in[1], *z = out;
  for (int k = 0; k < 9; k++) z[k] = (float)k;
  z[0] = x[1] + y[3];
}
void pair(void *out, void **in) {
  float **both = out;
  both[0][0] = both[0][1] = 0;
  both[1][0] = 1000 * ((float *)in[0])[0];
}
"""
MAIN = """
#include "calling.h"
#include <stdio.h>
int main(void) {
  static unsigned char workspace[calling_WORKSPACE_SIZE + 1] __attribute__((aligned(64)));
  float x[2] = {1, 2}, y[6] = {10, 20, 30, 40, 50, 60}, z[9];
  calling_args args = {x, y};
  calling_results results = {z};
  if (calling_run(&args, &results, workspace) != AXLA_OK) return 1;
  for (int k = 0; k < 9; k++) printf("%g ", z[k]);
  return 0;
}
"""
EXTERNALS = ["myfunc", "pair"]
WANTED = "1042 1001 1002 1003 1004 1005 1006 1007 1008"


@pytest.mark.cc
def test_functions_of_the_user_are_called(tmp_path):
    axla.aot.compile(TEXT, out=tmp_path, name="calling", externals=EXTERNALS)
    (tmp_path / "functions.c").write_text(FUNCTIONS)
    (tmp_path / "main.c").write_text(MAIN)
    assert run(compile_c(tmp_path, "main.c", "functions.c", "calling.o")).split() == WANTED.split()
    code = FUNCTIONS.replace("= in", "= (float *)in").replace("**both = out", "**both = (float **)out")
    code = code.replace("z = out", "z = (float *)out")
    (tmp_path / "functions.cpp").write_text(f'#include "calling.hpp"\n{code}')
    (tmp_path / "example.cpp").write_text(MAIN)
    assert run(compile_cpp(tmp_path, "example.cpp", "functions.cpp", "calling.o")).split() == WANTED.split()
    assert (
        "  external myfunc, pair   functions that you link" in (tmp_path / "calling_report.txt").read_text()
    )


@pytest.mark.cc
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not on the PATH")
def test_cmake_links_what_has_them(tmp_path):
    axla.aot.compile(TEXT, out=tmp_path / "library", name="calling", externals=EXTERNALS)
    (tmp_path / "functions.c").write_text(FUNCTIONS)
    archive = tmp_path / "libfunctions.a"
    commands = [
        [compiler("c"), "-c", "functions.c"],
        ["ar", "rcs", archive, "functions.o"],
        ["cmake", "-S", "library", "-B", "build", f"-Dcalling_EXTERNALS={archive}"],
        ["cmake", "--build", "build"],
        ["build/calling_test"],
    ]
    for command in commands:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "target", ["x86-64", "aarch64", "cortex-m4f", "wasm32", "windows-x86-64", "macos-arm64"]
)
def test_every_target_needs_these_symbols_alone(target):
    library, _ = library_of(TEXT, None, Options(target=target, name="calling", externals=EXTERNALS))
    assert symbols(library.image).needed == set(EXTERNALS)
    assert "void myfunc(void *out, void **in);\nvoid pair(void *out, void **in);" in header_text(library)


def test_the_self_test_records_what_is_registered_here(tmp_path):
    axla.register_custom_call("half", lambda x: x / 2)
    try:
        text = (
            'ENTRY e { x = f32[2] parameter(0)\nROOT c = f32[2] custom-call(x), custom_call_target="half" }'
        )
        axla.aot.compile(text, out=tmp_path / "a", externals=["half"])
        assert "static const" in (tmp_path / "a" / "model_test.c").read_text()
    finally:
        axla.unregister_custom_call("half")
    axla.aot.compile(text, out=tmp_path / "b", externals=["half"])
    assert len((tmp_path / "b" / "model_test.c").read_text()) < len(
        (tmp_path / "a" / "model_test.c").read_text()
    )


def test_in_the_shell(tmp_path, capsys):
    (tmp_path / "f.hlo").write_text(TEXT)
    arguments = [
        "compile",
        str(tmp_path / "f.hlo"),
        "-o",
        str(tmp_path / "out"),
        "--externals",
        "myfunc,pair",
    ]
    assert main(arguments) == 0
    assert "void pair(void *out, void **in);" in (tmp_path / "out" / "model.h").read_text()


@pytest.mark.parametrize(
    ("externals", "message"),
    [
        ([3], "found 3, wanted a string"),
        (["my-func"], "'my-func' is not an identifier"),
        ("myfunc", "wanted a sequence"),
    ],
)
def test_names_that_are_none(externals, message, tmp_path):
    with pytest.raises(InvalidArgument, match=message):
        axla.aot.compile(TEXT, out=tmp_path, externals=externals)


def test_what_is_called_in_another_way_is_refused(tmp_path):
    text = TEXT.replace('"pair"', '"pair", api_version=API_VERSION_STATUS_RETURNING')
    with pytest.raises(UnsupportedError, match="is of API_VERSION_STATUS_RETURNING; externals are called as"):
        axla.aot.compile(text, out=tmp_path, externals=EXTERNALS)


def test_registered_functions_lead_to_the_option(tmp_path):
    axla.register_custom_call("myfunc", lambda x, y: np.zeros((3, 3), np.float32))
    try:
        with pytest.raises(
            UnsupportedError, match=r"externals=\['myfunc'\] makes it a function that its user links"
        ):
            axla.aot.compile(TEXT, out=tmp_path, externals=["pair"])
    finally:
        axla.unregister_custom_call("myfunc")


def test_python_does_not_load_what_a_linker_has_to_complete(tmp_path):
    axla.aot.compile(TEXT, out=tmp_path, name="calling", target="x86-64", externals=EXTERNALS)
    with pytest.raises(UnsupportedError, match="calls myfunc, pair, so only a linker can use it"):
        axla.aot.load(tmp_path)
