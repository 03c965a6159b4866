"""Sparse matrices and iterative solvers."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import sparse
from jax.scipy.sparse.linalg import cg, gmres

from bench_lib.cliffs.program import Made, integers, normal, program


def grid_laplacian(x):
    padded = jnp.pad(x, 1)
    return 4 * x - padded[2:, 1:-1] - padded[:-2, 1:-1] - padded[1:-1, 2:] - padded[1:-1, :-2]


def diagonally_dominant(n: int) -> np.ndarray:
    a = normal(n, n) / n
    return a + a.T + 2 * np.eye(n, dtype=np.float32)


@program("product of BCOO and a vector", "jax-ml/jax#9013", (1000, 16000))
def coo(n: int) -> Made:
    def run(data, indices, x):
        return sparse.BCOO((data, indices), shape=(n, n)) @ x

    return run, (normal(10 * n), integers(n, 10 * n, 2, seed=1), normal(n, seed=2))


@program(
    "conjugate gradients on a grid, 50 steps by hand",
    "common use: Poisson's equation",
    (32, 128),
    tolerance=1e-2,
)
def gradients(n: int) -> Made:
    def run(b):
        def step(i, s):
            x, r, p, rr = s
            ap = grid_laplacian(p)
            alpha = rr / jnp.vdot(p, ap)
            x, r = x + alpha * p, r - alpha * ap
            new = jnp.vdot(r, r)
            return x, r, r + new / rr * p, new

        return lax.fori_loop(0, 50, step, (jnp.zeros_like(b), b, b, jnp.vdot(b, b)))[0]

    return run, (normal(n, n),)


@program("jax.scipy cg, dense", "common use: cg to a tolerance", (128, 512), tolerance=1e-2)
def dense_cg(n: int) -> Made:
    return lambda a, b: cg(a, b, tol=1e-5)[0], (diagonally_dominant(n), normal(n, seed=1))


@program("GMRES", "jax-ml/jax#9259", (64, 256), tolerance=1e-2)
def generalized(n: int) -> Made:
    return lambda a, b: gmres(a, b, tol=1e-5, restart=20)[0], (diagonally_dominant(n), normal(n, seed=1))


@program("Jacobi's iteration to a tolerance", "common use: while over a residual", (128, 512), tolerance=1e-2)
def jacobi(n: int) -> Made:
    def run(a, b):
        diagonal = jnp.diag(a)

        def step(s):
            x, _, i = s
            new = (b - a @ x + diagonal * x) / diagonal
            return new, jnp.max(jnp.abs(new - x)), i + 1

        return lax.while_loop(lambda s: (s[1] > 1e-5) & (s[2] < 100), step, (b, jnp.float32(1), 0))[0]

    return run, (diagonally_dominant(n), normal(n, seed=1))


@program("Gauss-Seidel, element by element", "jax-ml/jax#10197", (64, 256), tolerance=1e-3)
def gauss_seidel(n: int) -> Made:
    def run(a, b):
        def row(i, x):
            return x.at[i].add((b[i] - jnp.dot(a[i], x)) / a[i, i])

        return lax.fori_loop(0, 4, lambda _, x: lax.fori_loop(0, n, row, x), jnp.zeros(n))

    return run, (diagonally_dominant(n), normal(n, seed=1))


@program("tridiagonal system, lax.linalg", "patrick-kidger/lineax#145", (400, 6400), tolerance=1e-3)
def tridiagonal(n: int) -> Made:
    def run(d, lower, upper, b):
        return lax.linalg.tridiagonal_solve(lower, d, upper, b[:, None])

    lower, upper = normal(n) / 3, normal(n, seed=1) / 3
    lower[0] = upper[-1] = 0
    return run, (np.abs(normal(n, seed=2)) + 2, lower, upper, normal(n, seed=3))


@program(
    "Thomas algorithm by two scans, 32 systems", "patrick-kidger/lineax#152", (100, 1000), tolerance=1e-3
)
def thomas(n: int) -> Made:
    def run(lower, d, upper, b):
        def down(s, x):
            c, y = s
            low, mid, up, right = x
            pivot = mid - low * c
            s = up / pivot, (right - low * y) / pivot
            return s, s

        def back(x, s):
            x = s[1] - s[0] * x
            return x, x

        zero = jnp.zeros(32)
        kept = lax.scan(down, (zero, zero), (lower, d, upper, b))[1]
        return lax.scan(back, zero, kept, reverse=True)[1]

    return run, (
        normal(n, 32) / 3,
        np.abs(normal(n, 32, seed=1)) + 2,
        normal(n, 32, seed=2) / 3,
        normal(n, 32),
    )
