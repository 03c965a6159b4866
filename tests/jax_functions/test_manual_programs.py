"""Programs with manual regions as JAX writes them, on 8 partitions: axla gives what stock JAX gives."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

import axla

PROGRAMS = Path(__file__).with_name("manual_programs.py")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """By name: portable artifact, arguments, results. A process of its own has 8 devices."""
    path = tmp_path_factory.mktemp("manual") / "programs"
    done = subprocess.run([sys.executable, PROGRAMS, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return pickle.loads(path.read_bytes())


def test_results_are_those_of_stock_jax(programs):
    """In both forms of shardings; on the interpreter and, compiled, on every partition alike."""
    wrong = {}
    for number, (name, (data, arguments, wanted)) in enumerate(programs.items()):
        backend = "cpu" if number % 2 else "interpreter"
        try:
            found = axla.compile(axla.parse(data), backend=backend).execute(arguments)
            for one, other in zip(map(np.asarray, found), wanted, strict=True):
                assert (one.shape, one.dtype) == (other.shape, other.dtype)
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
        except (AssertionError, axla.AxlaError) as error:
            wrong[name, backend] = str(error)
    assert not wrong and len(programs) > 40
