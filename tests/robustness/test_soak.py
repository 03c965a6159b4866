"""Short versions of scripts/soak."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).resolve().parents[2] / "scripts" / "soak"
# 12 KiB: a program that is not freed leaves its pages of code, and more; some pages are noise in a short run.
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.mark.parametrize(
    "options",
    [
        ["interrupt"],
        ["threads", "--seconds=1"],
        ["fork", "--forks=5"],
        ["compile", "--count=160", "--settle=20", "--kib=12"],
    ],
    ids=lambda options: options[0],
)
def test_soak(options):
    done = subprocess.run([sys.executable, str(SOAK), *options], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"soak {options[0]}: ")
