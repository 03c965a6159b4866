"""Diffrax: predator-prey equations from many starts, a fit of their rates by gradients, and a stiff
system.
"""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from report import Timer, finish

jax.config.update("jax_enable_x64", True)
STARTS, TIMES, STEPS = 256, 50, 100


def hunt(t, y, rates):
    a, b, c, d = rates
    prey, predators = y
    return jnp.stack([a * prey - b * prey * predators, c * prey * predators - d * predators])


def solve(rates, start):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(hunt), diffrax.Tsit5(), t0=0.0, t1=10.0, dt0=0.05, y0=start, args=rates,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 10.0, TIMES)),
        stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-8), max_steps=1024,
    )  # fmt: skip
    return solution.ys


solve_many = jax.jit(jax.vmap(solve, in_axes=(None, 0)))


@jax.jit
def descend(rates, start, data):
    def loss_of(rates):
        return ((solve(rates, start) - data) ** 2).mean()

    loss, gradient = jax.value_and_grad(loss_of)(rates)
    return rates - 2e-3 * gradient, loss


def fit(start, data):
    rates, losses = jnp.array([1.4, 0.9, 0.9, 2.8]), []
    for _ in range(STEPS):
        rates, loss = descend(rates, start, data)
        losses.append(loss)
    return rates, losses


@jax.jit
def stiff(k):
    def reaction(t, y, k):
        a = -k[0] * y[0] + k[1] * y[1] * y[2]
        c = k[2] * y[1] ** 2
        return jnp.stack([a, -a - c, c])

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(reaction), diffrax.Kvaerno5(), t0=0.0, t1=1000.0, dt0=2e-4,
        y0=jnp.array([1.0, 0.0, 0.0]), args=k, saveat=diffrax.SaveAt(t1=True),
        stepsize_controller=diffrax.PIDController(rtol=1e-8, atol=1e-10),
    )  # fmt: skip
    return solution.ys


timer = Timer()
rates = jnp.array([1.5, 1.0, 1.0, 3.0])
starts = jnp.asarray(np.random.default_rng(0).uniform(0.5, 2.0, (STARTS, 2)))
many = timer(solve_many, rates, starts)
fitted, losses = timer(fit, starts[0], many[0])
end = timer(stiff, jnp.array([0.04, 1e4, 3e7]), repeats=5)
results = {"many": many[::64, ::10], "fitted": fitted, "losses": losses[::20], "stiff": end}
finish("diffrax_ode", timer, results, rtol=1e-4, atol=1e-6)
