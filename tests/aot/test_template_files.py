"""The template files: each is used, and what is C or C++ is that before its places are filled."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from c_folder import MATMUL, STEP, STEP_LABELS, compiler, library, source

import axla
from axla.aot.compiling import written
from axla.aot.library import Weights
from axla.aot.recordings import record
from axla.program import abi

ROOT = Path(axla.__file__).parent
TEMPLATES = {f"{path.parent.parent.name}/{path.name}": path for path in ROOT.glob("*/templates/*")}

PLACES = r"""
#define FILL_ACCESSORS
#define FILL_ALIGNMENT 64u
#define FILL_ARGCOUNT 1
#define FILL_ARGS void *unused;
#define FILL_ARRAYS
#define FILL_BITS
#define FILL_BYTES 64u
#define FILL_CALL 0
#define FILL_CALLS
#define FILL_CHECKS
#define FILL_COUNT 1
#define FILL_COUNTER
#define FILL_COUNTS 0, 0, 0
#define FILL_DATA 0
#define FILL_DATADIGEST 0
#define FILL_DATASIZE 64
#define FILL_DIMS
#define FILL_EXTERNALS
#define FILL_ERROR static inline const char *FILL_SYMBOL_error(int32_t code) { return axla_error(code); }
#define FILL_ERRORS
#define FILL_FILES
#define FILL_FRAME
#define FILL_FUNCTIONS int32_t FILL_PREFIX_weights_open(const char *path, FILL_PREFIX_weights *out);
#define FILL_GET
#define FILL_GIVEN {nullptr, 0, nullptr, nullptr, 0, 0, 0}
#define FILL_HASHES
#define FILL_HEADERDIGEST 0
#define FILL_HEADERSIZE 8
#define FILL_MADE {nullptr, 0, nullptr, nullptr, 0, 0, 0}
#define FILL_MEMORY void *workspace
#define FILL_NAME ""
#define FILL_NUMBERS
#define FILL_PRINT
#define FILL_RESULTCOUNT 1
#define FILL_RESULTS void *unused;
#define FILL_ROOM 64u
#define FILL_SEED 1, 2
#define FILL_SET
#define FILL_SHAPES
#define FILL_SIZES
#define FILL_SMALL
#define FILL_START static unsigned char memory[MEMORY + 64], *next;
#define FILL_STATIC
#define FILL_STATUS
#define FILL_STRUCTS
#define FILL_TABLES
#define FILL_TAKES false
#define FILL_VERSION 1
#define FILL_WANTED {0}
#define FILL_WEIGHTS
#define FILL_WORKSPACE 64u
"""

# What stands before a template in a generated file.
HEADER = ("aot/axla_aot.h", "aot/function.h")
LOADER = ("aot/loader.c",)
TEST = ("aot/test.c", "aot/arena.c", "aot/test_data.c")
BEFORE = {
    "program/frame.h": (), "program/abi.h": (), "aot/axla_aot.h": (), "aot/function.h": HEADER[:1],
    "aot/externals.h": HEADER, "aot/batches.h": HEADER, "aot/loader.h": (),
    "aot/loader.c": (), "aot/loader_weights.c": LOADER, "aot/loader_safetensors.c": LOADER,
    "aot/load_variables.c": (*LOADER, "aot/loader_safetensors.c"),
    "aot/example.c": (), "aot/example_heap.c": ("aot/example.c",),
    "aot/example_function.c": ("aot/example.c",), "aot/weights.c": ("aot/example.c",),
    "aot/test.c": (), "aot/test_refusal.c": TEST[:1], "aot/arena.c": TEST[:1], "aot/test_data.c": TEST[:1],
    "aot/arena_static.c": TEST[:1], "aot/arena_heap.c": TEST[:1],
    "aot/test_file.c": ("aot/test.c", "aot/test_refusal.c"), "aot/test_check.c": TEST,
    "aot/test_hash.c": TEST, "aot/test_recorded.c": TEST, "aot/test_repeated.c": (*TEST, "aot/test_hash.c"),
    "aot/benchmark.c": (), "aot/benchmark_measure.c": ("aot/benchmark.c",),
    "aot/benchmark_function.c": ("aot/benchmark.c", "aot/arena.c"),
}  # fmt: skip
BEFORE_CPP = {"aot/class.hpp": (*HEADER, "aot/axla_aot.hpp"), "aot/program_shape.hpp": ()}
DECLARED = {
    "aot/batches.h": (
        "typedef FILL_SYMBOL_args FILL_FIRST_args;\ntypedef FILL_SYMBOL_results FILL_FIRST_results;\n"
    ),
    "aot/arena_static.c": "#define MEMORY 64\n",
    "aot/arena_heap.c": "#define MEMORY 64\n",
}
PAGES = {name for name in TEMPLATES if name.startswith("tools/")}  # read by tests of tests/tools
PROSE = ("aot/CMakeLists.txt", "aot/loader.cmake", "aot/calling.txt", "aot/packed.txt")
MEMBERS = """
namespace weights {
struct FILL_CLASS : axla::CompiledFunction {
  void *leaves_table[1], *args_table[1], *results_table[1];
  static const axla::FunctionData &StaticData();
#include "%s"
};
}
"""
MORE = {"aot/class.hpp": MEMBERS % TEMPLATES["aot/class_weights.hpp"]}


def sources(folder: Path, table: dict[str, tuple[str, ...]], ending: str) -> list[str]:
    """A file per template, that includes it behind what stands before it."""
    (folder / "places.h").write_text(PLACES)
    frame = f"#include <stddef.h>\n#include <stdint.h>\n{abi.c_frame()}\n"
    (folder / "frame.h").write_text(frame)
    (folder / "status.h").write_text(f"{frame}{abi.STATUS.c()}\n")
    includes = [f'#include "{TEMPLATES[name]}"\n' for name in HEADER]
    (folder / "FILL_PREFIX.h").write_text("#pragma once\n" + "".join(includes))
    loader = TEMPLATES["aot/loader.h"]
    (folder / "FILL_PREFIX_loader.h").write_text(f'#include "{loader}"\n')
    found = []
    for name, before in table.items():
        first = {"program/frame.h": "<stdint.h>", "program/abi.h": '"status.h"'}.get(name, '"frame.h"')
        lines = [f"#include {first}\n", *(f'#include "{TEMPLATES[one]}"\n' for one in before)]
        lines += [DECLARED.get(name, ""), f'#include "{TEMPLATES[name]}"\n', MORE.get(name, "")]
        file = folder / f"{name.replace('/', '_')}{ending}"
        file.write_text("".join(lines))
        found.append(file.name)
    return found


def check(folder: Path, names: list[str], *command: str) -> None:
    given = [*command, "-fsyntax-only", "-Werror", "-I.", "-include", "places.h", *names]
    done = subprocess.run(given, cwd=folder, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


@pytest.mark.cc
def test_templates_of_c_are_c(tmp_path):
    check(tmp_path, sources(tmp_path, BEFORE, ".c"), compiler("c"), "-std=c99")


@pytest.mark.cc
def test_templates_of_cpp_are_cpp(tmp_path):
    headers = {name: before for name, before in BEFORE.items() if name.endswith(".h")}
    check(tmp_path, sources(tmp_path, headers | BEFORE_CPP, ".cpp"), compiler("c++"), "-std=c++11")


def test_each_template_is_used_and_seen_here():
    text = "".join(path.read_text("utf-8") for path in ROOT.rglob("*.py"))
    assert set(re.findall(r'fill\(\s*"([^"]+)"', text)) == set(TEMPLATES)
    rust = {name for name in TEMPLATES if name.endswith(".rs")}
    headers = {"aot/axla_aot.hpp", "aot/class_weights.hpp"}  # which another one includes
    assert {*BEFORE, *BEFORE_CPP, *PROSE, *rust, *headers, *PAGES} == set(TEMPLATES)


@pytest.mark.parametrize("weights", Weights)
@pytest.mark.parametrize("recorded", [True, False])
def test_generated_files_have_no_places(weights, recorded):
    arguments, results = STEP_LABELS
    step = source(STEP, arguments, results, suffix="step")
    lib = library("ns::Model", source(MATMUL, ("x", "y"), ("z",), suffix="mm"), step, weights=weights)
    files = written(lib, record(lib, (None, None)) if recorded else ())
    assert len(files) >= 10
    for name, content in files.items():
        assert not isinstance(content, str) or "FILL_" not in content, name


def test_a_prefix_that_looks_like_a_place_stays():
    lib = library("FILL_NAME", source(MATMUL, ("x", "y"), ("z",)))
    files = written(lib, ())
    assert "FILL_NAME_run(" in files["FILL_NAME.h"]
    assert np.all(["FILL_PREFIX" not in text for text in files.values() if isinstance(text, str)])
