"""docs/adding-an-op.md: its package is installed in a folder, and everything that the page shows is run."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "adding-an-op.md"

# Runs the blocks of the page from a certain one on, in a process to which the ops are unknown before.
RUN = """
import sys
sys.path.insert(0, {commands!r})
import page_commands
from pathlib import Path
found = page_commands.blocks(Path({page!r}).read_text())
page_commands.run([block for block in found if {wanted}], Path.cwd())
"""
FILES = "block.about and block.kind != 'text'"


def install(project: Path) -> None:
    """Writes what `pip install` would: the metadata of the project, with its entry points."""
    told = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    name, version = told["name"].replace("-", "_"), told["version"]
    facts = project / f"{name}-{version}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    entries = configparser.ConfigParser(delimiters=("=",))
    entries.optionxform = str  # type: ignore[assignment,method-assign]
    entries.read_dict(told["entry-points"])
    with open(facts / "entry_points.txt", "w") as file:
        entries.write(file)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The folder of the page's files, installed."""
    folder = tmp_path_factory.mktemp("page")
    run_blocks(folder, FILES)
    install(folder)
    return folder


def run_blocks(folder: Path, wanted: str) -> None:
    code = RUN.format(commands=str(ROOT / "tests" / "aot"), page=str(PAGE), wanted=wanted)
    run_python(folder, "-c", code)


def run_python(folder: Path, *arguments: str) -> str:
    """Runs Python with the page's package on its path; returns its output."""
    environment = {
        **os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'src'}", "AXLA_CACHE_DIR": "",
        "AXLA": str(ROOT),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=folder, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.cc
def test_the_page_runs_as_it_is(site):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not there")
    run_blocks(site, f"not ({FILES})")
