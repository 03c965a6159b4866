"""The interpreter against XLA:CPU's recorded results, where the corpora are at hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from conformance_corpora import corpus  # noqa: E402

pytestmark = pytest.mark.corpus

# Where XLA:CPU and the definition of the op part; see the interpreter's list in docs.
MATRIX_DIFFERS = {
    "atan2_c64": "XLA rounds on the way; ours is nearer to the true value",
    "atan2_c128": "XLA rounds on the way; ours is nearer to the true value",
    "popcnt_s4": "XLA counts the bits of the sign-extended byte",
    "power_c64": "the sign of an infinity of an angle beyond any precision",
    "sine_c64": "XLA overflows at an imaginary part of 88, where f32 does not",
}


def root(name: str) -> Path:
    found = corpus(name)
    if found is None:
        pytest.skip(f"the corpus {name} is not at hand")
    return found


def test_matrix():
    from conformance_exec import interpreter, matrix_cases

    outcomes = list(matrix_cases(root("hlo-open"), interpreter, ""))
    assert len(outcomes) > 400
    wrong = {o.case: o for o in outcomes if o.kind != "ok"}
    assert set(wrong) <= set(MATRIX_DIFFERS), wrong


def test_sample_of_executable_texts():
    from conformance_exec import exec_cases, interpreter

    outcomes = list(
        exec_cases(
            root("hlo-open"), interpreter, "^(conditional|dot|gather|scatter|dynamic_slice|sort|transpose)"
        )
    )
    assert len(outcomes) > 20
    assert not [o for o in outcomes if o.kind not in ("ok", "undeclared")]


@pytest.mark.parametrize("name", ["mnist_softmax_train", "lstm_forward", "gpt_forward"])
def test_model(name):
    from conformance_exec import interpreter, model_cases

    (outcome,) = model_cases(root("models-open"), interpreter, f"^{name}$")
    assert outcome.kind == "ok", outcome
