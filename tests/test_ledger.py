"""What every declared op must have: a docstring, samples, a text form, and evaluation that agrees with its
declarations.
"""

from __future__ import annotations

import numpy as np
import pytest

import axla.hlo  # noqa: F401  (declares the ops)
from axla.core.errors import ShapeError
from axla.core.shape import Shape
from axla.interpreter import evaluate
from axla.ir.op import OPS
from axla.ir.verify import verify
from axla.text import parse_hlo
from sample_modules import sample_arguments, sample_cases, sample_module

# Ops whose samples the interpreter cannot run, with the reason.
NOT_EVALUATED = {
    "custom-call": "what it computes depends on its target",
    "infeed": "waits for the host (interpreter/test_transfers.py)",
    "outfeed": "what it gives stays in the queue (interpreter/test_transfers.py)",
    "recv": "there is no one to receive from",
}

CASES = [pytest.param(op, shapes, id=name) for name, op, shapes in sample_cases()]


@pytest.mark.parametrize("opcode", sorted(OPS))
def test_has_docstring_and_samples(opcode):
    cls = OPS[opcode]
    assert cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}("), f"{opcode} has no docstring"
    assert cls.samples(), f"{opcode} has no samples"
    assert cls.__name__ == "".join(part.capitalize() for part in opcode.split("-")) or opcode == "topk"


@pytest.mark.parametrize(("op", "shapes"), CASES)
def test_sample_verifies_and_reads_back(op, shapes):
    module = sample_module(op, shapes)
    verify(module)
    text = module.to_string(print_large_constants=True)
    again = parse_hlo(text)
    verify(again)
    assert again.to_string(print_large_constants=True) == text
    assert again.entry.root.shape.logical is module.entry.root.shape.logical


@pytest.mark.parametrize(("op", "shapes"), CASES)
def test_evaluation_has_the_inferred_shape(op, shapes):
    if op.opcode in NOT_EVALUATED:
        pytest.skip(NOT_EVALUATED[op.opcode])
    module = sample_module(op, shapes)
    arguments = (
        sample_arguments(op, shapes) if op.opcode != "parameter" else sample_arguments(op, (op.shape,))
    )
    result = evaluate(module, arguments)
    assert result.shape.logical is module.entry.root.shape.logical or module.entry.root.shape.is_dynamic


SOURCES = [p for p in CASES if hasattr(p.values[0], "source")]


@pytest.mark.parametrize(("op", "shapes"), SOURCES)
def test_source_agrees_with_evaluate(op, shapes):
    (operand,) = shapes
    (literal,) = sample_arguments(op, shapes)
    result = evaluate(sample_module(op, shapes), [literal])
    assert isinstance(result.shape, Shape)
    if not result.shape.size:
        return
    index = tuple(np.indices(result.shape.dims)) if result.shape.dims else ()
    taken = literal.array[tuple(op.source(index, operand))]
    assert np.array_equal(np.broadcast_to(taken, result.shape.dims), result.array)
    for at in np.ndindex(*result.shape.dims):  # ints serve as well as arrays
        assert literal.array[op.source(at, operand)] == result.array[at]


def test_samples_reach_every_operand_count():
    for opcode, cls in OPS.items():
        for _, shapes in cls.samples():
            assert cls.variadic or len(shapes) <= len(cls.operand_names), opcode


@pytest.mark.parametrize("opcode", [o for o, c in OPS.items() if c.elementwise and len(c.operand_names) == 2])
def test_binary_ops_reject_different_dimensions(opcode):
    for op, shapes in OPS[opcode].samples():
        if shapes[0].dims:
            other = shapes[1].with_dims((*shapes[1].dims[:-1], shapes[1].dims[-1] + 1))
            with pytest.raises(ShapeError, match=r"\[\w+\]$"):
                op.infer(shapes[0], other)
            break
