"""Every op at every element type, as objects of other machines, against the interpreter: what machines with
another order of bytes, other vectors and other instructions could get wrong.

A sample runs on one big-endian machine; `scripts/test-aot` runs all on the machines that it names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from machines import CROSS, run_all

from axla.aot.machines import machine
from axla.aot.objects import ObjectCode, compile_object
from axla.comparison import compare, run_flat
from axla.core import dtypes as D
from axla.core.errors import UnsupportedError
from axla.ir.clone import clone_module
from axla.ir.graph import Module
from axla.ir.op import OPS
from axla.tools.samples import EXCHANGE, NOTHING_TO_COMPARE, UNTYPED, modules_of

WANTED = [name for name in os.environ.get("TEST_AOT_TARGETS", "").split() if name in CROSS]
TURNS = 40  # the last one is the sample of CI
APART = EXCHANGE | NOTHING_TO_COMPARE | {"custom-call", "infeed", "outfeed"}
"""Ops of which an object has nothing to compare."""

pytestmark = pytest.mark.cc


def pairs() -> list[tuple[str, D.DType]]:
    return [(op, t) for op in sorted({*OPS} - APART) for t in ([D.F32] if op in UNTYPED else D.ALL)]


def cases(turn: int) -> Iterator[tuple[str, Module, list[np.ndarray]]]:
    for opcode, dtype in pairs()[turn::TURNS]:
        for number, (module, inputs) in enumerate(modules_of(opcode, dtype)):
            yield f"{opcode}_{dtype.name}_{number}".replace("-", "_"), module, inputs


@pytest.mark.parametrize("turn", range(TURNS))
@pytest.mark.parametrize("target", WANTED or ["s390x-linux-gnu"])
def test_ops(tmp_path, target, turn):
    if not WANTED and turn != TURNS - 1:
        pytest.skip("scripts/test-aot runs all on the machines that it names")
    there = machine(target)
    programs: dict[str, tuple[ObjectCode, list[np.ndarray]]] = {}
    modules: dict[str, Module] = {}
    for name, module, inputs in cases(turn):
        try:
            code = compile_object(clone_module(module), there, prefix=name)
        except UnsupportedError:  # the same for every machine: several participants, sizes that are not known
            continue
        programs[name], modules[name] = (code, inputs), module
    assert len(programs) > 40
    wrong = []
    for name, found in run_all(programs, target, tmp_path).items():
        module, inputs = modules[name], programs[name][1]
        report = compare(module, found, run_flat(module, inputs, "interpreter"), target, "interpreter")
        wrong += [] if report.ok else [f"{name}: {report}"]
    assert not wrong, "\n".join(wrong)
