"""Graphs, gathers and scatters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bench_lib.cliffs.program import Made, integers, normal, program, uniform


def edges(nodes: int, degree: int = 8) -> tuple[np.ndarray, np.ndarray]:
    return integers(nodes, nodes * degree), integers(nodes, nodes * degree, seed=1)


@program(
    "PageRank, 20 rounds", "common use: scatter-add with duplicates in a loop", (500, 8000), tolerance=1e-3
)
def page_rank(n: int) -> Made:
    def run(source, target):
        degree = jnp.maximum(jnp.bincount(source, length=n), 1)

        def step(i, rank):
            shares = (rank / degree)[source]
            return 0.15 / n + 0.85 * jax.ops.segment_sum(shares, target, n)

        return lax.fori_loop(0, 20, step, jnp.full(n, 1 / n))

    return run, edges(n)


@program("breadth first, dense frontier", "common use: while until nothing is new", (128, 512))
def breadth(n: int) -> Made:
    def run(adjacency):
        def step(s):
            depth, frontier, d = s
            new = jnp.any(adjacency & frontier[:, None], axis=0) & (depth < 0)
            return jnp.where(new, d, depth), new, d + 1

        first = jnp.arange(n) == 0
        return lax.while_loop(lambda s: jnp.any(s[1]), step, (jnp.where(first, 0, -1), first, 1))[0]

    return run, (uniform(n, n) < 4 / n,)


@program("Bellman-Ford by segment_min", "common use: shortest ways", (500, 8000), tolerance=1e-3)
def bellman_ford(n: int) -> Made:
    def run(source, target, weight):
        def step(s):
            d, _, i = s
            new = jnp.minimum(d, jax.ops.segment_min(d[source] + weight, target, n))
            return new, jnp.any(new < d), i + 1

        start = jnp.full(n, jnp.inf).at[0].set(0)
        return lax.while_loop(lambda s: s[1] & (s[2] < n), step, (start, True, 0))[0]

    return run, (*edges(n), uniform(8 * n, seed=2))


@program("Floyd and Warshall", "common use: all pairs", (32, 128))
def floyd(n: int) -> Made:
    def run(d):
        return lax.fori_loop(0, n, lambda k, d: jnp.minimum(d, d[:, k, None] + d[k]), d)

    return run, (uniform(n, n) * 10,)


@program("connected components by labels", "common use: scatter-min until it rests", (500, 8000))
def components(n: int) -> Made:
    def run(source, target):
        def step(s):
            label, _ = s
            new = label.at[target].min(label[source]).at[source].min(label[target])
            new = new[new]
            return new, jnp.any(new != label)

        return lax.while_loop(lambda s: s[1], step, (jnp.arange(n), True))[0]

    return run, edges(n, 2)


@program("message passing with 32 features", "jax-ml/jax#39959", (200, 3200), tolerance=1e-3)
def messages(n: int) -> Made:
    def run(x, w, source, target):
        sent = jax.nn.relu(x[source] @ w[0] + x[target] @ w[1])
        return x + jax.ops.segment_sum(sent, target, n)

    return run, (normal(n, 32), normal(2, 32, 32, seed=2) / 6, *edges(n))


@program("vector to the lower triangle, by scatter", "jax-ml/jax#695", (16, 256))
def triangle(n: int) -> Made:
    rows, columns = np.tril_indices(40)
    return lambda t: jnp.zeros((n, 40, 40)).at[:, rows, columns].add(t), (normal(n, len(rows)),)


@program("weighted pairs counted by distance", "jax-ml/jax#3002", (64, 256))
def pairs(n: int) -> Made:
    def run(x, w, bounds):
        def row(counts, s):
            p, v = s
            bins = jnp.searchsorted(bounds, jnp.sum((x - p) ** 2, 1))
            return counts.at[bins].add(v * w), None

        return lax.scan(row, jnp.zeros(17), (x, w))[0]

    return run, (uniform(n, 3), uniform(n, seed=1), np.linspace(0.01, 1, 16).astype(np.float32))
