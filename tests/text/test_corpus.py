"""A sample of XLA's own test texts: parsed, printed as XLA prints them, refused where XLA refuses them.

`python scripts/conformance text` takes all of them.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import pytest

from axla.text import parse_hlo

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from conformance_lib.corpora import NotAtHand  # noqa: E402
from conformance_lib.section import OK, UNSUPPORTED  # noqa: E402
from conformance_lib.texts import Invalid, Print, Text, refusal  # noqa: E402

pytestmark = pytest.mark.corpus


def made(section: type):
    try:
        return section()
    except NotAtHand as error:
        pytest.skip(str(error))


def sampled(name: str, one_in: int) -> bool:
    return zlib.crc32(name.split("/")[-1].encode()) % one_in == 0


def test_sample_parses_and_prints():
    text = made(Text)
    found = [text.run(case) for case in text.cases() if sampled(case, 20)]
    assert sum(o.kind == OK for o in found) > 120
    assert not [o for o in found if o.kind not in (OK, UNSUPPORTED)]


def test_sample_prints_as_xla():
    prints = made(Print)
    found = [prints.run(case) for case in prints.cases() if sampled(case, 20)]
    wrong = [o for o in found if o.kind not in (OK, UNSUPPORTED)]
    assert sum(o.kind == OK for o in found) > 120
    assert len(wrong) <= len(found) // 50, wrong


def test_xla_prints_are_fixed_points():
    """A text that XLA printed is printed again letter by letter."""
    prints = made(Print)
    cases = [case for case in prints.cases() if sampled(case, 40)]
    same = [case for case in cases if prints.run(case).kind == OK]
    assert len(same) > 50
    for case in same:
        assert parse_hlo(prints.canonical(case)).to_string() == prints.canonical(case)


def test_invalid_texts_are_refused():
    invalid = made(Invalid)
    names = [name for name, row in invalid.rows.items() if row["stage"] == "parse"]
    outcomes = {name: refusal((invalid.root / "invalid" / f"{name}.hlo").read_text()) for name in names}
    assert len(outcomes) > 40
    assert {kind for kind, _ in outcomes.values()} <= {OK, UNSUPPORTED}, outcomes
