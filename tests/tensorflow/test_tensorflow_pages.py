"""docs/tensorflow.md, docs/from-tfcompile.md and the README of examples/tensorflow are run as they are
written, part by part, where their tools are at hand.
"""

from __future__ import annotations

import platform
import re
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "aot"))
import page_commands  # noqa: E402

EXAMPLE = page_commands.ROOT / "examples" / "tensorflow"
GRAPHS = Path(__file__).with_name("tfcompile")
PAGES = {
    "README": EXAMPLE / "README.md",
    "tensorflow": page_commands.ROOT / "docs" / "tensorflow.md",
    "from-tfcompile": page_commands.ROOT / "docs" / "from-tfcompile.md",
}
PARTS = {
    f"{name}: {part.splitlines()[0].removeprefix('# ')}": part
    for name, path in PAGES.items()
    for part in re.split(r"^## ", path.read_text(), flags=re.M)
    if "```" in part
}
BEFORE = {
    "tensorflow: A C library": "tensorflow: Load",
    "tensorflow: Variables": "tensorflow: Load",
    "from-tfcompile: Flags": "from-tfcompile: The document's example",
    "from-tfcompile: From Bazel to CMake": "from-tfcompile: The document's example",
}
"""What a part takes from another one."""

pytestmark = [
    pytest.mark.cc,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the pages are for x86-64"),
]


@pytest.mark.parametrize("name", PARTS)
def test_runs_as_written(name, tmp_path, monkeypatch):
    before = page_commands.blocks(PARTS[BEFORE[name]]) if name in BEFORE else []
    found = page_commands.blocks(PARTS[name])
    missing = [tool for tool in page_commands.tools([*before, *found]) if not shutil.which(tool)]
    parts = [PARTS[part].lower() for part in (BEFORE.get(name), name) if part is not None]
    if any("eigen" in part for part in parts) and not Path("/usr/include/eigen3").is_dir():
        missing.append("Eigen (libeigen3-dev)")
    if missing:
        pytest.skip(f"{', '.join(missing)} is not there")
    shutil.copytree(EXAMPLE / "model", tmp_path / "model")
    shutil.copy(EXAMPLE / "main.cpp", tmp_path)
    shutil.copy(GRAPHS / "test_graph_tfmatmul.pb", tmp_path)
    (tmp_path / "axla").write_text(f'#!/bin/sh\nexec {sys.executable} -m axla "$@"\n')
    (tmp_path / "axla").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    page_commands.run([*before, *found], tmp_path)
