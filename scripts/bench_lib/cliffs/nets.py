"""Parts of neural networks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bench_lib.cliffs.program import Made, integers, normal, program


def layernorm(x, scale, bias):
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + jnp.asarray(1e-5, x.dtype)) * scale + bias


def layernorm_arguments(n: int, dtype) -> tuple[np.ndarray, ...]:
    return tuple(a.astype(dtype) for a in (normal(n, 768), normal(768, seed=1), normal(768, seed=2)))


@program("layernorm, f32", "common use: transformers", (64, 1024))
def layernorm_f32(n: int) -> Made:
    return layernorm, layernorm_arguments(n, np.float32)


@program("layernorm, bf16", "issue 20 (1.05 times)", (32, 512))
def layernorm_bf16(n: int) -> Made:
    return layernorm, layernorm_arguments(n, jnp.bfloat16)


@program("layernorm, f16, and its gradient", "jax-ml/jax#7431", (32, 512), tolerance=0.05)
def layernorm_f16(n: int) -> Made:
    def loss(x, scale, bias):
        return jnp.mean(layernorm(x, scale, bias).astype(jnp.float32) ** 2)

    return jax.grad(loss, (0, 1, 2)), layernorm_arguments(n, np.float16)


@program("softmax of wide rows", "common use: vocabularies", (4, 64))
def softmax_wide(n: int) -> Made:
    return jax.nn.softmax, (normal(n, 16000),)


@program("softmax of narrow rows", "common use: mixtures, attention over few", (1000, 16000))
def softmax_narrow(n: int) -> Made:
    return jax.nn.softmax, (normal(n, 7),)


@program("cross entropy of bf16 logits, gradient", "common use: language models", (16, 256), tolerance=0.05)
def cross_entropy(n: int) -> Made:
    def loss(logits, labels):
        logs = jax.nn.log_softmax(logits.astype(jnp.float32))
        return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], 1))

    return jax.value_and_grad(loss), (normal(n, 2000).astype(jnp.bfloat16), integers(2000, n))


@program("MLP: a step of training with Adam", "common use: first network", (32, 512), tolerance=1e-2)
def training(n: int) -> Made:
    def loss(params, x, y):
        for w in params[:-1]:
            x = jax.nn.relu(x @ w)
        return -jnp.mean(jax.nn.log_softmax(x @ params[-1])[jnp.arange(n), y])

    def run(params, m, v, x, y):
        cost, grads = jax.value_and_grad(loss)(params, x, y)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
        params = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), params, m, v)
        return params, m, v, cost

    params = [normal(64, 128) / 8, normal(128, 128) / 11, normal(128, 10) / 11]
    zeros = [np.zeros_like(p) for p in params]
    return run, (params, zeros, [z + 1e-3 for z in zeros], normal(n, 64), integers(10, n))


@program("bag of embeddings and its gradient", "common use: recommenders", (64, 1024), tolerance=1e-3)
def embedding_bag(n: int) -> Made:
    def loss(table, rows):
        return jnp.sum(jnp.tanh(jnp.sum(table[rows], axis=1)))

    return jax.value_and_grad(loss), (normal(2000, 16), integers(2000, n, 20))


@program("block of a transformer", "common use: language models", (32, 256), tolerance=1e-2)
def transformer(n: int) -> Made:
    def run(x, qkv, out, up, down):
        q, k, v = jnp.split(layernorm(x, 1.0, 0.0) @ qkv, 3, -1)
        q, k, v = (a.reshape(n, 4, 32) for a in (q, k, v))
        scores = jnp.einsum("qhd,khd->hqk", q, k) / 6
        scores = jnp.where(jnp.tril(jnp.ones((n, n), bool)), scores, -1e9)
        x = x + jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores), v).reshape(n, 128) @ out
        return x + jax.nn.gelu(layernorm(x, 1.0, 0.0) @ up) @ down

    w = (normal(128, 384) / 11, normal(128, 128) / 11, normal(128, 512) / 11, normal(512, 128) / 22)
    return run, (normal(n, 128), *w)


@program("quantised product: int8 to int32, scales", "jax-ml/jax#17688", (32, 256), tolerance=1e-3)
def quantised(n: int) -> Made:
    def run(x, w, scale):
        top = jnp.max(jnp.abs(x), 1, keepdims=True) / 127
        rounded = jnp.round(x / top).astype(jnp.int8)
        product = lax.dot(rounded, w, preferred_element_type=jnp.int32)
        return product.astype(jnp.float32) * top * scale

    return run, (normal(n, 256), integers(127, 256, 256, dtype=np.int8), np.float32(0.01))
