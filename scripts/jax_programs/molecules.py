"""JAX MD: a Lennard-Jones fluid with neighbour lists, at constant temperature and at constant energy."""

import jax
import jax.numpy as jnp
import numpy as np
from jax_md import energy, quantity, simulate, space
from report import Timer, finish

PARTICLES, DENSITY, STEPS = 512, 0.8, 100

side = float((PARTICLES / DENSITY) ** (1 / 3))
displacement, shift = space.periodic(side)
neighbors_of, potential = energy.lennard_jones_neighbor_list(
    displacement, side, r_cutoff=2.5, dr_threshold=0.5
)
grid = np.stack(np.meshgrid(*[np.arange(8)] * 3, indexing="ij"), -1).reshape(-1, 3)
jitter = np.random.default_rng(0).uniform(-0.02, 0.02, grid.shape)
places = jnp.asarray((grid + 0.5) * side / 8 + jitter, jnp.float32)
nearest = neighbors_of.allocate(places)

start, move = simulate.nvt_nose_hoover(potential, shift, dt=2e-3, kT=1.0)
start_free, move_free = simulate.nve(potential, shift, dt=2e-3)


@jax.jit
def heated(key, nearest):
    def step(carry, _):
        state, nearest = carry
        nearest = nearest.update(state.position)
        state = move(state, neighbor=nearest)
        return (state, nearest), quantity.temperature(momentum=state.momentum, mass=state.mass)

    (state, nearest), warmth = jax.lax.scan(
        step, (start(key, places, neighbor=nearest), nearest), length=STEPS
    )
    return state, nearest, warmth


@jax.jit
def free(key, state, nearest):
    def step(carry, _):
        state, nearest = carry
        nearest = nearest.update(state.position)
        state = move_free(state, neighbor=nearest)
        total = potential(state.position, neighbor=nearest)
        return (state, nearest), total + quantity.kinetic_energy(momentum=state.momentum, mass=state.mass)

    state = start_free(key, state.position, kT=1.0, neighbor=nearest)
    (state, nearest), energies = jax.lax.scan(step, (state, nearest), length=STEPS)
    return energies, nearest.did_buffer_overflow


timer = Timer()
first, second = jax.random.split(jax.random.key(0))
state, nearest_later, warmth = timer(heated, first, nearest, repeats=3)
energies, overflow = timer(free, second, state, nearest_later, repeats=3)
results = {"warmth": warmth[::10], "energies": energies[::10], "overflow": overflow}
finish("molecules", timer, results, rtol=1e-3, atol=1e-3)
