"""Operations, transcendental functions and bytes, as XLA's own cost analysis counts them."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.analysis.cost import cost
from axla.hlo.window import overlap_count
from axla.ir.attributes import Window
from work import calls

jax = pytest.importorskip("jax")
lax, jnp = jax.lax, jax.numpy


def ones(*dims: int) -> np.ndarray:
    return np.ones(dims, np.float32)


def convolution(**options):
    return lambda x, w: lax.conv_general_dilated(x, w, **options)


def updated(x, i):
    return lax.dynamic_slice(x, (i,), (4,)) + lax.dynamic_update_slice(x, x[:2], (i,))[:4]


CASES = {
    "product": (lambda a, b: jnp.einsum("bij,bjk->bik", a, b), ones(2, 3, 4), ones(2, 4, 5)),
    "layers": (lambda x, w: jax.nn.softmax(jnp.tanh(x @ w)), ones(4, 8), ones(8, 16)),
    "padded": (
        convolution(window_strides=(2, 1), padding=[(1, 1), (0, 2)]), ones(2, 3, 8, 9), ones(4, 3, 3, 3),
    ),
    "dilated": (
        convolution(
            window_strides=(1, 1), padding=[(1, 1), (2, 2)], lhs_dilation=(2, 2), rhs_dilation=(1, 2)
        ),
        ones(2, 3, 5, 6), ones(4, 3, 3, 2),
    ),
    "groups": (
        convolution(window_strides=(1, 1), padding="SAME", feature_group_count=3), ones(2, 3, 8, 8),
        ones(6, 1, 3, 3),
    ),
    "pooling": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"), ones(8, 8)),
    "slices": (updated, ones(10), 3),
    "gather": (lambda x, i: x[i], ones(10, 3), np.array([1, 2, 3])),
    "scatter": (lambda x, i: x.at[i].add(2.0), ones(10, 3), np.array([1, 2])),
    "sort": (jnp.sort, ones(100)),
    "fft": (jnp.fft.fft, ones(4, 64)),
    "elementwise": (lambda x: jnp.sqrt(x) + x**2.5 + jnp.where(x > 0, x, 1), ones(5)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_counts_are_those_of_xla(name):
    function, *arguments = CASES[name]
    lowered = jax.jit(function).lower(*arguments)
    wanted = lowered.cost_analysis()
    found = cost(axla.parse(lowered.compiler_ir("hlo").as_hlo_text()))
    assert found.operations == wanted.get("flops", 0)
    assert found.transcendentals == wanted.get("transcendentals", 0)
    assert found.bytes == wanted["bytes accessed"]
    assert found.exact


LOOP = """HloModule m
body {{ c = (s32[], f32[10]) parameter(0) i = s32[] get-tuple-element(c), index=0 one = s32[] constant(1)
  n = s32[] {next} x = f32[10] get-tuple-element(c), index=1 s = f32[10] sine(x)
  ROOT t = (s32[], f32[10]) tuple(n, s) }}
cond {{ c = (s32[], f32[10]) parameter(0) i = s32[] get-tuple-element(c), index=0 k = s32[] constant(7)
  ROOT r = pred[] compare(i, k), direction=LT }}
ENTRY e {{ x = f32[10] parameter(0) z = s32[] constant(0) t = (s32[], f32[10]) tuple(z, x)
  ROOT w = (s32[], f32[10]) while(t), condition=cond, body=body }}"""


def test_loops_count_as_often_as_they_run():
    found = cost(axla.parse(LOOP.format(next="add(i, one)")))
    assert (found.operations, found.transcendentals, found.exact) == (14, 70, True)
    found = cost(axla.parse(LOOP.format(next="multiply(i, one)")))
    assert (found.operations, found.transcendentals, found.exact) == (2, 10, False)


def test_the_dearest_branch_counts():
    text = """a { x = f32[8] parameter(0) ROOT s = f32[8] add(x, x) }
b { x = f32[8] parameter(0) y = f32[8] add(x, x) ROOT s = f32[8] multiply(y, y) }
ENTRY e { p = pred[] parameter(0) x = f32[8] parameter(1)
  ROOT c = f32[8] conditional(p, x, x), true_computation=a, false_computation=b }"""
    assert cost(axla.parse(text)).operations == 16


def test_pairs_of_window_and_element_are_counted_without_visiting_them():
    generator = np.random.default_rng(5)
    for _ in range(400):
        size, taps, made = (int(n) for n in generator.integers(1, 9, 3))
        stride, base, steps = (int(n) for n in generator.integers(1, 5, 3))
        low = int(generator.integers(-3, 6))
        window = Window((taps,), (stride,), (low,), (0,), (base,), (steps,))
        at = [tap * steps - low + place * stride for tap in range(taps) for place in range(made)]
        met = sum(0 <= n <= (size - 1) * base and n % base == 0 for n in at)
        assert overlap_count(window, 0, size, made) == met, window


def test_a_huge_window_costs_no_time():
    n = 3 * 10**9
    window = Window((n,), low=(n - 1,))
    found = []
    assert calls(lambda: found.append(overlap_count(window, 0, n, n))) < 100_000
    assert found[0] == pytest.approx(n * (n + 1) / 2, rel=1e-3)
