"""Other tools that compile a SavedModel to a small program: TensorFlow Lite, and `saved_model_cli
aot_compile_cpu`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MAIN = """
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include "model.h"

int main(int count, char** arguments) {
  Model model;
  std::ifstream file(arguments[1], std::ios::binary);
  file.read(static_cast<char*>(model.arg_data(0)), model.arg_size(0));
  const int calls = std::atoi(arguments[2]);
  const auto begin = std::chrono::steady_clock::now();
  for (int n = 0; n < calls; ++n)
    if (!model.Run()) return 1;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  std::printf("%.9f\\n", passed.count() / calls);
}
"""

CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(runtime CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_BUILD_TYPE Release)
add_subdirectory({sources} runtime)
"""


class NotMade(Exception):
    """Raised with the reason why a peer cannot compile a model."""


def lite(place: Path, arguments: dict[str, np.ndarray]) -> tuple[Callable[[], object], int]:
    """Returns a function that calls the model in TensorFlow Lite, with as many threads as the process may
    use, and the bytes of the model file.
    """
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(str(place))
    try:
        model = converter.convert()
    except Exception as error:  # exceptions of many classes
        raise NotMade(f"TensorFlow Lite: {first_line(error)}") from None
    threads = len(os.sched_getaffinity(0))
    interpreter = tf.lite.Interpreter(model_content=model, num_threads=threads)
    runner: Any = interpreter.get_signature_runner()
    (name,), (value,) = runner.get_input_details(), arguments.values()
    return lambda: runner(**{name: value}), len(model)


def runtime(folder: Path) -> Path:
    """The library that programs of aot_compile_cpu are linked with. It is built once, from the sources in the
    TensorFlow package, which takes many minutes.
    """
    import tensorflow as tf

    made = folder / "runtime" / "libtf_xla_runtime.a"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        sources = Path(tf.__file__).parent / "xla_aot_runtime_src"
        (folder / "CMakeLists.txt").write_text(CMAKE.format(sources=sources))
        for command in (["cmake", "."], ["make", "-j2"]):
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return made


def ahead_of_time(
    place: Path, arguments: dict[str, np.ndarray], library: Path
) -> tuple[Callable[[int], float], int]:
    """Compiles the model by aot_compile_cpu. Returns a function that returns the seconds per call on one
    thread, for a number of calls, and the bytes of machine code.
    """
    import tensorflow as tf

    include = Path(tf.__file__).parent / "include"
    command = [
        str(Path(sys.executable).parent / "saved_model_cli"), "aot_compile_cpu", "--dir", str(place),
        "--tag_set", "serve", "--signature_def_key", "serving_default", "--cpp_class", "Model",
        "--output_prefix", str(place / "model"),
    ]  # fmt: skip
    ran("aot_compile_cpu", command)
    (place / "main.cc").write_text(MAIN)
    (given,) = arguments.values()
    (place / "input.bin").write_bytes(given.tobytes())
    objects = sorted(map(str, place.glob("model*.o")))
    ran("g++", [
        "g++", "-std=c++17", "-O2", f"-I{include}", f"-I{place}", str(place / "main.cc"), *objects,
        str(library),
        *(str(include.parent / f"libtensorflow_{name}.so.2") for name in ("framework", "cc")),  # absl
        f"-Wl,-rpath,{include.parent}", "-o", str(place / "main"),
    ])  # fmt: skip
    text = subprocess.run(
        ["size", str(place / "model.o")], check=True, capture_output=True, text=True
    ).stdout.splitlines()[1]

    def call(calls: int) -> float:
        run = [str(place / "main"), str(place / "input.bin"), str(calls)]
        return float(subprocess.run(run, check=True, capture_output=True, text=True).stdout)

    return call, int(text.split()[0])


def ran(what: str, command: list[str]) -> None:
    """Runs a tool. Raises NotMade with its error if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if re.search(r"(?i)error|not ", line)]
        raise NotMade(f"{what}: {first_line((errors or [done.stderr])[-1])}")


def first_line(text: object) -> str:
    return str(text).strip().partition("\n")[0][:160]
