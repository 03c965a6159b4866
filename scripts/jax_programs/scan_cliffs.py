"""Loops of many small operations, in which XLA's CPU backend becomes slow since it starts each operation on
its own.

Cases named `cliff` are scans that carry many scalars, and their gradients: XLA takes ten times as long per
scalar as in scans that carry a few. The other cases are smaller loops, and loops of users' simulations.
"""

import jax
import jax.numpy as jnp
import numpy as np
from report import Timer, finish

jax.config.update("jax_enable_x64", True)
CASES = {}


def case(name, call, *arguments):
    CASES[name] = jax.jit(call), arguments


def chain(count, steps):
    """A chain of scalars; each is driven by the one before it."""

    def total(start, inputs):
        def step(state, u):
            new, before = {}, u
            for name, x in state.items():
                new[name] = x + 0.1 * (jnp.tanh(before) - x * jax.nn.sigmoid(before - x))
                before = x
            return new, before

        state, seen = jax.lax.scan(step, start, inputs)
        return seen.sum() + sum(state.values())

    start = {f"x{i:02}": jnp.float32(np.cos(i)) for i in range(count)}
    return total, start, jnp.sin(jnp.arange(steps, dtype=jnp.float32))


def filters(leaves, steps):
    """Gaussian filters of two levels; the upper one estimates the volatility of the lower one. Their states
    are dictionaries of scalars.

    The loop carries `leaves` scalars: six for each level of each filter. The result is the mean surprise of
    the inputs.
    """
    count = leaves // 12
    names = ("mean", "precision", "expected_mean", "expected_precision", "effective_precision", "error")

    def update(low, high, u, volatility, noise):
        low, high = dict(low), dict(high)
        for level, drift in ((high, jnp.exp(volatility - 2)), (low, jnp.exp(high["mean"] + volatility))):
            level["expected_mean"] = level["mean"]
            level["expected_precision"] = 1 / (1 / level["precision"] + drift)
            level["effective_precision"] = drift * level["expected_precision"]
        predicted = 1 / (1 / low["expected_precision"] + noise)
        surprise = 0.5 * (predicted * (u - low["expected_mean"]) ** 2 - jnp.log(predicted))
        low["precision"] = low["expected_precision"] + 1 / noise
        low["mean"] = low["expected_mean"] + (u - low["expected_mean"]) / (noise * low["precision"])
        moved = low["mean"] - low["expected_mean"]
        low["error"] = low["expected_precision"] * (1 / low["precision"] + moved**2) - 1
        g = low["effective_precision"]
        high["precision"] = high["expected_precision"] + jnp.maximum(
            0.5 * g * (g + (2 * g - 1) * low["error"]), 0
        )
        high["mean"] = high["expected_mean"] + 0.5 * g / high["precision"] * low["error"]
        high["error"] = high["expected_precision"] * (high["mean"] - high["expected_mean"]) ** 2
        return low, high, surprise

    def total(volatilities, inputs):
        def step(state, u):
            new, total = [], 0.0
            for i, (low, high) in enumerate(state):
                low, high, surprise = update(low, high, u, volatilities[i], 0.1 * (i + 1))
                new.append((low, high))
                total += surprise
            return new, total

        level = dict.fromkeys(names, jnp.float32(1))
        return jax.lax.scan(step, [(level, level)] * count, inputs)[1].mean()

    inputs = jnp.asarray(np.random.default_rng(0).standard_normal(steps).cumsum() * 0.1, jnp.float32)
    return total, [jnp.float32(-2 - 0.3 * i) for i in range(count)], inputs


