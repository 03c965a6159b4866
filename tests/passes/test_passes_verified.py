"""A sample of `scripts/verify-passes`: every rule and every pass, on a few modules each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from verify_lib import checks  # noqa: E402
from verify_lib.examples import why_stale  # noqa: E402

from axla.core import flags  # noqa: E402
from axla.hlo import Negate  # noqa: E402
from axla.passes.examples import examples  # noqa: E402
from axla.passes.pipelines import PASSES  # noqa: E402
from axla.passes.rewrite import Rule, rules_by_name  # noqa: E402
from axla.passes.steps import Pass  # noqa: E402

PARTS = 12
CASES = 10


def said(verdict: checks.Verdict) -> str:
    """Why a rule or a pass fails."""
    first = verdict.failures[0] if verdict.failures else None
    if first is None:
        return f"{verdict.name}: {verdict.missing}"
    again = f"python scripts/verify-passes {verdict.name} --case {first.number}"
    return f"{verdict.name}: {first.why}\n{first.module}\nbecame\n{first.after}\nagain: {again}"


@pytest.mark.parametrize("part", range(PARTS))
def test_every_rule_and_pass_keeps_values(part):
    names = [*checks.rules(), *PASSES][part::PARTS]
    found = [v for _, v in checks.all_verdicts(names, CASES, seed=1, only=None, more=False) if v is not None]
    assert len(found) == len(names)
    assert not any(v.failed for v in found), "\n\n".join(said(v) for v in found if v.failed)


def test_examples_are_those_of_the_rules():
    assert not why_stale()
    assert examples().keys() == rules_by_name().keys()


def negation(root, inner):
    """-(-x) => -x"""
    return inner


def test_a_wrong_rule_is_found(monkeypatch):
    found = checks.rules()["negate_negate"][0]
    wrong = Rule(found.name, negation, found.equation, of=Negate)
    verdict = checks.verify_rule(wrong, {Negate: (wrong,)}, 5, 1, more=False)
    assert verdict.failures and "wanted" in verdict.failures[0].why


def test_a_rule_that_never_fires_is_found():
    never = Rule("negate_negate", lambda root, inner: None, "-(-x) => x", of=Negate)
    assert checks.verify_rule(never, {Negate: (never,)}, 2, 1, more=False).missing == "it fired in no case"


def test_a_rule_and_a_pass_without_an_example_are_told_what_to_write():
    rule = Rule("no_such_rule", negation, "")
    assert "// TEST: no_such_rule" in checks.verify_rule(rule, {}, 1, 1).missing
    assert (
        "tests/hlo/no-such-pass"
        in checks.verify_pass(Pass("no-such-pass", lambda module: None), 1, 1).missing
    )


def test_a_wrong_pass_is_found():
    def negates_twice(module):
        for inst in tuple(module.entry.instructions):
            if isinstance(inst.op, Negate):
                module.entry.replace(inst, inst.operands[0])

    wrong = Pass("dce", negates_twice)
    with flags.override(verify=True):
        assert checks.verify_pass(wrong, 20, 1, more=False).failures
