"""reduce-precision to as many exponents as a type has keeps the numbers below its smallest normal one."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.core.dtypes import BY_NAME


@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
@pytest.mark.parametrize(
    ("name", "exponents"),
    [("f8e5m2", 5), ("f8e5m2fnuz", 5), ("f8e4m3fn", 4), ("f8e4m3fnuz", 4), ("f8e3m4", 3)],
)
def test_numbers_stay(name, exponents, backend):
    text = f"""ENTRY e {{ x = {name}[256] parameter(0)
  ROOT y = {name}[256] reduce-precision(x), exponent_bits={exponents}, mantissa_bits=7 }}"""
    x = np.arange(256, dtype=np.uint8).view(BY_NAME[name].numpy)
    [found] = axla.compile(axla.parse(text), backend=backend).execute([x])
    np.testing.assert_array_equal(np.asarray(found).astype(np.float32), x.astype(np.float32))
