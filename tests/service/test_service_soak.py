"""Short versions of `scripts/soak service` and `scripts/fuzz_service`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio (axla[service]) is not installed")
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.mark.parametrize(
    ("command", "said"),
    [(["soak", "service", "--seconds=5"], "soak service: 5 s"), (["fuzz_service", "--count=150"], "fuzz_service: ")],
    ids=["soak", "fuzz"],
)  # fmt: skip
def test_hostile_clients(command, said):
    command[0] = str(SCRIPTS / command[0])
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert said in done.stdout and "FAILED" not in done.stdout
