"""Markov chains, samplers, and code around them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.scipy.special import gammaln, logsumexp

from bench_lib.cliffs.program import Made, integers, key, normal, program, uniform


def regression(beta, x, y):
    """Minus the log density of a logistic regression with a normal prior."""
    logits = x @ beta
    return jnp.sum(jax.nn.softplus(logits) - y * logits) + 0.5 * jnp.sum(beta * beta)


@program(
    "Metropolis-Hastings in one dimension", "common use: a random walk, keys split in the loop", (500, 5000)
)
def metropolis(n: int) -> Made:
    def run(key, x):
        def step(s, key):
            x, p = s
            a, b = random.split(key)
            new = x + 0.5 * random.normal(a)
            q = -0.25 * new**4 + new * new
            take = jnp.log(random.uniform(b)) < q - p
            x, p = jnp.where(take, new, x), jnp.where(take, q, p)
            return (x, p), x

        return lax.scan(step, (x, -0.25 * x**4 + x * x), random.split(key, n))[1]

    return run, (key(), np.float32(0.1))


@program("Metropolis-Hastings, 64 chains", "common use: chains by vmap", (50, 500))
def chains(n: int) -> Made:
    def one(key, x):
        def step(s, key):
            a, b = random.split(key)
            new = s + 0.3 * random.normal(a, s.shape)
            gain = 0.5 * jnp.sum(s * s) - 0.5 * jnp.sum(new * new)
            return jnp.where(jnp.log(random.uniform(b)) < gain, new, s), None

        return lax.scan(step, x, random.split(key, n))[0]

    def run(key, xs):
        return jax.vmap(one)(random.split(key, 64), xs)

    return run, (key(), normal(64, 4))


@program("HMC on a logistic regression", "pyro-ppl/numpyro#115", (5, 50), tolerance=1e-2)
def hmc(n: int) -> Made:
    def run(key, beta, x, y):
        gradient = jax.grad(regression)

        def step(beta, key):
            a, b = random.split(key)
            start = random.normal(a, beta.shape)

            def leap(i, s):
                q, p = s
                p = p - 0.01 * gradient(q, x, y)
                q = q + 0.02 * p
                return q, p - 0.01 * gradient(q, x, y)

            q, p = lax.fori_loop(0, 8, leap, (beta, start))
            before = regression(beta, x, y) + 0.5 * jnp.sum(start * start)
            after = regression(q, x, y) + 0.5 * jnp.sum(p * p)
            beta = jnp.where(jnp.log(random.uniform(b)) < before - after, q, beta)
            return beta, beta

        return lax.scan(step, beta, random.split(key, n))[1]

    return run, (key(), np.zeros(8, np.float32), normal(200, 8), integers(2, 200, seed=1).astype(np.float32))


@program("NUTS: trees doubled in a while", "blackjax-devs/blackjax#597", (8, 64), tolerance=1e-2)
def nuts(n: int) -> Made:
    def energy(q):
        return 0.5 * jnp.sum(q * q * jnp.array([1.0, 4.0, 0.25, 1.0]))

    def leap(q, p, h):
        p = p - 0.5 * h * jax.grad(energy)(q)
        q = q + h * p
        return q, p - 0.5 * h * jax.grad(energy)(q)

    def transition(q0, key):
        a, key = random.split(key)
        p0 = random.normal(a, q0.shape)

        def going(s):
            return s[-1] & (s[5] < 6)

        def double(s):
            left, right, q, total, key, depth, _ = s
            key, a, b = random.split(key, 3)
            h = jnp.where(random.bernoulli(a), 0.2, -0.2)
            edge = jax.tree.map(lambda x, y: jnp.where(h > 0, x, y), right, left)

            def extend(i, t):
                state, q, total, key = t
                state = leap(*state, h)
                weight = jnp.exp(-energy(state[0]) - 0.5 * jnp.sum(state[1] ** 2))
                key, c = random.split(key)
                q = jnp.where(random.uniform(c) * (total + weight) < weight, state[0], q)
                return state, q, total + weight, key

            edge, q, total, key = lax.fori_loop(0, 2**depth, extend, (edge, q, total, key))
            left = jax.tree.map(lambda x, y: jnp.where(h > 0, x, y), left, edge)
            right = jax.tree.map(lambda x, y: jnp.where(h > 0, x, y), edge, right)
            span = right[0] - left[0]
            more = (jnp.dot(span, left[1]) >= 0) & (jnp.dot(span, right[1]) >= 0)
            return left, right, q, total, key, depth + 1, more

        weight = jnp.exp(-energy(q0) - 0.5 * jnp.sum(p0 * p0))
        state = ((q0, p0), (q0, p0), q0, weight, key, 0, True)
        q = lax.while_loop(going, double, state)[2]
        return q, q

    def run(key, q):
        return lax.scan(transition, q, random.split(key, n))[1]

    return run, (key(), normal(4))


@program(
    "Gibbs on a mixture of normals", "common use: samplers with categorical draws", (10, 100), tolerance=1e-2
)
def gibbs(n: int) -> Made:
    def run(key, x):
        def step(means, key):
            a, b = random.split(key)
            logits = -0.5 * (x[:, None] - means) ** 2
            labels = random.categorical(a, logits)
            counts = jnp.bincount(labels, length=4)
            sums = jax.ops.segment_sum(x, labels, 4)
            return sums / (counts + 1) + random.normal(b, (4,)) / jnp.sqrt(counts + 1.0), None

        return lax.scan(step, jnp.arange(4, dtype=jnp.float32), random.split(key, n))[0]

    return run, (key(), normal(256) * 2 + 1)


@program("annealed importance sampling on spins", "jax-ml/jax#1421", (100, 1000), tolerance=1e-2)
def annealed(n: int) -> Made:
    def run(key, spins, couplings):
        def step(s, x):
            spins, weight = s
            beta, key = x
            a, b = random.split(key)
            site = random.randint(a, (), 0, spins.shape[0])
            field = jnp.dot(couplings[site], spins)
            up = random.uniform(b) < jax.nn.sigmoid(2 * beta * field)
            weight = weight + 0.01 * jnp.dot(spins, couplings @ spins)
            return (spins.at[site].set(jnp.where(up, 1.0, -1.0)), weight), None

        xs = (jnp.linspace(0, 1, n), random.split(key, n))
        return lax.scan(step, (spins, jnp.float32(0)), xs)[0]

    return run, (key(), np.sign(normal(20)), normal(20, 20, seed=1) / 5)


@program("log density of a mixture, and its gradient", "pyro-ppl/numpyro#251", (1000, 16000))
def mixture(n: int) -> Made:
    def loss(means, scales, x):
        terms = -0.5 * ((x[:, None] - means) / scales) ** 2 - jnp.log(scales)
        return -jnp.mean(logsumexp(terms, axis=1))

    return jax.value_and_grad(loss, (0, 1)), (normal(8), uniform(8) + 0.5, normal(n, seed=1))


@program("density of a negative binomial, gradient", "common use: counts, gammaln and digamma", (1000, 16000))
def negative_binomial(n: int) -> Made:
    def loss(r, p, counts):
        terms = gammaln(counts + r) - gammaln(r) - gammaln(counts + 1)
        return jnp.mean(terms + r * jnp.log(p) + counts * jnp.log1p(-p))

    counts = integers(20, n).astype(np.float32)
    return jax.value_and_grad(loss, (0, 1)), (np.float32(3), np.float32(0.4), counts)
