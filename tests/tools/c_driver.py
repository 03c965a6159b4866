"""Calls objects from C with a frame: a program that reads parameters from a file and writes results, of one
program after the other.

driver INPUTS OUTPUTS
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from axla.aot.objects import ObjectCode
from axla.core.literal import bytes_in
from axla.program.abi import c_header
from axla.program.interface import Interface
from qemu import skip_where_qemu_fails

HEAD = """
#include <stdio.h>
#include <stdlib.h>
%(header)s

static int32_t serial(axla_frame *frame, axla_kernel *kernel, void *args, int64_t count, int64_t grain) {
  for (int64_t begin = 0; begin < count; begin += grain) {
    int32_t code = kernel(frame, args, begin, begin + grain < count ? begin + grain : count);
    if (code) return code;
  }
  return 0;
}

static void *room(size_t bytes) {
  void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (!memory) exit(3);
  return memory;
}

static void contents(FILE *file, const size_t *sizes, int count, void **parts) {
  for (int i = 0; i < count; ++i) {
    parts[i] = room(sizes[i]);
    if (fread(parts[i], 1, sizes[i], file) != sizes[i]) exit(5);
  }
}
"""
PROGRAM = """
int32_t %(symbol)s_run_frame(axla_frame *frame);

static void call_%(symbol)s(FILE *in, FILE *out) {
  static const size_t parameter_bytes[] = {%(parameters)s}, result_bytes[] = {%(results)s};
  static const int alias[] = {%(alias)s};
  static const int32_t never = 0;
  void *arguments[%(np)s + 1], *results[%(nr)s + 1];
  contents(in, parameter_bytes, %(np)s, arguments);
  axla_frame frame = {0};
  frame.version = AXLA_FRAME_VERSION;
  for (int i = 0; i < %(nr)s; ++i) results[i] = alias[i] < 0 ? room(result_bytes[i]) : arguments[alias[i]];
  frame.arguments = arguments;
  frame.results = results;
  frame.workspace = room(%(workspace)s);
  frame.parallel_for = serial;
  frame.cancel = &never;
  int32_t code = %(symbol)s_run_frame(&frame);
  if (code) { fprintf(stderr, "%(symbol)s: code %%d\\n", (int)code); exit(1); }
  for (int i = 0; i < %(nr)s; ++i) fwrite(results[i], 1, result_bytes[i], out);
}
"""
MAIN = """
int main(int argc, char **argv) {
  FILE *in = argc == 3 ? fopen(argv[1], "rb") : NULL, *out = in ? fopen(argv[2], "wb") : NULL;
  if (!out) return 2;
  %s
  return fclose(out);
}
"""


def source(programs: dict[str, Interface]) -> str:
    """The C program for compiled programs, by symbol."""
    parts = [HEAD % {"header": c_header()}]
    for symbol, interface in programs.items():
        alias = {a.result: a.parameter for a in interface.aliases}
        number = lambda values: ", ".join(map(str, values)) or "0"  # noqa: E731
        parts.append(PROGRAM % {
            "symbol": symbol,
            "parameters": number(p.bytes for p in interface.parameters),
            "results": number(r.bytes for r in interface.results),
            "alias": number(alias.get(k, -1) for k in range(len(interface.results))),
            "np": len(interface.parameters),
            "nr": len(interface.results),
            "workspace": interface.workspace_bytes,
        })  # fmt: skip
    return "".join([*parts, MAIN % "\n  ".join(f"call_{symbol}(in, out);" for symbol in programs)])


def run(
    folder: Path,
    code: ObjectCode,
    inputs: Sequence[np.ndarray],
    compiler: Sequence[str],
    runner: Sequence[str] = (),
) -> list[np.ndarray]:
    """Compiles the driver, links it with the object `program` and runs it; gives the results."""
    return run_all(folder, {"program": (code, inputs)}, compiler, runner)["program"]


def run_all(
    folder: Path,
    programs: dict[str, tuple[ObjectCode, Sequence[np.ndarray]]],
    compiler: Sequence[str],
    runner: Sequence[str] = (),
) -> dict[str, list[np.ndarray]]:
    """The results of programs of one target, each an object whose symbol is its name, run by one driver."""
    for symbol, (code, _) in programs.items():
        (folder / f"{symbol}.o").write_bytes(code.image)
    (folder / "driver.c").write_text(
        source({symbol: code.interface for symbol, (code, _) in programs.items()})
    )
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-static"]
    subprocess.run(
        [*compiler, *flags, "driver.c", *(f"{symbol}.o" for symbol in programs), "-o", "driver"],
        check=True, cwd=folder,
    )  # fmt: skip
    with open(folder / "inputs", "wb") as file:
        for code, inputs in programs.values():
            file.writelines(bytes_in(array, code.target.form.byte_order) for array in inputs)
    names = [str(folder / name) for name in ("driver", "inputs", "outputs")]
    done = subprocess.run([*runner, *names], capture_output=True, text=True, timeout=120)
    skip_where_qemu_fails(done.stderr)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    data, at = (folder / "outputs").read_bytes(), 0
    found: dict[str, list[np.ndarray]] = {}
    for symbol, (code, _) in programs.items():
        found[symbol] = []
        for spec in code.interface.results:
            dtype = spec.shape.dtype.numpy
            there = np.frombuffer(data, dtype, spec.shape.size, at)
            here = np.frombuffer(bytes_in(there, code.target.form.byte_order), dtype)
            found[symbol].append(here.reshape(spec.shape.dims))
            at += spec.bytes
    return found
