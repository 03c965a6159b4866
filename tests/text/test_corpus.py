"""A sample of XLA's own test texts: parsed, printed as XLA prints them, refused where XLA refuses them.

`python scripts/conformance text` takes all of them.
"""

from __future__ import annotations

import csv
import sys
import zlib
from functools import cache
from pathlib import Path

import pytest

from axla.text import parse_hlo

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from conformance_corpora import corpus  # noqa: E402
from conformance_text import check, rows  # noqa: E402

pytestmark = pytest.mark.corpus


@cache
def root() -> Path:
    found = corpus("hlo-open")
    if found is None:
        pytest.skip("the corpus ../shared/conformance/hlo-open.tar.gz is not at hand")
    return found


def sampled(name: str, one_in: int) -> bool:
    return zlib.crc32(name.encode()) % one_in == 0


def test_sample_prints_as_xla():
    wrong, counted = [], 0
    for _, text, row in rows(root()):
        if not sampled(row["id"], 20):
            continue
        same = row["canonical_reparse"] == "same"
        outcome, details = check(
            text, (root() / "canonical" / f"{row['id']}.hlo").read_text() if same else None
        )
        counted += outcome != "unsupported"
        if outcome not in ("as XLA", "parsed", "unsupported"):
            wrong.append(f"{row['id']}: {outcome} {details}")
    assert counted > 120
    assert len(wrong) <= counted // 50, "\n".join(wrong)
    assert not [w for w in wrong if "not as XLA" not in w]


def test_xla_prints_are_fixed_points():
    """What XLA printed is printed again letter by letter."""
    compared = 0
    for _, text, row in rows(root()):
        if row["canonical_reparse"] != "same" or not sampled(row["id"], 40):
            continue
        canonical = (root() / "canonical" / f"{row['id']}.hlo").read_text()
        if check(text, canonical)[0] == "as XLA":
            assert parse_hlo(canonical).to_string() == canonical
            compared += 1
    assert compared > 50


def test_invalid_texts_are_refused():
    from conformance_text import refused

    with (root() / "invalid.csv").open(newline="") as file:
        names = [row["id"] for row in csv.DictReader(file) if row["stage"] == "parse"]
    outcomes = {name: refused((root() / "invalid" / f"{name}.hlo").read_text()) for name in names}
    assert len(outcomes) > 40
    assert set(outcomes.values()) <= {"ParseError", "UnsupportedError"}, outcomes
