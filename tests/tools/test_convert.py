"""`axla convert`: every format to every other one, errors, and files that are whole or not there."""

from __future__ import annotations

import io
import re
import sys

import numpy as np
import pytest

from axla import proto
from axla.core.literal import Literal
from axla.text import parse_hlo
from axla.tools import main as command
from axla.tools.convert import EXTENSIONS, WRITERS, format_of

TEXT = """HloModule scaled, num_partitions=2

ENTRY main {
  x = f32[2,3] parameter(0)
  c = f32[2,3] constant({{1,2,3},{4,5,6}})
  ROOT m = f32[2,3] multiply(x, c), metadata={op_name="m"}
}
"""
LOSSLESS = ("hlo", "pb", "hlo.pb", "pbtxt", "textproto", "snapshot")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.hlo"
    path.write_text(parse_hlo(TEXT).to_string(print_large_constants=True) + "\n")
    return path


def convert(*arguments) -> int:
    return command.main(["convert", *map(str, arguments)])


@pytest.mark.parametrize("first", LOSSLESS)
@pytest.mark.parametrize("second", LOSSLESS)
def test_there_and_back(file, tmp_path, first, second):
    for source, target in (("a.hlo", f"b.{first}"), (f"b.{first}", f"c.{second}"), (f"c.{second}", "d.hlo")):
        assert convert(tmp_path / source, tmp_path / target) == 0
    assert (tmp_path / "d.hlo").read_text() == file.read_text()


def test_stablehlo_out_and_in(file, tmp_path):
    assert convert(file, tmp_path / "a.mlir") == 0
    assert "stablehlo.multiply" in (tmp_path / "a.mlir").read_text()
    assert convert(tmp_path / "a.mlir", tmp_path / "a.pb") == 0
    assert proto.read((tmp_path / "a.pb").read_bytes()).entry.root.opcode in ("multiply", "tuple")


def test_snapshots_keep_what_was_run(tmp_path):
    x = Literal.of(np.ones((2, 3), np.float32))
    snapshot = proto.Snapshot(parse_hlo(TEXT), (x,), x, "cpu")
    (tmp_path / "a.snapshot").write_bytes(snapshot.to_proto())
    assert convert(tmp_path / "a.snapshot", tmp_path / "b.hlo_snapshot.pb") == 0
    found = proto.read_snapshot((tmp_path / "b.hlo_snapshot.pb").read_bytes())
    assert (found.arguments, found.result, found.platform) == ((x,), x, "cpu")


def test_standard_input_and_output(file, capsysbinary, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert convert("-", "-", "--to", "proto") == 0
    assert proto.looks_like_proto(capsysbinary.readouterr().out)


def test_formats_by_name():
    assert format_of("x/module_0001.f.hlo.pb") == "hloproto"
    assert format_of("f.pb") == "proto"
    assert format_of("f.snapshot.pb") == "snapshot"
    assert format_of("f.o") is None
    assert set(EXTENSIONS.values()) == set(WRITERS)


@pytest.mark.parametrize(
    ("target", "more", "says"),
    [
        ("b.o", [], "does not say which format to write"),
        ("b.mlirbc", [], "written as text"),
        ("b.pb", ["--from", "snapshot"], "not an HloModuleProto"),
        ("no/such/folder/b.pb", [], "No such file"),
    ],
)
def test_errors_are_clear_and_leave_no_file(file, tmp_path, capsys, target, more, says):
    before = sorted(tmp_path.rglob("*"))
    assert convert(file, tmp_path / target, *more) == 1
    assert says in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_what_fails_leaves_the_old_file(tmp_path, capsys):
    (tmp_path / "bad.hlo").write_text("HloModule m\n\nENTRY e { ROOT r = f32[] nope() }")
    (tmp_path / "b.pb").write_bytes(b"old")
    assert convert(tmp_path / "bad.hlo", tmp_path / "b.pb") == 1
    assert "not an opcode" in capsys.readouterr().err
    assert (tmp_path / "b.pb").read_bytes() == b"old"


@pytest.mark.parametrize("verb", ["run", "opt", "check"])
def test_other_verbs_take_protos(file, tmp_path, capsys, verb):
    more = [] if verb == "opt" else ["--replicas=first"]
    for name in ("a.pb", "a.pbtxt", "a.snapshot"):
        assert convert(file, tmp_path / name) == 0
        assert command.main([verb, str(tmp_path / name), *more]) == 0
    assert capsys.readouterr().out


def test_sizes_that_are_not_known_stay_stablehlo(tmp_path, capsys):
    source, target = tmp_path / "d.mlir", tmp_path / "e.mlir"
    source.write_text("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }")
    assert convert(source, target) == 0
    assert "tensor<?xf32>" in target.read_text()
    for name in ("e.hlo", "e.pb", "e.pbtxt", "e.hlo.pb", "e.snapshot"):
        assert convert(source, tmp_path / name) == 1
        assert re.search("sizes.*not known|unknown sizes", capsys.readouterr().err)
        assert not (tmp_path / name).exists()


def test_what_is_read_is_what_from_says(file, tmp_path, capsys):
    assert convert("--from=stablehlo", file, tmp_path / "b.hlo") == 1
    assert "not StableHLO" in capsys.readouterr().err


def test_a_missing_folder_is_named(file, tmp_path, capsys):
    assert convert(file, tmp_path / "none" / "b.hlo") == 1
    assert f"{tmp_path}/none/b.hlo: No such file" in capsys.readouterr().err
