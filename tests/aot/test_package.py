"""Folders of libraries: whole or not at all; what is wrong is said before anything is written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import axla
import axla.aot
from axla.aot import package, recordings
from axla.aot.options import Options
from axla.aot.recordings import record, runs_as
from axla.codegen.host import host_target
from axla.target.machine import X86_LEVELS
from axla.target.names import TARGETS
from axla.tools import main as command

MATMUL = """HloModule matmul
ENTRY e {
  x = f32[2,3] parameter(0)
  y = f32[3,2] parameter(1)
  ROOT z = f32[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
DOUBLE = """HloModule double
ENTRY e {
  x = f64[8] parameter(0)
  ROOT y = f64[8] multiply(x, x), metadata={source_file="m.py" source_line=3}
}
"""
IN_BYTES = """HloModule m, input_output_alias={ {}: (0, {}, must-alias) }
ENTRY e { x = s8[8] parameter(0) s = f32[2] parameter(1) ROOT y = f32[2] sine(s) }
"""


def everything(folder: Path) -> dict[str, bytes]:
    """All there is below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_folder_is_made_with_those_above_it(tmp_path):
    made = axla.aot.compile(MATMUL, out=tmp_path / "a" / "b", name="ns::MatMul", target="x86-64")
    assert made.folder == tmp_path / "a" / "b" and made.prefix == "ns_MatMul"
    assert {path.name for path in made.files} == {name.name for name in made.folder.iterdir()}
    for name in (
        "ns_MatMul.o",
        "ns_MatMul.a",
        "ns_MatMul.h",
        "ns_MatMul.hpp",
        "example.c",
        "ns_MatMul_test.c",
    ):
        assert (made.folder / name) in made.files
    assert [p.name for p in tmp_path.iterdir()] == ["a"] and [p.name for p in (tmp_path / "a").iterdir()] == [
        "b"
    ]
    assert "ns_MatMul.o" in str(made)


def test_other_files_stay_and_bytes_are_the_same(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    axla.aot.compile(MATMUL, out=tmp_path, name="m")
    before = everything(tmp_path)
    (tmp_path / "m.h").write_text("old")
    axla.aot.compile(MATMUL, out=tmp_path, name="m")
    assert everything(tmp_path) == before and before["notes.txt"] == b"mine"


@pytest.mark.cc
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler on the PATH")
@pytest.mark.parametrize("weights", ["object", "separate"])
def test_the_folder_is_all_that_cc_needs(tmp_path, weights):
    table = ", ".join(str(k / 8) for k in range(400))
    text = f"ENTRY e {{\n  x = f32[400] parameter(0)\n  t = f32[400] constant({{{table}}})\n" \
           "  ROOT y = f32[400] multiply(x, t)\n}"  # fmt: skip
    axla.aot.compile(text, out=tmp_path, name="m", target="native", weights=weights)
    for name in ("example", "m_test"):
        line = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", f"{name}.c", "m.a", "-o", name]
        subprocess.run(line, check=True, cwd=tmp_path)
        done = subprocess.run(
            [str(tmp_path / name)], capture_output=True, text=True, check=True, cwd=tmp_path
        )
    assert "PASSED" in done.stdout


def test_recordings_are_exact_where_this_machine_computes_the_same():
    host = host_target()
    assert runs_as(host) == host
    if host.name in X86_LEVELS:
        for name in ("x86-64", "windows-x86-64", "macos-x86-64"):
            found = runs_as(TARGETS[name])
            assert found is not None and (found.cpu, found.triple) == ("x86-64", host.triple)
        assert runs_as(axla.aot.machine("x86-64", features=["+avx10.2"])) is None
    assert runs_as(TARGETS["cortex-m4f"]) is None and runs_as(TARGETS["wasm32"]) is None


@pytest.mark.skipif(host_target().name not in X86_LEVELS, reason="levels of x86-64")
def test_recordings_for_other_machines_do_not_depend_on_this_one():
    """A machine with fused multiply-adds gives other bits than one without."""
    from axla.aot.compiling import library_of

    text = MATMUL.replace("2,3]", "2,300]").replace("[3,2]", "[300,2]")
    found = [
        record(library_of(text, None, Options(target=name))[0], (None,)) for name in ("x86-64", "wasm32")
    ]
    (plain,), (other,) = found
    assert plain.exact and not other.exact
    assert plain.results[0].tobytes() == other.results[0].tobytes()


ENDLESS = """HloModule endless
go { p = f32[] parameter(0) ROOT same = pred[] compare(p, p), direction=EQ }
step { p = f32[] parameter(0) ROOT s = f32[] sine(p) }
ENTRY e { x = f32[] parameter(0) ROOT y = f32[] while(x), condition=go, body=step }
"""


def test_a_self_test_that_does_not_end_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(recordings, "LONGEST", 0.2)
    with pytest.raises(axla.InvalidArgument, match=r"did not end within 0.2 s; .*self_test=False"):
        axla.aot.compile(ENDLESS, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    axla.aot.compile(ENDLESS, out=tmp_path / "out", self_test=False)


def test_recordings_take_the_arrays_that_are_given():
    from axla.aot.compiling import library_of

    x, y = np.full((2, 3), 2, np.float32), np.ones((3, 2), np.float32)
    library, found = library_of(MATMUL, [x, y], Options(target="native"))
    [recording] = record(library, tuple(one.inputs for one in found))
    assert recording.exact and np.array_equal(recording.results[0], x @ y)
    assert np.array_equal(recording.arguments[0], x) and recording.variables == (None, None)


WRONG = [
    (MATMUL, {"target": "z80"}, axla.InvalidArgument, "target 'z80' is unknown"),
    (MATMUL, {"target": "cortex-m4"}, axla.InvalidArgument, "did you mean cortex-m4f"),
    (MATMUL, {"target_cpu": "z80"}, axla.InvalidArgument, "'z80' is not a recognized processor"),
    (DOUBLE, {"target": "cortex-m4f"}, axla.UnsupportedError, r"multiply .*m.py:3\): .* no f64 arithmetic"),
    (MATMUL, {"name": "int"}, axla.InvalidArgument, "'int' is a keyword or macro of C"),
    (MATMUL, {"name": "a b"}, axla.InvalidArgument, "'a b' is not an identifier"),
    (MATMUL, {"names": (["x", "x"], None)}, axla.InvalidArgument, "arguments: the name 'x' is used twice"),
    (
        MATMUL,
        {"names": (["x", "for"], None)},
        axla.InvalidArgument,
        "arguments: 'for' is a keyword or macro of C",
    ),
    (MATMUL, {"weights": "cloud"}, axla.InvalidArgument, "weights='cloud'; there are object, separate, file"),
    (MATMUL, {"variables": ("w",)}, axla.InvalidArgument, "variables: no argument is called 'w'"),
    (
        MATMUL,
        {"config": "fetch { id { node_name: 'q' } }"},
        axla.InvalidArgument,
        "fetch 'q': there is",
    ),
    (MATMUL, {"config": Path("/nowhere/c.pbtxt")}, FileNotFoundError, "nowhere"),
    (MATMUL, {"arg_types": ["f32[2,3]"]}, axla.InvalidArgument, "has no open sizes"),
    (MATMUL.replace("f32[2,3]", "f32[<=2,3]"), {}, axla.AxlaError, "f32"),
    (MATMUL.replace("y = f32[3,2]", "y = f32[4,2]"), {}, axla.AxlaError, "dot"),
    (IN_BYTES, {}, axla.UnsupportedError, "f32.2., 8 bytes cannot overwrite x: s8.8., 8 bytes"),
    ("HloModule", {}, axla.ParseError, "line 1"),
    (Path("/nowhere/m.hlo"), {}, FileNotFoundError, "nowhere"),
    *(
        (MATMUL, {"name": name}, axla.InvalidArgument, "is reserved for the generated files")
        for name in ("axla", "axla::Model", "axla_frame", "std", "uint8_t", "FILE", "build")
    ),
]


@pytest.mark.parametrize("program, options, kind, message", WRONG)
def test_what_is_wrong_leaves_nothing(tmp_path, program, options, kind, message):
    with pytest.raises(kind, match=message):
        axla.aot.compile(program, out=tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="paths of POSIX")
def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("mine")
    file = tmp_path / "file"
    for out, message in ((file, "is a file, wanted a folder"), (file / "x", "is a file, wanted"),
                         ("", "wanted the path of a folder"), (7, "wanted the path")):  # fmt: skip
        with pytest.raises(axla.InvalidArgument, match=message):
            axla.aot.compile(MATMUL, out=out)  # type: ignore[arg-type]
    with pytest.raises(axla.InvalidArgument, match="out: /proc/axla"):
        axla.aot.compile(MATMUL, out="/proc/axla/deep")
    assert everything(tmp_path) == {"file": b"mine"}


@pytest.mark.parametrize("out, message", [("n" * 300, "File name too long"), ("a\0b", "null byte")])
def test_paths_that_no_file_has(tmp_path, monkeypatch, out, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(axla.InvalidArgument, match=f"out: .*{message}"):
        axla.aot.compile(MATMUL, out=out)
    assert everything(tmp_path) == {}


def test_a_folder_that_is_there_is_all_that_has_to_be_written_to(tmp_path, monkeypatch):
    """It may be the root of a file system, or stand where only others may write."""
    out = tmp_path / "out"
    out.mkdir()
    real = Path.mkdir

    def inside(path, *rest, **named):
        if out not in path.parents:
            raise PermissionError(13, "Permission denied", str(path))
        real(path, *rest, **named)

    monkeypatch.setattr(Path, "mkdir", inside)
    package.write_files(out, {"a": "new a"})
    assert everything(tmp_path) == {"out/a": b"new a"} and len(list(out.iterdir())) == 1


def test_an_interrupt_puts_everything_back(tmp_path, monkeypatch):
    """Before any file is renamed, and when parents have been made."""
    out = tmp_path / "out"
    real, left = os.replace, 0

    def interrupted(source, target):
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(package.os, "replace", interrupted)
    for steps in range(1, 6):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        (out / "a").write_text("old a")
        (out / "c").write_text("old c")
        left = steps
        with pytest.raises(KeyboardInterrupt):
            package.write_files(out, {"a": "new a", "b": b"new b", "c": "new c"})
        assert everything(tmp_path) == {"out/a": b"old a", "out/c": b"old c"}, steps

    def interrupted_write(path, data):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", interrupted_write)
    with pytest.raises(KeyboardInterrupt):
        package.write_files(tmp_path / "deep" / "er" / "x", {"a": "new a"})
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_folder_in_the_way_is_left_as_it_was(tmp_path):
    (tmp_path / "m.h").mkdir()
    (tmp_path / "m.o").write_text("mine")
    with pytest.raises(axla.InvalidArgument, match="m.h is a folder"):
        axla.aot.compile(MATMUL, out=tmp_path, name="m")
    assert everything(tmp_path) == {"m.o": b"mine"}


def test_files_that_were_moved_are_put_back(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "a").write_text("old a")
    (out / "c").write_text("old c")
    real = os.replace

    def failing(source, target):
        if Path(target) == out / "c" and "old" not in str(source):
            raise OSError(28, "No space left on device", str(target))
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(
            package.os, "replace", lambda s, t: failing(s, t) if "old" not in str(s) else real(s, t)
        )
        with pytest.raises(axla.InvalidArgument, match="out/c: No space left on device; nothing was written"):
            package.write_files(out, {"a": "new a", "b": b"new b", "c": "new c"})
    assert everything(tmp_path) == {"out/a": b"old a", "out/c": b"old c"}


def test_two_writers_agree_on_a_file():
    assert package.merged({"a": "x"}, {"a": "x", "b": b"y"}) == {"a": "x", "b": b"y"}
    with pytest.raises(axla.InternalError, match="different contents of file a"):
        package.merged({"a": "x"}, {"a": "z"})


def test_what_was_compiled_is_loaded(tmp_path):
    x, y = np.full((2, 3), 2, np.float32), np.ones((3, 2), np.float32)
    made = axla.aot.compile(MATMUL, out=tmp_path, name="a::B", target="native")
    assert np.array_equal(made.load()(x, y), x @ y)
    assert np.array_equal(axla.aot.load(tmp_path)(x, y), x @ y)


# The command line.


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "m.hlo"
    path.write_text(MATMUL)
    return str(path)


def test_the_command_writes_a_folder(file, tmp_path, capsys):
    config = tmp_path / "c.pbtxt"
    config.write_text("feed{id{node_name:'y'}} feed{id{node_name:'x'} name:'left'} fetch{id{node_name:'z'}}")
    line = ["compile", file, "-o", str(tmp_path / "out"), "--name=a::B", "--target=thumbv7em-none-eabihf"]
    assert command.main([*line, f"--config={config}"]) == 0
    assert "a_B.o" in capsys.readouterr().out
    header = (tmp_path / "out" / "a_B.h").read_text()
    assert header.index("const float *y;") < header.index("const float *left;")


def test_an_object_with_weights_aside_has_what_a_folder_has_of_them(tmp_path):
    rows = ", ".join(f"{{{', '.join(str(k * k % 17 + j) for k in range(30))}}}" for j in range(20))
    program = tmp_path / "m.hlo"
    program.write_text(f"""HloModule m
ENTRY e {{
  x = f32[4,20] parameter(0)
  w = f32[20,30] constant({{{rows}}})
  ROOT y = f32[4,30] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}""")
    line = ["compile", str(program), "--weights=file", "--name=m", "--target=x86-64"]
    assert command.main([*line, "--emit-object", str(tmp_path / "one" / "m.o"), "--header"]) == 0
    assert command.main([*line, "-o", str(tmp_path / "out"), "--no-self-test"]) == 0
    one, out = everything(tmp_path / "one"), everything(tmp_path / "out")
    assert sorted(one) == ["m.h", "m.o", "m.weights", "m_loader.c", "m_loader.h"]
    assert all(out[name] == data for name, data in one.items())


def test_names_and_variables_of_the_command(file, tmp_path):
    line = ["compile", file, "--emit-object", str(tmp_path / "f.o"), "--header", "--target=x86-64"]
    assert command.main([*line, "--arg-names=a,b", "--result-names=c", "--target-features=+fma"]) == 0
    header = (tmp_path / "f.h").read_text()
    assert "const float *a;" in header and "float *c;" in header and "f_run(" in header
    assert command.main([*line, "--variables=y", "--name=n::m"]) == 0
    assert "readonly variable" in (tmp_path / "f.h").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f.h", "f.o", "m.hlo"]


@pytest.mark.parametrize(
    "options, message",
    [
        (["-o", "out", "--header"], "--header belongs to --emit-object"),
        (["-o", "out", "--target=cortex-m5"], "did you mean cortex-m"),
        (["-o", "out", "--config=none.pbtxt"], "none.pbtxt: No such file"),
        (["--emit-object", "nowhere/deep/f.o", "--name=while"], "'while' is a keyword or macro of C"),
    ],
)
def test_wrong_commands_leave_nothing(file, tmp_path, capsys, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    assert command.main(["compile", file, *options]) == 1
    error = capsys.readouterr().err
    assert error.startswith("axla: error: ") and message in error
    assert [p.name for p in tmp_path.iterdir()] == ["m.hlo"]


def test_targets_are_listed(capsys):
    assert command.main(["targets"]) == 0
    out = capsys.readouterr().out
    for name, found in TARGETS.items():
        assert f"\n{name} " in out and found.triple in out
    assert command.main(["targets", "thumbv8m.main-none-eabihf"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("cortex-m33\n") and "refused, but with --allow-libgcc" in out
    assert command.main(["targets", "cortex"]) == 1
    assert "did you mean cortex-m" in capsys.readouterr().err


OPEN = """func.func @main(%x: tensor<?x4xf32>, %w: tensor<4xf32>) -> tensor<?x4xf32> {
  %0 = stablehlo.add %x, %x : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
"""


@pytest.mark.parametrize("types", ["f32[rows,4],_", "tensor<rowsx4xf32>,f32[4]"])
def test_several_batch_sizes_of_the_command(tmp_path, types):
    (tmp_path / "f.mlir").write_text(OPEN)
    line = ["compile", str(tmp_path / "f.mlir"), "--rows=1,8", f"--arg-types={types}", "--name=net"]
    assert command.main([*line, "-o", str(tmp_path / "out")]) == 0
    shapes = {1: ["f32[1,4]", None], 8: ["f32[8,4]", None]}
    axla.aot.compile(tmp_path / "f.mlir", shapes, out=tmp_path / "same", name="net")
    assert everything(tmp_path / "out") == everything(tmp_path / "same")
    assert "if (rows == 8) return net_8_run(" in (tmp_path / "out" / "net.h").read_text()
    assert command.main([*line, "--emit-object", str(tmp_path / "net.o"), "--header"]) == 0
    assert (tmp_path / "net.h").read_text() == (tmp_path / "out" / "net.h").read_text()


@pytest.mark.parametrize(
    "options, message",
    [
        (["--rows=1,8"], "--rows: wanted --arg-types where `rows` stands for the number"),
        (["--rows=1,8", "--arg-types=f32[8,4],_"], "--rows: wanted --arg-types where `rows`"),
        (["--rows=0", "--arg-types=f32[rows,4],_"], "must be numbers of rows, found 0"),
        (["--arg-types=f32[rows,4],_"], "expected the size of a dimension, found 'rows'"),
    ],
)
def test_wrong_batch_sizes_of_the_command(tmp_path, capsys, options, message):
    (tmp_path / "f.mlir").write_text(OPEN)
    assert command.main(["compile", str(tmp_path / "f.mlir"), "-o", str(tmp_path / "out"), *options]) == 1
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_files_of_a_library_of_another_name_are_named(tmp_path, capsys, recwarn):
    (tmp_path / "m.hlo").write_text(MATMUL)
    for name in ("young.json", "other.json", "old_notes.txt", "other.o"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "young.json").unlink()
    axla.aot.compile(MATMUL, out=tmp_path, name="old")
    axla.aot.compile(MATMUL, out=tmp_path, name="old")
    assert not recwarn.list
    old = {name: data for name, data in everything(tmp_path).items() if name.startswith("old")}
    with pytest.warns(UserWarning, match="has files of other libraries, which stay: old.a, old.h, ") as seen:
        axla.aot.compile(MATMUL, out=tmp_path, name="young")
    named = str(seen[0].message).partition("stay: ")[2].partition(";")[0].split(", ")
    assert {*named, "old_notes.txt"} == set(old)
    assert seen[0].filename == __file__
    now = everything(tmp_path)
    assert {name: now[name] for name in old} == old and b"young" in now["CMakeLists.txt"]
    assert command.main(["compile", str(tmp_path / "m.hlo"), "-o", str(tmp_path), "--name=old"]) == 0
    assert "which stay: young.a" in capsys.readouterr().err


def test_the_same_bytes_in_every_process(tmp_path):
    """Nothing hangs on the order of sets: two processes hash with different seeds."""
    (tmp_path / "f.hlo").write_text(MATMUL)
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-m", "axla", "compile", "f.hlo", "-o", seed, "--target", "riscv64gc"],
            check=True, cwd=tmp_path, stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(axla.__file__).parents[1])},
        )  # fmt: skip
    assert everything(tmp_path / "1") == everything(tmp_path / "2")


def test_weights_of_an_earlier_compilation_go(tmp_path):
    text = (
        "ENTRY e { x = f32[100] parameter(0)  c = f32[100] constant({"
        + ", ".join(str(k * k % 7) for k in range(100))
        + "})  ROOT y = f32[100] add(x, c) }"
    )
    (tmp_path / "model.weights").write_text("not of a library")
    axla.aot.compile(text, out=tmp_path, name="model")
    assert (tmp_path / "model.weights").read_text() == "not of a library"
    axla.aot.compile(text, out=tmp_path, name="model", weights="file")
    assert (tmp_path / "model_loader.c").exists()
    axla.aot.compile(text, out=tmp_path, name="model")
    assert not [path.name for path in tmp_path.iterdir() if "weights" in path.name]
