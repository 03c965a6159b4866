"""The planted faults still fit the code: faults of known kinds that `scripts/fuzz` has to find."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PATCHES = sorted(HERE.glob("*.patch"))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_patch_applies(patch: Path, tmp_path: Path) -> None:
    files = [line.split("b/", 1)[1] for line in patch.read_text().splitlines() if line.startswith("+++ b/")]
    assert files
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    before = [(tmp_path / name).read_text() for name in files]
    subprocess.run(["git", "apply", "--unsafe-paths", str(patch)], cwd=tmp_path, check=True)
    for name, text in zip(files, before, strict=True):
        changed = (tmp_path / name).read_text()
        assert changed != text
        compile(changed, name, "exec")
