"""Images and convolutions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.ndimage import map_coordinates

from bench_lib.cliffs.program import Made, normal, program, uniform

NHWC = ("NHWC", "HWIO", "NHWC")


@program("resize, bilinear, to half and to double", "jax-ml/jax#8452", (32, 128), tolerance=1e-3)
def resize(n: int) -> Made:
    def run(x):
        half = jax.image.resize(x, (n // 2, n // 2, 3), "bilinear")
        return half, jax.image.resize(x, (2 * n, 2 * n, 3), "bilinear")

    return run, (uniform(n, n, 3),)


@program("blur of Gauss, separable", "common use: smoothing", (96, 320))
def blur(n: int) -> Made:
    def run(x):
        w = jnp.exp(-0.5 * (jnp.arange(-4, 5) / 1.5) ** 2)
        w = w / w.sum()
        rows = sum(w[k] * jnp.roll(x, k - 4, 0) for k in range(9))
        return sum(w[k] * jnp.roll(rows, k - 4, 1) for k in range(9))

    return run, (uniform(n, n),)


@program("depthwise convolution 3x3", "pytorch/pytorch#13716", (14, 56), tolerance=1e-3)
def depthwise(n: int) -> Made:
    def run(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=NHWC, feature_group_count=64)

    return run, (normal(1, n, n, 64), normal(3, 3, 1, 64, seed=1))


@program("gradient of a depthwise convolution's kernel", "openxla/xla#34273", (14, 56), tolerance=1e-2)
def depthwise_gradient(n: int) -> Made:
    def loss(w, x):
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=NHWC, feature_group_count=32)
        return jnp.sum(y * y) * 1e-3

    return jax.grad(loss), (normal(3, 3, 1, 32, seed=1), normal(2, n, n, 32))


@program("max pooling and its gradient", "common use: scatter by select-and-scatter", (32, 128))
def pooling(n: int) -> Made:
    def loss(x):
        y = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jnp.sum(y * y)

    return jax.grad(loss), (normal(1, n, n, 16),)


@program("median of 3x3 windows", "common use: denoising by a small sort", (32, 128))
def median(n: int) -> Made:
    def run(x):
        parts = [jnp.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        return jnp.median(jnp.stack(parts), axis=0)

    return run, (uniform(n, n),)


@program("integral image and box filter", "common use: two cumulative sums", (64, 256), tolerance=1e-2)
def integral(n: int) -> Made:
    def run(x):
        s = jnp.cumsum(jnp.cumsum(jnp.pad(x, ((1, 0), (1, 0))), 0), 1)
        return (s[9:, 9:] - s[:-9, 9:] - s[9:, :-9] + s[:-9, :-9]) / 81

    return run, (uniform(n, n),)


@program("affine warp with bilinear samples", "jax-ml/jax#2282", (64, 256), tolerance=1e-2)
def warp(n: int) -> Made:
    def run(x, matrix):
        grid = jnp.stack(jnp.meshgrid(jnp.arange(n), jnp.arange(n), indexing="ij")).astype(jnp.float32)
        places = jnp.tensordot(matrix, grid - n / 2, 1) + n / 2
        return map_coordinates(x, list(places), order=1, mode="nearest")

    return run, (uniform(n, n), np.array([[0.9, 0.2], [-0.2, 0.9]], np.float32))
