"""Loops: invariant code, carried values, writes to arrays, branches, nested loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from bench_lib.cliffs.program import Made, integers, key, normal, program, uniform


@program(
    "product that does not change, in a loop", "issue 20, first case (50,000 times XLA's time)", (100, 1000)
)
def invariant_product(n: int) -> Made:
    def run(a, b, x):
        return lax.fori_loop(0, n, lambda i, x: 0.5 * x + jnp.tanh(a @ b)[0], x)

    return run, (normal(128, 128), normal(128, 128, seed=1) / 11, normal(128, seed=2))


@program("sum that does not change, in a scan", "issue 20, first case", (200, 2000))
def invariant_sum(n: int) -> Made:
    def run(w, xs):
        def step(total, x):
            total = 0.9 * total + x * jnp.sum(jnp.exp(-w * w))
            return total, total

        return lax.scan(step, jnp.float32(0), xs)

    return run, (normal(16384), normal(n))


@program("random numbers of a fixed key, in a loop", "issue 20, second case (12 to 14 times)", (300, 3000))
def fixed_key(n: int) -> Made:
    def run(key, x):
        def step(i, x):
            return 0.9 * x + random.normal(key, x.shape)

        return lax.fori_loop(0, n, step, x)

    return run, (key(), normal(256))


@program("table that does not change, in a while", "issue 20, first case", (1000, 10000))
def invariant_table(n: int) -> Made:
    def run(x, trips):
        def step(state):
            i, x = state
            table = jnp.cos(jnp.arange(64, dtype=jnp.float32) * 0.1)
            return i + 1, x * 0.99 + table[i % 64] * table

        return lax.while_loop(lambda s: s[0] < trips, step, (0, x))[1]

    return run, (normal(64), np.int32(n))


@program(
    "inverse that does not change, in a scan", "common use: a covariance inverted in each step", (100, 1000)
)
def invariant_inverse(n: int) -> Made:
    def run(cov, xs):
        def step(total, x):
            return total + x @ jnp.linalg.inv(cov) @ x, None

        return lax.scan(step, jnp.float32(0), xs)[0]

    a = normal(16, 16)
    return run, (a @ a.T + 16 * np.eye(16, dtype=np.float32), normal(n, 16, seed=1))


@program("nested scans of scalars", "jax-ml/jax#2491", (40, 140))
def nested_scans(n: int) -> Made:
    def run(rows):
        def outer(carry, row):
            def inner(c, x):
                c = 0.5 * c + jnp.tanh(x)
                return c, c * x

            last, ys = lax.scan(inner, carry, row)
            return 0.1 * last, jnp.sum(ys)

        return lax.scan(outer, jnp.float32(0), rows)

    return run, (normal(n, n),)


@program("while with a dynamic trip count", "QuantEcon/lecture-python.myst#663", (5000, 50000))
def dynamic_trips(n: int) -> Made:
    def run(x, trips):
        def step(s):
            return s[0] + 1, 2.9 * s[1] * (1 - s[1]), s[2] + s[1]

        return lax.while_loop(lambda s: s[0] < trips, step, (0, x, jnp.float32(0)))[1:]

    return run, (np.float32(0.4), np.int32(n))


@program("vmap of while: steps of Collatz", "jax-ml/jax#441", (256, 4096))
def collatz(n: int) -> Made:
    def steps(x):
        def step(s):
            x, count = s
            return jnp.where(x % 2 == 0, x // 2, 3 * x + 1), count + 1

        return lax.while_loop(lambda s: s[0] > 1, step, (x, 0))[1]

    return jax.vmap(steps), (integers(1000, n) + 1,)


@program("vmap of while: Newton until it converges", "jax-ml/jax#2960", (1024, 16384))
def batched_newton(n: int) -> Made:
    def root(a):
        def step(s):
            x, _, i = s
            new = x - (x * x * x - a) / (3 * x * x)
            return new, jnp.abs(new - x), i + 1

        return lax.while_loop(lambda s: (s[1] > 1e-5) & (s[2] < 50), step, (a, jnp.float32(1), 0))[0]

    return jax.vmap(root), (uniform(n) * 50 + 1,)


@program("vmap of fori_loop that reads a table", "jax-ml/jax#1190", (128, 2048))
def batched_fori(n: int) -> Made:
    def one(x, table):
        return lax.fori_loop(0, 64, lambda i, x: x * 0.9 + table[i] * jnp.sin(x), x)

    return jax.vmap(one, (0, None)), (normal(n), normal(64, seed=1))


@program("cond in a scan", "common use: rare resets in a simulation", (500, 5000))
def cond_in_scan(n: int) -> Made:
    def run(xs):
        def step(c, x):
            c = lax.cond(x > 1, lambda c: jnp.mean(jnp.sin(c)) * jnp.ones_like(c), lambda c: c * 0.99 + x, c)
            return c, c[0]

        return lax.scan(step, jnp.ones(32), xs)

    return run, (normal(n),)


@program(
    "switch in a scan: a small machine",
    "common use: interpreters of programs, genetic programming",
    (1000, 10000),
)
def switch_in_scan(n: int) -> Made:
    def run(codes, args):
        branches = [
            lambda r, a: r.at[0].add(a), lambda r, a: r.at[1].set(r[0] * a), lambda r, a: jnp.roll(r, 1),
            lambda r, a: jnp.tanh(r), lambda r, a: r - a,
        ]  # fmt: skip

        def step(r, x):
            return lax.switch(x[0], branches, r, x[1]), r[0]

        return lax.scan(step, jnp.zeros(8), (codes, args))

    return run, (integers(5, n), normal(n, seed=1))


@program("writes of one element into a long array", "jax-ml/jax#40101", (2000, 20000))
def small_writes(n: int) -> Made:
    def run(xs):
        def step(i, out):
            return out.at[i].set(xs[i] * 0.5 + out[i - 1])

        return lax.fori_loop(1, n, step, jnp.zeros(n))

    return run, (normal(n),)


@program("writes of rows, all earlier ones read", "jax-ml/jax#10197", (64, 256))
def rows_written(n: int) -> Made:
    def run(x):
        def step(i, out):
            return out.at[i].set(jnp.tanh(out[i - 1] + jnp.mean(out, axis=0) + x))

        return lax.fori_loop(1, n, step, jnp.zeros((n, 64)).at[0].set(x))

    return run, (normal(64),)


@program("copy instead of an update, in a scan", "jax-ml/jax#17845", (1000, 8000))
def queue_in_scan(n: int) -> Made:
    def run(xs):
        def step(state, x):
            buffer, place = state
            buffer = lax.dynamic_update_slice(buffer, x[None], (place,))
            return (buffer, (place + 7) % n), buffer[place // 2]

        return lax.scan(step, (jnp.zeros(n), 0), xs)

    return run, (normal(n),)


@program("gradient of a scan with 24 scalars", "jax-ml/jax#40150", (100, 1000))
def scalars_gradient(n: int) -> Made:
    def loss(xs, inputs):
        def step(c, u):
            new = tuple(jnp.tanh(0.9 * c[k] + 0.1 * c[(k + 5) % 24] + 0.01 * u) for k in range(24))
            return new, new[0]

        return jnp.sum(lax.scan(step, tuple(xs), inputs)[1])

    return jax.grad(loss), (normal(24), normal(n, seed=1))


@program("scan with a 3x3 matrix of f64", "jax-ml/jax#36799", (1000, 10000), x64=True)
def matrix_carry(n: int) -> Made:
    def run(a, xs):
        def step(c, x):
            c = 0.5 * (a @ c @ a.T) + x * jnp.eye(3)
            return c, c[0, 0]

        return lax.scan(step, jnp.eye(3), xs)

    return run, (normal(3, 3, dtype=np.float64) / 3, normal(n, seed=1, dtype=np.float64))


@program("chain of links: kinetic energy's matrix", "jax-ml/jax#26021", (16, 256))
def mass_matrix(n: int) -> Made:
    def one(angles):
        def ends(q):
            total = jnp.cumsum(q)
            return jnp.stack([jnp.cumsum(jnp.cos(total)), jnp.cumsum(jnp.sin(total))], 1)

        jacobian = jax.jacfwd(ends)(angles)
        return jnp.einsum("kai,kaj->ij", jacobian, jacobian) + 0.1 * jnp.eye(7)

    return jax.vmap(one), (normal(n, 7),)


@program("convolution in a loop", "jax-ml/jax#12868", (4, 32))
def convolution_in_loop(n: int) -> Made:
    def run(x, w):
        def step(i, x):
            dims = ("NHWC", "HWIO", "NHWC")
            return jnp.tanh(lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dims))

        return lax.fori_loop(0, n, step, x)

    return run, (normal(1, 32, 32, 16), normal(3, 3, 16, 16, seed=1) * 0.1)


@program("discounted sums, backwards", "jax-ml/jax#810", (1000, 10000))
def discounted(n: int) -> Made:
    def run(rewards):
        def step(c, r):
            c = r + 0.99 * c
            return c, c

        return lax.scan(step, jnp.zeros(16), rewards, reverse=True)[1]

    return run, (normal(n, 16),)


@program("gradient of a scan, residuals stacked", "jax-ml/jax#40150", (64, 640))
def residuals(n: int) -> Made:
    def loss(w, xs):
        def step(h, x):
            h = jnp.tanh(w * h + x)
            return h, jnp.sum(h * h)

        return jnp.sum(lax.scan(step, jnp.zeros(128), xs)[1])

    return jax.grad(loss, (0, 1)), (normal(128), normal(n, 128, seed=1))


@program(
    "recurrence by an associative scan", "EEA-sensors/sequential-parallelization-examples#9", (1024, 16384)
)
def linear_recurrence(n: int) -> Made:
    def run(a, b):
        def combine(left, right):
            return left[0] * right[0], right[0] * left[1] + right[1]

        return lax.associative_scan(combine, (a, b))[1]

    return run, (uniform(n, 8), normal(n, 8, seed=1))
