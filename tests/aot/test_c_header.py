"""The C header: what it declares compiles without a warning, and calls give the bits of the JIT."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from c_folder import (
    MATMUL,
    STEP,
    STEP_LABELS,
    C,
    compile_c,
    compiler,
    initializer,
    jit,
    library,
    run,
    source,
    write,
)

from axla.aot import header
from axla.aot.build import Label
from axla.aot.c_types import c_type, comment, literal
from axla.aot.library import Weights
from axla.core.dtypes import ALL
from axla.program import abi

pytestmark = pytest.mark.cc

SMALL = """
HloModule m
ENTRY e {
  a = f32[] parameter(0)
  b = f32[1] parameter(1)
  none = f32[0,3] parameter(2)
  c = f32[1] broadcast(a), dimensions={}
  sum = f32[1] add(b, c)
  ROOT all = (f32[1], f32[0,3]) tuple(sum, none)
}
"""


def matmul(name="foo::bar::MatMul"):
    return library(name, source(MATMUL, ("x", "y"), ("z",)))


def test_a_call_gives_the_bits_of_the_jit(tmp_path):
    write(tmp_path, matmul())
    x = np.linspace(-1, 2, 6, dtype=np.float32).reshape(2, 3)
    y = np.linspace(3, -5, 6, dtype=np.float32).reshape(3, 2)
    (tmp_path / "t.c").write_text(f"""
#include "foo_bar_MatMul.h"
#include <stdio.h>
#include <string.h>
int main(void) {{
  static const unsigned char xs[] = {initializer(x)}, ys[] = {initializer(y)};
  float x[foo_bar_MatMul_ARG_x_COUNT], y[foo_bar_MatMul_ARG_y_SIZE / sizeof(float)], z[4];
  foo_bar_MatMul_args args = {{ x, y }};
  foo_bar_MatMul_results results = {{ z }};
  memcpy(x, xs, sizeof xs);
  memcpy(y, ys, sizeof ys);
  if (foo_bar_MatMul_NUM_ARGS != 2 || foo_bar_MatMul_NUM_RESULTS != 1) return 1;
  if (foo_bar_MatMul_WORKSPACE_SIZE != 0 || foo_bar_MatMul_RESULT_z_SIZE != sizeof z) return 2;
  if (foo_bar_MatMul_run(&args, &results, NULL) != AXLA_OK) return 3;
  fwrite(z, 1, sizeof z, fopen("z", "wb"));
  return strcmp(foo_bar_MatMul_error(AXLA_OK), "success") + strcmp(foo_bar_MatMul_error(77), "unknown error");
}}
""")
    run(compile_c(tmp_path, "t.c", "foo_bar_MatMul.o"))
    assert (tmp_path / "z").read_bytes() == jit(MATMUL, [x, y])[0].tobytes()


@pytest.mark.parametrize(
    "using, names",
    [("gcc", ("axla_abi", "Small", "foo_bar_MatMul")), ("clang", ("foo_bar_MatMul", "axla_abi", "Small"))],
    ids=["gcc", "clang"],
)
@pytest.mark.parametrize("standard", ["c99", "c11", "c++11", "c++17", "c++20"])
def test_headers_compile_in_any_order_and_beside_that_of_custom_calls(tmp_path, using, names, standard):
    write(tmp_path, matmul())
    write(tmp_path, library("Small", source(SMALL, ("a", "b", "none"), ("sum", "same"))))
    (tmp_path / "axla_abi.h").write_text(abi.c_header())
    language = "c++" if standard.startswith("c++") else "c"
    strict = (*C[1:], "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wundef")
    command = [compiler("c", using), "-x", language, f"-std={standard}", *strict, "-fsyntax-only", "t.c"]
    endings = {name: "hpp" if language == "c++" and name != "axla_abi" else "h" for name in names}
    (tmp_path / "t.c").write_text("".join(f'#include "{name}.{endings[name]}"\n' for name in names))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_scalars_single_elements_and_empty_arrays(tmp_path):
    write(tmp_path, library("Small", source(SMALL, ("a", "b", "none"), ("sum", "same"))))
    (tmp_path / "t.c").write_text("""
