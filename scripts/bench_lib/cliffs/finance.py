"""Prices of options and economic models."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.scipy.stats import norm

from bench_lib.cliffs.program import Made, key, program, uniform


@program("Black and Scholes, all derivatives", "paolodelia99/jaxfin#15", (1000, 16000), tolerance=1e-3)
def black_scholes(n: int) -> Made:
    def price(s, k, v, t):
        d = (jnp.log(s / k) + (0.02 + v * v / 2) * t) / (v * jnp.sqrt(t))
        return s * norm.cdf(d) - k * jnp.exp(-0.02 * t) * norm.cdf(d - v * jnp.sqrt(t))

    arrays = (uniform(n, seed=k) * 0.5 + 0.75 for k in range(4))
    return jax.vmap(jax.value_and_grad(price, (0, 1, 2, 3))), tuple(arrays)


@program("Asian option by Monte Carlo", "paolodelia99/jaxfin#15", (256, 4096), tolerance=1e-3)
def asian(n: int) -> Made:
    def run(key, start, volatility):
        steps = 0.01 * volatility * random.normal(key, (n, 64))
        paths = start * jnp.exp(jnp.cumsum(steps, axis=1))
        return jnp.mean(jnp.maximum(jnp.mean(paths, 1) - 1, 0))

    return run, (key(), np.float32(1), np.float32(0.3))


@program(
    "Heston's paths in a scan over keys", "JackJacquier/Heston-normal-and-rough#1", (64, 1024), tolerance=1e-2
)
def heston(n: int) -> Made:
    def run(key):
        def step(s, key):
            x, v = s
            z = random.normal(key, (2, n))
            root = jnp.sqrt(jnp.maximum(v, 0) * 0.01)
            w = -0.7 * z[0] + 0.7141 * z[1]
            return (x - 0.005 * v + root * z[0], v + 0.02 * (0.04 - v) + 0.3 * root * w), None

        x, _ = lax.scan(step, (jnp.zeros(n), jnp.full(n, 0.04)), random.split(key, 50))[0]
        return jnp.mean(jnp.maximum(jnp.exp(x) - 1, 0))

    return run, (key(),)


@program(
    "American option on a binomial tree", "common use: backwards through a tree", (100, 400), tolerance=1e-3
)
def binomial(n: int) -> Made:
    def run(start, up):
        powers = jnp.arange(n + 1) * 2.0

        def step(values, k):
            held = 0.9999 * (0.5 * values + 0.5 * jnp.roll(values, -1))
            now = jnp.maximum(1 - start * up ** (powers - k), 0)
            return jnp.maximum(held, now), None

        last = jnp.maximum(1 - start * up ** (powers - n), 0)
        return lax.scan(step, last, jnp.arange(n - 1, -1, -1).astype(jnp.float32))[0][0]

    return run, (np.float32(1), np.float32(1.01))


@program("eating a cake: iterated value function", "QuantEcon/lecture-jax#185", (50, 200), tolerance=1e-3)
def cake(n: int) -> Made:
    def run(grid):
        eaten = grid[:, None] - grid
        reward = jnp.where(eaten > 0, jnp.log(jnp.maximum(eaten, 1e-6)), -1e6)

        def step(s):
            v, _, i = s
            new = jnp.max(reward + 0.9 * v, axis=1)
            return new, jnp.max(jnp.abs(new - v)), i + 1

        return lax.while_loop(lambda s: (s[1] > 1e-3) & (s[2] < 100), step, (grid * 0, 1.0, 0))[0]

    return run, (np.linspace(0.01, 2, n).astype(np.float32),)
