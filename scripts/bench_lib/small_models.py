"""Models for one input that contain their weights: programs to be compiled ahead of time for small machines.

LeNet, LSTM and GPT have the sizes of the corpus' models of the same names, which take batches, and their
weights as arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Model = tuple[Callable[..., Any], tuple[np.ndarray, ...]]


def small_models() -> dict[str, Model]:
    """The models by name, each as (JAX function, example arguments)."""
    return {"MLP": _mlp(), "LeNet": _lenet(), "LSTM": _lstm(), "GPT": _gpt()}


def _weights(seed: int) -> Callable[..., np.ndarray]:
    """Returns a function that makes arrays of small random numbers, equal in every process."""
    source = np.random.default_rng(seed)
    return lambda *dims: (source.standard_normal(dims) / np.sqrt(dims[0])).astype(np.float32)


def _mlp() -> Model:
    import jax
    import jax.numpy as jnp

    make = _weights(1)
    w1, b1, w2, b2 = make(784, 128), make(128), make(128, 10), make(10)
    return lambda x: jax.nn.softmax(jnp.maximum(x @ w1 + b1, 0) @ w2 + b2), (make(1, 784),)


def _lenet() -> Model:
    import jax
    import jax.numpy as jnp
    from jax import lax

    make = _weights(2)
    k1, c1, k2, c2 = make(5, 5, 1, 6), make(6), make(5, 5, 6, 16), make(16)
    w1, b1, w2, b2 = make(256, 120), make(120), make(120, 10), make(10)

    def convolved(x: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(
            x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def pooled(x: Any, start: float, combine: Any) -> Any:
        return lax.reduce_window(x, start, combine, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def lenet(x: Any) -> Any:
        x = pooled(jnp.tanh(convolved(x, k1) + c1), 0.0, lax.add) / 4
        x = pooled(jax.nn.relu(convolved(x, k2) + c2), -jnp.inf, lax.max)
        x = jax.nn.sigmoid(x.reshape(1, 256) @ w1 + b1) @ w2 + b2
        return jax.nn.softmax(x), lax.argmax(x, 1, np.int32)

    return lenet, (make(1, 28, 28, 1),)


def _lstm() -> Model:
    import jax
    import jax.numpy as jnp
    from jax import lax

    make = _weights(3)
    wx, wh, b, out = make(8, 64), make(16, 64), make(64), make(16, 1)

    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, o, g = jnp.split(x @ wx + h @ wh + b, 4, axis=-1)
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h @ out

    def lstm(xs: Any) -> Any:
        state, ys = lax.scan(step, (jnp.zeros((1, 16), np.float32),) * 2, xs)
        return ys, *state

    return lstm, (make(12, 1, 8),)


def _gpt() -> Model:
    import jax
    import jax.numpy as jnp

    make, tokens, width, heads = _weights(4), 24, 48, 4
    layers = [
        (make(width, 144), make(144), make(width, width), make(width), make(width, 192), make(192),
         make(192, width), make(width))
        for _ in range(2)
    ]  # fmt: skip
    embedding, places = make(96, width), make(tokens, width)

    def normal(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    def attention(x: Any) -> Any:
        q, k, v = (part.reshape(1, tokens, heads, -1) for part in jnp.split(x, 3, axis=-1))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width / heads).astype(np.float32)
        scores = jnp.where(np.tri(tokens, dtype=bool), scores, np.float32(-1e9))
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(1, tokens, width)

    def gpt(words: Any) -> Any:
        x = jnp.asarray(embedding)[words] + places
        for qkv, qkv_bias, out, out_bias, up, up_bias, down, down_bias in layers:
            x += attention(normal(x) @ qkv + qkv_bias) @ out + out_bias
            x += jax.nn.gelu(normal(x) @ up + up_bias) @ down + down_bias
        return normal(x) @ embedding.T

    return gpt, (np.arange(tokens, dtype=np.int32).reshape(1, tokens) * 7 % 96,)
