"""Mutated files of TensorFlow end in a result or an error of ours: a sample of scripts/fuzz_tensorflow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(sys.platform != "linux", reason="the limits on children are those of Linux"),
]


def test_a_sample_of_mutated_files(tmp_path):
    counts = tmp_path / "counts.json"
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "fuzz_tensorflow"), "--count=200", "--seed=5", "--json", str(counts)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if "is not at hand" in done.stderr:
        pytest.skip("the corpus is not at hand")
    found = json.loads(counts.read_text())
    assert sum(found.values()) == 200, done.stderr
    assert not {"bare", "crash", "hang", "internal"} & found.keys(), done.stdout
    assert found["result"] >= 30
