"""Modules of one op, from the samples in the declarations of ops, and a loop without an end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from axla.core.literal import Literal
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.ir.clone import clone_computation
from axla.ir.graph import Module
from axla.ir.op import OPS, Op
from axla.ir.structure import Parameter

FOREVER = """
HloModule forever
body { x = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT y = s32[] add(x, one) }
always { x = s32[] parameter(0)
  ROOT t = pred[] constant(true) }
ENTRY e { x = s32[] parameter(0)
  ROOT w = s32[] while(x), condition=always, body=body }"""
"""A loop without an end."""

# Ops with operands that must have certain values: operand number -> value.
VALUES = {"dynamic-reshape": {1: 3, 2: 2}, "set-dimension-size": {1: 2}}


# The done op for each start op. It has no meaning alone, and is tested with its start.
ENDS = {
    "all-gather-start": ["all-gather-done"],
    "all-reduce-start": ["all-reduce-done"],
    "async-start": ["async-update", "async-done"],
    "collective-permute-start": ["collective-permute-done"],
    "copy-start": ["copy-done"],
    "recv": ["recv-done"],
    "send": ["send-done"],
}


def sample_cases() -> Iterator[tuple[str, Op, tuple[AnyShape, ...]]]:
    """Yields (name, op, shapes) for every sample of every op except done ops."""
    behind = {end for ends in ENDS.values() for end in ends}
    for opcode, cls in OPS.items():
        if opcode not in behind:
            for number, (op, shapes) in enumerate(cls.samples()):
                yield f"{opcode}-{number}", op, shapes


def sample_module(op: Op, shapes: tuple[AnyShape, ...]) -> Module:
    """A module whose entry applies the op to its parameters, with copies of called computations."""
    module = Module("sample")
    copies = {}

    def copy(computation):
        if computation not in copies:
            copies[computation] = clone_computation(computation, module)
        return copies[computation]

    entry = module.add_computation("main")
    operands = [entry.add(Parameter(shape, n)) for n, shape in enumerate(shapes)]
    root = entry.add(op.with_computations(copy), operands)
    for end in ENDS.get(op.opcode, ()):
        channel = {"channel_id": getattr(op, "channel_id")} if end in ("send-done", "recv-done") else {}  # noqa: B009
        root = entry.add(OPS[end](**channel), [root])
    entry.set_root(root)
    module.set_entry(entry)
    return module


def sample_arguments(op: Op, shapes: tuple[AnyShape, ...], seed: int = 0) -> list[Literal]:
    """Arguments of these shapes: small numbers, of both signs if the type is signed."""
    rng = np.random.default_rng(seed)
    fixed = VALUES.get(op.opcode, {})
    return [_literal(rng, s, fixed.get(n)) for n, s in enumerate(shapes)]


def _literal(rng: np.random.Generator, shape: AnyShape, value: int | None) -> Literal:
    if isinstance(shape, TupleShape):
        return Literal(shape.logical, elements=[_literal(rng, e, None) for e in shape.elements])
    if not isinstance(shape, Shape):
        return Literal(shape)
    numbers = rng.random(shape.dims) * 6 - (2 if not shape.dtype.is_unsigned else 0)
    if value is not None:
        numbers = np.full(shape.dims, value)
    if shape.dtype.is_pred:
        numbers = numbers > 0
    return Literal(shape.logical, np.asarray(numbers).astype(shape.dtype.numpy))
