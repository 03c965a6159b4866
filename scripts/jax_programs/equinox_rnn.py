"""Equinox: a recurrent network that distinguishes left-handed from right-handed spirals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from report import Timer, finish

SIZE, LENGTH, BATCH, STEPS = 32, 32, 64, 200


class Network(eqx.Module):
    cell: eqx.nn.GRUCell
    readout: eqx.nn.Linear

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(2, SIZE, key=first)
        self.readout = eqx.nn.Linear(SIZE, 1, key=second)

    def __call__(self, xs):
        state, _ = jax.lax.scan(lambda h, x: (self.cell(x, h), None), jnp.zeros(SIZE), xs)
        return self.readout(state)[0]


def spirals(random):
    t = np.linspace(0, 2 * np.pi, LENGTH)
    sign = random.choice([-1.0, 1.0], BATCH)
    angle = sign[:, None] * t + random.uniform(0, 2 * np.pi, (BATCH, 1))
    radius = 1 + t / 6
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1)
    return points.astype(np.float32), (sign > 0).astype(np.float32)


optimizer = optax.adam(3e-3)


@eqx.filter_jit
def step(network, state, xs, ys):
    def loss_of(network):
        return optax.sigmoid_binary_cross_entropy(jax.vmap(network)(xs), ys).mean()

    loss, gradients = eqx.filter_value_and_grad(loss_of)(network)
    updates, state = optimizer.update(gradients, state)
    return eqx.apply_updates(network, updates), state, loss


def train():
    network, random = Network(jax.random.key(0)), np.random.default_rng(0)
    state, losses = optimizer.init(eqx.filter(network, eqx.is_array)), []
    for _ in range(STEPS):
        network, state, loss = step(network, state, *spirals(random))
        losses.append(loss)
    return losses


timer = Timer()
losses = timer(train, repeats=3)
finish("equinox_rnn", timer, {"losses": losses[::20]}, rtol=1e-3, atol=1e-4)