#include "Small.h"
int main(void) {
  float a = 1.5f, b = 2.25f, sum = 0, nothing = 0;
  Small_args args = { &a, &b, &nothing };
  Small_results results = { &sum, &nothing };
  if (Small_ARG_a_COUNT != 1 || Small_ARG_none_COUNT != 0 || Small_ARG_none_SIZE != 0) return 1;
  return Small_run(&args, &results, NULL) != AXLA_OK || sum != 3.75f;
}
""")
    run(compile_c(tmp_path, "t.c", "Small.o"))


def test_the_frame_has_the_results_of_the_struct():
    """And none that is written in place of a variable: `strict_memory.h` calls so."""
    text = header.text(library("Step", source(STEP, *STEP_LABELS)))
    assert "results; /* addresses of the results, as in S_results (no variables) */" in text


def test_variables_are_written_in_place_and_the_rest_is_const(tmp_path):
    lib = library("Step", source(STEP, *STEP_LABELS))
    text = header.text(lib)
    assert "  float *w; /* f32[4,3]: params['w'] (variable) */" in text
    assert "  const float *scale; /* f32[3] (readonly variable) */" in text
    assert "#define Step_NUM_RESULTS 1\n" in text
    write(tmp_path, lib)
    w, x, scale = (
        np.random.default_rng(k).normal(size=s).astype(np.float32) for k, s in enumerate([(4, 3), (5, 4), 3])
    )
    (tmp_path / "t.c").write_text(f"""
#include "Step.h"
#include <stdio.h>
#include <string.h>
int main(void) {{
  static const unsigned char ws[] = {initializer(w)}, xs[] = {initializer(x)}, ss[] = {initializer(scale)};
  float w[12], x[20], scale[3], y[15];
  static char memory[Step_WORKSPACE_SIZE + 64];
  Step_args args = {{ w, x, scale }};
  Step_results results = {{ y }};
  FILE *out = fopen("out", "wb");
  memcpy(w, ws, sizeof w);
  memcpy(x, xs, sizeof x);
  memcpy(scale, ss, sizeof scale);
  for (int k = 0; k < 3; ++k) {{
    if (Step_run(&args, &results, memory + (64 - (uintptr_t)memory % 64) % 64) != AXLA_OK) return 1;
    fwrite(y, 1, sizeof y, out);
    fwrite(w, 1, sizeof w, out);
  }}
  return 0;
}}
""")
    run(compile_c(tmp_path, "t.c", "Step.o"))
    wanted = b""
    for _ in range(3):
        y, w = jit(STEP, [w, x, scale])
        wanted += y.tobytes() + w.tobytes()
    assert (tmp_path / "out").read_bytes() == wanted


def test_batches_call_the_function_for_their_rows(tmp_path):
    def rows(n):
        text = f"HloModule m\nENTRY e {{ x = f32[{n},3] parameter(0) ROOT y = f32[{n},3] negate(x) }}"
        return source(text, ("x",), ("y",), suffix=f"b{n}", rows=n)

    write(tmp_path, library("ns::Net", rows(4), rows(1)))
    (tmp_path / "t.c").write_text("""
#include "ns_Net.h"
int main(void) {
  float x[12], y[12] = {0};
  ns_Net_batch_args args = { x };
  ns_Net_batch_results results = { y };
  char memory[ns_Net_BATCH_WORKSPACE_SIZE + 1];
  for (int k = 0; k < 12; ++k) x[k] = (float)k;
  if (ns_Net_run_batch(1, &args, &results, memory) != AXLA_OK || y[2] != -2 || y[3] != 0) return 1;
  if (ns_Net_run_batch(4, &args, &results, memory) != AXLA_OK || y[11] != -11) return 2;
  return ns_Net_run_batch(3, &args, &results, memory) != AXLA_NO_BATCH;
}
""")
    run(compile_c(tmp_path, "t.c", "ns_Net.o"))


def test_weights_of_a_side_file_are_the_last_argument(tmp_path):
    numbers = np.arange(100, dtype=np.float32) % 7
    text = f"""HloModule m
ENTRY e {{
  x = f32[100] parameter(0)
  w = f32[100] constant({{{", ".join(f"{n}" for n in numbers)}}})
  ROOT y = f32[100] multiply(x, w)
}}"""
    lib = library("Net", source(text, ("x",), ("y",)), weights=Weights.FILE)
    assert len(lib.constants) >= 400
    write(tmp_path, lib)
    (tmp_path / "weights").write_bytes(lib.constants)
    (tmp_path / "t.c").write_text("""
