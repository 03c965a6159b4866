"""Optimistix and Lineax: curve fits by Levenberg-Marquardt, a minimum, a root, linear systems."""

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import optimistix as optx
from report import Timer, finish

jax.config.update("jax_enable_x64", True)
CURVES, POINTS, UNKNOWNS = 128, 40, 256


@jax.jit
def fit(data):
    t = jnp.linspace(0.0, 4.0, POINTS)

    def residual(p, data):
        return p[0] * jnp.exp(-p[1] * t) * jnp.cos(p[2] * t + p[3]) - data

    def one(data):
        solver = optx.LevenbergMarquardt(rtol=1e-8, atol=1e-8)
        start = jnp.array([1.0, 0.5, 3.0, 0.0])
        return optx.least_squares(residual, solver, start, args=data, max_steps=256, throw=False).value

    return jax.vmap(one)(data)


@jax.jit
def valley(start):
    def rosenbrock(x, _):
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    return optx.minimise(rosenbrock, optx.BFGS(rtol=1e-8, atol=1e-8), start, max_steps=1000).value


@jax.jit
def root(temperatures):
    """The temperature profiles of a rod that radiates heat."""

    def balance(x, ends):
        x = jnp.concatenate([ends[:1], x, ends[1:]])
        return x[2:] - 2 * x[1:-1] + x[:-2] - 1e-3 * x[1:-1] ** 4

    def one(ends):
        return optx.root_find(balance, optx.Newton(rtol=1e-8, atol=1e-8), jnp.ones(30), args=ends).value

    return jax.vmap(one)(temperatures)


@jax.jit
def systems(matrix, rhs):
    spd = matrix @ matrix.T + UNKNOWNS * jnp.eye(UNKNOWNS)
    positive = lx.MatrixLinearOperator(spd, lx.positive_semidefinite_tag)
    tall = lx.MatrixLinearOperator(matrix[:, : UNKNOWNS // 2])
    conjugate = lx.linear_solve(positive, rhs, lx.CG(rtol=1e-9, atol=1e-9)).value
    cholesky = lx.linear_solve(positive, rhs, lx.Cholesky()).value
    lu = lx.linear_solve(lx.MatrixLinearOperator(spd + matrix), rhs, lx.LU()).value
    qr = lx.linear_solve(tall, rhs, lx.QR()).value
    gmres = lx.linear_solve(lx.MatrixLinearOperator(spd + matrix), rhs, lx.GMRES(1e-8, 1e-8)).value
    return conjugate, cholesky, lu, qr, gmres


random = np.random.default_rng(0)
t = np.linspace(0.0, 4.0, POINTS)
curves = [
    a * np.exp(-b * t) * np.cos(w * t)
    for a, b, w in random.uniform((1, 0.3, 2.8), (2, 0.6, 3.2), (CURVES, 3))
]
timer = Timer()
fitted = timer(fit, jnp.asarray(curves) + 0.01 * random.standard_normal((CURVES, POINTS)))
minimum = timer(valley, jnp.linspace(-1.0, 1.0, 10))
profiles = timer(root, jnp.asarray(random.uniform(1.0, 3.0, (32, 2))))
solutions = timer(systems, jnp.asarray(random.standard_normal((UNKNOWNS, UNKNOWNS))), jnp.ones(UNKNOWNS))
results = {
    "fitted": fitted[::16],
    "minimum": minimum,
    "profiles": profiles[::8],
    "solutions": jnp.concatenate(solutions)[::50],
}
finish("solvers", timer, results, rtol=1e-5, atol=1e-6)
