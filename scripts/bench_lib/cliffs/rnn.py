"""Recurrent networks and other scans with matrix products."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bench_lib.cliffs.program import Made, normal, program


def lstm(w, u, b, xs, h, c):
    def step(s, x):
        h, c = s
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(step, (h, c), xs)[1]


def lstm_arguments(steps: int, batch: int, width: int) -> tuple[np.ndarray, ...]:
    scale = width**-0.5
    w, u = normal(width, 4 * width) * scale, normal(width, 4 * width, seed=1) * scale
    state = np.zeros((batch, width), np.float32)
    return w, u, np.zeros(4 * width, np.float32), normal(steps, batch, width, seed=2), state, state.copy()


@program("LSTM, 32 steps", "issue 20: LSTM by a scan", (64, 256), tolerance=1e-3)
def lstm_wide(n: int) -> Made:
    return lstm, lstm_arguments(32, 8, n)


@program("LSTM, long and narrow", "jax-ml/jax#7009", (100, 1000), tolerance=1e-3)
def lstm_long(n: int) -> Made:
    return lstm, lstm_arguments(n, 1, 32)


@program("gradient of an LSTM", "jax-ml/jax#704", (16, 128), tolerance=1e-2)
def lstm_gradient(n: int) -> Made:
    def loss(w, u, b, xs, h, c):
        return jnp.mean(lstm(w, u, b, xs, h, c) ** 2)

    return jax.grad(loss, (0, 1, 2)), lstm_arguments(n, 8, 64)


@program("GRU", "d2l-ai/d2l-en#2367", (20, 200), tolerance=1e-3)
def gru(n: int) -> Made:
    def run(w, u, v, xs, h):
        def step(h, x):
            z, r = jnp.split(jax.nn.sigmoid(x @ w + h @ u), 2, axis=-1)
            new = jnp.tanh(x @ v[:64] + (r * h) @ v[64:])
            h = (1 - z) * h + z * new
            return h, h

        return lax.scan(step, h, xs)[1]

    arrays = normal(64, 128) / 8, normal(64, 128, seed=1) / 8, normal(128, 64, seed=2) / 8
    return run, (*arrays, normal(n, 16, 64, seed=3), np.zeros((16, 64), np.float32))


@program("LSTM with lengths, masked", "common use: padded batches", (20, 200), tolerance=1e-3)
def masked(n: int) -> Made:
    def run(w, u, xs, lengths):
        def step(s, x):
            h, t = s
            new = jnp.tanh(x @ w + h @ u)
            return (jnp.where((t < lengths)[:, None], new, h), t + 1), None

        return lax.scan(step, (jnp.zeros((16, 32)), 0), xs)[0][0]

    lengths = np.arange(16, dtype=np.int32) * n // 16 + 1
    return run, (normal(32, 32) / 6, normal(32, 32, seed=1) / 6, normal(n, 16, 32, seed=2), lengths)


@program("gradient of stacked layers, recomputed", "jax-ml/jax#13356", (4, 32), tolerance=1e-2)
def stacked_gradient(n: int) -> Made:
    def loss(weights, x):
        @jax.checkpoint
        def layer(x, w):
            return x + jax.nn.gelu(x @ w), None

        return jnp.mean(lax.scan(layer, x, weights)[0] ** 2)

    return jax.grad(loss), (normal(n, 64, 64) / 16, normal(32, 64, seed=1))


@program("echo state network", "common use: reservoirs, one vector times one matrix a step", (100, 1000))
def reservoir(n: int) -> Made:
    def run(w, v, xs):
        def step(h, x):
            h = 0.7 * h + 0.3 * jnp.tanh(w @ h + v * x)
            return h, h[:4]

        return lax.scan(step, jnp.zeros(100), xs)[1]

    return run, (normal(100, 100) / 15, normal(100, seed=1), normal(n, seed=2))


@program("state space model, diagonal", "common use: S4 and Mamba layers by associative_scan", (256, 4096))
def state_space(n: int) -> Made:
    def run(a, b, c, xs):
        decay = jnp.broadcast_to(jnp.exp(-a), (n, *a.shape))

        def combine(left, right):
            return left[0] * right[0], right[0] * left[1] + right[1]

        states = lax.associative_scan(combine, (decay, b * xs[:, None]))[1]
        return jnp.sum(c * states, 1)

    return run, (np.abs(normal(16)), normal(16, seed=1), normal(16, seed=2), normal(n, seed=3))