#include "Net.h"
#include <stdio.h>
int main(void) {
  static union { char bytes[Net_WEIGHTS_SIZE + 64]; double align; } file;
  char *weights = file.bytes + (64 - (uintptr_t)file.bytes % 64) % 64;
  float x[100], y[100];
  Net_args args = { x };
  Net_results results = { y };
  if (fread(weights, 1, Net_WEIGHTS_SIZE, fopen("weights", "rb")) != Net_WEIGHTS_SIZE) return 1;
  for (int k = 0; k < 100; ++k) x[k] = 2;
  if (Net_run(&args, &results, NULL, weights) != AXLA_OK) return 2;
  for (int k = 0; k < 100; ++k) if (y[k] != 2 * (float)(k % 7)) return 3;
  return 0;
}
""")
    run(compile_c(tmp_path, "t.c", "Net.o"))


def test_every_element_type_has_a_c_type_of_its_size(tmp_path):
    names = [c_type(dtype) for dtype in ALL]
    assert "float" in names and "axla_f8e4m3fn" in names and "uint64_t" in names and "int8_t" in names
    lines = [f"typedef char t{k}[sizeof({c_type(d)}) == {d.itemsize} ? 1 : -1];" for k, d in enumerate(ALL)]
    write(tmp_path, matmul())
    text = "\n".join(['#include "foo_bar_MatMul.h"', *lines, "int main(void) { return 0; }", ""])
    (tmp_path / "t.c").write_text(text)
    compile_c(tmp_path, "t.c")


def test_halves_are_converted_as_numpy_does(tmp_path):
    import ml_dtypes

    write(tmp_path, matmul())
    (tmp_path / "t.c").write_text("""
#include "foo_bar_MatMul.h"
#include <stdio.h>
int main(void) {
  FILE *in = fopen("in", "rb"), *out = fopen("out", "wb");
  float f;
  for (uint32_t k = 0; k < 65536; ++k) {
    axla_f16 h = { (uint16_t)k };
    axla_bf16 b = { (uint16_t)k };
    float parts[2];
    parts[0] = axla_f16_to_float(h);
    parts[1] = axla_bf16_to_float(b);
    fwrite(parts, 4, 2, out);
  }
  while (fread(&f, 4, 1, in) == 1) {
    axla_f16 h = axla_f16_from_float(f);
    axla_bf16 b = axla_bf16_from_float(f);
    fwrite(&h, 2, 1, out);
    fwrite(&b, 2, 1, out);
  }
  return 0;
}
""")
    every = np.arange(65536, dtype=np.uint16)
    halves = every.view(np.float16).astype(np.float32)
    rng = np.random.default_rng(0)
    middles = (halves.view(np.uint32)[:, None] + np.array([0, 1, -1, 0x1000, 0xFFF, 0x1001])).astype(
        np.uint32
    )
    brains = (every.astype(np.uint32) << 16)[:, None] + np.array([0x7FFF, 0x8000, 0x8001], np.uint32)
    bits = np.concatenate(
        [middles.ravel(), brains.ravel().astype(np.uint32), rng.integers(0, 1 << 32, 50000, np.uint32)]
    )
    floats = bits.view(np.float32)
    (tmp_path / "in").write_bytes(floats.tobytes())
    run(compile_c(tmp_path, "t.c"))
    data = (tmp_path / "out").read_bytes()
    found = np.frombuffer(data, np.float32, 2 * 65536).reshape(-1, 2)
    brain = (every.astype(np.uint32) << 16).view(np.float32)
    for column, wanted in ((0, halves), (1, brain)):
        nan = np.isnan(wanted)
        assert np.array_equal(np.isnan(found[:, column]), nan)
        assert np.array_equal(found[~nan, column].view(np.uint32), wanted[~nan].view(np.uint32))
    narrow = np.frombuffer(data, np.uint16, offset=8 * 65536).reshape(-1, 2)
    with np.errstate(all="ignore"):
        wanted_types = (floats.astype(np.float16), floats.astype(ml_dtypes.bfloat16))
    for column, wanted in enumerate(wanted_types):
        here, nan = narrow[:, column], np.isnan(floats)
        assert np.array_equal(here[~nan], wanted.view(np.uint16)[~nan])
        assert np.isnan(here[nan].view(wanted.dtype).astype(np.float32)).all()


def test_strings_and_comments_hold_any_text(tmp_path):
    texts = ['a "b" \\ c', "what??/ */ /* \\", "line\nbreak\ttab", "ünï ∞", ""]
    write(tmp_path, matmul())
    lines = [f"  /* {comment(text)} */ fputs({literal(text)}, out); fputc(0, out);" for text in texts]
    head = ['#include "foo_bar_MatMul.h"', "#include <stdio.h>", "int main(void) {"]
    code = [*head, '  FILE *out = fopen("out", "wb");', *lines, "  return 0;", "}", ""]
    (tmp_path / "t.c").write_text("\n".join(code))
    run(compile_c(tmp_path, "t.c"))
    assert (tmp_path / "out").read_bytes() == b"".join(text.encode() + b"\0" for text in texts)


def test_labels_cannot_end_a_comment(tmp_path):
    labels = (Label("x", "*/ int bad; /*"), Label("y", "line\nbreak ??/"))
    write(tmp_path, library("M", source(MATMUL, labels, ("z",))))
    (tmp_path / "t.c").write_text('#include "M.h"\nint main(void) { return 0; }\n')
    compile_c(tmp_path, "t.c")
