"""Sequences of tokens and bytes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bench_lib.cliffs.program import Made, integers, normal, program


@program("hash of a string (FNV), byte by byte", "common use: hashed features", (2000, 32000))
def fnv(n: int) -> Made:
    def run(data):
        step = lambda h, b: ((h ^ b.astype(jnp.uint32)) * jnp.uint32(16777619), None)  # noqa: E731
        return lax.scan(step, jnp.uint32(2166136261), data)[0]

    return run, (integers(256, n, dtype=np.uint8),)


@program("CRC-32 with a table", "common use: check sums", (4000, 64000))
def crc(n: int) -> Made:
    def run(data):
        table = jnp.arange(256, dtype=jnp.uint32)
        for _ in range(8):
            table = jnp.where(table & 1, (table >> 1) ^ jnp.uint32(0xEDB88320), table >> 1)
        step = lambda c, b: (table[(c ^ b) & 255] ^ (c >> 8), None)  # noqa: E731
        return ~lax.scan(step, jnp.uint32(0xFFFFFFFF), data.astype(jnp.uint32))[0]

    return run, (integers(256, n, dtype=np.uint8),)


@program("counts of pairs of letters", "common use: n-grams", (4000, 64000))
def bigrams(n: int) -> Made:
    return lambda x: jnp.zeros((64, 64), jnp.int32).at[x[:-1], x[1:]].add(1), (integers(64, n),)


@program("edit distance", "common use: Levenshtein by rows, nested scans", (48, 160))
def edit_distance(n: int) -> Made:
    def run(a, b):
        def row(above, s):
            letter, i = s

            def cell(left, c):
                other, up, corner = c
                new = jnp.minimum(jnp.minimum(left, up) + 1, corner + (letter != other))
                return new, new

            first, rest = i + 1, lax.scan(cell, i + 1, (b, above[1:], above[:-1]))[1]
            return jnp.concatenate([first[None], rest]), None

        return lax.scan(row, jnp.arange(n + 1), (a, jnp.arange(n)))[0][-1]

    return run, (integers(4, n), integers(4, n, seed=1))


@program("CTC loss and gradient", "mlcommons/algorithmic-efficiency#44", (25, 250), tolerance=1e-2)
def ctc(n: int) -> Made:
    def loss(logits, labels):
        logs = jax.nn.log_softmax(logits)
        states = jnp.zeros(21, jnp.int32).at[1::2].set(labels)
        skip = (states != jnp.roll(states, 2)) & (jnp.arange(21) % 2 == 1)

        def step(a, row):
            one = jnp.concatenate([jnp.full(1, -1e9), a[:-1]])
            two = jnp.where(skip, jnp.concatenate([jnp.full(2, -1e9), a[:-2]]), -1e9)
            return jnp.logaddexp(jnp.logaddexp(a, one), two) + row[states], None

        last = lax.scan(step, jnp.full(21, -1e9).at[0].set(0), logs)[0]
        return -jnp.logaddexp(last[-1], last[-2])

    return jax.value_and_grad(loss), (normal(n, 30), np.tile([1, 2, 3, 4, 5], 2).astype(np.int32))


@program("one step of a beam search", "apache/mxnet#10205", (1000, 16000))
def beam(n: int) -> Made:
    def run(scores, logits, tokens):
        total = scores[:, None] + jax.nn.log_softmax(logits)
        best, place = lax.top_k(total.ravel(), 8)
        return best, jnp.concatenate([tokens[place // n], (place % n)[:, None]], 1)

    return run, (normal(8), normal(8, n, seed=1), integers(n, 8, 20))


@program("merges of byte pairs, in a while", "common use: tokenisers", (128, 1024))
def merges(n: int) -> Made:
    def run(x, rank):
        def step(s):
            x, length, i = s
            pair = rank[x, jnp.roll(x, -1)]
            pair = jnp.where(jnp.arange(n) < length - 1, pair, 10_000)
            k = jnp.argmin(pair)
            moved = jnp.where(jnp.arange(n) > k, jnp.roll(x, -1), x).at[k].set(pair[k] % 32)
            return moved, length - 1, i + 1

        return lax.while_loop(lambda s: s[2] < n // 2, step, (x, n, 0))[0]

    return run, (integers(32, n), integers(1000, 32, 32, seed=1))


@program(
    "greedy decoding with a cache of keys", "common use: attention step by step", (32, 256), tolerance=1e-2
)
def decode(n: int) -> Made:
    def run(w, table):
        def step(s, i):
            keys, values, token = s
            x = table[token]
            q, k, v = (x @ w[j] for j in range(3))
            keys, values = keys.at[i].set(k), values.at[i].set(v)
            scores = jnp.where(jnp.arange(n) <= i, keys @ q / 8, -1e9)
            token = jnp.argmax((jax.nn.softmax(scores) @ values) @ table.T)
            return (keys, values, token), token

        empty = jnp.zeros((n, 64))
        return lax.scan(step, (empty, empty, 1), jnp.arange(n))[1]

    return run, (normal(3, 64, 64) / 8, normal(500, 64, seed=1))
