"""docs/start/tensorflow.md runs, and prints what it shows."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import run_page  # noqa: E402


@pytest.mark.cc
def test_page_runs(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("AXLA_", "PYTHON", "TF_", "XLA_"))}
    environment = {**kept, **run_page.installed(), "AXLA_CACHE_DIR": str(tmp_path / "cache")}
    run_page.run(ROOT / "docs" / "start" / "tensorflow.md", tmp_path, environment)
