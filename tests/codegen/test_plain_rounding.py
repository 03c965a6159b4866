"""bf16 results of plain arithmetic are rounded without a look at NaN, on machines that keep its bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import axla
from axla.cpu.compiler import llvm_modules
from axla.lowering.pipeline import compile_program
from axla.target.machine import cpu_target

COUNT = 65536
OTHERS = np.array(
    [
        0,
        0x8000,
        0x3F80,
        0xBF81,
        0x7F80,
        0xFF80,
        0x7FC0,
        0xFFC0,
        0x7F81,
        0xFFFF,
        0x7FFF,
        0x0001,
        0x7F7F,
        0x4049,
    ],
    np.uint16,
).view(ml_dtypes.bfloat16)
"""Zeros, one, infinities, NaNs of all kinds, the least and the largest number."""
OPS = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}


def text(op: str) -> str:
    return f"""HloModule m
ENTRY e {{ p = bf16[{COUNT}] parameter(0)
  o = bf16[] parameter(1)
  q = bf16[{COUNT}] broadcast(o), dimensions={{}}
  a = bf16[{COUNT}] {op}(p, q)
  b = bf16[{COUNT}] {op}(q, p)
  ROOT t = (bf16[{COUNT}], bf16[{COUNT}]) tuple(a, b) }}"""


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
def test_all_values_and_nans(op, backend):
    x = np.arange(COUNT, dtype=np.uint16).view(ml_dtypes.bfloat16)
    executable = axla.compile(axla.parse(text(op)), backend=backend)
    for other in OTHERS:
        wide, o = x.astype(np.float32), np.float32(other)
        with np.errstate(all="ignore"):
            want = OPS[op](wide, o), OPS[op](o, wide)
        for got, exact in zip(executable(x, other), want, strict=True):
            found, rounded = np.asarray(got), exact.astype(ml_dtypes.bfloat16)
            nan = np.isnan(exact)
            assert np.isnan(found[nan].astype(np.float32)).all()
            np.testing.assert_array_equal(found[~nan].view(np.uint16), rounded[~nan].view(np.uint16))


@pytest.mark.parametrize("cpu", ["x86-64-v4", "x86-64"])
def test_nothing_asks_for_nan(cpu):
    target = cpu_target(cpu)

    def code(text: str) -> str:
        return "".join(llvm_modules(compile_program(axla.parse(text), target), target, parts=1))

    assert "fcmp uno" not in code(text("add"))
    assert "fcmp uno" in code(text("add").replace("add(p, q)", "tanh(p)"))
