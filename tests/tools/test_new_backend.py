"""`axla new-backend`: the package that it writes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import axla
from axla.tools import main as command
from axla.tools.new_backend import package

ROOT = Path(axla.__file__).parents[2]


@pytest.mark.parametrize("name", ["mine", "my-npu-2"])
def test_the_package_is_small_python_without_places(name):
    files = package(name)
    assert sum(text.count("\n") for text in files.values()) < 300
    for file, text in files.items():
        assert "FILL_" not in text, file
        if file.endswith(".py"):
            compile(text, file, "exec")
    module = f"axla_{name.replace('-', '_')}"
    assert {f"{module}/backend.py", "pyproject.toml", "README.md", f"tests/test_{module}.py"} <= files.keys()


def test_it_is_formatted_as_ruff_does_by_default(tmp_path, capsys):
    if shutil.which("ruff") is None:
        pytest.skip("there is no ruff")
    assert command.main(["new-backend", "mine", "--folder", str(tmp_path)]) == 0
    assert "axla_mine/backend.py" in capsys.readouterr().out
    for verb in (
        ["check", "--select=E,F,I,B", "--line-length=110"],
        ["format", "--check", "--line-length=110"],
    ):
        done = subprocess.run(
            ["ruff", *verb, "--isolated", "."],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_its_own_test_passes(tmp_path, installed_package):
    folder = installed_package("npu-of-mine")
    path = os.pathsep.join([str(folder), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "tests"],
        cwd=folder, capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def installed_package(tmp_path):
    """Writes a package and what an installer adds to it; gives its folder."""

    def make(name: str) -> Path:
        assert command.main(["new-backend", name, "--folder", str(tmp_path)]) == 0
        module = f"axla_{name.replace('-', '_')}"
        facts = tmp_path / f"{module}-0.1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: axla-{name}\nVersion: 0.1.0\n")
        words = "".join(word.capitalize() for word in name.split("-"))
        (facts / "entry_points.txt").write_text(
            f"[axla.backends]\n{name} = {module}.backend:{words}Backend\n"
        )
        return tmp_path

    return make


@pytest.mark.parametrize("name", ["Npu", "a b", "npu-", "2d", ""])
def test_what_is_no_name_is_refused(name, tmp_path, capsys):
    assert command.main(["new-backend", name, "--folder", str(tmp_path / "new")]) == 1
    assert "wanted lower case letters, digits and hyphens" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_name_that_is_taken_and_a_folder_that_is_not_empty(tmp_path, capsys):
    assert command.main(["new-backend", "cpu", "--folder", str(tmp_path)]) == 1
    assert "there is a backend 'cpu' already" in capsys.readouterr().err
    (tmp_path / "mine").write_text("kept")
    for folder in (tmp_path, tmp_path / "mine"):
        assert command.main(["new-backend", "mine", "--folder", str(folder)]) == 1
        assert "wanted a folder that is empty or new" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
