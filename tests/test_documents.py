"""Runs the Python code in the README and in docs/*.md; checks that the shell commands in them exist."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from axla.tools import main as command

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSES/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("targets/*.md")),
]
RUN_ELSEWHERE = {"adding-an-op", "new-backend"}  # need installed packages: see tests/docs
RUN_ELSEWHERE |= {"tensorflow", "from-tfcompile"}  # need graphs: see tests/tensorflow
RUN_ELSEWHERE |= {"tensorflow-jit"}  # needs TensorFlow: see tests/tensorflow_jit
RUN_ELSEWHERE |= {"service"}  # needs a server: see tests/docs
RUN_ELSEWHERE |= {"README"}  # all of its blocks run in a test below
WITH_PYTHON = [p for p in PAGES if "```python" in p.read_text() and p.stem not in RUN_ELSEWHERE]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.stem)
def test_python_runs(page, tmp_path):
    """All blocks of a page run in order, in one process per page, since they may declare rules and passes."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S))
    path = tmp_path / "page.py"
    path.write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "AXLA_CACHE_DIR": ""}
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    if page.stem == "debugging-a-miscompile":
        assert "last: wrong_on_purpose" in done.stderr


@pytest.mark.cc
def test_the_readme_runs(tmp_path):
    """The README runs as `scripts/wheel` runs it with the wheel."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    pytest.importorskip("jax", reason="JAX is not installed")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "AXLA_CACHE_DIR": ""}
    command = [sys.executable, str(ROOT / "scripts" / "run_page.py"), "--here", str(ROOT / "README.md")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "axpy: cpu agrees with interpreter" in done.stdout and "predict: result0 f32[2,3]" in done.stdout
    assert (tmp_path / "page.html").stat().st_size > 50_000


def test_the_picture_is_what_its_script_draws():
    sys.path.insert(0, str(ROOT / "scripts"))
    import picture

    assert picture.PICTURE.read_text(encoding="utf-8") == picture.picture()


def commands() -> list[str]:
    pages = [page for page in PAGES if page.stem not in RUN_ELSEWHERE]
    lines = [line for page in pages for line in page.read_text().splitlines()]
    found = [re.sub(r"^(?:[A-Z_]+=\S* )*", "", line) for line in lines]
    return sorted({re.sub(r"\s+#.*", "", line) for line in found if line.startswith("axla ")})


@pytest.mark.parametrize("line", commands())
def test_commands_parse(line):
    options = command.parser().parse_args(shlex.split(line)[1:])
    assert options.verb in command.VERBS


def test_links_lead_somewhere():
    for page in PAGES:
        text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.M | re.S)
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
