"""Fourier transforms."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from bench_lib.cliffs.program import Made, normal, program


@program("transform and neighbours that could be fused", "jax-ml/jax#39081", (4096, 65536), tolerance=1e-3)
def fused(n: int) -> Made:
    return lambda x: jnp.abs(jnp.fft.fft(x * jnp.hanning(n))) ** 2, (normal(n),)


@program("low-pass filter by rfft and irfft", "jax-ml/jax#14664", (1000, 16000), tolerance=1e-3)
def low_pass(n: int) -> Made:
    def run(x):
        return jnp.fft.irfft(jnp.fft.rfft(x) * jnp.exp(-jnp.arange(n // 2 + 1) / 50), n)

    return run, (normal(4, n),)


@program("transform of odd length", "common use: lengths that are primes", (1021, 16381), tolerance=1e-2)
def odd(n: int) -> Made:
    return lambda x: jnp.abs(jnp.fft.fft(x)), (normal(n),)


@program("spectrogram of overlapping frames", "common use: audio", (4096, 65536), tolerance=1e-3)
def spectrogram(n: int) -> Made:
    def run(x):
        starts = jnp.arange(0, n - 255, 64)
        frames = x[starts[:, None] + jnp.arange(256)]
        return jnp.log1p(jnp.abs(jnp.fft.rfft(frames * jnp.hamming(256))))

    return run, (normal(n),)


@program("FIR filter of 64 taps by jnp.convolve", "common use: signals", (2000, 32000), tolerance=1e-3)
def fir(n: int) -> Made:
    return lambda x, w: jnp.convolve(x, w, mode="same"), (normal(n), normal(64, seed=1))


@program("Schroedinger's equation, split steps", "common use: FFTs in a loop", (128, 1024), tolerance=1e-2)
def split_steps(n: int) -> Made:
    def run(re, im, potential):
        k = 2 * jnp.pi * jnp.fft.fftfreq(n, 0.1)
        free, turn = jnp.exp(-0.5j * k * k * 0.01), jnp.exp(-1j * potential * 0.01)
        step = lambda i, psi: turn * jnp.fft.ifft(free * jnp.fft.fft(turn * psi))  # noqa: E731
        return jnp.abs(lax.fori_loop(0, 20, step, (re + 1j * im).astype(jnp.complex64)))

    x = np.linspace(-5, 5, n).astype(np.float32)
    return run, (np.exp(-(x**2)), np.zeros(n, np.float32), x * x)
