"""Convolutions of short numbers whose kernel is a constant that stands in code."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.interpreter import evaluate


@pytest.mark.parametrize(("inputs", "outputs"), [(8, 8), (1, 16), (4, 16), (3, 8), (4, 32), (8, 16)])
def test_words_of_few_bytes(inputs, outputs):
    module = axla.parse(f"""ENTRY e {{
      x = s8[2,9,9,{inputs}] parameter(0)
      k = s8[2,2,{inputs},{outputs}] parameter(1)
      ROOT c = s32[2,9,9,{outputs}] convolution(x, k), window={{size=2x2 pad=1_0x0_1}},
        dim_labels=b01f_01io->b01f
    }}""")
    rng = np.random.default_rng(0)
    x, kernel = (rng.integers(-128, 128, p.shape.dims, np.int8) for p in module.entry.parameters)
    found = axla.compile(module, constant={1: kernel})(x)
    np.testing.assert_array_equal(found, evaluate(module, [x, kernel]).array)
