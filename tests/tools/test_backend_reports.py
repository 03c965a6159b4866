"""scripts/backend-reports, and the page that it wrote."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "backend-reports.md"


def test_the_script_writes_a_page(tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn holds the digits")
    page = tmp_path / "page.md"
    script = ROOT / "scripts" / "backend-reports"
    options = ["--backends", "npu", "--only", "^(add|abs) f32", "--epochs", "2", "--out", str(page)]
    done = subprocess.run([sys.executable, str(script), *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "| elementwise | 1 | 1 | 0 | 0 |" in text and "the device has no abs" in text
    losses = re.search(r"^\| 2 \| ([\d.]+) \| ([\d.]+) \|$", text, re.M)
    assert losses is not None and abs(float(losses[1]) - float(losses[2])) < 1e-5


def test_the_page_says_that_nothing_fails_and_all_train_alike():
    text = PAGE.read_text()
    totals = re.findall(r"^\| all \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.M)
    assert len(totals) == 3 and all(int(failed) == 0 for *_, failed in totals)
    assert len({sum(map(int, row)) for row in totals}) == 1  # all backends have the same cases
    far = re.search(r"^\| furthest from cpu \| (.*) \|$", text, re.M)
    assert far is not None and all(float(x) < 1e-5 for x in far[1].split(" | "))
