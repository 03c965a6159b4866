"""docs/start/*.md: the first quarter of an hour of each kind of user runs, and prints what the page shows."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import run_page  # noqa: E402

START = ROOT / "docs" / "start"
PAGES = sorted(path for path in START.glob("*.md") if path.stem not in ("index", "tensorflow"))
TOOLS = {"jax": ["cc"], "c": ["cc", "c++", "cmake"], "service": ["openssl"]}
MODULES = {"jax": ["jax"], "hardware": ["pytest"], "service": ["grpc"]}


def environment(folder: Path) -> dict[str, str]:
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("AXLA_", "PYTHON", "JAX_", "XLA_"))}
    return {**kept, **run_page.installed(), "AXLA_CACHE_DIR": str(folder / "cache")}


@pytest.mark.cc
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_runs(page, tmp_path):
    missing = [tool for tool in TOOLS.get(page.stem, []) if shutil.which(tool) is None]
    missing += [name for name in MODULES.get(page.stem, []) if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not here: {', '.join(missing)}")
    text = page.read_text(encoding="utf-8")
    for port in sorted(set(re.findall(r"(?<=127\.0\.0\.1:)\d{4}\b", text))):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            text = text.replace(port, str(free.getsockname()[1]))
    copy = tmp_path / "page" / page.name
    copy.parent.mkdir()
    copy.write_text(text, encoding="utf-8")
    run_page.run(copy, tmp_path, environment(tmp_path))


def test_what_is_printed_is_compared(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\nprintf '1 a\\n2 b\\n3 c\\n'\n```\n\n```text\n1...\n...\n3 c\n```\n")
    run_page.run(page, tmp_path, environment(tmp_path))
    page.write_text(page.read_text().replace("3 c\n```", "3 d\n```"))
    with pytest.raises(AssertionError, match="wanted"):
        run_page.run(page, tmp_path, environment(tmp_path))


def test_a_command_that_fails_is_named(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\ntrue\n```\n\n```sh\necho before; false\n```\n\n```sh\necho behind\n```\n")
    with pytest.raises(AssertionError, match="failed:\necho before; false"):
        run_page.run(page, tmp_path, environment(tmp_path))
