"""tfcompile's flags, files and C++ class, with the graphs of its own tests (scripts/tfcompile-graphs)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import axla
import axla.aot
from axla.tools.main import main
from document_program import DOCUMENT

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "aot"))
from c_folder import CPP, compiler  # noqa: E402

FOLDER = Path(__file__).with_name("tfcompile")
VALUES = json.loads((FOLDER / "values.json").read_text())

PROGRAM = """
#include <cmath>
#include <iostream>
@INCLUDES@

template <class T>
bool same(const T *found, double rtol, double atol, const double *wanted, size_t count) {
  for (size_t k = 0; k < count; ++k) {
    if (std::abs(static_cast<double>(found[k]) - wanted[k]) > atol + rtol * std::abs(wanted[k])) return false;
  }
  return true;
}
template <class T>
void put(const double *values, size_t count, T *to) {
  for (size_t k = 0; k < count; ++k) to[k] = static_cast<T>(values[k]);
}
#define VERIFY(what) \\
  do { if (!(what)) { std::cout << f.error_msg() << #what << std::endl; std::exit(1); } } while (0)
@TESTS@
int main() {
  @CALLS@
  std::cout << "all are right" << std::endl;
}
"""


def tfcompile(name: str, folder: Path, *flags: str) -> list[str]:
    """Compiles a graph; gives what the command was told."""
    words = [
        "tfcompile", f"--graph={FOLDER / name}.pb", f"--config={FOLDER / name}.config.pbtxt",
        f"--cpp_class=tests::{name.removeprefix('test_graph_')}", f"--entry_point=__tests__{name}",
        f"--out_function_object={folder / name}.o", f"--out_header={folder / name}.h", *flags,
    ]  # fmt: skip
    if "ckpt" in name:
        words.append(f"--freeze_checkpoint={FOLDER / name}")
    if name.endswith("saver"):
        words.append(f"--freeze_saver={FOLDER / name}.saver")
    assert main(words) == 0
    return words


def listed(values: list[object]) -> str:
    return f"(const double[]){{{', '.join(str(float(value)) for value in values)}}}, {len(values)}"


def checks(name: str, values: dict) -> str:
    """A function of C++ that runs a graph with the recorded arguments."""
    lines = [f"tests::{name.removeprefix('test_graph_')} f;"]
    near = ", ".join(map(str, values.get("near", (1e-5, 0))))
    lines += [f"put({listed(v)}, f.arg{k}_data());" for k, v in enumerate(values["arguments"])]
    for variable, (before, _) in values["variables"].items():
        lines.append(f"static float {variable}[] = {{{', '.join(map(str, before))}}};")
        lines.append(f"f.set_var_{variable}_data({variable});")
    lines += ["VERIFY(f.Run());"]
    lines += [
        f"VERIFY(same(f.result{k}_data(), {near}, {listed(v)}));" for k, v in enumerate(values["results"])
    ]
    for variable, (_, after) in values["variables"].items():
        lines.append(f"VERIFY(same(f.var_{variable}_data(), {near}, {listed(after)}));")
    return f"static void {name}() {{\n  " + "\n  ".join(lines) + "\n}"


TRIPLES = [
    ("x86_64-pc-linux", "c++", ()),
    ("aarch64-linux-gnu", "aarch64-linux-gnu-g++", ("qemu-aarch64-static",)),
]


def run(folder: Path, graphs: dict[str, dict], cxx: str, runner: tuple[str, ...]) -> None:
    """Builds and runs one program with all graphs, whose objects and headers are in the folder."""
    text = PROGRAM.replace("@INCLUDES@", "\n".join(f'#include "{name}.h"' for name in graphs))
    text = text.replace("@TESTS@", "\n".join(checks(name, values) for name, values in graphs.items()))
    text = text.replace("@CALLS@", "\n  ".join(f"{name}();" for name in graphs))
    (folder / "all.cc").write_text(text)
    flags = [flag for flag in CPP if flag != "-pedantic"]
    command = [cxx, *flags, "-O0", "-static", "all.cc", *(f"{name}.o" for name in graphs), "-o", "all"]
    subprocess.run(command, check=True, cwd=folder)
    if runner and shutil.which(runner[0]) is None:
        pytest.skip(f"{runner[0]} is not on the PATH")
    done = subprocess.run([*runner, folder / "all"], capture_output=True, text=True, timeout=120)
    assert done.stdout == "all are right\n"


@pytest.mark.cc
@pytest.mark.parametrize("triple, cxx, runner", TRIPLES)
def test_the_graphs_are_right_from_cpp(tmp_path, triple, cxx, runner):
    cxx = compiler("c++", cxx)
    for name in VALUES:
        tfcompile(name, tmp_path, f"--target_triple={triple}")
    run(tmp_path, VALUES, cxx, runner)


def recorded(folder: Path) -> dict:
    """A case of the corpus, as values.json has graphs."""
    meta = json.loads((folder / "meta.json").read_text())
    given, wanted = np.load(folder / "in.npz"), np.load(folder / "out.npz")
    named = {variable["name"]: f"var{k}" for k, variable in enumerate(meta.get("variables", ()))}
    return {
        "arguments": [given[f"in{k}"].reshape(-1).tolist() for k in range(len(meta["feeds"]))],
        "results": [wanted[f"out{k}"].reshape(-1).tolist() for k in range(len(meta["fetches"]))],
        "near": (meta["rtol"], meta["atol"]),
        "variables": {v: [a[k].reshape(-1).tolist() for a in (given, wanted)] for v, k in named.items()},
    }


@pytest.mark.cc
@pytest.mark.corpus
@pytest.mark.parametrize("triple, cxx, runner", TRIPLES)
def test_the_corpus_is_right_from_cpp(tmp_path, triple, cxx, runner):
    """The section of the corpus with configurations of tfcompile."""
    root = Path(os.environ.get("TENSORFLOW_CORPUS", "no corpus")) / "tfcompile"
    if not root.is_dir():
        pytest.skip("TENSORFLOW_CORPUS does not name the corpus")
    cxx, cases = compiler("c++", cxx), {}
    for folder in sorted(root.iterdir()):
        name = folder.name.replace(".", "_")
        meta = json.loads((folder / "meta.json").read_text())
        words = [
            "tfcompile", f"--graph={folder}/graph.pb", f"--config={folder}/config.pbtxt",
            f"--cpp_class=tests::{name}", f"--entry_point=tests_{name}", f"--target_triple={triple}",
            f"--out_function_object={tmp_path}/{name}.o", f"--out_header={tmp_path}/{name}.h",
            f"--operations={','.join(meta.get('targets', ()))}",
        ]  # fmt: skip
        words += [f"--freeze_checkpoint={folder}/{meta['checkpoint']}"] if "checkpoint" in meta else []
        assert main(words) == 0
        cases[name] = recorded(folder)
    run(tmp_path, cases, cxx, runner)


EIGEN = Path("/usr/include/eigen3")


@pytest.mark.cc
@pytest.mark.skipif(not EIGEN.is_dir(), reason="Eigen (libeigen3-dev) is not installed")
def test_the_program_of_the_document_runs(tmp_path):
    cxx = compiler("c++")
    headers = tmp_path / "tensorflow/compiler/aot/tests"
    tfcompile("test_graph_tfmatmul", tmp_path, "--cpp_class=foo::bar::MatMulComp",
              f"--out_header={headers}/test_graph_tfmatmul.h")  # fmt: skip
    (tmp_path / "third_party").mkdir()
    (tmp_path / "third_party/eigen3").symlink_to(EIGEN)
    (tmp_path / "my_code.cc").write_text(DOCUMENT)
    command = [
        cxx,
        "-I.",
        f"-I{EIGEN}",
        "-O0",
        "my_code.cc",
        "test_graph_tfmatmul.o",
        "-o",
        "my_code",
        "-pthread",
    ]
    subprocess.run(command, check=True, cwd=tmp_path)
    done = subprocess.run([tmp_path / "my_code"], capture_output=True, text=True, timeout=60)
    assert done.stdout == "Success\n"


CMAKE = f"""
cmake_minimum_required(VERSION 3.13)
project(app CXX)
enable_testing()
execute_process(COMMAND ${{AXLA_COMMAND}} tfcompile --cmake_dir
  OUTPUT_VARIABLE axla_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
find_package(axla REQUIRED)
axla_tf_library(test_graph_tfmatmul {FOLDER}/test_graph_tfmatmul.pb
  {FOLDER}/test_graph_tfmatmul.config.pbtxt foo::bar::MatMulComp)
axla_tf_library(with_ckpt {FOLDER}/test_graph_tfadd_with_ckpt_saver.pb
  {FOLDER}/test_graph_tfadd_with_ckpt_saver.config.pbtxt Restored
  FREEZE_CHECKPOINT {FOLDER}/test_graph_tfadd_with_ckpt_saver
  FREEZE_SAVER {FOLDER}/test_graph_tfadd_with_ckpt_saver.saver TFCOMPILE_FLAGS --gen_name_to_index)
add_executable(app app.cc)
target_link_libraries(app PRIVATE test_graph_tfmatmul with_ckpt)
"""
APP = """
#include <iostream>
#include "test_graph_tfmatmul.h"
#include "with_ckpt.h"
int main() {
  foo::bar::MatMulComp product;
  Restored sum;
  product.arg0(0, 0) = product.arg1(0, 0) = 3;
  sum.arg0() = 8;
  if (!product.Run() || !sum.Run()) return 1;
  std::cout << product.result0(0, 0) << " " << sum.result0() << std::endl;
}
"""


@pytest.mark.cc
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not on the PATH")
def test_cmake_builds_library_test_and_benchmark(tmp_path):
    compiler("c++")
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    (tmp_path / "app.cc").write_text(APP)
    command = f"-DAXLA_COMMAND={sys.executable};-m;axla"
    for words in (
        ["cmake", "-S", ".", "-B", "build", command], ["cmake", "--build", "build", "-j", "2"],
        ["ctest", "--test-dir", "build"], ["build/test_graph_tfmatmul_benchmark", "0.01"],
        ["build/with_ckpt_benchmark", "0.01"],
    ):  # fmt: skip
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=250)
        assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run(["build/app"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "9 50\n"


def test_files_of_the_flags(tmp_path, capsys):
    extra = [f"--out_metadata_object={tmp_path}/m.o", f"--out_session_module={tmp_path}/s.pb",
             f"--out_package={tmp_path}/package", "--gen_program_shape=true", "--mlir_components=Bridge",
             f"--out_constant_buffers_object={tmp_path}/c.o", "--target_features=+avx2"]  # fmt: skip
    tfcompile("test_graph_tfadd", tmp_path, *extra)
    assert "--mlir_components=Bridge is ignored" in capsys.readouterr().err
    assert b"tests_test_graph_tfadd_program_shape" in (tmp_path / "m.o").read_bytes()
    assert b"tests_test_graph_tfadd_weights" in (tmp_path / "c.o").read_bytes()
    assert "tests_test_graph_tfadd_program_shape[]" in (tmp_path / "test_graph_tfadd.h").read_text()
    assert (tmp_path / "package" / "tests_test_graph_tfadd_test.c").is_file()
    assert [p.name for p in axla.parse(tmp_path / "s.pb").entry.parameters] == ["x_const.1", "y_const.1"]


def test_nodes_of_fetches_are_printed(capsys):
    config = FOLDER / "test_graph_tfmatmulandadd.config.pbtxt"
    assert main(["tfcompile", f"--config={config}", "--dump_fetch_nodes"]) == 0
    assert capsys.readouterr().out == "x_y_prod,x_y_sum\n"


def test_errors_say_where_a_node_was_made(tmp_path, capsys):
    debug, config = tmp_path / "debug.pbtxt", tmp_path / "config.pbtxt"
    debug.write_text(
        'files: "model.py" traces { key: "x_hold@" value { file_line_cols { file_index: 0 line: 7 } } }'
    )
    config.write_text('fetch { id { node_name: "x_y_prod" } }')
    words = [f"--graph={FOLDER}/test_graph_tfmatmul.pb", f"--config={config}", f"--debug_info={debug}"]
    assert main(["tfcompile", *words, "--cpp_class=M"]) == 1
    assert "node 'x_hold' (Placeholder, model.py:7): it is not fed" in capsys.readouterr().err


@pytest.mark.parametrize("words, message", [
    (["--graph=g.pb", "--cpp_class=M"], "--config is missing"),
    ([f"--config={FOLDER}/test_graph_tfadd.config.pbtxt", "--graph=g.pb"], "--cpp_class is missing"),
])  # fmt: skip
def test_flags_that_are_missing(capsys, words, message):
    assert main(["tfcompile", *words]) == 1
    assert message in capsys.readouterr().err


X = 'feed { id { node_name: "x_hold" } shape { dim { size: 2 } dim { size: 3 } } }'
FETCH = 'fetch { id { node_name: "x_y_prod" } }'
BAD = [
    (f"{X} {FETCH}", "'y_hold' .Placeholder.: it is not fed"),
    (f'feed {{ id {{ node_name: "x_hold" }} }} {FETCH}', "feed 'x_hold': its shape is not known: say shape"),
    (X.replace("3", "-1") + FETCH, r"its shape is \[2, -1\]"),
    (f"{X.replace('_hold', '_held')} {FETCH}", "no node 'x_held'; did you mean x_hold"),
    (X.replace('" }', '" output_index: 1 }', 1) + FETCH, "has 1 outputs, 'x_hold:1' is not one of them"),
    (X[:-1] + f"type: DT_INT32 }} {FETCH}", "feed 'x_hold:0' must be f32, found s32"),
    (f'{X} {FETCH} variable {{ node_name: "y_hold" }}', "'y_hold' .* is not a variable"),
]  # fmt: skip


@pytest.mark.parametrize("config, message", BAD)
def test_configurations_that_do_not_fit_the_graph(tmp_path, config, message):
    with pytest.raises(axla.AxlaError, match=message):
        axla.aot.compile(FOLDER / "test_graph_tfmatmul.pb", config=config, out=tmp_path / "out")


@pytest.mark.parametrize("name, was, wanted", [
    ("test_graph_tfvariable", "type: DT_FLOAT", "the graph writes it; say readonly: false"),
    ("test_graph_tfvariable_readonly", "readonly: true", "the graph does not write it; say readonly: true"),
])  # fmt: skip
def test_variables_are_what_the_configuration_says(tmp_path, name, was, wanted):
    config = (FOLDER / f"{name}.config.pbtxt").read_text()
    config = config.replace(was, "readonly: false" if "true" in was else "readonly: true")
    with pytest.raises(axla.InvalidArgument, match=f"variable 'x': {wanted}"):
        axla.aot.compile(FOLDER / f"{name}.pb", config=config, out=tmp_path / "out")


def test_a_graph_needs_a_configuration(tmp_path):
    with pytest.raises(axla.InvalidArgument, match="feeds and fetches must be configured"):
        axla.aot.compile(FOLDER / "test_graph_tfadd.pb", out=tmp_path / "out")


def test_variables_that_nothing_reads_stay_arguments(tmp_path):
    config = 'fetch { id { node_name: "zero" } } variable { node_name: "x" shape { } readonly: true }'
    graph = """
    node { name: "x" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "shape" value { shape { } } } }
    node { name: "zero" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
           attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } } } } }
    """
    package = axla.aot.compile(graph, config=config, out=tmp_path / "out", name="zero")
    assert package.library.functions[0].signature == "(zero: s32[]) = zero(x: f32[])"
