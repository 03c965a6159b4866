"""Passes that are imported when a module needs them: the ops that they name are those that they expand."""

from __future__ import annotations

import sys

import pytest

from axla.passes.pipelines import PASSES
from axla.target.machine import cpu_target
from axla.text import parse_hlo

LATE = [step for step in PASSES.values() if isinstance(step.home, str)]
ONE = "HloModule m, replica_count={replicas}\nENTRY e {{\n ROOT x = f32[2] parameter(0)\n}}\n"


@pytest.mark.parametrize("step", LATE, ids=lambda step: step.name)
@pytest.mark.parametrize("replicas", [1, 2])
def test_ops_are_those_that_are_expanded(step, replicas, monkeypatch):
    kinds = set()
    module = sys.modules[step.function.__module__]
    monkeypatch.setattr(module, "expand", lambda module, name, found: kinds.update(k.opcode for k in found))
    given = {"target": cpu_target()} if "target" in step.function.__annotations__ else {}
    step.function(parse_hlo(ONE.format(replicas=replicas)), **given)
    assert step.function.__doc__ and step.ops and kinds <= step.ops
    if replicas == 1 and not step.name.endswith("-check"):
        assert kinds == step.ops
