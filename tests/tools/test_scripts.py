"""The shell scripts are POSIX sh without errors of syntax; scripts/size counts code only."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHELL = shutil.which("dash") or shutil.which("sh")


def loaded(name: str):
    loader = SourceFileLoader(name, str(ROOT / "scripts" / name))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.skipif(SHELL is None, reason="needs a shell")
@pytest.mark.parametrize("name", ["demo", "test", "check", "environment", "extras", "test-pythons", "wheel"])
def test_shell_scripts_parse(name):
    done = subprocess.run([str(SHELL), "-n", str(ROOT / "scripts" / name)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(SHELL is None, reason="needs a shell")
def test_an_environment_is_kept_until_the_project_changes(tmp_path):
    """With a Python that only notes what it is asked for."""
    notes = tmp_path / "notes"
    python = tmp_path / "fake-python"
    python.write_text(
        f"""#!/bin/sh
echo "$@" >> {notes}
if [ "$1" = -m ] && [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; fi
"""
    )
    python.chmod(0o755)
    (tmp_path / "pyproject.toml").write_text("one")
    script = f'set -eu; . {ROOT}/scripts/environment; environment env test; echo "$python"'
    calls = []
    for text in ("one", "one", "two"):
        (tmp_path / "pyproject.toml").write_text(text)
        notes.write_text("")
        done = subprocess.run(
            [str(SHELL), "-c", script],
            capture_output=True, text=True, cwd=tmp_path,
            env={"PYTHON": str(python), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        assert done.stdout == "env/bin/python\n", done.stderr
        calls.append([line for line in notes.read_text().splitlines() if line.startswith("-m")])
    installs = [
        "-m venv env",
        "-m pip install --quiet --disable-pip-version-check --no-compile --editable .[test]",
    ]
    assert calls == [installs, [], installs]


def test_size_counts_code_only():
    size = loaded("size")
    text = (
        '"""Docstring\n\nof three lines."""\n\n# comment\nx = 1  # more\n\n'
        'def f():\n    """Doc."""\n    return (\n        x\n    )\n'
    )
    assert size.code_lines(text) == 5
    assert size.code_lines('x = """a\nb"""\n') == 2
    assert size.code_lines('"a"\n"b".join([])\n') == 1


def test_the_example_of_a_backend_is_short():
    """docs/new-backend.md says so."""
    files = (ROOT / "examples/backends/c_source").rglob("*.py")
    assert 300 < sum(loaded("size").code_lines(file.read_text()) for file in files) < 600


def test_every_layer_has_a_budget():
    size = loaded("size")
    layers = {p.parent.name for p in (ROOT / "src" / "axla").glob("*/__init__.py")}
    assert layers <= set(size.BUDGET)
