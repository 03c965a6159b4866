"""Convolutions of 3 by 3 by Winograd's products, which fast math allows."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.interpreter import evaluate

FAST = "--xla_cpu_enable_fast_math"


def convolution(batch, size, padding, dtype="f32", stride=1, labels="b01f_01io->b01f", to=""):
    high, wide = ((n + sum(p) - 3) // stride + 1 for n, p in zip(size, padding, strict=True))
    pad = "x".join(f"{low}_{end}" for low, end in padding)
    x = f"{dtype}[{batch},{size[0]},{size[1]},32]"
    kernel = f"{dtype}[3,3,32,40]" if "01io" in labels else f"{dtype}[40,32,3,3]"
    return axla.parse(f"""ENTRY e {{
      x = {x} parameter(0)
      k = {kernel} parameter(1)
      ROOT c = {to or dtype}[{batch},{high},{wide},40] convolution(x, k), window={{size=3x3
        stride={stride}x{stride} pad={pad}}}, dim_labels={labels}
    }}""")


def numbers(module):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(p.shape.dims).astype(p.shape.dtype.numpy) for p in module.entry.parameters]


@pytest.mark.parametrize("constant", [(), (1,)], ids=["kernel given", "kernel constant"])
@pytest.mark.parametrize("labels", ["b01f_01io->b01f", "b01f_oi01->b01f"])
@pytest.mark.parametrize(
    ("batch", "size", "padding"),
    [
        (1, (12, 12), [(1, 1), (1, 1)]), (2, (13, 9), [(1, 1), (1, 1)]), (1, (15, 14), [(0, 0), (0, 0)]),
        (3, (9, 11), [(2, 0), (0, 3)]), (1, (16, 15), [(-1, 1), (1, -2)]),
    ],
)  # fmt: skip
def test_results_are_those_of_the_sums(batch, size, padding, labels, constant):
    module = convolution(batch, size, padding, labels=labels)
    arguments = numbers(module)
    fixed = {n: arguments[n] for n in constant}
    given = [a for n, a in enumerate(arguments) if n not in fixed]
    found = np.asarray(axla.compile(module, flags=FAST, constant=fixed)(*given))
    plain = np.asarray(axla.compile(module, constant=fixed)(*given))
    wide = [a.astype(np.float64) for a in arguments]
    exact = evaluate(convolution(batch, size, padding, "f64", labels=labels), wide).array
    assert (found != plain).any()  # other sums
    assert np.abs(found - exact).max() < 2 * np.abs(plain - exact).max()


@pytest.mark.parametrize("module", [
    convolution(1, (12, 12), [(1, 1), (1, 1)], stride=2), convolution(1, (4, 4), [(0, 0), (0, 0)]),
    convolution(1, (12, 12), [(1, 1), (1, 1)], "f64"),
    convolution(1, (12, 12), [(1, 1), (1, 1)], "bf16", to="f32"),
])  # fmt: skip
def test_others_are_computed_as_before(module):
    arguments = numbers(module)
    plain, found = (np.asarray(axla.compile(module, flags=f)(*arguments)) for f in ((), FAST))
    np.testing.assert_array_equal(plain, found)


def test_infinities_stay_without_the_flag():
    module = convolution(1, (12, 12), [(1, 1), (1, 1)])
    x, kernel = numbers(module)
    x[0, 5, 5, 0] = np.inf
    kernel = np.abs(kernel)
    assert not np.isnan(np.asarray(axla.compile(module)(x, kernel))).any()
