"""`axla check --all` and `axla backends --coverage`: levels, reasons, failures, the report and the badge."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as xml
from contextlib import suppress
from html.parser import HTMLParser

import numpy as np
import pytest

import axla
from axla.backends import Backend, Capabilities
from axla.backends.kit import OpByOp, OpByOpBackend
from axla.custom.registry import registered
from axla.ir.op import OPS
from axla.tools import check, conformance
from axla.tools import main as command
from axla.tools.conformance import BY_HOST, FAILED, LEVELS, PASSED, REFUSED, Case, ConformanceReport
from axla.tools.samples import sample_target


class Wrong(OpByOp):
    ops = {
        "add": lambda inst, x, y: np.asarray(x + y + 1, inst.shape.dtype.numpy),
        "multiply": lambda inst, x, y: np.asarray(x * y, inst.shape.dtype.numpy),
        "subtract": lambda inst, x, y: {}["no such key"],
    }

    def why_not(self, inst):
        return "" if inst.shape.dtype.name == "f32" else "f32 <only>"


class WrongBackend(OpByOpBackend):
    name = "wrong"
    version = "7.1"
    capabilities = Capabilities(1, {"sine": "no <sines>", "bf16": "too narrow", "participants": "one"})
    executable = Wrong


@pytest.fixture
def wrong():
    axla.backends.register("wrong", WrongBackend)
    yield "wrong"
    axla.backends.unregister("wrong")


def found(backend: str, only: str) -> dict[str, Case]:
    cases = conformance.outcomes(backend, conformance.chosen((), only))
    return {f"{case.op} {case.dtype}": case for case in cases}


def test_outcomes_and_their_reasons(wrong):
    cases = found(wrong, r"^(add|multiply|subtract|sine) (f32|bf16|s32)$")
    assert {name: case.kind for name, case in cases.items()} == {
        "add f32": FAILED, "add s32": BY_HOST, "add bf16": REFUSED, "multiply f32": PASSED,
        "multiply s32": BY_HOST, "multiply bf16": REFUSED, "sine f32": REFUSED, "sine bf16": REFUSED,
        "subtract f32": FAILED, "subtract s32": BY_HOST, "subtract bf16": REFUSED,
    }  # fmt: skip
    assert "wrong and interpreter differ" in cases["add f32"].reason
    assert "KeyError" in cases["subtract f32"].reason
    assert cases["add s32"].reason == "f32 <only>"
    assert cases["sine f32"].reason == "sine: no <sines>" and cases["add bf16"].reason == "bf16: too narrow"


@pytest.mark.parametrize("error", [None, KeyError])
def test_the_target_of_the_sample_is_there_for_a_while(error):
    with suppress(KeyError), sample_target():
        assert registered("sample").function(7, 3) == 7
        if error is not None:
            raise error
    assert registered("sample") is None


def test_every_op_has_a_level_and_a_case():
    assert {op for op, _ in conformance.chosen()} == {op for op, _ in conformance.alone()} == set(OPS)
    levels = {op: conformance.level_of(op) for op in OPS}
    assert set(levels.values()) == set(LEVELS)
    wanted = {
        "add": "elementwise", "gather": "movement", "scatter": "reduction", "convolution": "contraction",
        "while": "control flow", "custom-call": "effects", "infeed": "effects", "all-reduce": "everything",
    }  # fmt: skip
    assert {op: levels[op] for op in wanted} == wanted
    assert {op for op, _ in conformance.chosen(["contraction"])} == {
        "dot",
        "convolution",
        "ragged-dot",
        "scaled-dot",
    }


def test_the_level_reached():
    first, second, third = list(LEVELS)[:3]
    cases = [Case(first, "add", "f32", PASSED), Case(second, "slice", "f32", BY_HOST)]
    assert ConformanceReport("b", []).reached == "none"
    assert ConformanceReport("b", cases).reached == second
    assert ConformanceReport("b", [*cases, Case(third, "sort", "f32", REFUSED, "why")]).reached == second
    assert ConformanceReport("b", [*cases, Case(second, "pad", "f32", FAILED, "why")]).reached == first
    assert ConformanceReport("b", cases[1:]).reached == "none"
    half = [*cases, Case(second, "pad", "f32", REFUSED, "why"), Case(second, "slice", "s4", REFUSED, "why")]
    assert ConformanceReport("b", half).reached == second
    assert ConformanceReport("b", [*half, Case(second, "reverse", "f32", REFUSED, "why")]).reached == first


def test_the_interpreter_passes(capsys):
    assert command.main(["check", "--backend", "interpreter", "--all", "--only", " f32$"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "interpreter reaches: everything" and "refused," not in out
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[1:] if line.startswith(" ")}
    assert rows["all"][1:] == ["0", "0", "0"] and int(rows["all"][0]) > 100


def test_failures_are_named_and_the_exit_code_says_so(wrong, capsys):
    where = ["check", "--backend", wrong, "--all", "--level", "elementwise", "--only"]
    assert command.main([*where, "^(add|sine) f32"]) == 1
    out = capsys.readouterr().out
    assert "refused, 1 x sine: no <sines>: sine f32" in out
    assert "failed, 1 x Mismatch: sample: wrong and interpreter differ" in out
    assert "wrong reaches: none" in out
    assert command.main([*where, "^sine f32"]) == 0


class Cells(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip()


def test_the_report_page_and_the_badge(wrong, tmp_path):
    folder = tmp_path / "a" / "report"
    only = r"^(add|multiply|sine) (f32|s32)$"
    assert command.main(["check", "--backend", wrong, "--all", "--only", only, "--report", str(folder)]) == 1
    page = (folder / "report.html").read_text()
    cells = Cells(page)
    assert ["elementwise", "1", "2", "1", "1"] in cells.rows
    assert ["refused", "1", "sine: no <sines>", "sine f32"] in cells.rows
    assert ["add", "", "s32", "", "f32"] in cells.rows and ["multiply", "f32", "s32", "", ""] in cells.rows
    assert "Version 7.1" in page and "Level reached: <b>none</b>" in page
    assert not {"script", "link", "img"} & cells.tags and "FILL_" not in page
    badge = xml.parse(folder / "badge.svg").getroot()
    assert badge.attrib["aria-label"] == "axla: none, 1 passed, 2 by the host, 1 refused, 1 failed"
    assert (folder / "badge.svg").read_text().strip() in page


def test_ctrl_c_shows_what_is_known_and_writes_nothing(tmp_path, monkeypatch, capsys):
    def interrupted(backend, of):
        yield Case("elementwise", "add", "f32", PASSED)
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "outcomes", interrupted)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert command.main(["check", "--backend", "cpu", "--all", "--report", str(tmp_path / "r")]) == 130
    said = capsys.readouterr()
    assert "stopped after 1 cases" in said.out and "1 passed, 0 failed" in said.err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    "arguments", [[], ["--all", "x.hlo"], ["x.hlo", "--level", "movement"], ["x.hlo", "--report", "r"]]
)
def test_what_does_not_go_together_is_refused(arguments, capsys):
    assert command.main(["check", *arguments]) == 1
    assert "wanted a PATH or --all" in capsys.readouterr().err


def test_coverage_says_who_runs_an_op(wrong, capsys):
    assert command.main(["backends", "--coverage", wrong]) == 0
    lines = {line.split()[0]: line.split(None, 2)[2] for line in capsys.readouterr().out.splitlines()}
    assert lines.keys() == OPS.keys()
    assert lines["multiply"] == lines["tuple"] == "itself"
    assert lines["abs"] == "the host: the device has no abs"
    assert lines["and"] == "the host: the device has no and" and lines["sine"] == "refused: sine: no <sines>"
    assert lines["add"].startswith("failed: Mismatch")


def test_a_backend_that_raises_what_is_no_error_of_axla(capsys):
    class Broken(Backend):
        name = "broken-compiler"

        def compile(self, client, module, options):
            raise ZeroDivisionError("a bug of somebody else")

    axla.backends.register("broken-compiler", Broken)
    try:
        assert command.main(["check", "--backend", "broken-compiler", "--all", "--only", "^abs f32"]) == 1
    finally:
        axla.backends.unregister("broken-compiler")
    assert "failed, 1 x ZeroDivisionError: a bug of somebody else: abs f32" in capsys.readouterr().out
