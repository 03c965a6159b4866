"""A sample of the StableHLO corpora. `python scripts/conformance stablehlo interpret` takes all of them."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))

from conformance_lib.corpora import NotAtHand  # noqa: E402
from conformance_lib.section import OK, UNSUPPORTED  # noqa: E402
from conformance_lib.stablehlo import Interpret, StableHLO, StableHLOModels  # noqa: E402

pytestmark = pytest.mark.corpus


def made(section: type):
    try:
        return section()
    except NotAtHand as error:
        pytest.skip(str(error))


def sampled(section, one_in: int) -> list[str]:
    return [c for c in section.cases() if zlib.crc32(c.split("/")[-1].encode()) % one_in == 0]


@pytest.mark.parametrize("backend, one_in", [("interpreter", 8), ("cpu", 30)])
def test_static_cases(backend, one_in):
    section = made(StableHLO)
    found = [section.run(case, backend) for case in sampled(section, one_in)]
    assert len(found) > 20
    assert sum(o.kind == OK for o in found) >= 0.98 * len(found), [o for o in found if o.kind != OK]


def test_cases_of_the_interpreter():
    section = made(Interpret)
    found = [section.run(case, "interpreter") for case in sampled(section, 2)]
    assert not [o for o in found if o.kind not in (OK, UNSUPPORTED)]
    assert sum(o.kind == OK for o in found) > 100


@pytest.mark.parametrize("case", ["lenet_forward", "lstm_forward", "gp_regression_lapack"])
def test_models(case):
    outcome = made(StableHLOModels).run(case, "interpreter")
    assert outcome.kind == OK, outcome
