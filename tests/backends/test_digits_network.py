"""The digits network is trained on every backend, by `backend="name"` and by `--backend name`."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).parents[2] / "examples" / "digits.py"


@pytest.fixture(scope="module")
def digits():
    pytest.importorskip("sklearn", reason="scikit-learn holds the digits")
    spec = importlib.util.spec_from_file_location("axla_example_digits", FILE)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wanted(digits):
    """The losses on cpu."""
    return digits.train("network", (64, 24, 10), digits.load(), 3, 0.05, "cpu").losses


def test_it_learns_and_has_the_losses_of_cpu(digits, wanted, backend):
    if backend == "cuda":
        pytest.skip("a GPU in NumPy is slow: tests/device/test_ptx_programs.py trains on two batches")
    trained = digits.train("network", (64, 24, 10), digits.load(), 3, 0.05, backend)
    assert trained.test_accuracy[-1] > 0.8
    assert trained.losses[-1] < 0.6 * trained.losses[0]
    np.testing.assert_allclose(trained.losses, wanted, rtol=1e-5)


def test_it_learns_from_the_command_line(digits, installed):
    path = os.pathsep.join([str(installed), str(Path(digits.axla.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, str(FILE), "--epochs", "2", "--backend", "outside", "--no-picture"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "network: compiled for outside" in done.stdout
    last = re.search(r"network: test accuracy ([\d.]+)%", done.stdout)
    assert last is not None and float(last[1]) > 70
