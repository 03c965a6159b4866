"""docs/passes.md: what XLA has, against what is here."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import axla
from axla.passes.pipelines import PASSES
from axla.passes.rewrite import rules_by_name

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from docs_lib import passes  # noqa: E402

KNOWN = passes.known()
PAGE = (ROOT / "docs" / "passes.md").read_text(encoding="utf-8")


def test_every_pass_is_on_the_page():
    for step in PASSES.values():
        assert f"| `{step.name}` |" in PAGE, "run scripts/docs"


def test_nothing_is_listed_twice():
    assert len({row.name for row in KNOWN}) == len(KNOWN)


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: row.name)
def test_xlas_pass_is_here_or_there_is_a_reason(row):
    assert row.ours or len(row.note) > 15, f"no pass of ours does {row.name}, and no reason is given"
    assert set(row.ours) <= set(PASSES), f"{row.name}: there is no pass {set(row.ours) - set(PASSES)}"


@pytest.mark.parametrize("row", [row for row in KNOWN if "`" in row.note], ids=lambda row: row.name)
def test_what_notes_name_is_there(row):
    package = Path(axla.__file__).parent
    for word in re.findall(r"`([^`]*)`", row.note):
        if "/" in word and word.endswith(".py"):
            assert (package / word).is_file(), word
        elif re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", word):
            assert word in rules_by_name(), f"there is no rule {word}"
        elif re.fullmatch(r"[a-z]+(-[a-z0-9]+)+", word):
            assert word in PASSES, f"there is no pass {word}"


def test_reasons_that_refer_to_others():
    names = {row.name for row in KNOWN}
    for row in KNOWN:
        for word in re.findall(r"\bas ([a-z0-9]+(?:_[a-z0-9]+)+)", row.note):
            assert word in names, f"{row.name}: there is no {word}"
