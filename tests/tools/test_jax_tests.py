"""scripts/jax-tests on files of its own: a crash is an outcome, and the other cases are run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "jax-tests"
CASES = """
import os, unittest

class Cases(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): os.abort()
    def test_c(self): self.assertEqual(1, 2)
    def test_d(self): self.skipTest("not here")
"""
OUTCOMES = {
    "Cases::test_a": ("passed", ""),
    "Cases::test_b": ("crashed", "SIGABRT"),
    "Cases::test_c": ("failed", "AssertionError: 1 != 2"),
    "Cases::test_d": ("skipped", "Skipped: not here"),
}


def run(folder: Path, *more: str) -> None:
    command = [sys.executable, str(SCRIPT), str(folder), "--platform", "stock", "--setting", "x32", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_outcomes_are_recorded_and_kept(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "tests" / "some_test.py").write_text(CASES)
    (tmp_path / "tests" / "broken_test.py").write_text("import there_is_no_such_module")
    run(tmp_path, "some", "broken")
    record = tmp_path / "results" / "some_test.x32.stock.jsonl"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert {line["case"]: (line["outcome"], line["why"]) for line in lines if "case" in line} == OUTCOMES
    broken = (tmp_path / "results" / "broken_test.x32.stock.jsonl").read_text()
    assert "No module named 'there_is_no_such_module'" in broken
    run(tmp_path, "some")
    assert record.read_text().count('"outcome"') == len(OUTCOMES)
