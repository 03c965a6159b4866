"""Short versions of `scripts/soak service` and `scripts/fuzz_service`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio (axla[service]) is not installed")
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.mark.parametrize("command", [("soak", "service", "--seconds=2"), ("fuzz_service", "--count=100")])
def test_hostile_clients(command):
    script, *options = command
    command = [sys.executable, str(SCRIPTS / script), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert script in done.stdout and "FAILED" not in done.stdout
