"""Random numbers: bits, keys and distributions."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax, random

from bench_lib.cliffs.program import Made, key, normal, program, uniform


@program("normal numbers", "common use: jax.random.normal", (4096, 65536), tolerance=1e-3)
def normals(n: int) -> Made:
    return lambda key: random.normal(key, (n,)), (key(),)


@program("keys folded in a loop", "common use: fold_in by step", (100, 1000))
def folded(n: int) -> Made:
    def run(key):
        def step(i, total):
            return total + random.uniform(random.fold_in(key, i), (8,))

        return lax.fori_loop(0, n, step, jnp.zeros(8))

    return run, (key(),)


@program("key split in the carry of a scan", "jax-ml/jax#1421", (200, 2000))
def split_in_carry(n: int) -> Made:
    def run(key):
        def step(key, _):
            key, used = random.split(key)
            return key, random.uniform(used)

        return lax.scan(step, key, length=n)[1]

    return run, (key(),)


@program("permutation", "jax-ml/jax#5328", (1000, 16000))
def permutation(n: int) -> Made:
    return lambda key: random.permutation(key, n), (key(),)


@program("choice without replacement, with weights", "instadeepai/jumanji#96", (1000, 16000))
def choice(n: int) -> Made:
    def run(key, p):
        return random.choice(key, n, (n // 10,), replace=False, p=p)

    weights = uniform(n)
    return run, (key(), weights / weights.sum())


@program("gamma and beta numbers: rejection in whiles", "jax-ml/jax#1190", (128, 2048), tolerance=1e-3)
def gamma(n: int) -> Made:
    return lambda key, a: random.gamma(key, a), (key(), uniform(n) * 4 + 0.5)


@program("Poisson numbers", "common use: counts simulated", (128, 2048))
def poisson(n: int) -> Made:
    return lambda key, rate: random.poisson(key, rate), (key(), uniform(n) * 20)


@program("dropout mask, applied", "common use: training", (64, 1024))
def dropout(n: int) -> Made:
    def run(key, x):
        return jnp.where(random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)

    return run, (key(), normal(n, 256))


@program("xorshift by hand, lanes in a loop", "common use: own generators of bits", (256, 4096))
def xorshift(n: int) -> Made:
    def run(state):
        def step(s, _):
            s = s ^ (s << 13)
            s = s ^ (s >> 17)
            s = s ^ (s << 5)
            return s, s.astype(jnp.float32).mean()

        return lax.scan(step, state, length=64)

    return run, (np.arange(1, n + 1, dtype=np.uint32) * np.uint32(2654435761),)
