"""A sample of the corpus of TensorFlow graphs: results are TensorFlow's, and what it refuses is refused.

`python scripts/tensorflow-corpus` takes all of it.
"""

from __future__ import annotations

import json
import sys
import zlib
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

from conformance_lib.corpora import NotAtHand  # noqa: E402

LOADER = SourceFileLoader("tensorflow_corpus", str(SCRIPTS / "tensorflow-corpus"))
corpus: Any = module_from_spec(spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(corpus)
pytestmark = pytest.mark.corpus


def outcomes(section: str, one_in: int, backend: str) -> dict[str, tuple[str, str]]:
    """Those of cases that TensorFlow's XLA compiles, or that have to be refused."""
    try:
        folders = sorted((corpus.corpus() / section).iterdir())
    except NotAtHand as error:
        pytest.skip(str(error))
    found = {}
    for folder in folders:
        wanted = corpus.expected(json.loads((folder / "meta.json").read_text()))
        if wanted != "other" and zlib.crc32(folder.name.encode()) % one_in == 0:
            found[f"{folder.name} ({wanted})"] = corpus.run_case((folder, backend))
    return found


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize(
    "section, one_in", [("ops", 40), ("grad", 8), ("flow", 4), ("tfcompile", 3), ("models", 4)]
)
def test_results_are_those_of_tensorflow(section, one_in, backend):
    found = outcomes(section, one_in, backend)
    wrong = {name: outcome for name, outcome in found.items() if outcome[0] != "ok"}
    assert found
    assert len(wrong) <= len(found) // 30, wrong


def test_what_tensorflow_refuses_is_refused():
    found = outcomes("invalid", 2, "cpu")
    assert found
    assert {outcome for outcome, _ in found.values()} == {"refused"}, found
