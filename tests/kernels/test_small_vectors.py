"""Vectors of loops over a few elements: what is just stored is read again sooner."""

from __future__ import annotations

import pytest

import axla
from axla.kernels.loop import LoopPlan
from axla.lowering.pipeline import compile_program
from axla.target.machine import cpu_target

TEXT = """HloModule m
ENTRY e { p = f32[SIZE] parameter(0)
  q = f32[SIZE] parameter(1)
  h = f32[SIZE] OP
  ROOT r = f32[SIZE] add(h, q) }"""


@pytest.mark.parametrize(
    ("cpu", "size", "op", "lanes"),
    [
        ("x86-64-v4", 64, "multiply(p, q)", 8),
        ("x86-64-v4", 80, "multiply(p, q)", 16),
        ("x86-64-v4", 64, "tanh(p)", 16),
        ("x86-64-v3", 64, "multiply(p, q)", 8),
        ("x86-64", 64, "multiply(p, q)", 4),
    ],
)
def test_lanes(cpu, size, op, lanes):
    program = compile_program(axla.parse(TEXT.replace("SIZE", str(size)).replace("OP", op)), cpu_target(cpu))
    (kernel,) = program.kernels
    assert isinstance(kernel.plan, LoopPlan)
    assert kernel.plan.space.lanes == lanes
