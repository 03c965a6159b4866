"""Grids, particles and fields."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from bench_lib.cliffs.program import Made, integers, key, normal, program, uniform


def around(x):
    """The sum of the four neighbours of each element; the grid is periodic."""
    return jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1)


@program("Conway's life", "common use: rolls of integers in a loop", (64, 256))
def life(n: int) -> Made:
    def run(x):
        def step(i, x):
            total = around(x) + sum(jnp.roll(x, (a, b), (0, 1)) for a in (-1, 1) for b in (-1, 1))
            return ((total == 3) | ((x == 1) & (total == 2))).astype(x.dtype)

        return lax.fori_loop(0, 20, step, x)

    return run, (integers(2, n, n, dtype=np.int8),)


@program("Ising model, checkerboard", "common use: lattices with random numbers", (32, 128))
def ising(n: int) -> Made:
    def run(key, spins):
        black = (jnp.arange(n)[:, None] + jnp.arange(n)) % 2 == 0

        def half(spins, key, colour):
            flip = random.uniform(key, spins.shape) < jnp.exp(-0.8 * spins * around(spins))
            return jnp.where(flip & colour, -spins, spins)

        def sweep(spins, key):
            a, b = random.split(key)
            spins = half(half(spins, a, black), b, ~black)
            return spins, jnp.mean(spins)

        return lax.scan(sweep, spins, random.split(key, 10))

    return run, (key(), np.sign(normal(n, n)))


@program("lattice Boltzmann, D2Q9", "Ceyron/machine-learning-and-simulation#10", (32, 128), tolerance=1e-3)
def boltzmann(n: int) -> Made:
    cx = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
    cy = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
    weights = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, np.float32)

    def run(f):
        def step(i, f):
            f = jnp.stack([jnp.roll(f[k], (cx[k], cy[k]), (0, 1)) for k in range(9)])
            rho = f.sum(0)
            u, v = jnp.tensordot(cx * 1.0, f, 1) / rho, jnp.tensordot(cy * 1.0, f, 1) / rho
            along = 3 * (cx[:, None, None] * u + cy[:, None, None] * v)
            balance = weights[:, None, None] * rho * (1 + along + along**2 / 2 - 1.5 * (u * u + v * v))
            return f + 0.6 * (balance - f)

        return lax.fori_loop(0, 10, step, f)

    return run, (uniform(9, n, n) * 0.1 + weights[:, None, None],)


@program("heat on a plate", "jax-ml/jax#11617", (64, 256))
def heat(n: int) -> Made:
    def run(x):
        def step(i, x):
            inner = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * x[1:-1, 1:-1]
            return x.at[1:-1, 1:-1].add(0.2 * inner)

        return lax.fori_loop(0, 20, step, x)

    return run, (uniform(n, n),)


@program("fluxes of a compressible flow by rolls", "jax-ml/jax#24373", (64, 256), tolerance=1e-3)
def fluxes(n: int) -> Made:
    def slope(f, axis):
        return (jnp.roll(f, -1, axis) - jnp.roll(f, 1, axis)) * 0.5

    def run(rho, u, v):
        def step(i, s):
            rho, u, v = s
            for axis, w in ((0, u), (1, v)):
                left = [f + 0.5 * slope(f, axis) for f in s]
                right = [jnp.roll(f - 0.5 * slope(f, axis), -1, axis) for f in s]
                speed = jnp.maximum(jnp.abs(left[1]), jnp.abs(right[1])) + 1
                flow = 0.5 * w * (left[0] + right[0]) - 0.5 * speed * (right[0] - left[0])
                rho = rho - 0.01 * (flow - jnp.roll(flow, 1, axis))
            return rho, u - 0.01 * slope(rho, 0), v - 0.01 * slope(rho, 1)

        return lax.fori_loop(0, 5, step, (rho, u, v))

    return run, (uniform(n, n) + 1, normal(n, n, seed=1) * 0.1, normal(n, n, seed=2) * 0.1)


@program("N bodies, all pairs", "common use: gravity in a scan", (64, 256), tolerance=1e-2)
def bodies(n: int) -> Made:
    def run(x, v, m):
        def step(s, _):
            x, v = s
            d = x[None] - x[:, None]
            r2 = jnp.sum(d * d, -1) + 0.1
            v = v + 0.01 * jnp.sum(m[:, None] * d * r2[..., None] ** -1.5, 1)
            return (x + 0.01 * v, v), jnp.sum(v * v)

        return lax.scan(step, (x, v), length=10)

    return run, (normal(n, 3), normal(n, 3, seed=1) * 0.1, uniform(n, seed=2))


@program("forces of Lennard and Jones by grad", "jax-md/jax-md#309", (48, 192), tolerance=1e-2)
def lennard_jones(n: int) -> Made:
    def energy(x):
        d = x[:, None] - x[None]
        d = d - 8 * jnp.round(d / 8)
        r2 = jnp.sum(d * d, -1) + 4 * jnp.eye(n) + 0.5
        s = r2**-3
        return 2 * jnp.sum(jnp.where(r2 < 6, s * s - s, 0) * (1 - jnp.eye(n)))

    return jax.value_and_grad(energy), (uniform(n, 3) * 8,)


@program("particles in cells: scatter, field, gather", "common use: plasma", (2000, 32000), tolerance=1e-2)
def plasma(n: int) -> Made:
    def run(x, v):
        def step(s, _):
            x, v = s
            cell = x.astype(jnp.int32) % 64
            f = x - jnp.floor(x)
            rho = jnp.zeros(64).at[cell].add(1 - f).at[(cell + 1) % 64].add(f)
            field = jnp.cumsum(rho - rho.mean()) / n
            v = v + 0.1 * (field[cell] * (1 - f) + field[(cell + 1) % 64] * f)
            return ((x + 0.1 * v) % 64, v), jnp.sum(v * v)

        return lax.scan(step, (x, v), length=5)[1]

    return run, (uniform(n) * 64, normal(n, seed=1))
