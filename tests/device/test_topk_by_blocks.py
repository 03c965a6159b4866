"""Selections by blocks of threads, as PTX and as work-groups of OpenCL, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from devices_of_blocks import same

from axla.core.dtypes import BY_NAME
from sort_programs import topk_text

CASES = [  # type, dims, k, largest: one line and several, in pieces, of ascending numbers
    ("f32", (3, 500), 7, True),
    ("s32", (2, 3, 70), 1, False),
    ("u8", (2, 3000), 100, True),
    ("f16", (5000,), 33, False),
    ("f32", (40000,), 9, True),
    ("pred", (300, 20), 2, True),
    ("f32", (0, 16), 2, True),
    ("f8e8m0fnu", (3, 300), 4, True),
    ("f6e2m3fn", (3, 300), 4, False),
]
TYPES = {"f32": np.float32, "s32": np.int32, "u8": np.uint8, "f16": np.float16}


def drawn(kind, dims) -> np.ndarray:
    """Few different numbers, NaN and zeros of both signs."""
    x = np.round(np.random.default_rng(0).standard_normal(dims) * 60)
    if kind == "pred":
        return x > 0
    if kind not in TYPES:
        return (2.0 ** (np.abs(x) % 3)).astype(BY_NAME[kind].numpy)
    x = (np.abs(x) if kind == "u8" else x).astype(TYPES[kind])
    if x.dtype.kind == "f":
        x.reshape(-1)[::7] = np.nan
        x.reshape(-1)[3::11] *= -0.0
    return x


@pytest.mark.parametrize(("kind", "dims", "k", "largest"), CASES)
def test_selects_as_the_interpreter(client, kind, dims, k, largest):
    same(client, topk_text(kind, dims, k, largest), [drawn(kind, dims)])


@pytest.mark.parametrize("step", [-1, 1])
def test_ordered_lines(client, step):
    """All of a line comes before what is best so far, or nothing does."""
    x = np.arange(6000, dtype=np.float32)[::step].copy().reshape(2, 3000)
    same(client, topk_text("f32", x.shape, 9, True), [x])
