"""`shaken`: the program stays the same but for rounding, with reductions in both orders."""

import numpy as np
import pytest

import axla
from axla.analysis.rounding import shaken

WINDOWS = [
    ((7,), "size=3"),
    ((7,), "size=3 stride=2"),
    ((9,), "size=2 stride=3 pad=1_1"),
    ((5,), "size=5 pad=4_0"),
    ((5,), "size=5 pad=0_4 rhs_dilate=2"),
    ((5,), "size=3 stride=2 pad=-1_2 lhs_dilate=2 rhs_dilate=2"),
    ((6, 5), "size=2x3 stride=3x2 pad=0_1x2_0"),
]


def window(dims, text, op, dtype="f32"):
    shape = f"{dtype}[{','.join(map(str, dims))}]"
    return axla.parse(f"""HloModule m
op {{ a = {dtype}[] parameter(0)
 b = {dtype}[] parameter(1)
 ROOT r = {dtype}[] {op}(a, b) }}
ENTRY main {{ x = {shape} parameter(0)
 i = {dtype}[] parameter(1)
 ROOT r = reduce-window(x, i), window={{{text}}}, to_apply=op }}""")


def run(module, *inputs):
    return axla.compile(module, backend="interpreter").execute(list(inputs))[0]


@pytest.mark.parametrize("seed", (0, 1))
@pytest.mark.parametrize("dims, text", WINDOWS, ids=lambda one: str(one))
def test_windows_in_reverse_have_the_same_sums(dims, text, seed):
    module = window(dims, text, "add")
    x = np.random.default_rng(0).normal(size=dims).astype(np.float32)
    wanted = run(module, x, np.float32(0.5))
    found = run(shaken(module, seed), x, np.float32(0.5))
    assert found.shape == wanted.shape and wanted.size
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_windows_over_dynamic_arrays_have_the_same_sums():
    module = axla.parse("""HloModule m
op { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
ENTRY main { x = f32[7] parameter(0)
 n = s32[] parameter(1)
 d = f32[<=7] set-dimension-size(x, n), dimensions={0}
 i = f32[] constant(0)
 ROOT r = reduce-window(d, i), window={size=3 stride=2 pad=1_1}, to_apply=op }""")
    x = np.arange(1, 8, dtype=np.float32)
    for made in (module, shaken(module, 1)):
        np.testing.assert_allclose(run(made, x, np.int32(6)), [3, 9, 15], rtol=1e-4)


def test_no_windows_in_reverse():
    module = window((2,), "size=3 stride=9", "add")
    assert run(shaken(module, 1), np.ones(2, np.float32), np.float32(0)).shape == (0,)


def test_a_product_that_overflows_in_one_order_only():
    module = window((4,), "size=4", "multiply")
    x = np.array([1e30, 1e30, 1e-30, 1], np.float32)
    found = [run(shaken(module, seed), x, np.float32(1))[0] for seed in range(2)]
    assert [bool(np.isfinite(number)) for number in found] == [False, True]
