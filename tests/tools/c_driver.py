"""Calls an object of `axla compile` from C: a program that reads parameters from a file and writes results.

driver INPUTS CONSTANTS OUTPUTS
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from axla.program.interface import Interface

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include "%(header)s"

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

static void *contents(const char *path, const size_t *sizes, int count, void **parts) {
  FILE *file = fopen(path, "rb");
  void *last = 0;
  if (!file) exit(4);
  for (int i = 0; i < count; ++i) {
    last = room(sizes[i]);
    if (fread(last, 1, sizes[i], file) != sizes[i]) exit(5);
    if (parts) parts[i] = last;
  }
  fclose(file);
  return last;
}

int main(int argc, char **argv) {
  static const size_t parameter_bytes[] = {%(parameters)s}, result_bytes[] = {%(results)s};
  static const size_t constants_bytes[] = {%(constants)s};
  static const int alias[] = {%(alias)s};
  static const int32_t never = 0;
  void *arguments[%(np)s + 1], *results[%(nr)s + 1];
  if (argc != 4) return 2;
  contents(argv[1], parameter_bytes, %(np)s, arguments);
  axla_frame frame = {0};
  frame.version = AXLA_FRAME_VERSION;
  frame.constants = contents(argv[2], constants_bytes, 1, 0);
  for (int i = 0; i < %(nr)s; ++i) results[i] = alias[i] < 0 ? room(result_bytes[i]) : arguments[alias[i]];
  frame.arguments = arguments;
  frame.results = results;
  frame.workspace = room(%(workspace)s);
  frame.parallel_for = serial;
  frame.cancel = &never;
  int32_t code = axla_entry(&frame);
  if (code) { fprintf(stderr, "code %%d\\n", (int)code); return 1; }
  FILE *out = fopen(argv[3], "wb");
  for (int i = 0; i < %(nr)s; ++i) fwrite(results[i], 1, result_bytes[i], out);
  return fclose(out);
}
"""


def source(interface: Interface, header: str) -> str:
    """The C program for a compiled program."""
    alias = {a.result: a.parameter for a in interface.aliases}
    number = lambda values: ", ".join(map(str, values)) or "0"  # noqa: E731
    return SOURCE % {
        "header": header,
        "parameters": number(p.bytes for p in interface.parameters),
        "results": number(r.bytes for r in interface.results),
        "constants": interface.constants_bytes,
        "alias": number(alias.get(k, -1) for k in range(len(interface.results))),
        "np": len(interface.parameters),
        "nr": len(interface.results),
        "workspace": interface.workspace_bytes,
    }


def run(
    folder: Path,
    interface: Interface,
    inputs: Sequence[np.ndarray],
    compiler: Sequence[str],
    runner: Sequence[str] = (),
) -> list[np.ndarray]:
    """Compiles the driver for `folder`/program.o, links and runs it; gives the results."""
    (folder / "driver.c").write_text(source(interface, "program.h"))
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-static"]
    program = folder / "driver"
    subprocess.run(
        [*compiler, *flags, str(folder / "driver.c"), str(folder / "program.o"), "-o", str(program)],
        check=True,
    )
    (folder / "inputs").write_bytes(b"".join(np.ascontiguousarray(a).tobytes() for a in inputs))
    if not (folder / "program.constants").exists():
        (folder / "program.constants").write_bytes(b"")
    names = [str(folder / name) for name in ("inputs", "program.constants", "outputs")]
    subprocess.run([*runner, str(program), *names], check=True, timeout=120)
    data, results, at = (folder / "outputs").read_bytes(), [], 0
    for spec in interface.results:
        array = np.frombuffer(data, spec.shape.dtype.numpy, spec.shape.size, at)
        results.append(array.reshape(spec.shape.dims))
        at += spec.bytes
    return results
