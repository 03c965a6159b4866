"""scripts/jax-programs: sides run in processes of their own; differences, failures, limits are told."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import math
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS / "jax_programs"))
import sides  # noqa: E402

PROGRAM = """
import os, time
import jax
from report import Timer, finish
side = os.environ["SIDE"]
{statement}
timer = Timer()
value = timer(jax.jit(lambda x: x + 1), 1.0)
finish("small", timer, {{"value": value + (side == "axla") * 1e-3}}, rtol=0, atol=1e-2)
"""


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Measures a program with this statement, which may ask for `side`. Both sides are stock here."""
    environment = sides.environment
    monkeypatch.setattr(sides, "environment", lambda side: environment("stock") | {"SIDE": side})

    def measure(statement: str = "", limit: float = 100) -> sides.Program:
        path = tmp_path / "small.py"
        path.write_text(PROGRAM.format(statement=statement))
        monkeypatch.setitem(sides.PROGRAMS, "small", path)
        (program,) = sides.measure(["small"], limit=limit)
        return program

    return measure


def table(program: sides.Program) -> list[str]:
    loader = importlib.machinery.SourceFileLoader("jax_programs_script", str(SCRIPTS / "jax-programs"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    script = importlib.util.module_from_spec(spec)
    loader.exec_module(script)
    return script.main_table([program])[-1].split(" | ")


def test_results_are_compared_in_units_of_the_tolerance(measured):
    program = measured()
    assert not program.failures
    assert program.difference() == pytest.approx(0.1, rel=1e-3)
    assert len(table(program)) == 15 and "-" not in table(program)


def test_a_side_that_fails_is_reported_and_the_other_has_its_figures(measured):
    program = measured("if side == 'axla': raise ValueError('so it is')")
    assert program.failures == {"axla": "exit code 1: ValueError: so it is"}
    cells = table(program)
    assert cells[1] != "-" and cells[2] == cells[3] == "-" and "so it is" in cells[-1]


def test_a_side_that_hangs_is_stopped(measured):
    program = measured("time.sleep(1000)", limit=1)
    assert program.failures == dict.fromkeys(sides.SIDES, "took more than 1 s")


def test_results_that_have_other_sizes_or_become_nan_differ():
    line = {"results": {"x": [1.0, 2.0]}, "rtol": 0.1, "atol": 0.0}
    assert sides.difference(line, line | {"results": {"x": [1.0]}}) == math.inf
    assert sides.difference(line, line | {"results": {"x": [1.0, math.nan]}}) == math.inf
    assert sides.difference(line, line | {"results": {"x": [1.1, 2.0]}}) == pytest.approx(1)
