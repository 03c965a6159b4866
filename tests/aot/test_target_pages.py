"""The pages of docs/targets: every part of them is run as it is written, where its tools are at hand."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
from pathlib import Path

import page_commands
import pytest
from package_machines import BARE, MACHINES

from axla.codegen.host import host_target
from axla.target.machine import X86_LEVELS
from axla.target.names import TARGETS

PAGES = page_commands.ROOT / "docs" / "targets"
WANTED = os.environ.get("TEST_AOT_TARGETS", "").split()

pytestmark = pytest.mark.cc


def parts() -> dict[str, str]:
    """The parts of pages that run commands, by page and heading."""
    found = {}
    for path in sorted(PAGES.glob("*.md")):
        for part in re.split(r"^## ", path.read_text(), flags=re.M)[1:]:
            if "```sh" in part:
                found[f"{path.stem}: {part.splitlines()[0]}"] = part
    return found


PARTS = parts()


def targets(text: str) -> list[str]:
    return sorted(set(re.findall(r"--target ([\w-]+)", text)))


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> bytes:
    pytest.importorskip("jax")
    folder = tmp_path_factory.mktemp("model")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        page_commands.run(page_commands.blocks((PAGES / "README.md").read_text()), folder)
    return (folder / "model.export").read_bytes()


def need(name: str) -> None:
    """Skips a part whose machine or tools are not at hand."""
    part = PARTS[name]
    page = (PAGES / f"{name.split(':')[0]}.md").read_text()
    asked = not WANTED or bool({*(targets(part) or targets(page))} & {*WANTED})
    if not asked:
        pytest.skip(f"TEST_AOT_TARGETS names {' '.join(WANTED)}")
    levels = [*X86_LEVELS]
    for target in targets(part):
        if target in levels and (
            platform.machine() != "x86_64" or levels.index(target) > levels.index(host_target().name)
        ):
            pytest.skip(f"this machine does not run {target}")
    tools = page_commands.tools(page_commands.blocks(part))
    tools += ["wasmtime"] if "import wasmtime" in part else []
    missing = [tool for tool in tools if not shutil.which(tool) and importlib.util.find_spec(tool) is None]
    if missing and WANTED:
        pytest.fail(f"{', '.join(missing)} is not there")
    if missing:
        pytest.skip(f"{', '.join(missing)} is not there")


@pytest.mark.parametrize("part", PARTS)
def test_runs_as_written(part, model, tmp_path, monkeypatch):
    need(part)
    monkeypatch.chdir(tmp_path)
    Path("model.export").write_bytes(model)
    shutil.copytree(BARE, "bare")
    page_commands.run(page_commands.blocks(PARTS[part]), tmp_path)


def test_every_target_has_a_page():
    index = (PAGES / "README.md").read_text()
    rows = re.findall(r"^\| \[[^]]+\]\((\S+)\) \| ([^|]+) \|", index, re.M)
    found = {alias: page for page, aliases in rows for alias in re.findall(r"`([^` ]+)`", aliases)}
    assert list(found) == [*sorted(found, key=list(found).index)] and set(found) == set(TARGETS)
    assert {page for page, _ in rows} == {path.name for path in PAGES.glob("*.md")} - {"README.md"}
    found |= {triple: "any-triple.md" for triple in set(MACHINES) - set(TARGETS)}
    for alias, page in found.items():
        text = (PAGES / page).read_text()
        assert f"`{alias}`" in text, (alias, page)
        for machine in MACHINES[alias]:
            missing = (
                set(re.findall(r"[\w-]+", machine.packages)) - {"pip"} - set(re.findall(r"[\w-]+", text))
            )
            assert not missing, (page, missing)
