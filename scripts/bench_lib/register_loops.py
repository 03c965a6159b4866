"""Loops whose state is a few numbers, compared with the same loop in C (`cc -O2 -march=native`): once with
each operation rounded, as HLO demands (`-ffp-contract=off`), and once with the default of the compiler.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bench_lib import peers
from bench_lib.row import Effort, Row, timed
from bench_lib.timing import compare

GOAL = 1.1
"""The largest ratio to C's time."""


@dataclass(frozen=True)
class RegisterLoop:
    """A loop in JAX, `run(trips, *state)`, which returns the state after the trips, and in C: the body of
    `void run(int64_t trips, ...)`, which changes the state in place.
    """

    name: str
    run: Callable[..., Any]
    parameters: str  # those of the C function, after `trips`
    source: str
    state: tuple[np.ndarray, ...]
    trips: int = 200_000
    tolerance: float = 1e-4


def _fori(step: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function (trips, *state) that applies `step` to the state `trips` times, in a loop of XLA."""

    def run(trips: Any, *state: Any) -> Any:
        return lax.fori_loop(0, trips, lambda i, s: step(*s), state)

    return run


def _f32(*values: Any) -> np.ndarray:
    return np.asarray(values if len(values) > 1 else values[0], np.float32)


def _f64(*values: Any) -> np.ndarray:
    return np.asarray(values if len(values) > 1 else values[0], np.float64)


def _collatz(trips: Any, start: Any, steps: Any) -> Any:
    def chain(n: Any) -> Any:
        def step(s: Any) -> Any:
            n, steps = s
            return jnp.where(n % 2 == 0, n >> 1, 3 * n + 1), steps + 1

        return lax.while_loop(lambda s: s[0] != 1, step, (n, jnp.int64(0)))[1]

    return start, lax.fori_loop(0, trips, lambda i, steps: steps + chain(start + i), steps)


def _gcd(trips: Any, total: Any) -> Any:
    def gcd(a: Any, b: Any) -> Any:
        return lax.while_loop(lambda s: s[1] != 0, lambda s: (s[1], s[0] % s[1]), (a, b))[0]

    def step(i: Any, total: Any) -> Any:
        return total + gcd(i.astype(jnp.int32) + 1_000_000, jnp.int32(720_720))

    return (lax.fori_loop(0, trips, step, total),)


def _matrix(a: Any) -> Callable[..., Any]:
    return _fori(lambda m: ((m @ a) * m.dtype.type(0.5) + m.dtype.type(0.25) * m,))


def _kalman(x: Any, p: Any, t: Any) -> Any:
    f, h = _f32([1.0, 0.1], [0.0, 1.0]), _f32(1, 0)
    x, p = f @ x, f @ p @ f.T + 0.01 * np.eye(2, dtype=np.float32)
    s = h @ p @ h + 0.5
    k = p @ h / s
    x = x + k * (t - h @ x)
    return x, p - jnp.outer(k, h @ p), 0.9 * t + 0.1


def _lorenz(s: Any) -> Any:
    def f(s: Any) -> Any:
        x, y, z = s
        return jnp.stack([10 * (y - x), x * (10 - z) - y, x * y - (8 / 3) * z])

    k1 = f(s)
    k2 = f(s + 0.005 * k1)
    k3 = f(s + 0.005 * k2)
    k4 = f(s + 0.01 * k3)
    return (s + (0.01 / 6) * (k1 + 2 * k2 + 2 * k3 + k4),)


def _xorshift(x: Any) -> Any:
    x ^= x << 13
    x ^= x >> 17
    return (x ^ (x << 5),)


def _escapes(trips: Any, c: Any, counts: Any) -> Any:
    def one(c: Any, count: Any) -> Any:
        def step(s: Any) -> Any:
            z, n = s
            return z * z + c, n + 1

        return lax.while_loop(
            lambda s: (s[0] < 4) & (s[1] < trips.astype(jnp.int32)), step, (jnp.float32(0), count)
        )[1]

    return c, jax.vmap(one)(c, counts)


def _nested(trips: Any, x: Any) -> Any:
    def row(i: Any, x: Any) -> Any:
        return lax.fori_loop(0, 16, lambda j, x: x * 0.5 + (i ^ j).astype(jnp.float32), x)

    return (lax.fori_loop(0, trips, row, x),)


_A2, _A3 = np.array([[0.5, 0.25], [0.75, 0.5]], np.float32), np.eye(3) * 0.9 + 0.1

LOOPS = (
    RegisterLoop(
        "f32 recurrence", _fori(lambda x, y: (x * 0.75 + y, y * 0.5 - x * 0.25 + 1)), "float *x, float *y",
        """float a = *x, b = *y;
        for (int64_t i = 0; i < trips; i++) { float c = a * 0.75f + b; b = b * 0.5f - a * 0.25f + 1; a = c; }
        *x = a; *y = b;""", (_f32(0.5), _f32(0.25)), 500_000,
    ),
    RegisterLoop(
        "f64 logistic map", _fori(lambda x: (2.9 * x * (1 - x),)), "double *x",
        """double a = *x;
        for (int64_t i = 0; i < trips; i++) a = 2.9 * a * (1 - a);
        *x = a;""", (_f64(0.4),), 500_000,
    ),
    RegisterLoop(
        "s64 congruential generator", _fori(lambda x: (x * 6364136223846793005 + 1442695040888963407,)),
        "int64_t *x",
        """uint64_t a = *x;
        for (int64_t i = 0; i < trips; i++) a = a * 6364136223846793005u + 1442695040888963407u;
        *x = a;""", (np.asarray(7, np.int64),), 500_000,
    ),
    RegisterLoop(
        "Collatz, s64", _collatz, "int64_t *start, int64_t *steps",
        """int64_t total = *steps;
        for (int64_t i = 0; i < trips; i++) {
            int64_t n = *start + i, k = 0;
            while (n != 1) { n = n % 2 == 0 ? n >> 1 : 3 * n + 1; k++; }
            total += k;
        }
        *steps = total;""", (np.asarray(1000, np.int64), np.asarray(0, np.int64)), 5_000, 0,
    ),
    RegisterLoop(
        "Euclid's algorithm, s32", _gcd, "int32_t *total",
        """int32_t sum = *total;
        for (int64_t i = 0; i < trips; i++) {
            int32_t a = (int32_t)i + 1000000, b = 720720;
            while (b != 0) { int32_t r = a % b; a = b; b = r; }
            sum += a;
        }
        *total = sum;""", (np.asarray(0, np.int32),), 20_000, 0,
    ),
    RegisterLoop(
        "Newton's iteration, f64", _fori(lambda x, a: (0.5 * (x + a / x), a * 1.0000001)),
        "double *x, double *a",
        """double v = *x, b = *a;
        for (int64_t i = 0; i < trips; i++) { v = 0.5 * (v + b / v); b = b * 1.0000001; }
        *x = v; *a = b;""", (_f64(1), _f64(2)),
    ),
    RegisterLoop(
        "xorshift of 16 lanes", _fori(_xorshift), "uint32_t *x",
        """uint32_t v[16];
        for (int k = 0; k < 16; k++) v[k] = x[k];
        for (int64_t i = 0; i < trips; i++)
            for (int k = 0; k < 16; k++) { v[k] ^= v[k] << 13; v[k] ^= v[k] >> 17; v[k] ^= v[k] << 5; }
        for (int k = 0; k < 16; k++) x[k] = v[k];""",
        (np.arange(1, 17, dtype=np.uint32) * 2654435761,), 500_000, 0,
    ),
    RegisterLoop(
        "2x2 matrices, f32", _matrix(_A2), "float *m",
        """const float a[4] = {0.5f, 0.25f, 0.75f, 0.5f};
        float v[4] = {m[0], m[1], m[2], m[3]};
        for (int64_t i = 0; i < trips; i++) {
            float w[4];
            for (int r = 0; r < 2; r++) for (int c = 0; c < 2; c++)
                w[2 * r + c] = (v[2 * r] * a[c] + v[2 * r + 1] * a[2 + c]) * 0.5f + 0.25f * v[2 * r + c];
            for (int k = 0; k < 4; k++) v[k] = w[k];
        }
        for (int k = 0; k < 4; k++) m[k] = v[k];""", (_f32([[1, 2], [3, 4]]),),
    ),
    RegisterLoop(
        "3x3 matrices, f64", _matrix(_A3), "double *m",
        """double a[9], v[9];
        for (int k = 0; k < 9; k++) { a[k] = k % 4 == 0 ? 1.0 : 0.1; v[k] = m[k]; }
        for (int64_t i = 0; i < trips; i++) {
            double w[9];
            for (int r = 0; r < 3; r++) for (int c = 0; c < 3; c++) {
                double s = 0;
                for (int k = 0; k < 3; k++) s += v[3 * r + k] * a[3 * k + c];
                w[3 * r + c] = s * 0.5 + 0.25 * v[3 * r + c];
            }
            for (int k = 0; k < 9; k++) v[k] = w[k];
        }
        for (int k = 0; k < 9; k++) m[k] = v[k];""", (np.arange(9.0).reshape(3, 3),), 100_000,
    ),
    RegisterLoop(
        "Kalman filter of two states, f32", _fori(_kalman), "float *px, float *pp, float *pt",
        """const float f[4] = {1, 0.1f, 0, 1}, h[2] = {1, 0};
        float x[2] = {px[0], px[1]}, p[4] = {pp[0], pp[1], pp[2], pp[3]}, t = *pt;
        for (int64_t i = 0; i < trips; i++) {
            float y[2], q[4], r[4];
            for (int k = 0; k < 2; k++) y[k] = f[2 * k] * x[0] + f[2 * k + 1] * x[1];
            for (int k = 0; k < 2; k++) for (int l = 0; l < 2; l++)
                q[2 * k + l] = f[2 * k] * p[l] + f[2 * k + 1] * p[2 + l];
            for (int k = 0; k < 2; k++) for (int l = 0; l < 2; l++)
                r[2 * k + l] = q[2 * k] * f[2 * l] + q[2 * k + 1] * f[2 * l + 1] + (k == l ? 0.01f : 0);
            float ph[2], hp[2], s = 0.5f, z = t - (h[0] * y[0] + h[1] * y[1]);
            for (int k = 0; k < 2; k++) ph[k] = r[2 * k] * h[0] + r[2 * k + 1] * h[1];
            for (int l = 0; l < 2; l++) hp[l] = h[0] * r[l] + h[1] * r[2 + l];
            s += hp[0] * h[0] + hp[1] * h[1];
            for (int k = 0; k < 2; k++) {
                float gain = ph[k] / s;
                x[k] = y[k] + gain * z;
                for (int l = 0; l < 2; l++) p[2 * k + l] = r[2 * k + l] - gain * hp[l];
            }
            t = 0.9f * t + 0.1f;
        }
        px[0] = x[0]; px[1] = x[1]; pp[0] = p[0]; pp[1] = p[1]; pp[2] = p[2]; pp[3] = p[3]; *pt = t;""",
        (_f32(0, 1), _f32([[1, 0], [0, 1]]), _f32(2)), 100_000,
    ),
    RegisterLoop(
        "Lorenz by Runge and Kutta, f64", _fori(_lorenz), "double *s",
        """double x = s[0], y = s[1], z = s[2];
        for (int64_t i = 0; i < trips; i++) {
            double k[4][3], h[3] = {0.005, 0.005, 0.01}, u = x, v = y, w = z;
            for (int n = 0; n < 4; n++) {
                k[n][0] = 10 * (v - u); k[n][1] = u * (10 - w) - v; k[n][2] = u * v - (8.0 / 3) * w;
                if (n < 3) { u = x + h[n] * k[n][0]; v = y + h[n] * k[n][1]; w = z + h[n] * k[n][2]; }
            }
            x += (0.01 / 6) * (k[0][0] + 2 * k[1][0] + 2 * k[2][0] + k[3][0]);
            y += (0.01 / 6) * (k[0][1] + 2 * k[1][1] + 2 * k[2][1] + k[3][1]);
            z += (0.01 / 6) * (k[0][2] + 2 * k[1][2] + 2 * k[2][2] + k[3][2]);
        }
        s[0] = x; s[1] = y; s[2] = z;""", (_f64(1, 1, 1),), 100_000,
    ),
    RegisterLoop(
        "vmap of a while, 16 lanes", _escapes, "float *c, int32_t *counts",
        """float z[16]; int32_t n[16];
        for (int k = 0; k < 16; k++) { z[k] = 0; n[k] = counts[k]; }
        for (int any = 1; any;) {
            any = 0;
            for (int k = 0; k < 16; k++) {
                int on = (z[k] < 4) & (n[k] < trips);
                z[k] = on ? z[k] * z[k] + c[k] : z[k];
                n[k] += on;
            }
            for (int k = 0; k < 16; k++) any |= (z[k] < 4) & (n[k] < trips);
        }
        for (int k = 0; k < 16; k++) counts[k] = n[k];""",
        (np.linspace(-1, 0.25, 16, dtype=np.float32), np.zeros(16, np.int32)), 100_000, 0,
    ),
    RegisterLoop(
        "nested loops", _nested, "float *x",
        """float a = *x;
        for (int64_t i = 0; i < trips; i++)
            for (int64_t j = 0; j < 16; j++) a = a * 0.5f + (float)(i ^ j);
        *x = a;""", (_f32(1),), 30_000,
    ),
)  # fmt: skip


def register_loops(effort: Effort) -> Iterator[Row]:
    """Rows for the loops, compared with C; none without a C compiler."""
    import axla
    import axla.jax

    for loop in LOOPS:
        if effort.only not in loop.name:
            continue
        with_fma = peers.c_function(_source(loop), "run", "-march=native")
        c = peers.c_function(_source(loop), "run", "-march=native", "-ffp-contract=off")
        if with_fma is None or c is None:
            return
        with jax.enable_x64(True):
            trips = np.int64(loop.trips)
            ours = axla.jax.jit(loop.run, results="axla")
            arrays = [axla.device_put(a) for a in (trips, *loop.state)]
            found = [np.asarray(x) for x in jax.block_until_ready(ours(*arrays))]
        own = [np.array(a) for a in loop.state]
        places = [ctypes.c_void_p(a.ctypes.data) for a in own]
        c(ctypes.c_int64(loop.trips), *places)
        peers.check(loop.name, found, own, loop.tolerance)
        calls = {"axla": _call(ours, arrays), "C": _c_call(c, loop), "C, fma": _c_call(with_fma, loop)}
        times = compare(calls, effort.rounds, effort.seconds)
        has_floats = "float" in loop.parameters or "double" in loop.parameters
        for peer in ("C", "C, fma") if has_floats else ("C",):
            goal = GOAL if peer == "C" else None  # HLO defines the rounding
            yield timed(effort, "loops", f"{loop.name}, {loop.trips} trips", times, peer, goal=goal)


def _call(ours: Callable[..., Any], arrays: list[Any]) -> Callable[[], Any]:
    def call() -> Any:
        with jax.enable_x64(True):
            return jax.block_until_ready(ours(*arrays))

    return call


def _c_call(c: Any, loop: RegisterLoop) -> Callable[[], Any]:
    """Returns a call of the C loop, which begins with the initial state."""
    own = [np.array(a) for a in loop.state]
    places = [ctypes.c_void_p(a.ctypes.data) for a in own]

    def call() -> Any:
        for a, first in zip(own, loop.state, strict=True):
            a[...] = first
        c(ctypes.c_int64(loop.trips), *places)

    return call


def _source(loop: RegisterLoop) -> str:
    return f"#include <stdint.h>\nvoid run(int64_t trips, {loop.parameters}) {{\n{loop.source}\n}}\n"
