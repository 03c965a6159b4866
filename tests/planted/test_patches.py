"""The planted faults still fit the code: faults of known kinds that `scripts/planted` has the fuzzer find."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PATCHES = sorted(HERE.glob("*.patch"))
PROGRAMS = sorted(HERE.glob("*.hlo"))
"""Programs that the fault of their name makes wrong."""


def planted(patch: Path, tree: Path) -> None:
    subprocess.run(["git", "apply", "--unsafe-paths", str(patch)], cwd=tree, check=True)


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_patch_applies(patch: Path, tmp_path: Path) -> None:
    files = [line.split("b/", 1)[1] for line in patch.read_text().splitlines() if line.startswith("+++ b/")]
    assert files
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    before = [(tmp_path / name).read_text() for name in files]
    planted(patch, tmp_path)
    for name, text in zip(files, before, strict=True):
        changed = (tmp_path / name).read_text()
        assert changed != text
        compile(changed, name, "exec")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_fault_shows(program: Path, tmp_path: Path) -> None:
    """The program agrees with the interpreter, and does not where the fault is planted."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-B", "-m", "axla", "check", str(program)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "AXLA_CACHE_DIR": ""}
    healthy = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert healthy.returncode == 0, healthy.stderr
    planted(HERE / f"{program.stem}.patch", tmp_path)
    faulty = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert faulty.returncode == 1
    assert "differ" in faulty.stderr
