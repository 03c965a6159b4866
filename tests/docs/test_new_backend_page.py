"""docs/new-backend.md: its packages are installed in a folder, and everything that the page shows is run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "new-backend.md").read_text()
BLOCK = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```", re.M | re.S)
AXLA = f'axla() {{ "{sys.executable}" -m axla "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\n'
CROSS = shutil.which("s390x-linux-gnu-gcc") and shutil.which("qemu-s390x-static")


def install(package: Path, site: Path) -> None:
    """Writes what `pip install` would: the metadata of a package with its entry points, and its path."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    facts = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    entries = project["entry-points"]["axla.backends"].items()
    (facts / "entry_points.txt").write_text(
        "\n".join(["[axla.backends]", *(f"{name} = {where}" for name, where in entries), ""])
    )


@pytest.mark.cc
def test_the_page_runs_as_it_is(tmp_path):
    if shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("there is no C compiler: c-source builds with it")
    site, c_source = tmp_path / "site", ROOT / "examples" / "backends" / "c_source"
    paths = [site, tmp_path / "npu", c_source, ROOT / "src"]
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "AXLA_CACHE_DIR": "",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
    }  # fmt: skip
    installs = {"./examples/backends/c_source": c_source, "npu": tmp_path / "npu"}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=200
        )
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}{done.stderr}"
        return done.stdout

    said, ran = "", []
    for kind, name, text in BLOCK.findall(PAGE):
        if name:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        elif kind == "console":
            *_, what = text.split()
            install(installs.pop(what), site)
        elif kind == "sh" and "s390x-linux-gnu-gcc" in text and not CROSS:
            said = "PASSED\n"
        elif kind == "sh":
            said = run("sh", "-ec", AXLA + text)
            ran.append(said)
        elif kind == "python":
            (tmp_path / "block.py").write_text("import axla\n" + text)
            run(sys.executable, "block.py")
        elif kind == "text":
            assert said == text
    assert not installs and len(ran) >= 7
    checked = next(text for text in ran if "contraction" in text and "npu reaches" in text)
    assert int(re.search(r"contraction +(\d+)", checked)[1]) >= 1 and re.search(r" all .* 0\n", checked)
    assert "npu reaches: everything" in ran[-1] and "npu agrees with cpu" in "".join(ran)
    assert (tmp_path / "npu-report" / "report.html").exists() and (
        tmp_path / "npu-report" / "badge.svg"
    ).exists()
