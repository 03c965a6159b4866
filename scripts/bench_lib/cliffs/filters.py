"""Filters of time series and models with hidden states."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.scipy.special import logsumexp

from bench_lib.cliffs.program import Made, integers, key, normal, program


def track() -> tuple[np.ndarray, ...]:
    """The matrices of a Kalman filter for a body that moves in the plane, and whose position is observed."""
    f = np.eye(4, dtype=np.float32)
    f[0, 2] = f[1, 3] = 0.1
    return f, np.eye(2, 4, dtype=np.float32), np.eye(4, dtype=np.float32) * 0.01, np.eye(2, dtype=np.float32)


def kalman_step(s, y, f, h, q, r):
    m, p = s
    m, p = f @ m, f @ p @ f.T + q
    gain = jnp.linalg.solve(h @ p @ h.T + r, h @ p).T
    m = m + gain @ (y - h @ m)
    return m, p - gain @ h @ p


@program("Kalman filter in four dimensions", "jax-ml/jax#2419", (50, 500), tolerance=1e-3)
def kalman(n: int) -> Made:
    def run(f, h, q, r, ys):
        def step(s, y):
            s = kalman_step(s, y, f, h, q, r)
            return s, s[0]

        return lax.scan(step, (jnp.zeros(4), jnp.eye(4)), ys)[1]

    return run, (*track(), normal(n, 2))


@program("gradient of a Kalman filter's likelihood", "paninski-lab/eks#7", (20, 200), tolerance=1e-2)
def kalman_gradient(n: int) -> Made:
    def loss(scale, f, h, q, r, ys):
        def step(s, y):
            error = y - h @ f @ s[0]
            cov = h @ (f @ s[1] @ f.T + scale * q) @ h.T + r
            cost = error @ jnp.linalg.solve(cov, error) + jnp.linalg.slogdet(cov)[1]
            return kalman_step(s, y, f, h, scale * q, r), cost

        return jnp.sum(lax.scan(step, (jnp.zeros(4), jnp.eye(4)), ys)[1])

    return jax.value_and_grad(loss), (np.float32(1), *track(), normal(n, 2))


@program("many Kalman filters by vmap", "common use: a filter per track", (16, 256), tolerance=1e-3)
def kalman_batch(n: int) -> Made:
    def run(f, h, q, r, ys):
        def one(ys):
            def step(s, y):
                return kalman_step(s, y, f, h, q, r), None

            return lax.scan(step, (jnp.zeros(4), jnp.eye(4)), ys)[0][0]

        return jax.vmap(one)(ys)

    return run, (*track(), normal(n, 20, 2))


@program("smoother of Rauch, Tung and Striebel", "probml/pyprobml#658", (30, 300), tolerance=1e-2)
def smoother(n: int) -> Made:
    def run(f, h, q, r, ys):
        def forward(s, y):
            s = kalman_step(s, y, f, h, q, r)
            return s, s

        def backward(s, x):
            m, p = x
            ahead = f @ p @ f.T + q
            gain = jnp.linalg.solve(ahead, f @ p).T
            s = m + gain @ (s[0] - f @ m), p + gain @ (s[1] - ahead) @ gain.T
            return s, s[0]

        last, kept = lax.scan(forward, (jnp.zeros(4), jnp.eye(4)), ys)
        return lax.scan(backward, last, kept, reverse=True)[1]

    return run, (*track(), normal(n, 2))


@program("particle filter, systematic resampling", "tensorflow/probability#1744", (64, 1024), tolerance=0.05)
def particles(n: int) -> Made:
    def run(key, ys):
        def step(x, s):
            y, key = s
            a, b = random.split(key)
            x = 0.9 * x + random.normal(a, x.shape)
            w = jax.nn.softmax(-0.5 * (y - x) ** 2)
            points = (jnp.arange(n) + random.uniform(b)) / n
            return x[jnp.searchsorted(jnp.cumsum(w), points).clip(0, n - 1)], jnp.dot(w, x)

        return lax.scan(step, jnp.zeros(n), (ys, random.split(key, 50)))[1]

    return run, (key(), normal(50))


@program(
    "particle filter, resampled when few are left",
    "common use: cond on the effective size",
    (64, 256),
    tolerance=0.05,
)
def particles_cond(n: int) -> Made:
    def run(key, ys):
        def step(s, xs):
            x, logw = s
            y, key = xs
            a, b = random.split(key)
            x = 0.9 * x + random.normal(a, x.shape)
            logw = jax.nn.log_softmax(logw - 0.5 * (y - x) ** 2)
            few = 1 / jnp.sum(jnp.exp(2 * logw)) < n / 2
            drawn = lambda _: (x[random.categorical(b, logw, shape=(n,))], jnp.zeros(n))  # noqa: E731
            s = lax.cond(few, drawn, lambda _: (x, logw), None)
            return s, jnp.mean(s[0])

        return lax.scan(step, (jnp.zeros(n), jnp.zeros(n)), (ys, random.split(key, 10)))[1]

    return run, (key(), normal(10))


@program("HMM: forward algorithm of logs", "pyro-ppl/numpyro#117", (100, 1000), tolerance=1e-3)
def forward(n: int) -> Made:
    def run(start, transitions, emissions, ys):
        def step(a, y):
            return logsumexp(a[:, None] + transitions, axis=0) + emissions[:, y], None

        return logsumexp(lax.scan(step, start, ys)[0])

    arrays = (jax.nn.log_softmax(normal(16, 16), axis=1), jax.nn.log_softmax(normal(16, 10, seed=1), axis=1))
    return run, (np.zeros(16, np.float32), *map(np.asarray, arrays), integers(10, n))


@program("HMM: gradient of the forward algorithm", "pyro-ppl/numpyro#117", (50, 500), tolerance=1e-2)
def forward_gradient(n: int) -> Made:
    def loss(transitions, emissions, ys):
        def step(a, y):
            return logsumexp(a[:, None] + transitions, axis=0) + emissions[:, y], None

        return logsumexp(lax.scan(step, jnp.zeros(8), ys)[0])

    return jax.grad(loss, (0, 1)), (normal(8, 8), normal(8, 10, seed=1), integers(10, n))


@program("HMM: Viterbi with the way back", "common use: decoding of states", (100, 1000))
def viterbi(n: int) -> Made:
    def run(transitions, scores):
        def step(a, x):
            candidates = a[:, None] + transitions
            return jnp.max(candidates, 0) + x, jnp.argmax(candidates, 0)

        last, links = lax.scan(step, scores[0], scores[1:])
        back = lambda state, link: (link[state], state)  # noqa: E731
        return lax.scan(back, jnp.argmax(last), links, reverse=True)[1]

    return run, (normal(16, 16), normal(n, 16, seed=1))
