"""Ordinary and stochastic differential equations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.experimental.ode import odeint

from bench_lib.cliffs.program import Made, key, normal, program, uniform


def rk4(field, y, h):
    """A step of the classical Runge-Kutta method."""
    a = field(y)
    b = field(y + 0.5 * h * a)
    c = field(y + 0.5 * h * b)
    return y + h / 6 * (a + 2 * b + 2 * c + field(y + h * c))


def lorenz(y):
    return jnp.stack([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])


@program("Lorenz by Runge-Kutta 4", "issue 20, third case (3.1 times)", (1000, 10000), tolerance=0.05)
def lorenz_fixed(n: int) -> Made:
    def run(y):
        return lax.fori_loop(0, n, lambda i, y: rk4(lorenz, y, 0.0005), y)

    return run, (np.array([1, 1, 1], np.float32),)


@program(
    "Lorenz, many starts, trajectory kept",
    "SciML users, patrick-kidger/diffrax#577",
    (50, 500),
    tolerance=0.05,
)
def lorenz_batch(n: int) -> Made:
    def run(starts):
        def step(y, _):
            y = rk4(lorenz, y, 0.005)
            return y, y

        return lax.scan(step, starts.T, length=n)[1]

    return run, (normal(64, 3),)


@program("odeint of a pendulum, adaptive", "issue 20, third case (3.1 times)", (16, 256), tolerance=1e-3)
def pendulum(n: int) -> Made:
    def run(y, times):
        return odeint(lambda y, t: jnp.stack([y[1], -jnp.sin(y[0]) - 0.1 * y[1]]), y, times)

    return run, (np.array([1, 0], np.float32), np.linspace(0, n / 8, n).astype(np.float32))


@program("gradient through odeint, Van der Pol", "jax-ml/jax#5006", (4, 32), tolerance=1e-2)
def van_der_pol(n: int) -> Made:
    def loss(mu, y, times):
        def field(y, t, mu):
            return jnp.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])

        return jnp.sum(odeint(field, y, times, mu) ** 2)

    times = np.linspace(0, n / 8, n).astype(np.float32)
    return jax.grad(loss), (np.float32(1), np.array([1, 0], np.float32), times)


@program("Bogacki and Shampine with a controller of steps", "patrick-kidger/diffrax#577", (10, 100), x64=True)
def adaptive(n: int) -> Made:
    def run(y, end):
        def attempt(s):
            t, y, h, steps = s
            h = jnp.minimum(h, end - t)
            a = field(y)
            b = field(y + h * a / 2)
            c = field(y + 0.75 * h * b)
            better = y + h * (2 * a / 9 + b / 3 + 4 * c / 9)
            d = field(better)
            error = h * (-5 * a / 72 + b / 12 + c / 9 - d / 8)
            size = jnp.sqrt(jnp.mean((error / (1e-6 + 1e-6 * jnp.abs(y))) ** 2))
            factor = jnp.clip(0.9 * size ** (-1 / 3), 0.2, 5)
            good = size <= 1
            return jnp.where(good, t + h, t), jnp.where(good, better, y), h * factor, steps + 1

        return lax.while_loop(lambda s: s[0] < end, attempt, (0.0, y, 1e-3, 0))

    def field(y):
        return jnp.stack([1 + y[0] ** 2 * y[1] - 4 * y[0], 3 * y[0] - y[0] ** 2 * y[1]])

    return run, (np.array([1.5, 3]), np.float64(n))


@program("implicit Euler with Newton inside", "martinjrobins/diffsol#303", (20, 200), x64=True)
def implicit_euler(n: int) -> Made:
    def field(y):
        return jnp.stack([-50 * (y[0] - jnp.cos(y[1])), 1 - 0.1 * y[0], -y[2] + y[0] * y[1]])

    def run(y):
        def step(y, _):
            def newton(i, new):
                jacobian = jnp.eye(3) - 0.05 * jax.jacfwd(field)(new)
                return new - jnp.linalg.solve(jacobian, new - y - 0.05 * field(new))

            y = lax.fori_loop(0, 4, newton, y)
            return y, y

        return lax.scan(step, y, length=n)[1]

    return run, (np.array([0.0, 0, 1]),)


@program("leapfrog of planets", "common use: symplectic integrators", (100, 1000), x64=True, tolerance=1e-6)
def planets(n: int) -> Made:
    def forces(q):
        d = q[None] - q[:, None]
        r2 = jnp.sum(d * d, -1) + 0.01
        return jnp.sum(d / (r2 * jnp.sqrt(r2))[..., None], 1) * 0.1

    def run(q, p):
        def step(s, _):
            q, p = s
            p = p + 0.005 * forces(q)
            q = q + 0.01 * p
            return (q, p + 0.005 * forces(q)), q[0]

        return lax.scan(step, (q, p), length=n)

    return run, (normal(6, 3, dtype=np.float64), normal(6, 3, seed=1, dtype=np.float64) * 0.1)


@program("neuron of Hodgkin and Huxley", "jax-ml/jax#26145", (500, 5000), tolerance=1e-2)
def hodgkin_huxley(n: int) -> Made:
    def run(current):
        def step(s, i):
            v, m, h, p = s
            am, bm = 0.1 * (v + 40) / (1 - jnp.exp(-(v + 40.01) / 10)), 4 * jnp.exp(-(v + 65) / 18)
            ah, bh = 0.07 * jnp.exp(-(v + 65) / 20), 1 / (1 + jnp.exp(-(v + 35) / 10))
            an, bn = 0.01 * (v + 55) / (1 - jnp.exp(-(v + 55.01) / 10)), 0.125 * jnp.exp(-(v + 65) / 80)
            total = 120 * m**3 * h * (v - 50) + 36 * p**4 * (v + 77) + 0.3 * (v + 54.4)
            m, h, p = (
                x + 0.01 * (a * (1 - x) - b * x) for x, a, b in ((m, am, bm), (h, ah, bh), (p, an, bn))
            )
            return (v + 0.01 * (i - total), m, h, p), v

        start = tuple(jnp.float32(x) for x in (-65, 0.05, 0.6, 0.32))
        return lax.scan(step, start, current)[1]

    return run, (uniform(n) * 10,)


@program("gradient of a cable with 8 compartments", "jax-ml/jax#26145", (50, 500), tolerance=1e-2)
def cable(n: int) -> Made:
    def loss(conductances, current):
        def step(v, i):
            gates = jax.nn.sigmoid((v + 40) / 5)
            neighbours = jnp.roll(v, 1) + jnp.roll(v, -1) - 2 * v
            v = v + 0.02 * (0.5 * neighbours - conductances * gates * (v - 50) - 0.3 * (v + 65))
            return v.at[0].add(0.02 * i), v[-1]

        return jnp.mean(lax.scan(step, jnp.full(8, -65.0), current)[1] ** 2) * 1e-3

    return jax.grad(loss), (uniform(8), uniform(n, seed=1) * 10)


@program("predator and prey, gradient by recomputation", "common use: jax.checkpoint in fits", (64, 640))
def checkpointed(n: int) -> Made:
    def loss(rates, y):
        def field(y):
            return jnp.stack(
                [rates[0] * y[0] - rates[1] * y[0] * y[1], rates[2] * y[0] * y[1] - rates[3] * y[1]]
            )

        @jax.checkpoint
        def step(y, _):
            return rk4(field, y, 0.01), None

        return jnp.sum(lax.scan(step, y, length=n)[0] ** 2)

    return jax.grad(loss), (np.array([1, 0.5, 0.3, 0.8], np.float32), np.array([1, 1], np.float32))


@program(
    "Ornstein-Uhlenbeck paths, Euler-Maruyama", "common use: SDEs with keys split in a scan", (100, 1000)
)
def ornstein_uhlenbeck(n: int) -> Made:
    def run(key, x):
        def step(x, key):
            x = x - 0.01 * x + 0.1 * random.normal(key, x.shape)
            return x, jnp.mean(x)

        return lax.scan(step, x, random.split(key, n))

    return run, (key(), normal(64))
