"""Orders, searches and counts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bench_lib.cliffs.program import Made, integers, normal, program, uniform


@program("argsort", "jax-ml/jax#10434", (4096, 65536))
def argsort(n: int) -> Made:
    return jnp.argsort, (normal(n),)


@program("sort along the first axis", "jax-ml/jax#10434", (64, 1024))
def major(n: int) -> Made:
    return lambda x: jnp.sort(x, axis=0), (normal(n, 64),)


@program("sort by two keys, two values", "common use: lexsort of edges", (1000, 16000))
def two_keys(n: int) -> Made:
    def run(a, b, x, y):
        return lax.sort((a, b, x, y), num_keys=2)

    return run, (integers(50, n), integers(1000, n, seed=1), normal(n, seed=2), normal(n, seed=3))


@program("top 10 of each row", "tillahoffmann/jax-mps#131", (16, 256))
def top(n: int) -> Made:
    return lambda x: lax.top_k(x, 10), (normal(n, 2000),)


@program("quantiles of columns", "common use: statistics", (256, 4096))
def quantiles(n: int) -> Made:
    return lambda x: jnp.quantile(x, jnp.array([0.1, 0.5, 0.9]), axis=0), (normal(n, 16),)


@program("unique with a size, and counts", "common use: jnp.unique(size=...)", (1000, 16000))
def unique(n: int) -> Made:
    return lambda x: jnp.unique(x, size=100, return_counts=True), (integers(100, n),)


@program("searchsorted", "jax-ml/jax#2938", (2000, 32000))
def search(n: int) -> Made:
    return lambda a, v: jnp.searchsorted(a, v), (np.sort(normal(n)), normal(n, seed=1))


@program("histogram of 70 bins", "jax-ml/jax#12774", (4096, 65536))
def histogram(n: int) -> Made:
    return lambda x: jnp.histogram(x, 70, range=(-4, 4))[0], (normal(n),)


@program("nearest neighbours: distances and top_k", "jax-ml/jax#9235", (64, 256), tolerance=1e-3)
def neighbours(n: int) -> Made:
    def run(x):
        d = jnp.sum(x * x, 1)[:, None] - 2 * x @ x.T + jnp.sum(x * x, 1)
        return -lax.top_k(-d, 5)[0]

    return run, (uniform(n, 16),)


@program("k-means, 10 rounds", "common use: clustering by segment_sum", (500, 8000), tolerance=1e-2)
def k_means(n: int) -> Made:
    def run(x, centres):
        def step(i, centres):
            label = jnp.argmin(jnp.sum((x[:, None] - centres) ** 2, -1), 1)
            sums = jax.ops.segment_sum(x, label, 8)
            return sums / jnp.maximum(jnp.bincount(label, length=8), 1)[:, None]

        return lax.fori_loop(0, 10, step, centres)

    return run, (uniform(n, 4), uniform(8, 4, seed=1))
