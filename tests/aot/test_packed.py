"""int4 at the boundary: two elements a byte where that is asked for."""

from __future__ import annotations

import re
import subprocess

import ml_dtypes
import numpy as np
import pytest
from c_folder import CPP, compile_c, compile_cpp, compiler, run

import axla
import axla.aot
from axla.aot.packed import _bytes
from axla.tools import main as command

# Tuples, odd numbers of elements, no elements, a variable that is written in place.
TEXT = """
HloModule m, input_output_alias={ {1, 0}: (1, {}, must-alias) }
ENTRY e {
  p = (s4[3,5], f32[2]) parameter(0)
  state = u4[4] parameter(1)
  one = s4[] parameter(2)
  none = u4[0] parameter(3)
  x = s4[3,5] get-tuple-element(p), index=0
  f = f32[2] get-tuple-element(p), index=1
  y = s4[3,5] negate(x)
  more = u4[4] add(state, state)
  wide = s8[3,5] convert(x)
  s = s4[] add(one, one)
  inner = (u4[4], s4[]) tuple(more, s)
  ROOT all = (s4[3,5], (u4[4], s4[]), s8[3,5], f32[2], u4[0]) tuple(y, inner, wide, f, none)
}
"""
NAMES = (["x", "f", "state", "one", "none"], ["y", "next", "s", "wide", "g", "nothing"])


def pack(array: np.ndarray) -> np.ndarray:
    """By the rule that the header states, one element at a time."""
    flat = [int(value) & 15 for value in array.ravel()]
    found = np.zeros((len(flat) + 1) // 2, np.uint8)
    for k, value in enumerate(flat):
        found[k // 2] |= value << 4 * (k % 2)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("packed")
    axla.aot.compile(TEXT, out=out, name="P", names=NAMES, pack_int4=True)
    return out


def arrays() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(7)
    x = rng.integers(-8, 8, (3, 5)).astype(ml_dtypes.int4)
    state = rng.integers(0, 16, 4).astype(ml_dtypes.uint4)
    return x, np.float32([1.5, -2]), state, np.array(-3, ml_dtypes.int4), np.zeros(0, ml_dtypes.uint4)


def test_arrays_of_python_are_packed_by_the_same_rule():
    for array in arrays():
        wanted = array if array.dtype == np.float32 else pack(array)
        assert np.array_equal(_bytes(array), wanted)


def test_a_call_has_the_values_of_the_program_that_is_not_packed(folder):
    given = arrays()
    x, f, state, one, none = given
    _, more, double, *_ = axla.compile(axla.parse(TEXT)).execute(list(given))
    function = axla.aot.load(folder)["P"]
    function.variables["state"][...] = pack(state)
    y, s, wide, g, nothing = function(pack(x), f, pack(one), pack(none))
    assert np.array_equal(y, pack(-x)) and y.dtype == np.uint8 and y[-1] >> 4 == 0
    assert np.array_equal(s, pack(np.asarray(double)))
    assert np.array_equal(wide, x.astype(np.int8)) and np.array_equal(g, f) and nothing.shape == (0,)
    assert np.array_equal(function.variables["state"], pack(np.asarray(more)))
    raised = pack(x)
    raised[-1] |= 0xF0  # behind the last element: does not count
    assert np.array_equal(function(raised, f, pack(one), pack(none))[0], y)


def test_the_header_says_the_order_and_the_shapes(folder):
    text = (folder / "P.h").read_text()
    said = re.sub(r"\s*\n \*\s*", " ", text)
    assert (
        "two elements a byte, in row-major order: element 0 in the low four bits of byte 0, element 1" in said
    )
    assert "const uint8_t *x; /* s4[3,5] packed in u8[8]: p[0] */" in text
    assert "uint8_t *state; /* u4[4] packed in u8[2] (variable) */" in text
    assert "int8_t *wide; /* s8[3,5] */" in text
    assert "#define P_ARG_x_SIZE 8u" in text and "#define P_ARG_none_SIZE 0u" in text
    plain = axla.aot.compile(TEXT, out=folder / "plain", name="P", names=NAMES, self_test=False)
    assert "packed" not in (plain.folder / "P.h").read_text().lower()
    assert "const int8_t *x; /* s4[3,5]: p[0] */" in (plain.folder / "P.h").read_text()


@pytest.mark.cc
def test_programs_of_the_folder_run(folder):
    run(compile_c(folder, "example.c", "P.o"))
    assert "PASSED" in run(compile_c(folder, "P_test.c", "P.o"))
    (folder / "t.cc").write_text("""
#include <cstdio>
#include "P.hpp"
int main() {
  P p;
  p.arg_x(0) = 0x21; /* elements 1 and 2 */
  p.var_state(1) = 0x70;
  if (!p.Run()) return 1;
  std::printf("%x %x %d %d\\n", p.result_y(0), p.var_state(1), p.result_wide(0, 0), p.result_wide(0, 1));
}
""")
    assert run(compile_cpp(folder, "t.cc", "P.o")) == "ef e0 1 2\n"


def test_the_command_packs_and_batches_together(tmp_path):
    (tmp_path / "f.mlir").write_text("""func.func @main(%x: tensor<?x3xi4>) -> tensor<?x3xi4> {
  %0 = stablehlo.add %x, %x : tensor<?x3xi4>
  return %0 : tensor<?x3xi4>
}""")
    line = ["compile", str(tmp_path / "f.mlir"), "-o", str(tmp_path / "out"), "--pack-int4", "--name=f"]
    assert command.main([*line, "--rows=1,5", "--arg-types=s4[rows,3]", "--target=cortex-m4f"]) == 0
    text = (tmp_path / "out" / "f.h").read_text()
    assert "s4[1,3] packed in u8[2]" in text and "s4[5,3] packed in u8[8]" in text
    for name in ("f.h", "f.hpp"):
        line = [compiler("c++"), *CPP, "-x", "c++", "-fsyntax-only", "-Wno-pragma-once-outside-header", name]
        subprocess.run(line, cwd=tmp_path / "out", check=True)


def test_a_program_without_int4_is_the_same(tmp_path):
    text = "HloModule m\nENTRY e { x = f32[3] parameter(0) ROOT y = (f32[3]) tuple(x) }"
    for out, pack_int4 in (("a", False), ("b", True)):
        axla.aot.compile(text, out=tmp_path / out, pack_int4=pack_int4)
    assert (tmp_path / "a" / "model.o").read_bytes() == (tmp_path / "b" / "model.o").read_bytes()
