"""Jobs of linear algebra: products and factorizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench_lib.libraries.job import Arrays, jnp, job, lax, linalg, normal, torch


def product(name: str, source: str, m: int, n: int, k: int, dtype: Any = np.float32) -> None:
    job(f"matmul {name}", source, normal((m, k), (k, n), dtype=dtype), lambda a, b: a @ b, onnx=True,
        flops=2 * m * n * k, numpy=np.matmul, torch=lambda a, b: a @ b)  # fmt: skip


def matrix(n: int, symmetric: bool = False):
    def made() -> Arrays:
        x = np.random.default_rng(0).standard_normal((n, n))
        return ((x @ x.T / n + np.eye(n) if symmetric else x).astype(np.float32),)

    return made


def system(n: int, columns: int):
    def made() -> Arrays:
        x = np.random.default_rng(0).standard_normal((n, n)) + n * np.eye(n)
        return x.astype(np.float32), normal((n, columns))()[0]

    return made


for size in (64, 128, 256, 512, 1024, 2048):
    product(str(size), "bench kernels" if size in (128, 1024) else "issue 21", size, size, size)
product("128x768 by 768x3072", "bench kernels; BERT", 128, 3072, 768)
product("128x3072 by 3072x768", "bench kernels; BERT", 128, 768, 3072)
product("8192x64 by 64x64", "heads of attention", 8192, 64, 64)
product("512, f64", "NumPy's default type", 512, 512, 512, np.float64)
job(
    "64 matmuls 128x64 by 64x128",
    "scores of attention",
    normal((64, 128, 64), (64, 64, 128)),
    lambda a, b: a @ b,
    onnx=True,
    flops=64 * 2 * 128 * 128 * 64,
    numpy=np.matmul,
    torch=lambda a, b: a @ b,
)
job(
    "1024x1024 by a vector",
    "issue 21, gemv with weights in cache",
    normal((1024, 1024), (1024,)),
    lambda a, b: a @ b,
    onnx=True,
    flops=2 << 20,
    numpy=np.matmul,
    torch=lambda a, b: a @ b,
)
job(
    "a vector by 2048x2048",
    "a layer at batch 1",
    normal((2048,), (2048, 2048)),
    lambda a, b: a @ b,
    onnx=True,
    flops=8 << 20,
    numpy=np.matmul,
    torch=lambda a, b: a @ b,
)

job(
    "Cholesky, 300",
    "issue 21; Gaussian processes",
    matrix(300, True),
    lambda x: jnp.linalg.cholesky(x),
    flops=300**3 / 3,
    numpy=np.linalg.cholesky,
    scipy=lambda x: linalg.cholesky(x, lower=True),
    torch=lambda x: torch.linalg.cholesky(x),
)
job(
    "LU, 300",
    "issue 21, LAPACK-like routines",
    matrix(300),
    lambda x: lax.linalg.lu(x)[0],
    flops=2 * 300**3 / 3,
    scipy=lambda x: linalg.lu_factor(x)[0],
    torch=lambda x: torch.linalg.lu_factor(x)[0],
    tolerance=1e-3,
)
job(
    "QR, 200",
    "issue 21, LAPACK-like routines",
    matrix(200),
    lambda x: jnp.linalg.qr(x)[1],
    flops=8 * 200**3 / 3,
    numpy=lambda x: np.linalg.qr(x)[1],
    scipy=lambda x: linalg.qr(x, mode="economic")[1],
    torch=lambda x: torch.linalg.qr(x)[1],
    tolerance=1e-3,
    view=lambda x: np.abs(np.asarray(x)),
)
job(
    "eigh, 100",
    "issue 21; covariance matrices",
    matrix(100, True),
    lambda x: jnp.linalg.eigh(x),
    flops=9 * 100**3,
    numpy=np.linalg.eigh,
    scipy=lambda x: linalg.eigh(x),
    torch=lambda x: torch.linalg.eigh(x),
    tolerance=1e-3,
    view=lambda x: x[0],
)
job(
    "SVD, 100",
    "issue 21; low-rank models",
    matrix(100),
    lambda x: jnp.linalg.svd(x),
    flops=22 * 100**3,
    numpy=np.linalg.svd,
    scipy=lambda x: linalg.svd(x),
    torch=lambda x: torch.linalg.svd(x),
    tolerance=1e-3,
    view=lambda x: x[1],
)
job(
    "solve, 400",
    "issue 21; np.linalg.solve",
    system(400, 1),
    lambda a, b: jnp.linalg.solve(a, b),
    flops=2 * 400**3 / 3,
    numpy=np.linalg.solve,
    scipy=lambda a, b: linalg.solve(a, b),
    torch=lambda a, b: torch.linalg.solve(a, b),
)
job(
    "triangular solve, 400 by 64",
    "Gaussian processes",
    system(400, 64),
    lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
    flops=400**2 * 64,
    scipy=lambda a, b: linalg.solve_triangular(a, b, lower=True),
    torch=lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
)
