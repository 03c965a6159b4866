"""Programs that check themselves: what checks mean, how a case is cut, what `axla.check` says."""

from __future__ import annotations

import io
import tarfile

import ml_dtypes
import numpy as np
import pytest

import axla
from axla.core.errors import Mismatch, ParseError, UnsupportedError
from axla.stablehlo.checks import FAR, Check, cases, nearly, ulps
from axla.stablehlo.importer.program import functions_of
from axla.stablehlo.text import parse
from axla.tools import main as command

CASE = """
module @jit_main {
  func.func public @main() -> (tensor<2xf32>) {
    %0:2 = call @inputs() : () -> (tensor<2xf32>, tensor<2xf32>)
    %1 = call @expected() : () -> tensor<2xf32>
    %2 = stablehlo.add %0#0, %0#1 : tensor<2xf32>
    stablehlo.custom_call @check.expect_close(%2, %1) {has_side_effect = true}
      : (tensor<2xf32>, tensor<2xf32>) -> ()
    return %2 : tensor<2xf32>
  }
  func.func private @inputs() -> (tensor<2xf32>, tensor<2xf32>) {
    %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %1 = stablehlo.constant dense<3.0> : tensor<2xf32>
    return %0, %1 : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @expected() -> (tensor<2xf32>) {
    %0 = stablehlo.constant dense<[4.0, 5.0]> : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""


def test_distance_counts_representable_values():
    one = np.float32(1)
    up = np.nextafter(one, np.float32(2))
    a = np.array([1, 1, 0.0, np.nan, np.inf, np.inf, 1e-45], np.float32)
    b = np.array([up, 1, -0.0, np.nan, np.inf, -np.inf, -1e-45], np.float32)
    assert ulps(a, b).tolist() == [1, 0, 0, 0, 0, int(FAR), 2]
    assert ulps(b, a).tolist() == ulps(a, b).tolist()
    halves = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert ulps(halves, np.array([1.0, 2.015625], ml_dtypes.bfloat16)).tolist() == [0, 1]
    z = np.array([1 + 1j], np.complex64)
    assert ulps(z, np.array([complex(1, up)], np.complex64)).tolist() == [1]
    with pytest.raises(UnsupportedError):
        ulps(np.array([1]), np.array([1]))


def test_near_is_absolute():
    a = np.array([1.0, 100.0, np.nan, np.inf, np.inf, 1.0])
    b = np.array([1.0009, 100.002, np.nan, np.inf, -np.inf, np.nan])
    assert nearly(a, b, 1e-3).tolist() == [True, False, True, True, False, False]


def test_equality_is_that_of_numbers():
    check = Check("eq", 0, 1)
    assert not check.problem(np.array([0.0]), np.array([-0.0]))
    assert "1 of 1 elements, first at [0]" in check.problem(np.array([np.nan]), np.array([np.nan]))
    assert "wanted int32" in check.problem(np.array([1], np.int64), np.array([1], np.int32))


def test_close_wants_a_least_distance_too():
    check = Check("close", 0, 1, max_ulp=3, min_ulp=1)
    x = np.array([1.0])
    assert check.problem(x, x) and not check.problem(x, np.nextafter(x, 2))


def test_case_takes_its_inputs_as_arguments():
    source = parse(CASE)
    (case,) = cases(source)
    assert (case.body, case.inputs, case.expected) == ("main", "inputs", "expected")
    assert [(c.kind, c.actual, c.expected, c.from_function, c.max_ulp) for c in case.checks] == [
        ("close", 0, 0, True, 3)
    ]
    main = functions_of(source)["main"]
    assert [a.type.shape for a in main.regions[0].blocks[0].arguments] == [(2,), (2,)]
    assert [op.name for op in main.regions[0].blocks[0].operations] == ["stablehlo.add", "func.return"]


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_check_runs_the_case(backend):
    report = axla.check(CASE, backend)
    assert report.ok and len(report.outputs) == 1
    with pytest.raises(Mismatch, match=r"close, 1 of 2 elements, first at \[1\].*found 5.0, wanted 5.5"):
        axla.check(CASE.replace("[4.0, 5.0]", "[4.0, 5.5]"), backend)


OPERATIONS = """
func.func @one() {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf64>
  %1 = stablehlo.negate %0 : tensor<2xf64>
  check.expect_eq_const %1, dense<[-1.0, -2.0]> : tensor<2xf64>
  check.expect_almost_eq_const %1, dense<[-1.00001, -2.0]> : tensor<2xf64>
  check.expect_almost_eq %1, %0, tolerance = 5.0 : tensor<2xf64>
  func.return
}
func.func @two() {
  %0 = stablehlo.constant dense<7> : tensor<i32>
  check.expect_eq_const %0, dense<VALUE> : tensor<i32>
  func.return
}
"""


def test_checks_as_operations():
    report = axla.check(OPERATIONS.replace("VALUE", "7"), "interpreter")
    assert len(report.outputs) == 4
    with pytest.raises(Mismatch, match="found 7, wanted 8"):
        axla.check(OPERATIONS.replace("VALUE", "8"), "interpreter")


def test_custom_calls_give_their_tolerances():
    text = CASE.replace("@check.expect_close", "@check.expect_almost_eq").replace(
        "{has_side_effect = true}", '{has_side_effect = true, backend_config = "tolerance=0.6"}'
    )
    assert axla.check(text.replace("[4.0, 5.0]", "[4.0, 5.5]"), "interpreter").ok


def test_programs_without_checks_are_compared_with_the_interpreter():
    text = """func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.tanh %a : tensor<3xf32>
      return %0 : tensor<3xf32>
    }"""
    assert axla.check(text).reference == "interpreter"


def test_parse_tells_formats_apart(tmp_path):
    text = "func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> { return %a : tensor<3xf32> }"
    for source in (text, text.encode(), f"// a comment\n  {text}", f"module {{ {text} }}"):
        assert axla.parse(source).entry.parameters[0].shape.to_string(layout=False) == "f32[3]"
    assert axla.parse("HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }").name == "m"
    assert axla.parse(
        "module (p: f32[]) -> f32[] { ROOT p = f32[] parameter(0) }".replace("module", "ENTRY module")
    )
    file = tmp_path / "a.mlir"
    file.write_text(text)
    assert axla.parse(file).has_entry
    with pytest.raises(
        ParseError, match="not UTF-8 text, not StableHLO bytecode, and the bytes are not an HloModule"
    ):
        axla.parse(b"\xff\xfe")
    with pytest.raises(
        ParseError, match=r"not an HloModuleProto.*: field 4 has \d+ bytes, but \d+ bytes are left"
    ):
        axla.parse(axla.proto.to_proto(axla.parse(text))[:120])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "a.mlir").write_text(CASE)
    (tmp_path / "good" / "b.hlo").write_text("HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }")
    (tmp_path / "good" / "notes.txt").write_text("nothing")
    (tmp_path / "wrong.mlir").write_text(CASE.replace("[4.0, 5.0]", "[4.0, 6.0]"))
    (tmp_path / "none.mlir").write_text('func.func @main() { "stablehlo.nothing"() : () -> ()\nreturn }')
    return tmp_path


def test_command_counts_and_groups(folder, capsys):
    assert command.main(["check", "--backend", "interpreter", str(folder)]) == 1
    said = capsys.readouterr().out
    assert said.endswith("2 passed, 2 failed\n")
    assert "1 x results differ" in said
    assert "1 x VerifyError: N:N: stablehlo.nothing: unknown_operation" in said
    assert command.main(["check", "--backend", "interpreter", str(folder), "--only", "good"]) == 0
    assert capsys.readouterr().out == "2 passed, 0 failed\n"


def test_command_reads_archives(folder, tmp_path, capsys):
    archive = tmp_path / "cases.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("good/a.mlir", "wrong.mlir"):
            data = (folder / name).read_bytes()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    assert command.main(["check", "--backend", "interpreter", str(archive)]) == 1
    assert capsys.readouterr().out.endswith("1 passed, 1 failed\n")
    (tmp_path / "bad.tar.gz").write_bytes(b"nothing")
    assert command.main(["check", str(tmp_path / "bad.tar.gz")]) == 1
    assert "not an archive" in capsys.readouterr().err


def test_command_shows_one_program(folder, capsys):
    assert command.main(["check", "--backend", "interpreter", str(folder / "good" / "a.mlir")]) == 0
    assert "interpreter agrees with its checks" in capsys.readouterr().out


def test_whoever_parses_a_check_is_told_who_carries_it_out():
    text = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
      check.expect_eq_const %x, dense<2> : tensor<i32>
      return %x : tensor<i32> }"""
    with pytest.raises(UnsupportedError, match="expect_eq_const.*: a check, which `axla check` carries out"):
        axla.parse(text)
