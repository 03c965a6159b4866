"""Jobs of several processes: scripts that the launcher runs, and what is left of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

import axla

MARKER = "JOB_OF_A_TEST"
"""A variable of every process of a job."""


def pytest_collection_modifyitems(items):
    mpiexec = Path(sys.executable).with_name("mpiexec").exists() or shutil.which("mpiexec")
    if find_spec("mpi4py") and mpiexec:
        return
    for item in items:
        if Path(__file__).parent in item.path.parents and "job" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason="there is no MPI: pip install 'axla[mpi]'"))


@dataclass
class Ended:
    """The end of a job. `seconds`: the time since its script announced the cause, or since its start."""

    status: int
    out: str
    error: str
    seconds: float

    @property
    def messages(self) -> list[str]:
        """The messages of the launcher."""
        return [line for line in self.error.splitlines() if line.startswith("axla.distributed: ")]


def left(variable: str) -> list[str]:
    """The command lines of processes that have a variable."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append((path / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.fixture
def job(tmp_path, request):
    """Runs a script in processes: job(text, 2, "an argument", A_VARIABLE="1"). Nothing is left of them."""
    marker = f"{MARKER}={os.getpid()}-{request.node.name}"

    def run(
        script: str | Path, processes: int, *arguments: str, begin: list[str] | None = None, **more: str
    ) -> Ended:
        path = tmp_path / "script.py"
        if isinstance(script, str):
            path.write_text(textwrap.dedent(script))
        command = begin or [sys.executable, "-m", "axla.distributed", "-n", str(processes)]
        environment = {
            **os.environ, "PYTHONPATH": str(Path(axla.__file__).parents[1]), "AXLA_NUM_THREADS": "1",
            "AXLA_CACHE_DIR": "", MARKER: marker.partition("=")[2], **more,
        }  # fmt: skip
        started = time.time()
        done = subprocess.run(
            [*command, str(path if isinstance(script, str) else script), *arguments],
            capture_output=True, text=True, timeout=100, env=environment,
        )  # fmt: skip
        causes = [line for line in done.stderr.splitlines() if line.startswith("cause at ")]
        since = float(causes[0].split()[-1]) if causes else started
        ended = Ended(done.returncode, done.stdout, done.stderr, time.time() - since)
        limit = time.monotonic() + 10
        while left(marker) and time.monotonic() < limit:
            time.sleep(0.02)
        assert left(marker) == []
        return ended

    return run
