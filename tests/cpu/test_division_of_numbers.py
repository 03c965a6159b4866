"""Division and remainder of single numbers, whose unusual divisors a jump keeps apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import axla


@pytest.mark.parametrize("kind", ["s8", "s16", "s32", "s64", "u8", "u32", "u64"])
def test_corners(kind):
    number = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}").type
    info = np.iinfo(number)
    wanted = {info.min, info.min + 1, -7, -1, 0, 1, 2, 7, info.max}
    corners = [number(v) for v in sorted(wanted) if info.min <= v <= info.max]
    text = f"""ENTRY e {{ a = {kind}[] parameter(0)  b = {kind}[] parameter(1)
      c = {kind}[] add(a, b)  d = {kind}[] subtract(c, b)  q = {kind}[] divide(d, b)
      r = {kind}[] remainder(d, b)  ROOT t = ({kind}[], {kind}[]) tuple(q, r) }}"""
    run, reference = (axla.compile(axla.parse(text), backend=name) for name in ("cpu", "interpreter"))
    for a, b in itertools.product(corners, corners):
        assert list(map(int, run(a, b))) == list(map(int, reference(a, b))), (a, b)
