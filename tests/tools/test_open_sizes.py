"""StableHLO with sizes `?` on the command line: --arg-types and --dim-args."""

from __future__ import annotations

import re

import numpy as np
import pytest

import axla
from axla.tools import main as command

DYNAMIC = """func.func @main(%x: tensor<?x3xf32>, %y: tensor<f32>) -> tensor<?x3xf32> {
  %0 = stablehlo.add %x, %x : tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}"""
COUNTED = """func.func @main(%n: tensor<i32>) -> tensor<?xi32> {
  %0 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %1 = stablehlo.dynamic_iota %0, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
  return %1 : tensor<?xi32>
}"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "d.mlir"
    path.write_text(DYNAMIC)
    return path


@pytest.mark.parametrize("types", ["f32[5,3],f32[]", "tensor<5x3xf32>, tensor<f32>", " f32[5,3]{1,0} ,_"])
def test_types_are_written_in_either_way(file, types, capsys):
    assert command.main(["run", str(file), f"--arg-types={types}"]) == 0
    assert capsys.readouterr().out.startswith("output 0: float32[5, 3]\n")


def test_python_takes_the_types_that_a_shell_takes(file):
    for types in (["f32[5,3]", "f32[]"], ["tensor<5x3xf32>", None], ["f32[5,3]{1,0}", None]):
        module = axla.parse(file, arg_types=types)
        assert module.entry.parameters[0].shape.dims == (5, 3)
    with pytest.raises(axla.InvalidArgument, match="argument 0"):
        axla.parse(file, arg_types=["(f32[5,3])", None])


def test_every_verb_takes_sizes(file, tmp_path, capsys):
    types = "--arg-types=f32[7,3],_"
    assert command.main(["opt", str(file), types]) == 0
    assert "f32[7,3]" in capsys.readouterr().out
    assert command.main(["check", str(file), types]) == 0
    assert "output 0, f32[7,3]: agrees" in capsys.readouterr().out
    assert (
        command.main(["compile", str(file), types, "--emit-object", str(tmp_path / "d.o"), "--header"]) == 0
    )
    assert "f32[7,3]" in (tmp_path / "d.h").read_text()
    assert command.main(["convert", str(file), str(tmp_path / "d.hlo"), types]) == 0
    assert axla.parse(tmp_path / "d.hlo").entry.parameters[0].shape.dims == (7, 3)  # type: ignore[union-attr]


def test_bounds_stay(file, capsys):
    bounded = ["f32[<=4,3],_", "tensor<?x3xf32, #stablehlo.bounds<4, ?>>,_"]
    for types in bounded:
        assert command.main(["convert", str(file), "-", "--to=hlo", f"--arg-types={types}"]) == 0
        assert "f32[<=4,3]" in capsys.readouterr().out


def test_values_of_sizes(tmp_path, capsys):
    path = tmp_path / "n.mlir"
    path.write_text(COUNTED)
    assert command.main(["run", str(path), "--dim-args=5"]) == 0
    assert "[0, 1, 2, 3, 4]" in capsys.readouterr().out
    assert command.main(["run", str(path)]) == 1
    said = capsys.readouterr().err
    assert "result 0 is tensor<?xi32>" in said and "--dim-args" in said


@pytest.mark.parametrize("verb", ["run", "opt", "check", "compile --emit-object=x.o", "convert --to=hlo"])
def test_without_them_the_message_names_argument_and_option(file, verb, capsys, tmp_path):
    verb, *options = verb.replace("x.o", str(tmp_path / "x.o")).split()
    target = ["-"] if verb == "convert" else []
    assert command.main([verb, str(file), *target, *options]) == 1
    said = capsys.readouterr().err
    assert "argument 0 is tensor<?x3xf32>" in said and "argument 1" not in said and "--arg-types" in said
    if verb != "check":
        proposed = re.findall(r"--arg-types='(.*?)'", said)
        assert command.main([verb, str(file), *target, *options, f"--arg-types={proposed[0]}"]) == 0


@pytest.mark.parametrize(
    "options, message",
    [
        (["--arg-types=f32[5,3]"], "arg_types has 1 types; @main takes 2"),
        (["--arg-types=s32[5,3],_"], "argument 0 is tensor<?x3xf32>, found s32[5, 3]"),
        (["--arg-types=f32[5,4],_"], "argument 0 is tensor<?x3xf32>, found tensor<5x4xf32>"),
        (["--arg-types=tensor<5x3xf33>,_"], "f33"),
    ],
)
def test_sizes_that_do_not_fit(file, options, message, capsys):
    assert command.main(["run", str(file), *options]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["--arg-types=q7[3]", "--arg-types=f32[3", "--dim-args=1,x", "--dim-args="]
)
def test_what_no_list_of_sizes_is(file, option, capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main(["run", str(file), option])
    assert stopped.value.code == 2
    assert option.partition("=")[0] in capsys.readouterr().err


def test_sizes_belong_to_one_stablehlo_program(file, tmp_path, capsys):
    assert command.main(["check", str(tmp_path), "--arg-types=f32[5,3],_"]) == 1
    assert "for one program" in capsys.readouterr().err
    path = tmp_path / "x.hlo"
    path.write_text("ENTRY e { ROOT x = f32[3] parameter(0) }")
    assert command.main(["run", str(path), "--arg-types=f32[3]"]) == 1
    assert "are for StableHLO only" in capsys.readouterr().err


def test_python_checks_with_sizes_too():
    assert axla.check(DYNAMIC, arg_types=["tensor<5x3xf32>", None]).ok
    assert axla.check(axla.parse(DYNAMIC), arg_types=["tensor<5x3xf32>", None]).ok


def test_what_jax_exports_runs(tmp_path, capsys):
    """An artifact with symbolic sizes, for several platforms: its first argument says which."""
    jax = pytest.importorskip("jax")
    rows, columns = jax.export.symbolic_shape("rows, columns")
    x, w = (jax.ShapeDtypeStruct(s, np.float32) for s in ((rows, columns), (columns, 2)))
    function = jax.jit(lambda x, w: x @ w / x.shape[0])
    for platforms, choice in (("cpu",), []), (("cpu", "cuda"), ["--dim-args=0"]):
        exported = jax.export.export(function, platforms=platforms)(x, w)
        path = tmp_path / f"{len(platforms)}.mlirbc"
        path.write_bytes(exported.mlir_module_serialized)
        inputs = [np.arange(12, dtype=np.float32).reshape(4, 3), np.ones((3, 2), np.float32)]
        files = []
        for number, array in enumerate(inputs):
            np.save(tmp_path / f"{number}.npy", array)
            files.append(f"--input={tmp_path / f'{number}.npy'}")
        assert command.main(["run", str(path), *choice, "--arg-types=f32[4,3],f32[3,2]", *files]) == 0
        out = capsys.readouterr().out
        assert np.array2string(inputs[0] @ inputs[1] / 4, separator=", ") in out
        assert command.main(["run", str(path), *choice, "--arg-types=f32[4,3],f32[5,2]"]) == 1
        assert "shape assertion" in capsys.readouterr().err
