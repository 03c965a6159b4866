"""Linear algebra and optimisation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import cho_solve, expm

from bench_lib.cliffs.program import Made, normal, program, uniform


def positive(*shape: int) -> np.ndarray:
    a = normal(*shape)
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1], dtype=np.float32)


@program("many systems of 3x3", "jax-ml/jax#36927", (256, 4096), tolerance=1e-2)
def solves(n: int) -> Made:
    return lambda a, b: jnp.linalg.solve(a, b[..., None]), (positive(n, 3, 3), normal(n, 3, seed=1))


@program("many inverses and determinants of 4x4", "jax-ml/jax#1139", (256, 4096), tolerance=1e-2)
def inverses(n: int) -> Made:
    return lambda a: (jnp.linalg.inv(a), jnp.linalg.det(a)), (positive(n, 4, 4),)


@program("many eigenvalues of 4x4", "jax-ml/jax#693", (64, 1024), tolerance=1e-2)
def eigenvalues(n: int) -> Made:
    return jnp.linalg.eigvalsh, (positive(n, 4, 4),)


@program("exponential of matrices", "jax-ml/jax#15195", (8, 128), tolerance=1e-2)
def exponential(n: int) -> Made:
    return expm, (normal(n, 6, 6) / 3,)


@program("Gaussian process: Cholesky, gradient", "common use: marginal likelihood", (48, 192), tolerance=0.05)
def gaussian_process(n: int) -> Made:
    def loss(scale, x, y):
        k = jnp.exp(-0.5 * ((x[:, None] - x) / scale) ** 2) + 0.1 * jnp.eye(n)
        c = jnp.linalg.cholesky(k)
        return 0.5 * y @ cho_solve((c, True), y) + jnp.sum(jnp.log(jnp.diag(c)))

    return jax.value_and_grad(loss), (np.float32(0.3), uniform(n), normal(n, seed=1))


@program("least squares by QR", "common use: regressions", (256, 4096), tolerance=1e-2)
def least_squares(n: int) -> Made:
    def run(x, y):
        q, r = jnp.linalg.qr(x)
        return jax.scipy.linalg.solve_triangular(r, q.T @ y)

    return run, (normal(n, 16), normal(n, seed=1))


@program("L-BFGS: directions by two loops", "common use: optax, jaxopt", (256, 4096), tolerance=1e-2)
def lbfgs(n: int) -> Made:
    def value(x):
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    def run(x):
        def step(s, _):
            x, g, ss, ys = s

            def back(q, p):
                alpha = jnp.dot(p[0], q) / (jnp.dot(p[0], p[1]) + 1e-8)
                return q - alpha * p[1], alpha

            def ahead(r, p):
                return r + p[0] * (p[2] - jnp.dot(p[1], r) / (jnp.dot(p[0], p[1]) + 1e-8)), None

            q, alphas = lax.scan(back, g, (ss, ys))
            r = lax.scan(ahead, 0.001 * q, (ss, ys, alphas), reverse=True)[0]
            new = x - 0.05 * r
            slope = jax.grad(value)(new)
            ss, ys = (jnp.roll(b, 1, 0).at[0].set(d) for b, d in ((ss, new - x), (ys, slope - g)))
            return (new, slope, ss, ys), value(new)

        empty = jnp.zeros((5, n))
        return lax.scan(step, (x, jax.grad(value)(x), empty, empty), length=10)[1]

    return run, (uniform(n) * 0.1,)


@program("Newton's method with a Hessian", "common use: small fits", (16, 96), tolerance=1e-2)
def newton(n: int) -> Made:
    def loss(w, x, y):
        return jnp.mean(jax.nn.softplus(-y * (x @ w))) + 0.01 * jnp.dot(w, w)

    def run(w, x, y):
        def step(i, w):
            return w - jnp.linalg.solve(jax.hessian(loss)(w, x, y), jax.grad(loss)(w, x, y))

        return lax.fori_loop(0, 5, step, w)

    return run, (np.zeros(n, np.float32), normal(200, n), np.sign(normal(200, seed=1)))


@program("products of complex matrices, batched", "EnzymeAD/Reactant.jl#3019", (128, 2048), tolerance=1e-3)
def complex_products(n: int) -> Made:
    def run(a, b):
        return jnp.einsum("bij,bjk->bik", a, b)

    a = (normal(n, 4, 4) + 1j * normal(n, 4, 4, seed=1)).astype(np.complex64)
    return run, (a, a[::-1].copy())
