"""Reductions, ops that move data, conversions of types, operations on bits."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from bench_lib.cliffs.program import Made, integers, normal, program, uniform


@program("sums over the first axis", "jax-ml/jax#25187", (32, 80), tolerance=1e-3)
def first_axis(n: int) -> Made:
    return lambda x: (jnp.sum(x, 0), jnp.var(x, 0)), (normal(n, n, n),)


@program("sum of a slice", "jax-ml/jax#37465", (256, 1024), tolerance=1e-3)
def of_slice(n: int) -> Made:
    return lambda x: jnp.sum(x[1:-1, 3:-2] ** 2, 1), (normal(n, n),)


@program("sums over odd sizes and the middle axis", "openxla/xla#16792", (17, 67), tolerance=1e-3)
def odd_sizes(n: int) -> Made:
    return lambda x: (jnp.sum(x, 1), jnp.max(x, (0, 2)), jnp.argmin(x, 1)), (normal(n, 33, n + 2),)


@program("sine a hundred times", "jax-ml/jax#32707", (1000, 16000), tolerance=1e-3)
def sines(n: int) -> Made:
    return lambda x: lax.fori_loop(0, 100, lambda i, x: jnp.sin(x), x), (normal(n),)


@program("cumulative sum along rows and columns", "jax-ml/jax#4135", (64, 256), tolerance=1e-2)
def cumulative(n: int) -> Made:
    return lambda x: (jnp.cumsum(x, 0), jnp.cumsum(x, 1), jnp.cumprod(x, 1)), (uniform(n, n),)


@program("cumulative exclusive or by a scan", "jax-ml/jax#28097", (512, 8192))
def cumulative_xor(n: int) -> Made:
    def run(x):
        def step(c, r):
            c = c ^ r
            return c, c

        return lax.scan(step, x[0] * 0, x)[1]

    return run, (integers(1 << 30, n, 32, dtype=np.uint32),)


@program("compaction by a mask: where and cumsum", "common use: jnp.nonzero(size=...)", (2000, 32000))
def compaction(n: int) -> Made:
    def run(x):
        place = jnp.where(x > 0, jnp.cumsum(x > 0) - 1, n)
        return jnp.zeros(n).at[place].set(x, mode="drop"), jnp.nonzero(x > 0, size=100)[0]

    return run, (normal(n),)


@program("transposes of four axes", "common use: heads of attention", (64, 1024))
def transposes(n: int) -> Made:
    return lambda x: (x.transpose(0, 2, 1, 3) * 2).transpose(3, 1, 0, 2) + 1, (normal(4, n, 8, 16),)


@program("concatenations, pads and rolls", "common use: ghost cells", (128, 512))
def pieces(n: int) -> Made:
    def run(x):
        x = jnp.concatenate([x[-2:], x, x[:2]])
        x = jnp.pad(x, ((0, 0), (2, 2)), mode="reflect")
        return jnp.roll(x, (3, -5), (0, 1)) + jnp.flip(x, 1)

    return run, (normal(n, n),)


@program("triangles and diagonals", "common use: masks of matrices", (128, 512))
def triangles(n: int) -> Made:
    def run(x):
        return jnp.triu(x, 1) - jnp.tril(x).T, jnp.trace(x), jnp.diag(jnp.diag(x))

    return run, (normal(n, n),)


@program(
    "conversions: f32, bf16, f16, int8 and back",
    "common use: mixed precision",
    (16000, 256000),
    tolerance=0.05,
)
def conversions(n: int) -> Made:
    def run(x):
        small = x.astype(jnp.bfloat16).astype(jnp.float32) + x.astype(jnp.float16).astype(jnp.float32)
        return small, (small * 10).astype(jnp.int8), (x > 0).astype(jnp.bfloat16)

    return run, (normal(n),)


@program("bits counted, reversed and interleaved", "jax-ml/jax#9235", (16000, 256000))
def bits(n: int) -> Made:
    def run(x):
        y = x & jnp.uint32(0xFFFF)
        for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
            y = (y | (y << shift)) & jnp.uint32(mask)
        return lax.population_count(x), lax.clz(x), y

    return run, (integers(1 << 30, n, dtype=np.uint32),)
