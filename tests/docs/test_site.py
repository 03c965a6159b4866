"""scripts/site_lib: what the site's pages are made of. `sh scripts/site` builds the site itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import axla

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from site_lib import api, commands, links  # noqa: E402

from axla.tools import main  # noqa: E402

MODULES = ["axla.aot", "axla.jax", "axla.tensorflow", "axla.backends", "axla.backends.kit", "axla.client"]


def test_public_names_are_on_the_page():
    page = api.page("axla")
    missing = [name for name in axla.__all__ if f"}} {name}" not in page and name != "__version__"]
    assert not missing


@pytest.mark.parametrize("module", MODULES)
def test_every_name_says_what_it_is(module):
    page = api.page(module)
    for name in api.public_names(module):
        assert f"}} {name}" in page, name
        found = api.definition(module, name)
        assert found is None or found.doc, f"{module}.{name} has no docstring"


def test_stars_outside_of_code_are_themselves():
    assert api.markdown("`*a*` and *args\n\n    x * y") == "`*a*` and \\*args\n\n    x * y"


def test_every_verb_is_on_the_page():
    page = commands.page()
    for verb in main.VERBS:
        assert f"## axla {verb}\n" in page
    assert "| `--seed N`, `--random N` | seed of random inputs (0) |" in page


def test_links_that_lead_nowhere(tmp_path):
    (tmp_path / "index.html").write_text('<a href="a.html#there">a</a> <a href="https://x.org">x</a>')
    (tmp_path / "a.html").write_text('<p id="there"><a href="#not-there">here</a> <a href="b.html">b</a>')
    (tmp_path / "lost.html").write_text("<p>")
    assert links.problems(tmp_path) == [
        "a.html: #not-there", "a.html: b.html", "lost.html: no page leads there",
    ]  # fmt: skip


def test_the_programs_life_begins_with_what_jax_writes():
    pytest.importorskip("jax")
    page = (ROOT / "docs" / "design" / "life-of-a-program.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (ROOT / "docs" / "design" / "life.mlir").read_text(encoding="utf-8").strip()
