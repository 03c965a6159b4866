"""Padding with an interior padding of 1: rows of padding, edges, cuts, and what is computed in it."""

from __future__ import annotations

import numpy as np
import pytest

import axla

CASES = [  # type, sizes, padding
    ("f32", (40, 50), "1_1_1x1_1_1"),
    ("f32", (40, 50), "0_0x2_3_1"),
    ("f64", (70,), "-3_1_1"),
    ("s8", (3, 200), "0_-2_2x-1_0_1"),
    ("f32", (5, 7, 33), "1_0_1x0_0x-4_5_1"),
    ("s32", (16, 16), "0_1_1x1_0_1"),
    ("f32", (3, 15), "1_1_1x0_0_1"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_interior_padding(case):
    kind, dims, padding = case
    text = f"""HloModule pads
    ENTRY e {{ p = {kind}[{",".join(map(str, dims))}] parameter(0)
      x = {kind}[{",".join(map(str, dims))}] add(p, p)
      z = {kind}[] constant(7)
      ROOT r = {kind}[{",".join(map(str, _padded(dims, padding)))}] pad(x, z), padding={padding} }}"""
    x = np.arange(np.prod(dims)).reshape(dims).astype({"s": "i", "f": "f"}[kind[0]] + str(int(kind[1:]) // 8))
    programs = axla.compile(axla.parse(text)), axla.compile(axla.parse(text), backend="interpreter")
    found, wanted = (np.asarray(program(x)) for program in programs)
    np.testing.assert_array_equal(found, wanted)


def _padded(dims, padding) -> list[int]:
    edges = [(*map(int, one.split("_")), 0)[:3] for one in padding.split("x")]
    return [
        low + n + max(n - 1, 0) * interior + high
        for n, (low, high, interior) in zip(dims, edges, strict=True)
    ]
