"""Samples of every op on the cpu backend: right, or an error that says what is not supported."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.ir.op import OPS
from sample_modules import sample_arguments, sample_cases, sample_module

# Their numbers are a backend's own: shapes and types are all that two backends share.
RANDOM = {"rng", "rng-get-and-update-state"}

# They meet the host, or another half: tests/interpreter/test_transfers.py.
WITH_OTHERS = {"infeed", "outfeed", "recv"}

CASES = [
    pytest.param(op, shapes, id=name)
    for name, op, shapes in sample_cases()
    if name.endswith(("-0", "-1")) and op.opcode not in WITH_OTHERS
]


@pytest.mark.parametrize(("op", "shapes"), CASES)
def test_right_or_unsupported(op, shapes):
    module = sample_module(op, shapes)
    literals = sample_arguments(op, shapes if op.opcode != "parameter" else (op.shape,))
    inputs = [leaf.array for literal in literals for leaf in literal.leaves() if leaf.shape.is_array]
    try:
        if op.opcode in RANDOM:
            (result,) = axla.compile(module).execute(inputs)
            shape = module.entry.root.shape
            assert result.shape == shape.dims and np.asarray(result).dtype == shape.dtype.numpy
        else:
            assert axla.check(module, inputs=inputs).ok
    except axla.UnsupportedError as error:
        assert op.opcode in str(error) or "custom call target" in str(error), error


def test_most_ops_are_compiled():
    """So that the test above cannot come to mean nothing."""
    done = set()
    for name, op, shapes in sample_cases():
        if not name.endswith("-0"):
            continue
        try:
            axla.compile(sample_module(op, shapes))
            done.update(i.opcode for i in sample_module(op, shapes).entry.instructions)
        except axla.UnsupportedError:
            pass
    assert len(done) >= 90, sorted(set(OPS) - done)
