"""A library in the build systems of others: CMake and Cargo."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from axla.aot import archive, build_files, cpp, header, programs, weights
from axla.aot.library import CompiledLibrary, Weights
from axla.core.dtypes import ALL
from net_library import library


def run(folder, *command: str) -> str:
    if "/" not in command[0] and shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not on the PATH")
    start = str(folder / command[0]) if "/" in command[0] else command[0]
    done = subprocess.run([start, *command[1:]], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def written(found: CompiledLibrary, folder, *writers) -> None:
    for writer in writers:
        for name, data in writer.write(found).items():
            (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)


MAIN = """#[path = "a_Net.rs"]
mod net;
fn main() {
    let x: [f32; 100] = std::array::from_fn(|k| k as f32);
    let (mut state, half, mut y) = ([1f32; 100], [0x3f00u16; 100], [0f32; 100]);
    let mut workspace = net::a_Net::Workspace::new();
WEIGHTS    net::a_Net::run(&mut workspace, GIVEN&x, &mut state, &half, &mut y).unwrap();
    println!("{} {}", y[3], state[3]);
}
"""
LOAD = """    assert!(net::Weights::load("main.rs").is_err());
    let weights = net::Weights::load("a_Net.weights").unwrap();
"""


@pytest.mark.cc
@pytest.mark.parametrize("place", list(Weights), ids=lambda w: w.value)
def test_a_program_in_rust(place, tmp_path):
    written(library(place), tmp_path, archive, weights, build_files)
    in_file = place is Weights.FILE
    main = MAIN.replace("WEIGHTS", LOAD * in_file).replace("GIVEN", "&weights, " * in_file)
    (tmp_path / "main.rs").write_text(main)
    flags = ["-D", "warnings", "-L", ".", "-l", "static:+verbatim=a_Net.a"]
    run(tmp_path, "rustc", "--edition", "2021", "main.rs", *flags)
    assert run(tmp_path, "./main") == "3 4\n"
    script = build_files.write(library(place))["build.rs"]
    assert isinstance(script, str) and "rustc-link-lib=static:+verbatim=a_Net.a" in script
    run(tmp_path, "rustc", "-D", "warnings", "build.rs", "-o", "script")


def test_every_element_type_has_one_of_rust_of_its_size(tmp_path):
    from axla.aot.rust import rust_type

    sizes = [f"    assert!(std::mem::size_of::<{rust_type(d)}>() == {d.itemsize});" for d in ALL]
    (tmp_path / "main.rs").write_text("\n".join(["fn main() {", *sizes, "}"]))
    run(tmp_path, "rustc", "main.rs")
    run(tmp_path, "./main")


@pytest.mark.cc
def test_a_project_of_cmake(tmp_path):
    written(library(Weights.FILE), tmp_path, archive, header, weights, programs, build_files)
    run(tmp_path, "cmake", "-S", ".", "-B", "build")
    run(tmp_path, "cmake", "--build", "build")
    for program in ("example", "test", "benchmark"):
        assert (tmp_path / "build" / f"a_Net_{program}").exists()


INSTALLED = """
#include <cstdio>
#include "a_Net.hpp"
LOADER
int main() {
  WEIGHTS
  for (size_t k = 0; k < 100; ++k) net.arg_x(k) = static_cast<float>(k);
  if (!net.Run()) return 1;
  std::printf("%g\\n", static_cast<double>(net.var_state(3)));
}
"""
OPENED = """a_Net_weights w;
  if (a_Net_weights_open("a_Net.weights", &w) != AXLA_OK) return 2;
  a::Net net(w.data);"""


@pytest.mark.cc
@pytest.mark.parametrize("place", [Weights.OBJECT, Weights.FILE], ids=lambda w: w.value)
def test_what_is_installed_is_found_by_find_package(place, tmp_path):
    """Moved elsewhere, and without the folder that it was installed from."""
    in_file = place is Weights.FILE
    (tmp_path / "net").mkdir()
    written(library(place), tmp_path / "net", archive, header, cpp, weights, programs, build_files)
    run(tmp_path, "cmake", "-S", "net", "-B", "built", "-Da_Net_PROGRAMS=OFF")
    run(tmp_path, "cmake", "--build", "built")
    run(tmp_path, "cmake", "--install", "built", "--prefix", str(tmp_path / "there"))
    (tmp_path / "there").rename(tmp_path / "moved")
    main = INSTALLED.replace("LOADER", '#include "a_Net_loader.h"' * in_file)
    (tmp_path / "main.cpp").write_text(main.replace("WEIGHTS", OPENED if in_file else "a::Net net;"))
    if in_file:
        (tmp_path / "net" / "a_Net.weights").rename(tmp_path / "a_Net.weights")
    shutil.rmtree(tmp_path / "net")
    (tmp_path / "CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.13)
project(main CXX)
find_package(a_Net REQUIRED CONFIG)
add_executable(main main.cpp)
target_link_libraries(main PRIVATE a_Net)
""")
    run(tmp_path, "cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'moved'}")
    run(tmp_path, "cmake", "--build", "build")
    assert run(tmp_path, "build/main") == "3\n"


@pytest.mark.cc
def test_a_folder_of_a_project_of_cmake(tmp_path):
    """The library as a part of another: its programs are not built."""
    (tmp_path / "net").mkdir()
    written(library(Weights.SEPARATE), tmp_path / "net", archive, header, weights, build_files)
    x = ", ".join(str(float(k)) for k in np.arange(100))
    (tmp_path / "main.c").write_text(f"""#include <stdio.h>
#include "a_Net.h"
int main(void) {{
  static const float x[100] = {{{x}}};
  static const axla_bf16 w[100];
  static float state[100], y[100];
  a_Net_args args = {{ x, state, w }};
  a_Net_results results = {{ y }};
  int code = (int)a_Net_run(&args, &results, NULL);
  printf("%d %g\\n", code, (double)state[3]);
  return 0;
}}
""")
    (tmp_path / "CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.13)
project(main C)
add_subdirectory(net)
add_executable(main main.c)
target_link_libraries(main PRIVATE a_Net)
""")
    run(tmp_path, "cmake", "-S", ".", "-B", "build")
    run(tmp_path, "cmake", "--build", "build")
    assert run(tmp_path, "build/main") == "0 3\n"
    assert not list((tmp_path / "build").rglob("a_Net_example"))


@pytest.mark.cc
def test_a_part_of_another_project_installs_nothing(tmp_path):
    (tmp_path / "net").mkdir()
    written(library(Weights.OBJECT), tmp_path / "net", archive, header, cpp, weights, build_files)
    (tmp_path / "CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.13)
project(main C)
add_subdirectory(net)
""")
    run(tmp_path, "cmake", "-S", ".", "-B", "build")
    run(tmp_path, "cmake", "--install", "build", "--prefix", str(tmp_path / "there"))
    assert not (tmp_path / "there").exists()
