"""The interpreter against XLA:CPU's recorded results, where the corpora are at hand."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from conformance_lib.corpora import NotAtHand  # noqa: E402
from conformance_lib.programs import Exec, Matrix, Models  # noqa: E402
from conformance_lib.section import OK, UNSUPPORTED  # noqa: E402

pytestmark = pytest.mark.corpus

# Where XLA:CPU and the definition of the op part; see the interpreter's list in docs.
MATRIX_DIFFERS = {
    "atan2_c64": "XLA rounds on the way; ours is nearer to the true value",
    "atan2_c128": "XLA rounds on the way; ours is nearer to the true value",
    "popcnt_s4": "XLA counts the bits of the sign-extended byte",
    "power_c64": "the sign of an infinity of an angle beyond any precision",
    "sine_c64": "XLA overflows at an imaginary part of 88, where f32 does not",
}


def outcomes(section: type, only: str):
    try:
        cases = section()
    except NotAtHand as error:
        pytest.skip(str(error))
    return [cases.run(case, "interpreter") for case in cases.cases() if re.search(only, case)]


def test_matrix():
    found = outcomes(Matrix, "")
    assert len(found) > 400
    wrong = {o.case: o for o in found if o.kind != OK}
    assert set(wrong) <= set(MATRIX_DIFFERS), wrong


def test_sample_of_executable_texts():
    found = outcomes(Exec, "^(conditional|dot|gather|scatter|dynamic_slice|sort|transpose)")
    assert len(found) > 20
    assert not [o for o in found if o.kind not in (OK, UNSUPPORTED)]


@pytest.mark.parametrize("name", ["mnist_softmax_train", "lstm_forward", "gpt_forward"])
def test_model(name):
    (outcome,) = outcomes(Models, f"^{name}$")
    assert outcome.kind == OK, outcome