def orbits(bodies=3, steps=2000):
    """Planets, integrated by leapfrog: the value and the gradient of an observable, as in fits of transit
    times.
    """
    random = np.random.default_rng(0)
    masses = jnp.asarray([1.0] + [1e-3] * (bodies - 1))
    places = jnp.asarray(np.stack([[i * 1.7 * np.cos(i), i * 1.7 * np.sin(i), 0.0] for i in range(bodies)]))
    speeds = jnp.asarray(
        np.cross([0, 0, 1], places) / np.maximum(1, np.linalg.norm(places, axis=1))[:, None] ** 1.5
    )

    def pull(x):
        away = x[None] - x[:, None]
        cubed = ((away**2).sum(-1) + jnp.eye(bodies)) ** 1.5
        return (masses[None, :, None] * away / cubed[..., None]).sum(1)

    def observed(x, v):
        def step(state, _):
            x, v = state
            v = v + 0.005 * pull(x)
            x = x + 0.01 * v
            return (x, v + 0.005 * pull(x)), x[1, 0]

        return (jax.lax.scan(step, (x, v), None, length=steps)[1] ** 2).mean()

    return observed, places + 0.01 * random.standard_normal((bodies, 3)), speeds


def neuron(compartments=40, steps=1000):
    """A Hodgkin-Huxley cable: ion channels in each compartment, and a tridiagonal solve in each step."""

    def spikes(conductance):
        def step(state, t):
            v, m, h, n = state
            am, bm = 0.1 * (v + 40.01) / (1 - jnp.exp(-(v + 40.01) / 10)), 4 * jnp.exp(-(v + 65) / 18)
            ah, bh = 0.07 * jnp.exp(-(v + 65) / 20), 1 / (1 + jnp.exp(-(v + 35) / 10))
            an, bn = 0.01 * (v + 55.01) / (1 - jnp.exp(-(v + 55.01) / 10)), 0.125 * jnp.exp(-(v + 65) / 80)
            dt = 0.025
            m, h, n = (
                m + dt * (am - (am + bm) * m),
                h + dt * (ah - (ah + bh) * h),
                n + dt * (an - (an + bn) * n),
            )
            current = conductance * m**3 * h * (v - 50) + 36 * n**4 * (v + 77) + 0.3 * (v + 54.4)
            driven = jnp.where((jnp.arange(compartments) == 0) & (t > 100), 40.0, 0.0)
            ones = jnp.ones(compartments)
            lower, upper = -ones.at[0].set(0) * dt, -ones.at[-1].set(0) * dt
            rhs = (v + dt * (driven - current))[:, None]
            v = jax.lax.linalg.tridiagonal_solve(lower, ones - lower - upper, upper, rhs)[:, 0]
            return (v, m, h, n), v[-1]

        ones = jnp.ones(compartments)
        return jax.lax.scan(step, (-65 * ones, 0.05 * ones, 0.6 * ones, 0.32 * ones), jnp.arange(steps))[1]

    return spikes, jnp.float64(120.0)


def rotations(steps=10000):
    """A rotation of three dimensions that is applied again in each step, in double precision."""
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    return lambda start: jax.lax.fori_loop(0, steps, lambda _, x: x @ turn, start), jnp.eye(3)


def writes(size=100_000):
    """Each step writes one element of a long array, which must not be copied."""

    def fill(start):
        return jax.lax.fori_loop(1, size, lambda i, a: a.at[i].set(0.5 * a[i - 1] + i), start)

    return fill, jnp.zeros(size)


def differentiated(function, *arguments):
    return jax.value_and_grad(function), *arguments


for count in (48, 60):
    case(f"cliff: {count} scalars", *chain(count, 614))
for count in (8, 16, 60):
    case(f"cliff: gradient, {count} scalars", *differentiated(*chain(count, 614)))
case("loop: 16 scalars", *chain(16, 614))
case("loop: filters, 60 scalars", *filters(60, 614))
case("loop: gradient of filters", *differentiated(*filters(60, 614)))
case("loop: orbits", *orbits())
case("loop: gradient of orbits", *differentiated(*orbits()))
case("loop: neuron", *neuron())
case("loop: rotations", *rotations())
case("loop: writes in place", *writes())

for name, (call, arguments) in CASES.items():
    timer = Timer()
    leaves = jax.tree.leaves(timer(call, *arguments, repeats=7))
    value = np.concatenate([np.ravel(leaf)[:: max(1, leaf.size // 8)] for leaf in leaves])
    finish(name, timer, {"value": value}, rtol=1e-3, atol=1e-4)
