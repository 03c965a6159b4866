"""Interpolation and tables."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.ndimage import map_coordinates

from bench_lib.cliffs.program import Made, normal, program, uniform


@program("jnp.interp", "jax-ml/jax#3860", (1000, 16000), tolerance=1e-3)
def linear(n: int) -> Made:
    return jnp.interp, (uniform(n, seed=1), np.linspace(0, 1, n).astype(np.float32), normal(n, seed=2))


@program("gradient of map_coordinates", "jax-ml/jax#26152", (32, 128), tolerance=1e-2)
def map_gradient(n: int) -> Made:
    def run(x):
        return jnp.max(map_coordinates(x, jnp.indices((2 * n, 2 * n)) * 0.5, order=1))

    return jax.value_and_grad(run), (normal(n, n),)


@program("natural cubic spline: fit and evaluate", "jax-ml/jax#3860", (400, 6400), tolerance=1e-2)
def spline(n: int) -> Made:
    def run(y, at):
        h = 1 / (n - 1)
        right = jnp.zeros(n).at[1:-1].set(6 * (y[2:] - 2 * y[1:-1] + y[:-2]) / h**2)
        lower = jnp.ones(n).at[0].set(0).at[-1].set(0)
        upper = jnp.ones(n).at[0].set(0).at[-1].set(0)
        diagonal = jnp.full(n, 4.0).at[0].set(1).at[-1].set(1)
        m = lax.linalg.tridiagonal_solve(lower, diagonal, upper, right[:, None])[:, 0]
        i = jnp.clip((at / h).astype(jnp.int32), 0, n - 2)
        t = at - i * h
        slope = (y[i + 1] - y[i]) / h - h * (2 * m[i] + m[i + 1]) / 6
        return y[i] + t * (slope + t * (m[i] / 2 + t * (m[i + 1] - m[i]) / (6 * h)))

    return run, (normal(n), uniform(n, seed=1))


@program("trilinear lookups in a table of colours", "common use: LUTs", (1000, 16000), tolerance=1e-3)
def colours(n: int) -> Made:
    def run(table, x):
        p = x * 15.999
        low = p.astype(jnp.int32)
        f = p - low
        total = 0.0
        for corner in np.ndindex(2, 2, 2):
            i = jnp.minimum(low + np.array(corner, np.int32), 16)
            weight = jnp.prod(jnp.where(np.array(corner) == 1, f, 1 - f), axis=1)
            total = total + weight[:, None] * table[i[:, 0], i[:, 1], i[:, 2]]
        return total

    return run, (uniform(17, 17, 17, 3), uniform(n, 3, seed=1))
