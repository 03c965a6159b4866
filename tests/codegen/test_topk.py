"""topk with a small k in generated code, against the interpreter: positions of equal elements and NaN
included.
"""

from __future__ import annotations

import numpy as np
import pytest

import axla
from sort_programs import topk_text

TYPES = {"f32": np.float32, "s32": np.int32, "u8": np.uint8, "f16": np.float16, "pred": np.bool_}
SIZES = [((5, 100), 3), ((1000,), 100), ((3, 2, 70), 1), ((7, 33), 4), ((300, 130), 16), ((0, 16), 2)]


def numbers(name: str, dims: tuple[int, ...], few: bool) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal(dims) * 100
    if name == "pred":
        return x > 0
    x = (np.round(x / 60) if few else x).astype(TYPES[name])
    if x.dtype.kind == "f":
        x.reshape(-1)[::7] = np.nan
        x.reshape(-1)[3::11] *= -0.0
    return x


@pytest.mark.parametrize("name", TYPES)
def test_selects_as_the_interpreter(name):
    for number, (dims, k) in enumerate(SIZES):
        module = axla.parse(topk_text(name, dims, k, largest=number % 2 == 0))
        for few in (False, True):
            x = numbers(name, dims, few)
            wanted = axla.compile(module, backend="interpreter").execute([x])
            for backend in ("cpu", "one-lane"):
                found = axla.compile(module, backend=backend).execute([x])
                for a, b in zip(found, wanted, strict=True):
                    assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), (backend, dims, k)


@pytest.mark.parametrize("step", [-1, 1])
def test_ordered_lines(step):
    x = np.arange(4000, dtype=np.float32)[::step].copy().reshape(4, 1000)
    values, places = (
        np.asarray(a) for a in axla.compile(axla.parse(topk_text("f32", x.shape, 9, True))).execute([x])
    )
    order = np.argsort(-x, axis=1)[:, :9]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))
